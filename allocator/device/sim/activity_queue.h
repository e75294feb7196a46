// Work that somebody wants to hear of when it completes.
//
// Owns what was enqueued with a callback, or while a record hook was set, until it is due.
// Promises: callbacks run in the order of completion (for equal times, in the order of enqueueing),
// one at a time, with no lock of the model held; when run() returns, everything that was due has
// run, also what another thread had begun. A callback that calls the model does not run others.
// Thread safety: push and the hook are guarded by the model's mutex, which run() takes for each
// batch. Costs: O(log pending) for each piece of work; nothing when nobody listens.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <levee/units.h>

#include "allocator/base/mutex.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/virtual_clock.h"

namespace levee::device::sim {

class ActivityQueue {
 public:
  using Hook = std::function<void(const ActivityRecord&)>;

  // Under the model's mutex.
  void set_hook(Hook hook) {
    hook_ = hook ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
  }
  bool is_listening() const { return hook_ != nullptr; }
  void push(const ActivityRecord& record, std::function<void()> on_complete);

  /// Without any lock of the model.
  void run(base::Mutex& model, const VirtualClock& clock);
  Nanos next_due() const { return Nanos{next_due_.load(std::memory_order_acquire)}; }
  /// True while some thread runs callbacks that were due.
  bool is_running() const { return is_running_.load(std::memory_order_acquire); }

 private:
  struct Item {
    Nanos due;
    std::uint64_t sequence = 0;
    ActivityRecord record;
    std::function<void()> on_complete;
    bool has_record = false;
  };
  static bool is_later(const Item& a, const Item& b) {
    return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
  }
  void update_next_due();

  std::shared_ptr<const Hook> hook_;
  std::vector<Item> heap_;
  std::uint64_t sequence_ = 0;
  std::atomic<std::int64_t> next_due_{kNever.value};
  std::atomic<bool> is_running_{false};
  base::Mutex running_;  ///< held while callbacks run; taken before the model's mutex
};

}  // namespace levee::device::sim
