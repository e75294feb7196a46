// A build without the headers of CUB: the answer that says so.
#include "bench/replay/peers/cub_policy.h"

namespace levee::replay {

std::unique_ptr<ReplayPolicy> make_cub(std::string_view name, Limits /*limits*/, std::string* why) {
  *why = "the policy \"" + std::string(name) +
         "\" is not in this build: the headers of CUB (CCCL, of a CUDA toolkit or of the wheel "
         "nvidia-cuda-cccl) were not found when it was built";
  return nullptr;
}

}  // namespace levee::replay
