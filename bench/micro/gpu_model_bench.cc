// What the model of a GPU costs on the host, call by call, with its judge on and off: the figures
// that bound the speed of fuzz runs, of the replay lab and of programs on the simulated GPU.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "allocator/base/check.h"
#include "allocator/device/sim/gpu_model.h"

namespace levee::device::sim {
namespace {

constexpr DeviceId kGpu{0};

ModelConfig config(JudgeMode judge) {
  ModelConfig config;
  config.judge = judge;
  config.report_leaks = false;
  return config;
}

JudgeMode judge_of(const benchmark::State& state) {
  return state.range(0) != 0 ? JudgeMode::kAbort : JudgeMode::kOff;
}

void BM_record_and_query(benchmark::State& state) {
  GpuModel model(config(judge_of(state)));
  const StreamId stream = model.create_stream(kGpu).value();
  const EventId event = model.create_event(kGpu).value();
  for (auto _ : state) {
    LEVEE_CHECK_OK(model.record_event(event, kGpu, stream));
    LEVEE_CHECK_OK(model.query_event(event));
  }
}
BENCHMARK(BM_record_and_query)->ArgName("judge")->Arg(0)->Arg(1);

void BM_enqueue_kernel(benchmark::State& state) {
  GpuModel model(config(judge_of(state)));
  const StreamId stream = model.create_stream(kGpu).value();
  Work work;
  work.duration = 1_us;
  for (auto _ : state) LEVEE_CHECK_OK(model.enqueue(kGpu, stream, CallKind::kLaunchKernel, work));
}
BENCHMARK(BM_enqueue_kernel)->ArgName("judge")->Arg(0)->Arg(1);

void BM_remap_page(benchmark::State& state) {
  GpuModel model(config(judge_of(state)));
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
  for (auto _ : state) {
    LEVEE_CHECK_OK(model.map(range, 2_MiB, handle));
    LEVEE_CHECK_OK(model.set_access(range, 2_MiB, kGpu));
    LEVEE_CHECK_OK(model.unmap(range, 2_MiB));
  }
}
BENCHMARK(BM_remap_page)->ArgName("judge")->Arg(0)->Arg(1);

/// One of many live neighbours is handed out and given back, on two streams in turn, in order.
void BM_hand_out_and_give_back(benchmark::State& state) {
  GpuModel model(config(judge_of(state)));
  const Bytes bytes{static_cast<std::uint64_t>(state.range(1))};
  constexpr std::uint64_t kBlocks = 256;
  const DeviceAddr base = model.allocate(kGpu, bytes * kBlocks).value();
  const StreamId streams[] = {model.create_stream(kGpu).value(), model.create_stream(kGpu).value()};
  for (std::uint64_t i = 0; i < kBlocks; i += 2)
    model.note_use(kGpu, base + bytes * i, bytes, streams[0], UseKind::kHandOut);
  std::uint64_t next = 1;
  for (auto _ : state) {
    const DeviceAddr addr = base + bytes * next;
    model.note_use(kGpu, addr, bytes, streams[0], UseKind::kHandOut);
    model.note_use(kGpu, addr, bytes, streams[0], UseKind::kGiveBack);
    next = (next + 2) % kBlocks;
  }
}
BENCHMARK(BM_hand_out_and_give_back)
    ->ArgNames({"judge", "bytes"})
    ->Args({0, 4096})
    ->Args({1, 4096})
    ->Args({1, 4 << 20});

void BM_map_many_pages(benchmark::State& state) {
  constexpr std::uint64_t kPages = 10'000;
  GpuModel model(config(judge_of(state)));
  std::vector<HandleId> handles;
  for (std::uint64_t i = 0; i < kPages; ++i)
    handles.push_back(model.create_handle(kGpu, 2_MiB).value());
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB * kPages, Bytes{}).value();
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < kPages; ++i)
      LEVEE_CHECK_OK(model.map(range + 2_MiB * i, 2_MiB, handles[i]));
    LEVEE_CHECK_OK(model.set_access(range, 2_MiB * kPages, kGpu));
    LEVEE_CHECK_OK(model.unmap(range, 2_MiB * kPages));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(kPages) * state.iterations());
}
BENCHMARK(BM_map_many_pages)->ArgName("judge")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace levee::device::sim
