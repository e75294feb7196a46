#include "tools/simgpu/core/small_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/simgpu/core/signature.h"

namespace levee::simgpu {
namespace {

using Kind = SmallKernel::Kind;
using Op = SmallKernel::Op;

constexpr std::size_t kMostElements = 4096;
constexpr std::uint64_t kMostFillBytes = std::uint64_t{1} << 20;

std::optional<WholeType> whole_type(std::string_view name) {
  if (name == "bool") return WholeType{1, false, true};
  if (name == "unsigned char") return WholeType{1, false, false};
  if (name == "signed char" || name == "char") return WholeType{1, true, false};
  if (name == "short") return WholeType{2, true, false};
  if (name == "int") return WholeType{4, true, false};
  if (name == "long") return WholeType{8, true, false};
  return std::nullopt;
}

/// c10::ScalarType.
std::optional<WholeType> type_of_number(std::int8_t number) {
  constexpr std::array<std::string_view, 5> kIntegers = {"unsigned char", "signed char", "short",
                                                         "int", "long"};
  if (number == 11) return whole_type("bool");
  if (number < 0 || static_cast<std::size_t>(number) >= kIntegers.size()) return std::nullopt;
  return whole_type(kIntegers[static_cast<std::size_t>(number)]);
}

std::int64_t number_at(const void* from, WholeType type) {
  const auto value = [from]<typename T>(T) { return static_cast<std::int64_t>(load<T>(from, 0)); };
  switch (type.bytes) {
    case 1:
      if (type.is_bool) return load<std::uint8_t>(from, 0) != 0 ? 1 : 0;
      return type.is_signed ? value(std::int8_t{}) : value(std::uint8_t{});
    case 2:
      return value(std::int16_t{});
    case 4:
      return value(std::int32_t{});
    default:
      return value(std::int64_t{});
  }
}

void put_number(void* to, WholeType type, std::int64_t number) {
  if (type.is_bool) number = number != 0 ? 1 : 0;
  std::memcpy(to, &number, type.bytes);  // the low bytes come first
}

std::int64_t combine(Op op, std::int64_t a, std::int64_t b) {
  // Unsigned, since a program's numbers may overflow.
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (op) {
    case Op::kAnd:
      return a & b;
    case Op::kOr:
      return a | b;
    case Op::kXor:
      return a ^ b;
    case Op::kProduct:
      return static_cast<std::int64_t>(x * y);
    case Op::kMax:
      return std::max(a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kSum:
      return static_cast<std::int64_t>(x + y);
    case Op::kEqual:
      return a == b ? 1 : 0;
    case Op::kNot:
      break;
  }
  return 0;
}

bool is_mapped(Process& process, DeviceAddr at, std::uint64_t bytes) {
  return process.model().is_device_memory(at, Bytes{bytes});
}

/// Whole numbers side by side in device memory.
struct Numbers {
  DeviceAddr at;
  WholeType type;
  std::size_t count = 0;

  std::uint64_t bytes() const { return std::uint64_t{count} * type.bytes; }
  std::vector<std::int64_t> read(Process& process) const {
    std::vector<std::uint8_t> raw(static_cast<std::size_t>(bytes()));
    process.backing().read(raw.data(), at, Bytes{bytes()});
    std::vector<std::int64_t> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = number_at(raw.data() + i * type.bytes, type);
    return out;
  }
  void write(Process& process, const std::vector<std::int64_t>& numbers) const {
    std::vector<std::uint8_t> raw(static_cast<std::size_t>(bytes()));
    for (std::size_t i = 0; i < count; ++i)
      put_number(raw.data() + i * type.bytes, type, numbers[i]);
    process.backing().write(at, raw.data(), Bytes{bytes()});
  }
};

std::optional<Op> op_of(std::string_view name) {
  constexpr std::pair<std::string_view, Op> kOps[] = {{"::BitwiseAndFunctor<", Op::kAnd},
                                                      {"::BitwiseOrFunctor<", Op::kOr},
                                                      {"::BitwiseXorFunctor<", Op::kXor},
                                                      {"::CompareEqFunctor<", Op::kEqual},
                                                      {"::MulFunctor<", Op::kProduct}};
  for (const auto& [part, op] : kOps) {
    if (name.find(part) != std::string_view::npos) return op;
  }
  return std::nullopt;
}

/// The functor of an elementwise kernel.
SmallKernel elementwise(std::string_view functor, bool converts) {
  SmallKernel out;
  out.converts = converts;
  constexpr std::string_view kNot = "at::native::bitwise_not_kernel_cuda(";
  if (functor.starts_with(kNot)) {
    constexpr std::string_view kLambda = "{lambda(";
    const std::size_t at = functor.rfind(kLambda);
    const std::size_t end = functor.find(')', at);
    if (at == std::string_view::npos || end == std::string_view::npos || converts) return out;
    const auto type = whole_type(functor.substr(at + kLambda.size(), end - at - kLambda.size()));
    if (!type) return out;
    out.kind = Kind::kElementwise;
    out.op = Op::kNot;
    out.in[0] = out.out = *type;
    out.inputs = 1;
    return out;
  }
  const std::size_t open = functor.find('<');
  if (open == std::string_view::npos) return out;
  const std::string_view head = functor.substr(0, open);
  const auto arguments = template_arguments(functor, open);
  if (head == "at::native::FillFunctor" && arguments.size() == 1 && !converts) {
    out.fill_bytes = static_cast<std::uint8_t>(bytes_of_type(arguments[0]));
    if (out.fill_bytes != 0) out.kind = Kind::kFill;
    return out;
  }
  const bool is_binary = head == "at::native::BinaryFunctor";
  const bool has_first = head == "at::native::AUnaryFunctor";
  const bool has_second = head == "at::native::BUnaryFunctor";
  if ((!is_binary && !has_first && !has_second) || arguments.size() != 4) return out;
  const auto a = whole_type(trimmed(arguments[0]));
  const auto b = whole_type(trimmed(arguments[1]));
  const auto result = whole_type(trimmed(arguments[2]));
  const auto op = op_of(arguments[3]);
  if (!a || !b || !result || !op) return out;
  out.kind = Kind::kElementwise;
  out.op = *op;
  out.in[0] = *a;
  out.in[1] = *b;
  out.out = *result;
  out.inputs = is_binary ? 2 : 1;
  out.scalar = has_first ? 0 : has_second ? 1 : -1;
  return out;
}

SmallKernel reduction(std::string_view text) {
  SmallKernel out;
  const std::size_t at = text.find("at::native::ReduceOp<");
  if (at == std::string_view::npos) return out;
  const auto arguments = template_arguments(text, text.find('<', at));
  if (arguments.size() != 6 || trimmed(arguments[2]) != "unsigned int") return out;
  const auto type = whole_type(trimmed(arguments[0]));
  const auto result = whole_type(trimmed(arguments[3]));
  if (!type || !result || type->bytes != result->bytes) return out;
  constexpr std::pair<std::string_view, Op> kOps[] = {{"::MaxNanFunctor<", Op::kMax},
                                                      {"::MinNanFunctor<", Op::kMin},
                                                      {"::sum_functor<", Op::kSum},
                                                      {"at::native::or_kernel_cuda(", Op::kOr},
                                                      {"at::native::and_kernel_cuda(", Op::kAnd}};
  const std::string_view functor = trimmed(arguments[1]);
  if (!functor.starts_with("at::native::func_wrapper_t<")) return out;
  for (const auto& [part, op] : kOps) {
    if (functor.find(part) == std::string_view::npos) continue;
    out.kind = Kind::kReduce;
    out.op = op;
    out.in[0] = *type;
    out.out = *result;
    return out;
  }
  return out;
}

/// The number that a functor holds behind its operation.
std::int64_t scalar_of(const SmallKernel& kernel, const void* functor) {
  const WholeType type = kernel.in[kernel.scalar];
  const std::size_t operation = kernel.op == Op::kEqual ? sizeof(std::int32_t) : 1;
  const std::size_t at = (operation + type.bytes - 1) / type.bytes * type.bytes;
  return number_at(static_cast<const char*>(functor) + at, type);
}

std::function<void()> fill_effect(Process& process, const SmallKernel& kernel,
                                  void* const* arguments) {
  const auto count = load<std::int32_t>(arguments[0], 0);
  const DeviceAddr at{load<std::uint64_t>(arguments[2], 0)};
  if (count <= 0) return {};
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * kernel.fill_bytes;
  if (bytes > kMostFillBytes || !is_mapped(process, at, bytes)) return {};
  std::vector<std::uint8_t> value(kernel.fill_bytes);
  std::memcpy(value.data(), arguments[1], value.size());
  return [&process, at, bytes, value = std::move(value)] {
    if (std::all_of(value.begin(), value.end(), [](std::uint8_t byte) { return byte == 0; })) {
      process.backing().fill(at, 0, Bytes{bytes});
      return;
    }
    std::vector<std::uint8_t> all(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < all.size(); i += value.size())
      std::memcpy(all.data() + i, value.data(), value.size());
    process.backing().write(at, all.data(), Bytes{bytes});
  };
}

std::function<void()> elementwise_effect(Process& process, const SmallKernel& kernel,
                                         void* const* arguments) {
  const auto count = load<std::int32_t>(arguments[0], 0);
  if (count <= 0 || static_cast<std::size_t>(count) > kMostElements) return {};
  const auto elements = static_cast<std::size_t>(count);
  const std::size_t first_tensor = kernel.scalar == 0 ? 1 : 0;
  std::array<WholeType, 2> types = {kernel.in[first_tensor], kernel.in[1]};
  WholeType out_type = kernel.out;
  if (kernel.converts) {
    // unrolled_elementwise_kernel(n, f, pointers, calculator, calculator, LoadWithCast,
    // StoreWithCast)
    for (std::size_t i = 0; i < kernel.inputs; ++i) {
      const auto type = type_of_number(load<std::int8_t>(arguments[5], i));
      if (!type) return {};
      types[i] = *type;
    }
    const auto type = type_of_number(load<std::int8_t>(arguments[6], 0));
    if (!type) return {};
    out_type = *type;
  }
  const auto operand = [&](std::size_t i, WholeType type) {
    return Numbers{DeviceAddr{load<std::uint64_t>(arguments[2], i * sizeof(void*))}, type,
                   elements};
  };
  const Numbers out = operand(0, out_type);
  std::vector<Numbers> inputs;
  for (std::size_t i = 0; i < kernel.inputs; ++i) inputs.push_back(operand(i + 1, types[i]));
  if (!is_mapped(process, out.at, out.bytes())) return {};
  for (const Numbers& input : inputs) {
    if (!is_mapped(process, input.at, input.bytes())) return {};
  }
  const std::int64_t scalar = kernel.scalar >= 0 ? scalar_of(kernel, arguments[1]) : 0;
  // CompareEqFunctor holds whether it means "not equal".
  const bool negates = kernel.op == Op::kEqual && load<std::int32_t>(arguments[1], 0) != 0;
  return [&process, kernel, out, inputs = std::move(inputs), scalar, negates] {
    std::vector<std::int64_t> numbers = inputs[0].read(process);
    const std::vector<std::int64_t> second =
        inputs.size() > 1 ? inputs[1].read(process) : std::vector<std::int64_t>{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::int64_t& number = numbers[i];
      if (kernel.op == Op::kNot) {
        number = kernel.in[0].is_bool ? (number == 0 ? 1 : 0) : ~number;
      } else {
        number = combine(kernel.op, number, inputs.size() > 1 ? second[i] : scalar);
        if (negates) number = number == 0 ? 1 : 0;
      }
    }
    out.write(process, numbers);
  };
}

/// ReduceOp: the operation, its neutral element, the configuration, calculators for one and two
/// operands, the source, the results.
std::function<void()> reduction_effect(Process& process, const SmallKernel& kernel,
                                       const void* op) {
  const auto aligned = [](std::size_t at, std::size_t to) { return (at + to - 1) / to * to; };
  const std::size_t width = kernel.in[0].bytes;
  const std::size_t config = aligned(aligned(1, width) + width, alignof(std::int32_t));
  constexpr std::size_t kConfigBytes = 64;
  const auto setting = [&](std::size_t i) { return load<std::int32_t>(op, config + i * 4); };
  const std::int32_t element_bytes = setting(0);
  const std::int32_t count = setting(1);
  const std::int32_t outputs = setting(2);
  const std::size_t calculator = config + kConfigBytes;
  const auto dimensions = load<std::int32_t>(op, calculator);
  const auto size = load<std::uint32_t>(op, calculator + 4);
  const auto stride = load<std::uint32_t>(op, calculator + 4 + 25 * 12);
  const std::size_t pointers =
      aligned(calculator + (4 + 25 * 12 + 25 * 4) + (4 + 25 * 12 + 25 * 8), alignof(void*));
  if (static_cast<std::size_t>(element_bytes) != width || outputs != 1 || count <= 0 ||
      static_cast<std::size_t>(count) > kMostElements || dimensions != 1 ||
      size != static_cast<std::uint32_t>(count) || (count > 1 && stride != width))
    return {};
  const Numbers in{DeviceAddr{load<std::uint64_t>(op, pointers)}, kernel.in[0],
                   static_cast<std::size_t>(count)};
  const Numbers out{DeviceAddr{load<std::uint64_t>(op, pointers + sizeof(void*))}, kernel.out, 1};
  if (!is_mapped(process, in.at, in.bytes()) || !is_mapped(process, out.at, out.bytes())) return {};
  return [&process, kernel, in, out] {
    const std::vector<std::int64_t> numbers = in.read(process);
    std::int64_t result = numbers[0];
    for (std::size_t i = 1; i < numbers.size(); ++i)
      result = combine(kernel.op, result, numbers[i]);
    out.write(process, {result});
  };
}

}  // namespace

SmallKernel small_kernel_of_signature(const std::string& demangled) {
  const std::string_view text = demangled;
  if (text.starts_with("void at::native::reduce_kernel<")) return reduction(text);
  const bool is_plain = text.starts_with("void at::native::vectorized_elementwise_kernel<");
  const bool converts = text.starts_with("void at::native::unrolled_elementwise_kernel<");
  if (!is_plain && !converts) return {};
  const auto arguments = template_arguments(text, text.find('<'));
  if (arguments.size() < 3) return {};
  if (converts && (arguments.size() < 7 ||
                   !trimmed(arguments[5]).starts_with("at::native::memory::LoadWithCast<")))
    return {};
  return elementwise(trimmed(arguments[is_plain ? 1 : 0]), converts);
}

std::function<void()> effect_of_small_kernel(Process& process, const SmallKernel& kernel,
                                             void* const* arguments) {
  switch (kernel.kind) {
    case Kind::kFill:
      return fill_effect(process, kernel, arguments);
    case Kind::kElementwise:
      return elementwise_effect(process, kernel, arguments);
    case Kind::kReduce:
      return reduction_effect(process, kernel, arguments[0]);
    case Kind::kNone:
      break;
  }
  return {};
}

}  // namespace levee::simgpu
