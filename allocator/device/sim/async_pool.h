// The stream-ordered pool of a device (cudaMallocAsync), in its simplest form.
//
// Owns which blocks are handed out and which are free in stream order; their memory is the
// device's. Promises: a free block goes to a request of the same rounded size, first on the stream
// that freed it, then on one that is ordered after that free; what is above the threshold is given
// back when the host learns that it is done with. Does not: split or merge, as NVIDIA's pool does;
// its reserved memory is therefore only roughly theirs. Not thread-safe. Costs: O(free blocks of a
// size).
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include <levee/units.h>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/order.h"

namespace levee::device::sim {

class AsyncPool {
 public:
  static Bytes round(Bytes bytes) {
    return bytes < 1_MiB ? round_up(bytes, 512_B) : round_up(bytes, 2_MiB);
  }

  /// A free block of exactly this rounded size that `stream` may use now; null if there is none.
  DeviceAddr reuse(Bytes rounded, Order::Index stream, const Order& order);
  void add_new(DeviceAddr addr, Bytes rounded);
  bool owns(DeviceAddr addr) const { return live_.contains(addr.value); }
  /// The block is free for what is ordered after `point`. It must be live.
  void give_back(DeviceAddr addr, Order::Index stream, const Order::Point& point);
  /// Blocks to give back to the device until at most `keep` bytes are reserved; only those the host
  /// knows to be unused.
  std::vector<DeviceAddr> trim(Bytes keep, const Order& order);
  /// Forgets a live block whose memory goes at once.
  void drop(DeviceAddr addr);

  AsyncPoolUse use() const { return use_; }
  void set_threshold(Bytes bytes) { use_.release_threshold = bytes; }
  void reset_peaks();
  bool has_free_blocks() const { return !free_.empty(); }

 private:
  struct Free {
    DeviceAddr addr;
    Order::Index stream = 0;
    Order::Point point;
  };
  void make_live(DeviceAddr addr, Bytes rounded);

  std::unordered_map<std::uint64_t, Bytes> live_;
  std::multimap<std::uint64_t, Free> free_;  // by rounded size
  AsyncPoolUse use_;
};

}  // namespace levee::device::sim
