// Streams, work, events and time of GpuModel.
//
// The end of a piece of work is known when it is enqueued: it starts at the end of what is ahead of
// it, or now, and takes as long as it was told to. So nothing runs in the background; a stream is
// the time at which it will be idle.
#include <algorithm>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/device/sim/gpu_model_state.h"

namespace levee::device::sim {

namespace {

// Sums with kNever stay at kNever.
Nanos later_by(Nanos time, Nanos by) {
  return time >= kNever || by >= kNever || time.value > kNever.value - by.value ? kNever
                                                                                : time + by;
}

void erase_one(std::vector<Stream*>& list, const Stream* stream) {
  list.erase(std::remove(list.begin(), list.end(), stream), list.end());
}

}  // namespace

// ---- Streams

Stream& GpuModel::State::add_stream(DeviceId device, StreamOptions options) {
  auto owned = std::make_unique<Stream>();
  Stream& stream = *owned;
  stream.device = device;
  stream.options = options;
  // A profiler shows the legacy stream of the first device as 7 and numbers the rest from 13 on.
  stream.number = next_stream_number;
  next_stream_number = next_stream_number == 7 ? 13 : next_stream_number + 1;
  stream.index = order.add_stream();
  stream.id = StreamId{streams.insert(std::move(owned))};
  if (by_index.size() <= stream.index) by_index.resize(std::size_t{stream.index} + 1, nullptr);
  by_index[stream.index] = &stream;
  DeviceState& d = on(device);
  d.streams.push_back(&stream);
  if (!options.non_blocking) d.blocking.push_back(&stream);
  return stream;
}

Stream& GpuModel::State::per_thread_stream(DeviceId device) {
  Stream*& stream = on(device).per_thread[this_thread_number()];
  if (stream == nullptr) {
    stream = &add_stream(device, StreamOptions{});
    stream->is_per_thread = true;
  }
  return *stream;
}

Stream* GpuModel::State::resolve(DeviceId device, StreamId stream) {
  switch (stream.value) {
    case 0:
    case 1:
      return on(device).legacy;
    case 2:
      return &per_thread_stream(device);
    default:
      return streams.find(stream.value);
  }
}

Result<StreamId> GpuModel::create_stream(DeviceId device, StreamOptions options) {
  const Call call(*state_, CallKind::kCreateStream, device);
  if (!call.ok()) return call.status();
  return state_->add_stream(device, options).id;
}

Status GpuModel::destroy_stream(StreamId id) {
  State& s = *state_;
  Call call(s, CallKind::kDestroyStream, CallArguments{{}, {}, id.value}, [&](CallArguments&) {
    const Stream* stream = s.streams.find(id.value);
    return stream == nullptr ? DeviceId{0} : stream->device;
  });
  if (!call.ok()) return call.status();
  Stream* stream = s.streams.find(id.value);
  if (stream == nullptr || stream->is_legacy || stream->is_per_thread)
    return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->capture != nullptr)
    return call.fail(s.break_capture(*stream->capture, Native::kCaptureUnsupported));
  DeviceState& d = s.on(stream->device);
  // Its work goes on. The legacy stream would have waited for it; so it does now.
  const Order::Point rest = s.order.release(stream->index);
  if (!stream->options.non_blocking) {
    s.order.acquire(d.legacy->index, rest);
    erase_one(d.blocking, stream);
  }
  d.retired.push_back(rest);
  d.retired_tail = std::max(d.retired_tail, stream->tail);
  erase_one(d.streams, stream);
  s.by_index[stream->index] = nullptr;
  s.order.remove_stream(stream->index);
  s.streams.erase(id.value);
  return Status{};
}

Result<StreamInfo> GpuModel::stream_info(DeviceId device, StreamId stream) const {
  const base::MutexLock lock(state_->mutex);
  if (!state_->has_device(device)) return to_status(Native::kInvalidDevice);
  const Stream* found = state_->resolve(device, stream);
  if (found == nullptr) return to_status(Native::kInvalidHandle);
  return StreamInfo{found->id,     found->device,    found->options,
                    found->number, found->is_legacy, found->is_per_thread};
}

Result<Nanos> GpuModel::ready_at(DeviceId device, StreamId id) const {
  const base::MutexLock lock(state_->mutex);
  if (!state_->has_device(device)) return to_status(Native::kInvalidDevice);
  const Stream* stream = state_->resolve(device, id);
  if (stream == nullptr) return to_status(Native::kInvalidHandle);
  return std::max(state_->clock.now(), state_->tail_behind_legacy(*stream));
}

