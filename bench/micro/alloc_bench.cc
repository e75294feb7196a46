// What a pair of alloc and free costs at levee's own interface: hot, in churn, with and without the
// recorder, from two threads; beside a bare loop and the host's malloc. Rows S6 and S8 of the
// scoreboard.
//
// The model of a GPU stands behind the allocator with its judge off: a hit makes no device call, so
// what is timed is levee alone. Every benchmark runs in bursts of a fixed number of pairs, short
// enough for the recorder's memory and for one time slice, and the best of many bursts counts
// (`min`): other programs use the machine too. Run with --benchmark_enable_random_interleaving=true
// for bursts that take turns. Precondition: no other live blocks. Each burst checks that every
// request was served.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "allocator/base/check.h"
#include "allocator/base/clock.h"
#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "allocator/record/time_stamps.h"
#include "allocator/record/trace_recorder.h"

namespace levee::core {
namespace {

namespace fs = std::filesystem;
using base::Clock;

constexpr int kPairs = 20'000;
constexpr int kBursts = 25;

// ---- What is measured

/// An allocator over a model of its own, and the recorder where one is wanted.
class Bench {
 public:
  enum class Recording { kOff, kOn };

  explicit Bench(Recording recording, const Config& settings = {})
      : model_(config()), device_(model_, DeviceId{0}) {
    if (recording == Recording::kOn) {
      path_ = fs::temp_directory_path() / ("levee_alloc_bench." + std::to_string(::getpid()));
      record::TraceRecorder::Options options;
      options.path = path_.string();
      options.cap = 64_MiB;
      options.ring_memory = 256_MiB;
      recorder_ = record::TraceRecorder::create(options);
    }
    allocator_ = std::move(make_allocator(device_, settings, recorder_.get()).value());
    side_ = model_.create_stream(DeviceId{0}).value();
  }
  ~Bench() {
    allocator_.reset();
    if (recorder_ == nullptr) return;
    recorder_->finish();
    LEVEE_CHECK_EQ(recorder_->totals().events_lost, 0U, "the bursts are too long");
    recorder_.reset();
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Allocator& operator*() { return *allocator_; }
  Allocator* operator->() { return allocator_.get(); }
  StreamId side_stream() const { return side_; }
  /// What the last burst recorded goes to the file before the next one begins.
  void settle() {
    if (recorder_ != nullptr) LEVEE_CHECK(recorder_->flush().ok());
  }
  bool is_recording() const { return recorder_ != nullptr && recorder_->enabled(); }
  std::uint64_t device_calls() const { return model_.total_calls(); }

 private:
  static device::sim::ModelConfig config() {
    device::sim::ModelConfig config;
    config.judge = device::sim::JudgeMode::kOff;
    return config;
  }
  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  std::unique_ptr<record::TraceRecorder> recorder_;
  std::unique_ptr<Allocator> allocator_;
  StreamId side_;
  fs::path path_;
};

Bench::Recording recording_of(const benchmark::State& state) {
  return state.range(0) != 0 ? Bench::Recording::kOn : Bench::Recording::kOff;
}

std::uint64_t next_random(std::uint64_t& seed) {
  seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return seed >> 33;
}

/// Sizes that are as likely in each doubling of [low, high], multiples of nothing.
std::vector<Bytes> log_uniform_sizes(Bytes low, Bytes high, std::size_t count, std::uint64_t seed) {
  std::vector<Bytes> sizes;
  const double octaves =
      std::log2(static_cast<double>(high.value) / static_cast<double>(low.value));
  for (std::size_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(next_random(seed)) / 0x1p31;
    sizes.push_back(Bytes{
        static_cast<std::uint64_t>(static_cast<double>(low.value) * std::exp2(share * octaves))});
  }
  return sizes;
}

void hot_pairs(Allocator& allocator, Bytes bytes, StreamId stream, int pairs) {
  for (int i = 0; i < pairs; ++i) {
    const Result<Block> block = allocator.allocate(bytes, stream);
    LEVEE_CHECK(block.ok());
    LEVEE_CHECK(allocator.free(block->addr).ok());
  }
}

/// Blocks that come and go in no particular order: each turn frees one of those that live and asks
/// for another of the same size. So the bytes in use stay the same, and once the allocator has
/// found its places no request is a miss: misses are what the replay lab measures.
class Churn {
 public:
  Churn(Allocator& allocator, std::size_t live, Bytes low, Bytes high)
      : allocator_(allocator), sizes_(log_uniform_sizes(low, high, live, 7)), live_(live) {
    for (std::size_t i = 1; i < live; ++i) live_[i] = take(i);
    run(high > 1_MiB ? 8 * static_cast<int>(live) : kPairs);
  }
  ~Churn() {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (i != absent_) LEVEE_CHECK(allocator_.free(live_[i]).ok());
    }
  }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  void run(int pairs) {
    for (int i = 0; i < pairs; ++i) {
      // One more is freed before the one that is out comes back, so that no block simply returns to
      // where it was.
      std::size_t next = next_random(seed_) % live_.size();
      if (next == absent_) next = (next + 1) % live_.size();
      LEVEE_CHECK(allocator_.free(live_[next]).ok());
      live_[absent_] = take(absent_);
      absent_ = next;
    }
  }

