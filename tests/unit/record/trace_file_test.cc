// The file as a whole: what TraceWriter writes, TraceReader reads.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "allocator/record/trace_reader.h"
#include "allocator/record/trace_writer.h"
#include "tests/unit/record/event_programs.h"

namespace levee::record {
namespace {

using test::EventProgram;
using test::same;
using test::Shape;

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    path = (std::filesystem::temp_directory_path() /
            ("levee_trace_file_test." + std::to_string(::getpid()) + "." +
             ::testing::UnitTest::GetInstance()->current_test_info()->name()))
               .string();
    header.levee_version = "0.1.0";
    header.pid = 17;
    header.rank = 3;
    header.start = Nanos{1'000'000'000};
    header.start_unix_ns = 1'700'000'000'000'000'000;
    header.clock = "monotonic";
    header.host = "a-host";
    header.program = "python train.py\nwith a \\ and a line";
    header.config = "stitch=alias\npage_size=2097152";
  }
  ~TraceFileTest() override { std::filesystem::remove(path); }

  std::unique_ptr<TraceWriter> write(Bytes cap = {}) {
    header.cap = cap;
    const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    std::string why;
    auto writer = TraceWriter::start(file, header, &why);
    EXPECT_NE(writer, nullptr) << why;
    return writer;
  }

  template <typename T>
  void define(TraceWriter& writer, const T& what) {
    ByteWriter out;
    put_definition(what, out);
    entries.emplace_back(out.bytes().begin(), out.bytes().end());
    writer.define(entries.back());
  }
  void define_usual(TraceWriter& writer) {
    define(writer, TraceLane{LaneId{1}, DeviceId{0}, StreamId{0}, false});
    define(writer, TraceLane{LaneId{2}, DeviceId{1}, StreamId{0x1234}, true});
    define(writer, TraceThread{0, 4711, "python"});
    define(writer, TracePool{1, PoolId{0, 9}});
    define(writer, TraceDevice{DeviceId{0}, "a GPU", 24_GiB});
    for (std::uint32_t i = 1; i <= 3; ++i) {
      define(writer, TraceContext{ContextId{i}, ContextKind::kPhase, "forward"});
    }
  }

  std::unique_ptr<TraceReader> read() {
    std::string why;
    auto reader = TraceReader::open(path, &why);
    EXPECT_NE(reader, nullptr) << why;
    return reader;
  }

  static std::vector<TraceEvent> all(const TraceReader& reader, const EventQuery& query = {}) {
    std::vector<TraceEvent> events;
    const auto cursor = reader.events(query);
    for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
      events.insert(events.end(), batch.begin(), batch.end());
    }
    return events;
  }

  std::vector<std::uint8_t> bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::unique_ptr<TraceReader> read_bytes(const std::vector<std::uint8_t>& data) {
    std::string why;
    return TraceReader::from_bytes(std::as_bytes(std::span(data)), "bytes", &why);
  }

  std::string path;
  TraceHeader header;
  std::deque<std::vector<std::uint8_t>> entries;
};

