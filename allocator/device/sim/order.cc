#include "allocator/device/sim/order.h"

#include <algorithm>

namespace levee::device::sim {

Order::Index Order::add_stream() {
  // Oldest first: it is the likeliest to be known complete. One look is enough; a busy one goes to
  // the end of the line.
  if (!free_.empty()) {
    const Index index = free_.front();
    free_.pop_front();
    if (host_knows(index, streams_[index].tick - 1)) return index;
    free_.push_back(index);
  }
  streams_.emplace_back();
  return static_cast<Index>(streams_.size() - 1);
}

void Order::remove_stream(Index stream) {
  Stream& s = streams_[stream];
  const Tick next = s.fresh ? s.tick + 1 : s.tick;
  s = Stream{};
  s.tick = s.first_tick = next;
  free_.push_back(stream);
}

bool Order::raise(Clock& clock, Index stream, Tick tick) {
  if (clock.size() <= stream) clock.resize(std::size_t{stream} + 1, 0);
  if (clock[stream] >= tick) return false;
  clock[stream] = tick;
  return true;
}

bool Order::join(Clock& clock, const Point& point) {
  // A clock that has reached the point's tick has taken over all that the point knows: knowledge
  // moves as a whole.
  if (!raise(clock, point.stream, point.tick)) return false;
  if (point.others != nullptr) {
    const Clock& others = *point.others;
    if (clock.size() < others.size()) clock.resize(others.size(), 0);
    for (std::size_t i = 0; i < others.size(); ++i) clock[i] = std::max(clock[i], others[i]);
  }
  return true;
}

Order::Point Order::release(Index stream) {
  Stream& s = streams_[stream];
  if (s.shared == nullptr && !s.clock.empty()) s.shared = std::make_shared<const Clock>(s.clock);
  if (s.fresh) {
    ++s.tick;
    s.fresh = false;
  }
  return Point{stream, s.tick - 1, s.shared};
}

void Order::acquire(Index stream, const Point& point) {
  if (point.stream == stream) return;
  Stream& s = streams_[stream];
  if (!join(s.clock, point)) return;
  s.shared = nullptr;
  s.fresh = true;  // what the stream knows grew: points released before do not have it
}

void Order::host_learn(const Point& point) {
  join(host_, point);
}

void Order::host_learn_stream(Index stream) {
  const Stream& s = streams_[stream];
  if (!s.fresh && host_knows(stream, s.tick - 1)) return;
  host_learn(release(stream));
}

}  // namespace levee::device::sim
