// The grammar of the SIMGPU_* variables.
#include "tools/simgpu/core/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Settings parse(SettingsText text) {
  std::string problem;
  Settings out = parse_settings(text, &problem);
  EXPECT_EQ(problem, "");
  return out;
}

std::string problem_of(SettingsText text) {
  std::string problem;
  parse_settings(text, &problem);
  return problem;
}

SettingsText gpu(const char* value) {
  SettingsText text;
  text.gpu = value;
  return text;
}

TEST(Settings, SizesHaveBinaryUnitsAndFractions) {
  EXPECT_EQ(parse_size("24GiB"), 24_GiB);
  EXPECT_EQ(parse_size("24gb"), 24_GiB);
  EXPECT_EQ(parse_size("1.5GiB"), 1536_MiB);
  EXPECT_EQ(parse_size("512MiB"), 512_MiB);
  EXPECT_EQ(parse_size("1048576"), 1_MiB);
  for (const char* bad : {"", "GiB", "24 GiB", "-1GiB", "1e400", "24XB", "nan"})
    EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
}

TEST(Settings, ACardIsDescribedBySizeNameCountUseAndCapability) {
  const Settings settings =
      parse(gpu("24GiB,name=RTX 4090,count=3,used=2GiB,cc=8.6,context=300MiB"));
  EXPECT_EQ(settings.memory, 24_GiB);
  EXPECT_EQ(settings.name, "simgpu RTX 4090");
  EXPECT_EQ(settings.count, 3);
  EXPECT_EQ(settings.used_by_others, 2_GiB);
  EXPECT_EQ(settings.context, 300_MiB);
  EXPECT_EQ(settings.card.multiprocessors, 128);
  EXPECT_EQ(settings.card.compute_major, 8);
  EXPECT_EQ(settings.card.compute_minor, 6);
}

TEST(Settings, ANameAloneBringsThatCardsMemory) {
  EXPECT_EQ(parse(gpu("name=H200")).memory, 141_GiB);
  EXPECT_EQ(parse(gpu("name=NVIDIA L40S")).card.multiprocessors, 142);  // not the L4
  EXPECT_EQ(parse(gpu("name=NVIDIA A10G")).memory, 24_GiB);
}

TEST(Settings, EveryNameSaysThatTheCardIsSimulated) {
  for (const char* spec : {"", "8GiB", "name=H100", "name=My SimGPU"}) {
    std::string lower = parse(gpu(spec)).name;
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    EXPECT_THAT(lower, HasSubstr("simgpu")) << spec;
  }
}

TEST(Settings, AWrongValueIsNamedWithItsVariable) {
  EXPECT_THAT(problem_of(gpu("24Gib,colour=red")),
              HasSubstr("SIMGPU_GPU: \"colour=red\" is not known"));
  EXPECT_THAT(problem_of(gpu("24XB")), HasSubstr("\"24XB\" is not a card's memory"));
  EXPECT_THAT(problem_of(gpu("1GiB,count=0")), HasSubstr("1 to 16"));
  EXPECT_THAT(problem_of(gpu("1GiB,cc=8")), HasSubstr("compute capability"));
  EXPECT_THAT(problem_of(gpu("1GiB,used=2GiB")), HasSubstr("more than the card's memory"));
  SettingsText judge;
  judge.judge = "loud";
  EXPECT_THAT(problem_of(judge), HasSubstr("SIMGPU_JUDGE: \"loud\" is not known"));
  SettingsText set;
  set.set = "cudnn_workspace";
  EXPECT_THAT(problem_of(set), HasSubstr("SIMGPU_SET"));
  set.set = "cudnn_workspace=1MiB,nccl_byte=3";
  EXPECT_THAT(problem_of(set), HasSubstr("\"nccl_byte\" is not the name of a setting; there are"));
}

TEST(Settings, TheBackingStoreIsASizeOrAllOrNothing) {
  SettingsText text;
  text.backing = "full";
  EXPECT_EQ(parse(text).backing_limit, std::nullopt);
  text.backing = "off";
  EXPECT_EQ(parse(text).backing_limit, 0_B);
  text.backing = "64MiB";
  EXPECT_EQ(parse(text).backing_limit, 64_MiB);
}

TEST(Settings, NumbersForTheLibrariesAreKeptByName) {
  SettingsText text;
  text.set = "cudnn_workspace=64MiB, nccl_timeout_s=3";
  const Settings settings = parse(text);
  EXPECT_EQ(settings.named.at("cudnn_workspace"), 64U << 20);
  EXPECT_EQ(settings.named.at("nccl_timeout_s"), 3U);
}

TEST(Settings, VisibleDevicesAreReadAsCudaReadsThem) {
  EXPECT_THAT(parse_visible(nullptr, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(parse_visible("2,0", 3), ElementsAre(2, 0));
  EXPECT_THAT(parse_visible("1,7,0", 3),
              ElementsAre(1));  // the first that does not exist ends the list
  EXPECT_THAT(parse_visible("", 3), IsEmpty());
  EXPECT_THAT(parse_visible("-1", 3), IsEmpty());
  EXPECT_THAT(parse_visible("0,0", 3), IsEmpty());
  EXPECT_THAT(parse_visible("GPU-73696d67-7075-0000-0000-000000000002", 3), ElementsAre(2));
}

}  // namespace
}  // namespace levee::simgpu
