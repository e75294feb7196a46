// A recorder that keeps what it is told.
#pragma once

#include <algorithm>
#include <vector>

#include "allocator/record/recorder.h"

namespace levee::core {

class Notebook final : public record::Recorder {
 public:
  Notebook() { enabled_.store(true); }
  void record(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b, std::uint16_t aux,
              ContextId context) noexcept override {
    events.push_back(make_event(kind, Nanos{0}, lane, a, b, aux, context));
  }
  void emit(const Event& event) noexcept override { events.push_back(event); }
  void emit_activity(std::span<const Event>) noexcept override {}
  /// Lane 100 for the default stream, one more for each that is named after it.
  LaneId intern_lane(DeviceId, StreamId stream) override {
    streams.push_back(stream);
    return LaneId{static_cast<std::uint16_t>(99 + streams.size())};
  }
  std::uint16_t intern_pool(PoolId pool) override {
    pools.push_back(pool);
    return static_cast<std::uint16_t>(40 + pools.size());
  }
  ContextId intern(std::string_view, record::ContextKind) override { return ContextId{}; }
  void describe_device(DeviceId, std::string_view, Bytes) override {}

  std::vector<Event> of(EventKind kind) const {
    std::vector<Event> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [&](const Event& event) { return event.kind() == kind; });
    return found;
  }

  std::vector<Event> events;
  std::vector<StreamId> streams;
  std::vector<PoolId> pools;
};

}  // namespace levee::core
