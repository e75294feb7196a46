// Small conversions between torch's types and levee's that several files of the main door need.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include <levee/allocator.h>

namespace levee::torch_plugin {

inline DeviceAddr addr_of(const void* pointer) {
  return DeviceAddr{reinterpret_cast<std::uintptr_t>(pointer)};
}
inline void* pointer_of(DeviceAddr addr) {
  return reinterpret_cast<void*>(addr.value);
}
inline StreamId id_of(cudaStream_t stream) {
  return StreamId{reinterpret_cast<std::uintptr_t>(stream)};
}
inline cudaStream_t stream_of(StreamId id) {
  return reinterpret_cast<cudaStream_t>(id.value);
}
inline PoolId id_of(const c10::MempoolId_t& pool) {
  return {pool.first, pool.second};
}
inline c10::MempoolId_t pool_of(PoolId id) {
  return {id.first, id.second};
}
inline c10::DeviceIndex index_of(DeviceId id) {
  return static_cast<c10::DeviceIndex>(id.value);
}
inline c10::Device device_of(const Allocator& allocator) {
  return {c10::DeviceType::CUDA, index_of(allocator.device())};
}

}  // namespace levee::torch_plugin
