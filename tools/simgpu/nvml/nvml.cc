// Stand-in libnvidia-ml.so.1: what PyTorch asks of it while it checks for GPUs, maps expandable
// segments and reports that memory is out, and what tools that show a GPU's state ask.
//
// NVML's header does not come with PyTorch's wheels, so the prototypes stand here (public API,
// nvml.h). Fabric, NVLink and MIG are answered as by a card without them. Figures that the model
// does not know (temperature, power) are not supported, never invented.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "tools/simgpu/core/process.h"
#include "tools/simgpu/core/properties.h"

using levee::DeviceId;
using levee::simgpu::Process;

namespace {

enum Result : int {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used;
};

struct ProcessInfoV2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];
};

/// A handle is the address of the device's place in this array, so that a wrong one is recognised.
char handles[64];

void* handle_of(int device) {
  return &handles[device];
}

/// -1 for what is no handle.
int device_of(const void* handle) {
  const auto* place = static_cast<const char*>(handle);
  const Process* process = Process::get();
  if (process == nullptr || place < handles || place >= handles + process->device_count())
    return -1;
  return static_cast<int>(place - handles);
}

int put_handle(int device, void** handle) {
  const Process* process = Process::get();
  if (process == nullptr) return kDriverNotLoaded;
  if (handle == nullptr || device < 0 || device >= process->device_count()) return kInvalidArgument;
  *handle = handle_of(device);
  return kSuccess;
}

int put_text(const std::string& text, char* to, unsigned length) {
  if (to == nullptr) return kInvalidArgument;
  if (text.size() + 1 > length) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

int put_attribute(const void* handle, int attribute, unsigned* to) {
  const int device = device_of(handle);
  if (device < 0 || to == nullptr) return kInvalidArgument;
  int value = 0;
  levee::simgpu::device_attribute(device, attribute, &value);
  *to = static_cast<unsigned>(value);
  return kSuccess;
}

/// This process, which is the only one that the model knows by number.
template <typename Info>
int put_processes(const void* handle, unsigned* count, Info* infos) {
  const int device = device_of(handle);
  if (device < 0 || count == nullptr) return kInvalidArgument;
  const unsigned long long used = Process::get()->model().memory_use(DeviceId{device}).used.value;
  const unsigned room = *count;
  *count = used > 0 ? 1 : 0;
  if (*count == 0) return kSuccess;
  if (room == 0 || infos == nullptr) return kInsufficientSize;
  Info info{};
  info.pid = static_cast<unsigned>(getpid());
  info.used = used;
  infos[0] = info;
  return kSuccess;
}

Memory memory_of(int device) {
  const auto use = Process::get()->model().memory_use(DeviceId{device});
  return {use.total.value, use.free.value, use.total.value - use.free.value};
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return Process::get() != nullptr ? kSuccess : kDriverNotLoaded;
}
int nvmlInit() {
  return nvmlInit_v2();
}
int nvmlInitWithFlags(unsigned) {
  return nvmlInit_v2();
}
int nvmlShutdown() {
  return kSuccess;
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return put_text("580.00.simgpu", text, length);
}
int nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return put_text("13.580.00", text, length);
}

int nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = levee::simgpu::kCudaVersion;
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  const Process* process = Process::get();
  if (count == nullptr) return kInvalidArgument;
  *count = process != nullptr ? static_cast<unsigned>(process->device_count()) : 0;
  return kSuccess;
}
int nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  return put_handle(static_cast<int>(index), handle);
}
int nvmlDeviceGetHandleByIndex(unsigned index, void** handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** handle) {
  const int device = text != nullptr ? levee::simgpu::device_with_bus_id(text) : -1;
  return device >= 0 ? put_handle(device, handle) : int{kNotFound};
}
int nvmlDeviceGetHandleByPciBusId(const char* text, void** handle) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, handle);
}

int nvmlDeviceGetHandleByUUID(const char* text, void** handle) {
  const Process* process = Process::get();
  if (process == nullptr || text == nullptr) return kInvalidArgument;
  for (int device = 0; device < process->device_count(); ++device) {
    if (levee::simgpu::device_uuid_text(device) == text) return put_handle(device, handle);
  }
  return kNotFound;
}

