// Every kernel that the program has announced: registered by code that nvcc built, or found in a
// loaded module.
//
// Owns the table from a host stub (or handle) to a `Kernel`, and the kernels themselves, which live
// until the process ends: a launch may race with the unloading of its library, and a name may be
// asked for in a trace long after it. Promises: `find` takes no lock (some 30 ns), so that the
// launch path stays short; registration takes one (19,000 calls while torch loads). Does not: know
// what a kernel computes. `outputs` is what its signature says it may write.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/movement.h"
#include "tools/simgpu/core/small_kernels.h"

namespace levee::simgpu {

/// Where a kernel's launch arguments name memory that it writes.
struct OutputArgument {
  std::uint16_t index = 0;  ///< of the argument
  /// The argument is the lambda of PyTorch's gpu_kernel: an OffsetCalculator, then the pointers of
  /// all operands, outputs first.
  bool is_strided = false;
  std::uint8_t element_bytes = 0;
  std::int16_t count_index =
      -1;  ///< argument (an int) that holds the number of elements; -1: taken as one
  /// Bytes of a size in PyTorch's TensorInfo (pointer, 25 sizes, 25 strides, their number), which
  /// the argument is; 0 if it is none.
  std::uint8_t view_index_bytes = 0;
};

class SIMGPU_CORE Kernel {
 public:
  /// `name` is copied.
  Kernel(std::string name, const void* module) : name_(std::move(name)), module_(module) {}

  const char* name() const {
    return name_.c_str();
  }  ///< mangled, as the module gives it; never freed
  const void* module() const { return module_; }
  /// The arguments that point to what the kernel writes, as far as its name tells; worked out at
  /// first use.
  const std::vector<OutputArgument>& outputs() const;
  /// How it moves bytes, if that is all it does.
  const Movement& movement() const;
  /// What it computes, if that is simple.
  const SmallKernel& small() const;
  /// Elements that one thread handles, guessed from the name; at least 1. Feeds the duration of a
  /// launch.
  double elements_per_thread() const;

  // What the last launch used, for traces of graph nodes, which carry no dimensions of their own.
  std::atomic<std::uint64_t> last_grid{0};   ///< x | y << 32 (16 bits) | z << 48
  std::atomic<std::uint64_t> last_block{0};  ///< x | y << 16 | z << 32

  // Attributes that programs set and read back (cudaFuncSetAttribute).
  std::atomic<int> max_dynamic_shared_bytes{48 << 10};
  std::atomic<int> preferred_carveout{-1};

 private:
  struct Facts {
    std::vector<OutputArgument> outputs;
    Movement movement;
    SmallKernel small;
    double elements_per_thread = 1;
  };
  const Facts& facts() const;

  std::string name_;
  const void* module_;
  mutable std::atomic<const Facts*> facts_{nullptr};
};

class SIMGPU_CORE KernelTable {
 public:
  KernelTable();
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  /// `key`: the address of the host stub. A second registration of a key replaces the first.
  Kernel* add(const void* key, const char* name, const void* module);
  /// The kernel registered under `key`, or `key` itself if it is a `Kernel` of this table; null
  /// otherwise.
  Kernel* find(const void* key) const;
  /// The kernel whose `name()` is this very pointer; null for names that are no kernel's.
  Kernel* find_by_name(const char* name) const { return find(name); }
  std::size_t size() const;

 private:
  struct Slot {
    std::atomic<const void*> key{nullptr};
    std::atomic<Kernel*> kernel{nullptr};
  };
  struct Slots {
    explicit Slots(std::size_t capacity_in) : capacity(capacity_in), at(new Slot[capacity_in]) {}
    std::size_t capacity;  // a power of two
    std::unique_ptr<Slot[]> at;
  };
  static Slot* slot_of(const Slots& slots, const void* key);
  void insert_locked(const void* key, Kernel* kernel) LEVEE_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  std::atomic<Slots*> slots_;
  std::vector<std::unique_ptr<Slots>> all_
      LEVEE_GUARDED_BY(mutex_);  // outgrown tables stay: readers may hold them
  std::vector<std::unique_ptr<Kernel>> kernels_ LEVEE_GUARDED_BY(mutex_);
  std::size_t used_ LEVEE_GUARDED_BY(mutex_) = 0;
};

/// The table of this process. Filled while libraries load, before anything else of simgpu is awake.
SIMGPU_CORE KernelTable& kernels();

/// What a signature tells; for tests. `demangled`: "void f<...>(int, float*, std::array<char*,
/// 2ul>)".
SIMGPU_CORE std::vector<OutputArgument> outputs_of_signature(const std::string& demangled);

}  // namespace levee::simgpu
