#include "bench/replay/readers/snapshot_reader.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "allocator/analysis/text.h"
#include "bench/replay/readers/pickle_value.h"

namespace levee::replay {

namespace {

enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentGain,
  kSegmentLoss,
  kOutOfMemory,
  kOther,
};

Action action_of(std::string_view text) {
  if (text == "alloc") return Action::kAlloc;
  if (text == "free_requested") return Action::kFreeRequested;
  if (text == "free_completed" || text == "free") return Action::kFreeCompleted;
  if (text == "segment_alloc" || text == "segment_map") return Action::kSegmentGain;
  if (text == "segment_free" || text == "segment_unmap") return Action::kSegmentLoss;
  if (text == "oom") return Action::kOutOfMemory;
  return Action::kOther;
}

struct Entry {
  std::uint64_t addr = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  std::uint64_t time_us = 0;
  Action action = Action::kOther;
  bool is_private_pool = false;
};

struct Block {
  std::uint64_t addr = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, std::size_t input_bytes, const ReadOptions& options,
                 ReadError* error)
      : p_(pickle),
        input_bytes_(input_bytes),
        options_(options),
        error_(error),
        builder_(options.name) {}

  OpTrace read() {
    if (!choose() || !read_entries() || !read_segments()) return {};
    find_live_at_start();
    write_ops();
    find_peak_reserved();
    say_what_is_missing();
    return builder_.finish();
  }

 private:
  bool fail(std::string sentence) {
    error_->sentence = std::move(sentence);
    return false;
  }

  bool choose() {
    const auto traces = p_.get(p_.root(), "device_traces");
    if (!traces || !p_.get(p_.root(), "segments"))
      return fail(
          "this pickle is no memory snapshot of PyTorch (device_traces or segments is missing)");
    std::vector<std::size_t> counts;
    std::size_t all = 0;
    for (const PickleValue& list : p_.items(*traces)) {
      counts.push_back(p_.items(list).size());
      all += counts.back();
    }
    if (all == 0) {
      return fail(
          "this snapshot holds no history, only the memory at one moment; call "
          "torch.cuda.memory._record_memory_history() before the work and dump it again");
    }
    const auto device = choose_device(counts, options_.device, error_);
    if (!device) return false;
    device_ = *device;
    list_ = p_.items(*traces)[device_];
    return true;
  }

  bool read_entries() {
    const std::vector<PickleValue>& items = p_.items(list_);
    entries_.reserve(items.size());
    for (const PickleValue& item : items) {
      Entry e;
      e.action = action_of(p_.get_text(item, "action"));
      if (e.action == Action::kOther) continue;
      const auto bytes = p_.get_unsigned(item, "size");
      const auto addr = p_.get_unsigned(item, "addr");
      if (!bytes || (!addr && e.action != Action::kOutOfMemory)) {
        return fail(fmt::format("entry {} of its history has no size or address",
                                static_cast<std::size_t>(&item - items.data())));
      }
      e.bytes = *bytes;
      e.addr = addr.value_or(0);
      e.stream = p_.get_unsigned(item, "stream").value_or(0);
      e.time_us = p_.get_unsigned(item, "time_us").value_or(0);
      if (const auto pool = p_.get(item, "pool_id")) e.is_private_pool = is_private(*pool);
      has_completed_ = has_completed_ || e.action == Action::kFreeCompleted;
      entries_.push_back(e);
    }
    return true;
  }

  bool is_private(PickleValue pool) const {
    const std::vector<PickleValue>& ids = p_.items(pool);
    return ids.size() == 2 && (ids[0].bits != 0 || ids[1].bits != 0);
  }

