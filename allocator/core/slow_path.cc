#include "allocator/core/slow_path.h"

#include <algorithm>
#include <optional>

#include "allocator/base/check.h"
#include "allocator/core/mutants.h"
#include "allocator/core/rebase.h"

namespace levee::core {
namespace {

// Ways to serve a miss that are begun one after the other, each told of why the one before failed.
constexpr int kMostRounds = 8;
// Of those lost to other threads, each of which was served then.
constexpr int kMostLost = 32;

}  // namespace

Result<Block> SlowPath::serve(const Request& request, OomReport* report) {
  std::shared_ptr<const AllocatorHooks> hooks;
  {
    PoolGuard guard(state_);
    hooks = state_.hooks;
  }
  const SlowPathContext context(hooks->capture_context ? hooks->capture_context() : ContextId{});
  OomReport local;
  OomReport& out = report != nullptr ? *report : local;
  Result<Block> result = StatusCode::kInternal;
  {
    base::MutexLock growth(state_.growth_mutex);
    PoolGuard guard(state_);
    Attempt first = attempt(guard, request);
    switch (first.end) {
      case Attempt::End::kServed:
        return first.block;
      case Attempt::End::kFailed:
        return first.status;
      case Attempt::End::kExhausted:
        break;
    }
    result = climb(guard, request, first.cause, &out);
  }
  if (result.code() == StatusCode::kOutOfMemory && hooks->out_of_memory) hooks->out_of_memory(out);
  return result;
}

SlowPath::Attempt SlowPath::from_placer(const Placer::Served& served) const {
  switch (served.outcome) {
    case Placer::Outcome::kServed:
      return Attempt::served(served.block);
    case Placer::Outcome::kFailed:
      // What failed for want of memory (an event, a record of ours) may work after the ladder.
      if (served.status.code == StatusCode::kOutOfMemory) break;
      return Attempt::failed(served.status);
    case Placer::Outcome::kMiss:
      break;
  }
  return Attempt::exhausted(EmergencyCause::kDeviceFull);
}

Placer::Served SlowPath::serve_held(PoolGuard& guard, const Request& request) {
  visits_at_look_ = state_.visits;
  Placer::Served served = placer_.serve(request);
  if (served.outcome != Placer::Outcome::kFailed || request.is_capturing ||
      served.status.code == StatusCode::kDeviceLost) {
    return served;
  }
  // No event was to be had, or a stream was destroyed: wait for the whole device, after which there
  // is nothing left to order.
  const Status fenced = pages_.fence(guard);
  if (!fenced.ok()) return {Placer::Outcome::kFailed, {}, fenced};
  visits_at_look_ = state_.visits;
  return placer_.serve(request);
}

bool SlowPath::can_order(const Request& request, const Page& page) {
  const auto captures = [&](StreamIndex stream) {
    if (capturing_.size() <= stream.value) capturing_.resize(state_.streams.count(), -1);
    if (capturing_[stream.value] < 0) {
      const Result<bool> answer = state_.streams.is_capturing(stream);
      capturing_[stream.value] = answer.ok() && *answer ? 1 : 0;
    }
    return capturing_[stream.value] != 0;
  };
  for (Stamp stamp : page.stamps) {
    if (!state_.streams.must_wait(request.stream, stamp)) continue;
    if (request.is_capturing) return mutated(Mutant::kWaitInCapture);
    // Nobody can wait for a stream that captures, or for one never seen; and a stream that captures
    // waits for nobody, whether the request knows of it or not.
    if (stamp.stream() == kUnknownStream) return false;
    if (captures(stamp.stream()) || captures(request.stream)) return false;
  }
  return true;
}

SlowPath::Attempt SlowPath::attempt(PoolGuard& guard, const Request& request) {
  // Another thread may have made room while this one waited for the growth mutex.
  capturing_.clear();
  placer_.release_done(/*ask=*/true);
  placer_.release_idle_chunks();
  if (state_.streams.is_unknown_pending() && !request.is_capturing) {
    // A graph's pool was released: its pages are of use once the graph is known to be done. Where
    // PyTorch's allocator calls cudaFree, which waits as well.
    const Status fenced = pages_.fence(guard);
    if (fenced.code == StatusCode::kDeviceLost) return Attempt::failed(fenced);
  }
  const Placer::Served served = serve_held(guard, request);
  if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
  Pool& pool = state_.pools[request.pool];
  return pool.backing == Backing::kSegments ? miss_segments(guard, request, pool)
                                            : miss_pages(guard, request, pool);
}

// ---- Pages

Bytes SlowPath::span_of(const Request& request, const Pool& pool) const {
  if (pool.is_unsplit) return round_up(request.bytes, state_.space.unit());
  return request.is_small() ? kChunkBytes : request.bytes;
}

SlowPath::Room SlowPath::room_for(const Pool& pool) const {
  const Bytes unit = state_.space.unit();
  Room room{state_.limits.room_units(state_.space.reserved(), unit), EmergencyCause::kLimitReached};
  const std::uint32_t in_pool = Limits::room(pool.limit, state_.space.held_by(pool.index), unit);
  if (in_pool < room.units) room = Room{in_pool, EmergencyCause::kPoolLimitReached};
  if (device_room_ < room.units) room = Room{device_room_, EmergencyCause::kDeviceFull};
  return room;
}

// Asking costs one call; creating until the device refuses, and taking that back, costs many.
void SlowPath::ask_device(PoolGuard& guard) {
  Result<device::MemoryInfo> info = StatusCode::kInternal;
  {
    Unlocked window(guard);
    info = state_.device.memory_info();
  }
  device_room_ = Limits::kNoLimit;  // no answer is no reason not to try
  if (info.ok()) {
    device_room_ = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(info->free / state_.space.unit(), Limits::kNoLimit - 1));
    headroom_units_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        info->total / state_.space.unit() / kHeadroomShare, Limits::kNoLimit - 1));
  }
}