void GpuModel::State::order_with_legacy(Stream& stream) {
  DeviceState& d = on(stream.device);
  if (stream.is_legacy) {
    ++d.legacy_ops;
    if (stream.seen_peer_ops == d.blocking_ops) return;
    stream.seen_peer_ops = d.blocking_ops;
    for (const Stream* peer : d.blocking) order.acquire(stream.index, order.release(peer->index));
  } else if (!stream.options.non_blocking) {
    ++d.blocking_ops;
    if (stream.seen_peer_ops == d.legacy_ops) return;
    stream.seen_peer_ops = d.legacy_ops;
    order.acquire(stream.index, order.release(d.legacy->index));
  }
}

void GpuModel::State::queue_behind_legacy(Stream& stream) {
  order_with_legacy(stream);
  if (stream.is_legacy || !stream.options.non_blocking)
    set_tail(stream, tail_behind_legacy(stream));
}

Nanos GpuModel::State::tail_behind_legacy(const Stream& stream) {
  const DeviceState& d = on(stream.device);
  if (stream.is_legacy) return std::max(stream.tail, d.blocking_tail);
  return stream.options.non_blocking ? stream.tail : std::max(stream.tail, d.legacy->tail);
}

void GpuModel::State::set_tail(Stream& stream, Nanos tail) {
  stream.tail = tail;
  DeviceState& d = on(stream.device);
  if (tail < kNever) d.finite_tail = std::max(d.finite_tail, tail);
  if (!stream.is_legacy && !stream.options.non_blocking)
    d.blocking_tail = std::max(d.blocking_tail, tail);
}

// ---- Waiting

Native GpuModel::State::wait_until(Nanos time) {
  const Nanos now = clock.now();
  if (time <= now) return Native::kSuccess;
  if (time - now > config.endless_wait) {
    if (is_judging()) {
      base::FixedBuffer<256> text;
      text << "the host waits for something that ";
      if (time >= kNever) {
        text << "never completes";
      } else {
        text << "completes only in " << time - now;
      }
      file(new_hazard(JudgeRule::kNoEndlessWait), text);
    }
    return Native::kTimeout;
  }
  clock.move_to(time);
  return Native::kSuccess;
}

void GpuModel::State::learn_device(DeviceId device) {
  DeviceState& d = on(device);
  for (const Stream* stream : d.streams) order.host_learn_stream(stream->index);
  for (const Order::Point& point : d.retired) order.host_learn(point);
  d.retired.clear();
}

Native GpuModel::State::synchronize_device_locked(DeviceId device) {
  DeviceState& d = on(device);
  Nanos end = d.retired_tail;
  for (const Stream* stream : d.streams) end = std::max(end, stream->tail);
  if (const Native native = wait_until(end); native != Native::kSuccess) return native;
  learn_device(device);
  if (d.async_pool.has_free_blocks()) {
    for (const DeviceAddr addr : d.async_pool.trim(d.async_pool.use().release_threshold, order)) {
      memory.release_allocation(addr);
    }
  }
  return Native::kSuccess;
}

Status GpuModel::synchronize_device(DeviceId device) {
  State& s = *state_;
  Call call(s, CallKind::kSynchronizeDevice, device);
  if (!call.ok()) return call.status();
  if (s.is_device_capturing(device)) {
    s.break_captures_of(device, false);
    return call.fail(Native::kCaptureUnsupported);
  }
  return call.fail(s.synchronize_device_locked(device));
}

Status GpuModel::query_stream(DeviceId device, StreamId id) {
  State& s = *state_;
  run_due();
  Call call(s, CallKind::kQueryStream, device, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Stream* stream = s.resolve(device, id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->capture != nullptr)
    return call.fail(s.break_capture(*stream->capture, Native::kCaptureUnsupported));
  if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device)) {
    s.break_captures_of(stream->device, true);
    return call.fail(Native::kCaptureImplicit);
  }
  if (stream->is_legacy) s.queue_behind_legacy(*stream);
  if (stream->tail > s.clock.now()) return call.fail(Native::kNotReady);
  s.order.host_learn_stream(stream->index);
  return Status{};
}

Status GpuModel::synchronize_stream(DeviceId device, StreamId id) {
  State& s = *state_;
  Call call(s, CallKind::kSynchronizeStream, device, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Stream* stream = s.resolve(device, id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->capture != nullptr)
    return call.fail(s.break_capture(*stream->capture, Native::kCaptureUnsupported));
  if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device)) {
    s.break_captures_of(stream->device, true);
    return call.fail(Native::kCaptureImplicit);
  }
  if (stream->is_legacy) s.queue_behind_legacy(*stream);
  if (const Native native = s.wait_until(stream->tail); native != Native::kSuccess)
    return call.fail(native);
  s.order.host_learn_stream(stream->index);
  return Status{};
}