 private:
  DeviceAddr take(std::size_t place) {
    const Result<Block> block = allocator_.allocate(sizes_[place], StreamId{0});
    LEVEE_CHECK(block.ok());
    return block->addr;
  }

  Allocator& allocator_;
  std::vector<Bytes> sizes_;
  std::vector<DeviceAddr> live_;
  std::size_t absent_ = 0;  // the place whose block is out
  std::uint64_t seed_ = 1;
};

// ---- One thread

void BM_hot(benchmark::State& state) {
  Bench bench(recording_of(state));
  const Bytes bytes{static_cast<std::uint64_t>(state.range(1))};
  // As many as a burst has: the recorder's memory has then been touched once.
  hot_pairs(*bench, bytes, StreamId{0}, kPairs);
  bench.settle();
  for (auto _ : state) hot_pairs(*bench, bytes, StreamId{0}, 1);
}

/// The same with step marks, so that the predictor listens.
void BM_hot_in_steps(benchmark::State& state) {
  Bench bench(recording_of(state));
  const Bytes bytes{static_cast<std::uint64_t>(state.range(1))};
  for (int step = 0; step < 10; ++step) {
    bench->mark_step();
    hot_pairs(*bench, bytes, StreamId{0}, kPairs / 10);
  }
  bench.settle();
  for (auto _ : state) hot_pairs(*bench, bytes, StreamId{0}, 1);
}

void BM_churn(benchmark::State& state) {
  Bench bench(recording_of(state));
  Churn churn(*bench, static_cast<std::size_t>(state.range(1)),
              Bytes{static_cast<std::uint64_t>(state.range(2))},
              Bytes{static_cast<std::uint64_t>(state.range(3))});
  bench.settle();
  const std::int64_t calls = bench->stats().driver_calls;
  for (auto _ : state) churn.run(1);
  state.counters["device_calls"] = static_cast<double>(bench->stats().driver_calls - calls);
}

/// Large blocks of sizes and lifetimes without any structure. Where pages may be joined (`stitch`)
/// they are, again and again, in the model's own time. So each pair is timed by itself, and those
/// that called the device are told apart: `hit_ns` is the mean of the others (the slowest hundredth
/// left out: other programs), `miss_share` how many called, `miss_ns` the mean of those.
void BM_churn_large(benchmark::State& state) {
  if (!record::ticks_are_usable()) {
    state.SkipWithError("the processor's counter is not to be trusted here");
    return;
  }
  Config settings;
  settings.stitch = state.range(3) != 0 ? StitchMode::kAlias : StitchMode::kNone;
  Bench bench(Bench::Recording::kOff, settings);
  Churn churn(*bench, static_cast<std::size_t>(state.range(0)),
              Bytes{static_cast<std::uint64_t>(state.range(1))},
              Bytes{static_cast<std::uint64_t>(state.range(2))});
  std::vector<std::uint64_t> hits;
  std::vector<std::uint64_t> misses;
  const Nanos began = Clock::monotonic();
  const std::uint64_t first = record::read_ticks();
  for (auto _ : state) {
    const std::uint64_t calls = bench.device_calls();
    const std::uint64_t start = record::read_ticks();
    churn.run(1);
    const std::uint64_t ticks = record::read_ticks() - start;
    (bench.device_calls() == calls ? hits : misses).push_back(ticks);
  }
  const double ns_per_tick = static_cast<double>((Clock::monotonic() - began).value) /
                             static_cast<double>(record::read_ticks() - first);
  const auto mean_ns = [&](std::vector<std::uint64_t>& ticks) {
    std::sort(ticks.begin(), ticks.end());
    const std::size_t kept = ticks.size() - ticks.size() / 100;
    if (kept == 0) return 0.0;
    const auto end = ticks.begin() + static_cast<std::ptrdiff_t>(kept);
    return static_cast<double>(std::accumulate(ticks.begin(), end, std::uint64_t{0})) /
           static_cast<double>(kept) * ns_per_tick;
  };
  state.counters["miss_share"] =
      static_cast<double>(misses.size()) / static_cast<double>(hits.size() + misses.size());
  state.counters["hit_ns"] = mean_ns(hits);
  state.counters["miss_ns"] = mean_ns(misses);
}

/// Each pair timed by itself with the processor's counter, what reading it costs taken off.
void BM_hot_tail(benchmark::State& state) {
  if (!record::ticks_are_usable()) {
    state.SkipWithError("the processor's counter is not to be trusted here");
    return;
  }
  Bench bench(recording_of(state));
  const Bytes bytes{static_cast<std::uint64_t>(state.range(1))};
  hot_pairs(*bench, bytes, StreamId{0}, kPairs);
  bench.settle();
  std::vector<std::uint64_t> ticks;
  std::vector<std::uint64_t> empty;
  ticks.reserve(static_cast<std::size_t>(state.max_iterations));
  empty.reserve(static_cast<std::size_t>(state.max_iterations));
  const Nanos began = Clock::monotonic();
  const std::uint64_t first = record::read_ticks();
  for (auto _ : state) {
    const std::uint64_t start = record::read_ticks();
    hot_pairs(*bench, bytes, StreamId{0}, 1);
    const std::uint64_t end = record::read_ticks();
    ticks.push_back(end - start);
    empty.push_back(record::read_ticks() - end);
  }
  const double ns_per_tick = static_cast<double>((Clock::monotonic() - began).value) /
                             static_cast<double>(record::read_ticks() - first);
  std::sort(ticks.begin(), ticks.end());
  std::sort(empty.begin(), empty.end());
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(ticks.size() - 1));
    const std::uint64_t idle = empty[empty.size() / 2];
    return static_cast<double>(ticks[index] - std::min(ticks[index], idle)) * ns_per_tick;
  };
  state.counters["p50_ns"] = at(0.5);
  state.counters["p999_ns"] = at(0.999);
}

