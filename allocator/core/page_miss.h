// How a miss is served from pages: which of the things that would make the request fit is done.
//
// Works in rounds, each decided anew from what is held by then; a round ends when the request is
// served or cannot be, or when what it tried failed or was taken by others. Steps of a round:
//
//   look again        where other threads were here since
//   grow              memory that live bytes themselves need
//   plan              which free pages can be joined, and what they lack
//   take waiting      blocks that wait for other streams, before memory grows beyond the slack
//   grow instead      of joining, while the driver-time guard denies it (driver_guard.h)
//   make what lacks   for the plan, or the whole run where that costs no more; late, only the run
//   buy slack         a little memory that saves this stitch in every later step
//   rebase            all pages that nothing lives on for long, side by side, once
//   stitch            the planned pages, mapped a second time, and behind them what still lacks
//
// Changes nothing itself: `PageWork` calls the device, `Placer` serves. Promises: no page is made
// beyond what the limits, the device and the budgets in `Config` allow; if the answer is
// "exhausted", nothing that fits was free at that moment. For small blocks a page apart is made
// first. Pre, and locks: as `Miss`, on whose behalf it works.
#pragma once

#include <optional>

#include "allocator/core/growth.h"
#include "allocator/core/miss.h"
#include "allocator/core/stitcher.h"

namespace levee::core {

class PageMiss {
 public:
  PageMiss(Miss& miss, const Request& request, Pool& pool);
  PageMiss(const PageMiss&) = delete;
  PageMiss& operator=(const PageMiss&) = delete;

  Attempt serve();

 private:
  /// What follows a step: the next one, a new round, or the end, which is `end_` then.
  enum class Then : std::uint8_t { kNextStep, kNextRound, kEnd };

  Attempt serve_small();
  Then look_again();
  Then grow();
  Then plan();
  Then take_waiting();
  Then grow_instead();
  Then make_what_lacks();
  Then buy_slack();
  Then rebase();
  Then stitch();

  Then end(const Attempt& attempt) {
    end_ = attempt;
    return Then::kEnd;
  }
  /// Serves if what is held suffices by now; else `otherwise`.
  Then serve_or(Then otherwise);
  /// After work that makes the request fit. If other threads had it first: a new round.
  Then settle();
  Then lose();
  Then go_on_in_new_zone();
  /// After growth that failed: a new round, unless it says that there is no point.
  Then after_failure(const PageWork::Grown& grown, const GrowthPlan& plan);

  Result<ZoneIndex> add_primary();
  PageWork::Grown create(GrowthPlan plan);
  StitchPlan plan_stitch();
  void look_at_guard();
  void tell_of_guard(GuardChange change);

  bool can_stitch();
  bool may_grow_instead() const;
  bool makes_behind() const;
  bool may_buy_slack(std::uint32_t units) const;
  bool is_nothing_freed() const;
  std::uint32_t largest_page(bool is_first) const;
  std::uint32_t grow_units() const { return grow_.empty() ? Limits::kNoLimit : grow_.units; }
  Bytes budget(double slack) const;
  bool fits_budget(std::uint32_t units, double slack, Bytes tolerance = Bytes{}) const;

  Miss& miss_;
  State& state_;
  PageWork& pages_;
  PoolGuard& guard_;
  const Request& request_;
  Pool& pool_;
  const Bytes span_;  // that must lie in one run
  const Bytes alignment_;
  // What nobody can be ordered behind is no room, neither to stitch nor to grow beside.
  PageFilter accepts_;
  int lost_ = 0;  // rounds, to other threads

  // Of this round.
  Miss::Room room_;
  GrowthPlan grow_;  // a run for the request in the primary zone; empty: no addresses are left
  StitchRequest wanted_;
  StitchPlan plan_;
  bool is_denied_ = false;
  bool grows_instead_ = false;
  Attempt end_;
};

}  // namespace levee::core
