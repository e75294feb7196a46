#include "allocator/device/sim/activity_queue.h"

#include <algorithm>
#include <utility>

namespace levee::device::sim {

namespace {
// A callback may call the model, whose calls run what is due on their way out.
thread_local bool t_is_running = false;
}  // namespace

void ActivityQueue::push(const ActivityRecord& record, std::function<void()> on_complete) {
  heap_.push_back(Item{record.end, sequence_++, record, std::move(on_complete), hook_ != nullptr});
  std::push_heap(heap_.begin(), heap_.end(), is_later);
  update_next_due();
}

void ActivityQueue::update_next_due() {
  next_due_.store(heap_.empty() ? kNever.value : heap_.front().due.value,
                  std::memory_order_release);
}

void ActivityQueue::run(base::Mutex& model, const VirtualClock& clock) {
  if (t_is_running) return;
  const base::MutexLock one_at_a_time(running_);
  t_is_running = true;
  std::vector<Item> batch;
  for (;;) {
    std::shared_ptr<const Hook> hook;
    {
      const base::MutexLock lock(model);
      const Nanos now = clock.now();
      while (!heap_.empty() && heap_.front().due <= now) {
        std::pop_heap(heap_.begin(), heap_.end(), is_later);
        batch.push_back(std::move(heap_.back()));
        heap_.pop_back();
      }
      update_next_due();
      is_running_.store(!batch.empty(), std::memory_order_release);
      hook = hook_;
    }
    if (batch.empty()) break;
    for (const Item& item : batch) {
      if (item.on_complete) item.on_complete();
      if (item.has_record && hook != nullptr) (*hook)(item.record);
    }
    batch.clear();
  }
  t_is_running = false;
}

}  // namespace levee::device::sim
