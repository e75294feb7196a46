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
  EXPECT_FALSE(outputs[0].is_strided);
}

TEST(KernelOutputs, StridedKernelsTellByTheirLambdaAndOthersOfThatKindNotAtAll) {
  const std::string functor =
      "at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctorOnSelf_add<float> "
      ">(at::TensorIteratorBase&, at::native::CUDAFunctorOnSelf_add<float> "
      "const&)::{lambda(int)#1}";
  const auto outputs = outputs_of_signature("void at::native::elementwise_kernel<128, 2, " +
                                            functor + ">(int, " + functor + ")");
  ASSERT_THAT(outputs, SizeIs(1));
  EXPECT_EQ(outputs[0].index, 1);
  EXPECT_TRUE(outputs[0].is_strided);
  // What lies where in these is not known; what they write is new memory nearly always.
  EXPECT_THAT(outputs_of_signature(
                  "void at::native::index_elementwise_kernel<128, 4, {lambda(int)#1}>(long, "
                  "{lambda(int)#1})"),
              IsEmpty());
  EXPECT_THAT(
      outputs_of_signature("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                           "at::native::func_wrapper_t<float, {lambda(float, "
                           "float)#1}>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, "
                           "at::native::func_wrapper_t<float, {lambda(float, "
                           "float)#1}>, unsigned int, float, 4, 4>)"),
      IsEmpty());
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

TEST(KernelOutputs, ViewsTellTheWidthOfTheirSizes) {
  const auto outputs = outputs_of_signature(
      "void f<long>(at::cuda::detail::TensorInfo<long, unsigned int>, "
      "at::cuda::detail::TensorInfo<long, unsigned long>, "
      "at::cuda::detail::TensorInfo<long const, unsigned int>)");
  ASSERT_THAT(outputs, SizeIs(2));
  EXPECT_EQ(outputs[0].view_index_bytes, 4);
  EXPECT_EQ(outputs[1].view_index_bytes, 8);
  EXPECT_EQ(outputs[1].element_bytes, 8);
}

TEST(Movements, ConcatenationsAreKnownByName) {
  const std::string tail =
      "(at::native::(anonymous namespace)::OpaqueType<8u>*, "
      "at::native::(anonymous namespace)::CatArrInputTensorMetadata<at::native::(anonymous "
      "namespace)::OpaqueType<8u>, unsigned int, 128, 1>, at::native::(anonymous "
      "namespace)::TensorSizeStride<unsigned int, 4u>, int, unsigned int)";
  const Movement contiguous = movement_of_signature(
      "void at::native::(anonymous "
      "namespace)::CatArrayBatchedCopy_contig<at::native::(anonymous namespace)::OpaqueType<8u>, "
      "unsigned int, 3, 128, 1>" +
      tail);
  EXPECT_EQ(contiguous.kind, Movement::Kind::kConcatenate);
  EXPECT_EQ(contiguous.element_bytes, 8U);
  EXPECT_EQ(contiguous.dimensions, 3U);
  EXPECT_EQ(contiguous.batch, 128U);
  EXPECT_EQ(contiguous.vector_bytes, 0U);
  const Movement vectors = movement_of_signature(
      "void at::native::(anonymous "
      "namespace)::CatArrayBatchedCopy_vectorized<at::native::(anonymous "
      "namespace)::OpaqueType<1u>, unsigned int, 2, 64, 64, 16, 8>" +
      tail);
  EXPECT_EQ(vectors.kind, Movement::Kind::kConcatenate);
  EXPECT_EQ(vectors.vector_bytes, 16U);
  EXPECT_EQ(vectors.vector_elements, 8U);
  // Other indices than those whose structures are known.
  EXPECT_EQ(
      movement_of_signature(
          "void at::native::(anonymous "
          "namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<8u>, "
          "unsigned long, 3, 128, 1>" +
          tail)
          .kind,
      Movement::Kind::kNone);
}

TEST(Movements, CopiesOfATypeToItselfAreKnownAndConversionsAreNot) {
  const auto copy = [](const std::string& implementation, const std::string& type) {
    const std::string lambda =
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
        "const::{lambda()#7}::operator()() const::{lambda(" +
        type + ")#1}";
    const std::string functor = "at::native::" + implementation + "<" + lambda +
                                ">(at::TensorIteratorBase&, " + lambda +
                                " const&)::{lambda(int)#1}";
    return movement_of_signature("void at::native::elementwise_kernel<128, 2, " + functor +
                                 ">(int, " + functor + ")");
  };
  EXPECT_EQ(copy("gpu_kernel_impl_nocast", "float").kind, Movement::Kind::kLayout);
  EXPECT_EQ(copy("gpu_kernel_impl_nocast", "float").element_bytes, 4U);
  EXPECT_EQ(copy("gpu_kernel_impl_nocast", "c10::complex<double>").element_bytes, 16U);
  EXPECT_EQ(copy("gpu_kernel_impl_nocast", "c10::SomethingNew").kind, Movement::Kind::kNone);
  EXPECT_EQ(copy("gpu_kernel_impl", "float").kind, Movement::Kind::kNone);
}

TEST(SmallKernels, AreKnownByTheirFunctorsAndTypes) {
  const auto plain = [](const std::string& functor, int operands) {
    const std::string array = "std::array<char*, " + std::to_string(operands) + "ul>";
    return small_kernel_of_signature("void at::native::vectorized_elementwise_kernel<4, " +
                                     functor + ", " + array + ", false>(int, " + functor + ", " +
                                     array + ")");
  };
  const SmallKernel fill = plain("at::native::FillFunctor<c10::BFloat16>", 1);
  EXPECT_EQ(fill.kind, SmallKernel::Kind::kFill);
  EXPECT_EQ(fill.fill_bytes, 2);
  const SmallKernel both =
      plain("at::native::BinaryFunctor<bool, bool, bool, at::native::BitwiseOrFunctor<bool> >", 3);
  EXPECT_EQ(both.kind, SmallKernel::Kind::kElementwise);
  EXPECT_EQ(both.op, SmallKernel::Op::kOr);
  EXPECT_EQ(both.inputs, 2);
  EXPECT_TRUE(both.out.is_bool);
  const SmallKernel equal = plain(
      "at::native::AUnaryFunctor<long, long, bool, at::native::(anonymous "
      "namespace)::CompareEqFunctor<long> >",
      2);
  EXPECT_EQ(equal.op, SmallKernel::Op::kEqual);
  EXPECT_EQ(equal.scalar, 0);
  EXPECT_EQ(equal.in[1].bytes, 8);
  EXPECT_EQ(equal.out.bytes, 1);
  // Floating point stays without effect, and so does what has another operation.
  EXPECT_EQ(plain("at::native::BinaryFunctor<float, float, float, "
                  "at::native::binary_internal::MulFunctor<float> >",
                  3)
                .kind,
            SmallKernel::Kind::kNone);
  EXPECT_EQ(
      plain("at::native::BinaryFunctor<long, long, long, at::native::SomeFunctor<long> >", 3).kind,
      SmallKernel::Kind::kNone);
}

TEST(SmallKernels, ReductionsOfWholeNumbersAreKnown) {
  const auto reduce = [](const std::string& type, const std::string& functor) {
    const std::string op = "at::native::ReduceOp<" + type + ", at::native::func_wrapper_t<" + type +
                           ", " + functor + ">, unsigned int, " + type + ", 4, 4>";
    return small_kernel_of_signature("void at::native::reduce_kernel<512, 1, " + op + " >(" + op +
                                     ")");
  };
  EXPECT_EQ(reduce("long", "at::native::MaxNanFunctor<long> ").kind, SmallKernel::Kind::kReduce);
  EXPECT_EQ(reduce("long", "at::native::MaxNanFunctor<long> ").op, SmallKernel::Op::kMax);
  EXPECT_EQ(reduce("float", "at::native::MaxNanFunctor<float> ").kind, SmallKernel::Kind::kNone);
  EXPECT_EQ(reduce("long", "at::native::ProdFunctor<long> ").kind, SmallKernel::Kind::kNone);
  EXPECT_EQ(small_kernel_of_signature("void at::native::reduce_kernel<").kind,
            SmallKernel::Kind::kNone);
  EXPECT_EQ(small_kernel_of_signature("").kind, SmallKernel::Kind::kNone);
}

}  // namespace
}  // namespace levee::simgpu
