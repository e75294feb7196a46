#include "allocator/record/name_table.h"

#include <gtest/gtest.h>

namespace levee::record {
namespace {

class Collect final : public DefinitionVisitor {
 public:
  void on(TraceDevice device) override { devices.push_back(std::move(device)); }
  void on(TraceLane lane) override { lanes.push_back(lane); }
  void on(TraceThread thread) override { threads.push_back(std::move(thread)); }
  void on(TracePool pool) override { pools.push_back(pool); }
  void on(const TraceContext& context) override { texts.emplace_back(context.text); }
  std::vector<TraceDevice> devices;
  std::vector<TraceLane> lanes;
  std::vector<TraceThread> threads;
  std::vector<TracePool> pools;
  std::vector<std::string> texts;
};

TEST(NameTable, TheSameThingHasTheSameIdAndIsDefinedOnce) {
  NameTable names(1_MiB);
  const ContextId forward = names.text("forward", ContextKind::kPhase);
  EXPECT_EQ(names.text("forward", ContextKind::kPhase), forward);
  EXPECT_NE(names.text("forward", ContextKind::kNote), forward);
  const LaneId lane = names.lane(DeviceId{0}, StreamId{7});
  EXPECT_EQ(names.lane(DeviceId{0}, StreamId{7}), lane);
  EXPECT_NE(names.lane(DeviceId{1}, StreamId{7}), lane);
  EXPECT_NE(names.cupti_lane(DeviceId{0}, 7), lane) << "a handle of 7 is not CUPTI's number 7";
  EXPECT_EQ(names.pool(PoolId{}), 0);
  EXPECT_EQ(names.pool(PoolId{1, 2}), names.pool(PoolId{1, 2}));
  names.describe(TraceDevice{DeviceId{0}, "GPU", 1_GiB});

  Collect told;
  for (const auto entry : names.take_new()) ASSERT_TRUE(visit_definitions(entry, told));
  EXPECT_EQ(told.texts, (std::vector<std::string>{"forward", "forward"}));
  ASSERT_EQ(told.lanes.size(), 3U);
  EXPECT_TRUE(told.lanes[2].is_cupti_number);
  EXPECT_EQ(told.pools.size(), 1U);
  EXPECT_EQ(told.devices.at(0).name, "GPU");
  EXPECT_TRUE(names.take_new().empty());
  EXPECT_EQ(names.lanes().size(), 3U);
}

TEST(NameTable, ALongTextIsCutAndStillItself) {
  NameTable names(1_MiB);
  const std::string text(200'000, 'x');
  const ContextId id = names.text(text, ContextKind::kStack);
  EXPECT_NE(id.value, 0U);
  EXPECT_EQ(names.text(text, ContextKind::kStack), id);
}

TEST(NameTable, TextsRunOutAndKnownOnesStay) {
  NameTable names(1000_B);
  const ContextId known = names.text("known", ContextKind::kNote);
  EXPECT_FALSE(names.has_run_out());
  EXPECT_EQ(names.text(std::string(1000, 'x'), ContextKind::kNote), ContextId{});
  EXPECT_TRUE(names.has_run_out());
  EXPECT_EQ(names.text("known", ContextKind::kNote), known);
}

}  // namespace
}  // namespace levee::record
