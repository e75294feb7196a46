// Reads a trace file: what a process recorded, complete or cut off, in time order, without holding
// it all in memory.
//
// Owns the file (or bytes), an index of its blocks and at most `kMaxOpenBlocks` decoded ones.
// Promises: any input is safe: damaged, truncated or hostile bytes cost the blocks they lie in,
// never a crash, a hang or memory beyond a constant times the size of the input; everything up to
// the last complete block of a killed process is readable; a file that is still being written can
// be opened at any time. Does not interpret: storms, fragmentation and advice are
// allocator/analysis. Format: FORMAT.md. Thread safety: const methods of one reader from several
// threads; one cursor, one thread. Costs: opening reads the frame of each block, not its contents;
// a pass over everything decodes about 10^7 events a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/record/recorder.h"
#include "allocator/record/trace_state.h"
#include "allocator/record/trace_tables.h"

namespace levee::record {

/// What the file holds and what is missing from it.
struct Coverage {
  TraceEnding ending = TraceEnding::kCut;
  std::string stop_reason;
  Nanos first;                        ///< time of the earliest event held
  Nanos last;                         ///< time of the latest one
  std::uint64_t events = 0;           ///< held, of all kinds
  std::uint64_t activity_events = 0;  ///< of these: kernels, copies, memsets
  std::uint64_t lost_events = 0;  ///< never written: a ring was full (each place has a kLost event)
  std::uint64_t dropped_events = 0;  ///< written, then overwritten to keep the size cap
  std::uint64_t damaged_blocks = 0;  ///< skipped, since their checksum or contents are wrong
  std::uint64_t unread_bytes = 0;    ///< after the last complete block
  bool is_whole() const { return lost_events == 0 && dropped_events == 0 && damaged_blocks == 0; }
};

struct TraceEvent {
  Event event;  ///< time_ns is on levee's clock
  std::uint64_t sequence =
      0;  ///< of its thread, lost events counted; orders events of one thread at equal times
  std::uint32_t thread = 0;
};

/// A set of event kinds.
struct KindSet {
  std::uint64_t bits = ~std::uint64_t{0};
  static constexpr KindSet all() { return {}; }
  static constexpr KindSet none() { return {0}; }
  static constexpr KindSet activity() {
    return none().with(EventKind::kKernel).with(EventKind::kMemcpy).with(EventKind::kMemset);
  }
  static constexpr KindSet memory() { return {~activity().bits}; }  ///< everything but activity
  constexpr KindSet with(EventKind kind) const { return {bits | bit(kind)}; }
  constexpr bool has(EventKind kind) const { return (bits & bit(kind)) != 0; }

 private:
  static constexpr std::uint64_t bit(EventKind kind) {
    return std::uint64_t{1} << (static_cast<unsigned>(kind) & 63U);
  }
};

/// Which events a pass is about. Blocks without any such event are not decoded.
struct EventQuery {
  KindSet kinds;
  Nanos from{INT64_MIN};  ///< events with from <= time < to
  Nanos to{INT64_MAX};
  std::size_t first_chapter = 0;  ///< leave out what lies before this keyframe; see `chapter_state`
};

/// One pass over the events of a query, by time across threads; events of one thread never change
/// their order.
class EventCursor {
 public:
  virtual ~EventCursor() = default;
  /// The next events, some thousands at a time; empty at the end. Valid until the next call.
  virtual std::span<const TraceEvent> next() = 0;
};

/// Memory of one device over time, as columns: point i covers [time_ns[i], time_ns[i + 1]) (the
/// last one to `to`). Where there are more changes than points asked for, min and max keep every
/// peak and dip.
struct CounterSeries {
  std::vector<std::int64_t> time_ns;
  std::vector<std::uint64_t> reserved_min, reserved_max, reserved_last;
  std::vector<std::uint64_t> allocated_min, allocated_max, allocated_last;
  std::vector<std::uint64_t> active_min, active_max, active_last;
  bool is_exact = false;  ///< every change is a point of its own
};

class TraceReader {
 public:
  static constexpr std::size_t kMaxOpenBlocks = 64;

  /// Null if this is no trace at all, with one sentence in `why` that says what to do.
  static std::unique_ptr<TraceReader> open(const std::string& path, std::string* why);
  /// The same over bytes in memory, which must outlive the reader. `name` is used in messages.
  static std::unique_ptr<TraceReader> from_bytes(std::span<const std::byte> bytes, std::string name,
                                                 std::string* why);

  TraceReader() = default;
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;
  virtual ~TraceReader() = default;

  virtual const TraceHeader& header() const = 0;
  virtual const Coverage& coverage() const = 0;

  // Tables. An id that the file does not define has a placeholder, never an error.
  virtual const std::vector<TraceDevice>& devices() const = 0;
  virtual const std::vector<TraceLane>& lanes() const = 0;        ///< by id; entry 0 is "no lane"
  virtual const std::vector<TraceThread>& threads() const = 0;    ///< by index
  virtual const std::vector<TracePool>& pools() const = 0;        ///< by index
  virtual const std::vector<TraceContext>& contexts() const = 0;  ///< by id; entry 0 is "none"
  virtual TraceLane lane(LaneId id) const = 0;
  virtual TracePool pool(std::uint16_t index) const = 0;
  virtual TraceContext context(ContextId id) const = 0;

  /// Keyframes: the file is cut into chapters, and each starts with the state at its beginning. At
  /// least 1 if there is any event.
  virtual std::size_t chapter_count() const = 0;
  virtual Nanos chapter_start(std::size_t chapter) const = 0;
  /// State before the events of this and later chapters. `chapter_state(0)` is empty unless blocks
  /// were dropped.
  virtual TraceState chapter_state(std::size_t chapter) const = 0;

  virtual std::unique_ptr<EventCursor> events(const EventQuery& query = {}) const = 0;
  /// At most about `max_points` points of one device's memory in [from, to); uses the summaries in
  /// the file where they are fine enough, so that an overview of 10^7 events costs milliseconds.
  virtual CounterSeries counters(DeviceId device, Nanos from, Nanos to,
                                 std::size_t max_points) const = 0;
};

}  // namespace levee::record
