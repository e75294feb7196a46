// A recording of any kind, told apart by its first bytes.
//
// Owns nothing. Promises: every input gives a trace or one sentence about why not; never a crash, a
// hang, or memory beyond a constant times the input. Packed files (.gz, .xz) are unpacked by the
// caller.
#pragma once

#include <string_view>

#include "bench/replay/op_trace.h"
#include "bench/replay/readers/recording_options.h"

namespace levee::replay {

enum class RecordingKind : std::uint8_t { kLevee, kSnapshot, kKineto, kCsv };

std::string_view name_of(RecordingKind kind);
RecordingKind kind_of(std::string_view bytes);

/// An empty trace and a sentence in `error` if the bytes are no recording, or hold no allocation.
OpTrace read_recording(std::string_view bytes, const ReadOptions& options, ReadError* error);

}  // namespace levee::replay
