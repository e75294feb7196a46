#include "allocator/c_api/real_parts.h"

#include <utility>

#include "allocator/core/make_allocator.h"

namespace levee::c_api {

ProcessRuntime::Parts real_parts() {
  ProcessRuntime::Parts parts;
  parts.device_count = [] { return 0; };
  parts.open_device = [](DeviceId) -> Result<std::unique_ptr<device::Device>> {
    return StatusCode::kUnsupported;
  };
  parts.make_allocator = core::make_allocator;
  return parts;
}

}  // namespace levee::c_api
