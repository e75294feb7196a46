#include "allocator/device/sim/use_map.h"

#include <algorithm>

#include "allocator/base/check.h"
#include "allocator/base/small_vector.h"

namespace levee::device::sim {

// ---- Uses of one interval
// An interval has at least one use: `use`, and those behind it in extra_[extra]. Flags 0 with tick
// 0 marks "none yet", which exists only between taking the last use away and erasing the interval.

namespace {
bool is_empty(const Interval& interval) {
  return interval.use == Use{};
}
}  // namespace

template <typename Visit>
bool UseMap::any_use(const Interval& interval, Visit&& visit) const {
  if (is_empty(interval)) return false;
  if (visit(interval.use)) return true;
  if (interval.extra == 0) return false;
  const Uses& more = extra_[interval.extra];
  return std::any_of(more.begin(), more.end(), visit);
}

void UseMap::add_use(Interval& interval, const Use& use) {
  if (is_empty(interval)) {
    interval.use = use;
    return;
  }
  if (any_use(interval, [&use](const Use& other) { return other == use; })) return;
  if (interval.extra == 0) {
    if (free_extra_.empty()) {
      interval.extra = static_cast<std::uint32_t>(extra_.size());
      extra_.emplace_back();
    } else {
      interval.extra = free_extra_.back();
      free_extra_.pop_back();
    }
  }
  extra_[interval.extra].push_back(use);
}

void UseMap::drop_extra(Interval& interval) {
  if (interval.extra == 0) return;
  extra_[interval.extra].clear();
  free_extra_.push_back(interval.extra);
  interval.extra = 0;
}

template <typename Drop>
void UseMap::drop_uses(Interval& interval, std::uint64_t via, Drop&& drop) {
  if (is_empty(interval)) return;
  const auto gone = [&](const Use& use) {
    if (!drop(use)) return false;
    if (use.via != via && !use.is_open() && !use.is_captured() && !is_spent(use)) {
      replaced_(use);
    }
    return true;
  };
  if (interval.extra != 0) {
    Uses& more = extra_[interval.extra];
    more.erase(std::remove_if(more.begin(), more.end(), gone), more.end());
    if (more.empty()) drop_extra(interval);
  }
  if (!gone(interval.use)) return;
  if (interval.extra == 0) {
    interval.use = Use{};
    return;
  }
  Uses& more = extra_[interval.extra];
  interval.use = more.back();
  more.pop_back();
  if (more.empty()) drop_extra(interval);
}

Interval UseMap::copy(const Interval& interval) {
  Interval result = interval;
  if (interval.extra != 0) {
    result.extra = 0;
    const Uses more = extra_[interval.extra];  // a copy: add_use may move the pool
    for (const Use& use : more) add_use(result, use);
  }
  return result;
}

// ---- Intervals of a frame

/// The first interval that ends behind `begin`.
std::size_t UseMap::lower(const Frame& frame, std::uint32_t begin) {
  const auto it = std::upper_bound(
      frame.intervals.begin(), frame.intervals.end(), begin,
      [](std::uint32_t at, const Interval& interval) { return at < interval.end; });
  return static_cast<std::size_t>(it - frame.intervals.begin());
}

/// Cuts intervals at both borders, so that those inside [begin, end) can change; they are [first,
/// last).
UseMap::Span UseMap::split(Frame& frame, std::uint32_t begin, std::uint32_t end) {
  std::vector<Interval>& list = frame.intervals;
  std::size_t first = lower(frame, begin);
  if (first < list.size() && list[first].begin < begin) {
    Interval left = copy(list[first]);
    left.end = begin;
    list[first].begin = begin;
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(first), left);
    ++first;
  }
  std::size_t last = first;
  while (last < list.size() && list[last].begin < end) ++last;
  if (last > first && list[last - 1].end > end) {
    Interval right = copy(list[last - 1]);
    right.begin = end;
    list[last - 1].end = end;
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(last), right);
  }
  return Span{first, last};
}

