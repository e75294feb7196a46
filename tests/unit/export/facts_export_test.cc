// What facts become in files: report, view, Chrome trace, snapshot, scalars. That other programs
// read them is checked by tests/view; here the numbers in them are.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "allocator/export/chrome.h"
#include "allocator/export/memory_viz.h"
#include "allocator/export/perfetto.h"
#include "allocator/export/report_json.h"
#include "allocator/export/scalars.h"
#include "allocator/export/view_bundle.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::exporting {
namespace {

using analysis::TraceFacts;
using testing::HasSubstr;

class FactsExport : public ::testing::Test {
 protected:
  FactsExport() {
    folder_ = std::filesystem::temp_directory_path() /
              ("levee_export_test." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~FactsExport() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++found;
    }
    return found;
  }

  // Steps of allocations, an emergency in step 1, kernels.
  static TraceFacts facts_of(int steps, int blocks) {
    test::TraceBuilder trace;
    const ContextId forward = trace.name("forward");
    const ContextId gemm = trace.name("gemm", record::ContextKind::kKernel);
    const ContextId stack =
        trace.name("model.py:10 forward\nno frame at all\nx.py:abc g", record::ContextKind::kStack);
    trace.at(1_us).create(64_MiB);
    for (int s = 0; s < steps; ++s) {
      trace.after(10_us).step(static_cast<std::uint64_t>(s)).push(forward);
      for (int b = 0; b < blocks; ++b) {
        trace.after(1_us).alloc(0x4000'0000 + static_cast<std::uint64_t>(b) * 4096, 4_KiB, {}, 0,
                                stack);
      }
      if (s == 1) {
        trace.emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
        trace.driver(DriverCall::kReleaseHandle, 2_us, 2_MiB).after(2_us).release(2_MiB);
        trace.rung(LadderRung::kCachedHandles, 2_MiB, 2_us).after(1_us);
        trace.emergency_end(true, 62_MiB, 3_us);
      }
      trace.kernel(3_us, gemm, 7);
      for (int b = 0; b < blocks; ++b) {
        trace.after(1_us).free(0x4000'0000 + static_cast<std::uint64_t>(b) * 4096, 4_KiB);
      }
      trace.pop(forward);
    }
    analysis::AnalysisOptions options;
    options.keep_blocks = true;
    return analyze(trace, options);
  }

  std::filesystem::path folder_;
  std::string why_;
};

TEST_F(FactsExport, ReportNamesEveryPartAndItsTexts) {
  const std::string json = report_json(facts_of(3, 4));
  EXPECT_THAT(json, HasSubstr(R"("format":"levee-report","version":1)"));
  EXPECT_THAT(json, HasSubstr(R"("peak_reserved_bytes":67108864)"));
  EXPECT_THAT(json, HasSubstr(R"("peak_allocated_bytes":16384)"));
  EXPECT_THAT(json, HasSubstr(R"("cause":"device full")"));
  EXPECT_THAT(json, HasSubstr(R"("rung":"cached handles","usable_bytes":2097152)"));
  EXPECT_THAT(json, HasSubstr(R"("call":"cuMemRelease","is_memory":true,"calls":1,"ns":2000)"));
  EXPECT_THAT(json, HasSubstr(R"("number":[0,1,2])"));
  EXPECT_EQ(count(json, "{"), count(json, "}"));
}

TEST_F(FactsExport, ReportListsNoMoreEmergenciesThanAskedFor) {
  ReportOptions options;
  options.max_emergencies = 0;
  const std::string json = report_json(facts_of(3, 4), options);
  EXPECT_THAT(json, HasSubstr(R"("emergency_count":1)"));
  EXPECT_THAT(json, HasSubstr(R"("emergencies":[],"storms")"));
}

TEST_F(FactsExport, ViewHasAnIndexAndTheBytesItPointsTo) {
  ASSERT_TRUE(write_view(facts_of(40, 200), {}, path("view"), &why_)) << why_;
  const std::string index = content(path("view/view.json"));
  EXPECT_THAT(index, HasSubstr(R"("format":"levee-view","version":1)"));
  EXPECT_THAT(index, HasSubstr(R"("has_detail":true)"));
  EXPECT_THAT(index, HasSubstr(R"("kind":"kernels","label":"default stream")"));
  EXPECT_THAT(index, HasSubstr(R"("kind":"driver")"));
  EXPECT_THAT(index, HasSubstr(R"("kind":"phases","label":"main")"));
  EXPECT_GT(std::filesystem::file_size(path("view/view.bin")), 1000U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("view")), {}), 2);

