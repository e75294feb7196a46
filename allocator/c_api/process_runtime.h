// The runtime of one process: which devices have come to life, who records, what a fork means.
//
// Owns: the devices, their allocators and the recording, all leaked on purpose, since blocks
// outlive every static object. Promises: as in include/levee/runtime.h. A child that was forked
// before any device had come to life starts afresh, with a recording of its own; one that was
// forked later is refused everything and writes nothing. The parts it is put together from are
// given to it, so that tests run it over a simulated device. Locks: one mutex for making things;
// reading what exists is lock-free. It is held across fork, so that a child never inherits it
// locked.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <levee/runtime.h>

#include "allocator/base/mutex.h"
#include "allocator/device/device.h"
#include "allocator/record/recorder.h"

namespace levee::c_api {

/// A recorder and the file behind it.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual ~Recording() = default;

  virtual record::Recorder& recorder() = 0;
  virtual std::string path() const = 0;  ///< empty while there is no file
  virtual Status flush() = 0;
  virtual Status start_kernels(std::string* why) = 0;
  virtual void stop_kernels() = 0;
};

class ProcessRuntime final : public Runtime {
 public:
  struct Parts {
    std::function<int()> device_count;
    std::function<Result<std::unique_ptr<device::Device>>(DeviceId)> open_device;
    std::function<Result<std::unique_ptr<Allocator>>(device::Device&, const Config&,
                                                     record::Recorder*)>
        make_allocator;
    std::function<std::unique_ptr<Recording>(const Config&)> open_recording;
    std::function<Status(device::Device& owner, DeviceId peer)> allow_peer;
  };
  static constexpr int kMaxDevices = 64;  // four times what any machine holds

  ProcessRuntime(const Config& config, Parts parts);

  const Config& config() const override { return config_; }
  int device_count() const override { return parts_.device_count(); }
  Result<Allocator*> allocator(DeviceId device) override;
  Allocator* owner_of(DeviceAddr addr) const override;
  Allocator* existing_allocator(DeviceId device) const override;
  Status set_memory_fraction(DeviceId device, double fraction) override;
  Status allow_peer(DeviceId owner, DeviceId peer) override;
  void set_hooks(AllocatorHooks hooks) override;
  bool is_forked_child() const override { return is_forked_.load(std::memory_order_relaxed); }
  std::string explain(const OomReport& report, DeviceId device) const override;

  bool is_recording() const override;
  void push_phase(std::string_view name) override;
  void pop_phase() override;
  void mark_step() override { mark(0); }
  void end_step() override { mark(1); }
  ContextId intern_stack(std::string_view frames) override;
  std::string trace_path() const override;
  Status flush() override;
  Status start_kernels(std::string* why) override;
  void stop_kernels() override;

  // Around fork, in this order: before it in the parent, after it in either.
  void before_fork() LEVEE_ACQUIRE(mutex_) { mutex_.lock(); }
  void after_fork_in_parent() LEVEE_RELEASE(mutex_) { mutex_.unlock(); }
  void after_fork_in_child() LEVEE_RELEASE(mutex_);

 private:
  void mark(std::uint64_t is_end);
  bool exists(DeviceId device) const;
  Result<Allocator*> make_allocator_slow(DeviceId device);
  /// The recording, made at its first use; null if there is none.
  Recording* recording();
  Recording* existing_recording() const { return recording_.load(std::memory_order_acquire); }

  const Config config_;
  const Parts parts_;
  std::array<std::atomic<Allocator*>, kMaxDevices> allocators_{};
  std::array<std::atomic<device::Device*>, kMaxDevices> devices_{};
  std::atomic<int> allocators_end_{0};  ///< one past the highest device that has come to life
  std::atomic<Recording*> recording_{nullptr};
  std::atomic<bool> is_forked_{false};
  std::atomic<std::uint64_t> steps_{0};

  base::Mutex mutex_;
  AllocatorHooks hooks_ LEVEE_GUARDED_BY(mutex_);
  bool recording_failed_ LEVEE_GUARDED_BY(mutex_) = false;
  std::map<std::int32_t, double> fractions_ LEVEE_GUARDED_BY(mutex_);  ///< those that were set
};

}  // namespace levee::c_api