/// Puts one use in the place of everything in [begin, end).
void UseMap::replace(Frame& frame, std::uint32_t begin, std::uint32_t end, const Use& use) {
  std::vector<Interval>& list = frame.intervals;
  const std::size_t at = lower(frame, begin);
  // The usual case: the same block again, or bytes never used.
  if (at < list.size() && list[at].begin == begin && list[at].end == end) {
    drop_uses(list[at], use.via, [](const Use&) { return true; });
    list[at].use = use;
    return;
  }
  if (at == list.size() || list[at].begin >= end) {
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), Interval{begin, end, 0, use});
    return;
  }
  const Span span = split(frame, begin, end);
  for (std::size_t i = span.first; i < span.last; ++i)
    drop_uses(list[i], use.via, [](const Use&) { return true; });
  list[span.first] = Interval{begin, end, 0, use};
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(span.first) + 1,
             list.begin() + static_cast<std::ptrdiff_t>(span.last));
}

/// Gives the bytes of [begin, end) that have no interval one with this use.
void UseMap::fill_gaps(Frame& frame, std::uint32_t begin, std::uint32_t end, const Use& use) {
  std::vector<Interval>& list = frame.intervals;
  std::size_t at = lower(frame, begin);
  std::uint32_t from = begin;
  while (from < end) {
    const std::uint32_t next = at < list.size() ? std::min(list[at].begin, end) : end;
    if (next > from) {
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), Interval{from, next, 0, use});
      ++at;
    }
    if (at >= list.size() || list[at].begin >= end) return;
    from = list[at].end;
    ++at;
  }
}

/// Erases empty intervals and joins equal neighbours in and at the borders of [begin, end).
void UseMap::merge(Frame& frame, std::uint32_t begin, std::uint32_t end) {
  std::vector<Interval>& list = frame.intervals;
  std::size_t from = lower(frame, begin);
  if (from > 0) --from;
  std::size_t write = from;
  std::size_t read = from;
  for (; read < list.size() && list[read].begin <= end; ++read) {
    if (is_empty(list[read])) continue;
    if (write > from) {
      Interval& before = list[write - 1];
      if (before.end == list[read].begin && before.extra == 0 && list[read].extra == 0 &&
          before.use == list[read].use) {
        before.end = list[read].end;
        continue;
      }
    }
    if (write != read) list[write] = list[read];
    ++write;
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(write),
             list.begin() + static_cast<std::ptrdiff_t>(read));
}

// ---- Rules

bool UseMap::is_spent(const Use& use) const {
  if (use.is_open()) return false;
  if (use.is_captured()) return captures_(use.op) == nullptr;
  return order_.host_knows(use.stream, use.tick) ||
         (use.is_one_of_two() && order_.host_knows(use.or_stream, use.or_tick));
}

bool UseMap::is_ordered(const Use& earlier, const NewUse& later) const {
  const bool is_later_captured = later.capture.number != 0;
  if (earlier.is_captured()) {
    // Work of another capture, or of one that has ended, does not run; its launches note their own
    // uses.
    if (!is_later_captured || earlier.op != later.capture.number) return true;
    return later.capture.order->is_before(earlier.stream, earlier.tick, later.stream);
  }
  if (is_later_captured) return true;  // judged when the graph is launched
  if (earlier.is_one_of_two() &&
      order_.is_before(earlier.or_stream, earlier.or_tick, later.stream)) {
    return true;
  }
  if (order_.host_knows(earlier.stream, earlier.tick)) return true;
  if (earlier.stream == later.stream && earlier.is_touch() && later.op != 0 &&
      earlier.via != later.via) {
    // Through another address the earlier work must have *completed*. The order of the stream says
    // so, unless the two are one piece of work, or the later one may start before its predecessor
    // ends.
    if (earlier.op == later.op) return false;
    if (later.overlap_from != 0 && earlier.op >= later.overlap_from) return false;
  }
  return order_.is_before(earlier.stream, earlier.tick, later.stream);
}

