#include "allocator/core/page_miss.h"

#include <algorithm>

#include "allocator/core/mutants.h"
#include "allocator/core/rebase.h"

namespace levee::core {
namespace {

// Growth that fails tells how much the device would still give, so that what is left to try is
// decided anew: the second round cannot ask for more than that.
constexpr int kMostRounds = 8;
// Of those lost to other threads, each of which was served then.
constexpr int kMostLost = 32;

}  // namespace

PageMiss::PageMiss(Miss& miss, const Request& request, Pool& pool)
    : miss_(miss),
      state_(miss.state_),
      pages_(miss.pages_),
      guard_(miss.guard_),
      request_(request),
      pool_(pool),
      span_(miss.span_in(pool)),
      alignment_(pool.is_unsplit ? state_.space.unit() : 1_B) {
  if (state_.streams.has_several()) {
    accepts_ = [this](const Page& page) { return miss_.can_order(page); };
  }
}

Attempt PageMiss::serve() {
  if (request_.is_small() && !pool_.is_unsplit && !request_.takes_any_page &&
      miss_.placer_.may_grow_small(pool_)) {
    return serve_small();
  }
  if (pool_.primary.is_none()) {
    const Result<ZoneIndex> zone = add_primary();
    if (!zone.ok()) {
      return zone.code() == StatusCode::kOutOfMemory
                 ? Attempt::exhausted(EmergencyCause::kMapFailed)
                 : Attempt::failed(zone.status());
    }
  }
  look_at_guard();
  constexpr Then (PageMiss::*kSteps[])() = {
      &PageMiss::look_again,   &PageMiss::grow,         &PageMiss::plan,
      &PageMiss::take_waiting, &PageMiss::grow_instead, &PageMiss::make_what_lacks,
      &PageMiss::buy_slack,    &PageMiss::rebase,       &PageMiss::stitch,
  };
  for (int round = 0; round < kMostRounds + lost_; ++round) {
    for (const auto step : kSteps) {
      const Then then = (this->*step)();
      if (then == Then::kEnd) return end_;
      if (then == Then::kNextRound) break;
    }
  }
  return Attempt::exhausted(EmergencyCause::kDeviceFull);
}

// A page more for small blocks alone: among large blocks it would cut up what the largest need.
Attempt PageMiss::serve_small() {
  Request anywhere = request_;
  anywhere.takes_any_page = true;
  if (pool_.small_zone.is_none()) {
    const Result<ZoneIndex> zone = pages_.add_zone(guard_, pool_, ZoneRole::kSmall, kChunkBytes);
    static_cast<void>(zone);  // without one, small blocks go where large ones do
  }
  const GrowthPlan page = pool_.small_zone.is_none() || miss_.room_for(pool_).units == 0
                              ? GrowthPlan{}
                              : plan_fill(state_.space, pool_.small_zone, 1);
  if (page.empty() || !pages_.grow(guard_, pool_, page).status.ok()) {
    pool_.small_refused_at = state_.space.reserved();
  }
  const Placer::Served served = miss_.serve_held(anywhere);
  if (served.outcome != Placer::Outcome::kMiss) return Attempt::from(served);
  miss_.ask_device();
  return PageMiss(miss_, anywhere, pool_).serve();
}

// ---- The steps of a round

PageMiss::Then PageMiss::look_again() {
  return miss_.were_others_here() ? serve_or(Then::kNextStep) : Then::kNextStep;
}

PageMiss::Then PageMiss::grow() {
  // Empty where the zone has no addresses left for a run of that length. What is free can still
  // be stitched, and holes be filled; if not, the pool goes on in a new zone.
  grow_ = plan_growth(state_.space, pool_.primary, span_, alignment_, accepts_);
  if (grow_.empty() && !can_stitch()) return go_on_in_new_zone();
  room_ = miss_.room_for(pool_);
  const Bytes unit = state_.space.unit();
  if (grow_.empty() || grow_.units > room_.units || !fits_budget(grow_.units, 0, unit)) {
    return Then::kNextStep;
  }
  const PageWork::Grown grown = create(grow_);
  return grown.status.ok() ? settle() : after_failure(grown, grow_);
}

PageMiss::Then PageMiss::plan() {
  wanted_ = StitchRequest{};
  wanted_.bytes = span_;
  wanted_.alignment = alignment_;
  wanted_.scope = pool_.scope();
  wanted_.pool = pool_.index;
  wanted_.accepts = accepts_;
  // Stitching has become a habit: where there is memory to end it with, nothing is planned.
  is_denied_ = state_.guard.denies();
  grows_instead_ = is_denied_ && !grow_.empty() && may_grow_instead();
  plan_ = grows_instead_ ? StitchPlan{} : plan_stitch();
  return Then::kNextStep;
}

// The memory of blocks that wait for other streams is as good as free, if the next owner waits on
// the device. Only where memory would grow else: that owner may wait long.
PageMiss::Then PageMiss::take_waiting() {
  const std::uint32_t needed =
      grows_instead_ ? grow_units() : std::min(plan_.missing, grow_units());
  if (needed == 0 || request_.is_capturing ||
      (needed <= room_.units && fits_budget(needed, state_.config.slack)) ||
      miss_.placer_.release_with_waits(pool_.index) == 0_B) {
    return Then::kNextStep;
  }
  return serve_or(Then::kNextRound);  // other bytes are free now, and some may be nobody's to wait
                                      // for
}

PageMiss::Then PageMiss::grow_instead() {
  if (grows_instead_) {
    if (create(grow_).status.ok()) {
      state_.guard.on_denied();
      ++state_.counters.stats().num_guard_growths;
      return settle();
    }
    plan_ = plan_stitch();
  }
  // Where memory cannot grow nobody is refused for it.
  if (is_denied_) {
    if (mutated(Mutant::kGuardRefuses)) return end(Attempt::exhausted(room_.cause));
    if (state_.guard.on_overruled()) tell_of_guard(GuardChange::kOverruled);
  }
  return Then::kNextStep;
}

PageMiss::Then PageMiss::make_what_lacks() {
  if (plan_.missing == 0) return Then::kNextStep;
  if (std::min(plan_.missing, grow_units()) > room_.units) {
    return end(Attempt::exhausted(room_.cause));
  }
  const bool is_behind = makes_behind();
  const bool grow_alone =
      grow_units() <= plan_.missing || (is_behind && may_buy_slack(grow_units()));
  if (is_behind && !grow_alone) return Then::kNextStep;
  const GrowthPlan fill =
      grow_alone ? grow_ : plan_fill(state_.space, pool_.primary, plan_.missing);
  if (fill.empty()) return go_on_in_new_zone();
  const PageWork::Grown grown = create(fill);
  if (!grown.status.ok()) return after_failure(grown, fill);
  if (grow_alone) return settle();
  if (const Then then = serve_or(Then::kNextStep); then != Then::kNextStep) return then;
  plan_ = state_.stitcher->plan(state_.space, wanted_);
  return plan_.missing > 0 ? Then::kNextRound : Then::kNextStep;
}

// A little more memory, once, saves the stitch in every later step of this shape. Not for a plan
// that is completed behind its pages: where the whole run was within the slack it was made.
PageMiss::Then PageMiss::buy_slack() {
  const Bytes longest = state_.space.zone(pool_.primary).runs.longest();
  const std::uint32_t deficit = longest >= span_ ? 0 : state_.space.units_for(span_ - longest);
  if (plan_.missing > 0 || deficit == 0 || !may_buy_slack(deficit)) return Then::kNextStep;
  const GrowthPlan slack = plan_fill(state_.space, pool_.primary, deficit);
  if (slack.empty() || !create(slack).status.ok()) return Then::kNextStep;
  if (const Then then = serve_or(Then::kNextStep); then != Then::kNextStep) return then;
  plan_ = state_.stitcher->plan(state_.space, wanted_);
  return plan_.missing > 0 ? Then::kNextRound : Then::kNextStep;
}

// Long-lived blocks keep the free pages apart: map all others side by side, once.
PageMiss::Then PageMiss::rebase() {
  pool_.stitched_units += plan_.units;
  if (state_.guard.is_on() || request_.is_capturing || !is_rebase_due(state_, pool_) ||
      state_.space.unit() * state_.space.lendable_units() < span_ + state_.space.unit() ||
      !is_rebase_useful(state_, pool_, span_)) {
    return Then::kNextStep;
  }
  const Nanos began = state_.device.now();
  const Status status = pages_.rebase(guard_, pool_, choose_rebase_pages(state_, pool_));
  state_.guard.spend(state_.device.now() - began);
  if (!status.ok()) return Then::kNextStep;
  ++pool_.rebase_count;
  pool_.stitched_units = 0;
  return serve_or(Then::kNextRound);  // slack, or a stitch, for what is still missing
}

PageMiss::Then PageMiss::stitch() {
  // Something was tried in vain since the pages were chosen, and some of them may be taken.
  if (miss_.were_others_here()) return lose();
  const Nanos began = state_.device.now();
  const Status stitched = pages_.stitch(guard_, pool_, plan_);
  state_.guard.spend(state_.device.now() - began);
  if (stitched.ok()) {
    if (plan_.missing > 0) {
      // A limit may have been set while pages were mapped.
      if (plan_.missing > miss_.room_for(pool_).units) return Then::kNextRound;
      GrowthPlan behind;
      behind.zone = plan_.zone;
      behind.stretches = {FillStretch{plan_.first_unit + plan_.units, plan_.missing}};
      behind.units = plan_.missing;
      const PageWork::Grown grown = create(behind);
      if (!grown.status.ok()) return after_failure(grown, behind);
    }
    const Then then = settle();
    if (then == Then::kEnd && end_.end == Attempt::End::kExhausted && pool_.limit.value != 0) {
      end_.cause = EmergencyCause::kPoolLimitReached;
    }
    return then;
  }
  if (stitched.code == StatusCode::kDeviceLost) return end(Attempt::failed(stitched));
  miss_.note_refusal(stitched);
  // Mapping is refused: growth may still work, if there is room for it.
  grow_ = plan_growth(state_.space, pool_.primary, span_, alignment_, accepts_);
  if (!grow_.empty() && grow_.units <= miss_.room_for(pool_).units && create(grow_).status.ok()) {
    return settle();
  }
  return end(Attempt::exhausted(EmergencyCause::kMapFailed));
}

// ---- How steps end

PageMiss::Then PageMiss::serve_or(Then otherwise) {
  const Placer::Served served = miss_.serve_held(request_);
  return served.outcome == Placer::Outcome::kMiss ? otherwise : end(Attempt::from(served));
}

PageMiss::Then PageMiss::settle() {
  const bool were_others = miss_.were_others_here();
  const Placer::Served served = miss_.serve_held(request_);
  if (served.outcome == Placer::Outcome::kMiss && were_others) return lose();
  return end(Attempt::from(served));
}

PageMiss::Then PageMiss::lose() {
  if (lost_ == kMostLost) return end(Attempt::exhausted(EmergencyCause::kDeviceFull));
  ++lost_;
  return Then::kNextRound;
}

PageMiss::Then PageMiss::go_on_in_new_zone() {
  const Result<ZoneIndex> zone = add_primary();
  if (zone.ok()) return Then::kNextRound;
  if (zone.code() == StatusCode::kDeviceLost) return end(Attempt::failed(zone.status()));
  miss_.note_refusal(zone.status());
  return end(Attempt::exhausted(EmergencyCause::kMapFailed));
}

PageMiss::Then PageMiss::after_failure(const PageWork::Grown& grown, const GrowthPlan& plan) {
  if (grown.status.code == StatusCode::kDeviceLost) return end(Attempt::failed(grown.status));
  return grown.made == plan.units ? end(Attempt::exhausted(EmergencyCause::kMapFailed))
                                  : Then::kNextRound;
}

// ---- What steps do

Result<ZoneIndex> PageMiss::add_primary() {
  return pages_.add_zone(guard_, pool_, ZoneRole::kPrimary, span_);
}

PageWork::Grown PageMiss::create(GrowthPlan plan) {
  plan.is_first = is_nothing_freed();
  plan.largest_page = largest_page(plan.is_first);
  const PageWork::Grown grown = pages_.grow(guard_, pool_, plan);
  miss_.note_refusal(grown.status);
  pool_.refused_at = grown.status.ok() ? 0_B : std::max(state_.space.reserved(), 1_B);
  std::uint32_t& left = miss_.device_room_;
  if (grown.status.ok()) {
    if (left != Limits::kNoLimit) left -= std::min(left, plan.units);
  } else if (grown.made < plan.units) {
    left = grown.made;
  }
  return grown;
}

StitchPlan PageMiss::plan_stitch() {
  StitchPlan made = state_.stitcher->plan(state_.space, wanted_);
  if (!can_stitch()) made.missing = grow_units();
  return made;
}

void PageMiss::tell_of_guard(GuardChange change) {
  state_.emit(EventKind::kGuard, LaneId{},
              static_cast<std::uint64_t>(state_.guard.last_spent().value),
              static_cast<std::uint64_t>(state_.guard.last_window().value),
              static_cast<std::uint16_t>(change), SlowPathContext::current());
}

// The clock is read for the guard here and around what it has to know the cost of.
void PageMiss::look_at_guard() {
  const Nanos now = state_.device.now();
  const DriverGuard::Change change = state_.guard.look(now, state_.age.now());
  if (change == DriverGuard::Change::kNone) return;
  if (change == DriverGuard::Change::kOff) return tell_of_guard(GuardChange::kOff);
  ++state_.counters.stats().num_guard_entries;
  tell_of_guard(GuardChange::kOn);
  // Rebases leave the pages of long-lived blocks out. Where there is no structure those blocks were
  // like any other, and their pages would never again be part of a long run.
  Pool& pool = state_.pools[kDefaultPool];
  if (request_.is_capturing || pool.primary.is_none()) return;
  const std::vector<PageIndex> missing = choose_missing_pages(state_, pool);
  if (missing.empty()) return;
  // If it fails, the pages serve where they are.
  const Status ignored = pages_.complete_primary(guard_, pool, missing);
  static_cast<void>(ignored);
  state_.guard.spend(state_.device.now() - now);
}

// ---- What is allowed

// Whether free pages can be brought together for the request at all. What moves pages must wait
// for their last users, and nobody may wait while a stream captures.
bool PageMiss::can_stitch() {
  return state_.stitcher->mode() != StitchMode::kNone &&
         !(state_.stitcher->unmaps_first() &&
           (request_.is_capturing || state_.streams.any_capturing()));
}

// Whether so much may be created although free pages could be stitched together: within the bound
// on what is held, and with room left for whoever else uses the device.
bool PageMiss::may_grow_instead() const {
  const std::uint32_t room = miss_.room_for(pool_).units;
  const std::uint32_t headroom = miss_.headroom_units_;
  return room >= headroom && grow_.units <= room - headroom &&
         fits_budget(grow_.units, state_.config.guard_growth);
}

// Whether what a plan lacks is made behind its pages, in their zone, and so mapped once. In the
// primary zone, where blocks are looked for first, it is of more use: a program that still finds
// its shape has it there, and pays for mapping it again; so has one of several streams, whose pages
// near the bottom are the ones that need no wait. Nor where the device just refused to make any: a
// stitch in vain would be mapped for each request.
bool PageMiss::makes_behind() const {
  return state_.age.now() > Age::kWarmUpSteps && state_.stitcher->mode() == StitchMode::kAlias &&
         !plan_.pages.empty() && !state_.streams.has_several() &&
         (pool_.refused_at == 0_B || state_.space.reserved() < pool_.refused_at);
}

// Whether so much may be created to save a stitch in every later step. Once the program is settled
// the shapes that would need it are rare: a stitch then costs less than memory held for good.
bool PageMiss::may_buy_slack(std::uint32_t units) const {
  return !state_.age.is_settled() && units <= miss_.room_for(pool_).units &&
         fits_budget(units, state_.config.slack);
}

// Whether as much lives as was ever asked for: what is made now lies behind blocks that stay.
bool PageMiss::is_nothing_freed() const {
  return state_.age.moment().bytes <= (state_.counters.active() + request_.bytes).value;
}

// Units of the largest page that growth may make. The last quarter of the memory there is, is made
// in the smallest: near the limit every unit has to serve whoever needs it (P1).
std::uint32_t PageMiss::largest_page(bool is_first) const {
  if (pool_.is_private()) return 1;
  const Bytes unit = state_.space.unit();
  const Bytes reserved = state_.space.reserved();
  if (miss_.room_for(pool_).units < reserved / unit / 3) return 1;
  return largest_page_for(reserved, unit, state_.config, is_first);
}

// Most bytes to hold without anybody having to wonder: the most that was ever in use, this request
// included, and a share on top.
Bytes PageMiss::budget(double slack) const {
  const Bytes peak =
      std::max(state_.counters.peak_active(), state_.counters.active() + request_.bytes);
  return peak + Bytes{static_cast<std::uint64_t>(static_cast<double>(peak.value) * slack)};
}

bool PageMiss::fits_budget(std::uint32_t units, double slack, Bytes tolerance) const {
  return state_.space.reserved() + state_.space.unit() * units <= budget(slack) + tolerance;
}

}  // namespace levee::core
