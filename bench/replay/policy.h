// An allocator under test, as the lab drives it: the shipped one, a model of a peer, or a real
// peer.
//
// Owns the interface and the cost model's vocabulary. Promises of an implementation: it sees the
// same ops as every other; what it reserves is the sum of memory it holds from the device, never
// above `Limits::capacity`; each driver call it would make is counted where it would make it. A
// request that it cannot serve returns false and the block does not exist; the replay goes on, so
// that one failure does not hide the next. One policy serves one replay in one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <levee/units.h>

namespace levee::replay {

/// Driver calls that a policy is charged for. Counts; map and set_access per page, ranges per
/// contiguous call.
struct DriverCosts {
  std::uint64_t mallocs = 0;      ///< cudaMalloc
  std::uint64_t frees = 0;        ///< cudaFree: synchronises the device
  std::uint64_t created = 0;      ///< physical handles created
  std::uint64_t created_mib = 0;  ///< their size, MiB
  std::uint64_t released = 0;
  std::uint64_t mapped = 0;          ///< handles mapped, at creation or again
  std::uint64_t accessed_pages = 0;  ///< pages of 2 MiB made accessible
  std::uint64_t access_calls = 0;
  std::uint64_t unmapped = 0;
  std::uint64_t synchronisations = 0;  ///< host waits for a stream, an event or the device
  std::uint64_t event_records = 0;
  std::uint64_t stream_waits = 0;
  std::uint64_t event_queries = 0;
  std::uint64_t events_created = 0;

  std::uint64_t memory_calls() const {
    return mallocs + frees + created + released + mapped + access_calls + unmapped;
  }
  DriverCosts operator-(const DriverCosts& before) const;
};

/// Seconds that calls cost, by published A100 figures (allocator/device/sim/latency_table.h has
/// their origin). The price of making k fresh mappings accessible in one call is not published:
/// `pessimistic` charges 36 us for each page, `optimistic` 36 us for each call and 1 us for each
/// page.
struct DriverSeconds {
  double pessimistic = 0;  ///< without creation of memory
  double optimistic = 0;   ///< without creation of memory
  double creation =
      0;  ///< handles created, mapped and made accessible for the first time, and cudaMalloc
};
DriverSeconds seconds_of(const DriverCosts& costs, std::uint64_t first_mapped_pages);

/// Hand-overs of memory between streams that cost overlap, counted by allocation; stream 0 of the
/// trace is "main", every other one a side stream.
///
/// A wait is *early* if, at the allocation that makes its stream wait, the event waited for is not
/// complete: work that might have overlapped is put in order. An allocation is *fresh* if it is
/// above 1 MiB and a 2 MiB page under it was given back last by another stream (its own, or one of
/// its recorded uses) within the last `kHostAhead` allocations, whether or not that made a new
/// wait: an earlier one may have covered it, and then it costs nothing more. The first is what a
/// program pays, the second what placement chose. A policy that hands nothing over before the work
/// on it is done has none of either.
struct EarlyWaits {
  std::uint64_t side_allocations = 0;
  std::uint64_t side_early = 0;
  std::uint64_t side_fresh = 0;
  std::uint64_t main_early = 0;
  std::uint64_t main_fresh = 0;

  /// Early waits, % of the side streams' allocations.
  double side_pct() const {
    if (side_allocations == 0) return 0;
    return 100 * static_cast<double>(side_early) / static_cast<double>(side_allocations);
  }
};

/// Requests that the host runs ahead of the device, where several streams are modelled.
inline constexpr std::uint64_t kHostAhead = 300;

struct Limits {
  Bytes capacity{};  ///< most bytes the device gives; 0 = no limit
};

class ReplayPolicy {
 public:
  virtual ~ReplayPolicy() = default;

  virtual std::string name() const = 0;
  /// How it is configured, for the printout. Empty if it has no settings.
  virtual std::string settings() const { return {}; }
  /// False: out of memory; the block does not exist and must not be freed.
  virtual bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) = 0;
  virtual void free(std::uint32_t id) = 0;
  virtual void record_use(std::uint32_t /*id*/, std::uint16_t /*stream*/) {}
  virtual void step() {}
  /// The program works for so long before its next op, as the trace's model of time has it.
  virtual void pass(double /*seconds*/) {}
  /// Whether a guard on driver time has gone on so far. Asked once a step.
  virtual bool is_guarded() const { return false; }

  virtual Bytes reserved() const = 0;
  virtual Bytes peak_reserved() const = 0;
  virtual DriverCosts costs() const = 0;
  virtual std::uint64_t created_pages() const {
    return costs().created;
  }                                               ///< 2 MiB pages mapped for the first time
  virtual std::uint64_t emergencies() const = 0;  ///< entries into a recovery ladder
  /// `side_allocations` is left to the runner.
  virtual EarlyWaits early_waits() const { return {}; }
  /// Lines that explain figures of this policy alone (stitches, rebases, waits), as name and value.
  virtual std::vector<std::pair<std::string, std::uint64_t>> details() const { return {}; }
};

}  // namespace levee::replay
