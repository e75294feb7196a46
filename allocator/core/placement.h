// Where a large block goes: pure decisions over the runs of zones. Nothing is changed here.
//
// Two-ended first fit, byte-granular: what is expected to live long goes to the lowest run that is
// long enough, at its low end; what is expected to go soon to the highest, at its high end; what is
// expected to go at once to the shortest, at its high end: it is gone before the rest of that run
// is missed, and the long runs stay whole for what stays longer. Failing that, the shortest alias
// run that is long enough. Requests with an alignment (a page for small blocks) take the lowest
// aligned stretch. A caller may refuse candidates (memory that would need a wait while a stream
// captures); the search then goes on. Cost: linear in the runs of the primary zone, see
// run_index.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include <levee/units.h>

#include "allocator/core/space.h"

namespace levee::core {

/// How long a block is expected to live. A wrong guess costs placement, never correctness.
enum class Lifetime : std::uint8_t { kLong, kShort, kBrief };

struct Place {
  ZoneIndex zone;
  Run run;
};

/// Whether a candidate may be used. An empty function accepts all. What it says may change from
/// page to page, not inside of one.
using PlaceFilter = std::function<bool(const Place&)>;

/// What a search looks through, in this order.
struct SearchScope {
  ZoneIndex primary;                  ///< may be none
  std::span<const ZoneIndex> others;  ///< alias and former zones, segments
};

std::optional<Place> choose_place(const Space& space, const SearchScope& scope, Bytes bytes,
                                  Lifetime lifetime, const PlaceFilter& accept = {});

/// A place for a stream that would rather not wait for others, in the primary zone: an end of a
/// run, the highest runs first; then the middle of one, which cuts it up for the largest blocks.
/// Looks at so many places at most.
inline constexpr int kMostAffineEnds = 24;
inline constexpr int kMostAffineMiddles = 12;
std::optional<Place> choose_affine_place(const Space& space, const SearchScope& scope, Bytes bytes,
                                         const PlaceFilter& accept);

/// The lowest stretch of `bytes` at a multiple of `alignment`, in the primary zone first.
std::optional<Place> choose_aligned_place(const Space& space, const SearchScope& scope, Bytes bytes,
                                          Bytes alignment, const PlaceFilter& accept = {});

/// The shortest run of any zone that is long enough, its low end: for small blocks when no page of
/// their own is to be had.
std::optional<Place> choose_fragment(const Space& space, const SearchScope& scope, Bytes bytes,
                                     const PlaceFilter& accept = {});

/// Length of the longest run in scope.
Bytes longest_run(const Space& space, const SearchScope& scope);

}  // namespace levee::core
