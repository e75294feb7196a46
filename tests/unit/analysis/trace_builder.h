// A trace made by hand for tests: events are appended by methods with names, and the result is a
// `record::TraceReader` like any other, so that what is tested is what reads files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allocator/record/trace_reader.h"

namespace levee::test {

class TraceBuilder final : public record::TraceReader {
 public:
  TraceBuilder() {
    header_.format_version = 1;
    header_.levee_version = "0.1.0";
    header_.pid = 4711;
    header_.program = "python train.py";
    header_.host = "testhost";
    header_.clock = "modelled";
    coverage_.ending = record::TraceEnding::kComplete;
    devices_.push_back({DeviceId{0}, "Test GPU", 24_GiB});
    lanes_.push_back({});
    contexts_.push_back({});
    threads_.push_back({0, 100, "main"});
    pools_.push_back({0, PoolId{}});
    lane(0, 0);
  }

  // Tables.
  LaneId lane(std::int32_t device, std::uint64_t stream) {
    const LaneId id{static_cast<std::uint16_t>(lanes_.size())};
    lanes_.push_back({id, DeviceId{device}, StreamId{stream}, false});
    return id;
  }
  ContextId name(std::string text, record::ContextKind kind = record::ContextKind::kPhase) {
    texts_.push_back(std::make_unique<std::string>(std::move(text)));
    const ContextId id{static_cast<std::uint32_t>(contexts_.size())};
    contexts_.push_back({id, kind, *texts_.back()});
    return id;
  }
  std::uint32_t thread(std::string thread_name) {
    const auto index = static_cast<std::uint32_t>(threads_.size());
    threads_.push_back({index, 100 + index, std::move(thread_name)});
    return index;
  }
  std::uint16_t pool(std::uint64_t first, std::uint64_t second) {
    const auto index = static_cast<std::uint16_t>(pools_.size());
    pools_.push_back({index, PoolId{first, second}});
    return index;
  }
  void device(std::int32_t id, std::string device_name, Bytes total) {
    devices_.push_back({DeviceId{id}, std::move(device_name), total});
  }

  // Time and place of what follows.
  TraceBuilder& at(Nanos time) { return now_ = time, *this; }
  TraceBuilder& after(Nanos delay) { return now_ += delay, *this; }
  TraceBuilder& on_lane(LaneId lane) { return lane_ = lane, *this; }
  TraceBuilder& on_thread(std::uint32_t thread) { return thread_ = thread, *this; }
  Nanos now() const { return now_; }

  // Events.
  TraceBuilder& emit(EventKind kind, std::uint64_t a, std::uint64_t b, std::uint16_t aux = 0,
                     ContextId context = {}) {
    events_.push_back({make_event(kind, now_, lane_, a, b, aux, context), sequence_++, thread_});
    return *this;
  }
  TraceBuilder& alloc(std::uint64_t addr, Bytes block, Bytes requested = {}, std::uint16_t pool = 0,
                      ContextId context = {}) {
    const Bytes asked = requested.value == 0 ? block : requested;
    return emit(EventKind::kAlloc, addr, pack_sizes(asked, block), pool, context);
  }
  TraceBuilder& free(std::uint64_t addr, Bytes block) {
    return emit(EventKind::kFree, addr, pack_sizes(block, block));
  }
  TraceBuilder& create(Bytes bytes) {
    return emit(EventKind::kPageCreate, 0x1000'0000, bytes.value,
                static_cast<std::uint16_t>(bytes / 2_MiB));
  }
  TraceBuilder& release(Bytes bytes) {
    return emit(EventKind::kPageRelease, 0, bytes.value, static_cast<std::uint16_t>(bytes / 2_MiB));
  }
  TraceBuilder& driver(DriverCall call, Nanos duration, Bytes bytes = {}) {
    return emit(EventKind::kDriverCall, static_cast<std::uint64_t>(duration.value), bytes.value,
                static_cast<std::uint16_t>(call));
  }
  TraceBuilder& step(std::uint64_t number) { return emit(EventKind::kStepMark, number, 0); }
  TraceBuilder& push(ContextId phase) { return emit(EventKind::kPhasePush, 0, 0, 0, phase); }
  TraceBuilder& pop(ContextId phase) { return emit(EventKind::kPhasePop, 0, 0, 0, phase); }
  TraceBuilder& emergency(EmergencyCause cause, Bytes requested, Bytes reserved,
                          ContextId stack = {}) {
    return emit(EventKind::kEmergencyBegin, requested.value, reserved.value,
                static_cast<std::uint16_t>(cause), stack);
  }
  TraceBuilder& rung(LadderRung rung, Bytes usable, Nanos duration) {
    return emit(EventKind::kEmergencyRung, static_cast<std::uint64_t>(duration.value), usable.value,
                static_cast<std::uint16_t>(rung));
  }
  TraceBuilder& emergency_end(bool served, Bytes reserved, Nanos duration) {
    return emit(EventKind::kEmergencyEnd, static_cast<std::uint64_t>(duration.value),
                reserved.value, served ? 1 : 0);
  }
  TraceBuilder& kernel(Nanos duration, ContextId kernel_name, std::uint64_t correlation = 0) {
    return emit(EventKind::kKernel, static_cast<std::uint64_t>(duration.value), correlation, 0,
                kernel_name);
  }

