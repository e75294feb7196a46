// Inside of GpuModel: everything it keeps, and the frame of a call. Included by the gpu_model*.cc
// files and nobody else.
//
// One mutex guards all of it (`Call` holds it). The parts know nothing of each other; the rules
// that join them are here: an edge of order is always drawn twice, in `order` (what is known) and
// on the streams' `tail` (when it ends).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "allocator/base/attributes.h"
#include "allocator/base/fixed_buffer.h"
#include "allocator/base/mutex.h"
#include "allocator/device/sim/activity_queue.h"
#include "allocator/device/sim/async_pool.h"
#include "allocator/device/sim/device_memory.h"
#include "allocator/device/sim/fault_counter.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/graph.h"
#include "allocator/device/sim/hazard_log.h"
#include "allocator/device/sim/id_table.h"
#include "allocator/device/sim/judge_rule.h"
#include "allocator/device/sim/order.h"
#include "allocator/device/sim/use_map.h"
#include "allocator/device/sim/virtual_clock.h"

namespace levee::device::sim {

struct Capture;

struct Stream {
  StreamId id;
  DeviceId device;
  StreamOptions options;
  std::uint32_t number = 0;
  bool is_legacy = false;
  bool is_per_thread = false;
  Order::Index index = 0;
  Nanos tail{};                    ///< end of everything enqueued
  std::uint64_t ops = 0;           ///< pieces of work enqueued
  std::uint64_t overlap_from = 0;  ///< first work that the newest one may overlap; 0 = none
  std::uint64_t seen_peer_ops =
      0;  ///< of the legacy stream, or of the blocking streams, when last ordered after them
  Capture* capture = nullptr;  ///< the stream captures
  Order::Index capture_index = 0;
  std::vector<std::uint32_t> capture_dependencies;  ///< of the next node
};

struct EventObject {
  EventId id;
  DeviceId device;
  EventOptions options;
  enum class State : std::uint8_t { kNone, kRecorded, kCaptured } state = State::kNone;
  Nanos complete_at{};
  Order::Point point;                       ///< in `order`, or in the capture's own
  std::uint64_t capture = 0;                ///< number of the capture it was recorded in
  std::vector<std::uint32_t> dependencies;  ///< nodes that the record came after
};

struct Capture {
  std::uint64_t number = 0;
  CaptureMode mode = CaptureMode::kGlobal;
  std::uint64_t thread = 0;
  Stream* origin = nullptr;
  Graph* graph = nullptr;
  GraphId graph_id;
  bool is_invalid = false;
  std::vector<Stream*> streams;
  Order order;  ///< inside the capture: captured work does not run, so it orders nothing outside
};

/// Numbers the calling thread, from 1.
std::uint64_t this_thread_number();
int& pool_locks_of_this_thread();
CaptureMode& capture_mode_of_this_thread();

struct DeviceState {
  DeviceConfig config;
  std::array<std::uint64_t, kCallKinds> calls{};
  Native lost = Native::kSuccess;  ///< a sticky error
  bool has_context = false;
  Stream* legacy = nullptr;
  std::vector<Stream*> streams;   ///< alive, the legacy and per-thread ones included
  std::vector<Stream*> blocking;  ///< of these: ordered with the legacy stream
  std::uint64_t events = 0;       ///< alive
  std::uint64_t blocking_ops = 0;
  std::uint64_t legacy_ops = 0;
  std::vector<Order::Point>
      retired;            ///< of streams destroyed since the last synchronisation of the device
  Nanos blocking_tail{};  ///< end of all work that blocking streams were ever given
  Nanos finite_tail{};    ///< end of all work that ends
  Nanos retired_tail{};
  std::unordered_map<std::uint64_t, Stream*> per_thread;  ///< by thread number
  AsyncPool async_pool;
};

struct GpuModel::State {
  explicit State(ModelConfig config);

  mutable base::Mutex mutex;
  ModelConfig config;
  VirtualClock clock;
  std::vector<DeviceState> devices;
  DeviceMemory memory;
  Order order;
  IdTable<Stream> streams{1};
  IdTable<EventObject> events{2};
  IdTable<Graph> graphs{4};
  IdTable<ExecGraph> execs{5};
  std::vector<std::unique_ptr<Capture>> captures;  ///< in progress
  std::uint64_t next_capture = 1;
  std::uint32_t next_stream_number = 7;
  std::vector<Stream*> by_index;  ///< streams by their index in `order`; null once destroyed
  FaultCounter faults;
  ActivityQueue activity;
  HazardLog hazards;
  UseMap uses;
  std::uint64_t sequence = 0;  ///< calls so far
  bool is_shut_down = false;
  std::function<void(std::uint64_t)> memory_gone;

  /// Whose memory is at the address; the first device if nobody's.
  DeviceId device_of(DeviceAddr addr) const {
    const AddressInfo info = memory.find(addr);
    return info.kind == MemoryKind::kNone ? DeviceId{0} : info.device;
  }
  DeviceId device_of(HandleId handle) const {
    const Physical* physical = memory.find_handle(handle);
    return physical == nullptr ? DeviceId{0} : physical->device;
  }

