#include "tools/simgpu/cupti/client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tools/simgpu/core/process.h"
#include "tools/simgpu/cupti/records.h"

namespace levee::simgpu::cupti {
namespace {

using activity::Record;
using activity::RecordType;

std::uint32_t wanted_by(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return activity::kRuntimeCalls;
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return activity::kDriverCalls;
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return activity::kKernels;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return activity::kCopies;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return activity::kFills;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return activity::kExternalIds;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return activity::kSynchronisation;
    default:
      return 0;
  }
}

void tell_client(const activity::CallSite& site) {
  client().on_call(site);
}
void flush_client() {
  client().flush();
}

CUpti_SubscriberHandle to_handle(std::uint64_t number) {
  return reinterpret_cast<CUpti_SubscriberHandle>(number);
}

}  // namespace

Client& client() {
  static auto* value = new Client;  // records may arrive while the process ends
  return *value;
}

void Client::apply_locked() {
  const bool wants_callbacks =
      callback_ != nullptr && (runtime_callbacks_.any() || driver_callbacks_.any());
  activity::set_listener(
      {wants_callbacks ? &tell_client : nullptr, complete_ != nullptr ? &flush_client : nullptr});
  if (wants_callbacks) {
    activity::flags.fetch_or(activity::kCallbacks);
  } else {
    activity::flags.fetch_and(~std::uint32_t{activity::kCallbacks});
  }
}

void Client::set_buffers(CUpti_BuffersCallbackRequestFunc request,
                         CUpti_BuffersCallbackCompleteFunc complete) {
  base::MutexLock lock(mutex_);
  request_ = request;
  complete_ = complete;
  apply_locked();
}

CUptiResult Client::enable(CUpti_ActivityKind kind, bool on) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT)
    return CUPTI_ERROR_INVALID_KIND;
  std::uint32_t wanted = 0;
  bool opens_window = false;
  {
    base::MutexLock lock(mutex_);
    opens_window = on && wanted_ == 0;
    enabled_.set(static_cast<std::size_t>(kind), on);
    for (int each = 1; each < CUPTI_ACTIVITY_KIND_COUNT; ++each) {
      if (enabled_.test(static_cast<std::size_t>(each)))
        wanted |= wanted_by(static_cast<CUpti_ActivityKind>(each));
    }
    if (wanted == wanted_) return CUPTI_SUCCESS;
    wanted_ = wanted;
  }
  // A profiler with a clock of the host sees what ends after its window as an error, and drops it.
  // So the simulation does not run ahead while such a one watches: waits really take their time.
  if (Process* process = Process::get()) {
    process->model().set_paced(wanted != 0 && !times_.is_identity());
  }
  if (opens_window) times_.anchor();
  hold_buffer();
  activity::want(wanted);
  return CUPTI_SUCCESS;
}

void Client::enable_call(bool is_driver, CUpti_CallbackId cbid, bool on) {
  base::MutexLock lock(mutex_);
  if (cbid < kFunctions) (is_driver ? hidden_driver_ : hidden_runtime_).set(cbid, !on);
}

bool Client::is_hidden_locked(const Record& record) {
  const CUpti_ActivityKind kind = kind_of(record);
  if (kind == CUPTI_ACTIVITY_KIND_INVALID) return true;
  if (record.type == RecordType::kCall && record.cbid < kFunctions) {
    return (record.is_driver ? hidden_driver_ : hidden_runtime_).test(record.cbid);
  }
  // What was recorded was wanted then, even if its kind is disabled by now: profilers disable first
  // and flush afterwards.
  return false;
}

CUptiResult Client::flush() {
  base::MutexLock order(flush_mutex_);
  times_.refresh();
  std::vector<Record> records;
  activity::take(&records);
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  Buffer buffer;
  {
    base::MutexLock lock(mutex_);
    request = request_;
    complete = complete_;
    buffer = std::exchange(held_, Buffer{});
    std::erase_if(records, [this](const Record& record) LEVEE_NO_THREAD_SAFETY_ANALYSIS {
      return is_hidden_locked(record);
    });
  }
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  // A profiler looks work up by the call that made it, and the call by its external ids.
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    const auto rank = [](RecordType type) {
      return type == RecordType::kExternalId ? 0 : (type == RecordType::kWork ? 2 : 1);
    };
    return rank(a.type) < rank(b.type);
  });
  deliver(records, buffer, request, complete);
  hold_buffer();
  return CUPTI_SUCCESS;
}

Client::Buffer Client::ask_for_buffer(CUpti_BuffersCallbackRequestFunc request) {
  Buffer buffer;
  std::size_t most_records = 0;  // 0: as many as fit
  request(&buffer.at, &buffer.room, &most_records);
  return buffer;
}

