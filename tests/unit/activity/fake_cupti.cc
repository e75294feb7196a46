// A CUPTI that a test controls: records are what the test adds, the clock has the offset that the
// test sets. Loaded as libcupti is.
#include <time.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <cupti.h>

#include "tests/unit/activity/fake_cupti.h"

namespace {

struct State {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<int> kinds;
  bool is_taken = false;
  int subscribers = 0;
  CUptiResult enable_result = CUPTI_SUCCESS;
  std::int64_t clock_offset = 1'700'000'000'000'000'000;
  std::size_t dropped = 0;
  std::map<std::uint64_t, std::uint32_t> streams;
  std::vector<std::vector<std::uint8_t>> records;
  std::set<std::string> names;  // whose characters stay where they are
};

State& state() {
  static auto* the_state = new State;
  return *the_state;
}

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::uint64_t on_their_clock(std::int64_t monotonic) {
  return monotonic == 0 ? 0 : static_cast<std::uint64_t>(monotonic + state().clock_offset);
}

template <typename T>
void add(const T& record) {
  std::vector<std::uint8_t> bytes(sizeof(T));
  std::memcpy(bytes.data(), &record, sizeof(T));
  state().records.push_back(bytes);
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    default:
      return sizeof(CUpti_ActivityOverhead3);
  }
}

}  // namespace

extern "C" {

void fake_cupti_reset() {
  state() = State{};
}
void fake_cupti_set_taken(int taken) {
  state().is_taken = taken != 0;
}
void fake_cupti_set_enable_result(int result) {
  state().enable_result = static_cast<CUptiResult>(result);
}
void fake_cupti_move_clock(std::int64_t ns) {
  state().clock_offset += ns;
}
void fake_cupti_set_dropped(std::size_t count) {
  state().dropped = count;
}
void fake_cupti_set_stream(std::uint64_t handle, std::uint32_t number) {
  state().streams[handle] = number;
}
int fake_cupti_enabled_kinds() {
  return static_cast<int>(state().kinds.size());
}

void fake_cupti_add_kernel(const char* name, std::uint32_t device, std::uint32_t stream,
                           std::int64_t start, std::int64_t end, std::uint32_t correlation) {
  CUpti_ActivityKernel10 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.name = name == nullptr ? nullptr : state().names.insert(name).first->c_str();
  record.deviceId = device;
  record.streamId = stream;
  record.start = on_their_clock(start);
  record.end = on_their_clock(end);
  record.correlationId = correlation;
  add(record);
}

void fake_cupti_add_copy(int kind, std::uint64_t bytes, std::int64_t start, std::int64_t end) {
  CUpti_ActivityMemcpy6 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = static_cast<std::uint8_t>(kind);
  record.bytes = bytes;
  record.streamId = 7;
  record.start = on_their_clock(start);
  record.end = on_their_clock(end);
  add(record);
}

void fake_cupti_add_peer_copy(std::uint64_t bytes, std::int64_t start, std::int64_t end) {
  CUpti_ActivityMemcpyPtoP4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.bytes = bytes;
  record.streamId = 7;
  record.start = on_their_clock(start);
  record.end = on_their_clock(end);
  add(record);
}

void fake_cupti_add_memset(std::uint64_t bytes, std::int64_t start, std::int64_t end) {
  CUpti_ActivityMemset4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.bytes = bytes;
  record.streamId = 7;
  record.start = on_their_clock(start);
  record.end = on_their_clock(end);
  add(record);
}

void fake_cupti_add_unknown() {
  CUpti_ActivityOverhead3 record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  add(record);
}

CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) {
  *timestamp = on_their_clock(now());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (result == CUPTI_ERROR_UNKNOWN) return CUPTI_ERROR_INVALID_PARAMETER;
  *text =
      result == CUPTI_ERROR_NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED" : "CUPTI_ERROR_SOME";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc, void*) {
  if (state().is_taken || state().subscribers != 0)
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  state().subscribers = 1;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&state());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  state().subscribers = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  state().request = request;
  state().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (state().enable_result != CUPTI_SUCCESS && state().kinds.size() == 2)
    return state().enable_result;
  state().kinds.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  state().kinds.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  State& s = state();
  if (s.request == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, used = 0, most = 0;
  for (const auto& record : s.records) {
    if (buffer != nullptr && used + record.size() > size) {
      s.complete(nullptr, 0, buffer, size, used);
      buffer = nullptr;
    }
    if (buffer == nullptr) {
      s.request(&buffer, &size, &most);
      used = 0;
      if (buffer == nullptr) return CUPTI_ERROR_OUT_OF_MEMORY;
    }
    std::memcpy(buffer + used, record.data(), record.size());
    used += record.size();
  }
  s.records.clear();
  if (buffer != nullptr) s.complete(nullptr, 0, buffer, size, used);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                       CUpti_Activity** record) {
  std::size_t at = 0;
  if (*record != nullptr) {
    at = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(*record) - buffer) +
         size_of((*record)->kind);
  }
  if (at >= valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer + at);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = state().dropped;
  state().dropped = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, std::uint8_t, std::uint32_t* number) {
  const auto found = state().streams.find(reinterpret_cast<std::uint64_t>(stream));
  if (found == state().streams.end()) return CUPTI_ERROR_INVALID_STREAM;
  *number = found->second;
  return CUPTI_SUCCESS;
}

}  // extern "C"
