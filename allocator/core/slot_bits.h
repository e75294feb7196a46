// One bit for each slot of a zone: whether its page, wholly free, is on offer there.
//
// Owns: the words. Promises: `run_through` and `for_each_run` see exactly the bits that are set.
// Does not: know pages or bytes. Guarded by the pool lock. Cost: a change of k slots touches k / 64
// words, a nanosecond or two; a run is measured 64 slots at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace levee::core {

class SlotBits {
 public:
  /// Room for slots up to `end`; new ones are not set. Never shrinks.
  void cover(std::uint32_t end) {
    const std::size_t words = (std::size_t{end} + 63) / 64;
    if (words > words_.size()) words_.resize(words, 0);
  }
  void set(std::uint32_t first, std::uint32_t count) {
    if (count == 1) [[likely]] {
      words_[first / 64] |= 1ULL << (first % 64);
      return;
    }
    for_each_word(first, count,
                  [this](std::size_t word, std::uint64_t bits) { words_[word] |= bits; });
  }
  void clear(std::uint32_t first, std::uint32_t count) {
    if (count == 1) [[likely]] {
      words_[first / 64] &= ~(1ULL << (first % 64));
      return;
    }
    for_each_word(first, count,
                  [this](std::size_t word, std::uint64_t bits) { words_[word] &= ~bits; });
  }
  void clear_all() { words_.clear(); }
  bool is_set(std::uint32_t slot) const {
    return slot / 64 < words_.size() && (words_[slot / 64] >> (slot % 64) & 1) != 0;
  }
  std::uint32_t count() const {
    std::uint32_t sum = 0;
    for (std::uint64_t word : words_) sum += static_cast<std::uint32_t>(std::popcount(word));
    return sum;
  }

  /// Where the run of set bits that `slot` belongs to begins. Pre: its bit is set.
  std::uint32_t run_begin(std::uint32_t slot) const {
    std::size_t word = slot / 64;
    const std::uint32_t bit = slot % 64;
    std::uint32_t down = ones_below(words_[word] << (63 - bit));
    if (down == bit + 1) {
      while (word-- > 0) {
        const std::uint32_t more = ones_below(words_[word]);
        down += more;
        if (more < 64) break;
      }
    }
    return slot + 1 - down;
  }
  /// One past its end. Pre: its bit is set.
  std::uint32_t run_end(std::uint32_t slot) const {
    std::size_t word = slot / 64;
    const std::uint32_t bit = slot % 64;
    std::uint32_t up = ones_from(words_[word] >> bit);
    if (up == 64 - bit) {
      while (++word < words_.size()) {
        const std::uint32_t more = ones_from(words_[word]);
        up += more;
        if (more < 64) break;
      }
    }
    return slot + up;
  }
  /// Its length. Pre: its bit is set.
  std::uint32_t run_through(std::uint32_t slot) const { return run_end(slot) - run_begin(slot); }

  /// `f(first, end)` for every run of at least `least` set bits, from the lowest up. Pre: `least`
  /// is not 0. Looks at 64 places at once, with no branch for the shorter runs.
  template <typename F>
  void for_each_run_of(std::uint64_t least, F&& f) const {
    const auto window = static_cast<std::uint32_t>(std::min<std::uint64_t>(least, 64));
    const std::size_t words = words_.size();
    std::uint32_t done = 0;  // below it all runs were met
    for (std::size_t i = 0; i < words; ++i) {
      std::uint64_t low = words_[i];
      if (low == 0) continue;
      std::uint64_t high = i + 1 < words ? words_[i + 1] : 0;
      // A bit stays if the next `have` bits are set as well.
      for (std::uint32_t have = 1; have < window;) {
        const std::uint32_t shift = std::min(have, window - have);
        low &= low >> shift | high << (64 - shift);
        high &= high >> shift;
        have += shift;
      }
      const auto base = static_cast<std::uint32_t>(i * 64);
      while (low != 0) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(low));
        if (base + bit >= done) {
          done = run_end(base + bit);
          const std::uint32_t first = run_begin(base + bit);
          if (done - first >= least) f(first, done);
        }
        if (done >= base + 64) break;
        low &= ~0ULL << (done - base);
      }
    }
  }

  /// `f(first, end)` for every run of set bits, from the lowest up.
  template <typename F>
  void for_each_run(F&& f) const {
    constexpr std::uint32_t kNone = ~0U;
    std::uint32_t begin = kNone;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto base = static_cast<std::uint32_t>(i * 64);
      std::uint64_t word = words_[i];
      std::uint32_t at = 0;
      while (at < 64) {
        if (begin == kNone) {
          if (word == 0) break;
          const auto zeros = static_cast<std::uint32_t>(std::countr_zero(word));
          at += zeros;
          word >>= zeros;
          begin = base + at;
        }
        const std::uint32_t ones = ones_from(word);
        at += ones;
        if (at >= 64) break;  // may go on in the next word
        f(begin, base + at);
        begin = kNone;
        word >>= ones;
      }
    }
    if (begin != kNone) f(begin, static_cast<std::uint32_t>(words_.size() * 64));
  }

 private:
  static std::uint32_t ones_from(std::uint64_t word) {
    return static_cast<std::uint32_t>(std::countr_one(word));
  }
  static std::uint32_t ones_below(std::uint64_t word) {
    return static_cast<std::uint32_t>(std::countl_one(word));
  }

  template <typename F>
  static void for_each_word(std::uint32_t first, std::uint32_t count, F&& f) {
    while (count > 0) {
      const std::uint32_t bit = first % 64;
      const std::uint32_t here = std::min(count, 64 - bit);
      f(first / 64, ~0ULL >> (64 - here) << bit);
      first += here;
      count -= here;
    }
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace levee::core