  /// Blocks of the device at the end of the history, and what is reserved then.
  bool read_segments() {
    std::size_t visited = 0;
    for (const PickleValue& segment : p_.items(*p_.get(p_.root(), "segments"))) {
      if (p_.get_unsigned(segment, "device").value_or(0) != device_) continue;
      const std::uint64_t size = p_.get_unsigned(segment, "total_size").value_or(0);
      if (size > kMaxLive.value - reserved_at_end_)
        return fail("its segments are larger than any GPU");
      reserved_at_end_ += size;
      const auto blocks = p_.get(segment, "blocks");
      if (!blocks) continue;
      std::uint64_t addr = p_.get_unsigned(segment, "address").value_or(0);
      visited += p_.items(*blocks).size();
      // Each block of an honest file takes some bytes of it; a list that is named again and again
      // does not.
      if (visited > input_bytes_) return fail("it lists the same blocks again and again");
      for (const PickleValue& block : p_.items(*blocks)) {
        const std::uint64_t block_bytes = p_.get_unsigned(block, "size").value_or(0);
        const std::uint64_t block_addr = p_.get_unsigned(block, "address").value_or(addr);
        if (p_.get_text(block, "state").starts_with("active")) {
          at_end_.push_back({block_addr,
                             p_.get_unsigned(block, "requested_size").value_or(block_bytes),
                             p_.get_unsigned(segment, "stream").value_or(0)});
        }
        addr = block_addr + block_bytes;
      }
    }
    return true;
  }

  bool frees(const Entry& e) const {
    return e.action == (has_completed_ ? Action::kFreeCompleted : Action::kFreeRequested);
  }

  void find_live_at_start() {
    IdTable live;   // allocated in the window and not freed since
    IdTable known;  // in at_start_
    const auto is_new = [&](std::uint64_t addr) {
      return live.find(addr) == IdTable::kNone && known.find(addr) == IdTable::kNone;
    };
    for (const Entry& e : entries_) {
      if (e.action == Action::kAlloc) {
        live.put(e.addr, 0);
      } else if (frees(e) && live.take(e.addr) == IdTable::kNone && is_new(e.addr)) {
        known.put(e.addr, 0);
        at_start_.push_back({e.addr, e.bytes, e.stream});
      }
    }
    for (const Block& block : at_end_) {
      if (!is_new(block.addr)) continue;
      known.put(block.addr, 0);
      at_start_.push_back(block);
    }
    std::sort(at_start_.begin(), at_start_.end(),
              [](const Block& a, const Block& b) { return a.addr < b.addr; });
  }

  /// Steps that the profiler began, in order.
  std::vector<ProfilerStep> steps() const {
    std::vector<ProfilerStep> found;
    const auto annotations = p_.get(p_.root(), "external_annotations");
    if (!annotations) return found;
    for (const PickleValue& a : p_.items(*annotations)) {
      const auto number = profiler_step(p_.get_text(a, "name"));
      if (number && p_.get_text(a, "stage") == "START" &&
          p_.get_unsigned(a, "device").value_or(device_) == device_) {
        found.push_back({*number, static_cast<double>(p_.get_unsigned(a, "time_us").value_or(0))});
      }
    }
    keep_each_once(found);
    return found;
  }

