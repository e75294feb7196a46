#include "tools/simgpu/stubs/nccl/numbers.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace levee::simgpu::nccl {
namespace {

/// How a type is kept, and what it is computed in.
template <typename Stored, typename Computed>
struct Format {
  using Value = Computed;
  static constexpr std::size_t kBytes = sizeof(Stored);

  static Computed load(const std::byte* from) {
    Stored stored;
    std::memcpy(static_cast<void*>(&stored), from, sizeof stored);
    return static_cast<Computed>(stored);
  }
  static void store(Computed value, std::byte* to) {
    const Stored stored(value);
    std::memcpy(to, static_cast<const void*>(&stored), sizeof stored);
  }
};

/// Calls `use` with the format of a type; does nothing for a type that does not exist.
template <typename Use>
void with_format(ncclDataType_t type, Use use) {
  switch (type) {
    case ncclInt8:
      return use(Format<std::int8_t, std::int8_t>{});
    case ncclUint8:
      return use(Format<std::uint8_t, std::uint8_t>{});
    case ncclInt32:
      return use(Format<std::int32_t, std::int32_t>{});
    case ncclUint32:
      return use(Format<std::uint32_t, std::uint32_t>{});
    case ncclInt64:
      return use(Format<std::int64_t, std::int64_t>{});
    case ncclUint64:
      return use(Format<std::uint64_t, std::uint64_t>{});
    case ncclFloat16:
      return use(Format<__half, float>{});
    case ncclFloat32:
      return use(Format<float, float>{});
    case ncclFloat64:
      return use(Format<double, double>{});
    case ncclBfloat16:
      return use(Format<__nv_bfloat16, float>{});
    case ncclFloat8e4m3:
      return use(Format<__nv_fp8_e4m3, float>{});
    case ncclFloat8e5m2:
      return use(Format<__nv_fp8_e5m2, float>{});
    default:
      return;
  }
}

/// Sum and product of integers wrap around, which signed arithmetic may not.
template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename T>
T combine(ncclRedOp_t op, T a, T b) {
  switch (op) {
    case ncclProd:
      return multiply(a, b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return add(a, b);  // sums, averages, and sums of contributions that were scaled before
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  std::size_t bytes = 0;
  with_format(type, [&](auto format) { bytes = format.kBytes; });
  return bytes;
}

void reduce(ncclDataType_t type, ncclRedOp_t op, std::span<const std::byte* const> inputs,
            std::byte* out, std::size_t count) {
  with_format(type, [&](auto format) {
    using F = decltype(format);
    using Value = typename F::Value;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i * F::kBytes;
      Value value = F::load(inputs[0] + at);
      for (const std::byte* input : inputs.subspan(1))
        value = combine(op, value, F::load(input + at));
      if (op == ncclAvg) value = static_cast<Value>(value / static_cast<Value>(inputs.size()));
      F::store(value, out + at);
    }
  });
}

void scale(ncclDataType_t type, double factor, std::byte* data, std::size_t count) {
  with_format(type, [&](auto format) {
    using F = decltype(format);
    using Value = typename F::Value;
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* at = data + i * F::kBytes;
      F::store(multiply(F::load(at), static_cast<Value>(factor)), at);
    }
  });
}

double to_double(ncclDataType_t type, const std::byte* data) {
  double value = 0;
  with_format(type,
              [&](auto format) { value = static_cast<double>(decltype(format)::load(data)); });
  return value;
}

}  // namespace levee::simgpu::nccl
