#include "bench/replay/policies/torch_model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

namespace levee::replay {

namespace {
constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kMinBlock = 512;
constexpr std::uint64_t kSmallLimit = kMiB;
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kLargeSegment = 20 * kMiB;
constexpr std::uint64_t kOwnSegmentFrom = 10 * kMiB;
constexpr std::uint64_t kRoundLarge = 2 * kMiB;
constexpr std::uint64_t kNonSplitRounding = 20 * kMiB;
constexpr std::uint64_t kPage = 2 * kMiB;
constexpr std::uint64_t kAddressSpace =
    1ULL << 44;  // of an expandable segment; PyTorch takes 9/8 of the device

std::uint64_t up(std::uint64_t n, std::uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}
std::uint64_t down(std::uint64_t n, std::uint64_t unit) {
  return n / unit * unit;
}
}  // namespace

struct TorchModel::Block {
  std::uint64_t addr = 0;
  std::uint64_t size = 0;
  Block* prev = nullptr;
  Block* next = nullptr;
  std::uint64_t cached_at = 0;  // pool clock when it was last given back
  std::uint16_t stream = 0;
  bool small = false;
  bool allocated = false;
  bool mapped = true;
  bool used_elsewhere = false;
  bool waiting = false;

  bool is_split() const { return prev != nullptr || next != nullptr; }
  bool is_usable() const { return !allocated && !waiting; }
};

bool TorchModel::BySize::operator()(const Block* a, const Block* b) const {
  return a->size != b->size ? a->size < b->size : a->addr < b->addr;
}

TorchModel::TorchModel(TorchOptions options, Limits limits)
    : options_(std::move(options)), limits_(limits) {}

TorchModel::~TorchModel() {
  // Blocks of one segment form a list; its first one has no predecessor. Live and waiting blocks
  // are reached through them.
  std::set<Block*> firsts;
  const auto first_of = [](Block* b) {
    while (b->prev != nullptr) b = b->prev;
    return b;
  };
  for (auto& [stream, pools] : pools_) {
    for (Pool* pool : {&pools.small, &pools.large}) {
      for (Block* b : pool->free) firsts.insert(first_of(b));
      for (auto& [addr, b] : pool->unmapped) firsts.insert(first_of(b));
    }
  }
  for (Block* b : by_id_) {
    if (b != nullptr) firsts.insert(first_of(b));
  }
  for (auto& [when, b] : waiting_) firsts.insert(first_of(b));
  for (Block* b : firsts) {
    while (b != nullptr) {
      const std::unique_ptr<Block> owned(b);
      b = b->next;
    }
  }
}

std::string TorchModel::settings() const {
  std::string text = options_.expandable_segments ? "expandable_segments:True" : "defaults";
  if (options_.max_split_size.value != 0)
    text += fmt::format(",max_split_size_mb:{}", options_.max_split_size.value / kMiB);
  if (options_.roundup_power2_divisions != 0)
    text += fmt::format(",roundup_power2_divisions:{}", options_.roundup_power2_divisions);
  if (options_.garbage_collection_threshold > 0) {
    text += fmt::format(",garbage_collection_threshold:{}", options_.garbage_collection_threshold);
  }
  return text;
}

std::uint64_t TorchModel::rounded(std::uint64_t bytes) const {
  if (bytes < kMinBlock) return kMinBlock;
  const std::uint64_t divisions = options_.roundup_power2_divisions;
  if (divisions > 1 && bytes > kMinBlock * divisions) {
    const std::uint64_t power = std::bit_floor(bytes);
    return up(bytes, std::max<std::uint64_t>(power / divisions, 1));
  }
  return up(bytes, kMinBlock);
}

TorchModel::Pool& TorchModel::pool_of(std::uint16_t stream, bool small) {
  Pools& pools = pools_[stream];
  return small ? pools.small : pools.large;
}

std::unique_ptr<TorchModel::Block> TorchModel::make_block(std::uint64_t addr, std::uint64_t size,
                                                          std::uint16_t stream, bool small) {
  auto block = std::make_unique<Block>();
  block->addr = addr;
  block->size = size;
  block->stream = stream;
  block->small = small;
  return block;
}

bool TorchModel::fits(std::uint64_t more) const {
  // "No limit" is a device that no real trace fills.
  const std::uint64_t capacity = limits_.capacity.value == 0 ? 1ULL << 52 : limits_.capacity.value;
  return reserved_.value + more <= capacity;
}

void TorchModel::grew(std::uint64_t bytes) {
  reserved_ += Bytes{bytes};
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

bool TorchModel::allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) {
  ++requests_;
  come_back_waiting(false);
  const std::uint64_t size = rounded(requested.value);
  Pool& pool = pool_of(stream, size <= kSmallLimit);
  ++pool.clock;
  Block* block = search(pool, size);
  if (block == nullptr) {
    if (options_.garbage_collection_threshold > 0 && limits_.capacity.value != 0)
      collect_garbage(size);
    block = acquire(pool, stream, size);
    if (block == nullptr && options_.max_split_size.value != 0 && release_oversize(pool, size))
      block = acquire(pool, stream, size);
    if (block == nullptr) {
      ++emergencies_;
      release_all_cached();
      block = acquire(pool, stream, size);
    }
    if (block == nullptr) return false;
  }
  pool.free.erase(block);
  if (split_allowed(pool, *block, size)) split(pool, block, size);
  block->allocated = true;
  block->used_elsewhere = false;
  if (by_id_.size() <= id) by_id_.resize(id + 1);
  by_id_[id] = block;
  return true;
}

TorchModel::Block* TorchModel::search(Pool& pool, std::uint64_t size) {
  Block key;
  key.size = size;
  auto it = pool.free.lower_bound(&key);
  if (it == pool.free.end()) return nullptr;
  if (options_.expandable_segments) {
    // The block before unmapped space counts as large as it could become, so that others are
    // preferred to it.
    const auto potential = [](const Block* b) {
      return b->size + (b->next != nullptr && !b->next->mapped ? b->next->size : 0);
    };
    for (auto next = std::next(it);
         (*it)->is_split() && next != pool.free.end() && potential(*next) < potential(*it); ++next)
      it = next;
    return *it;
  }
  const std::uint64_t limit = options_.max_split_size.value;
  if (limit != 0) {
    if (size < limit && (*it)->size >= limit) return nullptr;
    if (size >= limit && (*it)->size >= size + kNonSplitRounding) return nullptr;
  }
  return *it;
}

TorchModel::Block* TorchModel::acquire(Pool& pool, std::uint16_t stream, std::uint64_t size) {
  return options_.expandable_segments ? acquire_expandable(pool, stream, size)
                                      : acquire_segment(pool, stream, size);
}

TorchModel::Block* TorchModel::acquire_segment(Pool& pool, std::uint16_t stream,
                                               std::uint64_t size) {
  std::uint64_t bytes = kSmallSegment;
  if (size > kSmallLimit) bytes = size < kOwnSegmentFrom ? kLargeSegment : up(size, kRoundLarge);
  if (!fits(bytes)) return nullptr;
  ++costs_.mallocs;
  grew(bytes);
  Block* block = make_block(next_address_, bytes, stream, pool.small).release();
  next_address_ += bytes + 64 * kMiB;  // segments never touch
  pool.free.insert(block);
  return block;
}

TorchModel::Block* TorchModel::acquire_expandable(Pool& pool, std::uint16_t stream,
                                                  std::uint64_t size) {
  if (pool.unmapped.empty()) {
    Block* space = make_block(next_address_, kAddressSpace, stream, pool.small).release();
    next_address_ += 2 * kAddressSpace;
    space->mapped = false;
    pool.unmapped.emplace(space->addr, space);
  }
  Block* candidate = nullptr;
  for (auto& [addr, space] : pool.unmapped) {
    Block* begin = space->prev != nullptr && space->prev->is_usable() ? space->prev : space;
    std::uint64_t reachable = 0;
    for (Block* b = begin; b != nullptr && b->is_usable() && reachable < size; b = b->next)
      reachable += b->size;
    if (reachable >= size) {
      candidate = begin;
      break;
    }
  }
  if (candidate == nullptr) return nullptr;
  if (!candidate->mapped) {
    candidate = map_front(pool, candidate, std::min(candidate->size, size));
    if (candidate == nullptr) return nullptr;
  }
  while (candidate->size < size) {
    Block* next = candidate->next;
    candidate = map_front(pool, next, std::min(size - candidate->size, next->size));
    if (candidate == nullptr) return nullptr;
  }
  return candidate;
}

// Maps at least `bytes` at the start of the unmapped `block`; returns the free block that the new
// memory became part of.
TorchModel::Block* TorchModel::map_front(Pool& pool, Block* block, std::uint64_t bytes) {
  const std::uint64_t unit = pool.small ? kSmallSegment : kLargeSegment;
  const std::uint64_t mapped = std::min(up(bytes, unit), block->size);
  if (!fits(mapped)) return nullptr;
  const std::uint64_t handles = (mapped + unit - 1) / unit;
  costs_.created += handles;
  costs_.created_mib += mapped / kMiB;
  costs_.mapped += handles;
  costs_.accessed_pages += mapped / kPage;
  ++costs_.access_calls;
  created_pages_ += mapped / kPage;
  grew(mapped);
  pool.unmapped.erase(block->addr);
  if (mapped < block->size) {
    Block* rest =
        make_block(block->addr + mapped, block->size - mapped, block->stream, block->small)
            .release();
    rest->mapped = false;
    rest->prev = block;
    rest->next = block->next;
    if (rest->next != nullptr) rest->next->prev = rest;
    block->next = rest;
    block->size = mapped;
    pool.unmapped.emplace(rest->addr, rest);
  }
  block->mapped = true;
  block->cached_at = pool.clock;
  absorb(pool, block, block->prev);
  absorb(pool, block, block->next);
  pool.free.insert(block);
  return block;
}

bool TorchModel::split_allowed(const Pool& pool, const Block& block, std::uint64_t size) const {
  const std::uint64_t rest = block.size - size;
  if (pool.small || options_.expandable_segments) return rest >= kMinBlock;
  const std::uint64_t limit = options_.max_split_size.value;
  return (limit == 0 || size < limit) && rest > kSmallLimit;
}

void TorchModel::split(Pool& pool, Block* block, std::uint64_t size) {
  Block* rest =
      make_block(block->addr + size, block->size - size, block->stream, block->small).release();
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  rest->cached_at = block->cached_at;
  pool.free.insert(rest);
}

// Makes a free, equally mapped neighbour part of `into`, which is in no set.
void TorchModel::absorb(Pool& pool, Block* into, Block* neighbour) {
  if (neighbour == nullptr || !neighbour->is_usable() || neighbour->mapped != into->mapped) return;
  const std::unique_ptr<Block> gone(neighbour);
  if (neighbour->mapped) {
    pool.free.erase(neighbour);
  } else {
    pool.unmapped.erase(neighbour->addr);
  }
  if (neighbour == into->prev) {
    into->addr = neighbour->addr;
    into->prev = neighbour->prev;
    if (into->prev != nullptr) into->prev->next = into;
  } else {
    into->next = neighbour->next;
    if (into->next != nullptr) into->next->prev = into;
  }
  into->size += neighbour->size;
}

void TorchModel::free(std::uint32_t id) {
  Block* block = by_id_[id];
  by_id_[id] = nullptr;
  block->allocated = false;
  if (block->used_elsewhere) {
    ++costs_.event_records;
    block->waiting = true;
    waiting_.emplace_back(requests_ + options_.event_lag, block);
    return;
  }
  give_back(block);
}

void TorchModel::record_use(std::uint32_t id, std::uint16_t stream) {
  Block* block = by_id_[id];
  if (block != nullptr && block->stream != stream) block->used_elsewhere = true;
}

void TorchModel::give_back(Block* block) {
  Pool& pool = pool_of(block->stream, block->small);
  block->cached_at = pool.clock;
  absorb(pool, block, block->prev);
  absorb(pool, block, block->next);
  pool.free.insert(block);
}

void TorchModel::come_back_waiting(bool all) {
  while (!waiting_.empty() && (all || waiting_.front().first <= requests_)) {
    Block* block = waiting_.front().second;
    waiting_.pop_front();
    if (all) ++costs_.synchronisations;
    block->waiting = false;
    block->used_elsewhere = false;
    give_back(block);
  }
}

void TorchModel::release_segment(Pool& pool, Block* block) {
  const std::unique_ptr<Block> gone(block);
  ++costs_.frees;
  reserved_ -= Bytes{block->size};
  pool.free.erase(block);
}

// Gives whole handles inside a free block of an expandable segment back; what is left at both ends
// stays cached.
void TorchModel::unmap_inside(Pool& pool, Block* block) {
  const std::uint64_t unit = pool.small ? kSmallSegment : kLargeSegment;
  const std::uint64_t begin = up(block->addr, unit);
  const std::uint64_t end = down(block->addr + block->size, unit);
  if (begin >= end) return;
  pool.free.erase(block);
  const std::uint64_t handles = (end - begin) / unit;
  ++costs_.synchronisations;
  costs_.unmapped += handles;
  costs_.released += handles;
  reserved_ -= Bytes{end - begin};
  const std::uint64_t block_end = block->addr + block->size;
  if (begin > block->addr) {
    Block* before =
        make_block(block->addr, begin - block->addr, block->stream, block->small).release();
    before->cached_at = block->cached_at;
    before->prev = block->prev;
    before->next = block;
    if (before->prev != nullptr) before->prev->next = before;
    block->prev = before;
    pool.free.insert(before);
  }
  if (block_end > end) {
    Block* after = make_block(end, block_end - end, block->stream, block->small).release();
    after->cached_at = block->cached_at;
    after->prev = block;
    after->next = block->next;
    if (after->next != nullptr) after->next->prev = after;
    block->next = after;
    pool.free.insert(after);
  }
  block->addr = begin;
  block->size = end - begin;
  block->mapped = false;
  absorb(pool, block, block->prev);
  absorb(pool, block, block->next);
  pool.unmapped.emplace(block->addr, block);
}

void TorchModel::release_all_cached() {
  come_back_waiting(true);
  ++costs_.synchronisations;
  for (auto& [stream, pools] : pools_) {
    for (Pool* pool : {&pools.large, &pools.small}) {
      const std::vector<Block*> cached(pool->free.begin(), pool->free.end());
      for (Block* block : cached) {
        if (options_.expandable_segments) {
          unmap_inside(*pool, block);
        } else if (!block->is_split()) {
          release_segment(*pool, block);
        }
      }
    }
  }
}

bool TorchModel::release_oversize(Pool& pool, std::uint64_t size) {
  Block key;
  key.size = std::max(size, options_.max_split_size.value);
  auto it = pool.free.lower_bound(&key);
  if (it != pool.free.end()) {
    if ((*it)->is_split()) return false;
    release_segment(pool, *it);
    return true;
  }
  std::uint64_t released = 0;
  while (released < key.size && !pool.free.empty()) {
    Block* largest = *pool.free.rbegin();
    if (largest->size < options_.max_split_size.value || largest->is_split()) break;
    released += largest->size;
    release_segment(pool, largest);
  }
  return released >= key.size;
}

void TorchModel::collect_garbage(std::uint64_t /*wanted*/) {
  const auto target = static_cast<std::uint64_t>(options_.garbage_collection_threshold *
                                                 static_cast<double>(limits_.capacity.value));
  if (reserved_.value <= target) return;
  std::uint64_t excess = reserved_.value - target;
  bool freed = true;
  while (freed && excess != 0) {
    freed = false;
    std::uint64_t total_age = 0;
    std::uint64_t count = 0;
    for (auto& [stream, pools] : pools_) {
      for (const Block* b : pools.large.free) {
        if (b->is_split()) continue;
        total_age += pools.large.clock - b->cached_at;
        ++count;
      }
    }
    if (count == 0) return;
    const double average = static_cast<double>(total_age) / static_cast<double>(count);
    for (auto& [stream, pools] : pools_) {
      const std::vector<Block*> cached(pools.large.free.begin(), pools.large.free.end());
      for (Block* b : cached) {
        if (b->is_split() || static_cast<double>(pools.large.clock - b->cached_at) < average)
          continue;
        excess -= std::min(excess, b->size);
        release_segment(pools.large, b);
        freed = true;
      }
    }
  }
}

}  // namespace levee::replay
