// Every difference between PyTorch versions that the main door has to know, in one place.
//
// PyTorch's `CUDAAllocator` has no stable ABI: its virtual functions change with nearly every minor
// release, so the main door is compiled for the headers of one minor version and works with that
// one alone (python/levee/installing.py compares before it loads). Here: which minor versions this
// source compiles for, and what differs between them. README.md says how to add one.
#pragma once

#include <torch/version.h>

// Minor versions of PyTorch whose `CUDAAllocator` this source implements.
#define LEVEE_TORCH_FIRST_MINOR 14
#define LEVEE_TORCH_LAST_MINOR 15

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < LEVEE_TORCH_FIRST_MINOR || \
    TORCH_VERSION_MINOR > LEVEE_TORCH_LAST_MINOR
#  error \
      "levee's main door is written for PyTorch 2.14 and 2.15; build with -DLEVEE_TORCH=OFF and use the plain door."
#endif

namespace levee::torch_plugin {

inline constexpr int kTorchMajor = TORCH_VERSION_MAJOR;
inline constexpr int kTorchMinor = TORCH_VERSION_MINOR;

// 2.15 gave `TraceEntry` one more field at the end. Its constructor did not change, and the field
// is left empty here; since the class is laid out differently, a binary for one is none for the
// other.

}  // namespace levee::torch_plugin