// Most bytes to hold without anybody having to wonder: the most that was ever in use, this request
// included, and a share on top.
Bytes SlowPath::budget(const Request& request, double slack) const {
  const Bytes peak =
      std::max(state_.counters.peak_active(), state_.counters.active() + request.bytes);
  return peak + Bytes{static_cast<std::uint64_t>(static_cast<double>(peak.value) * slack)};
}

// Whether free pages can be brought together for the request at all. What moves pages must wait
// for their last users, and nobody may wait while a stream captures.
bool SlowPath::can_stitch(const Request& request) {
  return state_.stitcher->mode() != StitchMode::kNone &&
         !(state_.stitcher->unmaps_first() &&
           (request.is_capturing || state_.streams.any_capturing()));
}

bool SlowPath::rebase(PoolGuard& guard, Pool& pool) {
  const Nanos began = state_.device.now();
  const Status status = pages_.rebase(guard, pool, choose_rebase_pages(state_, pool));
  state_.guard.spend(state_.device.now() - began);
  return status.ok();
}

void SlowPath::tell_of_guard(GuardChange change) {
  state_.emit(EventKind::kGuard, LaneId{},
              static_cast<std::uint64_t>(state_.guard.last_spent().value),
              static_cast<std::uint64_t>(state_.guard.last_window().value),
              static_cast<std::uint16_t>(change), SlowPathContext::current());
}

// The clock is read for the guard here and around what it has to know the cost of.
void SlowPath::look_at_guard(PoolGuard& guard, const Request& request) {
  const Nanos now = state_.device.now();
  const DriverGuard::Change change = state_.guard.look(now, state_.age.now());
  if (change == DriverGuard::Change::kNone) return;
  if (change == DriverGuard::Change::kOff) return tell_of_guard(GuardChange::kOff);
  ++state_.counters.stats().num_guard_entries;
  tell_of_guard(GuardChange::kOn);
  // Rebases leave the pages of long-lived blocks out. Where there is no structure those blocks were
  // like any other, and their pages would never again be part of a long run.
  Pool& pool = state_.pools[kDefaultPool];
  if (request.is_capturing || pool.primary.is_none()) return;
  const std::vector<PageIndex> missing = choose_missing_pages(state_, pool);
  if (missing.empty()) return;
  // If it fails, the pages serve where they are.
  const Status ignored = pages_.complete_primary(guard, pool, missing);
  static_cast<void>(ignored);
  state_.guard.spend(state_.device.now() - now);
}

