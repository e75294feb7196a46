#include "allocator/core/pool.h"

#include "allocator/base/check.h"

namespace levee::core {

PoolTable::PoolTable(Backing default_backing, SmallRecords& records) : records_(records) {
  pools_.push_back(std::make_unique<Pool>(kDefaultPool, PoolId{}, default_backing, records));
  by_id_.emplace(PoolId{}, kDefaultPool);
}

Pool* PoolTable::find(PoolId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : pools_[found->second.value].get();
}

Pool& PoolTable::find_or_add(PoolId id, Backing backing) {
  if (Pool* pool = find(id)) return *pool;
  PoolIndex index;
  if (free_.empty()) {
    index.value = static_cast<std::uint32_t>(pools_.size());
    pools_.emplace_back();
  } else {
    index.value = free_.back();
    free_.pop_back();
  }
  pools_[index.value] = std::make_unique<Pool>(index, id, backing, records_);
  by_id_.emplace(id, index);
  return *pools_[index.value];
}

void PoolTable::remove(PoolIndex index) {
  Pool& pool = *pools_[index.value];
  LEVEE_CHECK(pool.is_private());
  LEVEE_CHECK_EQ(pool.live_count, 0U, "a pool goes while blocks of it are live");
  by_id_.erase(pool.id);
  pools_[index.value].reset();
  free_.push_back(index.value);
}

}  // namespace levee::core
