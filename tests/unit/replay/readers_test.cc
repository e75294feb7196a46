// Each reader on the smallest input that shows what it promises. Files of PyTorch itself are in
// tests/replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <vector>
#include "allocator/record/trace_recorder.h"

#include "bench/replay/op_trace_csv.h"
#include "bench/replay/readers/csv_reader.h"
#include "bench/replay/readers/kineto_reader.h"
#include "bench/replay/readers/levee_reader.h"
#include "bench/replay/readers/recording.h"
#include "bench/replay/readers/snapshot_reader.h"
#include "tests/unit/analysis/trace_builder.h"
#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

using ::testing::HasSubstr;

struct Read {
  OpTrace trace;
  std::string error;
};

template <typename Function, typename Input>
Read read(Function function, const Input& input, std::int64_t device = -1) {
  ReadError error;
  OpTrace trace = function(input, ReadOptions{"t", device, 2.0}, &error);
  return {std::move(trace), error.sentence};
}

// ---- CSV.

TEST(CsvReader, ReadsOpsAndMarks) {
  const Read r = read(&read_csv,
                      "op,id,size,stream,thread\nm,-1\na,1,100,0,5\n# note\n\nm,0\r\n"
                      "a,2,1000000,7\nr,2,,0,\nf,1,,\ns,3,44\n");
  ASSERT_EQ(r.error, "");
  ASSERT_EQ(r.trace.ops.size(), 6U);
  EXPECT_EQ(r.trace.ops[1].kind, OpKind::kStep);
  EXPECT_EQ(r.trace.ops[1].bytes, 2'000'000U)
      << "MFLOP: 2 for each byte of the step's first request";
  EXPECT_EQ(r.trace.ops[2].stream, 1U);
  EXPECT_EQ(r.trace.ops[3].kind, OpKind::kRecordUse);
  EXPECT_EQ(r.trace.ops[5].bytes, 44U);
}

TEST(CsvReader, ABadLineIsNamed) {
  EXPECT_THAT(read(&read_csv, "a,1,2\n\nf,x\n").error, HasSubstr("line 3"));
  EXPECT_THAT(read(&read_csv, "a,1,2\na\x01,1,2\n").error, HasSubstr("\"a?,1,2\""));
}

TEST(CsvReader, EveryFieldIsChecked) {
  const std::string huge = std::to_string(UINT64_MAX);
  const std::vector<std::string> lines{
      "a,1,x", "a,1," + huge, "a,1,2,x", "a,1", "b,1,x", "b,1,2,x",
      "f,x",   "r,1,x,3",     "r,1,,x",  "r,1", "p,-1",  "p,x",
      "e,-1",  "s,1,x",       "z,1,2",   "a",   "a;1;2", "p," + std::to_string(INT64_MAX)};
  for (const std::string& line : lines) {
    const Read r = read(&read_csv, "a,9,100\n" + line + "\na,10,100\n");
    EXPECT_THAT(r.error, HasSubstr("line 2 is no op")) << line;
    EXPECT_TRUE(r.trace.ops.empty()) << line;
  }
}

TEST(CsvReader, EveryFieldOfAHistoryIsChecked) {
  const std::string head = "time_us,action,block,bytes,stream\n0,alloc,1,10,0\n";
  for (const std::string line :
       {"1,alloc,2", "1,alloc,x,10,0", "1,alloc,2,x,0", "1,alloc,2,99999999999999999999,0",
        "1,alloc,2,9999999999999999,0", "1,alloc,2,10,x", "1,jump,2,10,0"}) {
    const Read r = read(&read_csv, head + line + "\n");
    EXPECT_THAT(r.error, HasSubstr("line 3 is no op")) << line;
    EXPECT_TRUE(r.trace.ops.empty()) << line;
  }
  for (const std::string line : {"1,alloc,2,10", "1,alloc,2,10,", "1,oom,2,10,0"}) {
    EXPECT_EQ(read(&read_csv, head + line + "\n").error, "") << line;
  }
}

