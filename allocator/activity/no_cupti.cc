// The collector of a build that had no CUPTI headers: it says so.
#include "allocator/activity/kernel_collector.h"

namespace levee::activity {

std::unique_ptr<KernelCollector> KernelCollector::start(record::TraceRecorder& /*recorder*/,
                                                        Options /*options*/, std::string* why) {
  *why =
      "Kernels are not timed: levee was built without the CUPTI headers; build it where PyTorch's "
      "CUDA wheels or a CUDA "
      "toolkit are installed.";
  return nullptr;
}

}  // namespace levee::activity