  record::TraceHeader& mutable_header() { return header_; }
  record::Coverage& mutable_coverage() { return coverage_; }
  record::TraceState& mutable_state() { return state_; }

  // record::TraceReader.
  const record::TraceHeader& header() const override { return header_; }
  const record::Coverage& coverage() const override {
    coverage_.events = events_.size();
    if (!events_.empty()) {
      coverage_.first = time_of(events_.front());
      coverage_.last = coverage_.first;
      for (const record::TraceEvent& item : events_) {
        coverage_.last = std::max(coverage_.last, time_of(item));
      }
    }
    return coverage_;
  }
  const std::vector<record::TraceDevice>& devices() const override { return devices_; }
  const std::vector<record::TraceLane>& lanes() const override { return lanes_; }
  const std::vector<record::TraceThread>& threads() const override { return threads_; }
  const std::vector<record::TracePool>& pools() const override { return pools_; }
  const std::vector<record::TraceContext>& contexts() const override { return contexts_; }
  record::TraceLane lane(LaneId id) const override {
    return id.value < lanes_.size() ? lanes_[id.value] : record::TraceLane{};
  }
  record::TracePool pool(std::uint16_t index) const override {
    return index < pools_.size() ? pools_[index] : record::TracePool{};
  }
  record::TraceContext context(ContextId id) const override {
    return id.value < contexts_.size() ? contexts_[id.value] : record::TraceContext{};
  }
  std::size_t chapter_count() const override { return events_.empty() ? 0 : 1; }
  Nanos chapter_start(std::size_t) const override { return coverage().first; }
  record::TraceState chapter_state(std::size_t) const override { return state_; }
  std::unique_ptr<record::EventCursor> events(const record::EventQuery& query) const override {
    return std::make_unique<Cursor>(events_, query);
  }
  record::CounterSeries counters(DeviceId, Nanos, Nanos, std::size_t) const override { return {}; }

 private:
  class Cursor final : public record::EventCursor {
   public:
    Cursor(std::vector<record::TraceEvent> events, const record::EventQuery& query) {
      std::stable_sort(events.begin(), events.end(),
                       [](const record::TraceEvent& a, const record::TraceEvent& b) {
                         return a.event.time_ns < b.event.time_ns;
                       });
      for (const record::TraceEvent& item : events) {
        const Nanos time = time_of(item);
        if (query.kinds.has(item.event.kind()) && time >= query.from && time < query.to) {
          events_.push_back(item);
        }
      }
    }
    std::span<const record::TraceEvent> next() override {
      // Small batches, so that state carried from one to the next is exercised.
      const std::size_t count = std::min<std::size_t>(7, events_.size() - at_);
      at_ += count;
      return {events_.data() + at_ - count, count};
    }

   private:
    std::vector<record::TraceEvent> events_;
    std::size_t at_ = 0;
  };

  static Nanos time_of(const record::TraceEvent& item) {
    return Nanos{static_cast<std::int64_t>(item.event.time_ns)};
  }

  record::TraceHeader header_;
  mutable record::Coverage coverage_;
  record::TraceState state_;
  std::vector<record::TraceDevice> devices_;
  std::vector<record::TraceLane> lanes_;
  std::vector<record::TraceThread> threads_;
  std::vector<record::TracePool> pools_;
  std::vector<record::TraceContext> contexts_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<record::TraceEvent> events_;
  Nanos now_{};
  LaneId lane_{1};
  std::uint32_t thread_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace levee::test