// ---- Work

Nanos GpuModel::State::run_work(Stream& stream, const Work& work, Nanos start, std::uint64_t graph,
                                std::uint64_t node) {
  // Each rank's end follows from the latest time at which any was ready, never from how far the
  // clocks are apart: what is ahead of the work in its stream may cover that distance already.
  const Nanos end = later_by(std::max(start, work.meets_at), work.duration);
  set_tail(stream, std::max(stream.tail, end));
  if (work.on_complete || activity.is_listening()) {
    activity.push(ActivityRecord{stream.device, stream.id, work.kind, work.name, start, end,
                                 work.bytes, work.correlation, graph, node},
                  work.on_complete);
  }
  return end;
}

void GpuModel::State::note_touches(Stream& stream, const Work& work) {
  for (const Touch& touch : work.touches) {
    UseAt use;
    use.stream = &stream;
    use.kind = touch.writes ? UseKind::kWrite : UseKind::kRead;
    use.op = stream.ops;
    use.overlap_from = stream.overlap_from;
    note_use(touch.addr, touch.bytes, use);
  }
}

namespace {

GraphNode node_of(const Work& work) {
  GraphNode node;
  node.kind = work.kind;
  node.name = work.name;
  node.duration = work.duration;
  node.bytes = work.bytes;
  node.effect = work.effect;
  node.on_complete = work.on_complete;
  return node;
}

void count_work(Stream& stream, bool overlaps_predecessor) {
  ++stream.ops;
  if (!overlaps_predecessor) {
    stream.overlap_from = 0;
  } else if (stream.overlap_from == 0) {
    // The chain of work that may run at once starts with the one before this. Works are numbered
    // from 1.
    stream.overlap_from = stream.ops > 1 ? stream.ops - 1 : stream.ops;
  }
}

}  // namespace

Status GpuModel::enqueue(DeviceId device, StreamId id, CallKind kind, const Work& work) {
  State& s = *state_;
  {
    Call call(s, kind, device, CallArguments{{}, {}, id.value});
    if (!call.ok()) return call.status();
    Stream* stream = s.resolve(device, id);
    if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
    if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device)) {
      s.break_captures_of(stream->device, true);
      return call.fail(Native::kCaptureImplicit);
    }
    if (stream->capture != nullptr) {
      if (is_blocking(kind))
        return call.fail(s.break_capture(*stream->capture, Native::kCaptureUnsupported));
      if (stream->capture->is_invalid) return call.fail(Native::kCaptureInvalidated);
      // Not counted: it does not run now, so what is enqueued after it has no predecessor in it.
      s.capture_node(*stream, node_of(work));
      if (s.is_judging()) s.note_touches(*stream, work);
      return Status{};
    }
    s.queue_behind_legacy(*stream);
    count_work(*stream, work.overlaps_predecessor);
    s.order.stamp(stream->index);
    if (s.is_judging()) s.note_touches(*stream, work);
    s.run_work(*stream, work, std::max(s.clock.now(), stream->tail));
    if (is_blocking(kind)) {
      if (const Native native = s.wait_until(stream->tail); native != Native::kSuccess)
        return call.fail(native);
      s.order.host_learn_stream(stream->index);
    }
  }
  if (work.effect) work.effect();
  return Status{};
}

