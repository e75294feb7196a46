// levee in one process: configuration, one allocator per device, the recorder. What the doors of
// the torch plugin stand on.
//
// Owns the allocators, the devices behind them, the recorder and the CUPTI collector. Promises:
// `start` makes no CUDA call that creates a context; a device's allocator comes to life with its
// first request; after `fork` a child may call anything here and gets kUnsupported, nothing is
// written and no driver is called. Never destroyed at exit: blocks may outlive every static object;
// `flush` runs at exit instead. Thread safety: all methods from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <levee/allocator.h>
#include <levee/config.h>
#include <levee/ids.h>
#include <levee/status.h>

namespace levee {

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  /// Settings from LEVEE_* environment variables over the defaults. `problems` gets one sentence
  /// for each value that cannot be used (it is then ignored).
  static Config config_from_environment(std::string* problems);
  /// Starts levee in this process. A second call returns the running one and ignores `config`.
  static Result<Runtime*> start(const Config& config);
  static Runtime* get();  ///< null before `start`

  virtual const Config& config() const = 0;
  virtual int device_count() const = 0;
  /// The allocator of a device, made at first use. kInvalidArgument for a device that does not
  /// exist.
  virtual Result<Allocator*> allocator(DeviceId device) = 0;
  /// The allocator that holds `addr`, or null. Lock-free.
  virtual Allocator* owner_of(DeviceAddr addr) const = 0;
  /// The allocator of a device if it has come to life, else null. Lock-free, for hot paths.
  virtual Allocator* existing_allocator(DeviceId device) const = 0;
  /// Share of the device's memory that this process may reserve from now on, above 0 and up to 1.
  virtual Status set_memory_fraction(DeviceId device, double fraction) = 0;
  /// Work on device `peer` may use the memory of `owner` directly from now on, whatever backs it.
  virtual Status allow_peer(DeviceId owner, DeviceId peer) = 0;
  /// Hooks of every allocator that comes to life from now on.
  virtual void set_hooks(AllocatorHooks hooks) = 0;
  /// Whether this process was forked from one that had started a device: everything is refused
  /// here.
  virtual bool is_forked_child() const = 0;
  /// An out-of-memory report in words that start with PyTorch's own sentence.
  virtual std::string explain(const OomReport& report, DeviceId device) const = 0;

  // Recording. Cheap no-ops while recording is off.
  virtual bool is_recording() const = 0;
  virtual void push_phase(std::string_view name) = 0;
  virtual void pop_phase() = 0;
  virtual void mark_step() = 0;  ///< tells every allocator and the record that a step begins
  virtual void
  end_step() = 0;  ///< the same where one ends: what came before the first is a step too
  /// `frames`: one line per frame, innermost first, "file:line function".
  virtual ContextId intern_stack(std::string_view frames) = 0;
  virtual std::string trace_path() const = 0;  ///< empty while nothing is recorded
  virtual Status flush() = 0;  ///< everything emitted so far is in the file when it returns
  /// Turns kernel, memcpy and memset activity on. kUnsupported with a sentence in `why` if CUPTI is
  /// absent or taken.
  virtual Status start_kernels(std::string* why) = 0;
  virtual void stop_kernels() = 0;
};

}  // namespace levee
