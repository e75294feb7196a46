// Takes events out of the threads' logs and hands them to the trace writer in the order of their
// time.
//
// Owns nothing; belongs to the writer thread. Promises: events of one thread keep their order;
// across threads they come by time, up to the cut that a pass is given; an allocation never comes
// before the free that made its bytes available, although the two threads' stamps may be a little
// out of order (`kMaxStampInversion`). A thread that ended gives its log back after its last event.
// Costs: about 10 ns an event with one thread, more with the logarithm of the number of active
// ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "allocator/record/thread_log.h"
#include "allocator/record/time_stamps.h"
#include "allocator/record/trace_writer.h"

namespace levee::record {

class LogMerger {
 public:
  /// Told of each thread before its first event.
  using ThreadVisitor = std::function<void(const ThreadLog&)>;

  LogMerger(ChunkPool& pool, StampClock& clock) : pool_(pool), clock_(clock) {}

  /// Looks at what the logs hold now. Everything interned before these events must be defined
  /// before `drain`.
  void collect(std::span<ThreadLog> logs, const ThreadVisitor& on_new_thread);
  /// Hands over what was collected and is not later than `cut`; `progress` grows on the way.
  /// Returns the number of events.
  std::size_t drain(Nanos cut, TraceWriter& writer, std::atomic<std::uint64_t>& progress);

 private:
  /// What is left of one log in this pass.
  struct Cursor {
    ThreadLog* log = nullptr;
    std::vector<Event> early;  // before recording began; times are the Clock's
    std::size_t early_position = 0;
    bool is_exiting = false;
    std::uint32_t published = 0;  // of the log's chunk
    Event event;                  // the next one, its time on the Clock
    std::int64_t key = 0;         // of the next one
    bool has_event = false;
  };

  void load(Cursor& cursor);
  void advance(Cursor& cursor);
  void hand_over(Cursor& cursor, TraceWriter& writer);
  std::int64_t key_of_free(const Cursor& cursor, std::uint64_t addr, std::int64_t until) const;
  std::int64_t key_of_free_below(std::size_t place, std::uint64_t addr, std::int64_t until) const;
  bool put_behind_its_free(Cursor& cursor) const;
  void finish_exited(Cursor& cursor, TraceWriter& writer);

  ChunkPool& pool_;
  StampClock& clock_;
  std::vector<Cursor> cursors_;
  std::vector<Cursor*> heap_;  // those with an event, the earliest first
};

}  // namespace levee::record