TEST(CsvReader, ReadsWhatToCsvWrites) {
  const OpTrace trace =
      test::ops("p,4096\nb,7,500,3\nb,8,600\na,1,100,9\ns,0,55\nr,7,,9\nf,7\na,7,1\ns,1\nf,1\n");
  EXPECT_EQ(trace.recorded_peak_reserved, 4096_B);
  EXPECT_EQ(trace.completeness.live_at_start, 1100_B);
  const Read r = read(&read_csv, to_csv(trace));
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(to_csv(r.trace), to_csv(trace));
  ASSERT_EQ(r.trace.ops.size(), trace.ops.size());
  EXPECT_EQ(r.trace.completeness.live_at_start_count, 2U);
  EXPECT_EQ(r.trace.stream_count, 3U);
  EXPECT_EQ(r.trace.ops[3].bytes, 55U);
}

TEST(CsvReader, StepsKeepTheirNumbers) {
  using Numbers = std::vector<std::uint64_t>;
  EXPECT_EQ(test::ops("a,1,9\ns,5\na,2,9\ns,9\n").step_numbers, (Numbers{5, 9}));
  EXPECT_EQ(test::ops("m,-1\na,1,9\nm,0\na,2,9\nm,1\na,3,9\n").step_numbers, (Numbers{1, 2}));
  const OpTrace ends = test::ops("e,3\na,1,9\ns,4\na,2,9\n");
  EXPECT_EQ(step_place(ends, 0).text, "in step 3");
  EXPECT_EQ(step_place(ends, 1).text, "after step 3");
  const OpTrace again = test::ops(to_csv(ends));
  EXPECT_EQ(step_place(again, 0).text, "in step 3");
  EXPECT_EQ(step_place(again, 1).text, "after step 3");
  EXPECT_EQ(step_place(test::ops("a,1,9\n"), 0).text, "");
}

TEST(CsvReader, TheFifthFieldIsTheThreadThatDidIt) {
  const Read r =
      read(&read_csv, "a,1,100,0,70\na,2,100\ns,4,44,,8\nr,1,,0,70\nf,1,,,8\nf,2,,,70\n");
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(r.trace.thread_count, 2U);
  std::vector<int> threads;
  for (const Op& op : r.trace.ops) threads.push_back(op.thread);
  EXPECT_EQ(threads, (std::vector<int>{0, 0, 1, 0, 1, 0})) << "the second line names none";
  const std::string text = to_csv(r.trace);
  EXPECT_EQ(text, "a,0,100,,0\na,1,100\ns,4,44,,1\nr,0,,0,0\nf,0,,,1\nf,1,,,0\n");
  EXPECT_EQ(to_csv(read(&read_csv, text).trace), text);
  EXPECT_EQ(read(&read_csv, "a,1,100\nf,1,,,x\n").trace.thread_count, 0U) << "nobody says";
}

TEST(CsvReader, AHistoryStartsFromWhatItFrees) {
  const Read r = read(&read_csv,
                      "time_us,action,block,bytes,stream\n0,alloc,1,10,0\n1,free_requested,2,20,3\n"
                      "2,step,0,0,0\n3,free_requested,1,10,0\n");
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(r.trace.completeness.live_at_start, 20_B);
  EXPECT_TRUE(r.trace.has_step_marks);
  EXPECT_EQ(r.trace.completeness.unknown_frees, 0U);
}

// ---- Kineto.

std::string memory(int ts, long addr, long bytes, long allocated, int device = 0) {
  return "{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":" + std::to_string(ts) +
         ",\"args\":{\"Device Type\":1,\"Device Id\":" + std::to_string(device) +
         ",\"Addr\":" + std::to_string(addr) + ",\"Bytes\":" + std::to_string(bytes) +
         ",\"Total Allocated\":" + std::to_string(allocated) + ",\"Total Reserved\":4096}}";
}

