// Stream-ordered memory. One pool per device is modelled; further pools that a program makes are
// names for their device's one.
#include <deque>
#include <map>

#include "allocator/base/mutex.h"
#include "tools/simgpu/cudart/face.h"

using levee::Bytes;
using levee::DeviceId;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::to_addr;
using levee::simgpu::to_stream;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::put;

namespace {

struct Pool {
  int device = 0;
  bool is_default = false;
  bool is_alive = true;
  int reuse[4] = {0, 1, 1, 1};  // by attribute number, 1 to 3
};

/// Pools are never freed: a handle that a program keeps too long must not crash it.
class Pools {
 public:
  Pool* make(int device, bool is_default) {
    levee::base::MutexLock lock(mutex_);
    all_.push_back(Pool{device, is_default});
    return &all_.back();
  }
  Pool* default_of(int device) {
    levee::base::MutexLock lock(mutex_);
    Pool*& pool = defaults_[device];
    if (pool == nullptr) {
      all_.push_back(Pool{device, true});
      pool = &all_.back();
    }
    return pool;
  }
  Pool* current_of(int device) {
    {
      levee::base::MutexLock lock(mutex_);
      const auto at = current_.find(device);
      if (at != current_.end()) return at->second;
    }
    return default_of(device);
  }
  void set_current(int device, Pool* pool) {
    levee::base::MutexLock lock(mutex_);
    current_[device] = pool;
  }
  /// The pool behind a handle; null if it is none.
  Pool* find(cudaMemPool_t handle) {
    levee::base::MutexLock lock(mutex_);
    for (Pool& pool : all_) {
      if (reinterpret_cast<cudaMemPool_t>(&pool) == handle && pool.is_alive) return &pool;
    }
    return nullptr;
  }

 private:
  levee::base::Mutex mutex_;
  std::deque<Pool> all_ LEVEE_GUARDED_BY(mutex_);
  std::map<int, Pool*> defaults_ LEVEE_GUARDED_BY(mutex_);
  std::map<int, Pool*> current_ LEVEE_GUARDED_BY(mutex_);
};

Pools& pools() {
  static auto* value = new Pools;
  return *value;
}

cudaMemPool_t to_handle(Pool* pool) {
  return reinterpret_cast<cudaMemPool_t>(pool);
}

int get_attribute(Process& process, const Pool& pool, cudaMemPoolAttr which, void* value) {
  const auto use = process.model().async_pool_use(DeviceId{pool.device});
  auto* wide = static_cast<std::uint64_t*>(value);
  switch (which) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      *static_cast<int*>(value) = pool.reuse[which];
      return 0;
    case cudaMemPoolAttrReleaseThreshold:
      *wide = use.release_threshold.value;
      return 0;
    case cudaMemPoolAttrReservedMemCurrent:
      *wide = use.reserved.value;
      return 0;
    case cudaMemPoolAttrReservedMemHigh:
      *wide = use.reserved_high.value;
      return 0;
    case cudaMemPoolAttrUsedMemCurrent:
      *wide = use.used.value;
      return 0;
    case cudaMemPoolAttrUsedMemHigh:
      *wide = use.used_high.value;
      return 0;
    default:
      return cudaErrorInvalidValue;
  }
}

int set_attribute(Process& process, Pool* pool, cudaMemPoolAttr which, const void* value) {
  switch (which) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      pool->reuse[which] = *static_cast<const int*>(value);
      return 0;
    case cudaMemPoolAttrReleaseThreshold:
      return native_code(process.model().set_async_pool_threshold(
          DeviceId{pool->device}, Bytes{*static_cast<const std::uint64_t*>(value)}));
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      if (*static_cast<const std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
      return native_code(process.model().reset_async_pool_peaks(DeviceId{pool->device}));
    default:
      return cudaErrorInvalidValue;
  }
}

