#include "allocator/record/state_tracker.h"

#include <algorithm>
#include <map>

namespace levee::record {
namespace {

constexpr std::size_t kMaxOpenPhases =
    1024;  // per thread; deeper ones are a program that never pops
constexpr std::size_t kMaxPhaseThreads = 65536;

Bytes minus(Bytes a, Bytes b) {
  return a < b ? Bytes{} : a - b;
}
// Events of a damaged or hostile file may add up to anything: stop at the largest value instead of
// ending the process.
Bytes plus(Bytes a, Bytes b) {
  return b.value > UINT64_MAX - a.value ? Bytes{UINT64_MAX} : Bytes{a.value + b.value};
}
// As `block_of`, for any bits.
Bytes block_bytes(std::uint64_t packed) {
  return Bytes{requested_of(packed).value + (packed >> 44)};
}

std::int64_t time_of(const Event& event) {
  return static_cast<std::int64_t>(event.time_ns);
}

}  // namespace

StateTracker::StateTracker(const TraceState& state)
    : devices_(state.devices), step_(state.step), live_is_complete_(state.live_is_complete) {
  for (const LiveBlock& block : state.live) {
    if (block.addr.is_null()) continue;
    LiveTable::Entry& entry = live_.find_or_insert(block.addr.value);
    entry.packed_sizes =
        block.bytes >= block.requested_bytes && block.requested_bytes <= kMaxRequest
            ? pack_sizes(block.requested_bytes, block.bytes)
            : 0;
    entry.allocated_at = block.allocated_at.value;
    entry.context = block.context;
    entry.lane = block.lane;
    entry.pool = block.pool;
    entry.has_uses = block.has_uses;
    entry.is_waiting = block.is_waiting;
  }
  for (const OpenPhase& phase : state.phases) phases_[phase.thread].push_back(phase);
}

void StateTracker::set_lane_device(LaneId lane, DeviceId device) {
  if (slot_of_lane_.size() <= lane.value) slot_of_lane_.resize(lane.value + 1U, kNoDevice);
  slot_of_lane_[lane.value] = slot_of_device(device);
}

void StateTracker::set_counters(const DeviceCounters& counters) {
  devices_[static_cast<std::size_t>(slot_of_device(counters.device))] = counters;
}

StateTracker::DeviceSlot StateTracker::slot_of_device(DeviceId device) {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].device == device) return static_cast<DeviceSlot>(i);
  }
  DeviceCounters counters;
  counters.device = device;
  devices_.push_back(counters);
  return static_cast<DeviceSlot>(devices_.size() - 1);
}

StateTracker::DeviceSlot StateTracker::slot_of(LaneId lane) {
  if (lane.value < slot_of_lane_.size() && slot_of_lane_[lane.value] != kNoDevice) {
    return slot_of_lane_[lane.value];
  }
  return devices_.empty() ? slot_of_device(DeviceId{0}) : 0;
}

void StateTracker::apply_alloc(const Event& event, DeviceCounters& device) {
  const Bytes bytes = block_bytes(event.b);
  device.allocated = plus(device.allocated, bytes);
  device.active = plus(device.active, bytes);
  device.requested = plus(device.requested, requested_of(event.b));
  if (event.a == 0) return;
  LiveTable::Entry& entry = live_.find_or_insert(event.a);
  entry.packed_sizes = event.b;
  entry.allocated_at = time_of(event);
  entry.context = event.context();
  entry.lane = event.lane;
  entry.pool = event.aux;
  entry.has_uses = false;
  entry.is_waiting = false;
}

void StateTracker::apply_free(const Event& event, DeviceCounters& device) {
  const Bytes bytes = block_bytes(event.b);
  device.allocated = minus(device.allocated, bytes);
  device.requested = minus(device.requested, requested_of(event.b));
  LiveTable::Entry* entry = event.a == 0 ? nullptr : live_.find(event.a);
  if (entry != nullptr && entry->has_uses) {
    entry->is_waiting = true;
    return;
  }
  device.active = minus(device.active, bytes);
  // A free that arrives late belongs to the block before the one that has the address now.
  if (entry != nullptr && entry->allocated_at <= time_of(event)) live_.erase(entry);
}

void StateTracker::apply_free_completed(const Event& event, DeviceCounters& device) {
  LiveTable::Entry* entry = event.a == 0 ? nullptr : live_.find(event.a);
  if (entry == nullptr || !entry->is_waiting) return;  // its free has been counted as done
  device.active = minus(device.active, block_bytes(entry->packed_sizes));
  live_.erase(entry);
}