TEST(KinetoReader, OrdersByTimeAndStartsFromWhatWasLive) {
  const std::string text = "{\"schemaVersion\":1,\"traceEvents\":[" + memory(30, 1, -100, 1000) +
                           "," + memory(10, 1, 100, 1100) +
                           ",{\"name\":\"ProfilerStep#4\",\"ts\":20}," + memory(40, 2, -300, 700) +
                           "]}";
  const Read r = read(&read_kineto, text);
  ASSERT_EQ(r.error, "");
  // 1,000 bytes were live: 300 of them are freed later, 700 are one block.
  EXPECT_EQ(r.trace.completeness.live_at_start, 1000_B);
  EXPECT_EQ(r.trace.completeness.unnamed_live, 700_B);
  EXPECT_EQ(r.trace.recorded_peak_reserved, 4096_B);
  ASSERT_EQ(r.trace.ops.size(), 6U);
  EXPECT_EQ(r.trace.ops[2].bytes, 100U);
  EXPECT_EQ(r.trace.ops[3].kind, OpKind::kStep);
  EXPECT_THAT(r.trace.completeness.sentence(), HasSubstr("names no streams"));
  EXPECT_THAT(r.trace.completeness.sentence(), ::testing::Not(HasSubstr("do not add up")));
}

TEST(KinetoReader, TotalsThatDoNotAddUpAreTold) {
  const std::string text = "[" + memory(1, 1, 100, 100) + "," + memory(2, 2, 100, 900) + "]";
  EXPECT_THAT(read(&read_kineto, text).trace.completeness.sentence(),
              HasSubstr("At 1 place its totals do not add up"));
}

TEST(KinetoReader, OneDeviceIsReplayed) {
  const std::string text = "[" + memory(1, 1, 100, 100, 0) + "," + memory(2, 2, 50, 50, 1) + "," +
                           memory(3, 3, 50, 100, 1) + "]";
  EXPECT_EQ(read(&read_kineto, text).trace.id_count, 2U) << "the one with most events";
  EXPECT_EQ(read(&read_kineto, text, 0).trace.id_count, 1U);
  const Read none = read(&read_kineto, text, 2);
  EXPECT_THAT(none.error, HasSubstr("no events of device 2"));
  EXPECT_TRUE(none.trace.ops.empty());
}

TEST(KinetoReader, JsonThatIsMalformedAnywhereIsRefused) {
  const std::string good = memory(1, 1, 100, 100);
  for (const std::string& text :
       {std::string("x"), std::string("{\"a\" 1"), std::string("{\"abc"), std::string("{\"a\": ["),
        "{\"traceEvents\": " + good + "}", "[" + good, "[" + good + ", \"x", "[" + good + ", [",
        "[" + good + ", {\"a\" 1}]", "[" + good + ", {a: 1}]", "[" + good + ", {\"ts\": -}]",
        "[" + good + ", {\"ts\": 1x}]", "[" + good + ", {\"a\": [}]", "[" + good + ", {\"a\": 1 ]",
        "[" + good + ", {\"a\": 1]"}) {
    const Read r = read(&read_kineto, text);
    EXPECT_THAT(r.error, HasSubstr("malformed or cut off near byte")) << text;
    EXPECT_TRUE(r.trace.ops.empty()) << text;
  }
  for (const std::string& text : {"[1, \"x\", [2], " + good + "]", "[{}, " + good + ", {}]",
                                  "{\"a\": [1], \"traceEvents\": [" + good + "]}"}) {
    EXPECT_EQ(read(&read_kineto, text).error, "") << text;
  }
  EXPECT_THAT(read(&read_kineto, std::string("{\"a\": 1}")).error, HasSubstr("no traceEvents"));
  EXPECT_THAT(read(&read_kineto, std::string("[]")).error, HasSubstr("no [memory] events"));
}

// ---- Snapshots: pickles of plain data, made by hand.

std::string text(const std::string& value) {
  return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
}
std::string number(std::uint64_t value) {
  std::string out = "\x8a\x09";
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out + std::string(1, '\0');
}
std::string list(const std::vector<std::string>& items) {
  std::string out = "](";
  for (const std::string& item : items) out += item;
  return out + "e";
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += text(key) + value;
  return out + "u";
}
std::string entry(const std::string& action, std::uint64_t addr, std::uint64_t size) {
  return dict({{"action", text(action)}, {"addr", number(addr)}, {"size", number(size)}});
}
Read snapshot(const std::string& root, std::int64_t device = -1) {
  const std::string bytes = "\x80\x04" + root + ".";
  return read(&read_snapshot, std::string_view(bytes), device);
}
Read history(const std::vector<std::string>& entries, const std::string& segments = list({}),
             std::int64_t device = -1) {
  return snapshot(dict({{"device_traces", list({list(entries)})}, {"segments", segments}}), device);
}

