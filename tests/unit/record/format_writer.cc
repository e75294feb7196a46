// Writes traces, and beside each what the reader says of it as text, for format_test.py to compare
// with its own reading.
#include <fcntl.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "allocator/record/trace_reader.h"
#include "allocator/record/trace_writer.h"
#include "tests/unit/record/event_programs.h"

namespace levee::record {
namespace {

namespace fs = std::filesystem;

std::string repr_of(std::string_view text) {  // as Python's repr, for the texts used here
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out + "'";
}

class Writer {
 public:
  Writer(const fs::path& path, Bytes cap) {
    TraceHeader header;
    header.levee_version = "0.1.0";
    header.pid = 4711;
    header.rank = 2;
    header.local_rank = 1;
    header.world_size = 8;
    header.launch = "TORCHELASTIC_RUN_ID=a=b MASTER_PORT=29500";
    header.start = Nanos{1'000'000'000};
    header.start_unix_ns = 1'700'000'000'123'456'789;
    header.clock = "monotonic";
    header.host = "host";
    header.program = "python train.py a\\b\nc";
    header.config = "one=1\ntwo=2";
    header.cap = cap;
    std::string why;
    writer_ =
        TraceWriter::start(::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600), header, &why);
    if (writer_ == nullptr) {
      std::cerr << why << "\n";
      std::exit(1);
    }
    define(TraceLane{LaneId{1}, DeviceId{0}, StreamId{0}, false});
    define(TraceLane{LaneId{2}, DeviceId{1}, StreamId{0xFFFFFFFFFFFFFFFF}, true});
    define(TraceThread{0, 17, "python"});
    define(TraceThread{1, 18, "pt_autograd_0"});
    define(TracePool{1, PoolId{0, 7}});
    define(TraceDevice{DeviceId{0}, "NVIDIA H100", 80_GiB});
    define(TraceContext{ContextId{1}, ContextKind::kPhase, "forward"});
    define(TraceContext{ContextId{2}, ContextKind::kStack, "train.py:1 step\ntrain.py:9 main"});
    define(TraceContext{ContextId{3}, ContextKind::kKernel, "gemm<float>"});
  }
  TraceWriter* operator->() { return writer_.get(); }

