// The parts of an allocator without its door: a State on a model of a GPU, and what works on it.
// For tests of one part; `rig.h` is for tests of the whole.
#pragma once

#include <gtest/gtest.h>

#include "allocator/core/page_work.h"
#include "allocator/core/placer.h"
#include "allocator/core/slow_path.h"
#include "allocator/core/state.h"
#include "allocator/core/validate.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/unit/core/scripted_device.h"

namespace levee::core {

inline device::sim::Fault fail_always(device::sim::CallKind kind,
                                      device::Native status = device::Native::kOutOfMemory) {
  return device::sim::Fault::fail_every(kind, 1, status);
}

class StateRig {
 public:
  explicit StateRig(Bytes capacity = 256_MiB, Config config = {},
                    record::Recorder* recorder = nullptr)
      : model(model_config(capacity)),
        real(model, DeviceId{0}),
        device(real),
        state(device, config, recorder),
        placer(state),
        pages(state),
        slow_path(state, placer, pages) {
    state.stream_index(StreamId{0});
  }
  ~StateRig() {
    base::MutexLock growth(state.growth_mutex);
    PoolGuard guard(state);
    placer.abandon_blocks();
    pages.tear_down(guard);
  }
  StateRig(const StateRig&) = delete;
  StateRig& operator=(const StateRig&) = delete;

  /// What is told of a block is the judge's business elsewhere.
  static device::sim::ModelConfig model_config(Bytes capacity) {
    device::sim::ModelConfig config;
    config.devices[0].total_memory = capacity;
    config.judge = device::sim::JudgeMode::kCount;
    config.report_leaks = false;
    return config;
  }

  Request request(Bytes bytes, StreamId stream = StreamId{0}, PoolIndex pool = kDefaultPool) {
    Request made;
    made.requested = bytes;
    made.bytes = allocated_size(bytes);
    made.stream = state.stream_index(stream);
    made.pool = pool;
    return made;
  }
  DeviceAddr alloc(Bytes bytes, StreamId stream = StreamId{0}, PoolIndex pool = kDefaultPool) {
    const Result<Block> block = slow_path.serve(request(bytes, stream, pool), nullptr);
    EXPECT_TRUE(block.ok()) << bytes.value << " bytes";
    return block.ok() ? block->addr : DeviceAddr{};
  }
  void free(DeviceAddr addr) {
    PoolGuard guard(state);
    EXPECT_TRUE(placer.take_back(addr).ok());
  }
  StreamId stream() {
    return *model.create_stream(DeviceId{0}, {.non_blocking = true, .priority = 0});
  }
  void work(StreamId on, Nanos duration) {
    device::sim::Work work;
    work.duration = duration;
    ASSERT_TRUE(model.enqueue(DeviceId{0}, on, device::sim::CallKind::kLaunchKernel, work).ok());
  }
  std::uint64_t calls(device::sim::CallKind kind) const { return model.calls(kind); }
  /// Runs `f(guard)` as the slow path runs its work: with both locks.
  template <typename F>
  auto locked(F&& f) {
    base::MutexLock growth(state.growth_mutex);
    PoolGuard guard(state);
    return f(guard);
  }
  void validate() {
    PoolGuard guard(state);
    validate_state(state);
  }

  device::sim::GpuModel model;
  device::sim::SimDevice real;
  ScriptedDevice device;
  State state;
  Placer placer;
  PageWork pages;
  SlowPath slow_path;
};

}  // namespace levee::core
