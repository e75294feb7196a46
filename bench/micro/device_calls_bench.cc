// What each call of the device seam costs. On a GPU these are the driver's times, which
// allocator/device/sim/latency_table.h stands in for elsewhere; without one the calls go to the
// model, and the figures are then the model's own cost on the host (the label says which). Calls
// that need others around them (map needs a range and a handle) are timed alone.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "allocator/base/check.h"
#include "allocator/base/clock.h"
#include "allocator/device/cuda_device.h"
#include "allocator/device/device.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::device {
namespace {

constexpr Bytes kPage = 2_MiB;
constexpr StreamId kDefaultStream{0};
// Fixed, since the calls around the timed one can cost far more than it does.
constexpr int kIterations = 300;

/// The real device if there is one, else the model's.
struct Target {
  Target() {
    if (cuda_device_count() > 0) {
      real = CudaDevice::open(DeviceId{0}).value();
      label = real->capabilities().name;
    } else {
      model = std::make_unique<sim::GpuModel>(sim::ModelConfig{});
      simulated = std::make_unique<sim::SimDevice>(*model, DeviceId{0});
      label = "the model, on the host";
    }
  }
  Device& device() { return real ? *real : *simulated; }

  std::unique_ptr<Device> real;
  std::unique_ptr<sim::GpuModel> model;
  std::unique_ptr<sim::SimDevice> simulated;
  std::string label;
};

Target& target() {
  static Target the_target;
  return the_target;
}

/// Runs `call` on the device and accounts its time to the iteration.
template <typename Call>
auto timed(benchmark::State& state, Call call) {
  const Nanos start = base::Clock::monotonic();
  auto result = call();
  const Nanos end = base::Clock::monotonic();
  state.SetIterationTime(static_cast<double>((end - start).value) * 1e-9);
  return result;
}

Bytes bytes_of(const benchmark::State& state) {
  return Bytes{static_cast<std::uint64_t>(state.range(0)) << 20};
}

void BM_memory_info(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    LEVEE_CHECK(timed(state, [&] { return device.memory_info(); }).ok());
  }
  state.SetLabel(target().label);
}
BENCHMARK(BM_memory_info)->UseManualTime()->Iterations(kIterations);

void BM_allocate(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    const auto addr = timed(state, [&] { return device.allocate(bytes_of(state)); });
    LEVEE_CHECK_OK(device.release(addr.value()));
  }
}
void BM_release(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    const DeviceAddr addr = device.allocate(bytes_of(state)).value();
    LEVEE_CHECK_OK(timed(state, [&] { return device.release(addr); }));
  }
}
void BM_create_handle(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    const auto handle = timed(state, [&] { return device.create_handle(bytes_of(state)); });
    LEVEE_CHECK_OK(device.release_handle(handle.value()));
  }
}
void BM_release_handle(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    const HandleId handle = device.create_handle(bytes_of(state)).value();
    LEVEE_CHECK_OK(timed(state, [&] { return device.release_handle(handle); }));
  }
}
void BM_reserve_range(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    const auto addr = timed(state, [&] { return device.reserve_range(bytes_of(state), kPage); });
    LEVEE_CHECK_OK(device.free_range(addr.value(), bytes_of(state)));
  }
}

/// A reserved range, and handles of one page each that fill it.
class PageRun {
 public:
  PageRun(Device& device, Bytes bytes) : device_(device), bytes_(bytes) {
    addr_ = device.reserve_range(bytes, kPage).value();
    for (std::uint64_t i = 0; i < bytes / kPage; ++i) {
      handles_.push_back(device.create_handle(kPage).value());
    }
  }
  ~PageRun() {
    for (const HandleId handle : handles_) LEVEE_CHECK_OK(device_.release_handle(handle));
    LEVEE_CHECK_OK(device_.free_range(addr_, bytes_));
  }
  PageRun(const PageRun&) = delete;
  PageRun& operator=(const PageRun&) = delete;

  Status map() {
    DeviceAddr at = addr_;
    for (const HandleId handle : handles_) {
      const Status status = device_.map(at, kPage, handle);
      if (!status.ok()) return status;
      at = at + kPage;
    }
    return {};
  }
  Status set_access() { return device_.set_access(addr_, bytes_); }
  Status unmap() { return device_.unmap(addr_, bytes_); }

