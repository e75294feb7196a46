// Order between streams: epochs, the events that close them, and who has waited for what.
//
// An *epoch* of a stream is the span of its frees since the last event recorded on it. Memory given
// back carries the stamp (stream, epoch). When another stream needs such memory, the epoch is
// closed: one event is recorded, and every later need for memory of that epoch shares it.
//
//   stream T:  free a  free b  ..  [event e closes epoch 1]  free c  ..
//   stream S:                          waits for e: may use a and b; c needs the next epoch
//
// Owns: the stream table with, for each stream, its open epoch, the events of closed ones that are
// still worth keeping, the newest epoch known complete, and the newest epoch of every other stream
// that it waited for. Knowledge is transitive: an event carries what its stream had waited for.
// Promises: at most one record and one wait for each hand-over of an epoch; no host synchronisation
// here; a stream that captures is neither recorded on nor made to wait.
//
// One stream, one index, whatever it is called: 1 is 0, the legacy stream. 2 names another stream
// in each thread, so each thread's has an index of its own. Only its thread can name it to the
// device; on behalf of others the legacy stream stands for it, which CUDA orders with it both ways.
// A stream of another device takes events made on that device. Does not: look at memory, or block.
// Guarded by the pool lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/status.h>
#include <levee/units.h>

#include "allocator/core/event_pool.h"
#include "allocator/core/ids.h"
#include "allocator/core/stamp.h"
#include "allocator/device/device.h"

namespace levee::core {

/// Stands for streams that the allocator has not seen: those on which a graph was launched. Nothing
/// can wait for it; only waiting for the whole device completes it.
inline constexpr StreamIndex kUnknownStream{0};

class StreamTable {
 public:
  explicit StreamTable(device::Device& device);
  ~StreamTable();
  StreamTable(const StreamTable&) = delete;
  StreamTable& operator=(const StreamTable&) = delete;

  /// Index of a stream; the same for the same stream. No heap once the stream is known.
  StreamIndex intern(StreamId id) { return is_latest(id) ? last_ : intern_slow(id); }
  /// Whether it is the one that was asked for last; never said of a thread's default stream.
  bool is_latest(StreamId id) const { return id == last_key_ && !last_.is_none(); }
  /// What the program calls it.
  StreamId id(StreamIndex stream) const { return streams_[stream.value].id; }
  /// What a call to the device that this thread makes has to name.
  StreamId handle(StreamIndex stream) const {
    const Stream& one = streams_[stream.value];
    return one.thread == 0 ? one.id : handle_slow(one);
  }
  /// Whether `id` alone does not tell which stream it is.
  bool is_of_a_thread(StreamIndex stream) const { return streams_[stream.value].thread != 0; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(streams_.size()); }
  /// Whether memory can have been used by more than one stream.
  bool has_several() const { return streams_.size() > 2 || is_unknown_pending(); }
  /// Stamp for memory that unseen streams may use until now.
  Stamp stamp_unknown() {
    unknown_ = stamp_now(kUnknownStream);
    return unknown_;
  }
  bool is_unknown_pending() const { return !is_complete(unknown_); }
  /// Number that the recorder gave the stream; set by the owner.
  LaneId lane(StreamIndex stream) const { return streams_[stream.value].lane; }
  void set_lane(StreamIndex stream, LaneId lane) { streams_[stream.value].lane = lane; }

  Stamp stamp_now(StreamIndex stream) const {
    return Stamp{stream, streams_[stream.value].open_epoch};
  }
  bool is_complete(Stamp stamp) const {
    return stamp.epoch() <= streams_[stamp.stream().value].completed;
  }
  /// True if work enqueued on `waiter` now is not ordered after `stamp` yet.
  bool must_wait(StreamIndex waiter, Stamp stamp) const {
    if (stamp.stream() == waiter || is_complete(stamp)) return false;
    const std::vector<Epoch>& seen = streams_[waiter.value].waited_for;
    const std::uint32_t other = stamp.stream().value;
    return other >= seen.size() || seen[other] < stamp.epoch();
  }

  /// Makes `waiter` wait for `stamp`, closing the epoch if it is open. kNotReady if one of the two
  /// streams captures, or the other one is unknown (nothing done then).
  Status wait_for(StreamIndex waiter, Stamp stamp);
  /// Whether the stream captures now. One device call; none for the legacy stream.
  Result<bool> is_capturing(StreamIndex stream);
  /// Whether any known stream captures now: then the host must neither wait for the device nor take
  /// memory away. One device call for each stream; for slow paths. A stream that cannot be asked
  /// does not count.
  bool any_capturing();

