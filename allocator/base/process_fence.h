// A fence that one thread runs on behalf of all others, so that they need none of their own.
//
// Two threads that each store a word and then read the other's must each put a full fence in
// between, or both may read the old value. Where one of the two is rare, it can pay for both:
//
//   often:  store own; compiler_fence(); load other       one plain store and load
//   rarely: store own; ProcessFence::run(); load other    interrupts every running thread once
//
// Owns nothing; asks the kernel (membarrier). Promises: when `is_available`, after `run` every
// other thread of the process has passed a full fence since `run` was called. Where the kernel
// offers it not, the frequent side must use an atomic exchange. Cost of `run`: one or two
// microseconds.
#pragma once

#include <atomic>

namespace levee::base {

class ProcessFence {
 public:
  /// Whether the kernel does it; asked once. Any thread.
  static bool is_available();
  /// Pre: `is_available()`.
  static void run();
  /// What the frequent side puts between its store and its load.
  static void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

}  // namespace levee::base
