// The op language: what a program of tests can do to an allocator and to the GPU under it.
//
// One operation is a small struct; a program is a list of them. Each prints itself as C++ (to be
// pasted into a regression test) and as one line of text (to be kept in a file). Ids name blocks
// and are chosen by the program; using an id that is not live is no error and does nothing, so that
// any list of operations is a program and shrinking may drop any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace levee::model_test {

struct Alloc {
  std::uint32_t id;
  std::uint64_t bytes;
  std::uint32_t stream;
};
struct Free {
  std::uint32_t id;
};
struct RecordUse {
  std::uint32_t id;
  std::uint32_t stream;
};
struct Work {
  std::uint32_t stream;
  std::uint64_t us;
};  ///< a kernel of that length
struct Wait {
  std::uint32_t stream;
  std::uint32_t other;
};  ///< the program's own order: stream waits for other
struct Sync {
  std::uint32_t stream;
};
struct Advance {
  std::uint64_t us;
};
struct Trim {
  std::uint64_t keep;
};
struct SetLimit {
  std::uint64_t bytes;
};
struct SetOthers {
  std::uint64_t bytes;
};  ///< memory taken by other processes
struct Fault {
  std::uint32_t call;
  std::uint32_t nth;
  std::uint32_t times;
};  ///< call: index into kFaultCalls
struct ClearFaults {};
struct PoolBegin {
  std::uint32_t pool;
  std::uint32_t stream;
};  ///< requests of the stream go to the pool
struct PoolEnd {
  std::uint32_t pool;
};
struct PoolRelease {
  std::uint32_t pool;
};
struct PoolLimit {
  std::uint32_t pool;
  std::uint64_t bytes;
};
struct PoolNoSplit {
  std::uint32_t pool;
};
struct PoolServes {
  std::uint32_t pool;
  std::uint32_t on;
};  ///< whether it serves others rather than letting them run out of memory
struct PoolSegments {
  std::uint32_t pool;
  std::uint32_t on;
};  ///< backed by cudaMalloc segments, or by pages again
struct PoolTrim {
  std::uint32_t pool;
};
struct CaptureBegin {
  std::uint32_t pool;
  std::uint32_t stream;
};
struct CaptureEnd {
  std::uint32_t pool;
};  ///< ends the region and keeps the graph
struct Replay {
  std::uint32_t pool;
  std::uint32_t stream;
};  ///< launches the pool's newest graph
struct Checkpoint {
  std::uint32_t pool;
};
struct Restore {
  std::uint32_t pool;
};
struct Step {};
struct Snapshot {};
struct ResetPeaks {};
struct FreeOnOom {
  std::uint32_t id;
};  ///< the program frees this block when it is asked to give memory back
struct SwitchThread {
  std::uint32_t thread;
};  ///< the operations that follow come from this thread; 0 is there from the start
struct EndThread {
  std::uint32_t thread;
};  ///< the thread ends; the next switch to it starts a fresh one

using Op =
    std::variant<Alloc, Free, RecordUse, Work, Wait, Sync, Advance, Trim, SetLimit, SetOthers,
                 Fault, ClearFaults, PoolBegin, PoolEnd, PoolRelease, PoolLimit, PoolNoSplit,
                 PoolServes, PoolSegments, PoolTrim, CaptureBegin, CaptureEnd, Replay, Checkpoint,
                 Restore, Step, Snapshot, ResetPeaks, FreeOnOom, SwitchThread, EndThread>;
using Program = std::vector<Op>;

/// Kinds of calls that `Fault` chooses from; see runner.cc.
inline constexpr std::uint32_t kFaultKinds = 16;

std::string to_text(const Op& op);
std::string to_cpp(const Op& op);
std::string to_text(const Program& program);  ///< one line each
std::string to_cpp(const Program& program);   ///< an initializer list
/// False, with the offending line in `problem`, if the text is no program. Lines that are empty or
/// begin with '#' are skipped.
bool parse(std::string_view text, Program* program, std::string* problem);

/// What a seeded program looks like. Frees name blocks that the program believes to be live, so
/// that nearly every operation does something.
struct Shape {
  std::uint32_t ops = 200;
  std::uint32_t streams = 1;
  std::uint64_t capacity = 256ULL << 20;
  bool faults = false;
  bool pools = false;
  bool captures = false;
  bool limits = false;
  bool pool_options = false;
  std::uint32_t threads = 1;
  /// Live bytes that the program steers towards, as a share of the capacity: above 1 it keeps
  /// asking for more than there is.
  double fill = 0.9;
};
Program generate(std::uint64_t seed, const Shape& shape);
/// Any bytes are a program: for fuzzers.
Program decode(std::span<const std::uint8_t> bytes);

}  // namespace levee::model_test
