// The recorder of a process: what `Recorder` promises, from the threads' logs to the file.
//
//   threads ──record, emit──► ThreadLog ─┐
//   CUPTI ────emit_activity──► queue ────┼─► writer thread: LogMerger ─► TraceWriter ─► file
//   anyone ───intern──► NameTable ───────┘
//
// Owns the logs, the names and the writer thread. Promises, beyond those of recorder.h: no file and
// no thread before the first event that says the process has device memory (kAlloc, kSegmentAlloc,
// kPageCreate); that event starts both, and phases and settings of before are in the file; what was
// emitted is on disk `Options::flush_interval` later (1 s at most, also when the process is
// killed); an exit of the process (`exit`, return from main) completes the file; a failure of the
// file turns recording off with one message; in a forked child everything is refused and nothing of
// the parent's is touched. Destroying one while threads emit is not allowed; a process keeps its
// recorder for ever. Locks: leaf ones only; none is held while anything outside record is called,
// but for the message callback.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <pthread.h>

#include <levee/status.h>

#include "allocator/base/mutex.h"
#include "allocator/record/log_merger.h"
#include "allocator/record/name_table.h"
#include "allocator/record/recorder.h"
#include "allocator/record/thread_log.h"

namespace levee::record {

enum class StampSource : std::uint8_t {
  kAuto,   ///< the processor's counter where it can be trusted and the Clock is the host's, or the
           ///< host's plus a number
  kClock,  ///< the Clock, always
};

class TraceRecorder final : public Recorder {
 public:
  struct Options {
    std::string path;   ///< as in trace_path.h; empty = default place
    Bytes cap = 1_GiB;  ///< of the file; 0 = none
    std::int32_t rank = -1;
    std::int32_t local_rank = -1;
    std::int32_t world_size = -1;
    std::string launch;  ///< as in `TraceHeader`
    std::string levee_version;
    std::string config;  ///< settings, one "name=value" a line
    Nanos drain_interval = 50_ms;
    Nanos flush_interval = 500_ms;
    Bytes ring_memory = 64_MiB;  ///< for all threads: two million events
    StampSource stamps = StampSource::kAuto;
    /// Told in one sentence what the user should know. Default: standard error.
    std::function<void(std::string_view)> on_message;
  };

  /// Never null. Without memory for the logs it says so and records nothing.
  static std::unique_ptr<TraceRecorder> create(Options options);
  ~TraceRecorder() override;

  void record(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b, std::uint16_t aux = 0,
              ContextId context = {}) noexcept override;
  void emit(const Event& event) noexcept override;
  void emit_activity(std::span<const Event> events) noexcept override;
  LaneId intern_lane(DeviceId device, StreamId stream) override;
  std::uint16_t intern_pool(PoolId pool) override;
  ContextId intern(std::string_view text, ContextKind kind = ContextKind::kNote) override;
  void describe_device(DeviceId device, std::string_view name, Bytes total_memory) override;

  /// Lane of a stream of which only CUPTI's number is known.
  LaneId intern_cupti_lane(DeviceId device, std::uint32_t number);
  /// All lanes so far, in the order of their making.
  std::vector<TraceLane> lanes() const;
  /// Writes a sentence for the reader of the record.
  void note(std::string_view text);

  /// The file; empty while there is none.
  std::string path() const;
  /// Everything emitted so far is in the file when it returns ok. kUnsupported in a forked child,
  /// kInternal if recording has turned itself off. Before the first device allocation there is
  /// nothing to do.
  Status flush();
  /// Ends the recording: what was emitted is written, and a trailer that says that the file is
  /// complete (or, with a reason, why it ends here). Later events are ignored. A second call does
  /// nothing.
  void finish(std::string_view reason = {});

  struct Totals {
    std::uint64_t events_written = 0;
    std::uint64_t events_lost = 0;
    std::uint64_t bytes_written = 0;
  };
  Totals totals() const;

 private:
  friend class RecorderRegistry;
  enum class Phase : std::uint32_t {
    kIdle,      // no device memory yet
    kStarting,  // one thread is starting the writer
    kRunning,
    kOver,  // finished, failed, or a forked child
  };

  explicit TraceRecorder(Options options);

  static constexpr std::size_t kLine = 128;  // processors fetch lines of 64 bytes in pairs

