// The door of recording: from a fixed-size `Event` into the calling thread's ring, and no further.
//
// Owns the rings, the interned names and the writer thread (started with the first event after the first device allocation).
// Promises: `emit` never blocks, allocates, formats, takes a lock that an allocator may hold, or fails the program (I11); a full
// ring loses events and counts them (kLost); any failure of the file turns recording off with one message. After `fork` the
// child's recorder is off and leaves inherited files alone.
// Cost: with recording off, one relaxed load; on, one clock read by the caller and one 32-byte store.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include <levee/event.h>
#include <levee/ids.h>

namespace levee::record {

class Recorder {
 public:
  virtual ~Recorder() = default;

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  /// Pre: `enabled()` was true just now (a race with turning off is harmless). From any thread.
  virtual void emit(const Event& event) noexcept = 0;
  /// Index of a (device, stream) pair, the same for the same pair; not for hot paths (cache it). Never fails: when indices run
  /// out it returns the device's lane of "other streams".
  virtual LaneId intern_lane(DeviceId device, StreamId stream) = 0;
  /// Id of a text (phase, stack, kernel name, note). 0 when recording is off or names have run out.
  virtual ContextId intern(std::string_view text) = 0;

 protected:
  std::atomic<bool> enabled_{false};
};

}  // namespace levee::record
