// In place of cuda_device.cc and cuda_symbols.cc where the CUDA headers were not found at build
// time.
#include "allocator/device/cuda_device.h"

namespace levee::device {

int cuda_device_count() {
  return 0;
}

std::string cuda_problem() {
  return "This levee was built without the CUDA headers; install PyTorch or a CUDA toolkit and "
         "build it again.";
}

Result<std::unique_ptr<Device>> CudaDevice::open(DeviceId) {
  return Status{StatusCode::kUnsupported, 0};
}

Status CudaDevice::allow_peer(DeviceId) {
  return Status{StatusCode::kUnsupported, 0};
}

}  // namespace levee::device
