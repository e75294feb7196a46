#include "allocator/core/observed_device.h"

#include <type_traits>

#include "allocator/base/clock.h"

namespace levee::core {

thread_local ContextId SlowPathContext::current_{};

namespace {
Status status_of(const Status& status) {
  return status;
}
template <typename T>
Status status_of(const Result<T>& result) {
  return result.status();
}
}  // namespace

ObservedDevice::ObservedDevice(device::Device& device, record::Recorder* recorder)
    : device_(device), recorder_(recorder), is_judging_(device.capabilities().judges_use) {
  if (recorder_ != nullptr) lane_ = recorder_->intern_lane(device.id(), StreamId{0});
}

void ObservedDevice::finish(DriverCall kind, Nanos began, Bytes bytes, Status status) {
  const Nanos took = base::Clock::now() - began;
  calls_.fetch_add(1, std::memory_order_relaxed);
  time_ns_.fetch_add(took.value, std::memory_order_relaxed);
  if (recorder_ == nullptr || !recorder_->enabled()) return;
  // "Not ready" is an answer, not a failure.
  const bool failed = !status.ok() && status.code != StatusCode::kNotReady;
  const std::uint64_t b = failed ? static_cast<std::uint32_t>(status.native_code) : bytes.value;
  const auto aux = static_cast<std::uint16_t>(static_cast<std::uint16_t>(kind) |
                                              (failed ? kDriverCallFailed : 0));
  recorder_->emit(make_event(EventKind::kDriverCall, began, lane_,
                             static_cast<std::uint64_t>(took.value), b, aux,
                             SlowPathContext::current()));
}

template <typename Call>
auto ObservedDevice::observe(DriverCall kind, Bytes bytes, Call&& call) {
  const Nanos began = base::Clock::now();
  auto result = call();
  finish(kind, began, bytes, status_of(result));
  return result;
}

Result<device::MemoryInfo> ObservedDevice::memory_info() {
  return observe(DriverCall::kMemoryInfo, {}, [&] { return device_.memory_info(); });
}
Result<DeviceAddr> ObservedDevice::allocate(Bytes bytes) {
  return observe(DriverCall::kMalloc, bytes, [&] { return device_.allocate(bytes); });
}
Status ObservedDevice::release(DeviceAddr addr) {
  return observe(DriverCall::kFree, {}, [&] { return device_.release(addr); });
}
Result<DeviceAddr> ObservedDevice::reserve_range(Bytes bytes, Bytes alignment) {
  return observe(DriverCall::kReserveRange, bytes,
                 [&] { return device_.reserve_range(bytes, alignment); });
}
Status ObservedDevice::free_range(DeviceAddr addr, Bytes bytes) {
  return observe(DriverCall::kFreeRange, bytes, [&] { return device_.free_range(addr, bytes); });
}
Result<HandleId> ObservedDevice::create_handle(Bytes bytes) {
  return observe(DriverCall::kCreateHandle, bytes, [&] { return device_.create_handle(bytes); });
}
Status ObservedDevice::release_handle(HandleId handle) {
  return observe(DriverCall::kReleaseHandle, {}, [&] { return device_.release_handle(handle); });
}
Status ObservedDevice::map(DeviceAddr addr, Bytes bytes, HandleId handle) {
  return observe(DriverCall::kMap, bytes, [&] { return device_.map(addr, bytes, handle); });
}
Status ObservedDevice::set_access(DeviceAddr addr, Bytes bytes) {
  return observe(DriverCall::kSetAccess, bytes, [&] { return device_.set_access(addr, bytes); });
}
Status ObservedDevice::unmap(DeviceAddr addr, Bytes bytes) {
  return observe(DriverCall::kUnmap, bytes, [&] { return device_.unmap(addr, bytes); });
}
Result<EventId> ObservedDevice::create_event() {
  return observe(DriverCall::kCreateEvent, {}, [&] { return device_.create_event(); });
}
Result<EventId> ObservedDevice::create_event_on(DeviceId device) {
  return observe(DriverCall::kCreateEvent, {}, [&] { return device_.create_event_on(device); });
}
Status ObservedDevice::destroy_event(EventId event) {
  return observe(DriverCall::kDestroyEvent, {}, [&] { return device_.destroy_event(event); });
}
Status ObservedDevice::record_event(EventId event, StreamId stream) {
  return observe(DriverCall::kRecordEvent, {}, [&] { return device_.record_event(event, stream); });
}
Status ObservedDevice::query_event(EventId event) {
  return observe(DriverCall::kQueryEvent, {}, [&] { return device_.query_event(event); });
}
Status ObservedDevice::wait_event(StreamId stream, EventId event) {
  return observe(DriverCall::kWaitEvent, {}, [&] { return device_.wait_event(stream, event); });
}
Status ObservedDevice::synchronize_event(EventId event) {
  return observe(DriverCall::kSynchronizeEvent, {},
                 [&] { return device_.synchronize_event(event); });
}
Status ObservedDevice::synchronize_stream(StreamId stream) {
  return observe(DriverCall::kSynchronizeStream, {},
                 [&] { return device_.synchronize_stream(stream); });
}
Status ObservedDevice::synchronize_device() {
  return observe(DriverCall::kSynchronizeDevice, {}, [&] { return device_.synchronize_device(); });
}
Result<device::CaptureInfo> ObservedDevice::capture_info(StreamId stream) {
  return observe(DriverCall::kCaptureState, {}, [&] { return device_.capture_info(stream); });
}

}  // namespace levee::core
