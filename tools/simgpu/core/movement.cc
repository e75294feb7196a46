#include "tools/simgpu/core/movement.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/simgpu/core/signature.h"

namespace levee::simgpu {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMostDimensions = 25;  // at::cuda::detail::OffsetCalculator
constexpr std::size_t kConcatDimensions = 4;

/// Sizes and strides of one side of a copy, innermost last; in elements or bytes, as the user says.
struct Layout {
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> strides;

  /// Units from the first to behind the last.
  std::uint64_t extent() const {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
    return last + 1;
  }
};

/// One piece of memory, host copy of it.
struct Window {
  DeviceAddr base;
  std::vector<std::uint8_t> bytes;
};

bool read(Process& process, Window& window) {
  return process.backing().read(window.bytes.data(), window.base, Bytes{window.bytes.size()});
}

bool is_mapped(Process& process, DeviceAddr at, std::uint64_t bytes) {
  return process.model().is_device_memory(at, Bytes{bytes});
}

/// `copy(to, from)` element by element of equal shape, where `strides` are in bytes.
void copy_elements(std::uint8_t* to, const std::vector<std::uint64_t>& to_strides,
                   const std::uint8_t* from, const std::vector<std::uint64_t>& from_strides,
                   const std::vector<std::uint64_t>& sizes, std::size_t element_bytes) {
  std::vector<std::uint64_t> at(sizes.size(), 0);
  while (true) {
    std::uint64_t to_offset = 0;
    std::uint64_t from_offset = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      to_offset += at[i] * to_strides[i];
      from_offset += at[i] * from_strides[i];
    }
    std::memcpy(to + to_offset, from + from_offset, element_bytes);
    std::size_t i = sizes.size();
    while (i > 0 && ++at[i - 1] == sizes[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

/// One tensor to another of the same shape; strides in bytes.
struct ElementCopy {
  DeviceAddr to;
  DeviceAddr from;
  Layout to_layout;
  Layout from_layout;
  std::uint32_t element_bytes = 0;

  std::uint64_t to_bytes() const { return to_layout.extent() - 1 + element_bytes; }
  std::uint64_t from_bytes() const { return from_layout.extent() - 1 + element_bytes; }
};

void run(Process& process, const std::vector<ElementCopy>& copies) {
  for (const ElementCopy& copy : copies) {
    const Bytes all{copy.to_bytes()};
    if (!process.backing().holds(copy.to, all) &&
        !process.backing().holds(copy.from, Bytes{copy.from_bytes()}))
      continue;  // zeros over zeros
    Window to{copy.to, std::vector<std::uint8_t>(copy.to_bytes())};
    Window from{copy.from, std::vector<std::uint8_t>(copy.from_bytes())};
    if (!read(process, to) || !read(process, from)) continue;
    copy_elements(to.bytes.data(), copy.to_layout.strides, from.bytes.data(),
                  copy.from_layout.strides, copy.to_layout.sizes, copy.element_bytes);
    process.backing().write(copy.to, to.bytes.data(), all);
  }
}

/// Checked against what is mapped, and bounded.
bool is_usable(Process& process, const ElementCopy& copy) {
  return copy.to_bytes() <= kMostBytes && copy.from_bytes() <= kMostBytes &&
         is_mapped(process, copy.to, copy.to_bytes()) &&
         is_mapped(process, copy.from, copy.from_bytes());
}

/// An OffsetCalculator<operands> of PyTorch, and the pointers behind it: how many dimensions, for
/// each (innermost first) a divider, for each the strides of all operands in bytes. What lies
/// behind the last dimension was never written.
class Operands {
 public:
  explicit Operands(const void* lambda) : lambda_(lambda) {}

  /// False unless the sizes make up `count` elements.
  bool fits(std::int32_t count) const {
    const std::int32_t dimensions = load<std::int32_t>(lambda_, 0);
    if (count <= 0 || dimensions < 0 || dimensions > static_cast<std::int32_t>(kMostDimensions))
      return false;
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
      elements *= size(i);
      if (elements == 0 || elements > static_cast<std::uint64_t>(count)) return false;
    }
    return elements == static_cast<std::uint64_t>(count);
  }
  std::size_t dimensions() const {
    return static_cast<std::size_t>(load<std::int32_t>(lambda_, 0));
  }
  std::uint32_t size(std::size_t dimension) const {
    return load<std::uint32_t>(lambda_, kSizes + dimension * kDividerBytes);
  }
  std::uint32_t stride(std::size_t dimension, std::size_t operand, std::size_t operands) const {
    return load<std::uint32_t>(lambda_,
                               kStrides + (dimension * operands + operand) * sizeof(std::uint32_t));
  }
  DeviceAddr pointer(std::size_t operand, std::size_t operands) const {
    const std::size_t end = kStrides + kMostDimensions * operands * sizeof(std::uint32_t);
    const std::size_t aligned = (end + alignof(void*) - 1) / alignof(void*) * alignof(void*);
    return DeviceAddr{load<std::uint64_t>(lambda_, aligned + operand * sizeof(void*))};
  }

 private:
  static constexpr std::size_t kDividerBytes = 3 * sizeof(std::uint32_t);  // the divisor first
  static constexpr std::size_t kSizes = sizeof(std::int32_t);
  static constexpr std::size_t kStrides = kSizes + kMostDimensions * kDividerBytes;

  const void* lambda_;
};

/// elementwise_kernel(int n, lambda) with two operands.
std::vector<ElementCopy> layout_copies(Process& process, const Movement& movement,
                                       void* const* arguments) {
  const Operands operands(arguments[1]);
  if (!operands.fits(load<std::int32_t>(arguments[0], 0))) return {};
  ElementCopy copy;
  copy.element_bytes = movement.element_bytes;
  copy.to = operands.pointer(0, 2);
  copy.from = operands.pointer(1, 2);
  for (std::size_t i = operands.dimensions(); i-- > 0;) {
    copy.to_layout.sizes.push_back(operands.size(i));
    copy.from_layout.sizes.push_back(operands.size(i));
    copy.to_layout.strides.push_back(operands.stride(i, 0, 2));
    copy.from_layout.strides.push_back(operands.stride(i, 1, 2));
  }
  if (!is_usable(process, copy)) return {};
  return {std::move(copy)};
}

/// CatArrayBatchedCopy*(output, inputs, output's sizes and strides, dimension, stride of it):
/// inputs holds arrays of `batch`: pointers, offsets, sizes of the dimension, numbers of elements,
/// whether contiguous; then sizes and strides.
std::vector<ElementCopy> concatenation_copies(Process& process, const Movement& movement,
                                              void* const* arguments, std::uint32_t inputs) {
  const std::size_t batch = movement.batch;
  if (inputs == 0 || inputs > batch) return {};
  using Numbers = std::array<std::uint32_t, kConcatDimensions>;
  const DeviceAddr output{load<std::uint64_t>(arguments[0], 0)};
  const void* metadata = arguments[1];
  const std::size_t offsets = batch * sizeof(void*);
  const std::size_t dimension_sizes = offsets + batch * sizeof(std::uint32_t);
  const std::size_t counts = dimension_sizes + batch * sizeof(std::uint32_t);
  const std::size_t contiguous = counts + batch * sizeof(std::uint32_t);
  const std::size_t layouts = contiguous + batch;  // a multiple of 4, as batch is
  const auto out_sizes = load<Numbers>(arguments[2], 0);
  const auto out_strides = load<Numbers>(arguments[2], sizeof(Numbers));
  const auto axis = load<std::int32_t>(arguments[3], 0);
  const auto axis_stride = load<std::uint32_t>(arguments[4], 0);
  const std::size_t rank = movement.dimensions;
  if (rank < 1 || rank > kConcatDimensions || axis < 0 || static_cast<std::size_t>(axis) >= rank)
    return {};
  const std::uint32_t unit =
      movement.vector_bytes != 0 ? movement.vector_bytes : movement.element_bytes;
  const std::uint32_t each = movement.vector_bytes != 0 ? movement.vector_elements : 1;

  std::vector<ElementCopy> copies;
  std::uint64_t all_bytes = 0;
  for (std::size_t i = 0; i < inputs; ++i) {
    const auto count = load<std::uint32_t>(metadata, counts + i * sizeof(std::uint32_t)) / each;
    if (count == 0) continue;
    // In vectors the dimension's own stride counts elements; the other numbers count vectors.
    std::uint64_t offset = load<std::uint32_t>(metadata, offsets + i * sizeof(std::uint32_t));
    std::uint64_t axis_size =
        load<std::uint32_t>(metadata, dimension_sizes + i * sizeof(std::uint32_t));
    offset *= axis_stride;
    if (movement.vector_bytes != 0) {
      offset /= each;
      axis_size = axis_size * axis_stride / each;
    }
    ElementCopy copy;
    copy.element_bytes = unit;
    copy.to = output + Bytes{offset * unit};
    copy.from = DeviceAddr{load<std::uint64_t>(metadata, i * sizeof(void*))};
    std::uint64_t inner = 1;  // the outermost size is what is left of the count
    for (std::size_t d = 1; d < rank; ++d)
      inner *= d == static_cast<std::size_t>(axis) ? axis_size : out_sizes[d];
    if (inner == 0 || count % inner != 0) return {};
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t size = d == 0                                ? count / inner
                                 : d == static_cast<std::size_t>(axis) ? axis_size
                                                                       : out_sizes[d];
      copy.to_layout.sizes.push_back(size);
      copy.to_layout.strides.push_back(std::uint64_t{out_strides[d]} * unit);
    }
    copy.from_layout.sizes = copy.to_layout.sizes;
    copy.from_layout.strides.assign(rank, 0);
    if (movement.vector_bytes != 0 || load<bool>(metadata, contiguous + i)) {
      std::uint64_t stride = unit;
      for (std::size_t d = rank; d-- > 0; stride *= copy.from_layout.sizes[d])
        copy.from_layout.strides[d] = stride;
    } else {
      const auto strides =
          load<Numbers>(metadata, layouts + i * 2 * sizeof(Numbers) + sizeof(Numbers));
      for (std::size_t d = 0; d < rank; ++d)
        copy.from_layout.strides[d] = std::uint64_t{strides[d]} * unit;
    }
    all_bytes += std::uint64_t{count} * unit;
    if (all_bytes > kMostBytes || !is_usable(process, copy)) return {};
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace

Movement movement_of_signature(const std::string& demangled) {
  const std::string_view text = demangled;
  Movement out;
  if (const std::size_t at = text.find("::CatArrayBatchedCopy"); at != std::string_view::npos) {
    const std::size_t open = text.find('<', at);
    if (open == std::string_view::npos) return out;
    const auto arguments = template_arguments(text, open);
    if (arguments.size() < 5 || arguments[1] != " unsigned int") return out;
    out.element_bytes = bytes_of_type(arguments[0]);
    out.dimensions = number(arguments[2]).value_or(0);
    out.batch = number(arguments[3]).value_or(0);
    if (text.substr(at, open - at).ends_with("_vectorized")) {
      if (arguments.size() < 7) return out;
      out.vector_bytes = number(arguments[5]).value_or(0);
      out.vector_elements = number(arguments[6]).value_or(0);
      if (out.vector_bytes == 0 || out.vector_elements == 0) return out;
    }
    if (out.element_bytes != 0 && out.dimensions != 0 && out.batch != 0 && out.batch % 4 == 0)
      out.kind = Movement::Kind::kConcatenate;
    return out;
  }
  // gpu_kernel_impl_nocast's lambda holds an OffsetCalculator and two pointers, in this order; the
  // copy itself is a lambda from a type to the same. (The kernels that convert come from
  // gpu_kernel_impl.)
  constexpr std::string_view kCopy =
      "at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(";
  constexpr std::string_view kLambda = "{lambda(";
  const std::size_t at = text.find(kCopy);
  const std::size_t end = text.find(")#1}>(", at);
  if (!text.starts_with("void at::native::elementwise_kernel<") || end == std::string_view::npos)
    return out;
  const std::size_t lambda = text.rfind(kLambda, end);
  if (lambda == std::string_view::npos || lambda < at) return out;
  const std::string_view name = text.substr(lambda + kLambda.size(), end - lambda - kLambda.size());
  out.element_bytes = bytes_of_type(name);
  if (out.element_bytes != 0) out.kind = Movement::Kind::kLayout;
  return out;
}

StridedOutput strided_output(Process& process, const void* count, const void* lambda) {
  constexpr std::size_t kMostOperands = 6;
  const auto elements = load<std::int32_t>(count, 0);
  const Operands operands(lambda);
  if (!operands.fits(elements) || operands.dimensions() == 0) return {};
  // How many operands there are is seen from where the pointers are; one alone is the weakest sign.
  for (const std::size_t many : {std::size_t{2}, std::size_t{3}, std::size_t{4}, std::size_t{5},
                                 kMostOperands, std::size_t{1}}) {
    bool are_pointers = true;
    for (std::size_t i = 0; i < many && are_pointers; ++i)
      are_pointers = is_mapped(process, operands.pointer(i, many), 1);
    if (!are_pointers) continue;
    std::uint64_t last = 0;
    std::uint64_t element_bytes = ~std::uint64_t{0};
    for (std::size_t i = 0; i < operands.dimensions(); ++i) {
      const std::uint64_t stride = operands.stride(i, 0, many);
      last += (operands.size(i) - 1) * stride;
      if (operands.size(i) > 1) element_bytes = std::min(element_bytes, stride);
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * element_bytes;
    if (element_bytes == 0 || element_bytes > 16 || last + element_bytes != bytes) return {};
    return {operands.pointer(0, many), Bytes{bytes}};
  }
  return {};
}

std::function<void()> effect_of_movement(Process& process, const Movement& movement,
                                         void* const* arguments, std::uint32_t inputs) {
  std::vector<ElementCopy> copies =
      movement.kind == Movement::Kind::kLayout
          ? layout_copies(process, movement, arguments)
          : concatenation_copies(process, movement, arguments, inputs);
  if (copies.empty()) return {};
  return [&process, copies = std::move(copies)] { run(process, copies); };
}

}  // namespace levee::simgpu
