// Columns of a block of events: between `StagedEvent`s in memory and the bytes of a block's body
// and summary.
//
// Promises: decoding what was encoded gives the same events, sequences and threads, in the same
// order; decoding anything else gives the same or "malformed", and never more than kMaxBlockEvents
// events. A block can be decoded without any other one. Format: FORMAT.md, "Events". Not
// thread-safe; an encoder or decoder may be used again and keeps its memory. Costs: about 40 ns an
// event to encode, compression included; 30 ns to decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <levee/event.h>

#include "allocator/record/byte_coding.h"
#include "allocator/record/state_tracker.h"
#include "allocator/record/trace_format.h"

namespace levee::record {

/// An event on its way into the file.
struct StagedEvent {
  Event event;                 ///< time_ns on levee's clock
  std::uint64_t sequence = 0;  ///< of its thread, lost events counted
  std::int64_t key = 0;        ///< largest time of its thread up to here; events are ordered by it
  std::uint32_t thread = 0;
};

/// Columns of an events block, in the order of FORMAT.md.
enum class Column : std::size_t {
  kKind,
  kThread,
  kTime,
  kLane,
  kAux,
  kContext,
  kReference,
  kA,
  kB,
  kRounding,
  kCount
};
inline constexpr std::size_t kColumns = static_cast<std::size_t>(Column::kCount);

class EventEncoder {
 public:
  EventEncoder();

  /// Appends the body (before compression) of a block. Pre: 1 to kMaxBlockEvents events, by key.
  void encode(std::span<const StagedEvent> events, ByteWriter& body);

  // Facts about the block encoded last, for its frame.
  std::int64_t first_time() const { return first_time_; }
  std::int64_t last_time() const { return last_time_; }
  std::uint64_t kinds() const { return kinds_; }

 private:
  // Where in this block an address was last allocated or freed.
  struct Place {
    std::uint64_t addr = 0;
    std::uint32_t index = 0;
    std::uint32_t block = 0;  // number of the encode() call that wrote it; older ones are empty
  };
  static constexpr std::size_t kPlaces = 2 * kMaxBlockEvents;

  Place& place_of(std::uint64_t addr);
  void put_threads(std::span<const StagedEvent> events, ByteWriter& body);
  void put_event(std::span<const StagedEvent> events, std::size_t i);
  ByteWriter& column(Column which) { return columns_[static_cast<std::size_t>(which)]; }

  std::vector<ByteWriter> columns_;
  std::vector<Place> places_;
  std::uint32_t block_ = 0;
  std::vector<std::uint32_t> thread_slots_;  // per event: index into the block's table of threads
  std::uint64_t previous_time_ = 0;
  std::uint64_t previous_correlation_ = 0;
  std::int64_t first_time_ = 0;
  std::int64_t last_time_ = 0;
  std::uint64_t kinds_ = 0;
};

/// Applies a block's events to `tracker` and appends the block's summary: each device's memory at
/// its start, and per kEventsPerBin events its extremes.
void summarize(std::span<const StagedEvent> events, StateTracker& tracker, ByteWriter& summary);

class EventDecoder {
 public:
  /// Decodes a body (decompressed) into `out`, which it replaces. False if it is malformed; `out`
  /// is then empty.
  bool decode(const Frame& frame, std::span<const std::uint8_t> body,
              std::vector<StagedEvent>& out);

 private:
  struct Thread {
    std::uint32_t index = 0;
    std::uint64_t next_sequence = 0;
    std::int64_t key = 0;
  };
  std::vector<Thread> threads_;
};

/// Extremes of one device's memory over some events of a block.
struct SummaryBin {
  std::int64_t time = 0;  ///< of the first of its events
  struct Range {
    std::uint64_t min = 0, max = 0, last = 0;
  };
  Range reserved, allocated, active;
};
struct DeviceSummary {
  DeviceId device;
  std::uint64_t reserved = 0, allocated = 0, active = 0;  ///< before the block
  bool is_exact = true;  ///< as `DeviceCounters::is_exact`, before the block
  std::vector<SummaryBin> bins;
};
/// Decodes a block's summary. False if it is malformed.
bool decode_summary(const Frame& frame, std::span<const std::uint8_t> bytes,
                    std::vector<DeviceSummary>& out);

}  // namespace levee::record
