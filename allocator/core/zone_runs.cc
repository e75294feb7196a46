#include "allocator/core/zone_runs.h"

#include <algorithm>
#include <bit>

#include "allocator/base/check.h"
#include "allocator/core/space.h"

namespace levee::core {

ZoneRuns::ZoneRuns(Space& space, const std::vector<PageIndex>& untold, bool is_deferred)
    : space_(&space),
      untold_(&untold),
      unit_(space.unit()),
      unit_log2_(std::countr_zero(unit_.value)),
      is_deferred_(is_deferred) {
  index_.reserve(64);
}

void ZoneRuns::tell() const {
  space_->tell_deferred();
}

// Own bytes never make up a whole page, since a page without live bytes has no owner. So a run is
// bytes of one page, slots that are set, bytes of another page, each of which may be missing.
void ZoneRuns::raise_bound_at(std::uint32_t slot) const {
  const Bytes slots = unit_ * bits_.run_through(slot);
  bound_ = std::max(bound_, (slots + own_.longest() * 2).value);
}

void ZoneRuns::insert_own(Run run) {
  if (run.size.value == 0) return;
  own_.insert(run);
  is_stale_ = true;
  std::uint64_t slots = 0;
  const auto add = [&](std::uint32_t slot) {
    if (bits_.is_set(slot)) slots += bits_.run_through(slot);
  };
  // Joined with its own neighbours: slots may touch these.
  const Run joined = own_.run_at(run.begin).value_or(run);
  if (joined.begin.value != 0) add(slot_at(joined.begin - 1_B));
  add(slot_at(joined.end()));
  bound_ = std::max(bound_, (unit_ * slots + own_.longest() * 2).value);
}

void ZoneRuns::cut_own(Run run) {
  own_.cut(run);
  is_stale_ = true;
}

void ZoneRuns::build(RunIndex& index) const {
  index.clear();
  std::size_t own = 0;
  const auto own_until = [&](Bytes end) {
    for (; own < own_.count() && own_.at(own).begin < end; ++own) index.append(own_.at(own));
  };
  bits_.for_each_run([&](std::uint32_t first, std::uint32_t end) {
    own_until(unit_ * first);
    index.append(Run{unit_ * first, unit_ * (end - first)});
  });
  for (; own < own_.count(); ++own) index.append(own_.at(own));
}

void ZoneRuns::bring_up_to_date() const {
  settle();
  if (!is_stale_) return;
  build(index_);
  bound_ = index_.longest().value;
  shown_end_ = 0;
  is_stale_ = false;
}

// Behind own bytes that touch a slot there are live ones of the same page: nothing more to join.
Run ZoneRuns::grown(Run part) const {
  Bytes begin = part.begin;
  Bytes end = part.end();
  const std::uint32_t first = slot_at(begin);
  if (begin == unit_ * first && first > 0 && bits_.is_set(first - 1)) {
    begin = unit_ * bits_.run_begin(first - 1);
  }
  const std::uint32_t behind = slot_at(end);
  if (end == unit_ * behind && bits_.is_set(behind)) end = unit_ * bits_.run_end(behind);
  if (own_.count() != 0) {
    if (const auto own = own_.run_ending_at(begin)) begin = own->begin;
    if (const auto own = own_.run_at(end)) end = own->end();
  }
  return Run{begin, end - begin};
}

std::optional<Run> ZoneRuns::best_deferred(Bytes size) const {
  settle();
  if (!is_stale_) {
    const std::optional<std::size_t> found = index_.best_fit(size);
    return found ? std::optional<Run>{index_.at(*found)} : std::nullopt;
  }
  std::optional<Run> best;
  const Bytes own_most = own_.longest();
  const std::uint64_t least =
      size > own_most * 2 ? ((size - own_most * 2).value + unit_.value - 1) >> unit_log2_ : 1;
  // At most what is not looked at: fewer slots between own bytes, or own bytes alone.
  Bytes longest = least == 1 ? own_most : unit_ * (least - 1) + own_most * 2;
  const auto consider = [&](Run run) {
    longest = std::max(longest, run.size);
    if (run.size < size) return;
    if (!best || run.size < best->size || (run.size == best->size && run.begin < best->begin)) {
      best = run;
    }
  };
  bits_.for_each_run_of(least, [&](std::uint32_t first, std::uint32_t end) {
    consider(grown(Run{unit_ * first, unit_ * (end - first)}));
  });
  // Own bytes alone: next to a slot they were met above.
  for (std::size_t i = 0; own_most >= size && i < own_.count(); ++i) {
    if (own_.at(i).size < size) continue;
    const Run run = grown(own_.at(i));
    if (run == own_.at(i)) consider(run);
  }
  bound_ = longest.value;
  shown_end_ = 0;
  return best;
}

std::optional<Run> ZoneRuns::deferred_ending_at(Bytes offset) const {
  settle();
  if (!is_stale_) return index_.run_ending_at(offset);
  if (offset.value == 0) return std::nullopt;
  const std::uint32_t slot = slot_at(offset - 1_B);
  std::optional<Run> last;
  if (bits_.is_set(slot)) {
    last = Run{unit_ * slot, unit_};
  } else {
    last = own_.run_at(offset - 1_B);
  }
  if (!last) return std::nullopt;
  const Run run = grown(*last);
  return run.end() == offset ? std::optional<Run>{run} : std::nullopt;
}

RunIndex ZoneRuns::defer() {
  LEVEE_CHECK(!is_deferred_, "a zone is deferred twice");
  is_deferred_ = true;
  is_stale_ = true;
  bound_ = 0;
  return std::exchange(index_, RunIndex{});
}

void ZoneRuns::undefer() {
  LEVEE_CHECK(is_deferred_, "a zone that is not deferred is to be prompt");
  bring_up_to_date();
  is_deferred_ = false;
  bits_.clear_all();
  own_.clear();
}

void ZoneRuns::validate() const {
  index_.validate();
  if (!is_deferred_) return;
  own_.validate();
  if (!untold_->empty()) return;  // bits of pages that are its own meanwhile may still be set
  RunIndex fresh;
  build(fresh);
  fresh.validate();
  LEVEE_CHECK_EQ(fresh.total(), unit_ * bits_.count() + own_.total(), "a slot's bytes are its own");
  if (shown_end_ == 0) LEVEE_CHECK_GE(bound_, fresh.longest().value, "bound of a deferred zone");
  if (is_stale_) return;
  LEVEE_CHECK_EQ(index_.count(), fresh.count(), "runs of a deferred zone");
  for (std::size_t i = 0; i < fresh.count(); ++i) {
    LEVEE_CHECK(index_.at(i) == fresh.at(i), "run ", i, " of a deferred zone");
  }
}

}  // namespace levee::core
