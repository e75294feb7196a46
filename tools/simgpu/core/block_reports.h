// The blocks that a caching allocator cuts device memory into, as far as it tells.
//
// A block that the allocator hands out again has no driver call, so the bytes that a copy left in
// it would be read as the result of the kernel that writes it next. But PyTorch reports every block
// that it hands out or takes back to its profiler, through a function of libc10.so that
// libc10_cuda.so finds by name; simgpu is loaded before both, so it is asked first: it forgets the
// block's bytes and passes the call on. levee tells simgpu of its blocks itself
// (`simgpu_note_use`). Another allocator loses nothing but this.
//
// Owns the table of the live blocks. Thread safety: one mutex. Cost: a lookup, and what the block
// holds of copies.
#pragma once

#include <levee/units.h>

#include "tools/simgpu/core/process.h"

namespace levee::simgpu {

/// Its bytes are nobody's any more: they read as 0.
void block_handed_out(Process& process, DeviceAddr block, Bytes bytes);
void block_given_back(DeviceAddr block);
/// As much of the range as lies in the block that `at` is in; all of it where no block is known.
Bytes within_block(DeviceAddr at, Bytes bytes);

}  // namespace levee::simgpu