 private:
  template <typename T>
  void define(const T& what) {
    ByteWriter bytes;
    put_definition(what, bytes);
    entries_.emplace_back(bytes.bytes().begin(), bytes.bytes().end());
    writer_->define(entries_.back());
  }
  std::deque<std::vector<std::uint8_t>> entries_;
  std::unique_ptr<TraceWriter> writer_;
};

std::vector<std::string> definitions(const TraceReader& reader) {
  std::vector<std::string> lines;
  const auto n = [](auto number) { return " " + std::to_string(number); };
  for (const auto& context : reader.contexts()) {
    if (context.id.value == 0) continue;
    lines.push_back("context" + n(context.id.value) + n(static_cast<unsigned>(context.kind)) + " " +
                    repr_of(context.text));
  }
  for (const auto& lane : reader.lanes()) {
    if (lane.id.value == 0) continue;
    lines.push_back("lane" + n(lane.id.value) + n(lane.device.value) + n(lane.stream.value) +
                    n(lane.is_other_streams ? 1 : 0));
  }
  for (const auto& thread : reader.threads()) {
    lines.push_back("thread" + n(thread.index) + n(thread.os_id) + " " + repr_of(thread.name));
  }
  for (const auto& pool : reader.pools()) {
    if (pool.index == 0) continue;
    lines.push_back("pool" + n(pool.index) + n(pool.pool.first) + n(pool.pool.second));
  }
  for (const auto& device : reader.devices()) {
    lines.push_back("device" + n(device.device.value) + n(device.total_memory.value) + " " +
                    repr_of(device.name));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

void write_keyframe(const TraceReader& reader, std::size_t chapter, std::uint64_t number,
                    std::uint64_t events_before, std::uint64_t lost_before, std::ostream& out) {
  const TraceState state = reader.chapter_state(chapter);
  out << "keyframe " << number << " " << events_before << " " << lost_before << " "
      << state.time.value << " " << state.step << "\n";
  for (const DeviceCounters& device : state.devices) {
    out << "counters " << device.device.value << " " << device.reserved.value << " "
        << device.allocated.value << " " << device.active.value << " " << device.requested.value
        << " " << device.limit.value << " " << device.is_exact << "\n";
  }
  for (const OpenPhase& phase : state.phases) {
    out << "phase " << phase.thread << " " << phase.context.value << " " << phase.since.value
        << "\n";
  }
  out << "complete " << state.live_is_complete << "\n";
  for (const LiveBlock& block : state.live) {
    out << "live " << block.addr.value << " " << block.requested_bytes.value << " "
        << block.bytes.value << " " << block.lane.value << " " << block.pool << " "
        << block.context.value << " " << block.allocated_at.value << " "
        << (block.has_uses ? 1 : 0) + (block.is_waiting ? 2 : 0) << "\n";
  }
}

std::uint64_t lost_in(const TraceReader& reader, const EventQuery& query) {
  std::uint64_t lost = 0;
  const auto cursor = reader.events(query);
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    for (const TraceEvent& event : batch) {
      if (event.event.kind() == EventKind::kLost) lost += event.event.a;
    }
  }
  return lost;
}
std::uint64_t count_in(const TraceReader& reader, const EventQuery& query) {
  std::uint64_t count = 0;
  const auto cursor = reader.events(query);
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) count += batch.size();
  return count;
}

void describe(const fs::path& path) {
  std::string why;
  const auto reader = TraceReader::open(path, &why);
  if (reader == nullptr) {
    std::cerr << why << "\n";
    std::exit(1);
  }
  std::ofstream out(fs::path(path).replace_extension(".txt"));
  const TraceHeader& header = reader->header();
  out << "head cap_bytes '" << header.cap.value << "'\nhead clock '" << header.clock
      << "'\nhead config " << repr_of(header.config) << "\nhead host '" << header.host
      << "'\nhead launch " << repr_of(header.launch) << "\nhead levee '" << header.levee_version
      << "'\nhead local_rank '" << header.local_rank << "'\nhead pid '" << header.pid
      << "'\nhead program " << repr_of(header.program) << "\nhead rank '" << header.rank
      << "'\nhead start_ns '" << header.start.value << "'\nhead start_unix_ns '"
      << header.start_unix_ns << "'\nhead world_size '" << header.world_size << "'\n";
  for (const std::string& line : definitions(*reader)) out << line << "\n";
  const Coverage& coverage = reader->coverage();
  // Chapters are numbered from the first one ever written: those that were dropped are missing at
  // the front.
  const std::uint64_t all = coverage.dropped_events + coverage.events;
  std::uint64_t first_number = 0;
  if (coverage.dropped_events != 0) {
    std::ifstream in(path, std::ios::binary);
    std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    first_number = UINT64_MAX;
    std::uint64_t slot_bytes = 0;
    std::memcpy(&slot_bytes, bytes.data() + 16, 8);
    for (std::size_t at = 4096; at + 80 < bytes.size(); at += slot_bytes) {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data() + at + 8, 8);
      first_number = std::min(first_number, number);
    }
  }
  for (std::size_t chapter = 0; chapter < reader->chapter_count(); ++chapter) {
    EventQuery from_here;
    from_here.first_chapter = chapter;
    const std::uint64_t later = count_in(*reader, from_here);
    const std::uint64_t lost_later = lost_in(*reader, from_here);
    write_keyframe(*reader, chapter, first_number + chapter, all - later,
                   coverage.lost_events - lost_later, out);
  }
  const auto cursor = reader->events();
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    for (const TraceEvent& each : batch) {
      const Event& event = each.event;
      out << "event " << static_cast<unsigned>(event.kind()) << " " << each.thread << " "
          << each.sequence << " " << static_cast<std::int64_t>(event.time_ns) << " "
          << event.lane.value << " " << event.aux << " " << event.context().value << " " << event.a
          << " " << event.b << "\n";
    }
  }
  if (coverage.ending != TraceEnding::kCut) {
    out << "end " << static_cast<unsigned>(coverage.ending) << " " << repr_of(coverage.stop_reason)
        << " " << all << " " << coverage.lost_events << "\n";
  }
}

}  // namespace
}  // namespace levee::record

int main(int argc, char** argv) {
  using namespace levee;
  using namespace levee::record;
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  {
    Writer writer(folder / "plain.levee", 0_B);
    test::EventProgram program(1, {.threads = 2});
    for (int i = 0; i < 20'000; ++i) writer->append(program.next());
    writer->finish(TraceEnding::kComplete, "");
  }
  {
    Writer writer(folder / "late.levee", 0_B);
    test::EventProgram program(2, {.threads = 3, .late_driver_calls = true});
    for (int i = 0; i < 5'000; ++i) {
      writer->append(program.next());
      if (i % 97 == 0) writer->flush();
    }
    for (std::int64_t i = 0; i < 1000; ++i) {
      writer->append_activity(
          make_event(EventKind::kKernel, Nanos{1'000'000'000 + i * 7001}, LaneId{1}, 500,
                     static_cast<std::uint64_t>(i * i), 0, ContextId{3}),
          9);
      writer->append_activity(
          make_event(EventKind::kMemset, Nanos{1'000'003'000 + i * 7001}, LaneId{1}, 500, 4096), 9);
    }
    writer->finish(TraceEnding::kStopped, "the disk is full");
  }
  {
    Writer writer(folder / "cut.levee", 0_B);
    test::EventProgram program(3);
    for (int i = 0; i < 1'000; ++i) writer->append(program.next());
    writer->flush();
  }
  {
    Writer writer(folder / "ring.levee", 1_MiB);
    test::EventProgram program(4, {.threads = 2});
    for (int i = 0; i < 300'000; ++i) writer->append(program.next());
    writer->finish(TraceEnding::kComplete, "");
  }
  for (const char* name : {"plain.levee", "late.levee", "cut.levee", "ring.levee"})
    describe(folder / name);
  return 0;
}