  ViewOptions options;
  options.max_detail_samples = 100;
  ASSERT_TRUE(write_view(facts_of(40, 200), options, path("coarse"), &why_));
  EXPECT_THAT(content(path("coarse/view.json")), HasSubstr(R"("has_detail":false)"));
  EXPECT_LT(std::filesystem::file_size(path("coarse/view.bin")),
            std::filesystem::file_size(path("view/view.bin")));
}

TEST_F(FactsExport, ChromeTraceHasMemoryEventsWithTotals) {
  ChromeOptions options;
  options.gzip = false;
  std::vector<std::string> written;
  ASSERT_TRUE(write_chrome(facts_of(2, 2), options, path("a.json"), &written, &why_)) << why_;
  EXPECT_EQ(written, std::vector<std::string>{path("a.json")});
  const std::string json = content(path("a.json"));
  EXPECT_EQ(count(json, R"("name":"[memory]")"), 8U);
  EXPECT_EQ(count(json, R"("Bytes":-4096)"), 4U);
  EXPECT_THAT(json, HasSubstr(R"("Total Reserved":67108864,"Total Allocated":4096,"Bytes":4096)"));
  EXPECT_THAT(json, HasSubstr(R"("Device Id":0,"Device Type":1)"));
  EXPECT_EQ(count(json, R"("name":"ProfilerStep#)"), 2U);
  EXPECT_EQ(count(json, R"("cat":"cuda_driver","name":"cuMemRelease")"), 1U);
  EXPECT_EQ(count(json, R"("cat":"kernel","name":"gemm")"), 2U);
  EXPECT_THAT(json, HasSubstr(R"("name":"emergency: device full")"));
  // Every event has a name: one without costs a viewer the whole file.
  EXPECT_EQ(count(json, R"({"ph":)"), count(json, R"("ph":)"));
}

TEST_F(FactsExport, TensorBoardFlavourNamesDriverCallsAsItsViewerDoesAndThinsOut) {
  ChromeOptions options;
  options.gzip = false;
  options.flavour = ChromeFlavour::kTensorBoard;
  options.max_memory_events = 200;
  std::vector<std::string> written;
  ASSERT_TRUE(write_chrome(facts_of(20, 100), options, path("a.json"), &written, &why_));
  const std::string json = content(path("a.json"));
  EXPECT_EQ(count(json, R"("cat":"runtime")"), 1U);
  EXPECT_LE(count(json, R"("name":"[memory]")"), 400U);
  EXPECT_GE(count(json, R"("name":"[memory]")"), 50U);
  // The peak is among what is kept.
  EXPECT_THAT(json, HasSubstr(R"("Total Allocated":409600)"));
  EXPECT_THAT(json, testing::Not(HasSubstr(R"("memory_events_left_out":0)")));
}

TEST_F(FactsExport, LargeChromeTracesComeInPartsWithAnIndexThatKeepsPeaks) {
  ChromeOptions options;
  options.gzip = false;
  options.max_part_bytes = 200'000;
  std::vector<std::string> written;
  ASSERT_TRUE(write_chrome(facts_of(30, 100), options, path("a.json"), &written, &why_)) << why_;
  ASSERT_GT(written.size(), 3U);
  std::size_t memory_events = 0;
  for (std::size_t i = 0; i + 1 < written.size(); ++i) {
    EXPECT_EQ(written[i], path("a.part" + std::to_string(i + 1) + ".json"));
    EXPECT_LT(std::filesystem::file_size(written[i]), 400'000U);
    memory_events += count(content(written[i]), R"("name":"[memory]")");
  }
  EXPECT_EQ(memory_events, 6'000U);
  EXPECT_FALSE(std::filesystem::exists(path("a.json")));
  const std::string index = content(path("a.parts.json"));
  EXPECT_EQ(count(index, R"("peak_allocated_bytes":409600)"), 30U);
}

TEST_F(FactsExport, SnapshotTilesItsSegments) {
  StringSink sink;
  write_memory_viz(facts_of(2, 3), {}, sink);
  const std::string& pickle = sink.text();
  EXPECT_EQ(pickle.substr(0, 2), "\x80\x04");
  EXPECT_EQ(pickle.back(), '.');
  for (const char* key : {"segments", "device_traces", "allocator_settings", "segment_pool_id",
                          "free_requested", "free_completed", "active_size"}) {
    EXPECT_NE(pickle.find(key), std::string::npos) << key;
  }
  EXPECT_EQ(pickle.find("inactive"), pickle.rfind("inactive")) << "written once, then recalled";
}

TEST_F(FactsExport, ScalarsStayUnderTensorBoardsLimit) {
  std::string written;
  ASSERT_TRUE(write_scalars(facts_of(50, 200), path("tb"), &written, &why_)) << why_;
  const std::string bytes = content(written);
  for (const char* tag : {"memory/reserved", "memory/allocated", "memory/fragmentation",
                          "memory/retries", "step/reserved", "step/driver_memory_calls"}) {
    const std::size_t points = count(bytes, std::string(tag) + "\x15");
    EXPECT_GE(points, 2U) << tag;
    EXPECT_LE(points, kMaxScalarPoints) << tag;
  }
}

TEST_F(FactsExport, PerfettoNamesItsTracks) {
  ASSERT_TRUE(write_perfetto(facts_of(2, 2), path("a.pftrace"), &why_)) << why_;
  const std::string bytes = content(path("a.pftrace"));
  for (const char* name : {"GPU 0 reserved", "GPU 0 allocated", "steps", "driver calls, main",
                           "allocator storms", "gemm"}) {
    EXPECT_NE(bytes.find(name), std::string::npos) << name;
  }
}

TEST_F(FactsExport, NothingIsLeftWhereNothingCanBeWritten) {
  const TraceFacts facts = facts_of(1, 1);
  std::vector<std::string> written;
  std::string file;
  EXPECT_FALSE(write_chrome(facts, {}, path("none/a.json"), &written, &why_));
  EXPECT_THAT(why_, HasSubstr("Cannot write"));
  EXPECT_FALSE(write_perfetto(facts, path("none/a"), &why_));
  EXPECT_FALSE(write_memory_viz(facts, {}, path("none/a"), &why_));
  std::ofstream(path("file")) << "x";
  EXPECT_FALSE(write_view(facts, {}, path("file"), &why_));
  EXPECT_FALSE(write_scalars(facts, path("file"), &file, &why_));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(FactsExport, AFileWhosePlaceIsTakenIsSaid) {
  const std::string part = "." + std::to_string(::getpid()) + ".part";
  ChromeOptions options;
  options.gzip = false;
  std::vector<std::string> written;
  // When it is to get its name.
  std::filesystem::create_directories(path("a.json/b"));
  EXPECT_FALSE(write_chrome(facts_of(1, 1), options, path("a.json"), &written, &why_));
  EXPECT_THAT(why_, HasSubstr("Cannot write " + path("a.json")));
  EXPECT_TRUE(written.empty());
  // A part of several, and the index of the parts.
  options.max_part_bytes = 200'000;
  std::filesystem::create_directories(path("b.part1.json/b"));
  EXPECT_FALSE(write_chrome(facts_of(30, 100), options, path("b.json"), &written, &why_));
  EXPECT_THAT(why_, HasSubstr("Cannot write " + path("b.part1.json")));
  std::filesystem::create_directories(path("c.parts.json" + part));
  EXPECT_FALSE(write_chrome(facts_of(30, 100), options, path("c.json"), &written, &why_));
  EXPECT_THAT(why_, HasSubstr("Cannot write " + path("c.parts.json")));
  // Each of the two files of a view.
  for (const std::string& name : std::vector<std::string>{"view.bin", "view.json"}) {
    std::filesystem::create_directories(path(name + "-view/" + name + part));
    EXPECT_FALSE(write_view(facts_of(1, 1), {}, path(name + "-view"), &why_));
    EXPECT_THAT(why_, HasSubstr("Cannot write " + path(name + "-view/" + name)));
  }
  std::ofstream(path("file")) << "x";
  EXPECT_FALSE(write_view(facts_of(1, 1), {}, path("file"), &why_));
  EXPECT_THAT(why_, HasSubstr("Cannot make the folder"));
}

TEST_F(FactsExport, AFailedDriverCallIsMarkedInTheChromeTrace) {
  test::TraceBuilder trace;
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 4_KiB);
  trace.driver(DriverCall::kCreateHandle, 2_us, 2_MiB).after(5_us);
  trace.emit(EventKind::kDriverCall, 250, 2,
             static_cast<std::uint16_t>(DriverCall::kMap) | kDriverCallFailed);
  ChromeOptions options;
  options.gzip = false;
  std::vector<std::string> written;
  ASSERT_TRUE(write_chrome(analysis::analyze(trace), options, path("a.json"), &written, &why_))
      << why_;
  EXPECT_EQ(count(content(path("a.json")), R"("failed":true)"), 1U);
}

// "file:line function" is three fields; a line of any other form is a file without a line.
TEST_F(FactsExport, AFrameOfASnapshotIsFileLineAndFunction) {
  const auto snapshot_with = [](const std::string& frame) {
    test::TraceBuilder trace;
    const ContextId stack = trace.name(frame, record::ContextKind::kStack);
    trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 4_KiB, {}, 0, stack);
    analysis::AnalysisOptions options;
    options.keep_blocks = true;
    StringSink sink;
    write_memory_viz(analysis::analyze(trace, options), {}, sink);
    return sink.text();
  };
  const auto text = [](const std::string& value) {
    return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
  };
  const std::string good = snapshot_with("/my model.py:77 forward pass");
  EXPECT_THAT(good, HasSubstr(text("/my model.py")));
  EXPECT_THAT(good, HasSubstr(text("forward pass")));
  EXPECT_THAT(good, HasSubstr("KM")) << "77, as a byte";
  for (const std::string& bad :
       std::vector<std::string>{"no frame at all", "x.py:abc g", "y.py:77x g", ": g"}) {
    const std::string pickle = snapshot_with(bad);
    EXPECT_THAT(pickle, HasSubstr(text(bad)));
    EXPECT_THAT(pickle, HasSubstr(text("??")));
    EXPECT_THAT(pickle, testing::Not(HasSubstr(text("g"))));
    EXPECT_THAT(pickle, testing::Not(HasSubstr("KM"))) << bad;
  }
}

TEST_F(FactsExport, ASegmentOfASnapshotHasTheStreamAndPoolOfItsBlocks) {
  test::TraceBuilder trace;
  const LaneId side = trace.lane(0, 0xABCD);
  const std::uint16_t pool = trace.pool(0x1234, 0x5678);
  trace.at(1_us).create(64_MiB).on_lane(side).alloc(0x4000'0000, 4_KiB, {}, pool);
  analysis::AnalysisOptions options;
  options.keep_blocks = true;
  StringSink sink;
  write_memory_viz(analysis::analyze(trace, options), {}, sink);
  const std::string segment = sink.text().substr(0, sink.text().find("blocks"));
  EXPECT_THAT(segment, HasSubstr("M\xCD\xAB"));
  EXPECT_THAT(segment, HasSubstr("M\x34\x12"));
  EXPECT_THAT(segment, HasSubstr("M\x78\x56"));
}

}  // namespace
}  // namespace levee::exporting
