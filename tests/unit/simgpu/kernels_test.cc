// The table of kernels, and what a signature tells about what a kernel writes.
#include "tools/simgpu/core/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace levee::simgpu {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(KernelTable, FindsByStubByHandleAndByName) {
  KernelTable table;
  int stub = 0;
  Kernel* kernel = table.add(&stub, "_Z4scalePfi", nullptr);
  EXPECT_EQ(table.find(&stub), kernel);
  EXPECT_EQ(table.find(kernel), kernel);
  EXPECT_EQ(table.find_by_name(kernel->name()), kernel);
  EXPECT_STREQ(kernel->name(), "_Z4scalePfi");
  int other = 0;
  EXPECT_EQ(table.find(&other), nullptr);
  EXPECT_EQ(table.find(nullptr), nullptr);
}

TEST(KernelTable, ASecondRegistrationReplacesTheFirst) {
  KernelTable table;
  int stub = 0;
  table.add(&stub, "first", nullptr);
  Kernel* second = table.add(&stub, "second", nullptr);
  EXPECT_EQ(table.find(&stub), second);
  EXPECT_EQ(table.size(), 2U);
}

TEST(KernelTable, ReadersGoOnWhileItGrows) {
  KernelTable table;
  std::vector<char> stubs(60'000);
  table.add(&stubs[0], "first", nullptr);
  std::atomic<bool> is_done{false};
  std::thread reader([&] {
    while (!is_done.load()) ASSERT_STREQ(table.find(&stubs[0])->name(), "first");
  });
  for (std::size_t i = 1; i < stubs.size(); ++i) table.add(&stubs[i], "next", nullptr);
  is_done.store(true);
  reader.join();
  for (char& stub : stubs) ASSERT_NE(table.find(&stub), nullptr);
}

TEST(KernelOutputs, WritablePointersAreOutputsAndConstOnesAreNot) {
  const auto outputs = outputs_of_signature(
      "void f<float>(float const*, float*, long, double* restrict, int const* restrict)");
  ASSERT_THAT(outputs, SizeIs(2));
  EXPECT_EQ(outputs[0].index, 1);
  EXPECT_EQ(outputs[0].element_bytes, 4);
  EXPECT_EQ(outputs[1].index, 3);
  EXPECT_EQ(outputs[1].element_bytes, 8);
  EXPECT_EQ(outputs[1].count_index, -1);
}

TEST(KernelOutputs, ElementwiseKernelsWriteTheirFirstPointerAsOftenAsTheySay) {
  const auto outputs = outputs_of_signature(
      "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<double>, "
      "std::array<char*, 1ul> >(int, "
      "at::native::FillFunctor<double>, std::array<char*, 1ul>)");
  ASSERT_THAT(outputs, SizeIs(1));
  EXPECT_EQ(outputs[0].index, 2);
  EXPECT_EQ(outputs[0].count_index, 0);
  EXPECT_EQ(outputs[0].element_bytes, 8);
  EXPECT_FALSE(outputs[0].search);
}

TEST(KernelOutputs, ReductionsWriteBehindTheirSource) {
  const auto outputs = outputs_of_signature(
      "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
      "at::native::func_wrapper_t<float, {lambda(float, "
      "float)#1}>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, "
      "at::native::func_wrapper_t<float, {lambda(float, "
      "float)#1}>, unsigned int, float, 4, 4>)");
  ASSERT_THAT(outputs, SizeIs(1));
  EXPECT_TRUE(outputs[0].search);
  EXPECT_EQ(outputs[0].skip_pointers, 1);
}

TEST(KernelOutputs, TensorViewsOfConstElementsAreInputs) {
  const auto outputs = outputs_of_signature(
      "void f<>(at::cuda::detail::TensorInfo<float, unsigned int>, "
      "at::cuda::detail::TensorInfo<float const, unsigned int>, "
      "unsigned int)");
  ASSERT_THAT(outputs, SizeIs(1));
  EXPECT_EQ(outputs[0].index, 0);
}

TEST(KernelOutputs, NamesWithoutASignatureTellNothing) {
  EXPECT_THAT(outputs_of_signature("triton_poi_fused_add_0"), IsEmpty());
  EXPECT_THAT(outputs_of_signature(""), IsEmpty());
  EXPECT_THAT(outputs_of_signature(")"), IsEmpty());
  EXPECT_THAT(outputs_of_signature("void f()"), IsEmpty());
}

}  // namespace
}  // namespace levee::simgpu
