#include "bench/replay/peers/cub_policy.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include <cub/util_allocator.cuh>

#include <fmt/format.h>

namespace levee::replay {

namespace {

constexpr std::uint64_t kEventLag = 300;  // requests that the host runs ahead of the device
constexpr Bytes kDriverPage = 2_MiB;

/// The device behind the runtime calls at the end of this file.
struct Runtime {
  Limits limits;
  DriverCosts costs;
  Bytes reserved{};
  Bytes peak{};
  std::uint64_t requests = 0;
  std::uint64_t next_address = std::uint64_t{1} << 40;
  std::uint64_t next_event = 1;
  std::unordered_map<std::uint64_t, Bytes> sizes;             // by address
  std::unordered_map<std::uint64_t, std::uint64_t> recorded;  // event -> request at which it passes
};

// The runtime of the policy that is calling; the toolkit's calls have no room for it.
thread_local Runtime* t_runtime = nullptr;

class Entered {
 public:
  explicit Entered(Runtime& runtime) : before_(t_runtime) { t_runtime = &runtime; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() { t_runtime = before_; }

 private:
  Runtime* before_;
};

class CubPolicy final : public ReplayPolicy {
 public:
  CubPolicy(std::string_view name, Limits limits)
      : name_(name), is_default_(name == "cub-default") {
    runtime_.limits = limits;
    const Entered entered(runtime_);
    constexpr unsigned kGrowth = 2;
    constexpr unsigned kSmallest = 9;  // 512 B
    constexpr unsigned kLargest = 36;  // 64 GiB
    allocator_ = is_default_
                     ? std::make_unique<cub::CachingDeviceAllocator>()
                     : std::make_unique<cub::CachingDeviceAllocator>(
                           kGrowth, kSmallest, kLargest, std::numeric_limits<std::size_t>::max());
  }
  ~CubPolicy() override {
    const Entered entered(runtime_);
    allocator_.reset();
  }

  std::string name() const override { return name_; }
  std::string settings() const override {
    return is_default_ ? "bins 8^3 to 8^7 B, 6 MB cached" : "bins 2^9 to 2^36 B, all cached";
  }

  bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) override {
    const Entered entered(runtime_);
    ++runtime_.requests;
    const std::uint64_t frees = runtime_.costs.frees;
    void* address = nullptr;
    const cudaError_t code =
        allocator_->DeviceAllocate(kDevice, &address, requested.value, stream_of(stream));
    // It frees its cache when the device refuses, as it frees nothing otherwise here.
    if (runtime_.costs.frees != frees || code != cudaSuccess) ++emergencies_;
    if (code != cudaSuccess) return false;
    if (blocks_.size() <= id) blocks_.resize(id + 1);
    blocks_[id] = address;
    return true;
  }
  void free(std::uint32_t id) override {
    const Entered entered(runtime_);
    allocator_->DeviceFree(kDevice, blocks_[id]);
  }

  Bytes reserved() const override { return runtime_.reserved; }
  Bytes peak_reserved() const override { return runtime_.peak; }
  DriverCosts costs() const override { return runtime_.costs; }
  std::uint64_t created_pages() const override { return 0; }
  std::uint64_t emergencies() const override { return emergencies_; }

 private:
  static constexpr int kDevice = 0;
  static cudaStream_t stream_of(std::uint16_t stream) {
    return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream));
  }

  std::string name_;
  bool is_default_;
  Runtime runtime_;
  std::unique_ptr<cub::CachingDeviceAllocator> allocator_;
  std::vector<void*> blocks_;
  std::uint64_t emergencies_ = 0;
};

}  // namespace

std::unique_ptr<ReplayPolicy> make_cub(std::string_view name, Limits limits, std::string* /*why*/) {
  return std::make_unique<CubPolicy>(name, limits);
}

}  // namespace levee::replay

// The runtime calls that the toolkit's allocator makes. Hidden: only this library sees them.
using levee::Bytes;
using levee::replay::t_runtime;

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int /*device*/) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  auto& r = *t_runtime;
  const Bytes taken = levee::round_up(Bytes{bytes}, levee::replay::kDriverPage);
  const Bytes capacity = r.limits.capacity.value == 0 ? Bytes{1ULL << 52} : r.limits.capacity;
  ++r.costs.mallocs;
  if (r.reserved + taken > capacity) return cudaErrorMemoryAllocation;
  r.reserved += taken;
  r.peak = std::max(r.peak, r.reserved);
  r.sizes[r.next_address] = taken;
  *address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(r.next_address));
  r.next_address += taken.value;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  auto& r = *t_runtime;
  ++r.costs.frees;
  const auto found = r.sizes.find(reinterpret_cast<std::uintptr_t>(address));
  r.reserved -= found->second;
  r.sizes.erase(found);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  auto& r = *t_runtime;
  ++r.costs.events_created;
  *event = reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(r.next_event++));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  t_runtime->recorded.erase(reinterpret_cast<std::uintptr_t>(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*stream*/) {
  auto& r = *t_runtime;
  ++r.costs.event_records;
  r.recorded[reinterpret_cast<std::uintptr_t>(event)] = r.requests + levee::replay::kEventLag;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto& r = *t_runtime;
  ++r.costs.event_queries;
  return r.requests >= r.recorded[reinterpret_cast<std::uintptr_t>(event)] ? cudaSuccess
                                                                           : cudaErrorNotReady;
}

}  // extern "C"