Use UseMap::make(const NewUse& use, std::uint32_t flags) const {
  Use result;
  result.via = use.via;
  result.stream = use.stream;
  result.flags = flags;
  if (use.capture.number != 0) {
    result.flags |= Use::kCaptured;
    result.op = use.capture.number;
    result.tick = use.capture.order->stamp(use.stream);
  } else {
    result.tick =
        use.kind == UseKind::kGiveBack ? end_of_use(use.stream) : order_.stamp(use.stream);
    result.op = (flags & Use::kTouch) != 0 ? use.op : 0;
  }
  return result;
}

namespace {
// An owner stands in the way, or, if there is none any more, a use that is not ordered before.
Conflict conflict_of(const Use& earlier, const NewUse& later, JudgeRule is_free,
                     JudgeRule is_ordered) {
  Conflict conflict;
  conflict.rule = earlier.is_open() ? is_free : is_ordered;
  conflict.is_alias = !earlier.is_open() && earlier.via != later.via;
  conflict.earlier = earlier;
  return conflict;
}
}  // namespace

void UseMap::note(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                  const Report& report) {
  switch (use.kind) {
    case UseKind::kHandOut:
      if (use.capture.number != 0) {
        hand_out_captured(frame, begin, end, use, report);
      } else {
        hand_out(frame, begin, end, use, report);
      }
      return;
    case UseKind::kShare:
      share(frame, begin, end, use);
      return;
    case UseKind::kGiveBack:
      give_back(frame, begin, end, use);
      return;
    case UseKind::kRestore:
      restore(frame, begin, end, use, report);
      return;
    case UseKind::kRead:
    case UseKind::kWrite:
      touch(frame, begin, end, use, report);
      return;
  }
}

void UseMap::hand_out(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                      const Report& report) {
  bool reported = false;
  for (std::size_t i = lower(frame, begin);
       i < frame.intervals.size() && frame.intervals[i].begin < end && !reported; ++i) {
    const Interval& interval = frame.intervals[i];
    reported = any_use(interval, [&](const Use& earlier) {
      if (!earlier.is_open() && is_ordered(earlier, use)) return false;
      Conflict conflict =
          conflict_of(earlier, use, JudgeRule::kHandOutFree, JudgeRule::kHandOutOrdered);
      conflict.begin = std::max(begin, interval.begin);
      conflict.end = std::min(end, interval.end);
      report(conflict);
      return true;
    });
  }
  // Not stamped through make(): an owner's use has no tick until it ends, and taking one now would
  // end a tick for nothing.
  Use open;
  open.via = use.via;
  open.stream = use.stream;
  open.flags = Use::kWrites | Use::kOpen;
  replace(frame, begin, end, open);
}

template <typename IsFine>
void UseMap::hand_to_graph(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                           const Use& owner, JudgeRule is_free, const Report& report,
                           const IsFine& is_fine) {
  const Span span = split(frame, begin, end);
  bool reported = false;
  for (std::size_t i = span.first; i < span.last; ++i) {
    Interval& interval = frame.intervals[i];
    if (!reported) {
      reported = any_use(interval, [&](const Use& earlier) {
        if (is_fine(earlier)) return false;
        Conflict conflict = conflict_of(earlier, use, is_free, JudgeRule::kGraphHandOutOrdered);
        conflict.begin = interval.begin;
        conflict.end = interval.end;
        report(conflict);
        return true;
      });
    }
    // Uses outside of captures stay: the launches must be ordered after them.
    drop_uses(interval, use.via,
              [](const Use& earlier) { return earlier.is_captured() || earlier.is_open(); });
    add_use(interval, owner);
  }
  fill_gaps(frame, begin, end, owner);
  merge(frame, begin, end);
}

void UseMap::hand_out_captured(Frame& frame, std::uint32_t begin, std::uint32_t end,
                               const NewUse& use, const Report& report) {
  hand_to_graph(frame, begin, end, use, make(use, Use::kWrites | Use::kOpen),
                JudgeRule::kGraphHandOutFree, report,
                [&](const Use& earlier) { return !earlier.is_open() && is_ordered(earlier, use); });
}

