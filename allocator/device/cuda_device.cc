#include "allocator/device/cuda_device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "allocator/device/cuda_symbols.h"
#include "allocator/device/native_status.h"

namespace levee::device {

namespace {

// ---- Numbers

template <typename Number>
constexpr bool is(Native native, Number number) {
  return static_cast<std::int32_t>(native) == static_cast<std::int32_t>(number);
}
static_assert(is(Native::kSuccess, cudaSuccess) && is(Native::kSuccess, CUDA_SUCCESS));
static_assert(is(Native::kInvalidValue, cudaErrorInvalidValue) &&
              is(Native::kInvalidValue, CUDA_ERROR_INVALID_VALUE));
static_assert(is(Native::kOutOfMemory, cudaErrorMemoryAllocation) &&
              is(Native::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(is(Native::kNotInitialized, cudaErrorInitializationError) &&
              is(Native::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(is(Native::kUnloading, cudaErrorCudartUnloading) &&
              is(Native::kUnloading, CUDA_ERROR_DEINITIALIZED));
static_assert(is(Native::kStubDriver, cudaErrorStubLibrary) &&
              is(Native::kOldDriver, cudaErrorInsufficientDriver));
static_assert(is(Native::kNoDevice, cudaErrorNoDevice) &&
              is(Native::kNoDevice, CUDA_ERROR_NO_DEVICE));
static_assert(is(Native::kInvalidDevice, cudaErrorInvalidDevice) &&
              is(Native::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
static_assert(is(Native::kAlreadyMapped, cudaErrorAlreadyMapped) &&
              is(Native::kAlreadyMapped, CUDA_ERROR_ALREADY_MAPPED));
static_assert(is(Native::kNotMapped, cudaErrorNotMapped) &&
              is(Native::kNotMapped, CUDA_ERROR_NOT_MAPPED));
static_assert(is(Native::kInvalidHandle, cudaErrorInvalidResourceHandle) &&
              is(Native::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE));
static_assert(is(Native::kIllegalState, cudaErrorIllegalState) &&
              is(Native::kIllegalState, CUDA_ERROR_ILLEGAL_STATE));
static_assert(is(Native::kNotFound, cudaErrorSymbolNotFound) &&
              is(Native::kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(is(Native::kNotReady, cudaErrorNotReady) &&
              is(Native::kNotReady, CUDA_ERROR_NOT_READY));
static_assert(is(Native::kIllegalAddress, cudaErrorIllegalAddress) &&
              is(Native::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(is(Native::kLaunchTimeout, cudaErrorLaunchTimeout) &&
              is(Native::kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(is(Native::kLaunchFailure, cudaErrorLaunchFailure) &&
              is(Native::kLaunchFailure, CUDA_ERROR_LAUNCH_FAILED));
static_assert(is(Native::kNotPermitted, cudaErrorNotPermitted) &&
              is(Native::kNotPermitted, CUDA_ERROR_NOT_PERMITTED));
static_assert(is(Native::kNotSupported, cudaErrorNotSupported) &&
              is(Native::kNotSupported, CUDA_ERROR_NOT_SUPPORTED));
static_assert(is(Native::kCaptureUnsupported, cudaErrorStreamCaptureUnsupported));
static_assert(is(Native::kCaptureInvalidated, cudaErrorStreamCaptureInvalidated));
static_assert(is(Native::kCaptureMerge, cudaErrorStreamCaptureMerge));
static_assert(is(Native::kCaptureUnmatched, cudaErrorStreamCaptureUnmatched));
static_assert(is(Native::kCaptureUnjoined, cudaErrorStreamCaptureUnjoined));
static_assert(is(Native::kCaptureIsolation, cudaErrorStreamCaptureIsolation));
static_assert(is(Native::kCaptureImplicit, cudaErrorStreamCaptureImplicit));
static_assert(is(Native::kCapturedEvent, cudaErrorCapturedEvent));
static_assert(is(Native::kCaptureWrongThread, cudaErrorStreamCaptureWrongThread));
static_assert(is(Native::kTimeout, cudaErrorTimeout) && is(Native::kUnknown, cudaErrorUnknown));

// ---- Errors

/// The one place where CUDA's "last error" is cleared: what we have been told must not surface in
/// the program's next check.
Status to_status(const CudaSymbols& cuda, cudaError_t error) {
  if (error == cudaSuccess) return Status{};
  static_cast<void>(cuda.get_last_error());  // returns the error that we are reporting already
  return device::to_status(static_cast<std::int32_t>(error));
}

/// Driver calls set no "last error".
Status to_status(CUresult result) {
  return device::to_status(static_cast<std::int32_t>(result));
}

// ---- Forks

// Grows in each forked child, so that a device knows whether the process that opened it is this
// one.
std::atomic<std::uint64_t> g_process{1};

std::uint64_t watch_forks() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] {
    g_process.store(g_process.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  });
  static_cast<void>(watched);  // fails only without memory, at start; then forks go unnoticed and
                               // CUDA itself refuses
  return g_process.load(std::memory_order_relaxed);
}

constexpr Status kForked{StatusCode::kUnsupported,
                         static_cast<std::int32_t>(Native::kNotInitialized)};

// ---- Scopes

/// What every call begins with: the calling thread's current device is `device` in this scope. In a
/// process forked from the one that opened the device it refuses, without any CUDA call.
class CurrentDevice {
 public:
  CurrentDevice(const CudaSymbols& cuda, DeviceId device, std::uint64_t process) : cuda_(cuda) {
    if (process != g_process.load(std::memory_order_relaxed)) {
      status_ = kForked;
      return;
    }
    status_ = to_status(cuda_, cuda_.get_device(&before_));
    if (status_.ok() && before_ != device.value) {
      status_ = to_status(cuda_, cuda_.set_device(device.value));
      is_changed_ = status_.ok();
    }
  }
  ~CurrentDevice() {
    // It was current before, so it can be again; if the runtime is unloading nobody is left to
    // care.
    if (is_changed_) static_cast<void>(to_status(cuda_, cuda_.set_device(before_)));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  bool ok() const { return status_.ok(); }
  Status status() const { return status_; }

 private:
  const CudaSymbols& cuda_;
  int before_ = 0;
  bool is_changed_ = false;
  Status status_;
};

/// The calling thread's capture mode is relaxed in this scope: the calls in it concern no captured
/// work, and must not end a capture that the program has begun on this or another thread.
class RelaxedMode {
 public:
  explicit RelaxedMode(const CudaSymbols& cuda) : cuda_(cuda) { exchange(); }
  ~RelaxedMode() { exchange(); }
  RelaxedMode(const RelaxedMode&) = delete;
  RelaxedMode& operator=(const RelaxedMode&) = delete;

 private:
  void exchange() {
    // Cannot fail but for an unloading runtime, which the call in the scope will report.
    static_cast<void>(to_status(cuda_, cuda_.thread_exchange_stream_capture_mode(&mode_)));
  }
  const CudaSymbols& cuda_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// ---- Bits

cudaStream_t to_cuda(StreamId stream) {
  return reinterpret_cast<cudaStream_t>(stream.handle().value);
}
cudaEvent_t to_cuda(EventId event) {
  return reinterpret_cast<cudaEvent_t>(event.value);
}
void* to_pointer(DeviceAddr addr) {
  return reinterpret_cast<void*>(addr.value);
}

CUmemAllocationProp handle_properties(DeviceId device, bool is_rdma_capable) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.value;
  properties.allocFlags.gpuDirectRDMACapable = is_rdma_capable ? 1 : 0;
  return properties;
}

}  // namespace

// ---- Finding devices

int cuda_device_count() {
  return cuda_device_count(cuda_symbols());
}

int cuda_device_count(const CudaSymbols& cuda) {
  if (!cuda.is_usable()) return 0;
  int count = 0;
  return to_status(cuda, cuda.get_device_count(&count)).ok() ? count : 0;
}

std::string cuda_problem() {
  return cuda_problem(cuda_symbols());
}

std::string cuda_problem(const CudaSymbols& cuda) {
  if (!cuda.is_usable()) return cuda.problem;
  int count = 0;
  const cudaError_t error = cuda.get_device_count(&count);
  if (to_status(cuda, error).ok() && count > 0) return {};
  if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary) {
    return "There is no NVIDIA driver on this machine, or it is too old for the CUDA runtime in "
           "use; install or update it, or "
           "run the program on a simulated GPU (levee sim -- ...).";
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return "The NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES, or run the program on a "
           "simulated GPU (levee sim -- ...).";
  }
  return std::string("The CUDA runtime cannot start: ") + cuda.get_error_string(error) + ".";
}

Result<std::unique_ptr<Device>> CudaDevice::open(DeviceId id) {
  return open(id, cuda_symbols());
}

Result<std::unique_ptr<Device>> CudaDevice::open(DeviceId id, const CudaSymbols& cuda) {
  if (!cuda.is_usable()) return Status{StatusCode::kUnsupported, 0};
  int count = 0;
  if (const Status status = to_status(cuda, cuda.get_device_count(&count)); !status.ok())
    return status;
  if (id.value < 0 || id.value >= count) return device::to_status(Native::kInvalidDevice);

  std::unique_ptr<CudaDevice> device(new CudaDevice(id, cuda));
  Capabilities& capabilities = device->capabilities_;
  const Result<MemoryInfo> memory = device->memory_info();
  if (!memory.ok()) return memory.status();
  capabilities.total_memory = memory->total;
  capabilities.name = "CUDA device " + std::to_string(id.value);
  char name[256] = {};
  if (cuda.device_get_name != nullptr &&
      cuda.device_get_name(name, sizeof(name), id.value) == CUDA_SUCCESS) {
    capabilities.name = name;
  }
  for (const auto& [attribute, value] :
       {std::pair{cudaDevAttrComputeCapabilityMajor, &capabilities.compute_major},
        std::pair{cudaDevAttrComputeCapabilityMinor, &capabilities.compute_minor}}) {
    if (const Status status =
            to_status(cuda, cuda.device_get_attribute(value, attribute, id.value));
        !status.ok()) {
      return status;
    }
  }
  capabilities.judges_use = cuda.simgpu_note_use != nullptr &&
                            cuda.simgpu_note_pool_lock != nullptr &&
                            (cuda.simgpu_is_judging == nullptr || cuda.simgpu_is_judging() != 0);
  if (cuda.has_vmm_calls()) {
    int has_vmm = 0;
    int has_rdma = 0;
    if (cuda.cu_device_get_attribute(&has_vmm,
                                     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                     id.value) != CUDA_SUCCESS) {
      has_vmm = 0;
    }
    if (cuda.cu_device_get_attribute(&has_rdma,
                                     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                                     id.value) != CUDA_SUCCESS) {
      has_rdma = 0;
    }
    device->is_rdma_capable_ = has_rdma != 0;
    const CUmemAllocationProp properties = handle_properties(id, device->is_rdma_capable_);
    size_t granularity = 0;
    capabilities.has_vmm =
        has_vmm != 0 &&
        cuda.mem_get_allocation_granularity(&granularity, &properties,
                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
        granularity != 0;
    capabilities.vmm_granularity = Bytes{granularity};
  }
  return std::unique_ptr<Device>(std::move(device));
}

CudaDevice::CudaDevice(DeviceId id, const CudaSymbols& cuda)
    : id_(id), cuda_(cuda), process_(watch_forks()) {}

// ---- Memory

Result<MemoryInfo> CudaDevice::memory_info() {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (const Status status = to_status(cuda_, cuda_.mem_get_info(&free_bytes, &total_bytes));
      !status.ok())
    return status;
  return MemoryInfo{Bytes{free_bytes}, Bytes{total_bytes}};
}

Result<DeviceAddr> CudaDevice::allocate(Bytes bytes) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  const RelaxedMode relaxed(cuda_);
  void* pointer = nullptr;
  if (const Status status = to_status(cuda_, cuda_.malloc(&pointer, bytes.value)); !status.ok())
    return status;
  return DeviceAddr{reinterpret_cast<std::uint64_t>(pointer)};
}

Status CudaDevice::release(DeviceAddr addr) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  const RelaxedMode relaxed(cuda_);
  return to_status(cuda_, cuda_.free(to_pointer(addr)));
}

Result<DeviceAddr> CudaDevice::reserve_range(Bytes bytes, Bytes alignment) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  CUdeviceptr pointer = 0;
  if (const Status status =
          to_status(cuda_.mem_address_reserve(&pointer, bytes.value, alignment.value, 0, 0));
      !status.ok()) {
    return status;
  }
  return DeviceAddr{pointer};
}

Status CudaDevice::free_range(DeviceAddr addr, Bytes bytes) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  return to_status(cuda_.mem_address_free(addr.value, bytes.value));
}

Result<HandleId> CudaDevice::create_handle(Bytes bytes) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  const CUmemAllocationProp properties = handle_properties(id_, is_rdma_capable_);
  CUmemGenericAllocationHandle handle = 0;
  if (const Status status = to_status(cuda_.mem_create(&handle, bytes.value, &properties, 0));
      !status.ok())
    return status;
  return HandleId{handle};
}

Status CudaDevice::release_handle(HandleId handle) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  return to_status(cuda_.mem_release(handle.value));
}

Status CudaDevice::map(DeviceAddr addr, Bytes bytes, HandleId handle) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  return to_status(cuda_.mem_map(addr.value, bytes.value, 0, handle.value, 0));
}

Status CudaDevice::grant(DeviceAddr addr, Bytes bytes, const std::vector<DeviceId>& devices) {
  std::vector<CUmemAccessDesc> access(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[i].location.id = devices[i].value;
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return to_status(cuda_.mem_set_access(addr.value, bytes.value, access.data(), access.size()));
}

Status CudaDevice::set_access(DeviceAddr addr, Bytes bytes) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  const base::MutexLock lock(access_mutex_);
  std::vector<DeviceId> devices = peers_;
  devices.push_back(id_);
  if (const Status status = grant(addr, bytes, devices); !status.ok()) return status;
  std::uint64_t begin = addr.value;
  std::uint64_t end = (addr + bytes).value;
  auto it = accessible_.upper_bound(begin);
  if (it != accessible_.begin() && std::prev(it)->second >= begin) --it;
  while (it != accessible_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = accessible_.erase(it);
  }
  accessible_.emplace(begin, end);
  return {};
}

Status CudaDevice::unmap(DeviceAddr addr, Bytes bytes) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm) return device::to_status(Native::kNotSupported);
  const base::MutexLock lock(access_mutex_);
  if (const Status status = to_status(cuda_.mem_unmap(addr.value, bytes.value)); !status.ok()) {
    return status;
  }
  const std::uint64_t begin = addr.value;
  const std::uint64_t end = (addr + bytes).value;
  auto it = accessible_.upper_bound(begin);
  if (it != accessible_.begin() && std::prev(it)->second > begin) --it;
  while (it != accessible_.end() && it->first < end) {
    const auto [start, stop] = *it;
    it = accessible_.erase(it);
    if (start < begin) accessible_.emplace(start, begin);
    if (stop > end) it = accessible_.emplace(end, stop).first;
  }
  return {};
}

Status CudaDevice::allow_peer(DeviceId peer) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  if (!capabilities_.has_vmm || peer == id_) return {};
  const base::MutexLock lock(access_mutex_);
  if (std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return {};
  for (const auto& [begin, end] : accessible_) {
    // A failure half way leaves access that nobody relies on.
    if (const Status status = grant(DeviceAddr{begin}, Bytes{end - begin}, {peer}); !status.ok()) {
      return status;
    }
  }
  peers_.push_back(peer);
  return {};
}

// ---- Order

// Handles 0 to 2 are streams of whatever device is current.
DeviceId CudaDevice::device_of(StreamId stream) const {
  return stream.is_foreign() ? stream.device() : id_;
}

Result<EventId> CudaDevice::create_event() {
  return create_event_on(id_);
}

Result<EventId> CudaDevice::create_event_on(DeviceId device) {
  const CurrentDevice current(cuda_, device, process_);
  if (!current.ok()) return current.status();
  cudaEvent_t event = nullptr;
  if (const Status status =
          to_status(cuda_, cuda_.event_create_with_flags(&event, cudaEventDisableTiming));
      !status.ok()) {
    return status;
  }
  return EventId{reinterpret_cast<std::uint64_t>(event)};
}

Status CudaDevice::destroy_event(EventId event) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  return to_status(cuda_, cuda_.event_destroy(to_cuda(event)));
}

Status CudaDevice::record_event(EventId event, StreamId stream) {
  const CurrentDevice current(cuda_, device_of(stream), process_);
  if (!current.ok()) return current.status();
  return to_status(cuda_, cuda_.event_record(to_cuda(event), to_cuda(stream)));
}

Status CudaDevice::query_event(EventId event) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  const RelaxedMode relaxed(cuda_);
  return to_status(cuda_, cuda_.event_query(to_cuda(event)));
}

Status CudaDevice::wait_event(StreamId stream, EventId event) {
  const CurrentDevice current(cuda_, device_of(stream), process_);
  if (!current.ok()) return current.status();
  return to_status(cuda_, cuda_.stream_wait_event(to_cuda(stream), to_cuda(event), 0));
}

Status CudaDevice::synchronize_event(EventId event) {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  const RelaxedMode relaxed(cuda_);
  return to_status(cuda_, cuda_.event_synchronize(to_cuda(event)));
}

Status CudaDevice::synchronize_stream(StreamId stream) {
  const CurrentDevice current(cuda_, device_of(stream), process_);
  if (!current.ok()) return current.status();
  const RelaxedMode relaxed(cuda_);
  return to_status(cuda_, cuda_.stream_synchronize(to_cuda(stream)));
}

Status CudaDevice::synchronize_device() {
  const CurrentDevice current(cuda_, id_, process_);
  if (!current.ok()) return current.status();
  const RelaxedMode relaxed(cuda_);
  return to_status(cuda_, cuda_.device_synchronize());
}

// ---- State

Result<CaptureInfo> CudaDevice::capture_info(StreamId stream) {
  const CurrentDevice current(cuda_, device_of(stream), process_);
  if (!current.ok()) return current.status();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  const cudaError_t error = cuda_.stream_get_capture_info_v2 != nullptr
                                ? cuda_.stream_get_capture_info_v2(
                                      to_cuda(stream), &capture, &number, nullptr, nullptr, nullptr)
                                : cuda_.stream_get_capture_info(to_cuda(stream), &capture, &number,
                                                                nullptr, nullptr, nullptr, nullptr);
  if (const Status status = to_status(cuda_, error); !status.ok()) return status;
  CaptureInfo info;
  switch (capture) {
    case cudaStreamCaptureStatusNone:
      return info;
    case cudaStreamCaptureStatusActive:
      info.status = CaptureStatus::kActive;
      break;
    case cudaStreamCaptureStatusInvalidated:
      info.status = CaptureStatus::kInvalidated;
      break;
  }
  info.id = number;
  return info;
}

void CudaDevice::note_use(DeviceAddr addr, Bytes bytes, StreamId stream, UseKind kind) {
  if (cuda_.simgpu_note_use == nullptr || process_ != g_process.load(std::memory_order_relaxed))
    return;
  // Streams of another device keep its number, by which the stand-in tells the default streams
  // apart.
  cuda_.simgpu_note_use(addr.value, bytes.value, reinterpret_cast<cudaStream_t>(stream.value),
                        static_cast<int>(kind));
}

void CudaDevice::note_pool_lock(bool held) {
  if (cuda_.simgpu_note_pool_lock != nullptr) cuda_.simgpu_note_pool_lock(held ? 1 : 0);
}

}  // namespace levee::device