// Whether so much may be created although free pages could be stitched together: within the bound
// on what is held, and with room left for whoever else uses the device.
bool SlowPath::may_grow_instead(const Request& request, const Pool& pool,
                                std::uint32_t units) const {
  const Bytes unit = state_.space.unit();
  const Bytes reserved = state_.space.reserved();
  const std::uint32_t room = room_for(pool).units;
  return room >= headroom_units_ && units <= room - headroom_units_ &&
         reserved + unit * units <= budget(request, state_.config.guard_growth);
}

// A page more for small blocks alone: among large blocks it would cut up what the largest need.
SlowPath::Attempt SlowPath::miss_small(PoolGuard& guard, const Request& request, Pool& pool) {
  Request anywhere = request;
  anywhere.takes_any_page = true;
  if (pool.small_zone.is_none()) {
    const Result<ZoneIndex> zone = pages_.add_zone(guard, pool, ZoneRole::kSmall, kChunkBytes);
    static_cast<void>(zone);  // without one, small blocks go where large ones do
  }
  const GrowthPlan page = pool.small_zone.is_none() || room_for(pool).units == 0
                              ? GrowthPlan{}
                              : plan_fill(state_.space, pool.small_zone, 1);
  if (page.empty() || !pages_.grow(guard, pool, page).status.ok()) {
    pool.small_refused_at = state_.space.reserved();
  }
  const Placer::Served served = serve_held(guard, anywhere);
  if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
  return miss_pages(guard, anywhere, pool);
}

// Whether as much lives as was ever asked for: what is made now lies behind blocks that stay.
bool SlowPath::is_nothing_freed(const Request& request) const {
  return state_.age.moment().bytes <= (state_.counters.active() + request.bytes).value;
}

// Units of the largest page that growth may make. The last quarter of the memory there is, is made
// in the smallest: near the limit every unit has to serve whoever needs it (P1).
std::uint32_t SlowPath::largest_page(const Pool& pool, bool is_first) const {
  if (pool.is_private()) return 1;
  const Bytes unit = state_.space.unit();
  const Bytes reserved = state_.space.reserved();
  if (room_for(pool).units < reserved / unit / 3) return 1;
  return largest_page_for(reserved, unit, state_.config, is_first);
}