// ---- Two threads

/// A second thread that takes part in each burst.
class Partner {
 public:
  explicit Partner(std::function<void()> work)
      : work_(std::move(work)), thread_([this] { run(); }) {}
  ~Partner() {
    turn_.store(-1);
    thread_.join();
  }
  /// Starts the burst on both sides; returns when both are through.
  void together(const std::function<void()>& work) {
    const int mine = turn_.load() + 1;
    turn_.store(mine);
    work();
    while (done_.load() != mine) std::this_thread::yield();
  }

 private:
  void run() {
    for (int seen = 0;;) {
      const int turn = turn_.load();
      if (turn < 0) return;
      if (turn == seen) {
        std::this_thread::yield();  // the recorder's writer may need the core
        continue;
      }
      work_();
      done_.store(seen = turn);
    }
  }
  std::function<void()> work_;
  std::atomic<int> turn_{0};
  std::atomic<int> done_{0};
  std::thread thread_;
};

/// `range(2)` threads, each with pairs on a stream of its own. Time is for one pair of each thread.
void BM_threads(benchmark::State& state) {
  Bench bench(recording_of(state));
  const Bytes bytes{static_cast<std::uint64_t>(state.range(1))};
  const auto mine = [&] { hot_pairs(*bench, bytes, StreamId{0}, kPairs); };
  const auto theirs = [&] { hot_pairs(*bench, bytes, bench.side_stream(), kPairs); };
  mine();
  std::unique_ptr<Partner> partner;
  if (state.range(2) == 2) partner = std::make_unique<Partner>(theirs);
  for (auto _ : state) {
    bench.settle();
    const Nanos start = Clock::monotonic();
    if (partner != nullptr) {
      partner->together(mine);
    } else {
      mine();
    }
    state.SetIterationTime(static_cast<double>((Clock::monotonic() - start).value) * 1e-9 / kPairs);
  }
}

/// The same without an allocator: what this machine, with all else that it does now, gives two
/// threads that share nothing.
void BM_bare_threads(benchmark::State& state) {
  const auto work = [] {
    std::uint64_t seed = 1;
    for (int i = 0; i < kPairs; ++i) {
      for (int k = 0; k < 16; ++k) next_random(seed);  // about as long as a pair
      benchmark::DoNotOptimize(seed);
    }
  };
  std::unique_ptr<Partner> partner;
  if (state.range(0) == 2) partner = std::make_unique<Partner>(work);
  for (auto _ : state) {
    const Nanos start = Clock::monotonic();
    if (partner != nullptr) {
      partner->together(work);
    } else {
      work();
    }
    state.SetIterationTime(static_cast<double>((Clock::monotonic() - start).value) * 1e-9 / kPairs);
  }
}

// ---- Beside it

