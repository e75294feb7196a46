// Counts the host's heap allocations, for tests that assert there are none.
//
// Owns: the replaced global `operator new` and `operator delete` of the program that links
// levee_heap_count. Promises: every `new` of C++ code in the program is counted per thread, the
// aligned and nothrow forms included. Does not: see malloc called by C code.
#pragma once

#include <cstdint>

namespace levee::test {

/// Allocations that this thread has made so far.
std::uint64_t heap_allocations();

/// Counts those since it was made.
class HeapCount {
 public:
  HeapCount() : start_(heap_allocations()) {}
  std::uint64_t value() const { return heap_allocations() - start_; }

 private:
  std::uint64_t start_;
};

}  // namespace levee::test
