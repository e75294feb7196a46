#include "bench/replay/policies/stream_pool_model.h"

#include <algorithm>

namespace levee::replay {

namespace {
constexpr std::uint64_t kEventLag = 300;
constexpr std::uint64_t kGrain = 512;
constexpr std::uint64_t kSegment = 32ULL << 20;
constexpr int kMostLookedAt = 64;  // blocks of other streams that a search passes over

std::uint64_t up(std::uint64_t n, std::uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}
}  // namespace

struct StreamPoolModel::Block {
  std::uint64_t addr = 0;
  std::uint64_t size = 0;
  Block* prev = nullptr;
  Block* next = nullptr;
  std::uint64_t passes_at = 0;  // request from which on other streams may have it
  std::uint16_t stream = 0;     // that freed it last
  bool is_free = false;
  bool used_elsewhere = false;
};

bool StreamPoolModel::BySize::operator()(const Block* a, const Block* b) const {
  return a->size != b->size ? a->size < b->size : a->addr < b->addr;
}

StreamPoolModel::StreamPoolModel(Limits limits) : limits_(limits) {}

StreamPoolModel::~StreamPoolModel() {
  for (Block* block : all_) const std::unique_ptr<Block> owned(block);
}

bool StreamPoolModel::allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) {
  ++requests_;
  come_back_waiting(false);
  const std::uint64_t size = up(std::max<std::uint64_t>(requested.value, 1), kGrain);
  Block* block = search(size, stream);
  if (block == nullptr) block = grow(size);
  if (block == nullptr) {
    ++emergencies_;
    come_back_waiting(true);
    ++costs_.synchronisations;
    release_free_segments();
    for (Block* free_block : free_) free_block->passes_at = 0;  // the device was waited for
    block = search(size, stream);
    if (block == nullptr) block = grow(size);
  }
  if (block == nullptr) return false;
  free_.erase(block);
  if (block->size > size) {
    auto rest = std::make_unique<Block>(*block);
    rest->addr += size;
    rest->size -= size;
    rest->prev = block;
    if (rest->next != nullptr) rest->next->prev = rest.get();
    block->next = rest.get();
    block->size = size;
    free_.insert(rest.get());
    all_.insert(rest.release());
  }
  block->is_free = false;
  block->used_elsewhere = false;
  block->stream = stream;
  if (by_id_.size() <= id) by_id_.resize(id + 1);
  by_id_[id] = block;
  return true;
}

StreamPoolModel::Block* StreamPoolModel::search(std::uint64_t size, std::uint16_t stream) {
  Block key;
  key.size = size;
  int looked_at = 0;
  for (auto it = free_.lower_bound(&key); it != free_.end() && looked_at < kMostLookedAt; ++it) {
    if ((*it)->stream == stream || (*it)->passes_at <= requests_) return *it;
    ++looked_at;
  }
  return nullptr;
}

StreamPoolModel::Block* StreamPoolModel::grow(std::uint64_t size) {
  const std::uint64_t bytes = up(size, kSegment);
  const std::uint64_t capacity = limits_.capacity.value == 0 ? 1ULL << 52 : limits_.capacity.value;
  if (reserved_.value + bytes > capacity) return nullptr;
  ++costs_.mallocs;
  reserved_ += Bytes{bytes};
  peak_ = std::max(peak_, reserved_);
  auto block = std::make_unique<Block>();
  block->addr = next_address_;
  block->size = bytes;
  block->is_free = true;
  next_address_ += bytes + kSegment;  // segments never touch
  free_.insert(block.get());
  all_.insert(block.get());
  return block.release();
}

void StreamPoolModel::record_use(std::uint32_t id, std::uint16_t stream) {
  if (by_id_[id]->stream != stream) by_id_[id]->used_elsewhere = true;
}

void StreamPoolModel::free(std::uint32_t id) {
  Block* block = by_id_[id];
  by_id_[id] = nullptr;
  if (block->used_elsewhere) {
    waiting_.emplace_back(requests_ + kEventLag, block);
  } else {
    give_back(block);
  }
}

void StreamPoolModel::give_back(Block* block) {
  block->is_free = true;
  block->passes_at = requests_ + kEventLag;
  absorb(block, block->prev);
  absorb(block, block->next);
  free_.insert(block);
}

// Makes a free neighbour part of `block`, which is in no set. What either freed last counts.
void StreamPoolModel::absorb(Block* block, Block* neighbour) {
  if (neighbour == nullptr || !neighbour->is_free) return;
  // Memory of two streams is for neither before both have passed.
  if (neighbour->stream != block->stream && neighbour->passes_at > requests_) return;
  const std::unique_ptr<Block> gone(neighbour);
  free_.erase(neighbour);
  all_.erase(neighbour);
  if (neighbour == block->prev) {
    block->addr = neighbour->addr;
    block->prev = neighbour->prev;
    if (block->prev != nullptr) block->prev->next = block;
  } else {
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->prev = block;
  }
  block->size += neighbour->size;
}

void StreamPoolModel::come_back_waiting(bool all) {
  while (!waiting_.empty() && (all || waiting_.front().first <= requests_)) {
    Block* block = waiting_.front().second;
    waiting_.pop_front();
    give_back(block);
  }
}

void StreamPoolModel::release_free_segments() {
  std::vector<Block*> whole;
  for (Block* block : free_) {
    if (block->prev == nullptr && block->next == nullptr) whole.push_back(block);
  }
  for (Block* block : whole) {
    const std::unique_ptr<Block> gone(block);
    ++costs_.frees;
    reserved_ -= Bytes{block->size};
    free_.erase(block);
    all_.erase(block);
  }
}

}  // namespace levee::replay
