// Groups: between ncclGroupStart and the matching ncclGroupEnd a thread only collects operations;
// then it carries all of them out.
//
// Promises: operations of one group may depend on each other in any order, also when they belong to
// several ranks of this thread. The calling thread waits until all of them are done, so that what a
// copy reads afterwards is true; a wait of some seconds is said on stderr, naming the ranks that
// are missing. The ranks' kernels are enqueued after that, in the order of the calls.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "tools/simgpu/stubs/nccl/operation.h"

namespace levee::simgpu::nccl {

void group_start();
ncclResult_t group_end();
/// Ends the innermost group without carrying anything out that was collected since the outermost
/// began.
void group_abandon();

/// Carries the operation out, or keeps it for the end of the thread's group.
ncclResult_t submit(std::unique_ptr<Operation> operation);

/// Remembers `text` for ncclGetLastError and returns `code`.
ncclResult_t failed(ncclResult_t code, std::string text);
/// The last failure's text in this process; "" if there was none. Valid until the process ends.
const char* last_error();

}  // namespace levee::simgpu::nccl