  bool is_judging() const { return hazards.mode() != JudgeMode::kOff; }
  bool has_device(DeviceId device) const { return memory.has_device(device); }
  DeviceState& on(DeviceId device) { return devices[static_cast<std::size_t>(device.value)]; }

  // ---- Streams and time (gpu_model_streams.cc)
  Stream& add_stream(DeviceId device, StreamOptions options);
  Stream* resolve(DeviceId device, StreamId stream);  ///< null if it is none
  Stream& per_thread_stream(DeviceId device);
  /// Work enqueued on the stream from now on is ordered after the other side of the legacy stream's
  /// implicit order.
  void order_with_legacy(Stream& stream);
  /// The same, and in time: before something is enqueued.
  void queue_behind_legacy(Stream& stream);
  Nanos tail_behind_legacy(const Stream& stream);  ///< that time alone
  void set_tail(Stream& stream, Nanos tail);
  Nanos run_work(Stream& stream, const Work& work, Nanos start, std::uint64_t graph = 0,
                 std::uint64_t node = 0);
  void note_touches(Stream& stream, const Work& work);
  Native wait_until(
      Nanos time);  ///< the host waits; kTimeout, and nothing done, if that would never end
  void learn_device(DeviceId device);
  Native synchronize_device_locked(DeviceId device);
  void give_back_async(DeviceId device);

  // ---- Capture (gpu_model_capture.cc)
  Capture* find_capture(std::uint64_t number) const;
  Native check_capture(CallKind kind);  ///< may this thread make this call now? Breaks the captures
                                        ///< it may not disturb
  bool is_device_capturing(DeviceId device) const;
  bool is_blocking_stream_capturing(DeviceId device) const;
  Native break_capture(Capture& capture, Native answer);
  void break_captures_of(DeviceId device, bool blocking_streams_only);
  Native join_capture(Stream& stream, const EventObject& event);
  std::uint32_t capture_node(Stream& stream, GraphNode node);
  void end_capture(Capture& capture);

  // ---- The judge (gpu_model_judge.cc)
  struct UseAt {
    Stream* stream = nullptr;
    UseKind kind = UseKind::kWrite;
    bool is_launch = false;
    bool check_access = true;
    std::uint64_t op = 0;
    std::uint64_t overlap_from = 0;
  };
  void note_use(DeviceAddr addr, Bytes bytes, const UseAt& use);
  /// False, and a finding, if a use through the mapping may still run.
  bool check_done(const Mapping& mapping, DeviceAddr addr, Bytes bytes, const char* what);
  void forget_uses(Mapping& mapping, DeviceAddr addr, Bytes bytes);
  void forget_all_uses();
  void report_leaks();
  StreamId name_of_stream(const Use& use) const;

  /// Starts a finding with what every one has; the caller adds the text and files it.
  Hazard new_hazard(JudgeRule rule) const;
  void file(Hazard hazard, const base::TextWriter& text);
};

/// What a call is about, for the list of recent calls.
struct CallArguments {
  DeviceAddr addr;
  Bytes bytes;
  std::uint64_t object = 0;  ///< stream, event, handle or graph
};

/// The frame of one call: takes the model's mutex; counts, times and logs the call; refuses it
/// where a fault, the end of the model, a lost device or a capture says so; runs what is due when
/// it ends, if it is a call that waits.
class Call {
 public:
  Call(GpuModel::State& state, CallKind kind, DeviceId device, CallArguments arguments = {});
  /// For calls that name no device: `device_of(arguments)` is asked under the lock, and may
  /// complete the arguments.
  template <typename DeviceOf>
  requires std::is_invocable_r_v<DeviceId, DeviceOf, CallArguments&> Call(GpuModel::State& state,
                                                                          CallKind kind,
                                                                          CallArguments arguments,
                                                                          DeviceOf&& device_of)
  LEVEE_NO_THREAD_SAFETY_ANALYSIS : state_(state), kind_(kind), arguments_(arguments) {
    state_.mutex.lock();
    device_ = device_of(arguments_);
    native_ = enter();
  }
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool ok() const { return native_ == Native::kSuccess; }
  Status status() const { return to_status(native_); }
  /// The call fails with this, or not, if it is no failure.
  Status fail(Native native) {
    native_ = native;
    return to_status(native);
  }
  /// The same, and a finding where the refusal is one.
  Status fail(const Refusal& refusal);
  /// The stream or event given is none: kStreamExists or kEventExists.
  Status fail_foreign(JudgeRule rule);
  Nanos delay() const { return delay_; }  ///< of an event that completes late

 private:
  Native enter();

  GpuModel::State& state_;
  CallKind kind_;
  DeviceId device_;
  CallArguments arguments_;
  Native native_ = Native::kSuccess;
  Nanos delay_{};
  std::size_t log_entry_ = 0;
};

}  // namespace levee::device::sim
