// From a block's key in a recording (an address, or an id of the recording's own) to the lab's id.
//
// Owns its entries. Promises: any keys, hostile ones too, cost a mix of their bits and a short
// probe; memory is at most 48 bytes a live block. Invariant: open addressing with linear probing in
// a power-of-two array at most half full; no entry is separated from its home place by a free one
// (`erase` shifts back). Not thread safe. Cost: one cache miss an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace levee::replay {

class IdTable {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  IdTable() : places_(kInitialPlaces) {}

  std::size_t size() const { return size_; }

  /// kNone if the key is not in the table.
  std::uint32_t find(std::uint64_t key) const {
    const Place& place = places_[place_of(key)];
    return place.id;
  }

  /// Sets the id of a key; returns the one that it replaced, or kNone.
  std::uint32_t put(std::uint64_t key, std::uint32_t id) {
    if ((size_ + 1) * 2 > places_.size()) grow();
    Place& place = places_[place_of(key)];
    const std::uint32_t before = place.id;
    if (before == kNone) ++size_;
    place = Place{key, id};
    return before;
  }

  /// Takes a key out; returns its id, or kNone.
  std::uint32_t take(std::uint64_t key) {
    std::size_t hole = place_of(key);
    const std::uint32_t id = places_[hole].id;
    if (id == kNone) return kNone;
    const std::size_t mask = places_.size() - 1;
    for (std::size_t i = (hole + 1) & mask; places_[i].id != kNone; i = (i + 1) & mask) {
      const std::size_t home = home_of(places_[i].key);
      // May the entry at i move to the hole? Only if its home does not lie behind the hole.
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole] = Place{};
    --size_;
    return id;
  }

  void clear() {
    places_.assign(kInitialPlaces, Place{});
    size_ = 0;
  }

 private:
  static constexpr std::size_t kInitialPlaces = 1024;
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t id = kNone;  // kNone: free
  };

  std::size_t home_of(std::uint64_t key) const {
    std::uint64_t h = key * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ULL;
    return static_cast<std::size_t>(h >> 20) & (places_.size() - 1);
  }
  /// Where the key is, or would be put.
  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t i = home_of(key);
    while (places_[i].id != kNone && places_[i].key != key) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    for (const Place& place : old) {
      if (place.id != kNone) places_[place_of(place.key)] = place;
    }
  }

  std::vector<Place> places_;
  std::size_t size_ = 0;
};

}  // namespace levee::replay