int allocate_on(Process& process, void** pointer, std::size_t bytes, int device,
                cudaStream_t stream) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return 0;
  process.activate(device);
  const auto made =
      process.model().allocate_async(DeviceId{device}, Bytes{bytes}, to_stream(stream));
  if (!made.ok()) return native_code(made.status());
  *pointer = reinterpret_cast<void*>(made->value);
  return 0;
}

}  // namespace

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  static ApiFunction api{"cudaMallocAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020};
  return answer(api, [&](Process& process) {
    return allocate_on(process, pointer, bytes, pools().current_of(this_thread().device)->device,
                       stream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t handle,
                                    cudaStream_t stream) {
  static ApiFunction api{"cudaMallocFromPoolAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMallocFromPoolAsync_v11020};
  return answer(api, [&](Process& process) {
    const Pool* pool = pools().find(handle);
    if (pool == nullptr) return int{cudaErrorInvalidValue};
    return allocate_on(process, pointer, bytes, pool->device, stream);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  static ApiFunction api{"cudaFreeAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020};
  return answer(api, [&](Process& process) {
    return process.model().release_async(to_addr(pointer), to_stream(stream));
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* handle, int device) {
  static ApiFunction api{"cudaDeviceGetDefaultMemPool", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetDefaultMemPool_v11020};
  return answer(api, [&](Process& process) {
    if (device < 0 || device >= process.device_count()) return int{cudaErrorInvalidDevice};
    put(handle, to_handle(pools().default_of(device)));
    return 0;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* handle, int device) {
  static ApiFunction api{"cudaDeviceGetMemPool", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetMemPool_v11020};
  return answer(api, [&](Process& process) {
    if (device < 0 || device >= process.device_count()) return int{cudaErrorInvalidDevice};
    put(handle, to_handle(pools().current_of(device)));
    return 0;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  static ApiFunction api{"cudaDeviceSetMemPool", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSetMemPool_v11020};
  return answer(api, [&](Process& process) {
    Pool* pool = pools().find(handle);
    if (device < 0 || device >= process.device_count()) return int{cudaErrorInvalidDevice};
    if (pool == nullptr || pool->device != device) return int{cudaErrorInvalidValue};
    pools().set_current(device, pool);
    return 0;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  static ApiFunction api{"cudaMemPoolCreate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolCreate_v11020};
  return answer(api, [&](Process& process) {
    if (handle == nullptr || properties == nullptr) return int{cudaErrorInvalidValue};
    if (properties->location.type != cudaMemLocationTypeDevice ||
        properties->handleTypes != cudaMemHandleTypeNone) {
      return int{cudaErrorNotSupported};
    }
    if (properties->location.id < 0 || properties->location.id >= process.device_count())
      return int{cudaErrorInvalidDevice};
    *handle = to_handle(pools().make(properties->location.id, false));
    return 0;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  static ApiFunction api{"cudaMemPoolDestroy", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolDestroy_v11020};
  return answer(api, [&](Process&) {
    Pool* pool = pools().find(handle);
    if (pool == nullptr || pool->is_default) return int{cudaErrorInvalidValue};
    pool->is_alive = false;
    return 0;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
  static ApiFunction api{"cudaMemPoolGetAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolGetAttribute_v11020};
  return answer(api, [&](Process& process) {
    const Pool* pool = pools().find(handle);
    if (pool == nullptr || value == nullptr) return int{cudaErrorInvalidValue};
    return get_attribute(process, *pool, which, value);
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which, void* value) {
  static ApiFunction api{"cudaMemPoolSetAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolSetAttribute_v11020};
  return answer(api, [&](Process& process) {
    Pool* pool = pools().find(handle);
    if (pool == nullptr || value == nullptr) return int{cudaErrorInvalidValue};
    return set_attribute(process, pool, which, value);
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep) {
  static ApiFunction api{"cudaMemPoolTrimTo", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolTrimTo_v11020};
  return answer(api, [&](Process& process) {
    const Pool* pool = pools().find(handle);
    if (pool == nullptr) return int{cudaErrorInvalidValue};
    return native_code(process.model().trim_async_pool(DeviceId{pool->device}, Bytes{keep}));
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* access,
                                 size_t count) {
  static ApiFunction api{"cudaMemPoolSetAccess", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolSetAccess_v11020};
  return answer(api, [&](Process& process) {
    if (pools().find(handle) == nullptr) return int{cudaErrorInvalidValue};
    for (std::size_t i = 0; i < count; ++i) {
      if (access[i].location.id < 0 || access[i].location.id >= process.device_count())
        return int{cudaErrorInvalidDevice};
    }
    return 0;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t handle,
                                 cudaMemLocation*) {
  static ApiFunction api{"cudaMemPoolGetAccess", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPoolGetAccess_v11020};
  return answer(api, [&](Process&) {
    if (pools().find(handle) == nullptr) return int{cudaErrorInvalidValue};
    put(flags, cudaMemAccessFlagsProtReadWrite);
    return 0;
  });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType, void* value) {
  static ApiFunction api{"cudaDeviceGetGraphMemAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetGraphMemAttribute_v11040};
  return answer(api, [&](Process& process) {
    if (device < 0 || device >= process.device_count()) return int{cudaErrorInvalidDevice};
    if (value == nullptr) return int{cudaErrorInvalidValue};
    *static_cast<std::uint64_t*>(value) =
        0;  // memory nodes of graphs are part of the device's one pool here
    return 0;
  });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType, void*) {
  static ApiFunction api{"cudaDeviceSetGraphMemAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSetGraphMemAttribute_v11040};
  return answer(api, [&](Process& process) {
    return device >= 0 && device < process.device_count() ? 0 : int{cudaErrorInvalidDevice};
  });
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  static ApiFunction api{"cudaDeviceGraphMemTrim", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGraphMemTrim_v11040};
  return answer(api, [&](Process& process) {
    return device >= 0 && device < process.device_count() ? 0 : int{cudaErrorInvalidDevice};
  });
}

}  // extern "C"
