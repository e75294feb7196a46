// Where an allocator comes from.
#pragma once

#include <memory>

#include <levee/allocator.h>
#include <levee/config.h>
#include <levee/status.h>

#include "allocator/device/device.h"
#include "allocator/record/recorder.h"

namespace levee::core {

/// An allocator for `device`, which must outlive it, as must the recorder (null: nothing is
/// recorded). Makes no device call. kInvalidArgument if the settings contradict each other or the
/// device (a page size that is no multiple of its granularity).
Result<std::unique_ptr<Allocator>> make_allocator(device::Device& device, const Config& config,
                                                  record::Recorder* recorder);

}  // namespace levee::core
