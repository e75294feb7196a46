// Objects behind ids that look like pointers: streams, events, handles, graphs.
//
// Owns the objects. Promises: an id is never given out twice (24 bits of generation for each
// place), never 0, 1 or 2, a multiple of 16 (PyTorch takes the low bits of a stream for itself),
// and differs from every id of a table with another tag, so that an event passed as a stream is
// found out. Objects do not move. Costs: find is one bounds check and one compare.
//
//   63      40 39  36 35                4 3  0
//   generation  tag    place + 1           0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace levee::device::sim {

template <typename T>
class IdTable {
 public:
  explicit IdTable(std::uint64_t tag) : tag_(tag << 36) {}

  std::uint64_t insert(std::unique_ptr<T> object) {
    std::uint32_t place = 0;
    if (free_.empty()) {
      place = static_cast<std::uint32_t>(entries_.size());
      entries_.emplace_back();
    } else {
      place = free_.back();
      free_.pop_back();
    }
    Entry& entry = entries_[place];
    entry.object = std::move(object);
    ++count_;
    return id_of(place);
  }

  /// Null if the id is none, or its object was erased.
  T* find(std::uint64_t id) const {
    const std::uint64_t place = ((id & 0xF'FFFF'FFFF) >> 4) - 1;
    if (place >= entries_.size() || id != id_of(static_cast<std::uint32_t>(place))) return nullptr;
    return entries_[place].object.get();
  }

  /// Takes the object out; its id is dead from now on. Null if there is none.
  std::unique_ptr<T> erase(std::uint64_t id) {
    if (find(id) == nullptr) return nullptr;
    const auto place = static_cast<std::uint32_t>(((id & 0xF'FFFF'FFFF) >> 4) - 1);
    Entry& entry = entries_[place];
    std::unique_ptr<T> object = std::move(entry.object);
    ++entry.generation;
    // A place whose generations are used up is left empty for good.
    if (entry.generation < (1U << 24)) free_.push_back(place);
    --count_;
    return object;
  }

  std::size_t count() const { return count_; }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.object != nullptr) visit(*entry.object);
    }
  }

 private:
  struct Entry {
    std::unique_ptr<T> object;
    std::uint64_t generation = 0;
  };
  std::uint64_t id_of(std::uint32_t place) const {
    return entries_[place].generation << 40 | tag_ | (std::uint64_t{place} + 1) << 4;
  }

  std::uint64_t tag_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::size_t count_ = 0;
};

}  // namespace levee::device::sim
