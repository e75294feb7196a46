// The recorders of this process, for those who come from outside and know none: exiting threads,
// fork, exit.
//
// Owns the list of living recorders and the handlers (pthread_atfork, a thread-specific key,
// atexit), which it installs when the first recorder is made. One lock, held across fork, so that a
// child never inherits it locked. Internal to record.
#pragma once

#include <cstdint>

#include "allocator/record/thread_log.h"

namespace levee::record {

class TraceRecorder;

class RecorderRegistry {
 public:
  static void add(TraceRecorder& recorder);
  static void remove(TraceRecorder& recorder);

  /// The log that this thread stored into last, and whose it is.
  struct Slot {
    std::uint64_t recorder = 0;
    ThreadLog* log = nullptr;
  };
  /// Makes `log` this thread's, until the thread exits.
  static void bind(std::uint64_t recorder, ThreadLog& log) noexcept;

 private:
  static void install();
  static void leave_thread(void* slot);
  static void before_fork() LEVEE_NO_THREAD_SAFETY_ANALYSIS;  // the lock is held from here
  static void after_fork_in_parent() LEVEE_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_child() LEVEE_NO_THREAD_SAFETY_ANALYSIS;
  static void at_exit();
};

// Read at every event: in the block of thread-local memory that is there from the start
// (initial-exec), so that reading it is no call, also in a library that is loaded late. 16 bytes of
// the room that the C library keeps for such libraries.
[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local RecorderRegistry::Slot this_thread_slot;

}  // namespace levee::record
