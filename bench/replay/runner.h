// One trace through one policy, and the figures that the tables show.
//
// Owns nothing after it returns. Promises: ratios use the live bytes computed from the trace alone;
// driver time is charged to the step in which the call was made; "warm-up" is the first
// `kWarmUpSteps` steps, plus everything before the first mark. Percentages are of modelled step
// time. A trace without marks has one step, and no figure "after warm-up". All requests are made by
// one thread, or each by the one that made it when it was recorded: one after the other even so, in
// the order of the trace, so that two replays are alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/replay/op_trace.h"
#include "bench/replay/policy.h"

namespace levee::replay {

inline constexpr std::size_t kWarmUpSteps = 20;
inline constexpr std::size_t kSeriesPoints = 1500;

enum class ReplayThreads : std::uint8_t {
  kOne,         ///< the caller's
  kAsRecorded,  ///< the caller stands for the first one of the trace, new ones for the others
};

struct ReplayResult {
  std::string trace;
  std::string policy;
  std::string settings;
  Bytes capacity{};           ///< 0 = unlimited
  std::uint16_t threads = 1;  ///< that made the requests
  Bytes peak_live{};
  Bytes peak_active{};
  Bytes peak_reserved{};
  double ratio =
      0;  ///< peak reserved / base, where base is peak active if uses were recorded, else peak live
  std::uint64_t failures = 0;            ///< requests that could not be served
  std::int64_t first_failure_step = -1;  ///< its number (`StepPlace`); -1: none, or before all
  std::string first_failure_where;       ///< `StepPlace::text` of it
  std::uint64_t emergencies = 0;
  DriverCosts costs;
  EarlyWaits early_waits;
  DriverSeconds driver;        ///< of the whole run
  double step_seconds = 0;     ///< modelled, of the whole run
  double driver_pct = 0;       ///< pessimistic, of the whole run, creation left out
  double driver_pct_warm = 0;  ///< pessimistic, after warm-up
  double driver_pct_warm_optimistic = 0;
  std::int64_t guard_step = -1;   ///< its number: in which the policy's guard on driver time went
                                  ///< on; -1: never
  double driver_pct_guarded = 0;  ///< pessimistic, after that step
  double driver_pct_last = 0;     ///< pessimistic, of the last 20 steps, if there are 40 or more
  double creation_pct = 0;
  double warm_up_driver_seconds = 0;    ///< first 20 steps, creation included
  double warm_up_creation_seconds = 0;  ///< the creation in it
  std::uint64_t ops = 0;                ///< of the trace
  std::uint64_t steps = 0;
  std::uint64_t warm_steps = 0;   ///< steps after warm-up
  std::uint64_t dirty_steps = 0;  ///< of those, with at least one driver memory call
  /// Steady state: steps after warm-up in which live bytes made no new maximum.
  std::uint64_t steady_allocations = 0;
  std::uint64_t steady_memory_calls = 0;
  std::uint64_t steady_events_created = 0;
  std::uint64_t steady_synchronisations = 0;
  Bytes unexplained_growth{};     ///< how much peak reserved grew in such steps
  double worst_step_seconds = 0;  ///< most driver time in one step after warm-up
  Bytes reserved_growth_warm{};   ///< how much peak reserved grew after warm-up
  double read_seconds = 0;  ///< of this processor, for reading the recording; set by who read it
  double cpu_seconds = 0;   ///< of this processor, for the replay
  double wall_seconds = 0;  ///< what the replay took on this machine
  std::vector<Bytes> reserved_by_step;  ///< peak within each step; before the first mark at index 0
  std::vector<Bytes> live_by_step;
  /// The same over equal stretches of the trace, at most `kSeriesPoints`: what pictures show.
  std::vector<Bytes> reserved_series;
  std::vector<Bytes> live_series;
  std::vector<std::pair<std::string, std::uint64_t>> details;
};

/// `progress` (may be empty) is told the share done by the calling thread, about a hundred times.
ReplayResult run_policy(const OpTrace& trace, const TraceFacts& facts, ReplayPolicy& policy,
                        Limits limits, const std::function<void(double)>& progress = {},
                        ReplayThreads threads = ReplayThreads::kOne);

}  // namespace levee::replay
