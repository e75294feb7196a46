#include "bench/replay/op_trace.h"

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "allocator/analysis/text.h"

namespace levee::replay {

namespace {
constexpr Bytes kUnit = 512_B;
constexpr double kFlopsPerSecond = 0.4 * 312e12;
constexpr double kSecondsPerAllocation = 8e-6;
constexpr std::uint16_t kMaxStreams = 4096;
constexpr std::size_t kMaxThreads = 256;

std::string size_text(Bytes bytes) {
  return analysis::bytes_text(bytes.value);
}
}  // namespace

std::string Completeness::sentence() const {
  std::string text;
  const auto say = [&text](std::string sentence) {
    if (!text.empty()) text += ' ';
    text += sentence;
  };
  if (!starts_at_beginning) {
    say(fmt::format("The recording begins in mid-run: {} of {} {} live already and placed first.",
                    analysis::counted(live_at_start_count, "block", "blocks"),
                    size_text(live_at_start), live_at_start_count == 1 ? "was" : "were"));
  }
  if (unnamed_live.value != 0) {
    say(fmt::format("Of these it knows {} by their sum alone; they are placed as one block.",
                    size_text(unnamed_live)));
  }
  if (unknown_frees != 0) {
    say(fmt::format("{} that the recording never saw.",
                    analysis::counted(unknown_frees, "free is left out, of a block",
                                      "frees are left out, of blocks")));
  }
  if (repeated_ids != 0) {
    say(fmt::format("{} still live; what was freed between is missing.",
                    analysis::counted(repeated_ids, "allocation came at an address that was",
                                      "allocations came at addresses that were")));
  }
  if (lost_events != 0)
    say(fmt::format("The recording itself says that it lost {}.",
                    analysis::counted(lost_events, "event", "events")));
  if (dropped_requests != 0)
    say(fmt::format("{} left out.",
                    analysis::counted(dropped_requests, "request of impossible size is",
                                      "requests of impossible size are")));
  if (private_requests != 0) {
    say(fmt::format("{} for private pools (CUDA graphs, MemPool), and replayed as ordinary.",
                    analysis::counted(private_requests, "request was", "requests were")));
  }
  for (const std::string& sentence : notes) say(sentence);
  return text;
}

double step_seconds(std::uint64_t mflop, std::uint64_t allocations) {
  return std::max(static_cast<double>(mflop) * 1e6 / kFlopsPerSecond,
                  static_cast<double>(allocations) * kSecondsPerAllocation);
}

TraceFacts facts_of(const OpTrace& trace, std::uint64_t event_lag) {
  TraceFacts facts;
  std::vector<Bytes> size(trace.id_count);
  std::vector<bool> used_elsewhere(trace.id_count);
  std::deque<std::pair<std::uint64_t, Bytes>>
      waiting;  // request count at which the block leaves, size
  Bytes live{};
  Bytes active{};
  std::uint64_t step_mflop = 0;
  std::uint64_t step_allocations = 0;
  bool in_step = false;
  const auto close_step = [&] {
    if (in_step) facts.step_seconds.push_back(step_seconds(step_mflop, step_allocations));
    step_allocations = 0;
  };
  for (const Op& op : trace.ops) {
    switch (op.kind) {
      case OpKind::kAlloc: {
        while (!waiting.empty() && waiting.front().first <= facts.allocations) {
          active -= waiting.front().second;
          waiting.pop_front();
        }
        size[op.id] = round_up(std::max(Bytes{op.bytes}, 1_B), kUnit);
        live += size[op.id];
        active += size[op.id];
        facts.peak_live = std::max(facts.peak_live, live);
        facts.peak_active = std::max(facts.peak_active, active);
        ++facts.allocations;
        ++step_allocations;
        in_step = in_step || !trace.has_step_marks;
        break;
      }
      case OpKind::kFree:
        live -= size[op.id];
        if (used_elsewhere[op.id]) {
          waiting.emplace_back(facts.allocations + event_lag, size[op.id]);
        } else {
          active -= size[op.id];
        }
        break;
      case OpKind::kRecordUse:
        facts.recorded_uses += used_elsewhere[op.id] ? 0U : 1U;
        used_elsewhere[op.id] = true;
        break;
      case OpKind::kStep:
        close_step();
        in_step = true;
        step_mflop = op.bytes;
        break;
    }
  }
  close_step();
  for (const double seconds : facts.step_seconds) facts.total_seconds += seconds;
  return facts;
}

StepPlace step_place(const OpTrace& trace, std::size_t marks) {
  if (!trace.has_step_marks) return {};
  if (marks == 0 && !trace.number_before_marks) return {-1, "before the first step"};
  const std::uint64_t number =
      marks == 0 ? *trace.number_before_marks : trace.step_numbers[marks - 1];
  const auto shown = static_cast<std::int64_t>(number);
  if (trace.marks_end_steps && marks == trace.step_numbers.size())
    return {shown, fmt::format("after step {}", number - 1)};
  return {shown, fmt::format("in step {}", number)};
}

OpTraceBuilder::OpTraceBuilder(std::string name) {
  trace_.name = std::move(name);
}

std::uint16_t OpTraceBuilder::stream_index(std::uint64_t key) {
  if (key == last_stream_key_ && !streams_.empty()) return last_stream_;
  const auto next =
      static_cast<std::uint16_t>(std::min<std::size_t>(streams_.size(), kMaxStreams - 1));
  // Streams beyond the last index share it, and are not remembered.
  const auto known = streams_.find(key);
  last_stream_ = known != streams_.end()         ? known->second
                 : streams_.size() < kMaxStreams ? streams_.emplace(key, next).first->second
                                                 : next;
  last_stream_key_ = key;
  return last_stream_;
}

void OpTraceBuilder::push(Op op) {
  op.thread = last_thread_;
  trace_.ops.push_back(op);
}

// Threads beyond the last index share it, and are not remembered.
void OpTraceBuilder::on_thread(std::uint64_t key) {
  if (key == last_thread_key_ && !threads_.empty()) return;
  const auto next = static_cast<std::uint8_t>(std::min(threads_.size(), kMaxThreads - 1));
  const auto known = threads_.find(key);
  last_thread_ = known != threads_.end()         ? known->second
                 : threads_.size() < kMaxThreads ? threads_.emplace(key, next).first->second
                                                 : next;
  last_thread_key_ = key;
}

void OpTraceBuilder::alloc(std::uint64_t key, Bytes bytes, std::uint64_t stream_key) {
  if (bytes > kMaxRequested || live_bytes_ + bytes > kMaxLive ||
      trace_.id_count == IdTable::kNone) {
    ++trace_.completeness.dropped_requests;
    return;
  }
  const std::uint32_t before = live_.put(key, trace_.id_count);
  if (before != IdTable::kNone) {
    push(Op{0, before, 0, OpKind::kFree});
    ++trace_.completeness.repeated_ids;
    live_bytes_ -= Bytes{bytes_[before]};
  }
  bytes_.push_back(bytes.value);
  live_bytes_ += bytes;
  push(Op{bytes.value, trace_.id_count, stream_index(stream_key), OpKind::kAlloc});
  ++trace_.id_count;
}

void OpTraceBuilder::free(std::uint64_t key) {
  const std::uint32_t id = live_.take(key);
  if (id == IdTable::kNone) {
    ++trace_.completeness.unknown_frees;
    return;
  }
  live_bytes_ -= Bytes{bytes_[id]};
  push(Op{0, id, 0, OpKind::kFree});
}

void OpTraceBuilder::record_use(std::uint64_t key, std::uint64_t stream_key) {
  const std::uint32_t id = live_.find(key);
  if (id != IdTable::kNone) push(Op{0, id, stream_index(stream_key), OpKind::kRecordUse});
}

void OpTraceBuilder::step(std::uint64_t mflop, std::optional<std::uint64_t> number) {
  // Numbers of a file may be anything; what is said of them fits a signed one.
  constexpr std::uint64_t kMostSteps = INT64_MAX - 1;
  const std::uint64_t last = trace_.step_numbers.empty() ? trace_.number_before_marks.value_or(0)
                                                         : trace_.step_numbers.back();
  push(Op{mflop, 0, 0, OpKind::kStep});
  trace_.step_numbers.push_back(std::min(number.value_or(last + 1), kMostSteps));
  trace_.has_step_marks = true;
}

void OpTraceBuilder::marks_end_steps(std::uint64_t number) {
  trace_.number_before_marks = std::min<std::uint64_t>(number, INT64_MAX - 1);
  trace_.marks_end_steps = true;
}

void OpTraceBuilder::live_at_start(std::uint64_t key, Bytes bytes, std::uint64_t stream_key) {
  const std::uint32_t before = trace_.id_count;
  alloc(key, bytes, stream_key);
  if (trace_.id_count == before) return;  // of impossible size
  trace_.completeness.starts_at_beginning = false;
  ++trace_.completeness.live_at_start_count;
  trace_.completeness.live_at_start += bytes;
}

void OpTraceBuilder::unnamed_live_at_start(Bytes bytes) {
  constexpr std::uint64_t kNoAddress = UINT64_MAX;  // no recording's key
  live_at_start(kNoAddress, bytes, 0);
  trace_.completeness.unnamed_live = bytes;
}

OpTrace OpTraceBuilder::finish() {
  trace_.stream_count = static_cast<std::uint16_t>(
      std::max<std::size_t>(1, std::min<std::size_t>(streams_.size(), kMaxStreams)));
  trace_.thread_count = static_cast<std::uint16_t>(threads_.size());
  threads_.clear();
  last_thread_ = 0;
  live_.clear();
  bytes_ = {};
  live_bytes_ = {};
  streams_.clear();
  return std::exchange(trace_, OpTrace{});
}

}  // namespace levee::replay
