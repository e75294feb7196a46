// Writes recordings for the tests of views and reports: a made-up training run, the same bytes
// every time.
//
//   make_trace storms OUT
//       40 steps with growth, two storms, an out-of-memory, phases and kernels
//   make_trace calm OUT
//       40 steps that fit, silent after warm-up
//   make_trace hooked OUT
//       as calm, with marks where steps end, as an optimizer's hook makes them
//   make_trace rank OUT N
//       rank N of 4; rank 2 has storms. N from 10 on: rank N % 10 of launch N / 10
//   make_trace cut OUT
//       as storms, without an end: the process was killed
//   make_trace big OUT EVENTS
//       that many allocations and frees, some storms and kernels
//   make_trace pauses OUT
//       short bursts of allocations, frees and driver calls with long idle times between them
//   make_trace split OUT
//       half-full pages, and a request that is refused for that
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "allocator/record/trace_writer.h"

namespace levee::test {
namespace {

constexpr std::int64_t kStart = 5'000'000'000;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// A trace file that is written event by event.
class TraceFileWriter {
 public:
  /// Launch 0 is as older recordings are: it has no name.
  TraceFileWriter(const char* path, std::int32_t rank, std::int32_t launch) {
    record::TraceHeader header;
    header.format_version = 1;
    header.levee_version = "0.1.0";
    header.pid = 4711 + static_cast<std::uint32_t>(rank < 0 ? 0 : rank);
    header.rank = rank;
    header.world_size = rank < 0 ? -1 : 4;
    header.start = Nanos{kStart};
    header.start_unix_ns = 1'780'000'000'000'000'000 + launch * std::int64_t{60'000'000'000};
    if (launch > 0) header.launch = "MASTER_PORT=" + std::to_string(29500 + launch);
    header.clock = "modelled";
    header.host = "node-1";
    header.program = "python train.py --model gpt-medium --batch 8";
    const int file = ::open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
    std::string why = "it cannot be created";
    if (file >= 0) writer_ = record::TraceWriter::start(file, header, &why);
    if (writer_ == nullptr) {
      std::fprintf(stderr, "make_trace: %s: %s\n", path, why.c_str());
      std::exit(1);
    }
    define(record::TraceDevice{DeviceId{0}, "Simulated GPU 24 GiB", Bytes{24 * kGiB}});
    define(record::TraceLane{LaneId{1}, DeviceId{0}, StreamId{0}, false});
    define(record::TraceLane{LaneId{2}, DeviceId{0}, StreamId{0x5500'0040}, false});
    define(record::TraceThread{0, 4711, "main"});
    define(record::TraceThread{1, 4712, "backward"});
  }

  template <typename T>
  void define(const T& what) {
    record::ByteWriter out;
    record::put_definition(what, out);
    entries_.emplace_back(out.bytes().begin(), out.bytes().end());
    writer_->define(entries_.back());
  }
  ContextId name(const std::string& text, record::ContextKind kind) {
    const ContextId id{++names_};
    texts_.push_back(text);
    define(record::TraceContext{id, kind, texts_.back()});
    return id;
  }

  void emit(EventKind kind, std::uint64_t a, std::uint64_t b, std::uint16_t aux = 0,
            ContextId context = {}, std::uint32_t thread = 0) {
    const Event event = make_event(kind, Nanos{now}, LaneId{1}, a, b, aux, context);
    writer_->append({event, sequence_[thread]++, now, thread});
    // As the recorder does: a block of events leaves the process while it still runs.
    if (writer_->staged() > 50'000) writer_->flush();
  }
  void kernel(std::int64_t begin, std::int64_t duration, ContextId kernel_name,
              std::uint16_t lane = 1) {
    writer_->append_activity(
        make_event(EventKind::kKernel, Nanos{begin}, LaneId{lane},
                   static_cast<std::uint64_t>(duration), ++correlation_, 0, kernel_name),
        1);
  }
  void driver(DriverCall call, std::int64_t duration, std::uint64_t bytes) {
    emit(EventKind::kDriverCall, static_cast<std::uint64_t>(duration), bytes,
         static_cast<std::uint16_t>(call));
    now += duration;
  }
  void finish(bool with_end) {
    const bool ok =
        with_end ? writer_->finish(record::TraceEnding::kComplete, "") : writer_->flush();
    if (!ok) {
      std::fprintf(stderr, "make_trace: %s\n", writer_->error().c_str());
      std::exit(1);
    }
  }

  std::int64_t now = kStart;

 private:
  std::unique_ptr<record::TraceWriter> writer_;
  std::deque<std::vector<std::uint8_t>> entries_;
  std::deque<std::string> texts_;
  std::uint32_t names_ = 0;
  std::uint64_t sequence_[2] = {};
  std::uint64_t correlation_ = 0;
};

struct Shape {
  int steps = 40;
  std::uint64_t capacity = 22 * kGiB;  ///< above this the ladder is entered
  std::uint64_t slack = 700 * kMiB;    ///< in pieces that no request fits
  double median_mib = 74;
  bool kernels = true;
  bool marks_end = false;  ///< steps are marked where they end, not where they begin
};

/// Training on batches of changing length: what is allocated follows the length, what is reserved
/// follows the maximum.
class TrainingRun {
 public:
  TrainingRun(TraceFileWriter& out, const Shape& shape) : out_(out), shape_(shape) {
    using record::ContextKind;
    train_ = out_.name("train step", ContextKind::kPhase);
    forward_ = out_.name("forward", ContextKind::kPhase);
    backward_ = out_.name("backward", ContextKind::kPhase);
    optimizer_ = out_.name("optimizer", ContextKind::kPhase);
    gemm_ = out_.name("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
                      ContextKind::kKernel);
    softmax_ = out_.name("softmax_warp_forward", ContextKind::kKernel);
    norm_ = out_.name("vectorized_layer_norm_kernel", ContextKind::kKernel);
    copy_ = out_.name("nccl_all_reduce", ContextKind::kKernel);
    attention_ = out_.name(
        "model.py:118 attention\nmodel.py:171 forward\ntrain.py:40 step\ntrain.py:88 main",
        ContextKind::kStack);
    weights_ =
        out_.name("model.py:30 __init__\ntrain.py:61 build\ntrain.py:80 main", ContextKind::kStack);
  }

  void run() {
    for (int i = 0; i < 48; ++i) {
      alloc((std::uint64_t{40} + static_cast<std::uint64_t>(i % 3) * 24) * kMiB, weights_);
      out_.now += 300'000;
    }
    weight_blocks_ = live_.size();
    for (int step = 0; step < shape_.steps; ++step) one_step(step);
    while (!live_.empty()) free_last();
  }

 private:
  struct Live {
    std::uint64_t addr;
    std::uint64_t bytes;
  };

  void grow(std::uint64_t target, ContextId stack) {
    const auto missing = [&] { return (target - reserved_ + 2 * kMiB - 1) / (2 * kMiB); };
    // Two steps of the run ask for more than there is; what they find is other processes' memory,
    // given back in time.
    if (reserved_ + missing() * 2 * kMiB > shape_.capacity) {
      emergency(missing() * 2 * kMiB, stack);
      shape_.capacity = std::max(shape_.capacity, target + 400 * kMiB);
    }
    const std::uint64_t pages = missing();
    for (std::uint64_t done = 0; done < pages;) {
      const std::uint64_t part = std::min<std::uint64_t>(pages - done, 64);
      out_.driver(DriverCall::kCreateHandle, 60'000 + static_cast<std::int64_t>(part) * 3'000,
                  part * 2 * kMiB);
      out_.driver(DriverCall::kMap, 12'000, part * 2 * kMiB);
      out_.driver(DriverCall::kSetAccess, 20'000, part * 2 * kMiB);
      out_.emit(EventKind::kPageCreate, 0x7000'0000'0000 + reserved_, part * 2 * kMiB,
                static_cast<std::uint16_t>(part), stack);
      reserved_ += part * 2 * kMiB;
      done += part;
    }
  }

  // The cache goes back to the device and is taken again: what levee is there to avoid.
  void emergency(std::uint64_t wanted, ContextId stack) {
    const std::int64_t begin = out_.now;
    out_.emit(EventKind::kEmergencyBegin, wanted, reserved_,
              static_cast<std::uint16_t>(EmergencyCause::kDeviceFull), stack);
    out_.now += 140'000;
    out_.emit(EventKind::kEmergencyRung, 140'000, 0,
              static_cast<std::uint16_t>(LadderRung::kOwnEvents));
    const std::int64_t rung = out_.now;
    out_.driver(DriverCall::kSynchronizeDevice, 2'400'000, 0);
    const std::uint64_t back = (reserved_ - allocated_) / (2 * kMiB) * 2 * kMiB;
    for (std::uint64_t done = 0; done < back;) {
      const std::uint64_t part = std::min<std::uint64_t>(back - done, 256 * kMiB);
      out_.driver(DriverCall::kUnmap, 180'000, part);
      out_.driver(DriverCall::kReleaseHandle, 400'000, part);
      out_.emit(EventKind::kPageRelease, 0, part, static_cast<std::uint16_t>(part / (2 * kMiB)));
      reserved_ -= part;
      done += part;
    }
    out_.emit(EventKind::kEmergencyRung, static_cast<std::uint64_t>(out_.now - rung), back,
              static_cast<std::uint16_t>(LadderRung::kCachedHandles));
    const bool served = reserved_ + wanted <= 24 * kGiB;
    out_.emit(EventKind::kEmergencyEnd, static_cast<std::uint64_t>(out_.now - begin), reserved_,
              served ? 1 : 0);
    if (!served) out_.emit(EventKind::kOutOfMemory, wanted, reserved_);
  }

  void alloc(std::uint64_t bytes, ContextId stack) {
    if (allocated_ + bytes + shape_.slack > reserved_)
      grow(allocated_ + bytes + shape_.slack, stack);
    const std::uint64_t addr = 0x7000'0000'0000 + top_;
    top_ += bytes;
    out_.emit(EventKind::kAlloc, addr, pack_sizes(Bytes{bytes - 256}, Bytes{bytes}), 0, stack);
    live_.push_back({addr, bytes});
    allocated_ += bytes;
  }
  void free_last() {
    const Live block = live_.back();
    live_.pop_back();
    top_ -= block.bytes;
    out_.emit(EventKind::kFree, block.addr,
              pack_sizes(Bytes{block.bytes - 256}, Bytes{block.bytes}));
    allocated_ -= block.bytes;
  }

  void kernels(std::int64_t until) {
    if (!shape_.kernels) return;
    while (gpu_ < until) {
      const std::int64_t duration = 30'000 + static_cast<std::int64_t>(rng_() % 380'000);
      const std::uint64_t which = rng_() % 8;
      out_.kernel(gpu_, duration, which < 5 ? gemm_ : which < 7 ? norm_ : softmax_);
      gpu_ += duration + 2'000;
    }
  }

  void one_step(int number) {
    const double factor =
        0.45 + 1.25 * static_cast<double>(rng_() % 1000) / 1000.0 * (number % 11 == 9 ? 1.32 : 0.9);
    if (!shape_.marks_end) out_.emit(EventKind::kStepMark, static_cast<std::uint64_t>(number), 0);
    out_.emit(EventKind::kPhasePush, 0, 0, 0, train_);
    out_.emit(EventKind::kPhasePush, 0, 0, 0, forward_);
    gpu_ = std::max(gpu_, out_.now);
    for (int layer = 0; layer < 120; ++layer) {
      const double mib =
          shape_.median_mib * factor * (0.6 + 0.8 * static_cast<double>(layer % 5) / 4);
      alloc(static_cast<std::uint64_t>(mib) * kMiB + 512, attention_);
      out_.now += 160'000 + static_cast<std::int64_t>(rng_() % 120'000);
      if (layer % 4 == 3) {  // a workspace that goes at once
        alloc(static_cast<std::uint64_t>(24 * factor) * kMiB + 512, attention_);
        out_.now += 40'000;
        free_last();
      }
      kernels(out_.now);
    }
    out_.emit(EventKind::kPhasePop, 0, 0, 0, forward_);
    out_.emit(EventKind::kPhasePush, 0, 0, 0, backward_);
    while (live_.size() > weight_blocks_) {
      free_last();
      out_.now += 260'000 + static_cast<std::int64_t>(rng_() % 150'000);
      kernels(out_.now);
      if (shape_.kernels && live_.size() % 24 == 0) {
        out_.kernel(out_.now, 1'700'000, copy_, 2);
      }
    }
    out_.emit(EventKind::kPhasePop, 0, 0, 0, backward_);
    out_.emit(EventKind::kPhasePush, 0, 0, 0, optimizer_);
    out_.now += 3'000'000;
    kernels(out_.now);
    out_.emit(EventKind::kPhasePop, 0, 0, 0, optimizer_);
    out_.emit(EventKind::kPhasePop, 0, 0, 0, train_);
    if (shape_.marks_end) out_.emit(EventKind::kStepMark, static_cast<std::uint64_t>(number), 1);
  }

  TraceFileWriter& out_;
  Shape shape_;
  std::mt19937_64 rng_{20'261'129};
  ContextId train_, forward_, backward_, optimizer_, gemm_, softmax_, norm_, copy_, attention_,
      weights_;
  std::vector<Live> live_;
  std::size_t weight_blocks_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t allocated_ = 0;
  std::uint64_t top_ = 0;
  std::int64_t gpu_ = kStart;
};

/// A program that mostly waits: bursts of some milliseconds, hundreds of milliseconds apart. Their
/// sizes fit no power of 8, so that pauses fall at every place within a row of a view's levels.
void bursts_and_pauses(TraceFileWriter& out) {
  constexpr std::uint64_t kPage = 256 * 1024;  // small: many driver calls
  std::mt19937_64 rng{7};
  std::uint64_t allocated = 0;
  std::uint64_t reserved = 0;
  std::uint64_t top = 0;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> live;
  const auto alloc = [&](std::uint64_t bytes) {
    while (allocated + bytes > reserved) {
      out.driver(DriverCall::kCreateHandle, 4'000, kPage);
      out.driver(DriverCall::kMap, 2'000, kPage);
      out.emit(EventKind::kPageCreate, 0x7000'0000'0000 + reserved, kPage, 1);
      reserved += kPage;
    }
    out.emit(EventKind::kAlloc, 0x7000'0000'0000 + top, pack_sizes(Bytes{bytes}, Bytes{bytes}));
    live.emplace_back(0x7000'0000'0000 + top, bytes);
    top += bytes;
    allocated += bytes;
  };
  const auto free_oldest = [&] {
    const auto [addr, bytes] = live.front();
    live.pop_front();
    out.emit(EventKind::kFree, addr, pack_sizes(Bytes{bytes}, Bytes{bytes}));
    allocated -= bytes;
  };
  for (int burst = 0; burst < 37; ++burst) {
    const std::uint64_t peak = (std::uint64_t{60} + rng() % 100 * (burst % 5 == 4 ? 40 : 4)) * kMiB;
    while (allocated < peak) {
      alloc((1 + rng() % 15) * 64 * 1024);
      out.now += 800;
      if (rng() % 3 == 0) free_oldest();
      // Now and then the program waits within a burst, for short or long, at whatever it then
      // holds.
      if (rng() % 60 == 0) out.now += std::int64_t{1000} << (rng() % 16);
    }
    const std::size_t kept = 1 + rng() % 40;
    while (live.size() > kept) {
      free_oldest();
      out.now += 1'000;
    }
    out.now += 90'000'000 + static_cast<std::int64_t>(rng() % 260'000'000);
  }
  while (!live.empty()) free_oldest();
}

/// 24 GiB, 16 of them one block and 8 in pages of which each holds a block of 1 MiB: 4 GiB are free
/// when 64 MiB are refused.
void half_full_pages(TraceFileWriter& out) {
  constexpr std::uint64_t kBase = 0x7000'0000'0000;
  constexpr std::uint64_t kPage = 2 * kMiB;
  const ContextId cache = out.name("cache", record::ContextKind::kPhase);
  out.emit(EventKind::kPageCreate, kBase, 24 * kGiB, 24 * kGiB / kPage);
  out.now += 1'000'000;
  const auto alloc = [&](std::uint64_t offset, std::uint64_t bytes) {
    out.emit(EventKind::kAlloc, kBase + offset, pack_sizes(Bytes{bytes}, Bytes{bytes}));
  };
  alloc(0, 16 * kGiB);
  out.emit(EventKind::kPhasePush, 0, 0, 0, cache);
  for (std::uint64_t at = 16 * kGiB; at < 24 * kGiB; at += kPage) alloc(at, kMiB);
  out.emit(EventKind::kPhasePop, 0, 0, 0, cache);
  out.now += 1'000'000;
  out.emit(EventKind::kEmergencyBegin, 64 * kMiB, 24 * kGiB,
           static_cast<std::uint16_t>(EmergencyCause::kDeviceFull));
  out.now += 1'000'000;
  out.emit(EventKind::kEmergencyRung, 1'000'000, 0,
           static_cast<std::uint16_t>(LadderRung::kCachedHandles));
  out.emit(EventKind::kOutOfMemory, 64 * kMiB, 24 * kGiB);
  out.emit(EventKind::kEmergencyEnd, 1'000'000, 24 * kGiB, 0);
}

int make(const std::string& kind, const char* path, const char* number) {
  Shape shape;
  std::int32_t rank = -1;
  std::int32_t launch = 0;
  if (kind == "calm" || kind == "hooked") {
    shape.capacity = 24 * kGiB;
    shape.slack = 0;
    shape.marks_end = kind == "hooked";
  }
  if (kind == "storms" || kind == "cut") shape.capacity = 17 * kGiB + 500 * kMiB;
  if (kind == "rank") {
    rank = std::atoi(number) % 10;
    launch = std::atoi(number) / 10;
    shape.steps = 25;
    shape.kernels = false;
    shape.capacity = rank == 2 ? 17 * kGiB + 500 * kMiB : 24 * kGiB;
  }
  if (kind == "big") {
    // A step has 300 allocations and as many frees.
    shape.steps = static_cast<int>(std::atoll(number) / 300);
    shape.capacity = 20 * kGiB;
    shape.kernels = false;
  }
  TraceFileWriter out(path, rank, launch);
  if (kind == "pauses") {
    bursts_and_pauses(out);
  } else if (kind == "split") {
    half_full_pages(out);
  } else {
    TrainingRun(out, shape).run();
  }
  out.finish(kind != "cut");
  return 0;
}

}  // namespace
}  // namespace levee::test

int main(int count, char** arguments) {
  const std::string kind = count > 1 ? arguments[1] : "";
  const bool takes_number = kind == "rank" || kind == "big";
  const bool is_known = takes_number || kind == "storms" || kind == "calm" || kind == "cut" ||
                        kind == "pauses" || kind == "hooked" || kind == "split";
  if (!is_known || count != (takes_number ? 4 : 3)) {
    std::fprintf(stderr,
                 "usage: make_trace storms|calm|hooked|cut|pauses|split OUT, or rank|big OUT "
                 "NUMBER\n");
    return 2;
  }
  return levee::test::make(kind, arguments[2], takes_number ? arguments[3] : "0");
}
