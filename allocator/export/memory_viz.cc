#include "allocator/export/memory_viz.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "allocator/export/pickle_writer.h"

namespace levee::exporting {
namespace {

using analysis::BlockRecord;
using analysis::kStillLive;
using analysis::TraceFacts;

constexpr std::uint64_t kPage = std::uint64_t{2} << 20;
constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;

struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Entry {
  std::uint64_t time_ns = 0;
  std::uint32_t block = 0;  // or index into out_of_memory
  enum Kind : std::uint8_t { kFree, kAlloc, kOom } kind = kAlloc;
};

class SnapshotWriter {
 public:
  SnapshotWriter(const TraceFacts& facts, const MemoryVizOptions& options, ByteSink& sink)
      : facts_(facts), options_(options), pickle_(sink) {}

  void write() {
    pickle_.begin_dict();
    key("segments");
    pickle_.begin_list();
    for (std::uint32_t d = 0; d < facts_.devices.size(); ++d) segments(d);
    pickle_.end_list();
    key("device_traces");
    pickle_.begin_list();
    // One list for each device index up to the largest in use: the viewer indexes by it.
    std::int32_t largest = 0;
    for (const auto& device : facts_.devices) largest = std::max(largest, device.device.value);
    for (std::int32_t id = 0; id <= largest; ++id) {
      pickle_.begin_list();
      for (std::uint32_t d = 0; d < facts_.devices.size(); ++d) {
        if (facts_.devices[d].device.value == id) trace(d);
      }
      pickle_.end_list();
    }
    pickle_.end_list();
    key("allocator_settings");
    pickle_.begin_dict();
    field("PYTORCH_CUDA_ALLOC_CONF", "");
    field("levee", facts_.levee_version);
    // Viewers ignore it; the sum of the segments is address space.
    key("levee_peak_reserved");
    pickle_.begin_list();
    for (std::int32_t id = 0; id <= largest; ++id) {
      std::uint64_t peak = 0;
      for (const auto& device : facts_.devices) {
        if (device.device.value == id) {
          peak = device.timeline.range(analysis::Series::kReserved, 0, ~std::uint64_t{0}).max;
        }
      }
      pickle_.integer(peak);
    }
    pickle_.end_list();
    pickle_.end_dict();
    key("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  // Keys and texts that recur are written once.
  void key(std::string_view name) {
    const auto [known, is_new] = texts_.try_emplace(std::string(name), 0);
    if (!is_new) return pickle_.recall(known->second);
    pickle_.text(name);
    known->second = pickle_.remember();
  }
  void field(std::string_view name, std::string_view value) {
    key(name);
    key(value);
  }
  void field(std::string_view name, std::uint64_t value) {
    key(name);
    pickle_.integer(value);
  }

  // A stack as a list of frames; "file:line function" a line. A line that is not of this form is a
  // frame with line 0: one bad frame must not cost the file.
  void frames(ContextId context) {
    key("frames");
    const auto [known, is_new] = stacks_.try_emplace(context.value, 0);
    if (!is_new) return pickle_.recall(known->second);
    pickle_.begin_list();
    std::string_view text = facts_.name_of(context);
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      frame(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    pickle_.end_list();
    known->second = pickle_.remember();
  }

  void frame(std::string_view line) {
    std::string_view file = line;
    std::string_view name = "??";
    std::uint64_t number = 0;
    // The function is what follows the first space behind the last "file:line".
    const std::size_t colon = line.rfind(':');
    const std::size_t space = colon == std::string_view::npos ? colon : line.find(' ', colon);
    if (space != std::string_view::npos) {
      const std::string_view digits = line.substr(colon + 1, space - colon - 1);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size()) {
        file = line.substr(0, colon);
        name = line.substr(space + 1);
      } else {
        number = 0;
      }
    }
    pickle_.begin_dict();
    field("filename", file);
    field("name", name);
    field("line", number);
    pickle_.end_dict();
  }

  bool is_on(const BlockRecord& block, std::uint32_t device) const {
    return facts_.device_of(block.lane) == device;
  }

  std::vector<Stretch> stretches(std::uint32_t device) const {
    std::vector<Stretch> pages;
    for (const BlockRecord& block : facts_.blocks) {
      if (!is_on(block, device) || block.bytes == 0) continue;
      const std::uint64_t end = block.addr + block.bytes;
      pages.push_back({block.addr / kPage * kPage, (end + kPage - 1) / kPage * kPage});
    }
    std::sort(pages.begin(), pages.end(),
              [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    std::vector<Stretch> out;
    for (const Stretch& page : pages) {
      if (!out.empty() && page.begin <= out.back().end) {
        out.back().end = std::max(out.back().end, page.end);
      } else {
        out.push_back(page);
      }
    }
    return out;
  }

  void segments(std::uint32_t device) {
    std::vector<const BlockRecord*> live;
    for (const BlockRecord& block : facts_.blocks) {
      if (is_on(block, device) && block.end_ns == kStillLive && block.bytes > 0) {
        live.push_back(&block);
      }
    }
    std::sort(live.begin(), live.end(),
              [](const BlockRecord* a, const BlockRecord* b) { return a->addr < b->addr; });
    std::size_t next = 0;
    for (const Stretch& stretch : stretches(device)) {
      const std::size_t first = next;
      while (next < live.size() && live[next]->addr < stretch.end) ++next;
      segment(device, stretch, live.data() + first, live.data() + next);
    }
  }

  void segment(std::uint32_t device, const Stretch& stretch, const BlockRecord* const* first,
               const BlockRecord* const* last) {
    std::uint64_t allocated = 0;
    std::uint64_t requested = 0;
    bool is_small = first != last;
    for (const BlockRecord* const* block = first; block != last; ++block) {
      allocated += (*block)->bytes;
      requested += (*block)->requested_bytes;
      if ((*block)->requested_bytes > kSmall) is_small = false;
    }
    const BlockRecord* owner = first == last ? nullptr : *first;
    pickle_.begin_dict();
    field("device", static_cast<std::uint64_t>(facts_.devices[device].device.value));
    field("address", stretch.begin);
    field("total_size", stretch.end - stretch.begin);
    field("allocated_size", allocated);
    field("active_size", allocated);
    field("requested_size", requested);
    field("stream", owner == nullptr ? 0 : facts_.stream_of(owner->lane));
    field("segment_type", is_small ? "small" : "large");
    key("segment_pool_id");
    const PoolId pool = owner == nullptr ? PoolId{} : facts_.pool_of(owner->pool);
    pickle_.pair(pool.first, pool.second);
    key("is_expandable");
    pickle_.boolean(true);
    frames({});
    key("blocks");
    pickle_.begin_list();
    std::uint64_t at = stretch.begin;
    for (const BlockRecord* const* item = first; item != last; ++item) {
      const BlockRecord& block = **item;
      if (block.addr > at) free_block(at, block.addr - at);
      if (block.addr < at) continue;  // overlaps: its predecessor's free is missing from the record
      pickle_.begin_dict();
      field("address", block.addr);
      field("size", block.bytes);
      field("requested_size", block.requested_bytes);
      field("state", "active_allocated");
      frames(block.context);
      pickle_.end_dict();
      at = block.addr + block.bytes;
    }
    if (at < stretch.end) free_block(at, stretch.end - at);
    pickle_.end_list();
    pickle_.end_dict();
  }

  void free_block(std::uint64_t addr, std::uint64_t bytes) {
    pickle_.begin_dict();
    field("address", addr);
    field("size", bytes);
    field("requested_size", std::uint64_t{0});
    field("state", "inactive");
    frames({});
    pickle_.end_dict();
  }

  void trace(std::uint32_t device) {
    std::vector<Entry> entries;
    for (std::uint32_t i = 0; i < facts_.blocks.size(); ++i) {
      const BlockRecord& block = facts_.blocks[i];
      if (!is_on(block, device) || block.bytes == 0) continue;
      if (block.begin_ns >= facts_.start_ns) entries.push_back({block.begin_ns, i, Entry::kAlloc});
      if (block.end_ns != kStillLive) entries.push_back({block.end_ns, i, Entry::kFree});
    }
    for (std::uint32_t i = 0; i < facts_.out_of_memory.size(); ++i) {
      if (facts_.out_of_memory[i].device == device) {
        entries.push_back({facts_.out_of_memory[i].time_ns, i, Entry::kOom});
      }
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.kind < b.kind;
    });
    const std::size_t first =
        entries.size() > options_.max_entries ? entries.size() - options_.max_entries : 0;
    for (std::size_t i = first; i < entries.size(); ++i) entry(entries[i]);
  }

  std::uint64_t wall_us(std::uint64_t time_ns) const {
    const auto since = static_cast<std::int64_t>(time_ns - std::min(facts_.start_ns, time_ns));
    return static_cast<std::uint64_t>(std::max<std::int64_t>(facts_.start_unix_ns + since, 0)) /
           1000;
  }

  void entry(const Entry& item) {
    if (item.kind == Entry::kOom) {
      const analysis::OutOfMemory& oom = facts_.out_of_memory[item.block];
      const std::uint64_t total = facts_.devices[oom.device].total_bytes;
      pickle_.begin_dict();
      field("action", "oom");
      field("device_free", total > oom.reserved_bytes ? total - oom.reserved_bytes : 0);
      rest(oom.requested_bytes, 0, item.time_ns, {}, {});
      return;
    }
    const BlockRecord& block = facts_.blocks[item.block];
    const std::uint64_t stream = facts_.stream_of(block.lane);
    const PoolId pool = facts_.pool_of(block.pool);
    if (item.kind == Entry::kAlloc) {
      action("alloc", block.addr);
      rest(block.requested_bytes, stream, item.time_ns, block.context, pool);
      return;
    }
    for (const char* name : {"free_requested", "free_completed"}) {
      action(name, block.addr);
      rest(block.requested_bytes, stream, item.time_ns, block.context, pool);
    }
  }

  void action(std::string_view name, std::uint64_t addr) {
    pickle_.begin_dict();
    field("action", name);
    field("addr", addr);
  }

  void rest(std::uint64_t bytes, std::uint64_t stream, std::uint64_t time_ns, ContextId context,
            PoolId pool) {
    field("size", bytes);
    field("stream", stream);
    field("time_us", wall_us(time_ns));
    field("compile_context", "N/A");
    key("pool_id");
    pickle_.pair(pool.first, pool.second);
    frames(context);
    pickle_.end_dict();
  }

  const TraceFacts& facts_;
  const MemoryVizOptions& options_;
  PickleWriter pickle_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::unordered_map<std::uint32_t, std::uint32_t> stacks_;
};

}  // namespace

void write_memory_viz(const TraceFacts& facts, const MemoryVizOptions& options, ByteSink& sink) {
  SnapshotWriter(facts, options, sink).write();
}

bool write_memory_viz(const TraceFacts& facts, const MemoryVizOptions& options,
                      const std::string& path, std::string* why) {
  const auto file = FileSink::create(path, FileCoding::kPlain, why);
  if (file == nullptr) return false;
  write_memory_viz(facts, options, *file);
  return file->commit(why);
}

}  // namespace levee::exporting
