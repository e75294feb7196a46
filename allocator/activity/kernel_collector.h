// Kernels, copies and memsets of this process, from CUPTI into the recorder's file, on levee's
// clock.
//
// Owns the CUPTI callbacks and their buffers while it is on, and one thread that asks CUPTI for
// what is finished. One collector per process, since CUPTI's callbacks have no owner. Promises:
// nothing of CUPTI is linked; the library is found at run time. It never disturbs another client of
// CUPTI (torch.profiler, Nsight): where one is active it does not start, and one that starts later
// gets CUPTI to itself; ours then ends with a note in the record. Times are within a microsecond of
// levee's clock, beside what CUPTI itself is off. In a forked child it does nothing. Does not:
// start threads or load anything before `start`. Thread safety: all methods from any thread. Costs:
// about 0.1 us a kernel on CUPTI's own thread; on launching threads what CUPTI takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <levee/units.h>

#include "allocator/record/trace_recorder.h"

namespace levee::activity {

class KernelCollector {
 public:
  struct Options {
    std::string cupti_library;  ///< this libcupti and no other; empty = find one
    /// Where to look for libcupti if it is neither loaded nor on the loader's path.
    std::vector<std::string> folders = {"/usr/local/cuda/extras/CUPTI/lib64",
                                        "/usr/local/cuda/lib64"};
    Nanos flush_interval = 500_ms;
  };

  /// Turns collection on, best before the first kernel. Null, and one sentence in `why`, if that
  /// cannot be. `recorder` must outlive the process's use of CUDA.
  static std::unique_ptr<KernelCollector> start(record::TraceRecorder& recorder, Options options,
                                                std::string* why);
  /// Stops.
  virtual ~KernelCollector() = default;

  /// Whatever has finished on the device is with the recorder when it returns.
  virtual void flush() = 0;
  /// Turns collection off, after a flush. A second call does nothing.
  virtual void stop() = 0;
  /// Whether kernels are being collected; false after `stop` and after another client has taken
  /// CUPTI.
  virtual bool is_on() const = 0;

  struct Totals {
    std::uint64_t kernels = 0;
    std::uint64_t copies = 0;
    std::uint64_t memsets = 0;
    std::uint64_t dropped = 0;  ///< CUPTI had no room for them, or gave no times
  };
  virtual Totals totals() const = 0;
  virtual std::string library() const = 0;  ///< path of libcupti

 protected:
  KernelCollector() = default;
};

}  // namespace levee::activity
