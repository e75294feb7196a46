#include "allocator/analysis/moments.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace levee::analysis {
namespace {

// Calls visit(page, bytes of `block` on it) for the pages at its two ends, and once for all whole
// ones between them as visit_whole(count). Blocks of gigabytes have thousands of whole pages, which
// nobody needs one by one.
template <typename Visit>
void visit_pages(const BlockRecord& block, Visit visit, std::uint64_t* whole_pages) {
  if (block.bytes == 0) return;
  const std::uint64_t begin = block.addr;
  const std::uint64_t end = block.addr + block.bytes;
  const std::uint64_t first = begin / kPageBytes;
  const std::uint64_t last = (end - 1) / kPageBytes;
  if (first == last) {
    visit(first, block.bytes);
    return;
  }
  visit(first, (first + 1) * kPageBytes - begin);
  visit(last, end - last * kPageBytes);
  *whole_pages += last - first - 1;
}

struct PageUse {
  std::uint64_t live_bytes = 0;
  const BlockRecord* largest = nullptr;
  std::uint64_t largest_bytes = 0;
};

std::unordered_map<std::uint64_t, PageUse> edge_pages(const std::vector<const BlockRecord*>& live,
                                                      std::uint64_t* whole_pages) {
  std::unordered_map<std::uint64_t, PageUse> pages;
  pages.reserve(live.size() * 2);
  for (const BlockRecord* block : live) {
    visit_pages(
        *block,
        [&](std::uint64_t page, std::uint64_t bytes) {
          PageUse& use = pages[page];
          use.live_bytes += bytes;
          if (bytes > use.largest_bytes) {
            use.largest_bytes = bytes;
            use.largest = block;
          }
        },
        whole_pages);
  }
  return pages;
}

}  // namespace

std::vector<const BlockRecord*> live_blocks(const TraceFacts& facts,
                                            const std::vector<BlockRecord>& blocks,
                                            std::uint32_t device, std::uint64_t time_ns) {
  std::vector<const BlockRecord*> live;
  for (const BlockRecord& block : blocks) {
    if (block.is_live_at(time_ns) && facts.device_of(block.lane) == device) live.push_back(&block);
  }
  std::sort(live.begin(), live.end(),
            [](const BlockRecord* a, const BlockRecord* b) { return a->addr < b->addr; });
  return live;
}

MemoryMoment describe_moment(const TraceFacts& facts, std::uint32_t device, std::uint64_t time_ns,
                             const std::vector<const BlockRecord*>& live) {
  MemoryMoment out;
  const Timeline& timeline = facts.devices[device].timeline;
  out.time_ns = time_ns;
  out.step = facts.step_at(time_ns);
  if (timeline.empty()) return out;
  const std::size_t at = timeline.index_at(time_ns);
  out.reserved_bytes = timeline.value(Series::kReserved, at);
  out.allocated_bytes = timeline.value(Series::kAllocated, at);
  out.waiting_bytes = timeline.value(Series::kActive, at) - out.allocated_bytes;
  const std::uint64_t used = out.allocated_bytes + out.waiting_bytes;
  out.free_bytes = out.reserved_bytes > used ? out.reserved_bytes - used : 0;

  std::uint64_t live_bytes = 0;
  for (const BlockRecord* block : live) {
    live_bytes += block->bytes;
    out.requested_bytes += block->requested_bytes;
    out.rounding_bytes += block->bytes - block->requested_bytes;
    if (block->pool != 0) out.private_pool_bytes += block->bytes;
  }
  std::uint64_t whole_pages = 0;
  const auto pages = edge_pages(live, &whole_pages);
  const std::uint64_t touched = (whole_pages + pages.size()) * kPageBytes;
  // Blocks in cudaMalloc-backed segments need not fill whole pages of the address space, so this
  // can exceed what is free.
  out.partial_page_bytes =
      std::min(touched > live_bytes ? touched - live_bytes : 0, out.free_bytes);
  return out;
}

std::string origin_text(const TraceFacts& facts, const BlockRecord& block, Origin origin) {
  if (origin == Origin::kPhase) return facts.phase_path(block.phase);
  const std::string& stack = facts.name_of(block.context);
  if (stack.empty()) return "no stack: taken on misses only, or of every request with --stacks";
  // The three innermost frames tell callers apart well enough for a line of a table.
  std::string out;
  std::size_t begin = 0;
  for (int frame = 0; frame < 3 && begin < stack.size(); ++frame) {
    const std::size_t end = std::min(stack.find('\n', begin), stack.size());
    if (!out.empty()) out += " < ";
    out += stack.substr(begin, end - begin);
    begin = end + 1;
  }
  return out;
}

std::vector<Holder> holders(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                            Origin origin, std::size_t max) {
  std::unordered_map<std::uint32_t, Holder> by_key;
  for (const BlockRecord* block : live) {
    const std::uint32_t key = origin == Origin::kPhase ? block->phase : block->context.value;
    Holder& holder = by_key[key];
    if (holder.blocks == 0) holder.origin = origin_text(facts, *block, origin);
    ++holder.blocks;
    holder.bytes += block->bytes;
  }
  // Different stacks can share their innermost frames: one line for a reader.
  std::unordered_map<std::string, Holder> by_text;
  for (auto& [key, holder] : by_key) {
    Holder& merged = by_text[holder.origin];
    merged.origin = holder.origin;
    merged.bytes += holder.bytes;
    merged.blocks += holder.blocks;
  }
  std::vector<Holder> out;
  out.reserve(by_text.size());
  for (auto& [text, holder] : by_text) out.push_back(std::move(holder));
  std::sort(out.begin(), out.end(), [](const Holder& a, const Holder& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.origin < b.origin;
  });
  if (out.size() > max) out.resize(max);
  return out;
}

std::vector<Pin> pins(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                      std::uint64_t time_ns, std::size_t max) {
  std::uint64_t whole_pages = 0;
  std::unordered_map<std::string, Pin> by_origin;
  std::unordered_map<const BlockRecord*, bool> counted;
  for (const auto& [page, use] : edge_pages(live, &whole_pages)) {
    if (static_cast<double>(use.live_bytes) > kPinnedShare * static_cast<double>(kPageBytes))
      continue;
    const BlockRecord& block = *use.largest;
    const Origin origin = facts.name_of(block.context).empty() ? Origin::kPhase : Origin::kStack;
    const std::string text = origin_text(facts, block, origin);
    Pin& pin = by_origin[text];
    pin.origin = text;
    pin.pinned_bytes += kPageBytes - use.live_bytes;
    pin.oldest_ns = std::max(pin.oldest_ns, time_ns - block.begin_ns);
    if (counted.try_emplace(&block, true).second) {
      ++pin.blocks;
      pin.block_bytes += block.bytes;
    }
  }
  std::vector<Pin> out;
  out.reserve(by_origin.size());
  for (auto& [text, pin] : by_origin) out.push_back(std::move(pin));
  std::sort(out.begin(), out.end(), [](const Pin& a, const Pin& b) {
    return a.pinned_bytes != b.pinned_bytes ? a.pinned_bytes > b.pinned_bytes : a.origin < b.origin;
  });
  if (out.size() > max) out.resize(max);
  return out;
}

}  // namespace levee::analysis
