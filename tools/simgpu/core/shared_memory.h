// Device memory that several processes use: handles for it, as CUDA IPC and the driver's shareable
// handles give them.
//
// Owns: for each memory that was shared, a file without a name (memfd) that holds its contents from
// then on; what this process opened of others, with a count. Promises: a copy that one process
// makes is what the other one reads; memory lives in the other process as long as it has it open,
// as with CUDA; a handle of memory that is gone, or of a process that ended, is refused; nothing is
// left behind by a process that crashes. What was opened takes nothing of this process's capacity:
// each process has its own simulated card, and the owner pays. Does not: order two processes' work.
// Effects of work happen when it is enqueued, so an event of another process counts as complete.
// Thread safety: one mutex.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu {

/// What the 64 bytes of a cudaIpcMemHandle_t or cudaIpcEventHandle_t hold here.
struct SharedHandle {
  std::uint64_t magic = 0;
  std::int32_t process = 0;
  std::int32_t file = 0;     ///< descriptor in that process
  std::uint64_t inode = 0;   ///< of the file: descriptors are used again
  std::uint64_t bytes = 0;   ///< of the whole memory
  std::uint64_t offset = 0;  ///< of the allocation in it
  std::int32_t card = 0;     ///< number of the card, as the machine counts
  std::int32_t is_event = 0;
  std::uint64_t reserved[2] = {};
};
static_assert(sizeof(SharedHandle) == 64);

// Each answers with CUDA's error number.
SIMGPU_CORE int share_allocation(Process& process, const void* pointer, SharedHandle* handle);
SIMGPU_CORE int open_allocation(Process& process, const SharedHandle& handle, void** pointer);
SIMGPU_CORE int close_allocation(Process& process, void* pointer);
/// `descriptor` belongs to the caller.
SIMGPU_CORE int export_handle(Process& process, HandleId handle, int* descriptor);
SIMGPU_CORE int import_handle(Process& process, int descriptor, HandleId* handle);
SIMGPU_CORE int share_event(Process& process, EventId event, SharedHandle* handle);
SIMGPU_CORE int open_event(Process& process, const SharedHandle& handle, EventId* event);

}  // namespace levee::simgpu
