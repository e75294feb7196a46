#include "allocator/core/streams.h"

#include <algorithm>
#include <atomic>

#include "allocator/base/check.h"
#include "allocator/core/mutants.h"

namespace levee::core {

namespace {

constexpr StreamId kLegacy{0};
constexpr StreamId kLegacyByName{1};     // cudaStreamLegacy
constexpr StreamId kOfCallingThread{2};  // cudaStreamPerThread

/// Not the system's number, which a later thread gets again.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

/// No stream of a device is called so.
StreamId key_of_thread(std::uint64_t thread) {
  constexpr DeviceId kNoDevice{126};
  return StreamId::on_device(kNoDevice, StreamId{thread});
}

}  // namespace

StreamTable::StreamTable(device::Device& device) : device_(device) {
  events_.try_emplace(device_.id(), device_, device_.id());
  streams_.emplace_back();  // kUnknownStream; no id leads to it
}

StreamTable::~StreamTable() {
  for (Stream& stream : streams_) {
    for (Closed& closed : stream.closed) stream.events->give_back(closed.event);
  }
  if (mutated(Mutant::kLeakEvents)) return;
  for (auto& [device, events] : events_) events.destroy_all();
}

EventPool& StreamTable::events_on(DeviceId device) {
  return events_.try_emplace(device, device_, device).first->second;
}

StreamIndex StreamTable::intern_slow(StreamId id) {
  if (id.is_foreign() && id.device() == device_.id()) id = id.handle();
  // All default streams of a device are ordered with its legacy one.
  if (id.is_foreign() && id.handle() <= kOfCallingThread) {
    id = StreamId::on_device(id.device(), kLegacy);
  }
  if (id == kLegacyByName) id = kLegacy;
  Stream made;
  made.id = id;
  made.thread = id == kOfCallingThread ? this_thread() : 0;
  made.key = made.thread == 0 ? id : key_of_thread(made.thread);
  last_key_ = made.key;
  const auto found = index_.find(made.key);
  if (found != index_.end()) return last_ = found->second;
  const StreamIndex index{static_cast<std::uint32_t>(streams_.size())};
  LEVEE_CHECK_LT(index.value, Stamp::kMaxStreams, "too many streams");
  made.events = &events_on(id.is_foreign() ? id.device() : device_.id());
  index_.emplace(made.key, index);
  streams_.push_back(std::move(made));
  return last_ = index;
}

StreamId StreamTable::handle_slow(const Stream& stream) const {
  return stream.thread == this_thread() ? kOfCallingThread : kLegacy;
}

void StreamTable::learn(std::vector<Epoch>& into, const std::vector<Epoch>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

StreamTable::Closed* StreamTable::closed_at_or_after(Stream& stream, Epoch epoch) {
  for (Closed& closed : stream.closed) {
    if (closed.epoch >= epoch) return &closed;
  }
  return nullptr;
}

Result<bool> StreamTable::is_capturing(StreamIndex index) {
  if (index == kUnknownStream) return false;
  const StreamId id = handle(index);
  if (id.handle() == kLegacy) return false;  // CUDA does not capture the legacy stream
  const Result<device::CaptureInfo> info = device_.capture_info(id);
  if (!info.ok()) return info.status();
  return info->status != device::CaptureStatus::kNone;
}

Result<EventId> StreamTable::record_now(StreamIndex index) {
  LEVEE_CHECK(index != kUnknownStream, "an event cannot be recorded on a stream never seen");
  EventPool& events = *streams_[index.value].events;
  Result<EventId> event = events.take();
  if (!event.ok()) return event;
  const Status recorded = device_.record_event(*event, handle(index));
  if (!recorded.ok()) {
    events.give_back(*event);
    return recorded;
  }
  ++record_count_;
  return event;
}

Status StreamTable::close_epoch(StreamIndex index) {
  Stream& stream = streams_[index.value];
  const Result<EventId> event = record_now(index);
  if (!event.ok()) return event.status();
  if (stream.closed.size() == kMostClosed) {
    std::deque<Closed> kept;
    for (std::size_t i = 0; i < stream.closed.size(); ++i) {
      if (i % 2 == 0) {
        kept.push_back(std::move(stream.closed[i]));
      } else {
        stream.events->give_back(stream.closed[i].event);
      }
    }
    stream.closed = std::move(kept);
  }
  stream.closed.push_back(Closed{stream.open_epoch++, *event, stream.waited_for});
  return Status{};
}

Status StreamTable::ensure_closed(Stamp stamp) {
  if (stamp.epoch() < streams_[stamp.stream().value].open_epoch) return Status{};
  return close_epoch(stamp.stream());
}

void StreamTable::look_at(StreamIndex index, std::uint64_t now) {
  if (index == kUnknownStream) return;
  Stream& stream = streams_[index.value];
  if (now - stream.looked_at >= kLookEvery && !stream.closed.empty()) {
    stream.looked_at = now;
    const Status polled = poll(index);
    static_cast<void>(polled);  // what is not known done is waited for
  }
  if (now - stream.closed_at < kCloseEvery) return;
  stream.closed_at = now;
  const Result<bool> captures = is_capturing(index);
  if (!captures.ok() || *captures) return;
  const Status closed = close_epoch(index);
  static_cast<void>(closed);  // it closes when it has to
}

bool StreamTable::any_capturing() {
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    const Result<bool> captures = is_capturing(StreamIndex{i});
    if (captures.ok() && *captures) return true;
  }
  return false;
}

Result<StreamTable::Held> StreamTable::hold(StreamIndex index) {
  const Result<bool> captures = is_capturing(index);
  if (!captures.ok()) return captures.status();
  if (*captures) return StatusCode::kNotReady;
  const Result<EventId> event = record_now(index);
  if (!event.ok()) return event.status();
  return Held{*event, Stamp{index, streams_[index.value].open_epoch++}};
}

void StreamTable::give_back(const Held& held, bool is_done) {
  streams_[held.through.stream().value].events->give_back(held.event);
  if (is_done) set_complete(held.through);
}

Status StreamTable::wait_for(StreamIndex waiter, Stamp stamp) {
  if (!must_wait(waiter, stamp)) return Status{};
  if (mutated(Mutant::kNoWait)) return Status{};
  const StreamIndex other = stamp.stream();
  if (other == kUnknownStream) return Status{StatusCode::kNotReady, 0};
  if (!mutated(Mutant::kWaitInCapture)) {
    // An event recorded on a capturing stream belongs to its graph, and a capturing stream must not
    // wait for work outside of its graph.
    for (StreamIndex one : {waiter, other}) {
      const Result<bool> captures = is_capturing(one);
      if (!captures.ok()) return captures.status();
      if (*captures) return Status{StatusCode::kNotReady, 0};
    }
  }
  Stream& source = streams_[other.value];
  Closed* closed = closed_at_or_after(source, stamp.epoch());
  if (closed == nullptr) {
    const Status status = close_epoch(other);
    if (!status.ok()) return status;
    closed = &source.closed.back();
  }
  Stream& target = streams_[waiter.value];
  const Status waited = device_.wait_event(handle(waiter), closed->event);
  if (!waited.ok()) return waited;
  ++wait_count_;
  if (target.waited_for.size() <= other.value) target.waited_for.resize(streams_.size(), 0);
  target.waited_for[other.value] = std::max(target.waited_for[other.value], closed->epoch);
  learn(target.waited_for, closed->knows);
  return Status{};
}

std::vector<Stamp> StreamTable::fence() {
  std::vector<Stamp> through;
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    through.push_back(Stamp{StreamIndex{i}, streams_[i].open_epoch++});
  }
  return through;
}

