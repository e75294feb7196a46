// What a simulated card answers when it is asked about itself. One source for
// cudaGetDeviceProperties, both GetAttribute calls and NVML.
//
// Owns the figures. Promises: no field that PyTorch, Triton or a library divides by or allocates by
// is 0. Attribute numbers are CUDA's (cudaDeviceAttr and CUdevice_attribute agree). Thread safe;
// costs nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

/// CUDA 13.0: what the libraries that torch 2.14 was built against expect of a driver.
inline constexpr int kCudaVersion = 13000;

/// False for numbers that are no attribute.
SIMGPU_CORE bool device_attribute(int device, int attribute, int* value);
SIMGPU_CORE std::string device_name(int device);
/// The card's number before CUDA_VISIBLE_DEVICES: identity is the card's, not the position's.
SIMGPU_CORE std::array<std::uint8_t, 16> device_uuid(int device);
/// "GPU-5349...": as nvidia-smi writes it.
SIMGPU_CORE std::string device_uuid_text(int device);
/// "00000000:01:00.0" with an eight-digit domain, "0000:01:00.0" with four.
SIMGPU_CORE std::string device_bus_id(int device, int domain_digits);
/// The device with this bus id; -1 if none.
SIMGPU_CORE int device_with_bus_id(const char* text);
/// Blocks of this shape that one multiprocessor holds at a time; 0 if the block cannot run.
SIMGPU_CORE int occupancy(int block_threads, std::size_t shared_bytes);

}  // namespace levee::simgpu
