// Random numbers that are the same as Python's `random.Random(seed)` gives, so that a generated
// trace is the same whether a script or the lab made it, on every machine. Only what the generators
// use. MT19937 as published by Matsumoto and Nishimura, seeded by array.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace levee::replay {

class SeededRandom {
 public:
  explicit SeededRandom(std::uint32_t seed) {
    fill(19650218);
    std::uint32_t i = 1;
    for (std::uint32_t k = kSize; k != 0; --k) {  // a key of one word
      state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525U)) + seed;
      advance(i);
    }
    for (std::uint32_t k = kSize - 1; k != 0; --k) {
      state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941U)) - i;
      advance(i);
    }
    state_[0] = 0x80000000U;
  }

  std::uint32_t next_u32() {
    if (index_ >= kSize) refill();
    std::uint32_t y = state_[index_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
  }

  /// In [0, 1), 53 bits.
  double uniform() {
    const std::uint32_t a = next_u32() >> 5;
    const std::uint32_t b = next_u32() >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// In [0, n), n >= 1.
  std::uint32_t below(std::uint32_t n) {
    std::uint32_t bits = 0;
    while (bits < 32 && (n >> bits) != 0) ++bits;
    std::uint32_t r = next_u32() >> (32 - bits);
    while (r >= n) r = next_u32() >> (32 - bits);
    return r;
  }
  /// In [low, high], both included.
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    return low + below(high - low + 1);
  }
  template <typename T>
  const T& choice(const std::vector<T>& from) {
    return from[below(static_cast<std::uint32_t>(from.size()))];
  }

  /// Kinderman and Monahan's ratio of uniforms.
  double log_normal(double mu, double sigma) {
    const double magic = 4 * std::exp(-0.5) / std::sqrt(2.0);
    for (;;) {
      const double u1 = uniform();
      const double u2 = 1.0 - uniform();
      const double z = magic * (u1 - 0.5) / u2;
      if (z * z / 4.0 <= -std::log(u2)) return std::exp(mu + z * sigma);
    }
  }

 private:
  static constexpr std::uint32_t kSize = 624;
  static constexpr std::uint32_t kShift = 397;

  void fill(std::uint32_t seed) {
    state_[0] = seed;
    for (std::uint32_t i = 1; i < kSize; ++i)
      state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
    index_ = kSize;
  }
  void advance(std::uint32_t& i) {
    if (++i < kSize) return;
    state_[0] = state_[kSize - 1];
    i = 1;
  }
  void refill() {
    for (std::uint32_t k = 0; k < kSize; ++k) {
      const std::uint32_t y = (state_[k] & 0x80000000U) | (state_[(k + 1) % kSize] & 0x7fffffffU);
      state_[k] = state_[(k + kShift) % kSize] ^ (y >> 1) ^ ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
    }
    index_ = 0;
  }

  std::array<std::uint32_t, kSize> state_{};
  std::uint32_t index_ = kSize;
};

}  // namespace levee::replay