void Client::hold_buffer() {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  {
    base::MutexLock lock(mutex_);
    if (wanted_ == 0 || held_.at != nullptr || request_ == nullptr) return;
    request = request_;
  }
  const Buffer buffer = ask_for_buffer(request);
  base::MutexLock lock(mutex_);
  if (held_.at == nullptr)
    held_ = buffer;  // two threads that enable at once: the client keeps the other buffer
}

void Client::deliver(const std::vector<Record>& records, Buffer buffer,
                     CUpti_BuffersCallbackRequestFunc request,
                     CUpti_BuffersCallbackCompleteFunc complete) {
  for (const Record& record : records) {
    const std::size_t bytes = size_of(kind_of(record));
    if (buffer.at != nullptr && buffer.used + bytes > buffer.room) {
      complete(nullptr, 0, buffer.at, buffer.room, buffer.used);
      buffer = Buffer{};
    }
    if (buffer.at == nullptr) {
      buffer = ask_for_buffer(request);
      if (buffer.at == nullptr || buffer.room < bytes)
        return;  // the client has no memory: the rest is lost, as with CUPTI
    }
    write(record, &times_, buffer.at + buffer.used);
    buffer.used += bytes;
  }
  if (buffer.at != nullptr) complete(nullptr, 0, buffer.at, buffer.room, buffer.used);
}

void Client::set_flush_period(std::uint32_t milliseconds) {
  flush_period_ms_.store(milliseconds);
  base::MutexLock lock(mutex_);
  if (milliseconds == 0 || has_flush_thread_) return;
  has_flush_thread_ = true;
  std::thread([this] {
    for (;;) {
      const std::uint32_t period = flush_period_ms_.load();
      std::this_thread::sleep_for(std::chrono::milliseconds(period == 0 ? 100 : period));
      if (period != 0 && activity::pending() > 0) flush();
    }
  }).detach();
}

CUptiResult Client::subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc function,
                              void* user) {
  if (handle == nullptr || function == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  base::MutexLock lock(mutex_);
  if (callback_ != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  callback_ = function;
  callback_user_ = user;
  *handle = to_handle(++subscription_);
  return CUPTI_SUCCESS;
}

CUptiResult Client::unsubscribe(CUpti_SubscriberHandle handle) {
  base::MutexLock lock(mutex_);
  if (callback_ == nullptr || handle != to_handle(subscription_))
    return CUPTI_ERROR_INVALID_PARAMETER;
  callback_ = nullptr;
  runtime_callbacks_.reset();
  driver_callbacks_.reset();
  apply_locked();
  return CUPTI_SUCCESS;
}

CUptiResult Client::enable_callback(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
                                    CUpti_CallbackId cbid, bool on) {
  base::MutexLock lock(mutex_);
  if (callback_ == nullptr || handle != to_handle(subscription_))
    return CUPTI_ERROR_INVALID_PARAMETER;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && cbid < kFunctions) runtime_callbacks_.set(cbid, on);
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid < kFunctions) driver_callbacks_.set(cbid, on);
  // Resources, synchronisation and NVTX: accepted, never called, as on a machine where nothing of
  // the kind happens.
  apply_locked();
  return CUPTI_SUCCESS;
}

CUptiResult Client::enable_domain(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
                                  bool on) {
  base::MutexLock lock(mutex_);
  if (callback_ == nullptr || handle != to_handle(subscription_))
    return CUPTI_ERROR_INVALID_PARAMETER;
  Functions all;
  if (on) all.set();
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) runtime_callbacks_ = all;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) driver_callbacks_ = all;
  apply_locked();
  return CUPTI_SUCCESS;
}

void Client::on_call(const activity::CallSite& site) {
  CUpti_CallbackFunc function = nullptr;
  void* user = nullptr;
  {
    base::MutexLock lock(mutex_);
    const Functions& wanted = site.is_driver ? driver_callbacks_ : runtime_callbacks_;
    if (callback_ == nullptr || site.cbid >= kFunctions || !wanted.test(site.cbid)) return;
    function = callback_;
    user = callback_user_;
  }
  thread_local std::uint64_t correlation_data = 0;
  std::int32_t result = site.result;
  CUpti_CallbackData data{};
  data.callbackSite = site.is_exit ? CUPTI_API_EXIT : CUPTI_API_ENTER;
  data.functionName = site.name;
  data.functionReturnValue = site.is_exit ? &result : nullptr;
  data.contextUid = static_cast<std::uint32_t>(this_thread().device) + 1;
  data.correlationData = &correlation_data;
  data.correlationId = site.correlation;
  function(user, site.is_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API,
           site.cbid, &data);
}

void Client::reset() {
  {
    base::MutexLock lock(mutex_);
    enabled_.reset();
    wanted_ = 0;
    callback_ = nullptr;
    runtime_callbacks_.reset();
    driver_callbacks_.reset();
    apply_locked();
  }
  if (Process* process = Process::running()) process->model().set_paced(false);
  activity::want(0);
  std::vector<Record> dropped;
  activity::take(&dropped);
}

}  // namespace levee::simgpu::cupti