TEST(SnapshotReader, ReadsTheHistoryOfADevice) {
  const Read r = history({entry("alloc", 512, 100), entry("free_completed", 512, 100)},
                         list({dict({{"device", number(0)}, {"total_size", number(2 << 20)}})}));
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(r.trace.ops.size(), 2U);
  EXPECT_EQ(r.trace.id_count, 1U);
}

TEST(SnapshotReader, LeveesOwnPicklesAreKnownByTheirMark) {
  const std::string traces = list({list({entry("alloc", 512, 100)})});
  const auto with = [&](const std::string& settings) {
    const Read r = snapshot(dict(
        {{"device_traces", traces}, {"segments", list({})}, {"allocator_settings", settings}}));
    EXPECT_EQ(r.error, "");
    return r.trace;
  };
  const OpTrace marked =
      with(dict({{"levee", number(1)}, {"levee_peak_reserved", list({number(4 << 20)})}}));
  EXPECT_TRUE(marked.is_levees_own);
  EXPECT_EQ(marked.recorded_peak_reserved, 4_MiB);
  const OpTrace plain = with(dict({{"levee_peak_reserved", list({number(4 << 20)})}}));
  EXPECT_FALSE(plain.is_levees_own);
  EXPECT_NE(plain.recorded_peak_reserved, 4_MiB);
}

TEST(Recording, AStepOfTheProfilerHasANumberAndNothingBehindIt) {
  EXPECT_EQ(profiler_step("ProfilerStep#12"), 12U);
  for (const char* name : {"ProfilerStep#", "ProfilerStep#x", "ProfilerStep#1x", "Step#1",
                           "ProfilerStep#99999999999999999999999"}) {
    EXPECT_EQ(profiler_step(name), std::nullopt) << name;
  }
}

TEST(SnapshotReader, WhatIsNoSnapshotOrHoldsNoHistoryIsSaid) {
  const std::string traces = list({list({entry("alloc", 512, 100)})});
  EXPECT_THAT(snapshot(dict({{"device_traces", traces}})).error, HasSubstr("no memory snapshot"));
  EXPECT_THAT(snapshot(dict({{"segments", list({})}})).error, HasSubstr("no memory snapshot"));
  EXPECT_THAT(snapshot(list({})).error, HasSubstr("no memory snapshot"));
  EXPECT_THAT(history({}).error, HasSubstr("holds no history"));
  EXPECT_NE(history({entry("alloc", 512, 100)}, list({}), 5).error, "") << "no device 5";
}

TEST(SnapshotReader, AnEntryWithoutSizeOrAddressIsNamed) {
  const std::string good = entry("alloc", 512, 100);
  const std::string no_size = dict({{"action", text("alloc")}, {"addr", number(1024)}});
  const std::string no_addr = dict({{"action", text("alloc")}, {"size", number(100)}});
  for (const std::string& bad : {no_size, no_addr}) {
    EXPECT_THAT(history({good, bad}).error, HasSubstr("entry 1 of its history has no size"));
  }
  EXPECT_EQ(history({good, dict({{"action", text("oom")}, {"size", number(100)}})}).error, "");
}

TEST(SnapshotReader, SegmentsThatNoDeviceHasAreRefused) {
  const std::string good = entry("alloc", 512, 100);
  const auto segment = [](std::uint64_t bytes, const std::string& blocks) {
    return dict({{"device", number(0)}, {"total_size", number(bytes)}, {"blocks", blocks}});
  };
  EXPECT_THAT(history({good}, list({segment(UINT64_MAX / 2, list({}))})).error,
              HasSubstr("larger than any GPU"));
  // One list of 200 blocks, remembered, and named again by each further segment.
  const std::string blocks = list(std::vector<std::string>(200, "N")) + "\x94";
  std::vector<std::string> segments{segment(4096, blocks)};
  EXPECT_EQ(history({good}, list(segments)).error, "");
  for (int i = 0; i < 40; ++i) segments.push_back(segment(4096, std::string("h\0", 2)));
  EXPECT_THAT(history({good}, list(segments)).error, HasSubstr("the same blocks again and again"));
}