  void write_ops() {
    for (const Block& b : at_start_) builder_.live_at_start(b.addr, Bytes{b.bytes}, b.stream);
    const std::vector<ProfilerStep> marks = steps();
    std::size_t next_step = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& e = entries_[i];
      const auto now = static_cast<double>(e.time_us);
      for (; next_step < marks.size() && marks[next_step].time <= now; ++next_step)
        builder_.step(0, marks[next_step].number);
      if (e.action == Action::kAlloc) {
        builder_.alloc(e.addr, Bytes{e.bytes}, e.stream);
        private_requests_ += e.is_private_pool ? 1U : 0U;
      } else if (frees(e)) {
        const bool at_once = i > 0 && entries_[i - 1].addr == e.addr &&
                             entries_[i - 1].action == Action::kFreeRequested;
        if (has_completed_ && !at_once && builder_.is_live(e.addr)) ++late_frees_;
        builder_.free(e.addr);
      } else if (e.action == Action::kOutOfMemory) {
        ++out_of_memory_;
      }
    }
  }

  /// The history tells gains and losses of reserved memory, the segments what is left at its end.
  void find_peak_reserved() {
    if (find_levees_mark()) return;
    std::int64_t net = 0;
    std::int64_t least_sum = 0;
    std::int64_t most = 0;
    for (const Entry& e : entries_) {
      if (e.bytes > kMaxLive.value) continue;
      const auto bytes = static_cast<std::int64_t>(e.bytes);
      if (e.action == Action::kSegmentGain) net += bytes;
      if (e.action == Action::kSegmentLoss) net -= bytes;
      if (net > INT64_MAX / 2 || net < INT64_MIN / 2) return;  // absurd: say nothing
      most = std::max(most, net);
      least_sum = std::min(least_sum, net);
    }
    const std::int64_t base = static_cast<std::int64_t>(reserved_at_end_) - net;
    if (base + least_sum < 0) return;  // gains and losses do not fit together
    builder_.set_recorded_peak_reserved(Bytes{static_cast<std::uint64_t>(base + most)});
  }

  /// What levee's exporter notes beside PyTorch's settings: that the segments are address ranges,
  /// and what was reserved.
  bool find_levees_mark() {
    const auto settings = p_.get(p_.root(), "allocator_settings");
    if (!settings || !p_.get(*settings, "levee")) return false;
    builder_.levees_own();
    builder_.note(
        "levee wrote this pickle: its segments are the address ranges that were ever used, not "
        "reserved memory. The .levee recording that it was made from is the better input: it has "
        "steps, recorded uses and threads too.");
    const auto peaks = p_.get(*settings, "levee_peak_reserved");
    if (!peaks || p_.items(*peaks).size() <= device_) return true;
    const PickleValue& peak = p_.items(*peaks)[device_];
    if (peak.kind == PickleValue::Kind::kInteger && peak.bits <= kMaxLive.value)
      builder_.set_recorded_peak_reserved(Bytes{peak.bits});
    return true;
  }

  void say_what_is_missing() {
    builder_.private_requests(private_requests_);
    const auto settings = p_.get(p_.root(), "allocator_settings");
    if (settings) {
      const auto overflowed = p_.get(*settings, "trace_alloc_overflowed");
      if (overflowed && overflowed->kind == PickleValue::Kind::kBool && overflowed->bits != 0)
        builder_.gap("PyTorch says that its history was full and its oldest part overwritten.");
    }
    if (late_frees_ != 0) {
      builder_.note(fmt::format("{} freed (used by other streams), and live until then.",
                                analysis::counted(late_frees_, "block came back later than it was",
                                                  "blocks came back later than they were")));
    }
    if (out_of_memory_ != 0)
      builder_.note(fmt::format(
          "The run met {}.",
          analysis::counted(out_of_memory_, "out-of-memory error", "out-of-memory errors")));
  }

  const Pickle& p_;
  std::size_t input_bytes_;
  const ReadOptions& options_;
  ReadError* error_;
  OpTraceBuilder builder_;
  std::size_t device_ = 0;
  PickleValue list_;
  std::vector<Entry> entries_;
  bool has_completed_ = false;
  std::vector<Block> at_start_;
  std::vector<Block> at_end_;
  std::uint64_t reserved_at_end_ = 0;
  std::uint64_t late_frees_ = 0;
  std::uint64_t private_requests_ = 0;
  std::uint64_t out_of_memory_ = 0;
};

}  // namespace

OpTrace read_snapshot(std::string_view bytes, const ReadOptions& options, ReadError* error) {
  const std::optional<Pickle> pickle = Pickle::read(bytes, &error->sentence);
  if (!pickle) return {};
  return SnapshotReader(*pickle, bytes.size(), options, error).read();
}

}  // namespace levee::replay
