#include "tests/support/heap_count.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local constinit std::uint64_t allocation_count = 0;

void* count_and_allocate(std::size_t byte_count, std::size_t alignment) noexcept {
  ++allocation_count;
  const std::size_t unit = std::max(alignment, sizeof(void*));
  const std::size_t rounded = (std::max<std::size_t>(byte_count, 1) + unit - 1) / unit * unit;
  return std::aligned_alloc(unit, rounded);
}

void* count_and_allocate_or_throw(std::size_t byte_count, std::size_t alignment) {
  void* memory = count_and_allocate(byte_count, alignment);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}

constexpr std::size_t kDefault = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

namespace levee::test {
std::uint64_t heap_allocations() {
  return allocation_count;
}
}  // namespace levee::test

void* operator new(std::size_t n) {
  return count_and_allocate_or_throw(n, kDefault);
}
void* operator new[](std::size_t n) {
  return count_and_allocate_or_throw(n, kDefault);
}
void* operator new(std::size_t n, std::align_val_t a) {
  return count_and_allocate_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return count_and_allocate_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return count_and_allocate(n, kDefault);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return count_and_allocate(n, kDefault);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return count_and_allocate(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return count_and_allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