// ---- levee's own.

const auto read_own = [](const record::TraceReader& reader, const ReadOptions& options,
                         ReadError* error) { return read_levee(reader, options, error); };

TEST(LeveeReader, KeepsTheThreadOfEachRequest) {
  levee::test::TraceBuilder b;
  const std::uint32_t backward = b.thread("backward");
  b.alloc(0x1000, 512_B).on_thread(backward).alloc(0x2000, 512_B).free(0x1000, 512_B);
  b.on_thread(0).step(1).free(0x2000, 512_B);
  const Read r = read(read_own, b);
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(r.trace.thread_count, 2U);
  std::vector<int> threads;
  for (const Op& op : r.trace.ops) threads.push_back(op.thread);
  EXPECT_EQ(threads, (std::vector<int>{0, 1, 1, 0, 0}));
}

TEST(LeveeReader, KeepsStreamsUsesAndStepsOfOneDevice) {
  levee::test::TraceBuilder b;
  const LaneId side = b.lane(0, 77);
  const LaneId other = b.lane(1, 0);
  b.alloc(0x1000, 2_MiB, 1000_B).step(1).on_lane(side).alloc(0x2000, 512_B);
  b.emit(EventKind::kRecordUse, 0x1000, 0).on_lane(LaneId{1}).free(0x1000, 2_MiB);
  b.on_lane(other).alloc(0x1000, 512_B);
  const Read r = read(read_own, b);
  ASSERT_EQ(r.error, "");
  ASSERT_EQ(r.trace.ops.size(), 5U);
  EXPECT_EQ(r.trace.ops[0].bytes, 1000U) << "requested, not rounded";
  EXPECT_EQ(r.trace.ops[1].kind, OpKind::kStep);
  EXPECT_EQ(r.trace.ops[3].kind, OpKind::kRecordUse);
  EXPECT_EQ(r.trace.ops[3].stream, 1U);
  EXPECT_EQ(r.trace.completeness.sentence(), "");
  EXPECT_EQ(read(read_own, b, 1).trace.id_count, 1U);
}

TEST(LeveeReader, StepsHaveTheNumbersOfTheReport) {
  // Marks of an optimizer end steps 1 and 2; the request before the first is of step 1.
  levee::test::TraceBuilder ends;
  ends.alloc(0x1000, 512_B).emit(EventKind::kStepMark, 1, 1).alloc(0x2000, 512_B);
  ends.emit(EventKind::kStepMark, 2, 1).alloc(0x3000, 512_B);
  const OpTrace by_ends = read(read_own, ends).trace;
  EXPECT_EQ(step_place(by_ends, 0).text, "in step 1");
  EXPECT_EQ(step_place(by_ends, 1).text, "in step 2");
  EXPECT_EQ(step_place(by_ends, 2).text, "after step 2");
  EXPECT_EQ(step_place(by_ends, 2).number, 3);
  // Marks by hand begin steps 41 and 42, since the ring overwrote the others.
  levee::test::TraceBuilder begins;
  begins.alloc(0x1000, 512_B).step(41).step(41).alloc(0x2000, 512_B).step(42);
  const OpTrace by_begins = read(read_own, begins).trace;
  EXPECT_EQ(by_begins.step_numbers, (std::vector<std::uint64_t>{41, 42})) << "one mark, told twice";
  EXPECT_EQ(step_place(by_begins, 0).text, "before the first step");
  EXPECT_EQ(step_place(by_begins, 0).number, -1);
  EXPECT_EQ(step_place(by_begins, 2).text, "in step 42");
}

TEST(LeveeReader, CountsRequestsForPrivatePools) {
  levee::test::TraceBuilder b;
  const std::uint16_t pool = b.pool(0, 7);
  b.alloc(0x1000, 512_B).alloc(0x2000, 512_B, 0_B, pool).alloc(0x3000, 512_B, 0_B, pool);
  const Read r = read(read_own, b);
  EXPECT_TRUE(r.trace.is_levees_own);
  EXPECT_EQ(r.trace.completeness.private_requests, 2U);
  EXPECT_THAT(r.trace.completeness.sentence(), HasSubstr("2 requests were for private pools"));
  EXPECT_TRUE(r.trace.completeness.is_complete());
}