StateTracker::DeviceSlot StateTracker::apply(const Event& event, std::uint32_t thread) {
  switch (event.kind()) {
    case EventKind::kAlloc: {
      const DeviceSlot slot = slot_of(event.lane);
      apply_alloc(event, devices_[static_cast<std::size_t>(slot)]);
      return slot;
    }
    case EventKind::kFree: {
      const DeviceSlot slot = slot_of(event.lane);
      apply_free(event, devices_[static_cast<std::size_t>(slot)]);
      return slot;
    }
    case EventKind::kFreeCompleted: {
      const DeviceSlot slot = slot_of(event.lane);
      apply_free_completed(event, devices_[static_cast<std::size_t>(slot)]);
      return slot;
    }
    case EventKind::kRecordUse:
      if (event.a != 0) {
        if (LiveTable::Entry* entry = live_.find(event.a)) entry->has_uses = true;
      }
      return kNoDevice;
    case EventKind::kSegmentAlloc:
    case EventKind::kPageCreate: {
      const DeviceSlot slot = slot_of(event.lane);
      Bytes& reserved = devices_[static_cast<std::size_t>(slot)].reserved;
      reserved = plus(reserved, Bytes{event.b});
      return slot;
    }
    case EventKind::kSegmentFree:
    case EventKind::kPageRelease: {
      const DeviceSlot slot = slot_of(event.lane);
      Bytes& reserved = devices_[static_cast<std::size_t>(slot)].reserved;
      reserved = minus(reserved, Bytes{event.b});
      return slot;
    }
    case EventKind::kCounters: {
      const DeviceSlot slot = slot_of(event.lane);
      DeviceCounters& device = devices_[static_cast<std::size_t>(slot)];
      if (device.is_exact) return kNoDevice;
      const Bytes waiting = minus(device.active, device.allocated);
      device.reserved = Bytes{event.a};
      device.allocated = Bytes{event.b};
      device.active = plus(device.allocated, waiting);
      device.is_exact = true;
      return slot;
    }
    case EventKind::kLost:
      for (DeviceCounters& device : devices_) device.is_exact = false;
      live_is_complete_ = false;
      return kNoDevice;
    case EventKind::kLimit:
      devices_[static_cast<std::size_t>(slot_of(event.lane))].limit = Bytes{event.a};
      return kNoDevice;
    case EventKind::kPhasePush: {
      if (phases_.size() >= kMaxPhaseThreads && phases_.find(thread) == phases_.end())
        return kNoDevice;
      auto& open = phases_[thread];
      if (open.size() < kMaxOpenPhases) {
        open.push_back(OpenPhase{thread, event.context(), Nanos{time_of(event)}});
      }
      return kNoDevice;
    }
    case EventKind::kPhasePop: {
      const auto found = phases_.find(thread);
      if (found == phases_.end()) return kNoDevice;
      found->second.pop_back();
      if (found->second.empty()) phases_.erase(found);
      return kNoDevice;
    }
    case EventKind::kStepMark:
      step_ = event.a + (event.b == 1 ? 1 : 0);
      return kNoDevice;
    default:
      return kNoDevice;
  }
}

TraceState StateTracker::snapshot(Nanos time, std::size_t max_live) const {
  TraceState state;
  state.time = time;
  state.devices = devices_;
  state.step = step_;
  state.live_is_complete = live_is_complete_;
  state.live.reserve(live_.size());
  live_.for_each([&](const LiveTable::Entry& entry) {
    state.live.push_back(LiveBlock{DeviceAddr{entry.addr}, block_bytes(entry.packed_sizes),
                                   requested_of(entry.packed_sizes), entry.lane, entry.pool,
                                   entry.context, Nanos{entry.allocated_at}, entry.has_uses,
                                   entry.is_waiting});
  });
  if (state.live.size() > max_live) {
    const auto cut = state.live.begin() + static_cast<std::ptrdiff_t>(max_live);
    std::nth_element(state.live.begin(), cut, state.live.end(),
                     [](const LiveBlock& a, const LiveBlock& b) { return a.bytes > b.bytes; });
    state.live.erase(cut, state.live.end());
    state.live_is_complete = false;
  }
  std::sort(state.live.begin(), state.live.end(),
            [](const LiveBlock& a, const LiveBlock& b) { return a.addr < b.addr; });
  const std::map<std::uint32_t, std::vector<OpenPhase>> by_thread(phases_.begin(), phases_.end());
  for (const auto& [thread, open] : by_thread) {
    state.phases.insert(state.phases.end(), open.begin(), open.end());
  }
  return state;
}

}  // namespace levee::record
