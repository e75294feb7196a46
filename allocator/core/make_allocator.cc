#include "allocator/core/make_allocator.h"

#include "allocator/core/device_allocator.h"

namespace levee::core {

Result<std::unique_ptr<Allocator>> make_allocator(device::Device& device, const Config& config,
                                                  record::Recorder* recorder) {
  const device::Capabilities& capabilities = device.capabilities();
  if (config.page_size.value == 0 || config.page_size % 2_MiB != 0_B) {
    return StatusCode::kInvalidArgument;
  }
  if (capabilities.has_vmm && (capabilities.vmm_granularity.value == 0 ||
                               config.page_size % capabilities.vmm_granularity != 0_B)) {
    return StatusCode::kInvalidArgument;
  }
  if (!(config.slack >= 0.0 && config.slack <= 1.0) ||
      !(config.guard_share >= 0.0 && config.guard_share <= 1.0) ||
      !(config.guard_growth >= 0.0 && config.guard_growth <= 8.0) ||
      !(config.memory_fraction > 0.0 && config.memory_fraction <= 1.0)) {
    return StatusCode::kInvalidArgument;
  }
  if (!capabilities.has_vmm && config.backing == Backing::kPages) return StatusCode::kUnsupported;
  return std::unique_ptr<Allocator>(std::make_unique<DeviceAllocator>(device, config, recorder));
}

}  // namespace levee::core
