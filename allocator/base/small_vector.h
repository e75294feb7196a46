// A vector whose first `N` elements live inside it, so that short lists cost no heap allocation.
//
// Owns: its elements. Promises: while `size() <= N` was never exceeded, no heap; iterators are
// pointers; growth, `erase` and moving the vector invalidate them. `erase_unordered` is constant
// time and changes the order. Elements must be movable without exceptions; running out of host
// memory ends the process, as it does for every list that levee cannot do without. Does not:
// shrink, insert in the middle. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "allocator/base/attributes.h"
#include "allocator/base/check.h"

namespace levee::base {

template <typename T, std::size_t N>
class SmallVector {
  static_assert(N > 0, "use std::vector");
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  ~SmallVector() { release(); }

  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  bool is_inline() const { return data_ == inline_data(); }

  T& operator[](std::size_t i) {
    LEVEE_DCHECK_LT(i, size_);
    return data_[i];
  }
  const T& operator[](std::size_t i) const {
    LEVEE_DCHECK_LT(i, size_);
    return data_[i];
  }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }

  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }

  template <typename... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) [[unlikely]] {
      // The arguments may refer to an element, so the new one is made before the old ones move.
      T value(std::forward<Args>(args)...);
      grow_slow(std::size_t{capacity_} * 2);
      return *::new (static_cast<void*>(data_ + size_++)) T(std::move(value));
    }
    return *::new (static_cast<void*>(data_ + size_++)) T(std::forward<Args>(args)...);
  }

  void pop_back() {
    LEVEE_DCHECK_GT(size_, 0);
    --size_;
    std::destroy_at(data_ + size_);
  }

  /// Removes element `i`; those behind it move up.
  void erase(std::size_t i) {
    LEVEE_DCHECK_LT(i, size_);
    std::move(data_ + i + 1, data_ + size_, data_ + i);
    pop_back();
  }

  /// Removes element `i` by putting the last one in its place.
  void erase_unordered(std::size_t i) {
    LEVEE_DCHECK_LT(i, size_);
    if (i + 1 != size_) data_[i] = std::move(data_[size_ - 1]);
    pop_back();
  }

  void clear() {
    std::destroy_n(data_, size_);
    size_ = 0;
  }

  void reserve(std::size_t count) {
    if (count > capacity_) grow_slow(count);
  }

  void resize(std::size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    while (size_ < count) emplace_back();
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(a[i] == b[i])) return false;
    }
    return true;
  }

 private:
  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    reserve(static_cast<std::size_t>(last - first));
    for (; first != last; ++first) emplace_back(*first);
  }

  LEVEE_SLOW_PATH void grow_slow(std::size_t capacity) {
    LEVEE_CHECK_LE(capacity, std::numeric_limits<std::uint32_t>::max());
    void* memory =
        ::operator new (capacity * sizeof(T), std::align_val_t{alignof(T)}, std::nothrow);
    LEVEE_CHECK(memory != nullptr, "the host has no memory for ", capacity, " list elements");
    T* data = static_cast<T*>(memory);
    std::uninitialized_move_n(data_, size_, data);
    std::destroy_n(data_, size_);
    free_heap();
    data_ = data;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }

  // Takes the elements of `other`, which is left empty; this vector holds none and no heap.
  void take(SmallVector& other) noexcept {
    if (other.is_inline()) {
      data_ = inline_data();
      capacity_ = N;
      std::uninitialized_move_n(other.data_, other.size_, data_);
      size_ = other.size_;
      other.clear();
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
    }
  }

  void release() {
    clear();
    free_heap();
    data_ = inline_data();
    capacity_ = N;
  }
  void free_heap() {
    if (!is_inline()) ::operator delete (data_, std::align_val_t{alignof(T)});
  }

  T* inline_data() noexcept { return reinterpret_cast<T*>(inline_); }
  const T* inline_data() const noexcept { return reinterpret_cast<const T*>(inline_); }

  T* data_ = inline_data();
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace levee::base
