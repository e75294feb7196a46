// The rig for whatever CUDA this process has: real hardware, or tools/simgpu preloaded. The
// program's side of CUDA is called through the runtime that the device uses, by name and without
// headers, so that this builds everywhere.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "allocator/device/cuda_device.h"
#include "tests/contract/rig.h"

namespace levee::contract {

namespace {

// Handles and enumerators as CUDA's ABI has them.
using Stream = void*;
using Graph = void*;
constexpr unsigned kStreamNonBlocking = 1;
constexpr int kCaptureModeGlobal = 0;

void* runtime() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12"}) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD); library != nullptr) return library;
  }
  return nullptr;
}

template <typename Function>
Function find(const char* name) {
  void* library = runtime();
  return library == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library, name));
}

class CudaRig final : public Rig {
 public:
  explicit CudaRig(std::unique_ptr<device::Device> device)
      : device_(std::move(device)),
        simgpu_launch_for_(reinterpret_cast<int (*)(void*, const char*, std::int64_t)>(
            ::dlsym(RTLD_DEFAULT, "simgpu_launch_for"))) {}

  ~CudaRig() override {
    let_go();
    const auto destroy = find<int (*)(Stream)>("cudaStreamDestroy");
    for (const StreamId stream : streams_) destroy(reinterpret_cast<Stream>(stream.value));
  }

  device::Device& device() override { return *device_; }

  StreamId new_stream() override {
    static const auto create = find<int (*)(Stream*, unsigned)>("cudaStreamCreateWithFlags");
    static const auto set_device = find<int (*)(int)>("cudaSetDevice");
    const int before = current_device();
    Stream stream = nullptr;
    set_device(device_->id().value);
    create(&stream, kStreamNonBlocking);
    set_device(before);
    streams_.push_back(StreamId{reinterpret_cast<std::uint64_t>(stream)});
    return streams_.back();
  }

  void hold(StreamId stream) override {
    if (simgpu_launch_for_ != nullptr) {
      // Long enough for any debug build; whoever waits for it moves the simulated clock.
      simgpu_launch_for_(reinterpret_cast<Stream>(stream.value), "held", 60'000'000'000);
      return;
    }
    static const auto launch = find<int (*)(Stream, void (*)(void*), void*)>("cudaLaunchHostFunc");
    holds_.push_back(Hold{this, static_cast<std::uint32_t>(holds_.size() + 1)});
    launch(reinterpret_cast<Stream>(stream.value), &wait_for_let_go, &holds_.back());
  }

  void let_go() override {
    let_go_.store(static_cast<std::uint32_t>(holds_.size()));
    let_go_.notify_all();
  }

  bool write(StreamId stream, DeviceAddr addr) override {
    static const auto memset = find<int (*)(void*, int, std::size_t, Stream)>("cudaMemsetAsync");
    return memset(reinterpret_cast<void*>(addr.value), 0, 4,
                  reinterpret_cast<Stream>(stream.value)) == 0;
  }

  bool begin_capture(StreamId stream) override {
    static const auto begin = find<int (*)(Stream, int)>("cudaStreamBeginCapture");
    return begin(reinterpret_cast<Stream>(stream.value), kCaptureModeGlobal) == 0;
  }

  bool end_capture(StreamId stream) override {
    static const auto end = find<int (*)(Stream, Graph*)>("cudaStreamEndCapture");
    Graph graph = nullptr;
    const bool has_ended =
        end(reinterpret_cast<Stream>(stream.value), &graph) == 0 && graph != nullptr;
    if (!has_ended) last_error();
    return has_ended;
  }

  int last_error() override {
    static const auto get = find<int (*)()>("cudaGetLastError");
    return get();
  }

  int current_device() override {
    static const auto get = find<int (*)(int*)>("cudaGetDevice");
    int device = -1;
    get(&device);
    return device;
  }

  bool is_real() const override { return simgpu_launch_for_ == nullptr; }

 private:
  struct Hold {
    CudaRig* rig;
    std::uint32_t number;
  };
  static void wait_for_let_go(void* argument) {
    const Hold& hold = *static_cast<Hold*>(argument);
    std::atomic<std::uint32_t>& let_go = hold.rig->let_go_;
    for (std::uint32_t seen = let_go.load(); seen < hold.number; seen = let_go.load())
      let_go.wait(seen);
  }

  std::unique_ptr<device::Device> device_;
  int (*simgpu_launch_for_)(void*, const char*, std::int64_t);
  std::vector<StreamId> streams_;
  std::deque<Hold> holds_;                // work on the device points into it
  std::atomic<std::uint32_t> let_go_{0};  ///< holds up to this one are over
};

}  // namespace

std::unique_ptr<Rig> make_cuda_rig(std::string* why_not) {
  if (device::cuda_device_count() == 0) {
    *why_not = device::cuda_problem();
    return nullptr;
  }
  // The last device: with several, none of the calls below may depend on the current one being 0.
  auto device = device::CudaDevice::open(DeviceId{device::cuda_device_count() - 1});
  if (!device.ok()) {
    *why_not = "the device could not be opened";
    return nullptr;
  }
  return std::make_unique<CudaRig>(std::move(device).value());
}

}  // namespace levee::contract
