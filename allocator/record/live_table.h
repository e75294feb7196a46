// The blocks that are live at one point of a recording, by address.
//
// Owns its entries. Invariants: open addressing with linear probing in a power-of-two array that is
// at most 3/4 full; no entry is separated from its home place by an empty one (`erase` shifts
// back), so that a lookup ends at the first empty place. Not thread-safe. Costs: one cache miss per
// operation; 64 bytes an entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

namespace levee::record {

class LiveTable {
 public:
  struct Entry {
    std::uint64_t addr = 0;  ///< 0 = empty place
    std::uint64_t packed_sizes = 0;
    std::int64_t allocated_at = 0;
    ContextId context{};
    LaneId lane{};
    std::uint16_t pool = 0;
    bool has_uses = false;    ///< used on other streams: waits after its free
    bool is_waiting = false;  ///< freed, not completed
  };

  LiveTable() : places_(kInitialPlaces) {}

  std::size_t size() const { return size_; }

  /// Null if there is none. Valid until the next insertion or removal.
  Entry* find(std::uint64_t addr) {
    for (std::size_t i = home_of(addr);; i = next(i)) {
      if (places_[i].addr == addr) return &places_[i];
      if (places_[i].addr == 0) return nullptr;
    }
  }

  /// The entry of `addr`, new and empty if there was none. Pre: addr is not 0.
  Entry& find_or_insert(std::uint64_t addr) {
    if ((size_ + 1) * 4 > places_.size() * 3) grow();
    std::size_t i = home_of(addr);
    while (places_[i].addr != 0 && places_[i].addr != addr) i = next(i);
    if (places_[i].addr == 0) {
      places_[i] = Entry{};
      places_[i].addr = addr;
      ++size_;
    }
    return places_[i];
  }

  /// Pre: `entry` was returned by this table and nothing changed since.
  void erase(Entry* entry) {
    std::size_t hole = static_cast<std::size_t>(entry - places_.data());
    for (std::size_t i = next(hole); places_[i].addr != 0; i = next(i)) {
      // An entry may move into the hole if its home is not between the two, going round.
      const std::size_t home = home_of(places_[i].addr);
      if (((i - home) & mask()) >= ((i - hole) & mask())) {
        places_[hole] = places_[i];
        hole = i;
      }
    }
    places_[hole] = Entry{};
    --size_;
  }

  template <typename Visitor>
  void for_each(Visitor visit) const {
    for (const Entry& entry : places_) {
      if (entry.addr != 0) visit(entry);
    }
  }

 private:
  static constexpr std::size_t kInitialPlaces = 1024;

  std::size_t mask() const { return places_.size() - 1; }
  std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  std::size_t home_of(std::uint64_t addr) const {
    // Addresses are multiples of 512, so the low bits of the product are 0: take the high ones in
    // as well.
    const std::uint64_t product = addr * 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(product ^ (product >> 32)) & mask();
  }
  void grow() {
    std::vector<Entry> old(places_.size() * 2);
    old.swap(places_);
    size_ = 0;
    for (const Entry& entry : old) {
      if (entry.addr != 0) find_or_insert(entry.addr) = entry;
    }
  }

  std::vector<Entry> places_;
  std::size_t size_ = 0;
};

}  // namespace levee::record
