// Memory and other devices or processes: peer access, peer copies, CUDA IPC.
//
// CUDA IPC shares whole cudaMalloc allocations, so it needs backing=segments; memory made of mapped
// pages is refused with a sentence that says so.

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstring>

#include "torch_plugin/torch_allocator.h"
#include "torch_plugin/torch_convert.h"

namespace levee::torch_plugin {
namespace {

// What another process running levee recognises; a handle made by another allocator is refused.
constexpr char kIpcMagic[] = "levee-ipc-1:";
constexpr size_t kIpcMagicLength = sizeof(kIpcMagic) - 1;

}  // namespace

Block TorchAllocator::block_at(const void* pointer, const char* call, levee::Allocator** owner) {
  levee::Allocator* allocator = runtime_.owner_of(addr_of(pointer));
  TORCH_CHECK(allocator != nullptr, "levee: ", call, ": ", pointer,
              " is no memory that levee handed out");
  const Result<Block> block = allocator->find(addr_of(pointer));
  TORCH_CHECK(block.ok(), "levee: ", call, ": ", pointer, " is in no live block");
  *owner = allocator;
  return *block;
}

void* TorchAllocator::getBaseAllocation(void* pointer, size_t* bytes) {
  levee::Allocator* owner = nullptr;
  static_cast<void>(block_at(pointer, "getBaseAllocation", &owner));
  const Result<Block> base = owner->base_allocation(addr_of(pointer));
  TORCH_CHECK(
      base.ok(),
      "levee: memory made of mapped pages cannot be shared with other processes by CUDA IPC; "
      "run with LEVEE_BACKING=segments (levee.install(backing=\"segments\"))");
  if (bytes != nullptr) *bytes = base->bytes.value;
  return pointer_of(base->addr);
}

cca::ShareableHandle TorchAllocator::shareIpcHandle(void* pointer) {
  void* base = getBaseAllocation(pointer, nullptr);
  cudaIpcMemHandle_t handle;
  C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, base));
  std::string text{kIpcMagic, kIpcMagicLength};
  text.append(handle.reserved, sizeof(handle.reserved));
  return {static_cast<char*>(pointer) - static_cast<char*>(base), std::move(text)};
}

std::shared_ptr<void> TorchAllocator::getIpcDevPtr(std::string handle) {
  TORCH_CHECK(
      handle.size() == kIpcMagicLength + sizeof(cudaIpcMemHandle_t) &&
          handle.compare(0, kIpcMagicLength, kIpcMagic) == 0,
      "levee: this CUDA IPC handle was not made by levee; run the sending process with levee "
      "as well, or both without");
  const c10::DeviceIndex device = c10::cuda::current_device();
  const std::string key = std::to_string(device) + handle;
  const std::lock_guard lock(mutex_);
  if (const auto it = opened_ipc_.find(key); it != opened_ipc_.end()) {
    if (std::shared_ptr<void> open = it->second.lock()) return open;
  }
  cudaIpcMemHandle_t native;
  std::memcpy(native.reserved, handle.data() + kIpcMagicLength, sizeof(native.reserved));
  void* base = nullptr;
  C10_CUDA_CHECK(cudaIpcOpenMemHandle(&base, native, cudaIpcMemLazyEnablePeerAccess));
  std::shared_ptr<void> open(base, [this, key, device](void* opened) {
    const c10::cuda::CUDAGuard guard(device);
    const std::lock_guard deleting(mutex_);
    if (cudaIpcCloseMemHandle(opened) != cudaSuccess) static_cast<void>(cudaGetLastError());
    // The same handle may have been opened again while this one was on its way out.
    if (const auto it = opened_ipc_.find(key); it != opened_ipc_.end() && it->second.expired()) {
      opened_ipc_.erase(it);
    }
  });
  opened_ipc_[key] = open;
  return open;
}

void TorchAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) {
  const c10::cuda::CUDAGuard guard(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    C10_CUDA_CHECK(error);
  }
  // Mapped pages are not covered by that: they carry their own access rights.
  require(runtime_.allow_peer(DeviceId{peer}, DeviceId{device}), "enablePeerAccess");
}

// cudaMemcpyPeerAsync is right for every kind of memory on both sides; cudaMemcpyAsync across
// devices fails on mapped pages without peer access.
cudaError_t TorchAllocator::memcpyAsync(void* dst, int dst_device, const void* src, int src_device,
                                        size_t count, cudaStream_t stream, bool /*p2p_enabled*/) {
  if (dst_device == src_device) {
    return cudaMemcpyAsync(dst, src, count, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(dst, dst_device, src, src_device, count, stream);
}

}  // namespace levee::torch_plugin