void UseMap::share(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use) {
  const Span span = split(frame, begin, end);
  Use open;
  open.via = use.via;
  open.stream = use.stream;
  open.flags = Use::kWrites | Use::kOpen;
  if (use.capture.number != 0) {
    open.flags |= Use::kCaptured;
    open.op = use.capture.number;
  }
  for (std::size_t i = span.first; i < span.last; ++i) add_use(frame.intervals[i], open);
  fill_gaps(frame, begin, end, open);
  merge(frame, begin, end);
}

void UseMap::restore(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                     const Report& report) {
  Use owner;
  owner.via = use.via;
  owner.stream = use.stream;
  owner.flags =
      Use::kWrites | Use::kOpen | Use::kCaptured;  // of a capture that has ended: number 0
  hand_to_graph(frame, begin, end, use, owner, JudgeRule::kRestoreFree, report,
                [](const Use& earlier) { return !earlier.is_open(); });
}

void UseMap::give_back(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use) {
  const Span span = split(frame, begin, end);
  // `launch`: the last launch over the bytes, or null.
  const auto close = [this, &use](Use& open, const Use* launch) {
    open.flags &= ~static_cast<std::uint32_t>(Use::kOpen);
    if (!open.is_captured()) {
      open.tick = end_of_use(open.stream);
    } else if (Order* order = captures_(open.op); order != nullptr) {
      open.tick = order->stamp(open.stream);
    } else if (use.capture.number == 0 && (launch != nullptr || open.op == 0)) {
      // An output: the last launch wrote it, and who read it then is not told. The block's stream
      // may have, and so may the launch's.
      open.flags &= ~static_cast<std::uint32_t>(Use::kCaptured);
      open.op = 0;
      open.stream = use.stream;
      open.tick = end_of_use(use.stream);
      if (launch != nullptr && order_.is_by_present_stream(launch->stream, launch->tick)) {
        open.or_stream = launch->stream;
        open.or_tick = end_of_use(launch->stream);
      }
    }  // else no work has run in it: the closed use is spent, and dropped below
  };
  for (std::size_t i = span.first; i < span.last; ++i) {
    Interval& interval = frame.intervals[i];
    Use last_launch;
    const bool was_launched = any_use(interval, [&last_launch](const Use& other) {
      last_launch = other;
      return other.is_launch();
    });
    const Use* launch = was_launched ? &last_launch : nullptr;
    bool was_open = false;
    if (interval.use.is_open()) {
      close(interval.use, launch);
      was_open = true;
    }
    if (interval.extra != 0) {
      for (Use& more : extra_[interval.extra]) {
        if (!more.is_open()) continue;
        close(more, launch);
        was_open = true;
      }
    }
    if (!was_open)
      add_use(interval,
              make(use, Use::kWrites));  // nobody noted its beginning; its end counts all the same
    // A touch by the owner's own stream lies before the end of its ownership: ordered after this is
    // ordered after that.
    base::SmallVector<Use, 4> ends;
    any_use(interval, [&ends](const Use& other) {
      if (!other.is_touch() && !other.is_captured() && !other.is_one_of_two())
        ends.push_back(other);
      return false;
    });
    drop_uses(interval, use.via, [&](const Use& earlier) {
      if (earlier.is_launch()) return false;
      if (is_spent(earlier)) return true;
      if (!earlier.is_touch() || earlier.is_captured()) return false;
      return std::any_of(ends.begin(), ends.end(), [&earlier](const Use& end_of_use) {
        return end_of_use.stream == earlier.stream && end_of_use.via == earlier.via &&
               end_of_use.tick >= earlier.tick;
      });
    });
  }
  fill_gaps(frame, begin, end, make(use, Use::kWrites));
  merge(frame, begin, end);
}