Status GpuModel::enqueue_together(std::span<const StreamOn> members, CallKind kind,
                                  const Work& work) {
  State& s = *state_;
  if (members.empty()) return to_status(Native::kInvalidValue);
  {
    Call call(s, kind, members.front().device, CallArguments{{}, {}, members.front().stream.value});
    if (!call.ok()) return call.status();
    std::vector<Stream*> streams;
    for (const StreamOn& member : members) {
      if (!s.has_device(member.device)) return call.fail(Native::kInvalidDevice);
      Stream* stream = s.resolve(member.device, member.stream);
      if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
      if (stream->capture != nullptr && stream->capture->is_invalid)
        return call.fail(Native::kCaptureInvalidated);
      if ((stream->capture != nullptr) !=
              (!streams.empty() && streams.front()->capture != nullptr) &&
          !streams.empty()) {
        return call.fail(
            Native::kCaptureIsolation);  // some would run now and wait for others that do not
      }
      streams.push_back(stream);
    }
    if (streams.front()->capture != nullptr) {
      // In one capture a single node that all of them wait for; with a capture for each device, one
      // node in each. The effect is one all the same: it goes with the first.
      GraphNode node = node_of(work);
      for (std::size_t i = 0; i < streams.size(); ++i) {
        Stream& stream = *streams[i];
        for (const Stream* other : streams) {
          if (other->capture == stream.capture && other != &stream) {
            stream.capture_dependencies.insert(stream.capture_dependencies.end(),
                                               other->capture_dependencies.begin(),
                                               other->capture_dependencies.end());
          }
        }
        s.capture_node(stream, node);
        node.effect = nullptr;
        node.on_complete = nullptr;
      }
      return Status{};
    }
    Nanos start = s.clock.now();
    for (Stream* stream : streams) {
      s.queue_behind_legacy(*stream);
      start = std::max(start, stream->tail);
    }
    const auto meet = [&s, &streams] {
      std::vector<Order::Point> points;
      for (const Stream* stream : streams) points.push_back(s.order.release(stream->index));
      for (const Stream* stream : streams) {
        for (const Order::Point& point : points) s.order.acquire(stream->index, point);
      }
    };
    meet();
    Work part = work;
    part.effect = nullptr;
    for (Stream* stream : streams) {
      count_work(*stream, false);
      s.order.stamp(stream->index);
      s.run_work(*stream, part, start);
      part.on_complete = nullptr;
    }
    if (s.is_judging() && !work.touches.empty()) {
      for (const Touch& touch : work.touches) {
        const DeviceId owner = s.memory.find(touch.addr).device;
        const auto at = std::find_if(streams.begin(), streams.end(), [owner](const Stream* stream) {
          return stream->device == owner;
        });
        State::UseAt use;
        use.stream = at == streams.end() ? streams.front() : *at;
        use.kind = touch.writes ? UseKind::kWrite : UseKind::kRead;
        use.check_access = at != streams.end();
        use.op = use.stream->ops;
        s.note_use(touch.addr, touch.bytes, use);
      }
      meet();  // what follows on any of them is ordered after the touches of all
    }
  }
  if (work.effect) work.effect();
  return Status{};
}

// ---- Events

Result<EventId> GpuModel::create_event(DeviceId device, EventOptions options) {
  State& s = *state_;
  const Call call(s, CallKind::kCreateEvent, device);
  if (!call.ok()) return call.status();
  auto owned = std::make_unique<EventObject>();
  EventObject& event = *owned;
  event.device = device;
  event.options = options;
  event.id = EventId{s.events.insert(std::move(owned))};
  ++s.on(device).events;
  return event.id;
}

namespace {
// The device of an event, for calls that name none.
auto device_of_event(const IdTable<EventObject>& events, EventId id) {
  return [&events, id](CallArguments&) {
    const EventObject* event = events.find(id.value);
    return event == nullptr ? DeviceId{0} : event->device;
  };
}
}  // namespace

Status GpuModel::destroy_event(EventId id) {
  State& s = *state_;
  Call call(s, CallKind::kDestroyEvent, CallArguments{{}, {}, id.value},
            device_of_event(s.events, id));
  if (!call.ok()) return call.status();
  const auto event = s.events.erase(id.value);
  if (event == nullptr) return call.fail_foreign(JudgeRule::kEventExists);
  --s.on(event->device).events;
  return Status{};
}

Status GpuModel::record_event(EventId id, DeviceId device, StreamId stream_id, bool external) {
  State& s = *state_;
  Call call(s, CallKind::kRecordEvent, device, CallArguments{{}, {}, stream_id.value});
  if (!call.ok()) return call.status();
  EventObject* event = s.events.find(id.value);
  if (event == nullptr) return call.fail_foreign(JudgeRule::kEventExists);
  Stream* stream = s.resolve(device, stream_id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (event->device != stream->device) return call.fail(Native::kInvalidHandle);
  if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device)) {
    s.break_captures_of(stream->device, true);
    return call.fail(Native::kCaptureImplicit);
  }
  if (stream->capture != nullptr) {
    Capture& capture = *stream->capture;
    if (capture.is_invalid) return call.fail(Native::kCaptureInvalidated);
    if (external) {
      GraphNode node;
      node.kind = WorkKind::kEventRecord;
      node.name = "event record";
      node.event = id;
      s.capture_node(*stream, std::move(node));
      return Status{};
    }
    event->state = EventObject::State::kCaptured;
    event->capture = capture.number;
    event->dependencies = stream->capture_dependencies;
    event->point = capture.order.release(stream->capture_index);
    return Status{};
  }
  s.queue_behind_legacy(*stream);
  event->state = EventObject::State::kRecorded;
  event->complete_at = later_by(std::max(s.clock.now(), stream->tail), call.delay());
  event->point = s.order.release(stream->index);
  return Status{};
}

