// Seeded streams of events that look like a program's, for tests of the recorder, the file and its
// readers.
//
// Promises: the same seed gives the same events; allocations and frees are consistent per address;
// times of one thread never go back unless `Shape::late_driver_calls` asks for calls that are told
// when they end.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <levee/event.h>
#include <levee/units.h>

#include "allocator/record/event_block.h"

namespace levee::record::test {

struct Shape {
  std::uint32_t threads = 1;
  bool late_driver_calls = false;
  bool other_kinds = true;
  std::uint64_t mean_gap_ns = 2000;
};

class EventProgram {
 public:
  explicit EventProgram(std::uint64_t seed, Shape shape = {}) : random_(seed), shape_(shape) {
    keys_.resize(shape.threads, INT64_MIN);
    sequences_.resize(shape.threads, 0);
  }

  StagedEvent next() {
    now_ += 1 + random_() % (2 * shape_.mean_gap_ns);
    const auto thread = static_cast<std::uint32_t>(random_() % shape_.threads);
    return stage(make(), thread);
  }

  std::vector<StagedEvent> take(std::size_t count) {
    std::vector<StagedEvent> events;
    for (std::size_t i = 0; i < count; ++i) events.push_back(next());
    return events;
  }

  StagedEvent stage(Event event, std::uint32_t thread) {
    if (event.kind() == EventKind::kLost) sequences_[thread] += event.a;
    auto& key = keys_[thread];
    // A driver call is told when it ends, with the time when it began: behind what its thread did
    // meanwhile.
    if (shape_.late_driver_calls && event.kind() == EventKind::kDriverCall && key == last_key_) {
      event.time_ns -= event.a;
    }
    key = std::max(key, static_cast<std::int64_t>(event.time_ns));
    last_key_ = std::max(last_key_, key);
    return StagedEvent{event, sequences_[thread]++, key, thread};
  }

 private:
  static constexpr std::size_t kMostLive = 400;
  struct Live {
    std::uint64_t addr;
    std::uint64_t sizes;
    LaneId lane;
  };

  Event make() {
    const std::uint64_t dice = random_() % 100;
    if (waiting_ != 0 && dice % 2 == 0) {
      const std::uint64_t addr = waiting_;
      waiting_ = 0;
      return at(EventKind::kFreeCompleted, LaneId{1}, addr, waiting_sizes_, 1);
    }
    if (shape_.other_kinds && dice >= 92) return make_other(dice);
    if (live_.empty() || (dice < 46 && live_.size() < kMostLive)) return make_alloc();
    const std::size_t which = random_() % live_.size();
    const Live block = live_[which];
    live_[which] = live_.back();
    live_.pop_back();
    freed_.push_back(block.addr);
    if (block.addr == used_) {
      waiting_ = used_;
      waiting_sizes_ = block.sizes;
      used_ = 0;
      freed_.pop_back();
    }
    return at(EventKind::kFree, block.lane, block.addr, block.sizes, 1);
  }

  Event make_alloc() {
    const std::uint64_t requested = 1 + random_() % (1U << (6 + random_() % 20));
    const std::uint64_t bytes = (requested + 511) / 512 * 512;
    std::uint64_t addr = 0x7F0000000000 + live_.size() * (1ULL << 27) + random_() % 4096 * 512;
    if (!freed_.empty() && random_() % 4 != 0) {
      addr = freed_.back();
      freed_.pop_back();
    }
    for (const Live& live : live_) {
      if (live.addr == addr) addr = 0x7E0000000000 + counter_++ * (1ULL << 27);
    }
    const LaneId lane{static_cast<std::uint16_t>(1 + random_() % 2)};
    live_.push_back({addr, pack_sizes(Bytes{requested}, Bytes{bytes}), lane});
    return at(EventKind::kAlloc, lane, addr, live_.back().sizes, 1);
  }

  Event make_other(std::uint64_t dice) {
    const LaneId lane{1};
    const ContextId context{static_cast<std::uint32_t>(1 + random_() % 3)};
    switch (dice) {
      case 92:
        return at(EventKind::kPhasePush, {}, 0, 0, 0, context);
      case 93:
        return at(EventKind::kPhasePop, {}, 0, 0, 0, context);
      case 94:
        return at(EventKind::kStepMark, {}, ++step_, 0);
      case 95:
        return at(EventKind::kPageCreate, lane, 0x7F0000000000, 2 << 20, 1);
      case 96:
        return at(EventKind::kDriverCall, lane, 50'000, 2 << 20,
                  static_cast<std::uint16_t>(DriverCall::kMap));
      case 97:
        if (live_.empty() || used_ != 0 || waiting_ != 0)
          return at(EventKind::kNote, {}, 0, 0, 0, context);
        used_ = live_.front().addr;
        return at(EventKind::kRecordUse, LaneId{2}, used_, 0);
      case 98:
        return at(EventKind::kLost, {}, 1 + random_() % 1000, 0);
      default:
        return at(EventKind::kCounters, lane, random_() % (1ULL << 40), random_() % (1ULL << 40));
    }
  }

  Event at(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b, std::uint16_t aux = 0,
           ContextId context = {}) {
    return make_event(kind, Nanos{static_cast<std::int64_t>(now_)}, lane, a, b, aux, context);
  }

  std::mt19937_64 random_;
  Shape shape_;
  std::uint64_t now_ = 1'000'000'000;
  std::uint64_t step_ = 0;
  std::uint64_t counter_ = 0;
  std::vector<Live> live_;
  std::vector<std::uint64_t> freed_;
  std::uint64_t used_ = 0;     // the block that another stream uses
  std::uint64_t waiting_ = 0;  // and after its free, until that is complete
  std::uint64_t waiting_sizes_ = 0;
  std::vector<std::int64_t> keys_;
  std::vector<std::uint64_t> sequences_;
  std::int64_t last_key_ = INT64_MIN;
};

inline bool same(const Event& a, const Event& b) {
  return a.time_ns == b.time_ns && a.a == b.a && a.b == b.b &&
         a.context_and_kind == b.context_and_kind && a.lane == b.lane && a.aux == b.aux;
}

}  // namespace levee::record::test