void UseMap::touch(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                   const Report& report) {
  const bool writes = use.kind == UseKind::kWrite;
  const Span span = split(frame, begin, end);
  const Use made = make(use, Use::kTouch | (writes ? Use::kWrites : 0U));
  bool reported = false;
  for (std::size_t i = span.first; i < span.last; ++i) {
    Interval& interval = frame.intervals[i];
    if (!reported) {
      reported = any_use(interval, [&](const Use& earlier) {
        if (earlier.is_open()) {
          if (earlier.via == use.via) return false;  // by leave of the owner
          report(Conflict{JudgeRule::kTouchOfOwn, /*is_alias=*/true, interval.begin, interval.end,
                          earlier});
          return true;
        }
        if ((!earlier.writes() && !writes) || is_ordered(earlier, use)) return false;
        report(Conflict{JudgeRule::kTouchOrdered, earlier.via != use.via, interval.begin,
                        interval.end, earlier});
        return true;
      });
    }
    drop_uses(interval, use.via, [&](const Use& earlier) {
      if (earlier.is_open() || earlier.is_launch()) return false;
      if (is_spent(earlier)) return true;
      return earlier.stream == made.stream && earlier.via == made.via &&
             earlier.is_captured() == made.is_captured() &&
             (!made.is_captured() || earlier.op == made.op) && (writes || !earlier.writes());
    });
    add_use(interval, made);
  }
  fill_gaps(frame, begin, end, made);
  merge(frame, begin, end);
}

void UseMap::note_launch(Frame& frame, std::uint32_t begin, std::uint32_t end, const NewUse& use,
                         const Report& report) {
  const Span span = split(frame, begin, end);
  const Use made = make(use, Use::kWrites | Use::kLaunch);
  bool reported = false;
  for (std::size_t i = span.first; i < span.last; ++i) {
    Interval& interval = frame.intervals[i];
    if (!reported) {
      reported = any_use(interval, [&](const Use& earlier) {
        if (earlier.is_captured())
          return false;  // what a capture handed out is the graph's own, live or not
        if (!earlier.is_open() && is_ordered(earlier, use)) return false;
        Conflict conflict =
            conflict_of(earlier, use, JudgeRule::kLaunchOverFree, JudgeRule::kLaunchOrdered);
        conflict.begin = interval.begin;
        conflict.end = interval.end;
        report(conflict);
        return true;
      });
    }
    drop_uses(interval, use.via, [](const Use& earlier) { return !earlier.is_open(); });
    add_use(interval, made);
  }
  fill_gaps(frame, begin, end, made);
  merge(frame, begin, end);
}

const Use* UseMap::find_unfinished(const Frame& frame, std::uint32_t begin, std::uint32_t end,
                                   std::uint64_t via) const {
  for (std::size_t i = lower(frame, begin);
       i < frame.intervals.size() && frame.intervals[i].begin < end; ++i) {
    const Use* found = nullptr;
    const auto look = [&](const Use& use) {
      if (use.via != via || is_spent(use)) return false;
      if (!use.is_open() && use.is_captured())
        return false;  // it does not run; the launches note their own uses
      found = &use;
      return true;
    };
    if (any_use(frame.intervals[i], look)) return found;
  }
  return nullptr;
}

void UseMap::forget(Frame& frame, std::uint32_t begin, std::uint32_t end) {
  const Span span = split(frame, begin, end);
  for (std::size_t i = span.first; i < span.last; ++i) drop_extra(frame.intervals[i]);
  frame.intervals.erase(frame.intervals.begin() + static_cast<std::ptrdiff_t>(span.first),
                        frame.intervals.begin() + static_cast<std::ptrdiff_t>(span.last));
}

void UseMap::validate(const Frame& frame) const {
  std::uint32_t end = 0;
  for (const Interval& interval : frame.intervals) {
    LEVEE_CHECK(interval.begin >= end && interval.begin < interval.end, "interval at ",
                interval.begin);
    LEVEE_CHECK(!is_empty(interval), "interval at ", interval.begin);
    LEVEE_CHECK(interval.extra == 0 || !extra_[interval.extra].empty(), "interval at ",
                interval.begin);
    any_use(interval, [&interval](const Use& use) {
      LEVEE_CHECK(use.op == 0 || use.is_touch() || use.is_captured(), "interval at ",
                  interval.begin);
      return false;
    });
    end = interval.end;
  }
  LEVEE_CHECK_LE(end, kFrameBytes);
}

}  // namespace levee::device::sim
