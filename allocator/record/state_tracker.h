// What the events up to some point add up to: memory per device, live blocks, open phases, the
// step.
//
// Owns the running state. The writer keeps one to start each chapter with a keyframe; the reader
// and analyses may keep one to follow a recording. Promises: any sequence of events is digested
// without failing; counters never go below 0; after lost events the next kCounters of a device sets
// its counters right. Memory grows with the number of live blocks and open phases. Not thread-safe.
// Costs: about 20 ns for an allocation or a free, 2 ns for other events.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/record/live_table.h"
#include "allocator/record/trace_state.h"

namespace levee::record {

class StateTracker {
 public:
  /// Index of a device in `devices()`; -1 = none.
  using DeviceSlot = int;
  static constexpr DeviceSlot kNoDevice = -1;

  StateTracker() = default;
  /// Goes on from a state that was written down. Lanes have to be told again.
  explicit StateTracker(const TraceState& state);

  /// Events of `lane` belong to `device`. Events of unknown lanes belong to the first device there
  /// is.
  void set_lane_device(LaneId lane, DeviceId device);

  /// Sets what is known of a device's memory at this point.
  void set_counters(const DeviceCounters& counters);

  /// Digests one event. Returns the device whose counters it may have changed.
  DeviceSlot apply(const Event& event, std::uint32_t thread);

  const std::vector<DeviceCounters>& devices() const { return devices_; }
  std::uint64_t step() const { return step_; }
  bool is_live(std::uint64_t addr) { return live_.find(addr) != nullptr; }
  std::size_t live_count() const { return live_.size(); }
  bool live_is_complete() const { return live_is_complete_; }

  /// The state as a value. With more than `max_live` live blocks, the largest ones and
  /// `live_is_complete` false.
  TraceState snapshot(Nanos time, std::size_t max_live = SIZE_MAX) const;

 private:
  DeviceSlot slot_of(LaneId lane);
  DeviceSlot slot_of_device(DeviceId device);
  void apply_alloc(const Event& event, DeviceCounters& device);
  void apply_free(const Event& event, DeviceCounters& device);
  void apply_free_completed(const Event& event, DeviceCounters& device);

  std::vector<DeviceCounters> devices_;
  std::vector<DeviceSlot> slot_of_lane_;
  LiveTable live_;
  std::unordered_map<std::uint32_t, std::vector<OpenPhase>> phases_;
  std::uint64_t step_ = 0;
  bool live_is_complete_ = true;
};

}  // namespace levee::record
