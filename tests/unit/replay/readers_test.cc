// Each reader on the smallest input that shows what it promises. Files of PyTorch itself are in
// tests/replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

TEST(CsvReader, TheFifthFieldIsTheThreadThatDidIt) {
  const Read r =
      read(&read_csv, "a,1,100,0,70\na,2,100\ns,4,44,,8\nr,1,,0,70\nf,1,,,8\nf,2,,,70\n");
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(r.trace.thread_count, 2U);
  std::vector<int> threads;
  for (const Op& op : r.trace.ops) threads.push_back(op.thread);
  EXPECT_EQ(threads, (std::vector<int>{0, 0, 1, 0, 1, 0})) << "the second line names none";
  const std::string text = to_csv(r.trace);
  EXPECT_EQ(text, "a,0,100,,0\na,1,100\ns,0,44,,1\nr,0,,0,0\nf,0,,,1\nf,1,,,0\n");
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
  EXPECT_THAT(read(&read_kineto, text, 2).error, HasSubstr("no events of device 2"));
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

TEST(Recording, WithoutAnAllocationThereIsNothingToReplay) {
  for (const char* text : {"", "f,1\n", "LEVEETRC", "\x80\x04}."}) {
    const Read r = read(&read_recording, std::string_view(text));
    EXPECT_NE(r.error, "") << text;
    EXPECT_TRUE(r.trace.ops.empty());
  }
}

}  // namespace
}  // namespace levee::replay
