// Who used which bytes of physical memory last: the memory of the judge.
//
// Owns one `Frame` for each 2 MiB of physical memory (made when first used): a sorted list of byte
// intervals, each with the uses that a later one must be ordered after. Rules (UseKind says what
// each note means):
//
//   hand-out   every use in the bytes must be closed and ordered before the new owner's stream; it
//              replaces them all, since whoever is ordered after the new owner is ordered after
//              them
//   share      adds an open use of the same owner on another stream; checks nothing, its order is
//              the owner's business
//   give-back  closes the open uses: each is stamped with the present tick of its stream, or, where
//              all work is seen, with the tick of the last work on it: a stream that captures, or
//              that was synchronised with since, is not used by being given back from. What a
//              capture left live was read by work that nobody tells of: on the block's stream, on
//              the one that its graph was launched on last, or on one that was joined with either.
//              So it gets both stamps, and a later use must be ordered after one of them. Before
//              the first launch no work has run in it: there is nothing to be ordered after
//   touch      one read or write by enqueued work. Checked against closed uses (two reads never
//              conflict), and against an owner who holds the bytes at another address; added to
//              the uses
//
// An *open* use has no end yet, so nothing can be ordered after it. A use that the host knows to be
// complete is dropped when met. Uses on capturing streams do not run: they are checked among
// themselves, by the order inside their capture. Through another address ("via") the same order is
// asked for, but the finding is an alias use; and work that may overlap its predecessor in the
// stream (or touches one byte at two addresses itself) is not ordered after it by the stream alone.
// Not thread-safe. Costs: O(log intervals) to find, O(intervals in the frame) to insert (moved as
// memory).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <levee/units.h>

#include "allocator/device/device.h"
#include "allocator/device/sim/address_space.h"
#include "allocator/device/sim/judge_rule.h"
#include "allocator/device/sim/order.h"

namespace levee::device::sim {

inline constexpr std::uint32_t kFrameBytes = 1U << kPageShift;

struct Use {
  enum Flags : std::uint32_t {
    kWrites = 1,
    kOpen = 2,
    kCaptured = 4,
    kTouch = 8,    ///< by one piece of work, whose number is `op`
    kLaunch = 16,  ///< by a graph's replay; stays, complete or not, until the bytes get a new owner
  };
  Order::Tick tick = 0;
  std::uint64_t via = 0;    ///< address that the first byte of the frame has in the mapping used
  Order::Index stream = 0;  ///< of the capture's own order, if captured
  std::uint32_t flags = 0;
  std::uint64_t op =
      0;  ///< touch: number of the work in its stream. Captured: number of the capture
  Order::Tick or_tick = 0;  ///< not 0: it was there or here, and being after one is enough
  Order::Index or_stream = 0;

  bool is_open() const { return (flags & kOpen) != 0; }
  bool is_captured() const { return (flags & kCaptured) != 0; }
  bool writes() const { return (flags & kWrites) != 0; }
  bool is_touch() const { return (flags & kTouch) != 0; }
  bool is_launch() const { return (flags & kLaunch) != 0; }
  bool is_one_of_two() const { return or_tick != 0; }
  friend bool operator==(const Use&, const Use&) = default;
};

struct Interval {
  std::uint32_t begin = 0;  ///< bytes from the start of the frame
  std::uint32_t end = 0;
  std::uint32_t extra =
      0;  ///< place of further uses in the pool of the map; 0 = there is one use only
  Use use;
};

/// One 2 MiB piece of physical memory. Intervals are sorted, disjoint and not empty.
struct Frame {
  std::vector<Interval> intervals;
};

/// What a capture in progress knows about order; see UseMap::Captures.
struct CaptureOrder {
  std::uint64_t number = 0;
  Order* order = nullptr;
};

/// A use as it arrives.
struct NewUse {
  UseKind kind = UseKind::kWrite;
  Order::Index stream = 0;
  std::uint64_t via = 0;
  std::uint64_t op = 0;            ///< number of the work, for touches
  std::uint64_t overlap_from = 0;  ///< first work in the stream that this one may overlap; 0 = none
  CaptureOrder capture{};          ///< number 0: not captured
};

struct Conflict {
  JudgeRule rule = JudgeRule::kNone;
  bool is_alias = false;  ///< the earlier use was through another address
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  Use earlier;
};

class UseMap {
 public:
  using Report = std::function<void(const Conflict&)>;
  /// The order of a capture that is still in progress, or null.
  using Captures = std::function<Order*(std::uint64_t number)>;

  /// Told of a use through another address that a later one replaced, although the host does not
  /// know it to be complete: the mapping at that address must stay until then.
  using Replaced = std::function<void(const Use&)>;

  /// `sees_all_work`: see ModelConfig.
  UseMap(Order& order, bool sees_all_work, Captures captures, Replaced replaced)
      : order_(order),
        sees_all_work_(sees_all_work),
        captures_(std::move(captures)),
        replaced_(std::move(replaced)),
        extra_(1) {}

  /// Notes a use of the bytes [begin, end) of a frame. Reports at most one conflict.
  void note(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
            const Report& report);
  /// A graph's replay on `stream` writes the bytes.
  void note_launch(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                   const Report& report);
  /// A use of the bytes through `via` that is open, or that the host does not know to be complete;
  /// null if there is none.
  const Use* find_unfinished(const Frame& frame, std::uint32_t begin, std::uint32_t end,
                             std::uint64_t via) const;
  /// Forgets every use of the bytes.
  void forget(Frame& frame, std::uint32_t begin, std::uint32_t end);
  void validate(const Frame& frame) const;

 private:
  using Uses = std::vector<Use>;
  struct Span {
    std::size_t first;
    std::size_t last;
  };

  void hand_out(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                const Report& report);
  /// The bytes are the owner's, who lives in a graph; the first earlier use that is not fine is
  /// reported.
  template <typename IsFine>
  void hand_to_graph(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                     const Use& owner, JudgeRule is_free, const Report& report,
                     const IsFine& is_fine);
  void hand_out_captured(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                         const Report& report);
  void share(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use);
  void restore(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
               const Report& report);
  void give_back(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use);
  void touch(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
             const Report& report);

  bool is_ordered(const Use& earlier, const NewUse& later) const;
  bool is_spent(const Use& use) const;
  Use make(const NewUse& use, std::uint32_t flags) const;
  /// The tick in which an owner on `stream` who gives back now used the bytes last.
  Order::Tick end_of_use(Order::Index stream) const {
    return sees_all_work_ ? order_.last_stamp(stream) : order_.stamp(stream);
  }

  template <typename Visit>
  bool any_use(const Interval& interval, Visit&& visit) const;
  void add_use(Interval& interval, const Use& use);
  void drop_extra(Interval& interval);
  template <typename Drop>
  void drop_uses(Interval& interval, std::uint64_t via, Drop&& drop);
  Interval copy(const Interval& interval);

  static std::size_t lower(const Frame& frame, std::uint32_t begin);
  Span split(Frame& frame, std::uint32_t begin, std::uint32_t end);
  void replace(Frame& frame, std::uint32_t begin, std::uint32_t end, const Use& use);
  void fill_gaps(Frame& frame, std::uint32_t begin, std::uint32_t end, const Use& use);
  void merge(Frame& frame, std::uint32_t begin, std::uint32_t end);

  Order& order_;
  const bool sees_all_work_;
  Captures captures_;
  Replaced replaced_;
  std::vector<Uses> extra_;  // place 0 is never used
  std::vector<std::uint32_t> free_extra_;
};

}  // namespace levee::device::sim
