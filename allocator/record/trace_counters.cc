// Memory of a device over time, from the summaries of blocks where they are fine enough, from
// events where not.
#include <algorithm>

#include "allocator/record/trace_file.h"

namespace levee::record {
namespace {

/// Where a change, or a bin of changes, leaves the three quantities.
using Sample = SummaryBin;

Sample flat_sample(std::int64_t time, std::uint64_t reserved, std::uint64_t allocated,
                   std::uint64_t active) {
  return Sample{time,
                {reserved, reserved, reserved},
                {allocated, allocated, allocated},
                {active, active, active}};
}

void put(const SummaryBin::Range& range, std::vector<std::uint64_t>& min,
         std::vector<std::uint64_t>& max, std::vector<std::uint64_t>& last) {
  min.push_back(range.min);
  max.push_back(range.max);
  last.push_back(range.last);
}
void put(const Sample& sample, CounterSeries& out) {
  out.time_ns.push_back(sample.time);
  put(sample.reserved, out.reserved_min, out.reserved_max, out.reserved_last);
  put(sample.allocated, out.allocated_min, out.allocated_max, out.allocated_last);
  put(sample.active, out.active_min, out.active_max, out.active_last);
}

void merge(SummaryBin::Range& into, const SummaryBin::Range& range) {
  into.min = std::min(into.min, range.min);
  into.max = std::max(into.max, range.max);
  into.last = range.last;
}
void merge(Sample& into, const Sample& sample) {
  merge(into.reserved, sample.reserved);
  merge(into.allocated, sample.allocated);
  merge(into.active, sample.active);
}
Sample holding(const Sample& sample, std::int64_t time) {
  return flat_sample(time, sample.reserved.last, sample.allocated.last, sample.active.last);
}

/// Collects samples of one device in the order of the file.
class Collector {
 public:
  Collector(const TraceIndex& index, DeviceId device, std::int64_t from, std::int64_t to)
      : index_(index), device_(device), from_(from), to_(to) {}

  const Sample& before() const { return before_; }  ///< what held at `from`
  const std::vector<Sample>& samples() const { return samples_; }

  /// The summary's word on this device in `block`; null if the block has nothing to say.
  const DeviceSummary* summary_of(const BlockRef& block) {
    if (!index_.read_summary(block, bytes_) || !decode_summary(block.frame, bytes_, summaries_))
      return nullptr;
    const auto found =
        std::find_if(summaries_.begin(), summaries_.end(),
                     [&](const DeviceSummary& each) { return each.device == device_; });
    return found == summaries_.end() ? nullptr : &*found;
  }

  void add_summary(const BlockRef& block) {
    const DeviceSummary* summary = summary_of(block);
    if (summary == nullptr) return;
    for (const SummaryBin& bin : summary->bins) add(bin);
  }

  void add_events(const BlockRef& block, const std::vector<TraceLane>& lanes) {
    const DeviceSummary* summary = summary_of(block);
    if (summary == nullptr || !index_.read_body(block, bytes_) ||
        !decoder_.decode(block.frame, bytes_, events_)) {
      return;
    }
    for (std::size_t i = lanes_told_; i < lanes.size(); ++i) {
      if (i != 0) tracker_.set_lane_device(lanes[i].id, lanes[i].device);
    }
    lanes_told_ = lanes.size();
    // The summary knows what held before the block; what the tracker has from earlier ones may have
    // gaps.
    DeviceCounters start;
    start.device = device_;
    start.reserved = Bytes{summary->reserved};
    start.allocated = Bytes{summary->allocated};
    start.active = Bytes{summary->active};
    start.is_exact = summary->is_exact;
    tracker_.set_counters(start);
    for (const StagedEvent& event : events_) {
      const StateTracker::DeviceSlot slot = tracker_.apply(event.event, event.thread);
      if (slot == StateTracker::kNoDevice) continue;
      const DeviceCounters& now = tracker_.devices()[static_cast<std::size_t>(slot)];
      if (now.device != device_) continue;
      add(flat_sample(event.key, now.reserved.value, now.allocated.value, now.active.value));
    }
  }

  /// Only says what held after the block.
  void add_end_of(const BlockRef& block) {
    const DeviceSummary* summary = summary_of(block);
    if (summary == nullptr) return;
    before_ = summary->bins.empty()
                  ? flat_sample(from_, summary->reserved, summary->allocated, summary->active)
                  : holding(summary->bins.back(), from_);
  }

 private:
  void add(const Sample& sample) {
    if (sample.time < from_) {
      before_ = holding(sample, from_);
    } else if (sample.time < to_) {
      samples_.push_back(sample);
      // An event that was written late lies before its place by a little.
      if (samples_.size() > 1) {
        samples_.back().time = std::max(samples_.back().time, samples_[samples_.size() - 2].time);
      }
    }
  }

  const TraceIndex& index_;
  DeviceId device_;
  std::int64_t from_;
  std::int64_t to_;
  Sample before_;
  std::vector<Sample> samples_;
  std::vector<std::uint8_t> bytes_;
  std::vector<DeviceSummary> summaries_;
  std::vector<StagedEvent> events_;
  EventDecoder decoder_;
  StateTracker tracker_;
  std::size_t lanes_told_ = 0;
};

}  // namespace

CounterSeries TraceFile::counters(DeviceId device, Nanos from, Nanos to,
                                  std::size_t max_points) const {
  CounterSeries series;
  max_points = std::max<std::size_t>(max_points, 2);
  // Within what is held, so that a caller may ask for everything.
  const std::int64_t begin = std::max(from.value, coverage_.first.value);
  const std::int64_t end =
      std::min(to.value, coverage_.last.value == INT64_MAX ? INT64_MAX : coverage_.last.value + 1);
  if (begin >= end) return series;

  std::vector<const BlockRef*> blocks;
  const BlockRef* before = nullptr;
  std::uint64_t events = 0;
  for (const BlockRef& block : index_->blocks()) {
    if (block.frame.type != BlockType::kEvents) continue;
    if (block.frame.last_time < begin) {
      before = &block;
    } else if (block.frame.first_time < end) {
      blocks.push_back(&block);
      events += block.frame.event_count;
    }
  }

  Collector collector(*index_, device, begin, end);
  if (before != nullptr) collector.add_end_of(*before);
  // Bins of kEventsPerBin events will do if there are more of them than points.
  const bool from_events = events / kEventsPerBin < max_points;
  for (const BlockRef* block : blocks) {
    if (from_events) {
      collector.add_events(*block, lanes_);
    } else {
      collector.add_summary(*block);
    }
  }

  const std::vector<Sample>& samples = collector.samples();
  Sample now = holding(collector.before(), begin);
  if (from_events && samples.size() < max_points) {
    series.is_exact = true;
    if (samples.empty() || samples.front().time > begin) put(now, series);
    for (const Sample& sample : samples) put(sample, series);
    return series;
  }
  // One point for each interval of equal length in which something changes; its extremes include
  // what held when it began.
  const auto length = static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin);
  const std::uint64_t width = length / max_points + 1;
  const auto interval_of = [&](std::int64_t time) {
    return (static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(begin)) / width;
  };
  if (samples.empty() || interval_of(samples.front().time) != 0) put(now, series);
  for (std::size_t i = 0; i < samples.size();) {
    const std::uint64_t interval = interval_of(samples[i].time);
    Sample point = holding(now, begin + static_cast<std::int64_t>(interval * width));
    for (; i < samples.size() && interval_of(samples[i].time) == interval; ++i)
      merge(point, samples[i]);
    put(point, series);
    now = point;
  }
  return series;
}

}  // namespace levee::record
