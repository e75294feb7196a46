// The profiler that uses CUPTI in this process: what it asked for and where its records go.
//
// Owns the client's callbacks, the kinds and functions that it enabled, its subscription. Promises:
// records are delivered in the client's own buffers, only from `flush` (asked for by the client, by
// a period that it set, or when many records wait), with no lock held; records that explain others
// (external ids, calls) come before the work they explain. While anything is enabled one buffer of
// the client is held: PyTorch's profiler asks for a flush only if it was asked for a buffer before.
// One subscriber at a time, as CUPTI allows.
#pragma once

#include <cupti.h>

#include <atomic>
#include <bitset>
#include <cstdint>
#include <thread>
#include <vector>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/cupti/time_map.h"

namespace levee::simgpu::cupti {

class Client {
 public:
  void set_buffers(CUpti_BuffersCallbackRequestFunc request,
                   CUpti_BuffersCallbackCompleteFunc complete);
  CUptiResult enable(CUpti_ActivityKind kind, bool on);
  void enable_call(bool is_driver, CUpti_CallbackId cbid, bool on);
  /// Delivers what is complete. CUPTI_ERROR_NOT_INITIALIZED without buffers.
  CUptiResult flush();
  void set_flush_period(std::uint32_t milliseconds);
  TimeMap& times() { return times_; }

  CUptiResult subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc function, void* user);
  CUptiResult unsubscribe(CUpti_SubscriberHandle handle);
  CUptiResult enable_callback(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
                              CUpti_CallbackId cbid, bool on);
  CUptiResult enable_domain(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, bool on);
  void on_call(const activity::CallSite& site);
  /// Turns everything off, delivering nothing.
  void reset();

 private:
  static constexpr std::size_t kFunctions = 2048;  // more than either API has
  using Functions = std::bitset<kFunctions>;

  void apply_locked() LEVEE_REQUIRES(mutex_);
  bool is_hidden_locked(const activity::Record& record) LEVEE_REQUIRES(mutex_);
  struct Buffer {
    std::uint8_t* at = nullptr;
    std::size_t room = 0;
    std::size_t used = 0;
  };
  static Buffer ask_for_buffer(CUpti_BuffersCallbackRequestFunc request);
  /// Takes a buffer in advance, unless one is held or nothing is enabled.
  void hold_buffer();
  void deliver(const std::vector<activity::Record>& records, Buffer buffer,
               CUpti_BuffersCallbackRequestFunc request,
               CUpti_BuffersCallbackCompleteFunc complete);

  base::Mutex mutex_;
  base::Mutex flush_mutex_;  // one flush at a time, so that records keep their order
  CUpti_BuffersCallbackRequestFunc request_ LEVEE_GUARDED_BY(mutex_) = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ LEVEE_GUARDED_BY(mutex_) = nullptr;
  std::uint32_t wanted_ LEVEE_GUARDED_BY(mutex_) = 0;
  std::bitset<CUPTI_ACTIVITY_KIND_COUNT> enabled_ LEVEE_GUARDED_BY(mutex_);
  Functions hidden_runtime_ LEVEE_GUARDED_BY(mutex_);
  Functions hidden_driver_ LEVEE_GUARDED_BY(mutex_);
  Buffer held_ LEVEE_GUARDED_BY(mutex_);
  TimeMap times_;

  CUpti_CallbackFunc callback_ LEVEE_GUARDED_BY(mutex_) = nullptr;
  void* callback_user_ LEVEE_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t subscription_ LEVEE_GUARDED_BY(mutex_) = 0;  // number of the handle that is valid
  Functions runtime_callbacks_ LEVEE_GUARDED_BY(mutex_);
  Functions driver_callbacks_ LEVEE_GUARDED_BY(mutex_);

  std::atomic<std::uint32_t> flush_period_ms_{0};
  bool has_flush_thread_ LEVEE_GUARDED_BY(mutex_) = false;
};

Client& client();

}  // namespace levee::simgpu::cupti
