#include "tools/simgpu/stubs/nccl/communicator.h"

#include <unistd.h>

#include <cstdio>
#include <random>

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/nccl/operation.h"

ncclComm::ncclComm(const std::string& name, int ranks, int rank)
    : name_(name), board_(name, ranks), rank_(rank), device_(simgpu_current_device()) {
  if (!board_.is_open()) return;
  board_.slot(rank).pid.store(getpid(), std::memory_order_release);
  board_.notify();
}

ncclComm::~ncclComm() {
  magic_.store(0);
  if (!board_.is_open()) return;
  board_.slot(rank_).has_left.store(1, std::memory_order_release);
  board_.notify();
}

void ncclComm::end(ncclComm* communicator) {
  communicator->abort();
  while (communicator->users_.load() != 0) communicator->board_.wait(communicator->board_.epoch());
  delete communicator;
}

namespace levee::simgpu::nccl {

std::int64_t Operation::ready_ns(cudaStream_t stream) const {
  return simgpu_ready_ns(communicator_->device(), stream);
}

std::string unique_board_name() {
  static std::atomic<unsigned> made{0};
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "simgpu-nccl-%d-%u-%08x%08x", static_cast<int>(getpid()), ++made,
                random(), random());
  return name;
}

std::size_t content_limit() {
  static const auto limit = static_cast<std::size_t>(simgpu_setting("nccl_bytes", 1 << 20));
  return limit;
}

}  // namespace levee::simgpu::nccl