  LEVEE_NOINLINE void record_by_clock(std::uint32_t context_and_kind, LaneId lane, std::uint64_t a,
                                      std::uint64_t b, std::uint16_t aux) noexcept;
  LEVEE_SLOW_PATH void store_slow(Event event, bool needs_stamp) noexcept;
  ThreadLog* current_log_slow() noexcept;
  ThreadLog* claim_log() noexcept;
  bool keep_early(ThreadLog& log, const Event& event) noexcept;
  void start_writer(Nanos first_event) noexcept;
  void turn_off(std::string_view sentence) noexcept;
  void tell(std::string_view sentence) const noexcept;
  void become_child() noexcept;
  /// Waits until `is_done` or the writer is gone. False if the writer does nothing for
  /// `kWriterPatience`.
  template <typename Condition>
  bool wait_for_writer_locked(Condition is_done) LEVEE_REQUIRES(control_mutex_);
  void leave(ThreadLog& log) noexcept {
    log.state.store(LogState::kExited, std::memory_order_release);
  }
  std::uint64_t stamp() const noexcept;

  // The writer thread's.
  static void* run_writer(void* self);
  void write_until_stopped();
  bool open_file();
  /// One look at all logs. Returns whether there was anything new.
  bool pass(bool takes_all, bool is_last);
  void append_lost(std::uint64_t count, std::uint32_t thread, std::uint64_t& sequence, Nanos time);
  void define_new_names();
  void define_thread(const ThreadLog& log);
  void take_activity();
  void report_losses(bool is_last);

  const Options options_;
  const std::uint64_t id_;  // never reused, so that a stale thread-local pointer is noticed
  const CounterMoment began_;
  TickSource ticks_;  // set before `uses_ticks_`
  std::atomic<bool> uses_ticks_{false};
  // Read with every event, so on a line that nobody writes to while recording.
  alignas(kLine) std::atomic<std::uint64_t> id_with_ticks_{
      UINT64_MAX};  // `id_` while stamps are the counter alone, else no recorder's
  alignas(kLine) std::atomic<Phase> phase_{Phase::kIdle};
  std::atomic<bool> is_child_{false};
  std::atomic<bool> has_failed_{false};
  std::atomic<std::uint64_t> progress_{0};  // grows while the writer works
  std::atomic<std::uint32_t> thread_count_{0};
  std::atomic<std::uint64_t> lost_without_log_{0};  // events of threads beyond kMaxLogs
  ChunkPool pool_;
  std::vector<ThreadLog> logs_;
  NameTable names_;
  Nanos start_;  // of the event that started the writer, which opens the file later
  std::int64_t start_unix_ns_ = 0;  // the same moment
  pthread_t writer_thread_{};       // set, as the two above, before kRunning
  std::atomic<bool> has_writer_{false};

  base::Mutex activity_mutex_;
  std::vector<Event> activity_ LEVEE_GUARDED_BY(activity_mutex_);
  std::uint64_t activity_lost_ LEVEE_GUARDED_BY(activity_mutex_) = 0;

  mutable base::Mutex control_mutex_;
  base::ConditionVariable wake_writer_;
  base::ConditionVariable writer_progress_;
  std::uint64_t flushes_wanted_ LEVEE_GUARDED_BY(control_mutex_) = 0;
  std::uint64_t flushes_done_ LEVEE_GUARDED_BY(control_mutex_) = 0;
  bool is_stopping_ LEVEE_GUARDED_BY(control_mutex_) = false;
  bool writer_is_gone_ LEVEE_GUARDED_BY(control_mutex_) = false;
  bool is_joined_ LEVEE_GUARDED_BY(control_mutex_) = false;
  std::string stop_reason_ LEVEE_GUARDED_BY(control_mutex_);
  std::string path_ LEVEE_GUARDED_BY(control_mutex_);
  Totals totals_ LEVEE_GUARDED_BY(control_mutex_);

  // The writer thread's, from its start to its end.
  std::unique_ptr<StampClock> clock_;
  std::unique_ptr<LogMerger> merger_;
  std::unique_ptr<TraceWriter> writer_;
  std::vector<Event> taken_activity_;
  std::uint32_t activity_thread_ = 0;
  std::uint32_t other_threads_ = 0;  // pseudo-thread for events of threads that got no log
  std::uint64_t other_sequence_ = 0;
  bool told_names_ran_out_ = false;
};

}  // namespace levee::record