TEST_F(TraceFileTest, WhatIsWrittenIsRead) {
  EventProgram program(1, Shape{.threads = 3});
  const auto events = program.take(100'000);
  {
    auto writer = write();
    define_usual(*writer);
    for (const StagedEvent& event : events) writer->append(event);
    ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  }
  const auto reader = read();
  EXPECT_EQ(reader->header().program, header.program);
  EXPECT_EQ(reader->header().config, header.config);
  EXPECT_EQ(reader->header().host, "a-host");
  EXPECT_EQ(reader->header().pid, 17U);
  EXPECT_EQ(reader->header().rank, 3);
  EXPECT_EQ(reader->header().unix_ns(Nanos{1'000'000'005}), 1'700'000'000'000'000'005);
  EXPECT_EQ(reader->coverage().ending, TraceEnding::kComplete);
  EXPECT_EQ(reader->coverage().events, events.size());
  EXPECT_EQ(reader->lane(LaneId{2}).stream, StreamId{0x1234});
  EXPECT_TRUE(reader->lane(LaneId{2}).is_other_streams);
  EXPECT_EQ(reader->lane(LaneId{99}).device, DeviceId{0}) << "a placeholder";
  EXPECT_EQ(reader->pool(1).pool, (PoolId{0, 9}));
  EXPECT_EQ(reader->threads().at(0).name, "python");
  EXPECT_EQ(reader->devices().at(0).name, "a GPU");
  EXPECT_EQ(reader->devices().at(0).total_memory, 24_GiB);
  EXPECT_EQ(reader->context(ContextId{3}).text, "forward");
  EXPECT_EQ(reader->context(ContextId{3}).kind, ContextKind::kPhase);
  EXPECT_EQ(reader->context(ContextId{4000}).text, "");

  const auto back = all(*reader);
  ASSERT_EQ(back.size(), events.size());
  std::uint64_t lost = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_TRUE(same(back[i].event, events[i].event)) << i;
    ASSERT_EQ(back[i].sequence, events[i].sequence) << i;
    ASSERT_EQ(back[i].thread, events[i].thread) << i;
    if (events[i].event.kind() == EventKind::kLost) lost += events[i].event.a;
  }
  EXPECT_EQ(reader->coverage().lost_events, lost);
}

TEST_F(TraceFileTest, AnEventStreamCostsFewBytes) {
  EventProgram program(1, Shape{.other_kinds = false});
  {
    auto writer = write();
    define_usual(*writer);
    for (int i = 0; i < 100'000; ++i) writer->append(program.next());
    ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  }
  // Random sizes at random addresses are the hardest case; real steps need half of it
  // (allocator/record/README.md).
  EXPECT_LE(std::filesystem::file_size(path), 8U * 100'000U);
}

TEST_F(TraceFileTest, BlocksThatOverlapComeOutInOrderOfTime) {
  // Kernels told late, in two batches that overlap each other and the allocations.
  auto writer = write();
  define_usual(*writer);
  std::uint64_t sequence = 0;
  for (std::int64_t time = 1000; time < 5000; time += 10) {
    writer->append({make_event(EventKind::kNote, Nanos{time}, {}, 0, 0), sequence++, time, 0});
    if (time % 1000 == 0) writer->flush();
  }
  for (const std::int64_t start : {std::int64_t{2005}, std::int64_t{1015}}) {
    for (std::int64_t time = start; time < start + 2000; time += 20) {
      writer->append_activity(make_event(EventKind::kKernel, Nanos{time}, LaneId{1}, 5, 77), 1);
    }
    writer->flush();
  }
  // An event whose thread was held up between stamp and store.
  writer->append({make_event(EventKind::kNote, Nanos{1234}, {}, 0, 0), 0, 1234, 5});
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));

  const auto events = all(*read());
  EXPECT_EQ(events.size(), 400U + 200U + 1U);
  EXPECT_TRUE(std::is_sorted(
      events.begin(), events.end(),
      [](const TraceEvent& a, const TraceEvent& b) { return a.event.time_ns < b.event.time_ns; }));
  EXPECT_EQ(read()->coverage().activity_events, 200U);
}

TEST_F(TraceFileTest, EventsOfOneThreadKeepTheirOrderWhenTheyAreWrittenLate) {
  // Thread 1 was put aside: its events are written among later ones of thread 0, some of them in a
  // later block.
  auto writer = write();
  define_usual(*writer);
  const auto note = [&](std::int64_t time, std::uint64_t sequence, std::uint32_t thread) {
    writer->append({make_event(EventKind::kNote, Nanos{time}, {}, 0, 0), sequence, time, thread});
  };
  note(90, 0, 0);
  note(100, 1, 0);
  note(50, 0, 1);
  note(110, 2, 0);
  writer->flush();
  note(60, 1, 1);
  note(120, 3, 0);
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  std::vector<std::uint64_t> times;
  for (const TraceEvent& event : all(*read())) times.push_back(event.event.time_ns);
  EXPECT_EQ(times, (std::vector<std::uint64_t>{50, 60, 90, 100, 110, 120}));
}

TEST_F(TraceFileTest, EventsOfOneThreadKeepTheirOrderWhenTimesGoBack) {
  EventProgram program(5, Shape{.threads = 4, .late_driver_calls = true});
  auto writer = write();
  define_usual(*writer);
  for (int i = 0; i < 20'000; ++i) {
    writer->append(program.next());
    if (i % 501 == 0) writer->flush();
  }
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  std::map<std::uint32_t, std::uint64_t> next;
  for (const TraceEvent& event : all(*read())) {
    ASSERT_GE(event.sequence, next[event.thread]);
    next[event.thread] = event.sequence + 1;
  }
}

TEST_F(TraceFileTest, AQueryByKindAndTimeGivesTheSameAsAFilter) {
  EventProgram program(2, Shape{.threads = 2});
  const auto events = program.take(60'000);
  auto writer = write();
  define_usual(*writer);
  for (const StagedEvent& event : events) writer->append(event);
  writer.reset();
  const auto from = static_cast<std::int64_t>(events[20'000].event.time_ns);
  const auto to = static_cast<std::int64_t>(events[40'000].event.time_ns);
  const KindSet kinds = KindSet::none().with(EventKind::kStepMark).with(EventKind::kPageCreate);
  std::size_t expected = 0;
  for (const StagedEvent& event : events) {
    const auto time = static_cast<std::int64_t>(event.event.time_ns);
    if (kinds.has(event.event.kind()) && time >= from && time < to &&
        &event - events.data() < 49152)
      ++expected;
  }
  EXPECT_EQ(all(*read(), {kinds, Nanos{from}, Nanos{to}}).size(), expected);
  EXPECT_GT(expected, 100U);
}

TEST_F(TraceFileTest, AFileCutAnywhereIsReadableUpToTheLastCompleteBlock) {
  EventProgram program(4, Shape{.threads = 2});
  std::vector<std::pair<std::uint64_t, std::size_t>> flushed;  // bytes of the file, events in it
  {
    auto writer = write();
    define_usual(*writer);
    for (int i = 0; i < 6000; ++i) {
      writer->append(program.next());
      if (i % 333 == 332) {
        writer->flush();
        flushed.emplace_back(std::filesystem::file_size(path), static_cast<std::size_t>(i + 1));
      }
    }
    writer->flush();
    flushed.emplace_back(std::filesystem::file_size(path), std::size_t{6000});
    ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  }
  const auto whole = bytes();
  for (std::size_t length = 0; length < whole.size(); length += 1 + length % 97) {
    const std::vector<std::uint8_t> part(whole.begin(),
                                         whole.begin() + static_cast<std::ptrdiff_t>(length));
    const auto reader = read_bytes(part);
    if (length < 4096) {
      // The head's text is shorter than its room, so that its last bytes may miss.
      if (reader != nullptr) {
        EXPECT_EQ(reader->coverage().events, 0U);
      }
      continue;
    }
    ASSERT_NE(reader, nullptr) << length;
    std::size_t expected = 0;
    for (const auto& [size, events] : flushed) {
      if (size <= length) expected = events;
    }
    ASSERT_EQ(reader->coverage().events, expected) << "cut at " << length;
    ASSERT_EQ(reader->coverage().ending, TraceEnding::kCut);
    ASSERT_EQ(reader->coverage().damaged_blocks, 0U);
    ASSERT_EQ(all(*reader).size(), expected);
  }
}

TEST_F(TraceFileTest, DamageCostsTheBlocksItLiesIn) {
  EventProgram program(6);
  {
    auto writer = write();
    define_usual(*writer);
    for (int i = 0; i < 10'000; ++i) {
      writer->append(program.next());
      if (i % 500 == 499) writer->flush();
    }
    ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  }
  auto data = bytes();
  for (std::size_t at = 4096 + 1000; at < data.size(); at += 997) {
    data[at] ^= 0x40;
    const auto reader = read_bytes(data);
    ASSERT_NE(reader, nullptr);
    EXPECT_LE(reader->coverage().damaged_blocks, 1U);
    EXPECT_GE(reader->coverage().events, 9500U);
    EXPECT_EQ(all(*reader).size(), reader->coverage().events);
    data[at] ^= 0x40;
  }
}

TEST_F(TraceFileTest, WithACapTheFileStaysSmallAndSaysWhatItDropped) {
  EventProgram program(8, Shape{.threads = 2});
  const Bytes cap = 2_MiB;
  StateTracker naive;
  naive.set_lane_device(LaneId{1}, DeviceId{0});
  naive.set_lane_device(LaneId{2}, DeviceId{1});
  std::vector<StagedEvent> events;
  auto writer = write(cap);
  define_usual(*writer);
  define(*writer, TraceContext{ContextId{4}, ContextKind::kStack, std::string(30'000, 'x')});
  std::uint64_t checked = 0;
  for (int i = 0; i < 1'500'000; ++i) {
    events.push_back(program.next());
    writer->append(events.back());
    if (i % 200'000 != 199'999) continue;
    // Readable while it is being written.
    ASSERT_TRUE(writer->flush());
    ASSERT_LE(std::filesystem::file_size(path), cap.value);
    const auto reader = read();
    const Coverage& coverage = reader->coverage();
    ASSERT_EQ(coverage.dropped_events + coverage.events, events.size());
    ASSERT_EQ(coverage.damaged_blocks, 0U);
    ASSERT_EQ(reader->context(ContextId{4}).text.size(), 30'000U) << "texts outlive their chapter";
    ASSERT_EQ(reader->lane(LaneId{2}).stream, StreamId{0x1234});
    const auto held = all(*reader);
    ASSERT_EQ(held.size(), coverage.events);
    ASSERT_TRUE(same(held.front().event, events[coverage.dropped_events].event));

    // The keyframe of each chapter is the sum of all events before it.
    StateTracker folded(reader->chapter_state(0));
    folded.set_lane_device(LaneId{1}, DeviceId{0});
    folded.set_lane_device(LaneId{2}, DeviceId{1});
    for (; checked < coverage.dropped_events; ++checked)
      naive.apply(events[checked].event, events[checked].thread);
    StateTracker at_start = naive;
    ASSERT_TRUE(reader->chapter_state(0).live == naive.snapshot({}).live);
    for (std::size_t d = 0; d < 2; ++d) {
      const auto& devices = reader->chapter_state(0).devices;
      EXPECT_TRUE(devices.at(d) == at_start.devices()[d]);
    }
    EXPECT_EQ(reader->chapter_state(0).step, at_start.step());
  }
  EXPECT_GT(read()->coverage().dropped_events, 500'000U);
  EXPECT_GT(read()->chapter_count(), 2U);
}

TEST_F(TraceFileTest, FoldingAChapterGivesTheKeyframeOfTheNext) {
  EventProgram program(9, Shape{.threads = 2});
  auto writer = write(3_MiB);
  define_usual(*writer);
  for (int i = 0; i < 900'000; ++i) writer->append(program.next());
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  const auto reader = read();
  ASSERT_GT(reader->chapter_count(), 5U);
  const std::size_t chapter = 3;
  StateTracker tracker(reader->chapter_state(chapter));
  for (const TraceLane& lane : reader->lanes()) {
    if (lane.id.value != 0) tracker.set_lane_device(lane.id, lane.device);
  }
  const auto from_here = all(*reader, {.kinds = {}, .first_chapter = chapter});
  const auto from_next = all(*reader, {.kinds = {}, .first_chapter = chapter + 1});
  for (std::size_t i = 0; i < from_here.size() - from_next.size(); ++i) {
    tracker.apply(from_here[i].event, from_here[i].thread);
  }
  const TraceState next = reader->chapter_state(chapter + 1);
  EXPECT_TRUE(tracker.snapshot(next.time).live == next.live);
  EXPECT_TRUE(tracker.devices() == next.devices);
  EXPECT_EQ(tracker.step(), next.step);
  EXPECT_TRUE(tracker.snapshot(next.time).phases == next.phases);
}

TEST_F(TraceFileTest, ManyTextsSurviveTheRing) {
  EventProgram program(10);
  auto writer = write(1_MiB);
  define_usual(*writer);
  std::uint32_t id = 10;
  for (int i = 0; i < 600'000; ++i) {
    if (i % 2000 == 0 && id < 300) {
      std::string text;
      while (text.size() < 700) text += std::to_string(id * 7919 + text.size() * 31) + " frame\n";
      define(*writer, TraceContext{ContextId{id++}, ContextKind::kStack, text});
    }
    writer->append(program.next());
  }
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  EXPECT_LE(std::filesystem::file_size(path), 1'100'000U);
  const auto reader = read();
  for (std::uint32_t i = 10; i < id; ++i)
    ASSERT_GE(reader->context(ContextId{i}).text.size(), 700U) << i;
  EXPECT_GT(reader->coverage().events, 20'000U);
}

// What the series should say, by the plainest means.
struct Point {
  std::int64_t time;
  std::uint64_t reserved, allocated;
};
std::vector<Point> naive_points(const std::vector<StagedEvent>& events) {
  StateTracker tracker;
  tracker.set_lane_device(LaneId{1}, DeviceId{0});
  tracker.set_lane_device(LaneId{2}, DeviceId{1});
  std::vector<Point> points;
  for (const StagedEvent& event : events) {
    if (tracker.apply(event.event, event.thread) == 0) {
      const DeviceCounters& device = tracker.devices()[0];
      points.push_back({event.key, device.reserved.value, device.allocated.value});
    }
  }
  return points;
}

TEST_F(TraceFileTest, SeriesAreExactWhenThereIsRoom) {
  EventProgram program(12, Shape{.threads = 2});
  const auto events = program.take(3000);
  auto writer = write();
  define_usual(*writer);
  for (const StagedEvent& event : events) writer->append(event);
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  const auto points = naive_points(events);
  const CounterSeries series =
      read()->counters(DeviceId{0}, Nanos{INT64_MIN}, Nanos{INT64_MAX}, 10'000);
  ASSERT_TRUE(series.is_exact);
  const std::size_t extra =
      series.time_ns.size() - points.size();  // the point for what held at the start
  ASSERT_LE(extra, 1U);
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(series.time_ns[i + extra], points[i].time);
    ASSERT_EQ(series.reserved_last[i + extra], points[i].reserved);
    ASSERT_EQ(series.allocated_last[i + extra], points[i].allocated);
  }
}

TEST_F(TraceFileTest, OverviewsKeepEveryPeakAndDip) {
  EventProgram program(13, Shape{.threads = 2});
  const auto events = program.take(200'000);
  auto writer = write();
  define_usual(*writer);
  for (const StagedEvent& event : events) writer->append(event);
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  const auto points = naive_points(events);
  const auto reader = read();
  const std::int64_t first = reader->coverage().first.value;
  const std::int64_t last = reader->coverage().last.value;
  // 100 points: from summaries. 2000: from events. A part of the whole as well.
  for (const std::size_t wanted : {std::size_t{100}, std::size_t{2000}}) {
    for (const auto& [from, to] :
         {std::pair(first, last + 1), std::pair(first + (last - first) / 3, last)}) {
      const CounterSeries series = reader->counters(DeviceId{0}, Nanos{from}, Nanos{to}, wanted);
      ASSERT_LE(series.time_ns.size(), wanted + 1);
      ASSERT_GE(series.time_ns.size(), wanted / 2);
      std::uint64_t highest = 0, lowest = UINT64_MAX, got_highest = 0, got_lowest = UINT64_MAX;
      for (const Point& point : points) {
        if (point.time < from || point.time >= to) continue;
        highest = std::max(highest, point.allocated);
        lowest = std::min(lowest, point.allocated);
      }
      for (std::size_t i = 0; i < series.time_ns.size(); ++i) {
        got_highest = std::max(got_highest, series.allocated_max[i]);
        got_lowest = std::min(got_lowest, series.allocated_min[i]);
        ASSERT_LE(series.allocated_min[i], series.allocated_last[i]);
        ASSERT_GE(series.allocated_max[i], series.allocated_last[i]);
      }
      EXPECT_EQ(got_highest, highest);
      EXPECT_LE(got_lowest, lowest);
      EXPECT_EQ(
          series.allocated_last.back(),
          std::prev(std::upper_bound(points.begin(), points.end(), to - 1,
                                     [](std::int64_t t, const Point& p) { return t < p.time; }))
              ->allocated);
    }
  }
}

TEST_F(TraceFileTest, SeriesOfNoEventsSayWhatHeldBeforeAndOfNoDeviceNothing) {
  EventProgram program(14, Shape{.threads = 2});
  auto events = program.take(20'000);
  // A second without events in the middle, between two blocks.
  constexpr std::size_t kHalf = 10'000;
  for (std::size_t i = kHalf; i < events.size(); ++i) {
    events[i].event.time_ns += 1'000'000'000;
    events[i].key += 1'000'000'000;
  }
  auto writer = write();
  define_usual(*writer);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i == kHalf) {
      ASSERT_TRUE(writer->flush());
    }
    writer->append(events[i]);
  }
  ASSERT_TRUE(writer->finish(TraceEnding::kComplete, ""));
  const auto reader = read();
  const std::int64_t last = events[kHalf - 1].key;
  const std::vector<StagedEvent> first_half(events.begin(), events.begin() + kHalf);
  const auto points = naive_points(first_half);
  const CounterSeries after =
      reader->counters(DeviceId{0}, Nanos{last + 1000}, Nanos{last + 2000}, 100);
  ASSERT_FALSE(after.time_ns.empty());
  EXPECT_EQ(after.allocated_last.back(), points.back().allocated);
  EXPECT_EQ(after.reserved_last.back(), points.back().reserved);
  for (const std::size_t wanted : {std::size_t{10}, std::size_t{100'000}}) {
    for (const std::int64_t from : {INT64_MIN, last + 1000}) {
      const CounterSeries none =
          reader->counters(DeviceId{55}, Nanos{from}, Nanos{INT64_MAX}, wanted);
      for (const std::uint64_t bytes : none.allocated_last) EXPECT_EQ(bytes, 0U);
    }
  }
}

TEST_F(TraceFileTest, WhatIsNoTraceIsRefusedWithASentence) {
  std::string why;
  EXPECT_EQ(TraceReader::open(path + ".absent", &why), nullptr);
  EXPECT_EQ(why, path + ".absent cannot be opened: No such file or directory.");
  EXPECT_EQ(TraceReader::open("/tmp", &why), nullptr);
  EXPECT_EQ(why, "/tmp is a folder; name a trace file in it.");
  std::ofstream(path) << "";
  EXPECT_EQ(TraceReader::open(path, &why), nullptr);
  EXPECT_EQ(why, path + " is empty.");
  std::ofstream(path) << "{\"traceEvents\": []}                                   ";
  EXPECT_EQ(TraceReader::open(path, &why), nullptr);
  EXPECT_EQ(why, path + " is not a levee trace: it does not begin with LEVEETRC.");
  { auto writer = write(); }
  auto data = bytes();
  data[8] = 2;
  EXPECT_EQ(TraceReader::from_bytes(std::as_bytes(std::span(data)), "new.levee", &why), nullptr);
  EXPECT_EQ(why,
            "new.levee was written in format version 2 by a newer levee; this one reads up to "
            "version 1: upgrade "
            "levee to open it.");
  data[8] = 1;
  data[16] ^= 1;
  EXPECT_EQ(TraceReader::from_bytes(std::as_bytes(std::span(data)), "x", &why), nullptr);
  EXPECT_EQ(why, "x has a damaged header, so that nothing of it can be read.");
}

TEST_F(TraceFileTest, AFullDiskIsAnErrorOnceAndThenSilence) {
  const int full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(full, 0);
  std::string why;
  EXPECT_EQ(TraceWriter::start(full, header, &why), nullptr);
  EXPECT_EQ(why, "No space left on device");
}

TEST_F(TraceFileTest, AStopIsToldWithItsReason) {
  {
    auto writer = write();
    ASSERT_TRUE(writer->finish(TraceEnding::kStopped, "the user asked for it"));
  }
  const auto reader = read();
  EXPECT_EQ(reader->coverage().ending, TraceEnding::kStopped);
  EXPECT_EQ(reader->coverage().stop_reason, "the user asked for it");
  EXPECT_TRUE(all(*reader).empty());
}

}  // namespace
}  // namespace levee::record