Status GpuModel::wait_event(DeviceId device, StreamId stream_id, EventId id, bool external) {
  State& s = *state_;
  Call call(s, CallKind::kWaitEvent, device, CallArguments{{}, {}, stream_id.value});
  if (!call.ok()) return call.status();
  EventObject* event = s.events.find(id.value);
  if (event == nullptr) return call.fail_foreign(JudgeRule::kEventExists);
  Stream* stream = s.resolve(device, stream_id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device)) {
    s.break_captures_of(stream->device, true);
    return call.fail(Native::kCaptureImplicit);
  }
  if (stream->capture != nullptr && external) {
    if (stream->capture->is_invalid) return call.fail(Native::kCaptureInvalidated);
    GraphNode node;
    node.kind = WorkKind::kEventWait;
    node.name = "event wait";
    node.event = id;
    s.capture_node(*stream, std::move(node));
    return Status{};
  }
  switch (event->state) {
    case EventObject::State::kNone:
      return Status{};
    case EventObject::State::kCaptured:
      return call.fail(s.join_capture(*stream, *event));
    case EventObject::State::kRecorded:
      break;
  }
  if (stream->capture != nullptr)
    return call.fail(s.break_capture(*stream->capture, Native::kCaptureIsolation));
  s.queue_behind_legacy(*stream);
  s.order.acquire(stream->index, event->point);
  s.set_tail(*stream, std::max(stream->tail, event->complete_at));
  return Status{};
}

Status GpuModel::query_event(EventId id) {
  State& s = *state_;
  run_due();
  Call call(s, CallKind::kQueryEvent, CallArguments{{}, {}, id.value},
            device_of_event(s.events, id));
  if (!call.ok()) return call.status();
  EventObject* event = s.events.find(id.value);
  if (event == nullptr) return call.fail_foreign(JudgeRule::kEventExists);
  if (event->state == EventObject::State::kNone) return Status{};
  if (event->state == EventObject::State::kCaptured) {
    if (Capture* capture = s.find_capture(event->capture); capture != nullptr)
      s.break_capture(*capture, Native::kCapturedEvent);
    return call.fail(Native::kCapturedEvent);
  }
  if (event->complete_at > s.clock.now()) return call.fail(Native::kNotReady);
  s.order.host_learn(event->point);
  return Status{};
}

Status GpuModel::synchronize_event(EventId id) {
  State& s = *state_;
  Call call(s, CallKind::kSynchronizeEvent, CallArguments{{}, {}, id.value},
            device_of_event(s.events, id));
  if (!call.ok()) return call.status();
  EventObject* event = s.events.find(id.value);
  if (event == nullptr) return call.fail_foreign(JudgeRule::kEventExists);
  if (event->state == EventObject::State::kNone) return Status{};
  if (event->state == EventObject::State::kCaptured) {
    if (Capture* capture = s.find_capture(event->capture); capture != nullptr)
      s.break_capture(*capture, Native::kCapturedEvent);
    return call.fail(Native::kCapturedEvent);
  }
  if (const Native native = s.wait_until(event->complete_at); native != Native::kSuccess)
    return call.fail(native);
  s.order.host_learn(event->point);
  return Status{};
}

Result<Nanos> GpuModel::elapsed(EventId start_id, EventId end_id) {
  State& s = *state_;
  Call call(s, CallKind::kElapsedTime, CallArguments{{}, {}, end_id.value},
            device_of_event(s.events, end_id));
  if (!call.ok()) return call.status();
  const EventObject* start = s.events.find(start_id.value);
  const EventObject* end = s.events.find(end_id.value);
  if (start == nullptr || end == nullptr) return call.fail_foreign(JudgeRule::kEventExists);
  if (!start->options.timing || !end->options.timing) return call.fail(Native::kInvalidHandle);
  for (const EventObject* event : {start, end}) {
    if (event->state == EventObject::State::kNone) return call.fail(Native::kInvalidHandle);
    if (event->state == EventObject::State::kCaptured) return call.fail(Native::kCapturedEvent);
    if (event->complete_at > s.clock.now()) return call.fail(Native::kNotReady);
  }
  return end->complete_at - start->complete_at;
}

Result<DeviceId> GpuModel::event_device(EventId id) const {
  const base::MutexLock lock(state_->mutex);
  const EventObject* event = state_->events.find(id.value);
  if (event == nullptr) return to_status(Native::kInvalidHandle);
  return event->device;
}

}  // namespace levee::device::sim
