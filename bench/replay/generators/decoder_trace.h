// The allocator's view of training a Llama-like decoder on batches of changing length, with the
// stream patterns of real jobs.
//
// Owns: the sequence of tensors that one step of such a training asks for and drops. Promises:
// depends on nothing but the options; the same options give the same trace everywhere. Sizes follow
// the shapes (tokens x width x bytes of the type), the order follows an eager forward and backward
// pass, with or without recomputing activations. Not modelled: workspaces of libraries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/replay/op_trace.h"

namespace levee::replay {

enum class LengthKind : std::uint8_t { kFixed, kConversation, kCode, kLogNormal };

enum class SidePattern : std::uint8_t {
  kNone,
  kPrefetch,  ///< a loader stream makes the next batch, which the main stream then uses
  kFsdp,  ///< a layer's weights gathered on stream 1, used on the main stream; gradients reduced on
          ///< stream 2
  kOneShot,  ///< twelve blocks of 64 to 512 MiB on a stream that is never used again
  kMulti,    ///< two buffers a layer on `side_streams` streams in turn
};

struct DecoderOptions {
  std::string name;
  LengthKind lengths = LengthKind::kConversation;
  bool recompute = false;
  bool lora = false;
  SidePattern side = SidePattern::kNone;
  std::uint32_t side_streams = 1;  ///< for kMulti
  std::uint32_t steps = 200;
  std::uint32_t layers = 24;
  std::uint64_t width = 2048;
  std::uint64_t ffn = 5504;
  std::uint64_t words = 32000;
  std::uint64_t heads = 16;
  std::uint32_t batch = 4;
  std::uint32_t pad_to = 1;      ///< lengths are rounded up to a multiple of this
  std::uint32_t eval_every = 0;  ///< five forward passes after every so many steps; 0 = never
  std::uint32_t scale_permille = 1000;  ///< tokens of every step, against `batch` sequences
  std::uint32_t seed = 1;
};

/// Lengths of requests recorded from services, in tokens, as the caller read them
/// (bench/workloads/data).
struct RecordedLengths {
  std::vector<std::uint32_t> conversation;
  std::vector<std::uint32_t> code;
};

OpTrace decoder_trace(const DecoderOptions& options, const RecordedLengths& recorded);

/// The sixteen named single-stream traces: {fixed, conv, code, logn} x {plain, recompute} x {full,
/// LoRA}.
std::vector<DecoderOptions> named_decoder_traces(std::uint32_t seed);
/// The twenty-four named stream traces: six patterns x {conv, logn} x {plain, recompute}, 100
/// steps.
std::vector<DecoderOptions> named_stream_traces(std::uint32_t seed);

}  // namespace levee::replay
