#include "tools/simgpu/core/call.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "tools/simgpu/core/report.h"

namespace levee::simgpu {
namespace {

std::atomic<ApiFunction*> called{nullptr};

Nanos now() {
  Process* process = Process::running();
  return process != nullptr ? process->model().now() : Nanos{};
}

}  // namespace

void Call::enlist(ApiFunction& api) {
  api.next = called.load(std::memory_order_relaxed);
  while (!called.compare_exchange_weak(api.next, &api, std::memory_order_release)) {
  }
}

void Call::begin_slow() {
  const std::uint32_t wanted = activity::flags.load(std::memory_order_relaxed);
  is_traced_ = true;
  start_ = now();
  ThreadState& thread = this_thread();
  outer_correlation_ = thread.correlation;
  thread.correlation = activity::next_correlation();
  if ((wanted & activity::kCallbacks) != 0) {
    activity::tell_call({api_.domain == ApiDomain::kDriver, api_.cbid, api_.name, false,
                         static_cast<std::uint32_t>(thread.correlation), 0});
  }
}

void Call::end_slow() {
  const std::uint32_t wanted = activity::flags.load(std::memory_order_relaxed);
  ThreadState& thread = this_thread();
  const auto correlation = static_cast<std::uint32_t>(thread.correlation);
  const bool is_driver = api_.domain == ApiDomain::kDriver;
  const Nanos end = now();
  // A call that started the GPU has no start of its own.
  const Nanos start = start_.value == 0 ? end : start_;
  if ((wanted & (is_driver ? activity::kDriverCalls : activity::kRuntimeCalls)) != 0) {
    if ((wanted & activity::kExternalIds) != 0) activity::add_external_ids(correlation);
    activity::Record record;
    record.type = activity::RecordType::kCall;
    record.start = start;
    record.end = end;
    record.correlation = correlation;
    record.is_driver = is_driver;
    record.cbid = api_.cbid;
    record.thread = static_cast<std::uint32_t>(pthread_self());
    record.result = result_;
    activity::add(record);
  }
  if ((wanted & activity::kCallbacks) != 0) {
    activity::tell_call({is_driver, api_.cbid, api_.name, true, correlation, result_});
  }
  if ((wanted & activity::kTrace) != 0) trace_call(api_.name, argument_, result_, start, end);
  thread.correlation = outer_correlation_;
  if ((wanted & activity::kAnyRecord) != 0) activity::tell_if_many_pending();
}

std::vector<std::pair<const char*, std::uint64_t>> call_counts() {
  std::vector<std::pair<const char*, std::uint64_t>> out;
  for (ApiFunction* api = called.load(std::memory_order_acquire); api != nullptr; api = api->next) {
    out.emplace_back(api->name, api->calls.load(std::memory_order_relaxed));
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return std::strcmp(a.first, b.first) < 0; });
  // A function may have more than one counter (launches by the program and by libraries).
  std::size_t last = 0;
  for (std::size_t i = 1; i < out.size(); ++i) {
    if (std::strcmp(out[last].first, out[i].first) == 0) {
      out[last].second += out[i].second;
    } else {
      out[++last] = out[i];
    }
  }
  if (!out.empty()) out.resize(last + 1);
  return out;
}

std::uint64_t call_count(const char* name) {
  std::uint64_t sum = 0;
  for (ApiFunction* api = called.load(std::memory_order_acquire); api != nullptr; api = api->next) {
    if (std::strcmp(api->name, name) == 0) sum += api->calls.load(std::memory_order_relaxed);
  }
  return sum;
}

const char* call_name(ApiDomain domain, std::uint32_t cbid) {
  for (ApiFunction* api = called.load(std::memory_order_acquire); api != nullptr; api = api->next) {
    if (api->domain == domain && api->cbid == cbid) return api->name;
  }
  return nullptr;
}

}  // namespace levee::simgpu
