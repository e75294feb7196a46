// Ids for texts, lanes and pools, and the definition entries that put them into the file.
//
// Owns the entries, for ever: the writer refers to them. Promises: the same thing has the same id;
// an entry is in the table before its id is returned; when ids or memory run out the answers are
// still valid (the device's "other streams", the default pool, no text). One lock, never held while
// anything else is called. Costs: a lock and a hash; for callers that cache what they get.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/base/mutex.h"
#include "allocator/record/recorder.h"
#include "allocator/record/trace_tables.h"

namespace levee::record {

class NameTable {
 public:
  using Entry = std::vector<std::uint8_t>;

  /// Texts take at most `most_text` in all.
  explicit NameTable(Bytes most_text) : most_text_(most_text) {}

  LaneId lane(DeviceId device, StreamId stream) { return lane_of(device, stream, false); }
  /// For a stream of which only CUPTI's number is known.
  LaneId cupti_lane(DeviceId device, std::uint32_t number) {
    return lane_of(device, StreamId{number}, true);
  }
  /// All lanes so far, in the order of their making.
  std::vector<TraceLane> lanes() const;
  std::uint16_t pool(PoolId pool);
  /// 0 once texts have run out.
  ContextId text(std::string_view text, ContextKind kind);
  void describe(const TraceDevice& device);
  void describe(const TraceThread& thread);
  bool has_run_out() const;

  /// Entries made since the last call, in order. They live as long as the table.
  std::vector<std::span<const std::uint8_t>> take_new();

 private:
  LaneId lane_of(DeviceId device, StreamId stream, bool is_cupti_number);
  template <typename T>
  const Entry& add_locked(const T& what) LEVEE_REQUIRES(mutex_);

  const Bytes most_text_;
  mutable base::Mutex mutex_;
  using LaneKey = std::pair<bool, std::pair<DeviceId, StreamId>>;  // CUPTI's numbers apart
  std::map<LaneKey, LaneId> lanes_ LEVEE_GUARDED_BY(mutex_);
  std::vector<TraceLane> lane_list_ LEVEE_GUARDED_BY(mutex_);
  std::map<DeviceId, LaneId> other_lanes_ LEVEE_GUARDED_BY(mutex_);  // of "other streams"
  std::uint32_t lane_count_ LEVEE_GUARDED_BY(mutex_) = 1;            // 0 is "no lane"
  std::map<PoolId, std::uint16_t> pools_ LEVEE_GUARDED_BY(mutex_);
  // By text, which lies in the entry; one map for each kind.
  std::map<ContextKind, std::unordered_map<std::string_view, ContextId>> texts_
      LEVEE_GUARDED_BY(mutex_);
  std::uint32_t text_count_ LEVEE_GUARDED_BY(mutex_) = 0;
  Bytes text_bytes_ LEVEE_GUARDED_BY(mutex_);
  bool has_run_out_ LEVEE_GUARDED_BY(mutex_) = false;
  std::deque<Entry> entries_ LEVEE_GUARDED_BY(mutex_);
  std::size_t taken_ LEVEE_GUARDED_BY(mutex_) = 0;
};

}  // namespace levee::record
