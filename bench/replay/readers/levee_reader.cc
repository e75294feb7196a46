#include "bench/replay/readers/levee_reader.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "allocator/analysis/text.h"

namespace levee::replay {

namespace {

using record::EventCursor;
using record::EventQuery;
using record::KindSet;
using record::TraceEvent;
using record::TraceReader;

constexpr std::size_t kMaxDevices = 4096;

KindSet replayed_kinds() {
  return KindSet::none()
      .with(EventKind::kAlloc)
      .with(EventKind::kFree)
      .with(EventKind::kRecordUse)
      .with(EventKind::kStepMark)
      .with(EventKind::kOutOfMemory);
}

class LeveeReader {
 public:
  LeveeReader(const TraceReader& reader, const ReadOptions& options, ReadError* error)
      : reader_(reader), options_(options), error_(error), builder_(options.name) {
    for (const record::TraceLane& lane : reader.lanes()) {
      if (lane.id.value == 0) continue;  // stands for "no lane"
      const auto index = lane.id.value;
      if (lanes_.size() <= index) lanes_.resize(std::size_t{index} + 1);
      lanes_[index] = Lane{static_cast<std::uint32_t>(lane.device.value), lane.stream.value, true};
    }
  }

  OpTrace read() {
    if (!choose()) return {};
    const record::TraceState start =
        reader_.chapter_count() > 0 ? reader_.chapter_state(0) : record::TraceState{};
    for (const record::LiveBlock& b : start.live) {
      if (is_ours(b.lane))
        builder_.live_at_start(b.addr.value, b.requested_bytes, lanes_[b.lane.value].stream);
    }
    if (!start.live_is_complete)
      builder_.gap("The blocks that were live at its beginning are not all known.");
    running_step_ = start.step;
    EventQuery query;
    query.kinds = replayed_kinds();
    const std::unique_ptr<EventCursor> cursor = reader_.events(query);
    for (auto events = cursor->next(); !events.empty(); events = cursor->next()) {
      for (const TraceEvent& e : events) add(e.event, e.thread);
    }
    say_what_is_missing();
    return builder_.finish();
  }

 private:
  struct Lane {
    std::uint32_t device = 0;
    std::uint64_t stream = 0;
    bool is_known = false;
  };

  bool is_ours(LaneId lane) const {
    return lane.value < lanes_.size() && lanes_[lane.value].is_known &&
           lanes_[lane.value].device == device_;
  }

  bool choose() {
    std::vector<std::uint64_t> counts;
    std::size_t devices = 0;
    for (const Lane& lane : lanes_) {
      if (lane.is_known) devices = std::max(devices, std::size_t{lane.device} + 1);
    }
    if (devices == 0 || devices > kMaxDevices) {
      error_->sentence = "this recording holds no allocation";
      return false;
    }
    counts.resize(devices);
    if (devices == 1) {
      counts[0] = 1;
    } else {
      EventQuery query;
      query.kinds = KindSet::none().with(EventKind::kAlloc);
      const std::unique_ptr<EventCursor> cursor = reader_.events(query);
      for (auto events = cursor->next(); !events.empty(); events = cursor->next()) {
        for (const TraceEvent& e : events) {
          const LaneId lane = e.event.lane;
          if (lane.value < lanes_.size() && lanes_[lane.value].is_known)
            ++counts[lanes_[lane.value].device];
        }
      }
    }
    const auto device = choose_device(counts, options_.device, error_);
    if (!device) return false;
    device_ = static_cast<std::uint32_t>(*device);
    return true;
  }

