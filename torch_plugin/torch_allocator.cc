#include "torch_plugin/torch_allocator.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "torch_plugin/torch_convert.h"

namespace levee::torch_plugin {
namespace {

// Where PyTorch's own allocator stops as well: beyond it is a size gone wrong, not a request.
constexpr size_t kExabyte = 1ULL << 60;

std::atomic<TorchAllocator*> g_installed{nullptr};

/// Runs whatever asked PyTorch to be told when memory runs short (CUDA IPC's collector is one).
bool run_free_memory_callbacks() {
  bool freed = false;
  for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
  return freed;
}

// Room for a report that is written only when a request fails: its quarter of a kilobyte is not
// worth clearing for each request.
union LateReport {
  LateReport() {}  // NOLINT(modernize-use-equals-default): leaves `value` as it is
  OomReport value;
};

[[gnu::cold, gnu::noinline]] void report_foreign_pointer(const void* pointer) {
  const std::string text =
      c10::str("levee: a tensor gave back ", pointer, ", which levee never handed out; ignored\n");
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

}  // namespace

// ---- Installation
// ---------------------------------------------------------------------------------

TorchAllocator::TorchAllocator(Runtime& runtime) : runtime_(runtime) {
  // The option of PyTorch's own allocator and levee's mean the same; the tighter one holds.
  const double fraction = std::min(runtime.config().memory_fraction,
                                   cca::CUDAAllocatorConfig::per_process_memory_fraction());
  std::fill(std::begin(fractions_), std::end(fractions_), fraction);
}

TorchAllocator* TorchAllocator::installed() {
  return g_installed.load(std::memory_order_acquire);
}

TorchAllocator& TorchAllocator::install(Runtime& runtime,
                                        std::function<ContextId()> capture_context) {
  static std::mutex installing;
  const std::lock_guard lock(installing);
  if (TorchAllocator* running = installed()) return *running;
  // Leaked on purpose, as is the pointer to it inside PyTorch: tensors may outlive every static
  // object.
  auto* holder = new std::shared_ptr<TorchAllocator>(std::make_shared<TorchAllocator>(runtime));
  TorchAllocator& allocator = **holder;
  torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(*holder);
  g_installed.store(&allocator, std::memory_order_release);
  // changeCurrentAllocator leaves the registry alone that torch.accelerator.* asks.
  c10::SetAllocator(c10::DeviceType::CUDA, &allocator, /*priority=*/1);
  // Registered after the runtime's own handler, hence called after it.
  pthread_atfork(nullptr, nullptr, [] {
    TorchAllocator& self = *installed();
    if (self.runtime_.is_forked_child()) self.set_watch(kForked, true);
  });
  AllocatorHooks hooks;
  hooks.capture_context = [capture = std::move(capture_context)]() -> ContextId {
    return NoStackScope::is_active() || !capture ? ContextId{} : capture();
  };
  hooks.free_memory = run_free_memory_callbacks;
  runtime.set_hooks(std::move(hooks));
  return allocator;
}

std::string TorchAllocator::name() {
  return "levee";
}

void TorchAllocator::init(int device_count) {
  TORCH_CHECK(device_count <= kMaxDevices, "levee: ", device_count, " devices are more than the ",
              kMaxDevices, " that this PyTorch is built for");
  device_count_ = device_count;
  initialized_.store(true, std::memory_order_release);
}

bool TorchAllocator::initialized() {
  return initialized_.load(std::memory_order_acquire);
}

// ---- The hot pair
// ---------------------------------------------------------------------------------

levee::Allocator& TorchAllocator::allocator_of(c10::DeviceIndex device) {
  if (device >= 0 && device < kMaxDevices) [[likely]] {
    levee::Allocator* allocator = allocators_[device].load(std::memory_order_acquire);
    if (allocator != nullptr) [[likely]]
      return *allocator;
  }
  return allocator_slow(device);
}

levee::Allocator* TorchAllocator::existing(c10::DeviceIndex device) const {
  TORCH_CHECK(device >= 0 && device < device_count_, "Allocator not initialized for device ",
              static_cast<int>(device), ": did you call init?");
  return allocators_[device].load(std::memory_order_acquire);
}

levee::Allocator& TorchAllocator::allocator_slow(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < device_count_, "Allocator not initialized for device ",
              static_cast<int>(device), ": did you call init?");
  // Before the first request, so that the device's context exists and limits can be computed.
  const c10::cuda::CUDAGuard guard(device);
  Result<levee::Allocator*> made = runtime_.allocator(DeviceId{device});
  if (!made.ok()) throw_failure(made.status(), "starting the device");
  levee::Allocator& allocator = **made;