int nvmlDeviceGetIndex(void* handle, unsigned* index) {
  const int device = device_of(handle);
  if (device < 0 || index == nullptr) return kInvalidArgument;
  *index = static_cast<unsigned>(device);
  return kSuccess;
}
int nvmlDeviceGetMinorNumber(void* handle, unsigned* number) {
  return nvmlDeviceGetIndex(handle, number);
}

int nvmlDeviceGetName(void* handle, char* text, unsigned length) {
  const int device = device_of(handle);
  return device >= 0 ? put_text(levee::simgpu::device_name(device), text, length)
                     : int{kInvalidArgument};
}

int nvmlDeviceGetUUID(void* handle, char* text, unsigned length) {
  const int device = device_of(handle);
  return device >= 0 ? put_text(levee::simgpu::device_uuid_text(device), text, length)
                     : int{kInvalidArgument};
}

int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  const int device = device_of(handle);
  if (device < 0 || info == nullptr) return kInvalidArgument;
  std::memset(info, 0, sizeof *info);
  int bus = 0;
  levee::simgpu::device_attribute(device, 33, &bus);
  info->bus = static_cast<unsigned>(bus);
  std::snprintf(info->bus_id, sizeof info->bus_id, "%s",
                levee::simgpu::device_bus_id(device, 8).c_str());
  std::snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "%s",
                levee::simgpu::device_bus_id(device, 4).c_str());
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v2(void* handle, PciInfo* info) {
  return nvmlDeviceGetPciInfo_v3(handle, info);
}
int nvmlDeviceGetPciInfo(void* handle, PciInfo* info) {
  return nvmlDeviceGetPciInfo_v3(handle, info);
}

int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  unsigned high = 0;
  unsigned low = 0;
  if (major == nullptr || minor == nullptr || put_attribute(handle, 75, &high) != kSuccess)
    return kInvalidArgument;
  put_attribute(handle, 76, &low);
  *major = static_cast<int>(high);
  *minor = static_cast<int>(low);
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  const int device = device_of(handle);
  if (device < 0 || memory == nullptr) return kInvalidArgument;
  *memory = memory_of(device);
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo_v2(void* handle, MemoryV2* memory) {
  const int device = device_of(handle);
  if (device < 0 || memory == nullptr) return kInvalidArgument;
  const Memory now = memory_of(device);
  memory->total = now.total;
  memory->reserved = 0;
  memory->free = now.free;
  memory->used = now.used;
  return kSuccess;
}

int nvmlDeviceGetMemoryBusWidth(void* handle, unsigned* bits) {
  return put_attribute(handle, 37, bits);
}

int nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, ProcessInfoV1* infos) {
  return put_processes(handle, count, infos);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void* handle, unsigned* count, ProcessInfoV2* infos) {
  return put_processes(handle, count, infos);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, ProcessInfoV2* infos) {
  return put_processes(handle, count, infos);
}

int nvmlDeviceGetP2PStatus(void* first, void* second, int, int* status) {
  if (device_of(first) < 0 || device_of(second) < 0 || status == nullptr) return kInvalidArgument;
  *status = 0;  // NVML_P2P_STATUS_OK
  return kSuccess;
}

int nvmlDeviceGetPersistenceMode(void*, int* mode) {
  if (mode != nullptr) *mode = 1;
  return mode != nullptr ? kSuccess : kInvalidArgument;
}

// What the card does not have, or the model does not know.
int nvmlDeviceGetUtilizationRates(void*, Utilization*) {
  return kNotSupported;
}
int nvmlDeviceGetTemperature(void*, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetPowerUsage(void*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetClockInfo(void*, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetFanSpeed(void*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetGpuFabricInfo(void*, void*) {
  return kNotSupported;
}
int nvmlDeviceGetGpuFabricInfoV(void*, void*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkState(void*, unsigned, int*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo(void*, unsigned, void*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}
int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetCpuAffinity(void*, unsigned, unsigned long*) {
  return kNotSupported;
}
int nvmlDeviceSetCpuAffinity(void*) {
  return kNotSupported;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int*) {
  return kNotSupported;
}

}  // extern "C"
