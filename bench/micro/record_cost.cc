// What recording costs: the price of one event against a bare loop of clock read and 32-byte store,
// events a second without loss, bytes an event on disk. Row S12 of the scoreboard.
//
//   record_cost [--smoke] [--seconds N] [--rate EVENTS_PER_SECOND] [--threads N] [--json FILE]
//
// The two loops take turns in short bursts and the best burst of each counts, since other programs
// use the machine too. Events are those of a training loop: layers whose sizes follow a sequence
// length that is new in every step, placed by first fit. Precondition: a folder for temporary
// files. Exit status 1 if an event was lost or came back wrong.
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "allocator/base/clock.h"
#include "allocator/record/time_stamps.h"
#include "allocator/record/trace_reader.h"
#include "allocator/record/trace_recorder.h"

namespace levee::record {
namespace {

namespace fs = std::filesystem;
using base::Clock;

struct Arguments {
  double seconds = 10;
  double rate = 500'000;
  unsigned threads = 2;
  int bursts = 200;
  std::string json;
};

/// Blocks of a decoder-like training step, without times.
class StepProgram {
 public:
  explicit StepProgram(std::uint64_t seed, LaneId lane) : random_(seed), lane_(lane) {
    free_[0x7F0000000000 + (seed << 36)] = 1ULL << 35;
  }

  /// Appends the events of one step.
  void step(std::vector<Event>& out) {
    constexpr std::size_t kLayers = 24;
    const std::uint64_t tokens = 16 * (64 + random_() % 448);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> saved;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      for (const std::uint64_t width : {3072UL, 1024UL, 4096UL, 4096UL, 1024UL, 1024UL}) {
        saved.push_back(allocate(tokens * width * 2, out));
        const auto temporary = allocate(tokens * (width / 2) + 4 * layer, out);
        const auto small = allocate(tokens * 4, out);
        release(temporary, out);
        release(small, out);
      }
    }
    while (!saved.empty()) {
      const auto gradient = allocate(saved.back().second, out);
      const auto scratch = allocate(tokens * 8, out);
      release(saved.back(), out);
      saved.pop_back();
      release(scratch, out);
      release(gradient, out);
    }
  }

 private:
  using Block = std::pair<std::uint64_t, std::uint64_t>;  // address, requested bytes

  static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 511) / 512 * 512; }
  Event event(EventKind kind, const Block& block) const {
    return make_event(kind, Nanos{}, lane_, block.first,
                      pack_sizes(Bytes{block.second}, Bytes{rounded(block.second)}));
  }
  Block allocate(std::uint64_t requested, std::vector<Event>& out) {
    const std::uint64_t bytes = rounded(requested);
    auto hole = free_.begin();
    while (hole->second < bytes) ++hole;
    const Block block{hole->first, requested};
    const std::uint64_t left = hole->second - bytes;
    free_.erase(hole);
    if (left != 0) free_[block.first + bytes] = left;
    out.push_back(event(EventKind::kAlloc, block));
    return block;
  }
  void release(const Block& block, std::vector<Event>& out) {
    std::uint64_t bytes = rounded(block.second);
    auto next = free_.lower_bound(block.first);
    if (next != free_.end() && next->first == block.first + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == block.first) {
      std::prev(next)->second += bytes;
    } else {
      free_[block.first] = bytes;
    }
    out.push_back(event(EventKind::kFree, block));
  }

  std::mt19937_64 random_;
  LaneId lane_;
  std::map<std::uint64_t, std::uint64_t> free_;
};

double cpu_seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Costs {
  double record_ns = 1e9;      // Recorder::record
  double emit_ns = 1e9;        // clock read and Recorder::emit
  double bare_clock_ns = 1e9;  // Clock::now and a 32-byte store
  double bare_ticks_ns = 1e9;  // the processor's counter and a 32-byte store
};

template <typename Body>
void keep_best(double& best, std::size_t count, Body body) {
  const Nanos start = Clock::monotonic();
  for (std::size_t i = 0; i < count; ++i) body(i);
  const Nanos end = Clock::monotonic();
  best = std::min(best, static_cast<double>(end.value - start.value) / static_cast<double>(count));
}

