// Counters of one device's allocator, as one value copied under the locks that guard it.
//
// Every counter stands once in a field list below (LEVEE_STAT_ARRAYS, LEVEE_STAT_COUNTERS); struct
// fields, text reports and JSON keys are generated from it. The first group has the names and
// meaning of torch.cuda.memory_stats(); the second is levee's own. Promise P5: reserved = live +
// waiting + free, where live is `allocated_bytes`, waiting is `active_bytes - allocated_bytes` and
// free is the rest; the slack_* counters break the part of free down that no request could use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace levee {

/// One quantity over time. All in bytes or in pieces, as its name says.
struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;  ///< largest `current` since start or the last reset of peaks
  std::int64_t allocated =
      0;  ///< sum of all increases since start or the last reset of accumulated values
  std::int64_t freed = 0;  ///< sum of all decreases, likewise

  constexpr void increase(std::int64_t n) {
    current += n;
    allocated += n;
    if (current > peak) peak = current;
  }
  constexpr void decrease(std::int64_t n) {
    current -= n;
    freed += n;
  }
};

/// Index into a StatArray: everything, requests of up to 1 MiB (after rounding), larger ones.
enum class StatKind : std::uint8_t { kAll = 0, kSmall = 1, kLarge = 2 };
using StatArray = std::array<Stat, 3>;

// clang-format off
// name                     what
#define LEVEE_STAT_ARRAYS(X)                                                                                          \
  X(allocation,             "blocks handed out")                                                                      \
  X(segment,                "ranges of memory held from the device: zones with pages, or cudaMalloc segments")        \
  X(active,                 "blocks handed out or waiting for an event")                                              \
  X(inactive_split,         "free runs inside a partly used range")                                                   \
  X(allocated_bytes,        "bytes handed out, after rounding")                                                       \
  X(reserved_bytes,         "physical bytes held from the device")                                                    \
  X(active_bytes,           "bytes handed out or waiting for an event")                                               \
  X(inactive_split_bytes,   "bytes of free runs inside a partly used range")                                          \
  X(requested_bytes,        "bytes asked for by blocks handed out or waiting for an event, before rounding")

#define LEVEE_STAT_COUNTERS(X)                                                                                        \
  X(num_alloc_retries,      "requests that were served only after the recovery ladder gave memory back")              \
  X(num_ooms,               "requests refused with out of memory")                                                    \
  X(num_sync_all_streams,   "waits of the host for all streams")                                                      \
  X(num_device_alloc,       "calls that take memory from the device: cudaMalloc or handle creation")                  \
  X(num_device_free,        "calls that give memory back to the device: cudaFree or handle release")                  \
  X(num_emergencies,        "entries into the recovery ladder")                                                       \
  X(num_stitches,           "runs made by mapping free pages again")                                                  \
  X(num_stitched_pages,     "pages mapped by stitches")                                                               \
  X(num_rebases,            "new primary ranges mapped over all pages")                                               \
  X(num_guard_entries,      "times that the driver-time guard went on")                                             \
  X(num_guard_growths,      "requests that it let memory grow for instead of stitching")                            \
  X(num_waits,              "stream-side waits inserted for memory freed on another stream")                          \
  X(num_event_records,      "events recorded, one for each epoch that another stream needed")                         \
  X(num_steps,              "step marks seen")                                                                        \
  X(driver_calls,           "calls into the driver of any kind")                                                      \
  X(driver_time_ns,         "time spent in them, ns on levee's clock")                                                \
  X(slack_rounding_bytes,   "free bytes lost inside size classes")                                                    \
  X(slack_partial_page_bytes, "free bytes on pages that also hold live bytes")                                        \
  X(slack_pool_bytes,       "free bytes that belong to private pools")                                                \
  X(limit_bytes,            "most bytes this process may reserve; 0 = no limit but the device")
// clang-format on

struct Stats {
#define LEVEE_FIELD(name, what) StatArray name{};
  LEVEE_STAT_ARRAYS(LEVEE_FIELD)
#undef LEVEE_FIELD
#define LEVEE_FIELD(name, what) std::int64_t name = 0;
  LEVEE_STAT_COUNTERS(LEVEE_FIELD)
#undef LEVEE_FIELD
};

}  // namespace levee
