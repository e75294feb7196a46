// From CUPTI's activity records to levee's events.
//
// Owns what is known of kernel names, streams and the difference of the clocks. Promises: records
// of kinds it does not know are passed over; a record without times is counted as dropped; a stream
// that the allocator also knows has the allocator's lane, any other a lane of its own. Reads only
// fields that have had the same place in every CUPTI since 11.0. Thread safety: one lock around
// everything; called from CUPTI's threads and the collector's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <levee/event.h>
#include <levee/units.h>

#include "allocator/activity/cupti_library.h"
#include "allocator/activity/kernel_collector.h"
#include "allocator/base/mutex.h"
#include "allocator/record/time_stamps.h"
#include "allocator/record/trace_recorder.h"

namespace levee::activity {

class RecordTranslator {
 public:
  RecordTranslator(record::TraceRecorder& recorder, const CuptiLibrary& cupti);

  /// Reads both clocks. To be called before a buffer is translated and now and then in between.
  void align_clocks();
  /// Hands the records in `buffer` to the recorder. Returns how many there were.
  std::size_t translate(std::uint8_t* buffer, std::size_t valid_bytes);
  /// Tells the recorder of records that CUPTI dropped.
  void add_dropped(std::uint64_t count);

  KernelCollector::Totals totals() const;

 private:
  void align_clocks_locked() LEVEE_REQUIRES(mutex_);
  void put_locked(const CUpti_Activity& record) LEVEE_REQUIRES(mutex_);
  void put_event_locked(EventKind kind, std::uint64_t start, std::uint64_t end, LaneId lane,
                        std::uint64_t b, std::uint16_t aux, ContextId context)
      LEVEE_REQUIRES(mutex_);
  ContextId name_locked(const char* name) LEVEE_REQUIRES(mutex_);
  LaneId lane_locked(std::uint32_t device, std::uint32_t stream) LEVEE_REQUIRES(mutex_);
  void learn_streams_locked() LEVEE_REQUIRES(mutex_);

  record::TraceRecorder& recorder_;
  const CuptiLibrary& cupti_;

  mutable base::Mutex mutex_;
  record::StampClock clock_ LEVEE_GUARDED_BY(mutex_);  // its ticks are CUPTI's nanoseconds
  record::StampClock::Anchor latest_ LEVEE_GUARDED_BY(mutex_);
  std::vector<Event> events_ LEVEE_GUARDED_BY(mutex_);
  // By the pointer, which is the same for all launches of a kernel, and checked by the text, since
  // a module that is unloaded gives its memory back.
  struct Name {
    std::string text;
    ContextId id;
  };
  std::unordered_map<const char*, Name> names_ LEVEE_GUARDED_BY(mutex_);
  std::map<std::pair<std::uint32_t, std::uint32_t>, LaneId> lanes_
      LEVEE_GUARDED_BY(mutex_);  // by device and CUPTI's stream number
  std::size_t known_lanes_ LEVEE_GUARDED_BY(mutex_) = 0;
  KernelCollector::Totals totals_ LEVEE_GUARDED_BY(mutex_);
};

}  // namespace levee::activity
