// What happens when nothing that is held fits: growth, stitching, segments, and then the ladder.
//
// Serves one request at a time, under the growth mutex. Order of a miss (pages): memory that live
// bytes themselves need is created; else wholly free pages are stitched together, after the
// shortfall was created if they do not suffice; a stitch that comes although live bytes set no new
// maximum may be saved by a little more memory, within the slack. While the driver-time guard is on
// (driver_guard.h), memory is created instead of stitched, as far as its bound and the device
// allow. If none of these can serve within the limits, that is an emergency, and the recovery
// ladder is climbed: each rung makes memory usable and ends in a fresh attempt. While the driver is
// called, other threads go on: what they take meanwhile is made again, and what they give back is
// seen before anything is refused. Promises: P1; P4. Callbacks run with no lock held.
#pragma once

#include <levee/allocator.h>

#include "allocator/core/page_work.h"
#include "allocator/core/placer.h"
#include "allocator/core/state.h"

namespace levee::core {

class SlowPath {
 public:
  SlowPath(State& state, Placer& placer, PageWork& pages)
      : state_(state), placer_(placer), pages_(pages) {}

  /// Pre: no lock held. `report` is filled when the answer is kOutOfMemory.
  Result<Block> serve(const Request& request, OomReport* report);

 private:
  /// How an attempt ended.
  struct Attempt {
    enum class End : std::uint8_t { kServed, kExhausted, kFailed };
    End end = End::kExhausted;
    Block block;
    EmergencyCause cause = EmergencyCause::kDeviceFull;
    Status status;

    static Attempt served(const Block& block) { return {End::kServed, block, {}, {}}; }
    static Attempt exhausted(EmergencyCause cause) { return {End::kExhausted, {}, cause, {}}; }
    static Attempt failed(Status status) { return {End::kFailed, {}, {}, status}; }
  };

  Attempt attempt(PoolGuard& guard, const Request& request);
  Attempt miss_pages(PoolGuard& guard, const Request& request, Pool& pool);
  Attempt miss_small(PoolGuard& guard, const Request& request, Pool& pool);
  Attempt miss_segments(PoolGuard& guard, const Request& request, Pool& pool);
  Attempt from_placer(const Placer::Served& served) const;
  /// Serves from what is held; if events cannot give the order between streams, waits for the
  /// device.
  Placer::Served serve_held(PoolGuard& guard, const Request& request);
  /// Whether other threads had the pool mutex, in windows, since `serve_held` looked last: they may
  /// have taken what was made or found since, or given something back.
  bool were_others_here() const { return state_.visits != visits_at_look_; }
  /// Whether the request's stream can use the page: no wait is needed, or one is possible.
  bool can_order(const Request& request, const Page& page);

  // miss_pages in its parts.
  struct Room {
    std::uint32_t units = 0;
    EmergencyCause cause = EmergencyCause::kDeviceFull;
  };
  Room room_for(const Pool& pool) const;
  void ask_device(PoolGuard& guard);
  bool can_stitch(const Request& request);
  std::uint32_t largest_page(const Pool& pool, bool is_first) const;
  bool is_nothing_freed(const Request& request) const;
  Bytes budget(const Request& request, double slack) const;
  void look_at_guard(PoolGuard& guard, const Request& request);
  void tell_of_guard(GuardChange change);
  bool may_grow_instead(const Request& request, const Pool& pool, std::uint32_t units) const;
  bool rebase(PoolGuard& guard, Pool& pool);
  /// Bytes that must lie in one run for the request.
  Bytes span_of(const Request& request, const Pool& pool) const;

  Result<Block> climb(PoolGuard& guard, const Request& request, EmergencyCause cause,
                      OomReport* report);
  Attempt attempt_in_others(const Request& request);
  Bytes usable_bytes() const;
  void fill_report(const Request& request, EmergencyCause cause, OomReport* report);
  /// Waits until every block that waits for other streams is free. False if there is none.
  bool wait_for_own_events(PoolGuard& guard);
  bool take_rung(PoolGuard& guard, const Request& request, LadderRung rung);

  State& state_;
  Placer& placer_;
  PageWork& pages_;
  std::uint64_t visits_at_look_ = 0;  // by `serve_held`
  // Units that the device said it has when the attempt began, or granted before it refused.
  std::uint32_t device_room_ = 0;
  // What growth that is not needed leaves to others: a share of the device.
  static constexpr std::uint32_t kHeadroomShare = 16;
  std::uint32_t headroom_units_ = 0;
  std::vector<std::int8_t> capturing_;  // by stream: does it capture; -1: not asked in this attempt
};

}  // namespace levee::core