  void add(const Event& e, std::uint32_t thread) {
    builder_.on_thread(thread);
    switch (e.kind()) {
      case EventKind::kAlloc:
        if (!is_ours(e.lane)) break;
        private_requests_ += e.aux != 0 ? 1U : 0U;
        builder_.alloc(e.a, requested_of(e.b), lanes_[e.lane.value].stream);
        break;
      case EventKind::kFree:
        if (is_ours(e.lane)) builder_.free(e.a);
        break;
      case EventKind::kRecordUse:
        if (is_ours(e.lane)) builder_.record_use(e.a, lanes_[e.lane.value].stream);
        break;
      case EventKind::kStepMark:
        mark(e);
        break;
      case EventKind::kOutOfMemory:
        out_of_memory_ += is_ours(e.lane) ? 1U : 0U;
        break;
      default:
        break;
    }
  }

  // As analysis::analyze counts: a mark that ends step n begins n + 1, and what ran before the
  // first of them was a step too.
  void mark(const Event& e) {
    const bool is_end = e.b == 1;
    const std::uint64_t number = e.a + (is_end ? 1U : 0U);
    if (is_end && !has_marks_) builder_.marks_end_steps(e.a);
    // The same mark can arrive from several places.
    if (has_marks_ && number == running_step_) return;
    builder_.step(0, number);
    has_marks_ = true;
    running_step_ = number;
  }

  void say_what_is_missing() {
    builder_.levees_own();
    builder_.private_requests(private_requests_);
    const record::Coverage& coverage = reader_.coverage();
    builder_.lost(coverage.lost_events);
    if (coverage.dropped_events != 0) {
      builder_.gap(fmt::format("{} overwritten to keep its size.",
                               analysis::counted(coverage.dropped_events, "event, its oldest, was",
                                                 "events, its oldest, were")));
    }
    if (coverage.damaged_blocks != 0) {
      builder_.gap(fmt::format(
          "{} skipped.", analysis::counted(coverage.damaged_blocks, "damaged block of the file was",
                                           "damaged blocks of the file were")));
    }
    if (coverage.ending == record::TraceEnding::kCut) {
      builder_.gap(fmt::format(
          "It ends after {} without an end mark, and what came then is missing: the program was "
          "killed, its disk was full, it is still running, or the file was cut while it was "
          "copied.",
          analysis::duration_text(
              static_cast<std::uint64_t>((coverage.last - coverage.first).value))));
    }
    if (coverage.ending == record::TraceEnding::kStopped)
      builder_.gap("Recording stopped early: " + coverage.stop_reason + ".");
    if (out_of_memory_ != 0)
      builder_.note(fmt::format(
          "The run met {}.",
          analysis::counted(out_of_memory_, "out-of-memory error", "out-of-memory errors")));
    constexpr std::size_t kPoints = 1000;
    const record::CounterSeries series =
        reader_.counters(DeviceId{static_cast<decltype(DeviceId::value)>(device_)}, coverage.first,
                         Nanos{coverage.last.value + 1}, kPoints);
    std::uint64_t peak = 0;
    for (const std::uint64_t reserved : series.reserved_max) peak = std::max(peak, reserved);
    if (peak <= kMaxLive.value) builder_.set_recorded_peak_reserved(Bytes{peak});
  }

  const TraceReader& reader_;
  const ReadOptions& options_;
  ReadError* error_;
  OpTraceBuilder builder_;
  std::vector<Lane> lanes_;
  std::uint32_t device_ = 0;
  std::uint64_t out_of_memory_ = 0;
  std::uint64_t private_requests_ = 0;
  std::uint64_t running_step_ = 0;
  bool has_marks_ = false;
};

}  // namespace

OpTrace read_levee(const TraceReader& reader, const ReadOptions& options, ReadError* error) {
  return LeveeReader(reader, options, error).read();
}

OpTrace read_levee(std::span<const std::byte> bytes, const ReadOptions& options, ReadError* error) {
  const std::unique_ptr<TraceReader> reader =
      TraceReader::from_bytes(bytes, options.name, &error->sentence);
  if (reader == nullptr) return {};
  error->sentence.clear();
  return read_levee(*reader, options, error);
}

}  // namespace levee::replay