Status StreamTable::poll(StreamIndex index, int most) {
  Stream& stream = streams_[index.value];
  while (most-- > 0 && !stream.closed.empty()) {
    const Status answer = device_.query_event(stream.closed.front().event);
    if (answer.code == StatusCode::kNotReady) return Status{};
    if (!answer.ok()) return answer;
    set_complete(Stamp{index, stream.closed.front().epoch});
  }
  return Status{};
}

void StreamTable::set_complete(Stamp stamp) {
  Stream& stream = streams_[stamp.stream().value];
  stream.completed = std::max(stream.completed, stamp.epoch());
  while (!stream.closed.empty() && stream.closed.front().epoch <= stream.completed) {
    // What the stream had waited for before the event is complete as well.
    const std::vector<Epoch> knows = std::move(stream.closed.front().knows);
    stream.events->give_back(stream.closed.front().event);
    stream.closed.pop_front();
    for (std::uint32_t other = 0; other < knows.size(); ++other) {
      if (knows[other] > streams_[other].completed) {
        set_complete(Stamp{StreamIndex{other}, knows[other]});
      }
    }
  }
}

void StreamTable::validate() const {
  for (const Stream& stream : streams_) {
    LEVEE_CHECK_LT(stream.completed, stream.open_epoch, "an open epoch is complete");
    Epoch previous = stream.completed;
    for (const Closed& closed : stream.closed) {
      LEVEE_CHECK_LT(previous, closed.epoch, "closed epochs are out of order");
      LEVEE_CHECK_LT(closed.epoch, stream.open_epoch);
      previous = closed.epoch;
    }
  }
}

}  // namespace levee::core
