// The part of `Placer` that moves small blocks between slabs and thread caches, and keeps the
// counters and the predictor informed of what went through a cache.
//
// A cache is filled from the slab that just served its thread, half a stack at a time, and emptied
// by half when a stack is full. Before memory is created, given back or looked at as a whole every
// cache is emptied or stopped: a free page held by a cache must not cause a miss.

#include <algorithm>

#include "allocator/core/placer.h"

namespace levee::core {

ThreadCache::Shelf* Placer::shelf_for(ThreadCache& cache, StreamIndex stream) {
  if (ThreadCache::Shelf* shelf = cache.shelf_of(stream)) return shelf;
  // A cache finds its shelf by the stream's name, which must mean the same stream in every thread.
  if (state_.streams.is_of_a_thread(stream)) return nullptr;
  const StreamId id = state_.streams.id(stream);
  const LaneId own = state_.streams.lane(stream);
  // What concerns no known lane is told on the device's, as `State::emit` does.
  const LaneId lane = own.value == 0 ? state_.device.lane() : own;
  if (cache.has_room_for_shelf()) return cache.add_shelf(state_.caches.shelves(), id, stream, lane);
  ThreadCache::Shelf& victim = cache.oldest_shelf();
  empty_shelf(victim, 0);
  victim.id = id;
  victim.stream = stream;
  victim.lane = lane;
  return &victim;
}

void Placer::give_back_cached(const ThreadCache::Object& object) {
  const Chunk* chunk = state_.blocks.lookup(object.addr).chunk();
  Slab* slab = chunk->slab_at(object.addr);
  const std::uint32_t index = object_at(slab->size_class, object.addr - slab->base);
  // Stamped later than it was given back: a later epoch covers the earlier ones.
  const Stamp stamp = state_.streams.stamp_now(slab->stream);
  if (Chunk* empty = state_.pools.default_pool().small.free_object({slab, index}, stamp)) {
    give_back_chunk(state_.pools.default_pool(), empty);
  }
}

// The objects at the bottom, which were not used for longest, go.
void Placer::spill(ThreadCache::Shelf& shelf, SizeClass c, std::uint32_t keep) {
  std::uint8_t& count = shelf.count[c.value];
  if (count <= keep) return;
  auto& objects = shelf.objects[c.value];
  const std::uint32_t gone = count - keep;
  for (std::uint32_t i = 0; i < gone; ++i) give_back_cached(objects[i]);
  std::move(objects.begin() + gone, objects.begin() + count, objects.begin());
  count = static_cast<std::uint8_t>(keep);
}

void Placer::empty_shelf(ThreadCache::Shelf& shelf, std::uint32_t keep) {
  for (std::uint8_t c = 0; c < kClassCount; ++c) spill(shelf, SizeClass{c}, keep);
}

void Placer::fill_cache(ThreadCache& cache, SizeClass c, StreamIndex stream) {
  ThreadCache::Shelf* shelf = shelf_for(cache, stream);
  if (shelf == nullptr) return;
  SmallHeap& small = state_.pools.default_pool().small;
  const std::uint32_t wanted = std::max(1U, ThreadCache::capacity(c) / 2);
  while (shelf->count[c.value] < wanted) {
    // From slabs that exist: a cache is no reason to make one.
    const auto object = small.take_object(c, stream, 0_B);
    if (!object) return;
    shelf->objects[c.value][shelf->count[c.value]++] =
        ThreadCache::Object{object->addr(), &object->slab->requested[object->index]};
  }
  // Lowest on top, as slabs themselves serve.
  std::reverse(shelf->objects[c.value].begin(),
               shelf->objects[c.value].begin() + shelf->count[c.value]);
}

void Placer::relieve_cache(ThreadCache& cache, SizeClass c, StreamIndex stream) {
  ThreadCache::Shelf* shelf = shelf_for(cache, stream);
  if (shelf != nullptr && shelf->count[c.value] == ThreadCache::capacity(c)) {
    spill(*shelf, c, ThreadCache::capacity(c) / 2);
  }
}

void Placer::fold_caches() {
  ThreadCache* own = state_.caches.mine();
  bool is_alone = true;
  // What other threads asked for came before this request, mostly: a forward pass before its
  // backward pass. Told when they come back they would stand behind it, and each step's moments
  // elsewhere.
  state_.caches.for_each([&](ThreadCache& cache) {
    if (&cache == own) return;
    if (cache.has_log()) tell_predictor(cache);
    if (cache.is_untold()) fold(cache, /*is_still=*/false);
    is_alone = is_alone && !cache.has_turn();
  });
  if (own == nullptr) return;
  if (own->has_log()) tell_predictor(*own);
  if (own->is_untold_in_part()) fold(*own, /*is_still=*/true);
  if (!is_alone || !own->has_turn()) take_turn(*own);
}

// Two caches with something to tell at once would leave open which came first, and with it the
// peak. So the other threads' next hit comes to the pool lock, where this one's is told first. For
// threads that are at work at the same time that is no gain and costs each a hit, hence the budget.
void Placer::take_turn(ThreadCache& own) {
  own.begin_turn();
  turn_budget_ = std::min(turn_budget_ + kTurnEarnings, kMostTurns * kTurnCost);
  if (turn_budget_ < kTurnCost) return;
  turn_budget_ -= kTurnCost;
  state_.caches.for_each([&](ThreadCache& cache) {
    if (&cache != &own) cache.end_turn();
  });
}

void Placer::fold(ThreadCache& cache, bool is_still) {
  state_.counters.fold(cache);
  if (is_still) {
    cache.forget_peaks();
  } else {
    cache.forget_peaks_soon();
  }
  Pool& pool = state_.pools.default_pool();
  const FoldedCounts& now = cache.folded();
  FoldedCounts& before = cache.counted_in_pool();
  pool.live_count += static_cast<std::uint64_t>(now.given[0] - now.returned[0] -
                                                (before.given[0] - before.returned[0]));
  pool.active_bytes = Bytes{pool.active_bytes.value +
                            static_cast<std::uint64_t>(now.given[1] - now.returned[1] -
                                                       (before.given[1] - before.returned[1]))};
  turn_budget_ += now.given[0] - before.given[0];
  before = now;
  const std::int64_t credit = fair_credit();
  most_credit_ = std::max(most_credit_, credit);
  cache.set_credit(credit);
  limit_credits();
}

// Far below the maximum a cache may hand out more before it tells: all of them together no more
// than what is missing to a new one.
std::int64_t Placer::fair_credit() const {
  constexpr auto kShares = static_cast<std::int64_t>(ThreadCaches::kMost);
  return std::max(kLeastCredit, state_.counters.headroom_bytes() / kShares);
}

// Twice what is fair is left until it matters: else each rise would go through all caches.
void Placer::lower_credits() {
  const std::int64_t credit = fair_credit();
  if (most_credit_ <= credit || (credit > kLeastCredit && most_credit_ / 2 <= credit)) return;
  most_credit_ = credit;
  state_.caches.for_each([&](ThreadCache& cache) { cache.set_credit(credit); });
}

void Placer::tell_predictor(ThreadCache& cache) {
  cache.take_log(
      [&](Bytes bytes, std::uint32_t frees) {
        state_.predictor.on_small_frees(frees);
        state_.predictor.on_small_request(bytes);
      },
      [&](std::uint32_t frees, std::uint64_t forgotten) {
        state_.predictor.on_small_frees(frees);
        state_.predictor.skip(forgotten);
      });
}

void Placer::hold_caches() {
  state_.caches.stop_others();
  // One that has nothing to tell may still show a peak that was told.
  state_.caches.for_each([&](ThreadCache& cache) {
    if (cache.is_untold_in_part()) fold(cache, /*is_still=*/true);
  });
}

Bytes Placer::drain_caches() {
  const CachesHeld held(*this);
  Bytes drained{};
  state_.caches.for_each([&](ThreadCache& cache) {
    cache.for_each_shelf([&](ThreadCache::Shelf& shelf) {
      for (std::uint8_t c = 0; c < kClassCount; ++c) {
        drained += class_bytes(SizeClass{c}) * shelf.count[c];
      }
      empty_shelf(shelf, 0);
    });
  });
  return drained;
}

void Placer::retire_caches(std::uint64_t thread) {
  state_.caches.for_each([&](ThreadCache& cache) {
    if (cache.owner != thread) return;
    if (cache.is_untold_in_part()) fold(cache, /*is_still=*/true);
    tell_predictor(cache);
    cache.for_each_shelf([&](ThreadCache::Shelf& shelf) { empty_shelf(shelf, 0); });
    cache.set_credit(0);  // what is told to all caches does not reach it until it is claimed
    cache.owner = 0;
  });
}

}  // namespace levee::core
