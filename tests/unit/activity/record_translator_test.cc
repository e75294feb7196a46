#include "allocator/activity/record_translator.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "allocator/activity/cupti_library.h"
#include "allocator/base/clock.h"
#include "tests/unit/activity/fake_cupti.h"

namespace levee::activity {
namespace {

class RecordTranslatorTest : public ::testing::Test {
 protected:
  RecordTranslatorTest() {
    fake_cupti_reset();
    std::string why;
    EXPECT_TRUE(cupti.load(LEVEE_FAKE_CUPTI, {}, &why)) << why;
    recorder = record::TraceRecorder::create({});
  }
  CuptiLibrary cupti;
  std::unique_ptr<record::TraceRecorder> recorder;  // never starts: nothing is written
};

TEST_F(RecordTranslatorTest, ABufferWithoutRecordsIsNothing) {
  RecordTranslator translator(*recorder, cupti);
  alignas(8) std::uint8_t buffer[64] = {};
  EXPECT_EQ(translator.translate(buffer, 0), 0U);
  EXPECT_EQ(translator.totals().kernels, 0U);
}

TEST_F(RecordTranslatorTest, ANameThatMovesIntoAnothersMemoryIsNoticed) {
  RecordTranslator translator(*recorder, cupti);
  char name[16] = "first";
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.name = name;
  kernel.start = 1;
  kernel.end = 2;
  alignas(8) std::uint8_t buffer[sizeof(kernel)];
  for (const char* text : {"first", "second", "first"}) {
    std::strcpy(name, text);
    std::memcpy(buffer, &kernel, sizeof(kernel));
    EXPECT_EQ(translator.translate(buffer, sizeof(buffer)), 1U);
  }
  EXPECT_EQ(translator.totals().kernels, 3U);
  EXPECT_NE(recorder->intern("second", record::ContextKind::kKernel),
            recorder->intern("first", record::ContextKind::kKernel));
}

TEST_F(RecordTranslatorTest, TranslatingIsCheap) {
  // A bound that only a mistake exceeds: measured 0.1 us, allowed 20 us. A slower translation would
  // hold CUPTI's thread up.
  RecordTranslator translator(*recorder, cupti);
  std::vector<std::uint8_t> buffer(5000 * sizeof(CUpti_ActivityKernel10));
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>";
  kernel.streamId = 7;
  kernel.start = 1;
  kernel.end = 2;
  for (std::size_t i = 0; i < 5000; ++i)
    std::memcpy(buffer.data() + i * sizeof(kernel), &kernel, sizeof(kernel));
  const Nanos start = base::Clock::now();
  ASSERT_EQ(translator.translate(buffer.data(), buffer.size()), 5000U);
  const double each = static_cast<double>((base::Clock::now().value - start.value)) / 5000;
  RecordProperty("ns_a_kernel", std::to_string(each));
  EXPECT_LT(each, 20'000);
}

}  // namespace
}  // namespace levee::activity
