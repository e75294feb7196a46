// What the pieces of base cost, next to what the standard library offers in their place. The
// process has a second thread, since the C library takes a cheaper path in a process with one, and
// no process that trains has one.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "allocator/base/clock.h"
#include "allocator/base/mutex.h"
#include "allocator/base/record_arena.h"

namespace levee::base {
namespace {

/// A thread that sleeps for as long as the program runs.
class SecondThread {
 public:
  SecondThread() : thread_([this] { sleep(); }) {}
  ~SecondThread() {
    {
      const std::lock_guard lock{mutex_};
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void sleep() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return done_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};
const SecondThread second_thread;

template <typename M>
void lock_unlock(benchmark::State& state) {
  M mutex;
  for (auto _ : state) {
    mutex.lock();
    benchmark::ClobberMemory();
    mutex.unlock();
  }
}
void BM_mutex(benchmark::State& state) {
  lock_unlock<Mutex>(state);
}
void BM_mutex_std(benchmark::State& state) {
  lock_unlock<std::mutex>(state);
}
BENCHMARK(BM_mutex);
BENCHMARK(BM_mutex_std);

void BM_clock_now(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Clock::now());
}
BENCHMARK(BM_clock_now);

struct Record {
  std::uint64_t words[10] = {};
};

void BM_record_arena(benchmark::State& state) {
  RecordArena<Record> arena;
  std::vector<Record*> records(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (Record*& record : records) record = arena.make();
    for (Record* record : records) arena.destroy(record);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void BM_record_new(benchmark::State& state) {
  std::vector<Record*> records(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (Record*& record : records) record = new Record;
    for (Record* record : records) delete record;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_record_arena)->Arg(1)->Arg(1000);
BENCHMARK(BM_record_new)->Arg(1)->Arg(1000);

}  // namespace
}  // namespace levee::base