SlowPath::Attempt SlowPath::miss_pages(PoolGuard& guard, const Request& request, Pool& pool) {
  const Bytes unit = state_.space.unit();
  const Bytes span = span_of(request, pool);
  const Bytes alignment = pool.is_unsplit ? unit : 1_B;
  ask_device(guard);
  if (request.is_small() && !pool.is_unsplit && !request.takes_any_page &&
      placer_.may_grow_small(pool)) {
    return miss_small(guard, request, pool);
  }
  // What nobody can be ordered behind is no room, neither to stitch nor to grow beside.
  PageFilter accepts;
  if (state_.streams.has_several()) {
    accepts = [&](const Page& page) { return can_order(request, page); };
  }
  const auto add_primary = [&] { return pages_.add_zone(guard, pool, ZoneRole::kPrimary, span); };
  if (pool.primary.is_none()) {
    const Result<ZoneIndex> zone = add_primary();
    if (!zone.ok()) {
      return zone.code() == StatusCode::kOutOfMemory
                 ? Attempt::exhausted(EmergencyCause::kMapFailed)
                 : Attempt::failed(zone.status());
    }
  }
  // Growth that fails tells how much the device would still give; what is left to try then is
  // decided anew. The second round cannot ask for more than that.
  look_at_guard(guard, request);
  const auto again = [&] { return serve_held(guard, request); };
  // After work that makes the request fit. Nothing: other threads had it first, so once more.
  int lost = 0;
  const auto settle = [&]() -> std::optional<Attempt> {
    const bool were_others = were_others_here();
    const Placer::Served served = again();
    if (served.outcome != Placer::Outcome::kMiss || !were_others || lost == kMostLost) {
      return from_placer(served);
    }
    ++lost;
    return std::nullopt;
  };
  for (int round = 0; round < kMostRounds + lost; ++round) {
    if (were_others_here()) {
      const Placer::Served served = again();
      if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
    }
    // Empty where the zone has no addresses left for a run of that length. What is free can still
    // be stitched, and holes be filled; if not, the pool goes on in a new zone.
    GrowthPlan grow = plan_growth(state_.space, pool.primary, span, alignment, accepts);
    if (grow.empty() && !can_stitch(request)) {
      if (!add_primary().ok()) return Attempt::exhausted(EmergencyCause::kMapFailed);
      continue;
    }
    const std::uint32_t grow_units = grow.empty() ? Limits::kNoLimit : grow.units;
    const Room room = room_for(pool);
    const Bytes reserved = state_.space.reserved();
    const auto create = [&](GrowthPlan plan) {
      plan.is_first = is_nothing_freed(request);
      plan.largest_page = largest_page(pool, plan.is_first);
      const PageWork::Grown grown = pages_.grow(guard, pool, plan);
      if (grown.status.ok()) {
        if (device_room_ != Limits::kNoLimit) device_room_ -= std::min(device_room_, plan.units);
      } else if (grown.made < plan.units) {
        device_room_ = grown.made;
      }
      return grown;
    };

    // Live bytes themselves need it.
    if (grow_units <= room.units && !grow.empty() &&
        reserved + unit * grow_units <= budget(request, 0) + unit) {
      const PageWork::Grown grown = create(grow);
      if (grown.status.ok()) {
        if (const auto end = settle()) return *end;
        continue;
      }
      if (grown.status.code == StatusCode::kDeviceLost) return Attempt::failed(grown.status);
      if (grown.made == grow.units) return Attempt::exhausted(EmergencyCause::kMapFailed);
      continue;
    }

    StitchRequest wanted;
    wanted.bytes = span;
    wanted.alignment = alignment;
    wanted.scope = pool.scope();
    wanted.pool = pool.index;
    wanted.accepts = accepts;
    const auto make_plan = [&] {
      StitchPlan made = state_.stitcher->plan(state_.space, wanted);
      if (!can_stitch(request)) made.missing = grow_units;
      return made;
    };
    // Stitching has become a habit: where there is memory to end it with, nothing is planned.
    const bool is_denied = state_.guard.denies();
    const bool grows_instead =
        is_denied && !grow.empty() && may_grow_instead(request, pool, grow_units);
    StitchPlan plan;
    if (!grows_instead) plan = make_plan();
    // Blocks that wait for other streams: their memory is as good as free, if the next owner waits
    // on the device. Only where memory would grow else: that owner may wait long.
    const std::uint32_t needed = grows_instead ? grow_units : std::min(plan.missing, grow_units);
    if (needed > 0 && !request.is_capturing &&
        (needed > room.units || reserved + unit * needed > budget(request, state_.config.slack)) &&
        placer_.release_with_waits(pool.index) > 0_B) {
      const Placer::Served served = again();
      if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
      continue;  // other bytes are free now, some of which nobody may be able to wait for
    }

    if (grows_instead) {
      if (create(grow).status.ok()) {
        state_.guard.on_denied();
        ++state_.counters.stats().num_guard_growths;
        if (const auto end = settle()) return *end;
        continue;
      }
      plan = make_plan();
    }
    // Where memory cannot grow nobody is refused for it.
    if (is_denied) {
      if (mutated(Mutant::kGuardRefuses)) return Attempt::exhausted(room.cause);
      if (state_.guard.on_overruled()) tell_of_guard(GuardChange::kOverruled);
    }

    if (plan.missing > 0) {
      if (std::min(plan.missing, grow_units) > room.units) return Attempt::exhausted(room.cause);
      const bool grow_alone = grow_units <= plan.missing;
      const GrowthPlan fill =
          grow_alone ? grow : plan_fill(state_.space, pool.primary, plan.missing);
      if (fill.empty()) {
        if (!add_primary().ok()) return Attempt::exhausted(EmergencyCause::kMapFailed);
        continue;
      }
      const PageWork::Grown grown = create(fill);
      if (!grown.status.ok()) {
        if (grown.status.code == StatusCode::kDeviceLost) return Attempt::failed(grown.status);
        if (grown.made == fill.units) return Attempt::exhausted(EmergencyCause::kMapFailed);
        continue;
      }
      if (grow_alone) {
        if (const auto end = settle()) return *end;
        continue;
      }
      const Placer::Served served = again();
      if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
      plan = state_.stitcher->plan(state_.space, wanted);
      if (plan.missing > 0) continue;
    }

    // A little more memory, once, saves the stitch in every later step of this shape. Once the
    // program is settled such shapes are rare: a stitch then costs less than memory held for good.
    const Bytes longest = state_.space.zone(pool.primary).runs.longest();
    const std::uint32_t deficit = longest >= span ? 0 : state_.space.units_for(span - longest);
    if (!state_.age.is_settled() && deficit > 0 && deficit <= room_for(pool).units &&
        state_.space.reserved() + unit * deficit <= budget(request, state_.config.slack)) {
      const GrowthPlan slack = plan_fill(state_.space, pool.primary, deficit);
      if (!slack.empty() && create(slack).status.ok()) {
        const Placer::Served served = again();
        if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
        plan = state_.stitcher->plan(state_.space, wanted);
        if (plan.missing > 0) continue;
      }
    }

    // Long-lived blocks keep the free pages apart: map all others side by side, once.
    pool.stitched_units += plan.units;
    if (!state_.guard.is_on() && !request.is_capturing && is_rebase_due(state_, pool) &&
        unit * state_.space.lendable_units() >= span + unit &&
        is_rebase_useful(state_, pool, span) && rebase(guard, pool)) {
      ++pool.rebase_count;
      pool.stitched_units = 0;
      const Placer::Served served = again();
      if (served.outcome != Placer::Outcome::kMiss) return from_placer(served);
      continue;  // slack, or a stitch, for what is still missing
    }

    const Nanos began = state_.device.now();
    const Status stitched = pages_.stitch(guard, pool, std::move(plan));
    state_.guard.spend(state_.device.now() - began);
    if (!stitched.ok()) {
      if (stitched.code == StatusCode::kDeviceLost) return Attempt::failed(stitched);
      // Mapping is refused: growth may still work, if there is room for it.
      grow = plan_growth(state_.space, pool.primary, span, alignment, accepts);
      if (!grow.empty() && grow.units <= room_for(pool).units && create(grow).status.ok()) {
        if (const auto end = settle()) return *end;
        continue;
      }
      return Attempt::exhausted(EmergencyCause::kMapFailed);
    }
    std::optional<Attempt> end = settle();
    if (!end) continue;
    if (end->end == Attempt::End::kExhausted && pool.limit.value != 0) {
      end->cause = EmergencyCause::kPoolLimitReached;
    }
    return *end;
  }
  return Attempt::exhausted(EmergencyCause::kDeviceFull);
}

// ---- Segments

SlowPath::Attempt SlowPath::miss_segments(PoolGuard& guard, const Request& request, Pool& pool) {
  // Sizes as PyTorch's allocator takes them: 2 MiB for small blocks, 20 MiB for those below 10 MiB,
  // else the request rounded up to 2 MiB.
  const Bytes unit = state_.space.unit();
  Bytes bytes = unit;
  if (!request.is_small()) {
    bytes = request.bytes < 10_MiB && !pool.is_unsplit ? 20_MiB : request.bytes;
  }
  bytes = round_up(bytes, unit);
  const Bytes least = round_up(span_of(request, pool), unit);
  ask_device(guard);
  for (Bytes size : {bytes, least}) {
    const Room room = room_for(pool);
    if (size / unit > room.units) {
      if (size == least) return Attempt::exhausted(room.cause);
      continue;
    }
    const Status added = pages_.add_segment(guard, pool, size);
    if (added.ok()) return from_placer(serve_held(guard, request));
    if (added.code != StatusCode::kOutOfMemory) return Attempt::failed(added);
  }
  return Attempt::exhausted(EmergencyCause::kDeviceFull);
}

}  // namespace levee::core