  double fraction = 1;
  {
    const std::lock_guard lock(mutex_);
    fraction = fractions_[device];
  }
  if (fraction < 1) limit_to(allocator, fraction);
  const std::lock_guard lock(mutex_);
  if (allocators_[device].load(std::memory_order_relaxed) != nullptr) return allocator;
  const bool is_first = std::none_of(std::begin(allocators_), std::end(allocators_),
                                     [](const auto& other) { return other.load() != nullptr; });
  only_.store(is_first ? &allocator : nullptr, std::memory_order_release);
  allocators_[device].store(&allocator, std::memory_order_release);
  return allocator;
}

c10::DeviceIndex TorchAllocator::current_device_slow() const {
  c10::DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

void* TorchAllocator::allocate_on(c10::DeviceIndex device, size_t bytes, cudaStream_t stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kExabyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  const std::uint32_t watch = watch_.load(std::memory_order_relaxed);
  if ((watch & kForked) != 0) [[unlikely]]
    throw_failure({StatusCode::kUnsupported, 0}, "allocate");
  levee::Allocator& allocator = allocator_of(device);
  LateReport report;
  Result<Block> block = (watch & kHistory) == 0
                            ? allocator.allocate(Bytes{bytes}, id_of(stream), &report.value)
                            : allocate_watched(allocator, bytes, id_of(stream), &report.value);
  if (!block.ok()) [[unlikely]] {
    if (block.code() == StatusCode::kOutOfMemory) throw_out_of_memory(allocator, report.value);
    throw_failure(block.status(), "allocate");
  }
  const std::uintptr_t address = block->addr.value;
  if (const auto* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_allocation(c10::DeviceType::CUDA, address);
  }
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    report_to_profiler(allocator, *block, false);
  return reinterpret_cast<void*>(address);
}

bool TorchAllocator::free_block(void* pointer) {
  const std::uint32_t watch = watch_.load(std::memory_order_relaxed);
  if ((watch & kForked) != 0) [[unlikely]]
    return true;  // the parent's tensors die without effect
  levee::Allocator* allocator = only_.load(std::memory_order_acquire);
  if (allocator == nullptr) [[unlikely]]
    allocator = runtime_.owner_of(addr_of(pointer));
  if (allocator == nullptr) [[unlikely]]
    return false;
  if (const auto* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA,
                                            reinterpret_cast<std::uintptr_t>(pointer));
  }
  const Result<Block> freed = (watch & kHistory) == 0 ? allocator->free(addr_of(pointer))
                                                      : free_watched(*allocator, addr_of(pointer));
  if (!freed.ok()) [[unlikely]]
    return false;
  if (c10::memoryProfilingEnabled()) [[unlikely]]
    report_to_profiler(*allocator, *freed, true);
  return true;
}

void TorchAllocator::delete_block(void* pointer) noexcept {
  if (pointer == nullptr) return;
  TorchAllocator& self = *g_installed.load(std::memory_order_relaxed);
  try {
    if (self.free_block(pointer)) [[likely]]
      return;
  } catch (...) {  // a profiler or tracker that throws must not end the process in a destructor
  }
  report_foreign_pointer(pointer);
}

void TorchAllocator::delete_uncached(void* pointer) noexcept {
  if (pointer == nullptr) return;
  if ((installed()->watch_.load(std::memory_order_relaxed) & kForked) != 0) return;
  if (const auto* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA,
                                            reinterpret_cast<std::uintptr_t>(pointer));
  }
  // An error here (the driver is unloading) has nobody to go to and must not stay behind.
  if (cudaFree(pointer) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

c10::DataPtr TorchAllocator::allocate(size_t bytes) {
  const c10::DeviceIndex device = current_device();
  void* pointer = nullptr;
  c10::DeleterFnPtr deleter = &delete_block;
  if (bytes != 0) {
    if ((watch_.load(std::memory_order_relaxed) & kUncached) != 0) [[unlikely]] {
      pointer = allocate_uncached(bytes);
      deleter = &delete_uncached;
    } else {
      pointer = allocate_on(device, bytes, c10::cuda::getCurrentCUDAStream(device).stream());
    }
  }
  return {pointer, pointer, deleter, c10::Device(c10::DeviceType::CUDA, device)};
}

void* TorchAllocator::allocate_uncached(size_t bytes) {
  void* pointer = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&pointer, bytes));
  if (const auto* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_allocation(c10::DeviceType::CUDA,
                                          reinterpret_cast<std::uintptr_t>(pointer));
  }
  return pointer;
}

c10::DeleterFnPtr TorchAllocator::raw_deleter() const {
  return isEnabled() ? &delete_block : &delete_uncached;
}

