// The recovery ladder of a `Miss`: what is tried, in which order, when a request cannot be served
// within the limits. Each rung is timed and recorded and ends in a fresh attempt.
//
//   own events       wait for blocks that only wait for other streams of ours
//   callbacks        whoever asked to be told gives memory back
//   fragments        small blocks kept ready for nobody, and pieces of foreign chunks
//   other pools      pools that serve others when memory is short
//   cached handles   memory in a form that this request cannot use, given back to the device
//
// Who is refused at last is so with the lock held since the last look: what fits then is served.
// Where the driver refused for another reason than want of memory, its answer is the answer.
//
// While a stream captures, the rungs that wait or release are skipped: CUDA forbids both.

#include <algorithm>

#include "allocator/core/miss.h"

namespace levee::core {
namespace {

// A window in the growth mutex, which the caller of `climb` holds.
class GrowthUnlocked {
 public:
  explicit GrowthUnlocked(base::Mutex& mutex) LEVEE_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex) {
    mutex_.unlock();
  }
  ~GrowthUnlocked() LEVEE_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  GrowthUnlocked(const GrowthUnlocked&) = delete;
  GrowthUnlocked& operator=(const GrowthUnlocked&) = delete;

 private:
  base::Mutex& mutex_;
};

}  // namespace

// Bytes that are not in use: what rungs make more of.
Bytes Miss::usable_bytes() const {
  const Bytes reserved = state_.space.reserved();
  const Bytes active = state_.counters.active();
  return reserved > active ? reserved - active : 0_B;
}

Result<Block> Miss::climb(EmergencyCause cause, OomReport* report) {
  Stats& stats = state_.counters.stats();
  ++stats.num_emergencies;
  const LaneId lane = state_.streams.lane(request_.stream);
  const Nanos began = base::Clock::now();
  state_.emit(EventKind::kEmergencyBegin, lane, request_.requested.value,
              state_.space.reserved().value, static_cast<std::uint16_t>(cause),
              SlowPathContext::current());
  *report = OomReport{};
  const auto ended = [&](const Attempt& with) -> Result<Block> {
    const bool served = with.end == Attempt::End::kServed;
    if (served) ++stats.num_alloc_retries;
    state_.emit(EventKind::kEmergencyEnd, lane,
                static_cast<std::uint64_t>((base::Clock::now() - began).value),
                state_.space.reserved().value, served ? 1 : 2, SlowPathContext::current());
    if (served) return with.block;
    return with.status;
  };
  for (LadderRung rung : {LadderRung::kOwnEvents, LadderRung::kCallbacks, LadderRung::kFragments,
                          LadderRung::kOtherPools, LadderRung::kCachedHandles}) {
    const Nanos rung_began = base::Clock::now();
    const Bytes reserved_before = state_.space.reserved();
    const Bytes usable_before = usable_bytes();
    const bool helped = take_rung(rung);
    const Bytes usable_after = usable_bytes();
    const Bytes reserved_after = state_.space.reserved();
    Bytes freed{};
    if (usable_after > usable_before) freed += usable_after - usable_before;
    if (reserved_before > reserved_after) freed += reserved_before - reserved_after;
    const Nanos took = base::Clock::now() - rung_began;
    state_.emit(EventKind::kEmergencyRung, lane, static_cast<std::uint64_t>(took.value),
                freed.value, static_cast<std::uint16_t>(rung), SlowPathContext::current());
    report->rungs[report->rung_count++] = OomReport::Rung{rung, freed, took};
    if (!helped) continue;
    const Attempt again = rung == LadderRung::kOtherPools ? attempt_in_others() : attempt();
    if (again.end == Attempt::End::kExhausted) {
      // What stands in the way now: a limit of the pool may be left when the device has room again.
      if (rung != LadderRung::kOtherPools) cause = again.cause;
      continue;
    }
    return ended(again);
  }
  // While the rungs waited, other threads may have given back what they could not.
  if (were_others_here()) {
    const Attempt last = attempt();
    if (last.end != Attempt::End::kExhausted) return ended(last);
    cause = last.cause;
    // It asked the device itself, with the lock left.
    if (were_others_here()) {
      placer_.release_done(/*ask=*/true);
      placer_.release_idle_chunks();
      const Placer::Served served = serve_held(request_);
      if (served.outcome == Placer::Outcome::kServed) return ended(Attempt::served(served.block));
    }
  }
  if (!refusal_.ok() && cause != EmergencyCause::kLimitReached &&
      cause != EmergencyCause::kPoolLimitReached) {
    return ended(Attempt::failed(refusal_));
  }
  ++stats.num_ooms;
  fill_report(cause, report);
  report->rungs[report->rung_count++] = OomReport::Rung{LadderRung::kOutOfMemory, 0_B, 0_ns};
  state_.emit(EventKind::kOutOfMemory, lane, request_.requested.value,
              state_.space.reserved().value, state_.pools[request_.pool].record_index,
              SlowPathContext::current());
  state_.emit(EventKind::kEmergencyEnd, lane,
              static_cast<std::uint64_t>((base::Clock::now() - began).value),
              state_.space.reserved().value, 0, SlowPathContext::current());
  {
    Unlocked window(guard_);
    const Result<device::MemoryInfo> info = state_.device.memory_info();
    if (info.ok()) {
      report->device_free_bytes = info->free;
      report->device_total_bytes = info->total;
    }
  }
  return StatusCode::kOutOfMemory;
}

