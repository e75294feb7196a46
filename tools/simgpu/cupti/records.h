// Records of core/activity.h in the layouts of CUPTI.
//
// Promises: the layouts are those of the CUPTI headers that this was built with; NVIDIA appends
// fields only, so that a profiler that was built with an older header reads what it knows. Every
// field that the model does not know has CUPTI's "unknown" value.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/cupti/time_map.h"

namespace levee::simgpu::cupti {

/// The kind of a record for a client; CUPTI_ACTIVITY_KIND_INVALID if clients have no such kind.
CUpti_ActivityKind kind_of(const activity::Record& record);
/// Size of the records of a kind; 0 if none of them is ever made.
std::size_t size_of(CUpti_ActivityKind kind);
/// Writes the record; `to` has room for `size_of` its kind and is aligned to 8 bytes.
void write(const activity::Record& record, TimeMap* times, std::uint8_t* to);

}  // namespace levee::simgpu::cupti
