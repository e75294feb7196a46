// Memory for many small records of one type, without the heap once it is warm.
//
// Owns: slabs of records and the list of those that are free. Promises: the address of a record
// never changes; `make` takes a freed record first (the one freed last, which is warm in the cache)
// and asks the heap only when none is free; `destroy` never touches the heap; slabs are given back
// when the arena dies. `reserve` warms it up ahead. A record is destroyed before the arena is,
// unless its destructor is trivial. Does not: lock. The owner's lock guards it. Costs: a few
// instructions for `make` and `destroy`. In checked builds a double `destroy` ends the process;
// under AddressSanitizer free records are poisoned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "allocator/base/attributes.h"
#include "allocator/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#  define LEVEE_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define LEVEE_ASAN 1
#  endif
#endif
#ifndef LEVEE_ASAN
#  define LEVEE_ASAN 0
#endif
#if LEVEE_ASAN
#  include <sanitizer/asan_interface.h>
#endif

namespace levee::base {

template <typename T>
class RecordArena {
 public:
  /// Slabs hold `records_per_slab` records each. Chosen: 256, about a page or four of the records
  /// levee has.
  explicit RecordArena(std::size_t records_per_slab = 256) : records_per_slab_(records_per_slab) {
    LEVEE_CHECK_GT(records_per_slab_, 0);
  }
  RecordArena(const RecordArena&) = delete;
  RecordArena& operator=(const RecordArena&) = delete;

  ~RecordArena() {
    if constexpr (!std::is_trivially_destructible_v<T>) {
      LEVEE_CHECK_EQ(live_count_, 0, "records outlive their arena");
    }
    while (slabs_ != nullptr) {
      Slab* slab = std::exchange(slabs_, slabs_->next);
      unpoison(slab->cells(), slab->cell_count * sizeof(Cell));
      ::operator delete (slab, std::align_val_t{kAlignment});
    }
  }

  /// A new record, or null when the host has no memory left.
  template <typename... Args>
  T* make(Args&&... args) {
    static_assert(std::is_nothrow_constructible_v<T, Args...>, "a throw would lose the record");
    if (free_ == nullptr && !grow_slow(records_per_slab_)) [[unlikely]] {
      return nullptr;
    }
    Cell* cell = free_;
    unpoison(cell, sizeof(Cell));
    free_ = cell->next;
    ++live_count_;
    return ::new (static_cast<void*>(cell->storage)) T(std::forward<Args>(args)...);
  }

  void destroy(T* record) noexcept {
    LEVEE_CHECK_GT(live_count_, 0, "destroy of a record that is not live");
    record->~T();
    Cell* cell = reinterpret_cast<Cell*>(record);
    if constexpr (kChecked) check_not_free(cell);
    cell->next = free_;
    free_ = cell;
    --live_count_;
    poison(cell, sizeof(Cell));
  }

  /// Makes room for `count` live records in all. False, with what there was kept, when the host has
  /// no memory left.
  bool reserve(std::size_t count) {
    while (capacity_ < count) {
      if (!grow_slow(count - capacity_)) return false;
    }
    return true;
  }

  std::size_t live_count() const { return live_count_; }
  /// Records that can be live before the heap is asked again.
  std::size_t capacity() const { return capacity_; }

 private:
  union Cell {
    Cell* next;
    alignas(T) std::byte storage[sizeof(T)];
  };
  struct Slab {
    Slab* next;
    std::size_t cell_count;
    Cell* cells() {
      return reinterpret_cast<Cell*>(reinterpret_cast<std::byte*>(this) + kHeaderBytes);
    }
  };
  static constexpr std::size_t kAlignment = std::max(alignof(Slab), alignof(Cell));
  static constexpr std::size_t kHeaderBytes =
      (sizeof(Slab) + kAlignment - 1) / kAlignment * kAlignment;

  LEVEE_SLOW_PATH bool grow_slow(std::size_t cell_count) {
    if (cell_count < records_per_slab_) cell_count = records_per_slab_;
    void* memory = ::operator new (sizeof(Slab) + cell_count * sizeof(Cell),
                                   std::align_val_t{kAlignment}, std::nothrow);
    if (memory == nullptr) return false;
    slabs_ = ::new (memory) Slab{slabs_, cell_count};
    Cell* cells = slabs_->cells();
    // From the last to the first, so that records are handed out in the order of their addresses.
    for (std::size_t i = cell_count; i-- > 0;) {
      Cell* cell = ::new (static_cast<void*>(&cells[i])) Cell{free_};
      free_ = cell;
      poison(cell, sizeof(Cell));
    }
    capacity_ += cell_count;
    return true;
  }

  // Linear in the number of free records: for checked builds alone, and bounded, so that they stay
  // usable.
  void check_not_free(const Cell* cell) const {
    constexpr int kLookback = 64;
    const Cell* other = free_;
    for (int i = 0; i < kLookback && other != nullptr; ++i) {
      LEVEE_CHECK(other != cell, "destroy of a record that is free already");
      unpoison(other, sizeof(Cell));
      const Cell* following = other->next;
      poison(other, sizeof(Cell));
      other = following;
    }
  }

  static void poison([[maybe_unused]] const volatile void* memory,
                     [[maybe_unused]] std::size_t byte_count) {
#if LEVEE_ASAN
    __asan_poison_memory_region(memory, byte_count);
#endif
  }
  static void unpoison([[maybe_unused]] const volatile void* memory,
                       [[maybe_unused]] std::size_t byte_count) {
#if LEVEE_ASAN
    __asan_unpoison_memory_region(memory, byte_count);
#endif
  }

  std::size_t records_per_slab_;
  Cell* free_ = nullptr;
  Slab* slabs_ = nullptr;
  std::size_t live_count_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace levee::base
