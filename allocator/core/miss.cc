#include "allocator/core/miss.h"

#include <algorithm>

#include "allocator/core/mutants.h"
#include "allocator/core/page_miss.h"

namespace levee::core {

Attempt Attempt::from(const Placer::Served& served) {
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

Attempt Miss::attempt() {
  // Another thread may have made room while this one waited for the growth mutex.
  capturing_.clear();
  refusal_ = Status{};
  placer_.release_done(/*ask=*/true);
  placer_.release_idle_chunks();
  if (state_.streams.is_unknown_pending() && !request_.is_capturing) {
    // A graph's pool was released: its pages are of use once the graph is known to be done. Where
    // PyTorch's allocator calls cudaFree, which waits as well.
    const Status fenced = pages_.fence(guard_);
    if (fenced.code == StatusCode::kDeviceLost) return Attempt::failed(fenced);
  }
  const Placer::Served served = serve_held(request_);
  if (served.outcome != Placer::Outcome::kMiss) return Attempt::from(served);
  Pool& pool = state_.pools[request_.pool];
  ask_device();
  return pool.backing == Backing::kSegments ? from_segments(pool)
                                            : PageMiss(*this, request_, pool).serve();
}

Placer::Served Miss::serve_held(const Request& request) {
  visits_at_look_ = state_.visits;
  Placer::Served served = placer_.serve(request);
  if (served.outcome != Placer::Outcome::kFailed || request.is_capturing ||
      served.status.code == StatusCode::kDeviceLost) {
    return served;
  }
  // No event was to be had, or a stream was destroyed: wait for the whole device, after which there
  // is nothing left to order.
  const Status fenced = pages_.fence(guard_);
  if (!fenced.ok()) return {Placer::Outcome::kFailed, {}, fenced};
  visits_at_look_ = state_.visits;
  return placer_.serve(request);
}

bool Miss::captures(StreamIndex stream) {
  if (capturing_.size() <= stream.value) capturing_.resize(state_.streams.count(), -1);
  if (capturing_[stream.value] < 0) {
    const Result<bool> answer = state_.streams.is_capturing(stream);
    capturing_[stream.value] = answer.ok() && *answer ? 1 : 0;
  }
  return capturing_[stream.value] != 0;
}

bool Miss::can_order(const Page& page) {
  for (Stamp stamp : page.stamps) {
    if (!state_.streams.must_wait(request_.stream, stamp)) continue;
    if (request_.is_capturing) return mutated(Mutant::kWaitInCapture);
    // Nobody can wait for a stream that captures, or for one never seen; and a stream that captures
    // waits for nobody, whether the request knows of it or not.
    if (stamp.stream() == kUnknownStream) return false;
    if (captures(stamp.stream()) || captures(request_.stream)) return false;
  }
  return true;
}

Miss::Room Miss::room_for(const Pool& pool) const {
  const Bytes unit = state_.space.unit();
  Room room{state_.limits.room_units(state_.space.reserved(), unit), EmergencyCause::kLimitReached};
  const std::uint32_t in_pool = Limits::room(pool.limit, state_.space.held_by(pool.index), unit);
  if (in_pool < room.units) room = Room{in_pool, EmergencyCause::kPoolLimitReached};
  if (device_room_ < room.units) room = Room{device_room_, EmergencyCause::kDeviceFull};
  return room;
}

void Miss::ask_device() {
  Result<device::MemoryInfo> info = StatusCode::kInternal;
  {
    Unlocked window(guard_);
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

Bytes Miss::span_in(const Pool& pool) const {
  if (pool.is_unsplit) return round_up(request_.bytes, state_.space.unit());
  return request_.is_small() ? kChunkBytes : request_.bytes;
}

Attempt Miss::from_segments(Pool& pool) {
  // Sizes as PyTorch's allocator takes them: 2 MiB for small blocks, 20 MiB for those below 10 MiB,
  // else the request rounded up to 2 MiB.
  const Bytes unit = state_.space.unit();
  Bytes bytes = unit;
  if (!request_.is_small()) {
    bytes = request_.bytes < 10_MiB && !pool.is_unsplit ? 20_MiB : request_.bytes;
  }
  bytes = round_up(bytes, unit);
  const Bytes least = round_up(span_in(pool), unit);
  for (Bytes size : {bytes, least}) {
    const Room room = room_for(pool);
    if (size / unit > room.units) {
      if (size == least) return Attempt::exhausted(room.cause);
      continue;
    }
    const Status added = pages_.add_segment(guard_, pool, size);
    if (added.ok()) return Attempt::from(serve_held(request_));
    if (added.code != StatusCode::kOutOfMemory) return Attempt::failed(added);
  }
  return Attempt::exhausted(EmergencyCause::kDeviceFull);
}

}  // namespace levee::core
