// One request that nothing held fits, from the moment it has the growth mutex until it is served or
// refused.
//
// Owns what is known for this request alone and not again for the next: what the device said it has
// left, which streams capture, and whether other threads had the pool lock since the last look at
// what is held; and what the driver refused for another reason than want of memory, which is then
// the answer: who reads "out of memory" looks for memory. `attempt` looks once more and then makes
// memory, as the pool's backing says: in pages (page_miss.h) or in segments. `climb` is the
// recovery ladder (ladder.cc): each rung makes memory usable and ends in a fresh attempt. While the
// driver is called, other threads go on: what they take meanwhile is made again, and what they give
// back is seen before anything is refused. Callbacks run with no lock held. Pre: both locks are
// held, and no pool goes (`Placer::Work`).
#pragma once

#include <vector>

#include <levee/allocator.h>

#include "allocator/core/page_work.h"
#include "allocator/core/placer.h"
#include "allocator/core/state.h"

namespace levee::core {

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
  static Attempt from(const Placer::Served& served);
};

class Miss {
 public:
  Miss(State& state, Placer& placer, PageWork& pages, PoolGuard& guard, const Request& request)
      : state_(state), placer_(placer), pages_(pages), guard_(guard), request_(request) {}
  Miss(const Miss&) = delete;
  Miss& operator=(const Miss&) = delete;

  Attempt attempt();
  /// After an attempt that was exhausted for `cause`. `report` is filled if the answer is
  /// kOutOfMemory; it is what the driver said instead if that was no want of memory.
  Result<Block> climb(EmergencyCause cause, OomReport* report);

 private:
  friend class PageMiss;

  /// Serves from what is held; if events cannot give the order between streams, waits for the
  /// device.
  Placer::Served serve_held(const Request& request);
  /// Whether other threads had the pool mutex, in windows, since `serve_held` looked last: they may
  /// have taken what was made or found since, or given something back.
  bool were_others_here() const { return state_.visits != visits_at_look_; }
  /// Whether the request's stream can use the page: no wait is needed, or one is possible.
  bool can_order(const Page& page);
  bool captures(StreamIndex stream);

  /// What may still be made, and what stands in the way of more.
  struct Room {
    std::uint32_t units = 0;
    EmergencyCause cause = EmergencyCause::kDeviceFull;
  };
  Room room_for(const Pool& pool) const;
  /// One call; creating until the device refuses, and taking that back, costs many.
  void ask_device();
  /// Bytes that must lie in one run.
  Bytes span_in(const Pool& pool) const;
  Attempt from_segments(Pool& pool);

  // The ladder.
  bool take_rung(LadderRung rung);
  /// Waits until every block that waits for other streams is free. False if there is none.
  bool wait_for_own_events();
  bool ask_for_memory();
  bool give_back_cached();
  bool may_wait() { return !request_.is_capturing && !state_.streams.any_capturing(); }
  Attempt attempt_in_others();
  Bytes usable_bytes() const;
  /// What the driver said last to a call that makes or maps memory, if it was no want of memory.
  void note_refusal(Status status) {
    if (status.native_code == 0) return;
    refusal_ = status.code == StatusCode::kOutOfMemory ? Status{} : status;
  }
  void fill_report(EmergencyCause cause, OomReport* report);

  // What growth that is not needed leaves to others: a share of the device.
  static constexpr std::uint32_t kHeadroomShare = 16;

  State& state_;
  Placer& placer_;
  PageWork& pages_;
  PoolGuard& guard_;
  const Request& request_;
  std::uint64_t visits_at_look_ = 0;  // by `serve_held`
  std::uint32_t device_room_ = 0;     // units that the device has, as it said or as growth showed
  std::uint32_t headroom_units_ = 0;
  Status refusal_;                      // the last of the last attempt
  std::vector<std::int8_t> capturing_;  // by stream; -1: not asked in this attempt
};

}  // namespace levee::core
