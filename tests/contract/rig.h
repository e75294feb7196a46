// What the contract needs besides `Device`: streams, work that takes time, captures. One rig for
// each kind of device.
//
// A *held* stream has work on it that is not done until `let_go` or until somebody waits for it. On
// hardware the wait needs the let_go first; tests therefore call it before they synchronise.
#pragma once

#include <memory>
#include <string>

#include <levee/ids.h>
#include <levee/status.h>

#include "allocator/device/device.h"

namespace levee::contract {

class Rig {
 public:
  Rig() = default;
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  virtual ~Rig() = default;

  virtual device::Device& device() = 0;
  virtual StreamId
  new_stream() = 0;  ///< not ordered with the legacy stream; destroyed with the rig
  virtual void hold(StreamId stream) = 0;
  virtual void let_go() = 0;  ///< everything held may finish
  /// Enqueues a small write to the first bytes of `addr`, as a program would.
  virtual bool write(StreamId stream, DeviceAddr addr) = 0;
  virtual bool begin_capture(StreamId stream) = 0;  ///< in global mode, the strictest
  virtual bool end_capture(StreamId stream) = 0;    ///< false if the capture gave no graph
  /// CUDA's "last error" of this thread, which is cleared; 0 if there is none, or no such thing.
  virtual int last_error() = 0;
  virtual int current_device() = 0;  ///< of this thread; -1 where there is no such thing
  virtual bool is_real()
      const = 0;  ///< other processes may use the device, and clocks are not ours
};

std::unique_ptr<Rig> make_sim_rig();
/// Null, and the reason, if this process has no CUDA device (real or stand-in).
std::unique_ptr<Rig> make_cuda_rig(std::string* why_not);

}  // namespace levee::contract
