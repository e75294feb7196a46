#include "allocator/core/placement.h"

#include <algorithm>

namespace levee::core {
namespace {

bool is_accepted(const PlaceFilter& accept, const Place& place) {
  return !accept || accept(place);
}

Run low_end(Run run, Bytes bytes) {
  return Run{run.begin, bytes};
}
Run high_end(Run run, Bytes bytes) {
  return Run{run.end() - bytes, bytes};
}

std::optional<Place> first_fit(const Zone& zone, Bytes bytes, Lifetime lifetime,
                               const PlaceFilter& accept) {
  const RunIndex& runs = zone.runs;
  if (lifetime == Lifetime::kLong) {
    for (auto i = runs.lowest_fit(bytes); i; i = runs.lowest_fit(bytes, *i + 1)) {
      const Place place{zone.index, low_end(runs.at(*i), bytes)};
      if (is_accepted(accept, place)) return place;
    }
  } else {
    if (lifetime == Lifetime::kBrief) {
      if (const auto i = runs.best_fit(bytes)) {
        const Place place{zone.index, high_end(runs.at(*i), bytes)};
        if (is_accepted(accept, place)) return place;
      }
    }
    for (auto i = runs.highest_fit(bytes); i; i = runs.highest_fit(bytes, *i)) {
      const Place place{zone.index, high_end(runs.at(*i), bytes)};
      if (is_accepted(accept, place)) return place;
    }
  }
  return std::nullopt;
}

// With a filter, every run that is long enough is a candidate, the shortest first.
std::optional<Place> best_fit(const Space& space, std::span<const ZoneIndex> zones, Bytes bytes,
                              const PlaceFilter& accept) {
  std::optional<Place> best;
  Bytes best_size{};
  for (ZoneIndex index : zones) {
    const Zone& zone = space.zone(index);
    if (!zone.runs.may_have(bytes)) continue;
    if (!accept) {
      const auto run = zone.runs.best_run(bytes);
      if (run && (!best || run->size < best_size)) {
        best = Place{index, low_end(*run, bytes)};
        best_size = run->size;
      }
      continue;
    }
    for (auto i = zone.runs.lowest_fit(bytes); i; i = zone.runs.lowest_fit(bytes, *i + 1)) {
      const Run run = zone.runs.at(*i);
      if (best && best_size <= run.size) continue;
      const Place place{index, low_end(run, bytes)};
      if (!accept(place)) continue;
      best = place;
      best_size = run.size;
    }
  }
  return best;
}

}  // namespace

std::optional<Place> choose_place(const Space& space, const SearchScope& scope, Bytes bytes,
                                  Lifetime lifetime, const PlaceFilter& accept) {
  if (!scope.primary.is_none()) {
    const auto place = first_fit(space.zone(scope.primary), bytes, lifetime, accept);
    if (place) return place;
  }
  const auto place = best_fit(space, scope.others, bytes, accept);
  if (place || !accept) return place;
  // Inside of a run that is refused at one end there may be pages enough: from its low end, or from
  // one of its pages on.
  if (lifetime != Lifetime::kLong && !scope.primary.is_none()) {
    const auto low = first_fit(space.zone(scope.primary), bytes, Lifetime::kLong, accept);
    if (low) return low;
  }
  return choose_aligned_place(space, scope, bytes, space.unit(), accept);
}

std::optional<Place> choose_affine_place(const Space& space, const SearchScope& scope, Bytes bytes,
                                         const PlaceFilter& accept) {
  if (scope.primary.is_none()) return std::nullopt;
  const Zone& zone = space.zone(scope.primary);
  const auto is_good = [&](Run run) { return accept(Place{zone.index, run}); };
  int tries = 0;
  for (auto i = zone.runs.highest_fit(bytes); i && tries < kMostAffineEnds;
       i = zone.runs.highest_fit(bytes, *i)) {
    const Run run = zone.runs.at(*i);
    for (Run end : {high_end(run, bytes), low_end(run, bytes)}) {
      if (is_good(end)) return Place{zone.index, end};
      ++tries;
    }
  }
  tries = 0;
  for (auto i = zone.runs.highest_fit(bytes); i && tries < kMostAffineMiddles;
       i = zone.runs.highest_fit(bytes, *i), ++tries) {
    const Run run = zone.runs.at(*i);
    // It begins with a page, so that it touches as few as it can.
    const Bytes half = Bytes{(run.size - bytes).value / 2};
    const Run middle{round_down(run.begin + half, space.unit()), bytes};
    if (middle.begin > run.begin && is_good(middle)) return Place{zone.index, middle};
  }
  return std::nullopt;
}

std::optional<Place> choose_aligned_place(const Space& space, const SearchScope& scope, Bytes bytes,
                                          Bytes alignment, const PlaceFilter& accept) {
  const auto in_zone = [&](ZoneIndex index) -> std::optional<Place> {
    const Zone& zone = space.zone(index);
    if (!zone.runs.may_have(bytes)) return std::nullopt;
    if (!accept) {
      const auto run = zone.runs.lowest_aligned(bytes, alignment);
      return run ? std::optional<Place>{Place{index, *run}} : std::nullopt;
    }
    for (auto i = zone.runs.lowest_fit(bytes); i; i = zone.runs.lowest_fit(bytes, *i + 1)) {
      const Run run = zone.runs.at(*i);
      for (Bytes begin = round_up(run.begin, alignment); begin + bytes <= run.end();
           begin += alignment) {
        const Place place{index, Run{begin, bytes}};
        if (accept(place)) return place;
      }
    }
    return std::nullopt;
  };
  if (!scope.primary.is_none()) {
    if (const auto place = in_zone(scope.primary)) return place;
  }
  for (ZoneIndex index : scope.others) {
    if (const auto place = in_zone(index)) return place;
  }
  return std::nullopt;
}

std::optional<Place> choose_fragment(const Space& space, const SearchScope& scope, Bytes bytes,
                                     const PlaceFilter& accept) {
  if (!scope.primary.is_none()) {
    const ZoneIndex primary[] = {scope.primary};
    if (const auto place = best_fit(space, primary, bytes, accept)) return place;
  }
  const auto place = best_fit(space, scope.others, bytes, accept);
  if (place || !accept) return place;
  return choose_aligned_place(space, scope, bytes, space.unit(), accept);
}

Bytes longest_run(const Space& space, const SearchScope& scope) {
  Bytes longest{};
  if (!scope.primary.is_none()) longest = space.zone(scope.primary).runs.longest();
  for (ZoneIndex index : scope.others) {
    longest = std::max(longest, space.zone(index).runs.longest());
  }
  return longest;
}

}  // namespace levee::core
