// Work that a program enqueues: kernel launches, copies and fills, as both the runtime and the
// driver API ask for them.
//
// Owns nothing. Promises: each function answers with CUDA's error number; copies and fills have
// their true effect on the bytes that a program can see (at once, or at each replay of the graph
// that captured them); kernels have none, except that what they are known to write is forgotten, so
// that a later copy to the host reads zeros and never bytes of a former owner. Touches are told to
// the judge. Cost of a launch: some 200 ns, most of it in the model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/device/sim/gpu_model.h"
#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/kernels.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu {

struct Dimensions {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

struct KernelLaunch {
  Kernel* kernel = nullptr;
  Dimensions grid;
  Dimensions block;
  void* const* arguments = nullptr;  ///< null if not known
  std::size_t dynamic_shared = 0;
  const void* stream = nullptr;
  bool overlaps_predecessor = false;
};
SIMGPU_CORE int launch_kernel(Process& process, const KernelLaunch& launch);

/// Where an address is.
struct Place {
  activity::MemoryPlace kind = activity::MemoryPlace::kPageable;
  int device = -1;  ///< of device and managed memory
  bool is_device() const { return kind == activity::MemoryPlace::kDevice; }
};
SIMGPU_CORE Place place_of(Process& process, const void* address);

/// Which direction the caller named; `kDefault` = told by the addresses.
enum class Direction : std::uint8_t {
  kHostToHost,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kDefault
};

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t width = 0;  ///< bytes of a row
  std::size_t rows = 1;
  std::size_t to_pitch = 0;  ///< from row to row; not used with one row
  std::size_t from_pitch = 0;
  Direction direction = Direction::kDefault;
  const void* stream = nullptr;
  bool is_async = true;
};
SIMGPU_CORE int copy(Process& process, const Copy& what);

struct Fill {
  void* to = nullptr;
  std::uint32_t pattern = 0;
  std::size_t pattern_bytes = 1;  ///< 1, 2 or 4
  std::size_t width = 0;          ///< bytes of a row
  std::size_t rows = 1;
  std::size_t pitch = 0;
  const void* stream = nullptr;
  bool is_async = true;
};
SIMGPU_CORE int fill(Process& process, const Fill& what);

/// The bytes alone: no work, no time. False if the device side is not allocated or mapped.
SIMGPU_CORE bool move_bytes(Process& process, void* to, const void* from, std::size_t bytes);
/// What the range held is nobody's any more: it reads as 0.
SIMGPU_CORE void forget_bytes(Process& process, const void* at, std::size_t bytes);

}  // namespace levee::simgpu
