#include "allocator/device/sim/small_chunks.h"

#include <algorithm>
#include <iterator>

#include "allocator/base/check.h"

namespace levee::device::sim {

DeviceAddr SmallChunk::take(std::uint32_t bytes, std::uint32_t requested_bytes) {
  const auto it = std::find_if(free_.begin(), free_.end(),
                               [bytes](const auto& piece) { return piece.second >= bytes; });
  LEVEE_CHECK(it != free_.end(), "a chunk without room for ", bytes, " B");
  const auto [offset, room] = *it;
  free_.erase(it);
  if (room > bytes) free_.emplace(offset + bytes, room - bytes);
  live_.emplace(offset, Live{bytes, requested_bytes});
  if (room == largest_free_) update_largest();
  return base_ + Bytes{offset};
}

bool SmallChunk::give_back(DeviceAddr addr) {
  const auto live = live_.find(static_cast<std::uint32_t>(addr.value - base_.value));
  if (live == live_.end()) return false;
  std::uint32_t offset = live->first;
  std::uint32_t bytes = live->second.bytes;
  live_.erase(live);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_.emplace(offset, bytes);
  largest_free_ = std::max(largest_free_, bytes);
  return true;
}

SmallChunk::Piece SmallChunk::find(DeviceAddr addr) const {
  const auto offset = static_cast<std::uint32_t>(addr.value - base_.value);
  auto it = live_.upper_bound(offset);
  if (it == live_.begin()) return Piece{};
  --it;
  if (offset - it->first >= it->second.requested_bytes) return Piece{};
  return Piece{base_ + Bytes{it->first}, Bytes{it->second.requested_bytes}};
}

void SmallChunk::update_largest() {
  largest_free_ = 0;
  for (const auto& [offset, bytes] : free_) largest_free_ = std::max(largest_free_, bytes);
}

SmallChunk* SmallChunks::choose(std::uint32_t bytes) const {
  const auto it = by_room_.lower_bound({bytes, nullptr});
  return it == by_room_.end() ? nullptr : it->second;
}

}  // namespace levee::device::sim