void* TorchAllocator::raw_alloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  const c10::DeviceIndex device = current_device();
  return allocate_on(device, bytes, c10::cuda::getCurrentCUDAStream(device).stream());
}

void* TorchAllocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  return allocate_on(current_device(), bytes, stream);
}

void TorchAllocator::raw_delete(void* pointer) {
  if (pointer == nullptr) return;
  TORCH_CHECK(free_block(pointer), "levee: invalid device pointer: ", pointer,
              " is no block that levee handed out");
}

void TorchAllocator::copy_data(void* dest, const void* src, std::size_t count) const {
  C10_CUDA_CHECK(cudaMemcpy(dest, src, count, cudaMemcpyKind::cudaMemcpyDeviceToDevice));
}

// ---- What is watched
// ------------------------------------------------------------------------------

void TorchAllocator::set_watch(Watch bit, bool on) {
  if (on) {
    watch_.fetch_or(bit);
  } else {
    watch_.fetch_and(~static_cast<std::uint32_t>(bit));
  }
}

Result<Block> TorchAllocator::allocate_watched(levee::Allocator& allocator, size_t bytes,
                                               StreamId stream, OomReport* report) {
  History::Context context = history_.gather(History::RecordContext::STATE);
  const std::lock_guard order(history_.order());
  // A stack is taken with the GIL, and whoever holds the GIL may be waiting for `order`.
  const NoStackScope no_stack;
  Result<Block> block = allocator.allocate(Bytes{bytes}, stream, report);
  if (block.ok()) {
    history_.allocated(allocator, *block, std::move(context));
  } else if (block.code() == StatusCode::kOutOfMemory) {
    history_.out_of_memory(allocator, Bytes{bytes}, report->device_free_bytes, stream,
                           std::move(context));
  }
  return block;
}

Result<Block> TorchAllocator::free_watched(levee::Allocator& allocator, DeviceAddr addr) {
  History::Context context;
  try {
    // Not in the middle of a watched request, on whose behalf a callback frees: `order` is held.
    if (!NoStackScope::is_active()) context = history_.gather(History::RecordContext::ALL);
  } catch (...) {  // the block goes back, whatever Python thinks of being asked for its stack
  }
  const std::lock_guard order(history_.order());
  Result<Block> freed = allocator.free(addr);
  if (freed.ok()) history_.freed(allocator, *freed, std::move(context));
  return freed;
}

void TorchAllocator::report_to_profiler(levee::Allocator& allocator, const Block& block,
                                        bool is_free) {
  const Stats stats = allocator.stats();
  const auto bytes = static_cast<std::int64_t>(block.bytes.value);
  c10::reportMemoryUsageToProfiler(
      reinterpret_cast<void*>(block.addr.value), is_free ? -bytes : bytes,
      static_cast<size_t>(stats.allocated_bytes[0].current),
      static_cast<size_t>(stats.reserved_bytes[0].current), device_of(allocator));
}

// ---- Failures
// -------------------------------------------------------------------------------------

void TorchAllocator::throw_out_of_memory(levee::Allocator& allocator, const OomReport& report) {
  const c10::Device device = device_of(allocator);
  std::vector<cca::OutOfMemoryObserver> observers;
  {
    const std::lock_guard lock(mutex_);
    observers = oom_observers_;
  }
  c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(report.requested_bytes.value),
                                   report.allocated_bytes.value, report.reserved_bytes.value,
                                   device);
  const Bytes most = report.limit_bytes.value != 0 ? report.limit_bytes : report.device_total_bytes;
  for (const auto& observer : observers) {
    observer(device.index(), report.requested_bytes.value, most.value,
             report.device_free_bytes.value);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, runtime_.explain(report, allocator.device()));
}

void TorchAllocator::throw_failure(Status status, const char* call) {
  if (runtime_.is_forked_child()) {
    TORCH_CHECK(false, "levee: ", call,
                " in a forked child of a process that uses CUDA: start it with the 'spawn' method");
  }
  const auto native = static_cast<cudaError_t>(status.native_code);
  const std::string said = native == cudaSuccess
                               ? std::string()
                               : c10::str(": CUDA said ", cudaGetErrorName(native), " (",
                                          cudaGetErrorString(native), ")");
  TORCH_CHECK_NOT_IMPLEMENTED(status.code != StatusCode::kUnsupported, "levee: ", call,
                              " is not supported by this device, driver or mode", said);
  TORCH_CHECK(false, "levee: ", call, " failed",
              said.empty() ? c10::str(": ", name_of(status.code)) : said);
}

}  // namespace levee::torch_plugin
