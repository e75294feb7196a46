// Events of one device, made once and used again.
//
// Promises: `take` creates an event only when none is free; every event is destroyed by
// `destroy_all`. An event may go back while waits on it are pending: a wait refers to the record
// that was current when it was enqueued, and a later record of the same event does not change it.
// Guarded by the pool lock. None of its calls blocks.
#pragma once

#include <vector>

#include <levee/ids.h>
#include <levee/status.h>

#include "allocator/core/mutants.h"
#include "allocator/device/device.h"

namespace levee::core {

class EventPool {
 public:
  /// Events for streams of `of`, made through `device`.
  EventPool(device::Device& device, DeviceId of) : device_(device), of_(of) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  Result<EventId> take() {
    if (!free_.empty()) {
      const EventId event = free_.back();
      free_.pop_back();
      return event;
    }
    Result<EventId> created =
        of_ == device_.id() ? device_.create_event() : device_.create_event_on(of_);
    if (created.ok()) {
      ++created_;
      if (free_.capacity() < created_) free_.reserve(2 * created_);  // giving back needs no heap
    }
    return created;
  }
  void give_back(EventId event) {
    if (mutated(Mutant::kEventGone)) {
      const Status gone = device_.destroy_event(event);
      static_cast<void>(gone);
    }
    free_.push_back(event);
  }

  /// Destroys the free events; those in use must have been given back. Failures are ignored: this
  /// runs when the allocator ends, and the driver may be gone.
  void destroy_all() {
    for (EventId event : free_) {
      const Status ignored = device_.destroy_event(event);
      static_cast<void>(ignored);  // nothing can be done, and nobody is left to be told
    }
    free_.clear();
  }

 private:
  device::Device& device_;
  DeviceId of_;
  std::vector<EventId> free_;
  std::size_t created_ = 0;
};

}  // namespace levee::core
