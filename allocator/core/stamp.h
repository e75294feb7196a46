// Who used memory last: a stream and the epoch of that stream in which the memory was given back.
//
// `Stamp` is a value. `StampSet` keeps the newest stamp of each stream: enough to order a new owner
// after every earlier one, since an event of a later epoch also covers the earlier ones.
// Cost: a set with up to two streams lives inside its owner and is scanned linearly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "allocator/base/small_vector.h"
#include "allocator/core/ids.h"

namespace levee::core {

/// Number of an epoch of one stream, counted from 1; 0 is before everything.
using Epoch = std::uint64_t;

/// Packed into one word: 20 bits of stream, 44 bits of epoch (at a million events a second, 200
/// days).
class Stamp {
 public:
  constexpr Stamp() = default;
  constexpr Stamp(StreamIndex stream, Epoch epoch)
      : packed_(static_cast<std::uint64_t>(stream.value) << kEpochBits | epoch) {}

  constexpr StreamIndex stream() const {
    return StreamIndex{static_cast<std::uint32_t>(packed_ >> kEpochBits)};
  }
  constexpr Epoch epoch() const { return packed_ & kEpochMask; }
  friend constexpr bool operator==(Stamp, Stamp) = default;

  static constexpr std::uint32_t kMaxStreams = 1U << 20;

 private:
  static constexpr int kEpochBits = 44;
  static constexpr std::uint64_t kEpochMask = (1ULL << kEpochBits) - 1;
  std::uint64_t packed_ = 0;
};

class StampSet {
 public:
  void add(Stamp stamp) {
    for (Stamp& have : stamps_) {
      if (have.stream() == stamp.stream()) {
        if (have.epoch() < stamp.epoch()) have = stamp;
        return;
      }
    }
    stamps_.push_back(stamp);
  }
  /// Pre: the set is empty.
  void add_first(Stamp stamp) { stamps_.push_back(stamp); }
  void add_all(std::span<const Stamp> others) {
    for (Stamp stamp : others) add(stamp);
  }
  void clear() { stamps_.clear(); }
  bool empty() const { return stamps_.empty(); }
  std::size_t size() const { return stamps_.size(); }
  const Stamp* begin() const { return stamps_.begin(); }
  const Stamp* end() const { return stamps_.end(); }

 private:
  base::SmallVector<Stamp, 2> stamps_;
};

}  // namespace levee::core
