#include "allocator/core/trim.h"

#include <algorithm>

namespace levee::core {

Result<Bytes> trim_to(State& state, Placer& placer, PageWork& pages, PoolGuard& guard,
                      PoolIndex only, Bytes keep) {
  if (state.streams.any_capturing()) return StatusCode::kNotReady;
  if (!state.waiting.empty()) {
    StampSet pending;
    state.waiting.for_each([&](const BlockRecord& block) { pending.add_all(block.pending); });
    const Status quiet = pages.quiesce(guard, pending);
    if (!quiet.ok()) return quiet;
    placer.release_done(/*ask=*/false);
  }
  placer.release_idle_chunks();
  const auto held = [&] {
    return only.is_none() ? state.space.reserved() : state.space.held_by(only);
  };
  Bytes freed{};
  if (held() > keep) {
    const Result<Bytes> segments = pages.give_back_segments(guard, only, held() - keep);
    if (!segments.ok()) return segments;
    freed += *segments;
  }
  if (held() > keep) {
    std::vector<PageIndex> victims = pages.removable_pages(only);
    const Bytes surplus = held() - keep;
    Bytes chosen{};
    std::size_t count = 0;
    while (count < victims.size() && chosen < surplus) {
      chosen += state.space.page_bytes(victims[count++]);
    }
    victims.resize(count);
    const Result<Bytes> given = pages.give_back(guard, std::move(victims));
    if (!given.ok()) return given;
    freed += *given;
  }
  return freed;
}

}  // namespace levee::core