Costs measure_costs(Recorder& door, TraceRecorder& recorder, LaneId lane, int bursts) {
  constexpr std::size_t kBurst =
      20'000;  // events; 640 KB, as much as a log touches between two looks of the writer
  std::vector<Event> store(kBurst);
  Costs costs;
  for (int i = 0; i < bursts; ++i) {
    keep_best(costs.bare_clock_ns, kBurst, [&](std::size_t k) {
      store[k] =
          make_event(EventKind::kAlloc, Clock::now(), lane, k << 9, pack_sizes(1000_B, 1024_B));
      asm volatile("" : : "r"(&store[k]) : "memory");
    });
    keep_best(costs.bare_ticks_ns, kBurst, [&](std::size_t k) {
      store[k] = make_event(EventKind::kAlloc, Nanos{static_cast<std::int64_t>(read_ticks())}, lane,
                            k << 9, pack_sizes(1000_B, 1024_B));
      asm volatile("" : : "r"(&store[k]) : "memory");
    });
    keep_best(costs.record_ns, kBurst, [&](std::size_t k) {
      if (door.enabled()) {
        door.record(k % 2 == 0 ? EventKind::kAlloc : EventKind::kFree, lane, k / 2 << 9,
                    pack_sizes(1000_B, 1024_B));
      }
    });
    keep_best(costs.emit_ns, kBurst, [&](std::size_t k) {
      if (door.enabled()) {
        door.emit(make_event(k % 2 == 0 ? EventKind::kAlloc : EventKind::kFree, Clock::now(), lane,
                             k / 2 << 9, pack_sizes(1000_B, 1024_B)));
      }
    });
    if (!recorder.flush().ok()) std::exit(1);  // also lets the log's memory come back
  }
  return costs;
}

struct Throughput {
  std::uint64_t emitted = 0;
  std::uint64_t lost = 0;
  double events_per_second = 0;
  double writer_ns = 0;  // CPU time of everything but the emitting threads, an event
  double bytes_per_event = 0;
};

