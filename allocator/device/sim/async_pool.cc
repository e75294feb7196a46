#include "allocator/device/sim/async_pool.h"

#include <algorithm>
#include <iterator>

namespace levee::device::sim {

void AsyncPool::make_live(DeviceAddr addr, Bytes rounded) {
  live_.emplace(addr.value, rounded);
  use_.used += rounded;
  use_.used_high = std::max(use_.used_high, use_.used);
}

DeviceAddr AsyncPool::reuse(Bytes rounded, Order::Index stream, const Order& order) {
  const auto [first, last] = free_.equal_range(rounded.value);
  auto chosen = last;
  for (auto it = first; it != last; ++it) {
    if (it->second.stream == stream) {
      chosen = it;
      break;
    }
    if (chosen == last && order.is_before(it->second.point.stream, it->second.point.tick, stream))
      chosen = it;
  }
  if (chosen == last) return DeviceAddr{};
  const DeviceAddr addr = chosen->second.addr;
  free_.erase(chosen);
  make_live(addr, rounded);
  return addr;
}

void AsyncPool::add_new(DeviceAddr addr, Bytes rounded) {
  use_.reserved += rounded;
  use_.reserved_high = std::max(use_.reserved_high, use_.reserved);
  make_live(addr, rounded);
}

void AsyncPool::give_back(DeviceAddr addr, Order::Index stream, const Order::Point& point) {
  const auto it = live_.find(addr.value);
  const Bytes rounded = it->second;
  live_.erase(it);
  use_.used -= rounded;
  free_.emplace(rounded.value, Free{addr, stream, point});
}

void AsyncPool::drop(DeviceAddr addr) {
  const auto it = live_.find(addr.value);
  use_.used -= it->second;
  use_.reserved -= it->second;
  live_.erase(it);
}

std::vector<DeviceAddr> AsyncPool::trim(Bytes keep, const Order& order) {
  std::vector<DeviceAddr> gone;
  // Largest first: the fewest calls for the bytes.
  for (auto it = free_.end(); it != free_.begin() && use_.reserved > keep;) {
    const auto candidate = std::prev(it);
    if (!order.host_knows(candidate->second.point.stream, candidate->second.point.tick)) {
      it = candidate;
      continue;
    }
    use_.reserved -= Bytes{candidate->first};
    gone.push_back(candidate->second.addr);
    it = free_.erase(candidate);
  }
  return gone;
}

void AsyncPool::reset_peaks() {
  use_.reserved_high = use_.reserved;
  use_.used_high = use_.used;
}

}  // namespace levee::device::sim
