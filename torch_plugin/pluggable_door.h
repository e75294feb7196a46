// The plain door: the two C symbols that torch.cuda.memory.CUDAPluggableAllocator takes, and one
// for each of its setters. For a PyTorch that the main door was not compiled for.
//
// Owns: nothing; it stands on the C interface alone, so that one binary serves many PyTorch
// versions. Promises: 0 bytes are answered with null; an out-of-memory is an exception, since
// PyTorch takes a null pointer for memory (c10::OutOfMemoryError if `levee_torch_set_typed_errors`
// said that libc10 is the one this was compiled for, else an ordinary c10::Error with the same
// text); CUDA's last error is clear afterwards; the free symbol never throws. What PyTorch's
// pluggable class refuses by itself (statistics, snapshots, MemPool) this door cannot add.
// The signatures are PyTorch's; see torch/csrc/cuda/CUDAPluggableAllocator.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <utility>

#define LEVEE_DOOR __attribute__((visibility("default")))

extern "C" {
LEVEE_DOOR void* levee_torch_alloc(std::size_t bytes, int device, cudaStream_t stream);
LEVEE_DOOR void levee_torch_free(void* pointer, std::size_t bytes, int device,
                                 cudaStream_t stream) noexcept;
LEVEE_DOOR void levee_torch_init(int device_count);
LEVEE_DOOR void levee_torch_reset();
LEVEE_DOOR void levee_torch_memory_fraction(double fraction, int device);
LEVEE_DOOR void* levee_torch_base_alloc(void* pointer, std::size_t* bytes);
LEVEE_DOOR void levee_torch_record_stream(void* pointer, cudaStream_t stream);
LEVEE_DOOR void levee_torch_begin_allocate_to_pool(
    int device, std::pair<unsigned long long, unsigned long long> pool,
    std::function<bool(cudaStream_t)> filter);
LEVEE_DOOR void levee_torch_end_allocate_to_pool(
    int device, std::pair<unsigned long long, unsigned long long> pool);
LEVEE_DOOR void levee_torch_release_pool(int device,
                                         std::pair<unsigned long long, unsigned long long> pool);
/// 1 if the PyTorch in this process is the one that this library was compiled against.
LEVEE_DOOR void levee_torch_set_typed_errors(int typed) noexcept;
}
