// Any sequence of events, however senseless, must come out of analysis and of every export: a
// damaged file may decode to one.
#include <unistd.h>

#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "allocator/analysis/dump.h"
#include "allocator/analysis/ranks.h"
#include "allocator/export/chrome.h"
#include "allocator/export/memory_viz.h"
#include "allocator/export/perfetto.h"
#include "allocator/export/report_json.h"
#include "allocator/export/scalars.h"
#include "allocator/export/view_bundle.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::exporting {
namespace {

class RandomEvents : public ::testing::TestWithParam<unsigned> {
 protected:
  RandomEvents() {
    folder_ =
        std::filesystem::temp_directory_path() /
        ("levee_random_events." + std::to_string(::getpid()) + "." + std::to_string(GetParam()));
    std::filesystem::create_directories(folder_);
  }
  ~RandomEvents() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  std::uint64_t any() {
    switch (rng_() % 5) {
      case 0:
        return rng_() % 16;
      case 1:
        return (rng_() % 4096) * 512;
      case 2:
        return ~std::uint64_t{0} - rng_() % 3;
      case 3:
        return rng_() >> (rng_() % 64);
      default:
        return 1'000'000 + rng_() % 1000;
    }
  }

  void fill(test::TraceBuilder& trace) {
    trace.device(1, "second", 1_GiB);
    trace.lane(1, 9);
    for (int i = 0; i < 5; ++i)
      trace.name(std::string(rng_() % 40, static_cast<char>(rng_() % 256)));
    if (rng_() % 2 == 0) trace.mutable_coverage().dropped_events = rng_() % 3;
    std::uint64_t time = rng_() % 2 == 0 ? 0 : any() >> 1;
    const std::size_t events = rng_() % 400;
    for (std::size_t i = 0; i < events; ++i) {
      if (rng_() % 50 == 0) time = any() >> 1;
      time += rng_() % 1000;
      trace.at(Nanos{static_cast<std::int64_t>(time & INT64_MAX)});
      trace.on_lane(LaneId{static_cast<std::uint16_t>(rng_() % 4)});
      trace.on_thread(static_cast<std::uint32_t>(rng_() % 3));
      trace.emit(static_cast<EventKind>(rng_() % 30), any(), any(),
                 static_cast<std::uint16_t>(rng_() % 8 == 0 ? rng_() : rng_() % 22),
                 ContextId{static_cast<std::uint32_t>(rng_() % 8)});
    }
  }

  std::filesystem::path folder_;
  std::mt19937_64 rng_{GetParam()};
};

TEST_P(RandomEvents, ComeThroughAnalysisAndEveryExport) {
  for (int round = 0; round < 12; ++round) {
    test::TraceBuilder trace;
    fill(trace);
    analysis::AnalysisOptions options;
    options.keep_blocks = true;
    const analysis::TraceFacts facts = analyze(trace, options);
    EXPECT_FALSE(report_json(facts).empty());
    analysis::merge_ranks({&facts, &facts});
    analysis::dump(trace, {}, [](std::string_view) { return true; });
    std::string why;
    std::string written;
    std::vector<std::string> files;
    ASSERT_TRUE(write_view(facts, {}, path("view"), &why)) << why;
    ASSERT_TRUE(write_scalars(facts, path("tb"), &written, &why)) << why;
    ASSERT_TRUE(write_perfetto(facts, path("p"), &why)) << why;
    ASSERT_TRUE(write_memory_viz(facts, {}, path("m"), &why)) << why;
    ChromeOptions chrome;
    chrome.gzip = false;
    chrome.max_part_bytes = 20'000;
    chrome.max_memory_events = 50;
    ASSERT_TRUE(write_chrome(facts, chrome, path("c.json"), &files, &why)) << why;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomEvents, ::testing::Range(0U, 25U));

}  // namespace
}  // namespace levee::exporting