bool Miss::wait_for_own_events() {
  if (state_.waiting.empty()) return false;
  StampSet pending;
  state_.waiting.for_each([&](const BlockRecord& block) { pending.add_all(block.pending); });
  if (!pages_.quiesce(guard_, pending).ok()) return false;
  placer_.release_done(/*ask=*/false);
  return true;
}

bool Miss::take_rung(LadderRung rung) {
  switch (rung) {
    case LadderRung::kOwnEvents:
      return may_wait() && wait_for_own_events();
    case LadderRung::kCallbacks:
      return ask_for_memory();
    case LadderRung::kFragments:
      return placer_.release_idle_chunks() > 0_B;
    case LadderRung::kOtherPools:
      return true;
    case LadderRung::kCachedHandles:
      return may_wait() && give_back_cached();
    case LadderRung::kOutOfMemory:
      break;
  }
  return false;
}

bool Miss::ask_for_memory() {
  const std::shared_ptr<const AllocatorHooks> hooks = state_.hooks;
  if (!hooks->free_memory) return false;
  bool freed = false;
  {
    // No lock of ours may be held: the callback frees blocks.
    Unlocked window(guard_);
    GrowthUnlocked without(state_.growth_mutex);
    freed = hooks->free_memory();
  }
  // What was given back may wait for other streams in its turn.
  if (freed && may_wait()) wait_for_own_events();
  return freed;
}

// Memory of the other kind: segments cannot be stitched, pages are no segment.
bool Miss::give_back_cached() {
  const Pool& pool = state_.pools[request_.pool];
  const Bytes wanted = round_up(request_.bytes, state_.space.unit());
  Bytes freed{};
  const Result<Bytes> segments = pages_.give_back_segments(guard_, PoolIndex{}, wanted);
  if (segments.ok()) freed += *segments;
  if (pool.backing == Backing::kSegments && freed < wanted) {
    std::vector<PageIndex> victims = pages_.removable_pages(PoolIndex{});
    const std::size_t enough = state_.space.units_for(wanted - freed);
    if (victims.size() > enough) victims.resize(enough);
    const Result<Bytes> pages = pages_.give_back(guard_, std::move(victims));
    if (pages.ok()) freed += *pages;
  } else if (freed == 0_B) {
    // Pages that lie in other pools within a pool limit, or mappings that failed before: a fresh
    // start with all of them is the last thing to try.
    const Result<Bytes> pages = pages_.give_back(guard_, pages_.removable_pages(PoolIndex{}));
    if (pages.ok()) freed += *pages;
  }
  return freed > 0_B;
}

// A graph writes again and again to what its capture was given, so nothing of it may come from a
// pool that others use, and nothing of a captured pool may go to others.
Attempt Miss::attempt_in_others() {
  if (request_.is_capturing) return Attempt::exhausted(EmergencyCause::kDeviceFull);
  for (std::uint32_t i = 0; i < state_.pools.end(); ++i) {
    if (!state_.pools.is_pool(i) || PoolIndex{i} == request_.pool) continue;
    const Pool& pool = state_.pools[PoolIndex{i}];
    if (!pool.serves_others_on_oom || pool.is_captured) continue;
    Request elsewhere = request_;
    elsewhere.pool = PoolIndex{i};
    const Placer::Served served = placer_.serve(elsewhere);
    if (served.outcome == Placer::Outcome::kServed) return Attempt::served(served.block);
  }
  return Attempt::exhausted(EmergencyCause::kDeviceFull);
}

void Miss::fill_report(EmergencyCause cause, OomReport* report) {
  const Pool& pool = state_.pools[request_.pool];
  report->requested_bytes = request_.requested;
  report->reserved_bytes = state_.space.reserved();
  report->allocated_bytes = state_.counters.allocated();
  report->waiting_bytes = state_.counters.active() - state_.counters.allocated();
  report->free_bytes = usable_bytes();
  report->largest_run_bytes = longest_run(state_.space, pool.scope());
  report->partial_page_bytes = state_.space.used_page_bytes() - state_.counters.active();
  Bytes in_private{};
  for (std::uint32_t i = 1; i < state_.pools.end(); ++i) {
    if (state_.pools.is_pool(i)) in_private += state_.space.held_by(PoolIndex{i});
  }
  report->private_pool_bytes = in_private;
  report->limit_bytes =
      cause == EmergencyCause::kPoolLimitReached ? pool.limit : state_.limits.process;
  report->cause = cause;
}

}  // namespace levee::core