  /// The stream that most bytes are asked for on; every other one is a side stream. Known by what
  /// `note_large` was told, which may start late: until then it is the first stream that came.
  StreamIndex main() const { return main_; }
  void note_large(StreamIndex stream, Bytes bytes) {
    streams_[stream.value].large_bytes += bytes.value;
    if (streams_[stream.value].large_bytes > streams_[main_.value].large_bytes) main_ = stream;
  }
  /// For a stream that looks for memory which needs no wait, and met some that `stream` may still
  /// use: asks how far that one is, and closes its epoch, so that what was freed in it can be known
  /// done later. Each at most once in a number of requests, of which `now` is the count; nothing
  /// while the stream captures.
  void look_at(StreamIndex stream, std::uint64_t now);

  /// Closes the epoch of `stamp` if it is open, so that `poll` can see it complete.
  Status ensure_closed(Stamp stamp);
  /// An event of the caller's own behind everything enqueued on a stream so far, to be waited for
  /// with the lock released. `through` is complete once the event is. Must go to `give_back`.
  /// kNotReady if the stream captures.
  struct Held {
    EventId event;
    Stamp through;
  };
  Result<Held> hold(StreamIndex stream);
  void give_back(const Held& held, bool is_done);
  /// Closes every epoch without an event. The caller waits for the whole device and then reports
  /// the stamps complete.
  std::vector<Stamp> fence();
  /// Asks the device how far the stream is, at most `most` calls. Pre: no capture is under way.
  Status poll(StreamIndex stream, int most = 4);
  /// The caller waited for `stamp` (or for more) by other means.
  void set_complete(Stamp stamp);
  bool has_closed(StreamIndex stream) const { return !streams_[stream.value].closed.empty(); }

  std::int64_t record_count() const { return record_count_; }
  std::int64_t wait_count() const { return wait_count_; }
  void reset_counts() { record_count_ = wait_count_ = 0; }

  void validate() const;

 private:
  struct Closed {
    Epoch epoch = 0;
    EventId event;
    std::vector<Epoch> knows;  // what the stream had waited for when the event was recorded
  };
  struct Stream {
    StreamId key;  // what finds it
    StreamId id;
    std::uint64_t thread = 0;  // whose default stream it is; 0: no thread's
    EventPool* events = nullptr;
    LaneId lane;
    std::uint64_t large_bytes = 0;  // as told
    std::uint64_t looked_at = 0;    // requests when it was last asked, and its epoch last closed,
    std::uint64_t closed_at = 0;    // for those who look for memory
    Epoch open_epoch = 1;
    Epoch completed = 0;
    std::vector<Epoch> waited_for;  // by stream index
    std::deque<Closed> closed;      // oldest first; none is known complete
  };
  // When there are more, every second event goes: a newer one orders after more than was asked,
  // which is safe, and the oldest stays, so that progress is seen however far the host runs ahead.
  static constexpr std::size_t kMostClosed = 32;
  // Requests between two looks at a stream, and between two epochs closed for them. Chosen:
  // together 25 ns a request by the published costs of a query and a record.
  static constexpr std::uint64_t kLookEvery = 48;
  static constexpr std::uint64_t kCloseEvery = 96;

  StreamIndex intern_slow(StreamId id);
  StreamId handle_slow(const Stream& stream) const;
  EventPool& events_on(DeviceId device);
  Result<EventId> record_now(StreamIndex stream);
  Status close_epoch(StreamIndex stream);
  Closed* closed_at_or_after(Stream& stream, Epoch epoch);
  void learn(std::vector<Epoch>& into, const std::vector<Epoch>& from);

  device::Device& device_;
  std::map<DeviceId, EventPool> events_;  // one entry, unless streams of other devices came
  std::vector<Stream> streams_;
  std::unordered_map<StreamId, StreamIndex> index_;
  StreamIndex last_;
  StreamId last_key_;  // its key
  StreamIndex main_{1};
  Stamp unknown_{kUnknownStream, 0};  // the latest that was given; a fence may be on its way
  std::int64_t record_count_ = 0;
  std::int64_t wait_count_ = 0;
};

}  // namespace levee::core
