// Which use of a stream is ordered before what: vector clocks of streams and of the host.
//
// Owns: one clock for each stream, and what the host knows to be complete. A stream's time is
// divided into *ticks*; a tick ends when somebody may learn of it (a record, a synchronisation). A
// use is stamped (stream, tick). It is ordered before the next work of stream T if T's clock, or
// the host's, has reached that tick: what the host knows is done is done for all work enqueued from
// then on, whoever enqueues it.
//
//   stream 1:  use(1,1)  record E -> Point{1, tick 1}   use(1,2)
//   stream 2:            wait E: clock2[1] = 1          (1,1) is before, (1,2) is not
//   host:      query E succeeds: host[1] = 1            (1,1) is before everything enqueued from
//   now on
//
// Host threads count as one: a completion that one thread has seen is in the past of every later
// call of any thread. Promises: clocks only grow. The index of a removed stream is used again once
// the host knows all its uses to be complete, with later ticks, so that no stamp ever speaks for
// the wrong stream. Not thread-safe. Costs: release is O(1) unless the stream learnt something
// since its last; acquire is O(1) if nothing is new, else O(streams).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace levee::device::sim {

class Order {
 public:
  using Index = std::uint32_t;
  using Tick = std::uint64_t;
  using Clock = std::vector<Tick>;  ///< by stream index; missing entries are 0

  /// Everything that was enqueued on a stream up to a moment, and everything ordered before it.
  struct Point {
    Index stream = 0;
    Tick tick = 0;
    std::shared_ptr<const Clock> others;  ///< null: nothing
  };

  Index add_stream();
  void remove_stream(Index stream);

  /// The tick of work enqueued on `stream` now.
  Tick stamp(Index stream) {
    Stream& s = streams_[stream];
    s.fresh = true;
    s.last_stamp = s.tick;
    return s.tick;
  }
  /// The tick of the last work that was enqueued on `stream`; 0 = none was.
  Tick last_stamp(Index stream) const { return streams_[stream].last_stamp; }
  Point release(Index stream);
  void acquire(Index stream, const Point& point);
  void host_learn(const Point& point);
  void host_learn_stream(Index stream);

  /// Is a use stamped (stream, tick) ordered before work enqueued on `later` now?
  bool is_before(Index stream, Tick tick, Index later) const {
    if (host_knows(stream, tick)) return true;
    if (stream == later) return true;
    const Clock& clock = streams_[later].clock;
    return stream < clock.size() && tick <= clock[stream];
  }
  bool host_knows(Index stream, Tick tick) const {
    return tick == 0 || (stream < host_.size() && tick <= host_[stream]);
  }

  /// Was a use stamped (stream, tick) made by the stream that has the number now? Numbers of
  /// removed streams are given again.
  bool is_by_present_stream(Index stream, Tick tick) const {
    return tick >= streams_[stream].first_tick;
  }

  std::size_t size() const { return streams_.size(); }

 private:
  struct Stream {
    Tick tick = 1;        ///< the present one
    Tick first_tick = 1;  ///< those below were another stream's
    Tick last_stamp = 0;  ///< 0 = none was given
    bool fresh = false;   ///< something happened in the present tick: nobody can have learnt of it
    Clock clock;
    std::shared_ptr<const Clock>
        shared;  ///< copy of `clock` that points hold; null when `clock` is newer
  };
  static bool raise(Clock& clock, Index stream, Tick tick);
  static bool join(Clock& clock, const Point& point);

  std::vector<Stream> streams_;
  std::deque<Index> free_;
  Clock host_;
};

}  // namespace levee::device::sim
