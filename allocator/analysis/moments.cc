#include "allocator/analysis/moments.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

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

// Where a frame's file begins to have a name: behind the folder of installed packages, of which it
// then is part, or at 0.
std::size_t package_offset(std::string_view frame) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const std::size_t at = frame.rfind(folder);
    if (at != std::string_view::npos) return at + folder.size();
  }
  return 0;
}

// Python's own modules and levee's starter are no more the program's than installed packages are.
bool is_of_a_library(std::string_view frame) {
  if (package_offset(frame) > 0 || frame.substr(0, 8) == "<frozen ") return true;
  if (frame.find("/levee/_cli_run.py:") != std::string_view::npos) return true;
  const std::size_t at = frame.find("/lib/python");
  return at != std::string_view::npos && at + 11 < frame.size() && frame[at + 11] >= '0' &&
         frame[at + 11] <= '9';
}

// Folds what is beyond `max` into one entry at the end.
template <typename Entry, typename Add>
void fold_rest(std::vector<Entry>& list, std::size_t max, Add add) {
  if (list.size() <= max + 1) return;
  Entry rest;
  rest.origin = fmt::format("others ({} places)", list.size() - max);
  for (std::size_t i = max; i < list.size(); ++i) add(rest, list[i]);
  list.resize(max);
  list.push_back(std::move(rest));
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

std::string place_text(const std::string& stack) {
  constexpr std::size_t kFrames = 3;  // tell callers apart well enough for a line of a table
  std::vector<std::string_view> own;
  std::vector<std::string_view> library;
  const std::string_view all = stack;
  for (std::size_t begin = 0; begin < all.size() && own.size() < kFrames;) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view frame = all.substr(begin, end - begin);
    begin = end + 1;
    if (!is_of_a_library(frame)) {
      own.push_back(frame);
    } else if (own.empty() && library.size() < kFrames) {
      library.push_back(frame.substr(package_offset(frame)));
    }
  }
  if (!own.empty() && !library.empty()) {
    return fmt::format("{}, in {}", fmt::join(own.begin(), own.end(), " < "), library.front());
  }
  return fmt::format("{}", fmt::join(own.empty() ? library : own, " < "));
}

std::string origin_text(const TraceFacts& facts, const BlockRecord& block, Origin origin) {
  if (origin == Origin::kPhase) return facts.phase_path(block.phase);
  const std::string& stack = facts.name_of(block.context);
  if (stack.empty()) return "no stack: taken on misses only, or of every request with --stacks";
  return place_text(stack);
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
  fold_rest(out, max, [](Holder& rest, const Holder& one) {
    rest.bytes += one.bytes;
    rest.blocks += one.blocks;
  });
  return out;
}

namespace {

// By what lives on pages of which at most `share` is live, most free bytes first.
std::vector<Pin> by_page(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                         std::uint64_t time_ns, double share) {
  std::uint64_t whole_pages = 0;
  std::unordered_map<std::string, Pin> by_origin;
  std::unordered_map<const BlockRecord*, bool> counted;
  for (const auto& [page, use] : edge_pages(live, &whole_pages)) {
    if (static_cast<double>(use.live_bytes) > share * static_cast<double>(kPageBytes)) continue;
    if (use.live_bytes >= kPageBytes) continue;
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
  return out;
}

}  // namespace

std::vector<Pin> pins(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                      std::uint64_t time_ns, std::size_t max) {
  std::vector<Pin> out = by_page(facts, live, time_ns, kPinnedShare);
  if (out.size() > max) out.resize(max);
  return out;
}

std::vector<Pin> between(const TraceFacts& facts, const std::vector<const BlockRecord*>& live,
                         std::uint64_t time_ns, std::size_t max) {
  std::vector<Pin> out = by_page(facts, live, time_ns, 1.0);
  fold_rest(out, max, [](Pin& rest, const Pin& one) {
    rest.blocks += one.blocks;
    rest.block_bytes += one.block_bytes;
    rest.pinned_bytes += one.pinned_bytes;
    rest.oldest_ns = std::max(rest.oldest_ns, one.oldest_ns);
  });
  return out;
}

}  // namespace levee::analysis