/// What the least conceivable allocator does: a list for each size class and a flat table.
void BM_bare_pop_and_table(benchmark::State& state) {
  struct Node {
    Node* next;
  };
  std::vector<Node> nodes(64);
  Node* lists[16] = {};
  for (Node& node : nodes) node.next = std::exchange(lists[1], &node);
  std::vector<std::uint8_t> class_of_node(64, 1);
  std::size_t bytes = 1000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    Node* node = std::exchange(lists[bytes >> 9], lists[bytes >> 9]->next);
    benchmark::DoNotOptimize(node);
    Node*& list = lists[class_of_node[static_cast<std::size_t>(node - nodes.data())]];
    node->next = std::exchange(list, node);
    benchmark::ClobberMemory();
  }
}

/// What one event costs at the least: the counter and a store of 32 bytes. Twice, as a pair does.
void BM_bare_two_stamps(benchmark::State& state) {
  std::vector<Event> events(1024);
  std::size_t i = 0;
  for (auto _ : state) {
    for (int twice = 0; twice < 2; ++twice) {
      ++i;
      events[i % 1024] = make_event(
          EventKind::kAlloc, Nanos{static_cast<std::int64_t>(record::read_ticks())}, {}, i, i);
    }
    benchmark::ClobberMemory();
  }
}

void BM_bare_lock_twice(benchmark::State& state) {
  base::Mutex mutex;
  for (auto _ : state) {
    for (int twice = 0; twice < 2; ++twice) {
      mutex.lock();
      benchmark::ClobberMemory();
      mutex.unlock();
    }
  }
}

void BM_malloc(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* memory = std::malloc(bytes);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;

/// Registered here and not where they stand, so that `--smoke` makes them short.
void register_all(bool is_smoke) {
  const auto in = [&](benchmark::internal::Benchmark* bench, int pairs, int bursts) {
    bench->Iterations(is_smoke ? std::min(pairs, 100) : pairs);
    bench->Repetitions(is_smoke ? 1 : bursts)->ComputeStatistics("min", least);
    bench->ReportAggregatesOnly(!is_smoke);
    return bench;
  };
  const auto add = [&](const char* name, void (*function)(benchmark::State&)) {
    return in(benchmark::RegisterBenchmark(name, function), kPairs, kBursts);
  };
  add("BM_bare_pop_and_table", BM_bare_pop_and_table);
  add("BM_bare_two_stamps", BM_bare_two_stamps);
  add("BM_bare_lock_twice", BM_bare_lock_twice);
  add("BM_malloc", BM_malloc)->Arg(1 * kKiB)->Arg(64 * kKiB);
  add("BM_hot", BM_hot)
      ->ArgNames({"recording", "bytes"})
      ->ArgsProduct({{0, 1}, {1 * kKiB, 16 * kKiB, 512 * kKiB, 8 * kMiB, 64 * kMiB}});
  add("BM_hot_in_steps", BM_hot_in_steps)
      ->ArgNames({"recording", "bytes"})
      ->ArgsProduct({{0, 1}, {1 * kKiB, 8 * kMiB}});
  add("BM_hot_tail", BM_hot_tail)
      ->ArgNames({"recording", "bytes"})
      ->ArgsProduct({{0, 1}, {1 * kKiB}});
  add("BM_churn", BM_churn)
      ->ArgNames({"recording", "live", "from", "to"})
      ->ArgsProduct({{0, 1}, {256, 2000}, {512}, {16 * kKiB, 1 * kMiB}});
  // Few: what is slow about them is calls of the model.
  in(benchmark::RegisterBenchmark("BM_churn_large", BM_churn_large), kPairs / 10, 5)
      ->ArgNames({"live", "from", "to", "stitch"})
      ->ArgsProduct(
          {is_smoke ? std::vector<std::int64_t>{16} : std::vector<std::int64_t>{256, 2000},
           {2 * kMiB},
           {64 * kMiB},
           {1, 0}});
  in(benchmark::RegisterBenchmark("BM_threads", BM_threads), 4, kBursts)
      ->ArgNames({"recording", "bytes", "threads"})
      ->ArgsProduct({{0, 1}, {1 * kKiB}, {1, 2}})
      ->UseManualTime();
  in(benchmark::RegisterBenchmark("BM_bare_threads", BM_bare_threads), 4, kBursts)
      ->ArgName("threads")
      ->ArgsProduct({{1, 2}})
      ->UseManualTime();
}

}  // namespace
}  // namespace levee::core

int main(int argc, char** argv) {
  std::vector<char*> arguments;
  bool is_smoke = false;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--smoke") {
      is_smoke = true;
    } else {
      arguments.push_back(argv[i]);
    }
  }
  levee::core::register_all(is_smoke);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) return 1;
  benchmark::Shutdown();
  return 0;
}
