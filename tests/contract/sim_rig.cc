#include <levee/units.h>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/contract/rig.h"

namespace levee::contract {

namespace {

using device::sim::CallKind;
using device::sim::CaptureMode;
using device::sim::GpuModel;
using device::sim::ModelConfig;
using device::sim::SimDevice;
using device::sim::StreamOptions;
using device::sim::Work;

constexpr DeviceId kGpu{0};
constexpr Nanos kHeld = 1000_ms;

ModelConfig config() {
  ModelConfig config;
  config.devices.front().total_memory = 8_GiB;
  config.judge = device::sim::JudgeMode::kCount;  // the contract makes wrong calls on purpose
  config.report_leaks = false;
  return config;
}

class SimRig final : public Rig {
 public:
  SimRig() : model_(config()), device_(model_, kGpu) {}

  device::Device& device() override { return device_; }
  StreamId new_stream() override {
    return model_.create_stream(kGpu, StreamOptions{.non_blocking = true, .priority = 0}).value();
  }
  void hold(StreamId stream) override {
    Work work;
    work.duration = kHeld;
    static_cast<void>(model_.enqueue(kGpu, stream, CallKind::kLaunchKernel,
                                     work));  // the test sees it did not hold
  }
  void let_go() override { model_.advance(kHeld); }
  bool write(StreamId stream, DeviceAddr addr) override {
    const device::sim::Touch touch{addr, 4_B, true};
    Work work;
    work.touches = std::span<const device::sim::Touch>(&touch, 1);
    return model_.enqueue(kGpu, stream, CallKind::kMemsetAsync, work).ok();
  }
  bool begin_capture(StreamId stream) override {
    return model_.begin_capture(kGpu, stream, CaptureMode::kGlobal).ok();
  }
  bool end_capture(StreamId stream) override { return model_.end_capture(kGpu, stream).ok(); }
  int last_error() override { return 0; }
  int current_device() override { return -1; }
  bool is_real() const override { return false; }

 private:
  GpuModel model_;
  SimDevice device_;
};

}  // namespace

std::unique_ptr<Rig> make_sim_rig() {
  return std::make_unique<SimRig>();
}

}  // namespace levee::contract