TEST(LeveeReader, ACutFileIsNotComplete) {
  levee::test::TraceBuilder b;
  b.alloc(0x1000, 512_B).after(Nanos{4'100'000}).emit(EventKind::kOutOfMemory, 9, 9);
  b.mutable_coverage().ending = record::TraceEnding::kCut;
  const Read r = read(read_own, b);
  EXPECT_FALSE(r.trace.completeness.is_complete());
  const std::string sentence = r.trace.completeness.sentence();
  EXPECT_THAT(sentence, HasSubstr("ends after 4.10 ms without an end mark"));
  EXPECT_THAT(sentence, HasSubstr("or the file was cut while it was copied"));
  EXPECT_THAT(sentence, HasSubstr("met 1 out-of-memory error."));
}

TEST(LeveeReader, ADeviceThatTheRecordingDoesNotHaveIsSaid) {
  levee::test::TraceBuilder b;
  b.alloc(0x1000, 2_MiB, 1000_B);
  const Read r = read(read_own, b, 7);
  EXPECT_THAT(r.error, HasSubstr("device 7"));
  EXPECT_TRUE(r.trace.ops.empty());
}

TEST(LeveeReader, ReadsTheBytesOfAFile) {
  const std::string path =
      testing::TempDir() + "levee_reader_test_" + std::to_string(::getpid()) + ".levee";
  {
    record::TraceRecorder::Options options;
    options.path = path;
    const auto recorder = record::TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    recorder->record(EventKind::kAlloc, lane, 0x1000, pack_sizes(1000_B, 1024_B));
    recorder->finish();
  }
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  ::unlink(path.c_str());
  const Read r = read(&read_recording, std::string_view(bytes));
  ASSERT_EQ(r.error, "");
  ASSERT_EQ(r.trace.ops.size(), 1U);
  EXPECT_EQ(r.trace.ops[0].bytes, 1000U);
}

TEST(LeveeReader, SaysWhatTheRecordingLost) {
  levee::test::TraceBuilder b;
  b.alloc(0x1000, 512_B);
  b.mutable_coverage().lost_events = 3;
  b.mutable_coverage().dropped_events = 9;
  b.mutable_coverage().ending = record::TraceEnding::kCut;
  record::LiveBlock block;
  block.addr = DeviceAddr{0x9000};
  block.requested_bytes = 5_MiB;
  block.lane = LaneId{1};
  b.mutable_state().live.push_back(block);
  const Read r = read(read_own, b);
  EXPECT_EQ(r.trace.completeness.live_at_start, 5_MiB);
  const std::string sentence = r.trace.completeness.sentence();
  EXPECT_THAT(sentence, HasSubstr("lost 3 events"));
  EXPECT_THAT(sentence, HasSubstr("9 events, its oldest, were overwritten"));
  EXPECT_THAT(sentence, HasSubstr("was killed"));
}

// ---- Telling them apart.

TEST(Recording, IsToldApartByItsFirstBytes) {
  EXPECT_EQ(kind_of("LEVEETRC..."), RecordingKind::kLevee);
  EXPECT_EQ(kind_of("\x80\x04}."), RecordingKind::kSnapshot);
  EXPECT_EQ(kind_of("(dp0\n"), RecordingKind::kSnapshot);
  EXPECT_EQ(kind_of("\n {\"traceEvents\""), RecordingKind::kKineto);
  EXPECT_EQ(kind_of("a,1,2\n"), RecordingKind::kCsv);
}

TEST(Recording, OneThatCanBeReadIsReadWhole) {
  const Read r = read(&read_recording, std::string_view("a,1,100\nf,1\n"));
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.trace.ops.size(), 2U);
}

TEST(Recording, WithoutAnAllocationThereIsNothingToReplay) {
  for (const char* text : {"", "f,1\n", "s,1\ns,2\n", "LEVEETRC", "\x80\x04}."}) {
    const Read r = read(&read_recording, std::string_view(text));
    EXPECT_NE(r.error, "") << text;
    EXPECT_TRUE(r.trace.ops.empty());
  }
}

}  // namespace
}  // namespace levee::replay