Throughput measure_rate(const Arguments& arguments, const std::string& path) {
  Throughput result;
  double emitters_cpu = 0;
  const double process_cpu = cpu_seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const Nanos start = Clock::monotonic();
  TraceRecorder::Totals totals;
  {
    TraceRecorder::Options options;
    options.path = path;
    options.cap = {};
    const auto recorder = TraceRecorder::create(options);
    std::vector<std::thread> threads;
    std::vector<double> cpu(arguments.threads);
    std::vector<std::uint64_t> emitted(arguments.threads);
    for (unsigned t = 0; t < arguments.threads; ++t) {
      threads.emplace_back([&, t] {
        const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{t});
        StepProgram program(t, lane);
        std::vector<Event> events;
        std::size_t position = 0;
        const double rate = arguments.rate / arguments.threads;
        const Nanos begin = Clock::monotonic();
        while (true) {
          const double elapsed = static_cast<double>(Clock::monotonic().value - begin.value) * 1e-9;
          if (elapsed >= arguments.seconds) break;
          // Whatever is due: a thread that was put aside catches up at full speed, as a program
          // does.
          while (static_cast<double>(emitted[t]) < elapsed * rate) {
            if (position == events.size()) {
              events.clear();
              position = 0;
              program.step(events);
            }
            const Event& event = events[position++];
            recorder->record(event.kind(), lane, event.a, event.b);
            ++emitted[t];
          }
          std::this_thread::sleep_for(std::chrono::microseconds(500));
        }
        cpu[t] = cpu_seconds_of(CLOCK_THREAD_CPUTIME_ID);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (unsigned t = 0; t < arguments.threads; ++t) {
      emitters_cpu += cpu[t];
      result.emitted += emitted[t];
    }
    recorder->finish();
    totals = recorder->totals();
  }
  const double elapsed = static_cast<double>(Clock::monotonic().value - start.value) * 1e-9;
  result.events_per_second = static_cast<double>(result.emitted) / elapsed;
  result.lost = totals.events_lost;
  const double writer_cpu = cpu_seconds_of(CLOCK_PROCESS_CPUTIME_ID) - process_cpu - emitters_cpu;
  result.writer_ns = writer_cpu / static_cast<double>(result.emitted) * 1e9;
  result.bytes_per_event =
      static_cast<double>(fs::file_size(path)) / static_cast<double>(result.emitted);
  return result;
}

/// Reads everything back. Returns events a second of CPU time; exits if some are missing.
double check_and_time_reading(const std::string& path, std::uint64_t expected) {
  std::string why;
  const double start = cpu_seconds_of(CLOCK_THREAD_CPUTIME_ID);
  const auto reader = TraceReader::open(path, &why);
  if (reader == nullptr) {
    std::fprintf(stderr, "record_cost: %s\n", why.c_str());
    std::exit(1);
  }
  std::uint64_t count = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t last = 0;
  const auto cursor = reader->events();
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    count += batch.size();
    for (const TraceEvent& event : batch) {
      out_of_order += event.event.time_ns < last ? 1 : 0;
      last = event.event.time_ns;
    }
  }
  const double elapsed = cpu_seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  if (count != expected || out_of_order != 0 || !reader->coverage().is_whole()) {
    std::fprintf(stderr, "record_cost: %llu events of %llu came back, %llu out of order\n",
                 static_cast<unsigned long long>(count), static_cast<unsigned long long>(expected),
                 static_cast<unsigned long long>(out_of_order));
    std::exit(1);
  }
  return static_cast<double>(count) / elapsed;
}

int run(const Arguments& arguments) {
  const fs::path folder =
      fs::temp_directory_path() / ("levee_record_cost." + std::to_string(::getpid()));
  fs::create_directories(folder);
  Costs costs;
  {
    TraceRecorder::Options options;
    options.path = (folder / "cost.levee").string();
    options.cap = 64_MiB;
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    costs = measure_costs(*recorder, *recorder, lane, arguments.bursts);
    recorder->finish();
    if (recorder->totals().events_lost != 0) {
      std::fprintf(stderr, "record_cost: the bursts were too long, %llu events were lost\n",
                   static_cast<unsigned long long>(recorder->totals().events_lost));
      return 1;
    }
  }
  const std::string path = (folder / "rate.levee").string();
  const Throughput rate = measure_rate(arguments, path);
  const double read_rate = check_and_time_reading(path, rate.emitted - rate.lost);
  fs::remove_all(folder);

  const bool has_ticks = ticks_are_usable();
  const double ratio_clock = costs.record_ns / costs.bare_clock_ns;
  const double ratio_ticks = costs.record_ns / costs.bare_ticks_ns;
  std::printf("one event            record %.1f ns, clock read + emit %.1f ns\n", costs.record_ns,
              costs.emit_ns);
  std::printf("bare loop            Clock::now + 32 B %.1f ns, counter + 32 B %.1f ns%s\n",
              costs.bare_clock_ns, costs.bare_ticks_ns,
              has_ticks ? "" : " (counter not trusted here, not used)");
  std::printf("record / bare        %.2f of the clock loop, %.2f of the counter loop\n",
              ratio_clock, ratio_ticks);
  std::printf("rate                 %.0f events/s for %.1f s from %u threads, %llu lost\n",
              rate.events_per_second, arguments.seconds, arguments.threads,
              static_cast<unsigned long long>(rate.lost));
  std::printf("writer               %.0f ns of CPU an event\n", rate.writer_ns);
  std::printf("on disk              %.2f bytes an event\n", rate.bytes_per_event);
  std::printf("reading              %.1f million events/s, checked\n", read_rate * 1e-6);
  if (!arguments.json.empty()) {
    std::FILE* out = std::fopen(arguments.json.c_str(), "w");
    if (out == nullptr) {
      std::fprintf(stderr, "record_cost: %s cannot be written: %s\n", arguments.json.c_str(),
                   std::strerror(errno));
      return 2;
    }
    std::fprintf(out,
                 "{\"record_ns\": %.2f, \"emit_ns\": %.2f, \"bare_clock_ns\": %.2f, "
                 "\"bare_ticks_ns\": %.2f, "
                 "\"ratio_clock\": %.3f, \"ratio_ticks\": %.3f, \"uses_counter\": %s, "
                 "\"events_per_second\": %.0f, "
                 "\"seconds\": %.1f, "
                 "\"lost\": %llu, \"writer_ns\": %.1f, \"bytes_per_event\": %.3f, "
                 "\"read_events_per_second\": %.0f}\n",
                 costs.record_ns, costs.emit_ns, costs.bare_clock_ns, costs.bare_ticks_ns,
                 ratio_clock, ratio_ticks, has_ticks ? "true" : "false", rate.events_per_second,
                 arguments.seconds, static_cast<unsigned long long>(rate.lost), rate.writer_ns,
                 rate.bytes_per_event, read_rate);
    std::fclose(out);
  }
  return rate.lost == 0 ? 0 : 1;
}

}  // namespace
}  // namespace levee::record

int main(int argc, char** argv) {
  levee::record::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 < argc) return argv[++i];
      std::fprintf(stderr, "record_cost: %s needs a value\n", argument.c_str());
      std::exit(2);
    };
    if (argument == "--smoke") {
      arguments.seconds = 0.3;
      arguments.bursts = 3;
    } else if (argument == "--seconds") {
      arguments.seconds = std::atof(value().c_str());
    } else if (argument == "--rate") {
      arguments.rate = std::atof(value().c_str());
    } else if (argument == "--threads") {
      arguments.threads = std::max(1U, static_cast<unsigned>(std::atoi(value().c_str())));
    } else if (argument == "--json") {
      arguments.json = value();
    } else {
      std::fprintf(
          stderr,
          "record_cost: unknown option %s; usage: record_cost [--smoke] [--seconds N] [--rate N] "
          "[--threads N] [--json FILE]\n",
          argument.c_str());
      return 2;
    }
  }
  return levee::record::run(arguments);
}
