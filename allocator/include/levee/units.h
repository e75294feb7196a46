// Quantities that the whole of levee computes with: byte counts, device addresses, times.
//
// Owns: the types `Bytes`, `DeviceAddr` and `Nanos`. Promises: arithmetic that leaves the range of
// the type ends the process with a message instead of wrapping, since a wrapped size becomes a
// wrong address. A device address is an integer and cannot be dereferenced on the host. Costs: one
// predictable branch per operation; everything is constexpr.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace levee {

namespace detail {
[[noreturn, gnu::cold, gnu::noinline]] inline void units_out_of_range(const char* what) {
  std::fprintf(stderr, "levee: arithmetic on %s left its range\n", what);
  std::abort();
}
}  // namespace detail

/// A number of bytes. Differences of counts must not be negative.
struct Bytes {
  std::uint64_t value = 0;

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    std::uint64_t r = 0;
    if (__builtin_add_overflow(a.value, b.value, &r)) detail::units_out_of_range("Bytes");
    return Bytes{r};
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    if (b.value > a.value) detail::units_out_of_range("Bytes");
    return Bytes{a.value - b.value};
  }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) {
    std::uint64_t r = 0;
    if (__builtin_mul_overflow(a.value, n, &r)) detail::units_out_of_range("Bytes");
    return Bytes{r};
  }
  friend constexpr std::uint64_t operator/(Bytes a, Bytes b) { return a.value / b.value; }
  friend constexpr Bytes operator/(Bytes a, std::uint64_t n) { return Bytes{a.value / n}; }
  friend constexpr Bytes operator%(Bytes a, Bytes b) { return Bytes{a.value % b.value}; }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }
};

constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes{n};
}
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes{n} * (1ULL << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes{n} * (1ULL << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes{n} * (1ULL << 30);
}

/// Largest multiple of `unit` that is not above `n`. `unit` must not be 0.
constexpr Bytes round_down(Bytes n, Bytes unit) {
  return Bytes{n.value - n.value % unit.value};
}
/// Smallest multiple of `unit` that is not below `n`. `unit` must not be 0.
constexpr Bytes round_up(Bytes n, Bytes unit) {
  const std::uint64_t rest = n.value % unit.value;
  return rest == 0 ? n : n + Bytes{unit.value - rest};
}

/// An address in a device's address space. `DeviceAddr{}` is null.
struct DeviceAddr {
  std::uint64_t value = 0;

  friend constexpr auto operator<=>(DeviceAddr, DeviceAddr) = default;
  friend constexpr DeviceAddr operator+(DeviceAddr a, Bytes n) {
    return DeviceAddr{(Bytes{a.value} + n).value};
  }
  friend constexpr DeviceAddr operator-(DeviceAddr a, Bytes n) {
    return DeviceAddr{(Bytes{a.value} - n).value};
  }
  friend constexpr Bytes operator-(DeviceAddr a, DeviceAddr b) {
    return Bytes{a.value} - Bytes{b.value};
  }
  constexpr bool is_null() const { return value == 0; }
};

/// A point in time or a duration on levee's one clock, in nanoseconds.
struct Nanos {
  std::int64_t value = 0;

  friend constexpr auto operator<=>(Nanos, Nanos) = default;
  friend constexpr Nanos operator+(Nanos a, Nanos b) { return Nanos{a.value + b.value}; }
  friend constexpr Nanos operator-(Nanos a, Nanos b) { return Nanos{a.value - b.value}; }
  constexpr Nanos& operator+=(Nanos b) { return *this = *this + b; }
};

constexpr Nanos operator""_ns(unsigned long long n) {
  return Nanos{static_cast<std::int64_t>(n)};
}
constexpr Nanos operator""_us(unsigned long long n) {
  return Nanos{static_cast<std::int64_t>(n) * 1'000};
}
constexpr Nanos operator""_ms(unsigned long long n) {
  return Nanos{static_cast<std::int64_t>(n) * 1'000'000};
}

}  // namespace levee