 private:
  Device& device_;
  Bytes bytes_;
  DeviceAddr addr_;
  std::vector<HandleId> handles_;
};

void BM_map(benchmark::State& state) {
  PageRun run{target().device(), bytes_of(state)};
  for (auto _ : state) {
    LEVEE_CHECK_OK(timed(state, [&] { return run.map(); }));
    LEVEE_CHECK_OK(run.unmap());
  }
}
void BM_set_access(benchmark::State& state) {
  PageRun run{target().device(), bytes_of(state)};
  for (auto _ : state) {
    LEVEE_CHECK_OK(run.map());
    LEVEE_CHECK_OK(timed(state, [&] { return run.set_access(); }));
    LEVEE_CHECK_OK(run.unmap());
  }
}
void BM_unmap(benchmark::State& state) {
  PageRun run{target().device(), bytes_of(state)};
  for (auto _ : state) {
    LEVEE_CHECK_OK(run.map());
    LEVEE_CHECK_OK(run.set_access());
    LEVEE_CHECK_OK(timed(state, [&] { return run.unmap(); }));
  }
}

/// Sizes in MiB; the mapping calls handle that many pages of 2 MiB in one call (map: one call a
/// page).
void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("MiB")->Arg(2)->Arg(32)->Arg(256)->UseManualTime()->Iterations(kIterations);
}
BENCHMARK(BM_allocate)->Apply(sizes);
BENCHMARK(BM_release)->Apply(sizes);
BENCHMARK(BM_create_handle)->Apply(sizes);
BENCHMARK(BM_release_handle)->Apply(sizes);
BENCHMARK(BM_reserve_range)->Apply(sizes);
BENCHMARK(BM_map)->Apply(sizes);
BENCHMARK(BM_set_access)->Apply(sizes);
BENCHMARK(BM_unmap)->Apply(sizes);

void BM_create_event(benchmark::State& state) {
  Device& device = target().device();
  for (auto _ : state) {
    const auto event = timed(state, [&] { return device.create_event(); });
    LEVEE_CHECK_OK(device.destroy_event(event.value()));
  }
}
BENCHMARK(BM_create_event)->UseManualTime()->Iterations(kIterations);

/// The calls on an existing event: record, then query, stream-side wait, host-side wait.
template <typename Call>
void event_call(benchmark::State& state, Call call) {
  Device& device = target().device();
  const EventId event = device.create_event().value();
  LEVEE_CHECK_OK(device.record_event(event, kDefaultStream));
  LEVEE_CHECK_OK(device.synchronize_event(event));
  for (auto _ : state) {
    LEVEE_CHECK_OK(timed(state, [&] { return call(device, event); }));
  }
  LEVEE_CHECK_OK(device.synchronize_device());
  LEVEE_CHECK_OK(device.destroy_event(event));
}
void BM_record_event(benchmark::State& state) {
  event_call(state, [](Device& d, EventId e) { return d.record_event(e, kDefaultStream); });
}
void BM_query_event(benchmark::State& state) {
  event_call(state, [](Device& d, EventId e) { return d.query_event(e); });
}
void BM_wait_event(benchmark::State& state) {
  event_call(state, [](Device& d, EventId e) { return d.wait_event(kDefaultStream, e); });
}
void BM_synchronize_event(benchmark::State& state) {
  event_call(state, [](Device& d, EventId e) { return d.synchronize_event(e); });
}
void BM_synchronize_idle_device(benchmark::State& state) {
  event_call(state, [](Device& d, EventId) { return d.synchronize_device(); });
}
BENCHMARK(BM_record_event)->UseManualTime()->Iterations(kIterations);
BENCHMARK(BM_query_event)->UseManualTime()->Iterations(kIterations);
BENCHMARK(BM_wait_event)->UseManualTime()->Iterations(kIterations);
BENCHMARK(BM_synchronize_event)->UseManualTime()->Iterations(kIterations);
BENCHMARK(BM_synchronize_idle_device)->UseManualTime()->Iterations(kIterations);

}  // namespace
}  // namespace levee::device
