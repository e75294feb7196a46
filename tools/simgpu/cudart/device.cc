// Devices: which there are, what they are, which one the thread uses, and who may read whose
// memory.
#include <cstdio>
#include <cstring>

#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/core/properties.h"
#include "tools/simgpu/cudart/face.h"

using levee::DeviceId;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::device_attribute;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::put;

namespace {

bool exists(const Process& process, int device) {
  return device >= 0 && device < process.device_count();
}

int attribute(int device, int which) {
  int value = 0;
  device_attribute(device, which, &value);
  return value;
}

void fill_properties(const Process& process, int device, cudaDeviceProp* out) {
  static_assert(sizeof(cudaDeviceProp) == 1008);  // of CUDA 13
  std::memset(out, 0, sizeof *out);
  const auto get = [&](int which) { return attribute(device, which); };
  const auto size = [&](int which) { return static_cast<std::size_t>(get(which)); };
  std::snprintf(out->name, sizeof out->name, "%s", levee::simgpu::device_name(device).c_str());
  const auto uuid = levee::simgpu::device_uuid(device);
  std::memcpy(out->uuid.bytes, uuid.data(), uuid.size());
  out->totalGlobalMem =
      const_cast<Process&>(process).model().device(DeviceId{device}).total_memory.value;
  out->sharedMemPerBlock = size(8);
  out->regsPerBlock = get(12);
  out->warpSize = get(10);
  out->memPitch = size(11);
  out->maxThreadsPerBlock = get(1);
  for (int i = 0; i < 3; ++i) {
    out->maxThreadsDim[i] = get(2 + i);
    out->maxGridSize[i] = get(5 + i);
  }
  out->totalConstMem = size(9);
  out->major = get(75);
  out->minor = get(76);
  out->textureAlignment = size(14);
  out->texturePitchAlignment = size(51);
  out->multiProcessorCount = get(16);
  out->integrated = get(18);
  out->canMapHostMemory = get(19);
  out->maxTexture1D = get(21);
  out->maxTexture1DMipmap = get(77);
  out->maxTexture2D[0] = get(22);
  out->maxTexture2D[1] = get(23);
  out->maxTexture2DMipmap[0] = get(73);
  out->maxTexture2DMipmap[1] = get(74);
  for (int i = 0; i < 3; ++i) {
    out->maxTexture2DLinear[i] = get(70 + i);
    out->maxTexture3D[i] = get(24 + i);
    out->maxTexture3DAlt[i] = get(47 + i);
    out->maxTexture2DLayered[i] = get(27 + i);
    out->maxSurface3D[i] = get(58 + i);
    out->maxSurface2DLayered[i] = get(63 + i);
  }
  for (int i = 0; i < 2; ++i) {
    out->maxTexture2DGather[i] = get(45 + i);
    out->maxTexture1DLayered[i] = get(42 + i);
    out->maxTextureCubemapLayered[i] = get(53 + i);
    out->maxSurface2D[i] = get(56 + i);
    out->maxSurface1DLayered[i] = get(61 + i);
    out->maxSurfaceCubemapLayered[i] = get(67 + i);
  }
  out->maxTextureCubemap = get(52);
  out->maxSurface1D = get(55);
  out->maxSurfaceCubemap = get(66);
  out->surfaceAlignment = size(30);
  out->concurrentKernels = get(31);
  out->ECCEnabled = get(32);
  out->pciBusID = get(33);
  out->pciDeviceID = get(34);
  out->pciDomainID = get(50);
  out->tccDriver = get(35);
  out->asyncEngineCount = get(40);
  out->unifiedAddressing = get(41);
  out->memoryBusWidth = get(37);
  out->l2CacheSize = get(38);
  out->persistingL2CacheMaxSize = get(108);
  out->maxThreadsPerMultiProcessor = get(39);
  out->streamPrioritiesSupported = get(78);
  out->globalL1CacheSupported = get(79);
  out->localL1CacheSupported = get(80);
  out->sharedMemPerMultiprocessor = size(81);
  out->regsPerMultiprocessor = get(82);
  out->managedMemory = get(83);
  out->isMultiGpuBoard = get(84);
  out->hostNativeAtomicSupported = get(86);
  out->pageableMemoryAccess = get(88);
  out->concurrentManagedAccess = get(89);
  out->computePreemptionSupported = get(90);
  out->canUseHostPointerForRegisteredMem = get(91);
  out->cooperativeLaunch = get(95);
  out->sharedMemPerBlockOptin = size(97);
  out->pageableMemoryAccessUsesHostPageTables = get(100);
  out->directManagedMemAccessFromHost = get(101);
  out->maxBlocksPerMultiProcessor = get(106);
  out->accessPolicyMaxWindowSize = get(109);
  out->reservedSharedMemPerBlock = size(111);
  out->hostRegisterSupported = get(99);
  out->sparseCudaArraySupported = get(112);
  out->hostRegisterReadOnlySupported = get(113);
  out->timelineSemaphoreInteropSupported = get(114);
  out->memoryPoolsSupported = get(115);
  out->gpuDirectRDMASupported = get(116);
  out->gpuDirectRDMAFlushWritesOptions = static_cast<unsigned>(get(117));
  out->gpuDirectRDMAWritesOrdering = get(118);
  out->memoryPoolSupportedHandleTypes = static_cast<unsigned>(get(119));
  out->deferredMappingCudaArraySupported = get(121);
  out->ipcEventSupported = get(125);
  out->clusterLaunch = get(120);
  out->unifiedFunctionPointers = get(129);
  out->deviceNumaConfig = get(130);
  out->deviceNumaId = get(131);
  out->mpsEnabled = get(133);
  out->hostNumaId = get(134);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  static ApiFunction api{"cudaGetDeviceCount", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceCount_v3020};
  put(count, 0);
  return answer(api, [&](Process& process) {
    put(count, process.device_count());
    return count != nullptr ? 0 : int{cudaErrorInvalidValue};
  });
}

cudaError_t cudaGetDevice(int* device) {
  static ApiFunction api{"cudaGetDevice", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020};
  return answer(api, [&](Process&) {
    put(device, this_thread().device);
    return 0;
  });
}

cudaError_t cudaSetDevice(int device) {
  static ApiFunction api{"cudaSetDevice", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{cudaErrorInvalidDevice};
    this_thread().device = device;
    this_thread().has_context = true;
    process.activate(device);  // since CUDA 12 this makes the primary context
    return 0;
  });
}

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  static ApiFunction api{"cudaInitDevice", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaInitDevice_v12000};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{cudaErrorInvalidDevice};
    process.activate(device);
    return 0;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  static ApiFunction api{"cudaGetDeviceProperties", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceProperties_v12000};
  return answer(api, [&](Process& process) {
    if (properties == nullptr) return int{cudaErrorInvalidValue};
    if (!exists(process, device)) return int{cudaErrorInvalidDevice};
    fill_properties(process, device, properties);
    return 0;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  static ApiFunction api{"cudaDeviceGetAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{cudaErrorInvalidDevice};
    return value != nullptr && device_attribute(device, which, value) ? 0
                                                                      : int{cudaErrorInvalidValue};
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  static ApiFunction api{"cudaDeviceGetPCIBusId", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetPCIBusId_v4010};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{cudaErrorInvalidDevice};
    if (text == nullptr || length <= 0) return int{cudaErrorInvalidValue};
    std::snprintf(text, static_cast<std::size_t>(length), "%s",
                  levee::simgpu::device_bus_id(device, 4).c_str());
    return 0;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  static ApiFunction api{"cudaDeviceGetByPCIBusId", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetByPCIBusId_v4010};
  return answer(api, [&](Process&) {
    const int found = text != nullptr ? levee::simgpu::device_with_bus_id(text) : -1;
    if (found < 0) return int{cudaErrorInvalidDevice};
    put(device, found);
    return 0;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  static ApiFunction api{"cudaDriverGetVersion", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDriverGetVersion_v3020};
  return answer(api, [&](Process&) {
    put(version, levee::simgpu::kCudaVersion);
    return 0;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  put(version, levee::simgpu::kCudaVersion);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  static ApiFunction api{"cudaDeviceSynchronize", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020};
  return answer(api, [](Process& process) {
    levee::simgpu::activity::SyncScope scope(process, levee::simgpu::activity::SyncType::kContext,
                                             nullptr);
    const int code = native_code(process.model().synchronize_device(current_device()));
    process.host_functions().drain();
    return code;
  });
}

cudaError_t cudaDeviceReset() {
  static ApiFunction api{"cudaDeviceReset", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020};
  // Memory that nobody freed stays taken: a program that resets and goes on is not modelled.
  return answer(
      api, [](Process& process) { return process.model().synchronize_device(current_device()); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  static ApiFunction api{"cudaDeviceGetStreamPriorityRange", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetStreamPriorityRange_v5050};
  return answer(api, [&](Process&) {
    put(least, 0);
    put(greatest, -5);
    return 0;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  static ApiFunction api{"cudaDeviceGetLimit", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetLimit_v3020};
  return answer(api, [&](Process&) {
    if (value == nullptr) return int{cudaErrorInvalidValue};
    switch (limit) {
      case cudaLimitStackSize:
        *value = 1024;
        return 0;
      case cudaLimitPrintfFifoSize:
        *value = 1 << 20;
        return 0;
      case cudaLimitMallocHeapSize:
        *value = 8 << 20;
        return 0;
      case cudaLimitMaxL2FetchGranularity:
        *value = 64;
        return 0;
      case cudaLimitPersistingL2CacheSize:
        *value = 0;
        return 0;
      default:
        return int{cudaErrorUnsupportedLimit};
    }
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  static ApiFunction api{"cudaDeviceSetLimit", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSetLimit_v3020};
  return answer(api, [](Process&) { return 0; });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  put(config, cudaFuncCachePreferNone);
  return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  put(flags, unsigned{cudaDeviceMapHost});
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned int) {
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  static ApiFunction api{"cudaDeviceCanAccessPeer", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceCanAccessPeer_v4000};
  return answer(api, [&](Process& process) {
    if (!exists(process, device) || !exists(process, peer)) return int{cudaErrorInvalidDevice};
    put(can, device != peer ? 1 : 0);
    return 0;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  static ApiFunction api{"cudaDeviceEnablePeerAccess", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceEnablePeerAccess_v4000};
  return answer(api, [&](Process& process) {
    const int device = this_thread().device;
    if (!exists(process, peer) || peer == device) return int{cudaErrorInvalidDevice};
    if (flags != 0) return int{cudaErrorInvalidValue};
    return process.set_peer_access(device, peer, true) ? 0 : int{cudaErrorPeerAccessAlreadyEnabled};
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  static ApiFunction api{"cudaDeviceDisablePeerAccess", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceDisablePeerAccess_v4000};
  return answer(api, [&](Process& process) {
    if (!exists(process, peer)) return int{cudaErrorInvalidDevice};
    return process.set_peer_access(this_thread().device, peer, false)
               ? 0
               : int{cudaErrorPeerAccessNotEnabled};
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr which, int from, int to) {
  static ApiFunction api{"cudaDeviceGetP2PAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetP2PAttribute_v8000};
  return answer(api, [&](Process& process) {
    if (!exists(process, from) || !exists(process, to) || from == to)
      return int{cudaErrorInvalidDevice};
    put(value, which == cudaDevP2PAttrPerformanceRank ? 0 : 1);
    return 0;
  });
}

cudaError_t cudaProfilerStart() {
  static ApiFunction api{"cudaProfilerStart", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStart_v4000};
  return answer(api, [](Process&) { return 0; });
}

cudaError_t cudaProfilerStop() {
  static ApiFunction api{"cudaProfilerStop", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000};
  return answer(api, [](Process&) { return 0; });
}

}  // extern "C"
