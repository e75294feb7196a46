// The switch in each error branch of a library that is built to have its branches broken one at a
// time (tests/branches/run.py); included before everything else by the compiler's command line.
//
// Which mutant is on, if any, is read once from the environment, from variables that tests of the
// Python package leave there, as they do not those of levee. What a switch says while none is
// on is what the source says. Each notes that it was asked in a way in which its mutant would have
// changed the answer. Any thread may ask; cost: two loads, and a store the first time.
#pragma once

#include <atomic>

namespace levee_branches {

/// Mutants have the numbers 1 to kMost.
constexpr int kMost = 1 << 14;
/// 0: none.
extern int broken;
/// By number: whether a program came where the mutant makes a difference.
extern std::atomic<unsigned char>* reached;

inline void note(int number) noexcept {
  if (reached[number].load(std::memory_order_relaxed) == 0)
    reached[number].store(1, std::memory_order_relaxed);
}

/// The condition of a branch. Mutant `number` ignores that it holds, the next one that it does not.
inline bool holds(int number, bool condition) noexcept {
  const int makes_a_difference = condition ? number : number + 1;
  note(makes_a_difference);
  return condition != (makes_a_difference == broken);
}

/// A status that throws unless it is good, which its default is; the mutant does not see that it is
/// not.
template <typename Status>
Status unseen(int number, Status status) noexcept {
  bool is_good = false;
  if constexpr (requires { status.ok(); }) {
    is_good = status.ok();
  } else {
    is_good = status == Status{};
  }
  if (is_good) return status;
  note(number);
  return number == broken ? Status{} : status;
}

/// Whether a statement is executed.
inline bool runs(int number) noexcept {
  note(number);
  return number != broken;
}

/// A line of an invariant. It makes a difference when the process ends in it: the mark is made by
/// what switch.cc does about SIGABRT.
class Check {
 public:
  explicit Check(int number) noexcept : number_(number), before_(running) { running = number; }
  ~Check() { running = before_; }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  bool runs() const noexcept { return number_ != broken; }

  static thread_local int running;  ///< in this thread, or 0

 private:
  const int number_;
  const int before_;
};

}  // namespace levee_branches
