// The door of recording: from a fixed-size `Event` into the calling thread's ring, and no further.
//
// Owns the rings, the interned names and the writer thread (started with the first event after the
// first device allocation). Promises: `emit` and `record` never block, allocate, format, take a
// lock that an allocator may hold, or fail the program (I11); a full ring loses events and counts
// them (kLost); any failure of the file turns recording off with one message. After `fork` the
// child's recorder is off and leaves inherited files alone.
// Cost: with recording off, one relaxed load; on, `record`: one cheap time stamp and one 32-byte
// store.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

namespace levee::record {

/// What an interned text is.
enum class ContextKind : std::uint8_t {
  kNote = 0,    ///< a sentence for the reader of the record
  kPhase = 1,   ///< name of a phase
  kStack = 2,   ///< frames of a program, innermost first, one a line: "file:line function"
  kKernel = 3,  ///< name of a kernel
};

class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // Events, from any thread. Pre: `enabled()` was true just now (a race with turning off is
  // harmless).
  /// Something that happens now. Stamps the time itself, cheaper than a read of Clock: use it on
  /// hot paths.
  virtual void record(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b,
                      std::uint16_t aux = 0, ContextId context = {}) noexcept = 0;
  /// Something with a time on levee's Clock, not before the events that this thread has already
  /// emitted.
  virtual void emit(const Event& event) noexcept = 0;
  /// Kernels, copies and memsets, long after they ran and in any order. May take a lock; not for
  /// allocator paths.
  virtual void emit_activity(std::span<const Event> events) noexcept = 0;

  // Names. Not for hot paths (cache the result); they take a lock and may allocate.
  /// Index of a (device, stream) pair, the same for the same pair. Never fails: when indices run
  /// out it returns the device's lane of "other streams".
  virtual LaneId intern_lane(DeviceId device, StreamId stream) = 0;
  /// Index of a pool for `aux` of kAlloc and kFree. 0 is the default pool, and any pool after
  /// 65,535 others.
  virtual std::uint16_t intern_pool(PoolId pool) = 0;
  /// Id of a text. 0 when recording is off or names have run out.
  virtual ContextId intern(std::string_view text, ContextKind kind = ContextKind::kNote) = 0;
  /// Writes down what a device is called.
  virtual void describe_device(DeviceId device, std::string_view name, Bytes total_memory) = 0;

 protected:
  std::atomic<bool> enabled_{false};
};

/// Records nothing: what an allocator holds when recording is off from the start.
class NullRecorder final : public Recorder {
 public:
  void record(EventKind, LaneId, std::uint64_t, std::uint64_t, std::uint16_t,
              ContextId) noexcept override {}
  void emit(const Event&) noexcept override {}
  void emit_activity(std::span<const Event>) noexcept override {}
  LaneId intern_lane(DeviceId, StreamId) override { return {}; }
  std::uint16_t intern_pool(PoolId) override { return 0; }
  ContextId intern(std::string_view, ContextKind) override { return {}; }
  void describe_device(DeviceId, std::string_view, Bytes) override {}
};

}  // namespace levee::record
