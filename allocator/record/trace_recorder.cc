// The side of the threads that are recorded, and the recorder's life. The writer thread is in
// recorder_writer.cc.
#include "allocator/record/trace_recorder.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "allocator/base/check.h"
#include "allocator/base/clock.h"
#include "allocator/record/recorder_registry.h"

namespace levee::record {
namespace {

// Threads that record at the same time. A log is given to the next thread when its thread ends.
constexpr std::size_t kMaxLogs = 1024;
// Kernels and copies that wait for the writer: seconds of them.
constexpr std::size_t kMaxQueuedActivity = 1 << 20;
constexpr Bytes kMostText = 32_MiB;
// How long `flush` and `finish` wait for a writer that hangs in a file system before they give up.
constexpr Nanos kWriterPatience = 10'000_ms;

std::atomic<std::uint64_t> g_next_id{1};

// Says that the process has device memory.
constexpr bool starts_recording(EventKind kind) {
  return kind == EventKind::kAlloc || kind == EventKind::kSegmentAlloc ||
         kind == EventKind::kPageCreate;
}

std::uint64_t this_thread_id() {
  return static_cast<std::uint64_t>(::syscall(SYS_gettid));
}

std::int64_t wall_time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t clock_stamp() {
  return static_cast<std::uint64_t>(base::Clock::now().value);
}

}  // namespace

std::unique_ptr<TraceRecorder> TraceRecorder::create(Options options) {
  std::unique_ptr<TraceRecorder> recorder(new TraceRecorder(std::move(options)));
  if (recorder->pool_.has_memory()) {
    recorder->enabled_.store(true, std::memory_order_relaxed);
  } else {
    recorder->turn_off(
        "recording is off: there is no memory for its buffers. The program goes on.");
  }
  RecorderRegistry::add(*recorder);
  return recorder;
}

TraceRecorder::TraceRecorder(Options options)
    : options_(std::move(options)),
      id_(g_next_id.fetch_add(1, std::memory_order_relaxed)),
      began_(ticks_are_usable() ? counter_moment() : CounterMoment{}),
      pool_(options_.ring_memory),
      logs_(kMaxLogs),
      names_(options_.cap.value == 0 ? kMostText
                                     : std::min(kMostText, Bytes{options_.cap.value / 8})) {}

TraceRecorder::~TraceRecorder() {
  finish();
  RecorderRegistry::remove(*this);
  const bool is_child = is_child_.load(std::memory_order_relaxed);
  if (!is_child) {
    // What the writer uses must not go before it.
    bool joins = false;
    {
      const base::MutexLock lock(control_mutex_);
      joins = is_stopping_ && !is_joined_;
    }
    if (joins) ::pthread_join(writer_thread_, nullptr);
  } else {
    // The parent's threads may have been in the middle of these.
    static_cast<void>(clock_.release());
    static_cast<void>(merger_.release());
    static_cast<void>(writer_.release());
  }
}

std::uint64_t TraceRecorder::stamp() const noexcept {
  return uses_ticks_.load(std::memory_order_acquire) ? ticks_.read() : clock_stamp();
}

void TraceRecorder::record(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b,
                           std::uint16_t aux, ContextId context) noexcept {
  const std::uint32_t context_and_kind = context.value << 8 | static_cast<std::uint32_t>(kind);
  // One compare for "this thread has a log of ours" and "stamps are ticks". Nothing is called on
  // this way, so that it needs no frame; all else is in a function that is jumped to.
  const RecorderRegistry::Slot slot = this_thread_slot;
  if (slot.recorder == id_with_ticks_.load(std::memory_order_relaxed) &&
      slot.log->used < slot.log->limit) [[likely]] {
    slot.log->store(Event{read_ticks(), a, b, context_and_kind, lane, aux});
    return;
  }
  record_by_clock(context_and_kind, lane, a, b, aux);
}

void TraceRecorder::record_by_clock(std::uint32_t context_and_kind, LaneId lane, std::uint64_t a,
                                    std::uint64_t b, std::uint16_t aux) noexcept {
  const RecorderRegistry::Slot slot = this_thread_slot;
  if (slot.recorder == id_ && slot.log->used < slot.log->limit) {
    slot.log->store(Event{stamp(), a, b, context_and_kind, lane, aux});
    return;
  }
  store_slow(Event{0, a, b, context_and_kind, lane, aux}, true);
}

void TraceRecorder::emit(const Event& event) noexcept {
  const RecorderRegistry::Slot slot = this_thread_slot;
  if (slot.recorder == id_ && slot.log->used < slot.log->limit) [[likely]] {
    slot.log->store(event);
    return;
  }
  store_slow(event, false);
}

void TraceRecorder::store_slow(Event event, bool needs_stamp) noexcept {
  if (phase_.load(std::memory_order_acquire) == Phase::kOver) return;
  ThreadLog* log = current_log_slow();
  if (log == nullptr) {
    lost_without_log_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::kIdle) {
    if (needs_stamp) event.time_ns = clock_stamp();
    needs_stamp = false;
    if (starts_recording(event.kind())) {
      start_writer(Nanos{static_cast<std::int64_t>(event.time_ns)});
    } else if (keep_early(*log, event)) {
      return;
    }
  }
  if (log->used >= log->limit && !log->extend(pool_)) {
    log->unreported.store(log->unreported.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
    return;
  }
  const std::uint64_t lost = log->unreported.load(std::memory_order_relaxed);
  if (lost != 0) {
    log->store(Event{stamp(), lost, 0, static_cast<std::uint32_t>(EventKind::kLost), {}, 0});
    log->unreported.store(0, std::memory_order_relaxed);
  }
  if (needs_stamp) event.time_ns = stamp();
  log->store(event);
}

ThreadLog* TraceRecorder::current_log_slow() noexcept {
  if (this_thread_slot.recorder == id_) return this_thread_slot.log;
  // This thread may have stored into another recorder's log in between.
  const std::uint64_t me = this_thread_id();
  for (ThreadLog& log : logs_) {
    if (log.state.load(std::memory_order_relaxed) == LogState::kActive &&
        log.os_id.load(std::memory_order_relaxed) == me) {
      RecorderRegistry::bind(id_, log);
      return &log;
    }
  }
  return claim_log();
}

ThreadLog* TraceRecorder::claim_log() noexcept {
  for (ThreadLog& log : logs_) {
    LogState expected = LogState::kFree;
    if (log.state.load(std::memory_order_relaxed) != LogState::kFree ||
        !log.state.compare_exchange_strong(expected, LogState::kClaimed,
                                           std::memory_order_acquire)) {
      continue;
    }
    log.thread.store(thread_count_.fetch_add(1, std::memory_order_relaxed),
                     std::memory_order_relaxed);
    log.os_id.store(this_thread_id(), std::memory_order_relaxed);
    log.state.store(LogState::kActive, std::memory_order_release);
    RecorderRegistry::bind(id_, log);
    return &log;
  }
  return nullptr;
}

// True if the event is kept for the beginning of the file; false if recording has begun.
bool TraceRecorder::keep_early(ThreadLog& log, const Event& event) noexcept {
  const base::MutexLock lock(log.early_mutex);
  // The writer takes the early events under this lock, after the phase has changed.
  if (phase_.load(std::memory_order_acquire) != Phase::kIdle) return false;
  log.early.add(event);
  return true;
}

void TraceRecorder::start_writer(Nanos first_event) noexcept {
  Phase expected = Phase::kIdle;
  if (!phase_.compare_exchange_strong(expected, Phase::kStarting)) return;
  const Nanos now = base::Clock::now();
  start_ = std::min(first_event, now);
  start_unix_ns_ = wall_time_ns() - (now - start_).value;
  bool uses_ticks = options_.stamps == StampSource::kAuto && ticks_are_usable();
  if (uses_ticks && base::Clock::is_replaced()) {
    const std::int64_t* ahead = base::Clock::ahead();
    uses_ticks = ahead != nullptr;
    if (uses_ticks) ticks_ = TickSource(ahead, began_);
  }
  uses_ticks_.store(uses_ticks, std::memory_order_release);
  if (uses_ticks && ticks_.is_counter_alone()) {
    id_with_ticks_.store(id_, std::memory_order_relaxed);
  }
  clock_ = std::make_unique<StampClock>(uses_ticks, ticks_);

  // No signal of the program is for this thread.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failure = ::pthread_create(&writer_thread_, nullptr, &run_writer, this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    turn_off("recording is off: its thread cannot be started. The program goes on.");
    return;
  }
  has_writer_.store(true, std::memory_order_relaxed);
  phase_.store(Phase::kRunning, std::memory_order_release);
}

void TraceRecorder::emit_activity(std::span<const Event> events) noexcept {
  if (!enabled()) return;
  const base::MutexLock lock(activity_mutex_);
  const std::size_t room = kMaxQueuedActivity - std::min(kMaxQueuedActivity, activity_.size());
  const std::size_t taken = std::min(room, events.size());
  activity_.insert(activity_.end(), events.begin(),
                   events.begin() + static_cast<std::ptrdiff_t>(taken));
  activity_lost_ += events.size() - taken;
}

LaneId TraceRecorder::intern_lane(DeviceId device, StreamId stream) {
  return enabled() ? names_.lane(device, stream) : LaneId{};
}
LaneId TraceRecorder::intern_cupti_lane(DeviceId device, std::uint32_t number) {
  return enabled() ? names_.cupti_lane(device, number) : LaneId{};
}
std::vector<TraceLane> TraceRecorder::lanes() const {
  return enabled() ? names_.lanes() : std::vector<TraceLane>{};
}
void TraceRecorder::note(std::string_view text) {
  if (enabled()) record(EventKind::kNote, {}, 0, 0, 0, intern(text, ContextKind::kNote));
}
std::uint16_t TraceRecorder::intern_pool(PoolId pool) {
  return enabled() ? names_.pool(pool) : std::uint16_t{0};
}
ContextId TraceRecorder::intern(std::string_view text, ContextKind kind) {
  return enabled() ? names_.text(text, kind) : ContextId{};
}
void TraceRecorder::describe_device(DeviceId device, std::string_view name, Bytes total_memory) {
  if (enabled()) names_.describe(TraceDevice{device, std::string(name), total_memory});
}

std::string TraceRecorder::path() const {
  if (is_child_.load(std::memory_order_relaxed)) return {};
  const base::MutexLock lock(control_mutex_);
  return path_;
}

TraceRecorder::Totals TraceRecorder::totals() const {
  if (is_child_.load(std::memory_order_relaxed)) return {};
  const base::MutexLock lock(control_mutex_);
  return totals_;
}

template <typename Condition>
bool TraceRecorder::wait_for_writer_locked(Condition is_done) {
  std::uint64_t progress = progress_.load(std::memory_order_relaxed);
  Nanos until = base::Clock::monotonic() + kWriterPatience;
  while (!is_done()) {
    if (writer_is_gone_) return false;
    const std::uint64_t now = progress_.load(std::memory_order_relaxed);
    if (now != progress) {
      progress = now;
      until = base::Clock::monotonic() + kWriterPatience;
    } else if (base::Clock::monotonic() > until) {
      return false;
    }
    writer_progress_.wait_for(control_mutex_, 100_ms);
  }
  return true;
}

Status TraceRecorder::flush() {
  if (is_child_.load(std::memory_order_relaxed)) return {StatusCode::kUnsupported, 0};
  if (has_failed_.load(std::memory_order_relaxed)) return {StatusCode::kInternal, 0};
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::kIdle || phase == Phase::kOver) return {};
  const base::MutexLock lock(control_mutex_);
  const std::uint64_t wanted = ++flushes_wanted_;
  wake_writer_.notify_one();
  const bool is_done = wait_for_writer_locked(
      [&]() LEVEE_REQUIRES(control_mutex_) { return flushes_done_ >= wanted; });
  return is_done ? Status{} : Status{StatusCode::kInternal, 0};
}

void TraceRecorder::finish(std::string_view reason) {
  if (is_child_.load(std::memory_order_relaxed)) return;
  enabled_.store(false, std::memory_order_relaxed);
  Phase expected = Phase::kIdle;
  if (phase_.compare_exchange_strong(expected, Phase::kOver)) return;  // nothing was recorded
  while (phase_.load(std::memory_order_acquire) == Phase::kStarting)
    ::sched_yield();                                         // a thread is being created
  if (!has_writer_.load(std::memory_order_relaxed)) return;  // finished before, or never started

  bool joins = false;
  {
    const base::MutexLock lock(control_mutex_);
    if (!is_stopping_) stop_reason_ = reason;
    is_stopping_ = true;
    wake_writer_.notify_one();
    // A writer that hangs in a file system is left behind: the process wants to exit.
    wait_for_writer_locked([&]() LEVEE_REQUIRES(control_mutex_) { return writer_is_gone_; });
    joins = writer_is_gone_ && !is_joined_;
    is_joined_ = is_joined_ || joins;
  }
  if (joins) ::pthread_join(writer_thread_, nullptr);
  phase_.store(Phase::kOver, std::memory_order_release);
}

void TraceRecorder::tell(std::string_view sentence) const noexcept {
  if (options_.on_message) {
    options_.on_message(sentence);
    return;
  }
  base::FixedBuffer<1024> text;
  text << "levee: " << sentence << "\n";
  // Standard error may be closed; then there is nobody to tell.
  [[maybe_unused]] const ssize_t ignored =
      ::write(STDERR_FILENO, text.view().data(), text.view().size());
}

void TraceRecorder::turn_off(std::string_view sentence) noexcept {
  enabled_.store(false, std::memory_order_relaxed);
  has_failed_.store(true, std::memory_order_relaxed);
  {
    const base::MutexLock lock(control_mutex_);
    writer_is_gone_ = true;
    is_joined_ = is_joined_ || phase_.load(std::memory_order_relaxed) != Phase::kRunning;
    writer_progress_.notify_all();
  }
  phase_.store(Phase::kOver, std::memory_order_release);
  tell(sentence);
}

void TraceRecorder::become_child() noexcept {
  is_child_.store(true, std::memory_order_relaxed);
  enabled_.store(false, std::memory_order_relaxed);
  phase_.store(Phase::kOver, std::memory_order_release);
}

}  // namespace levee::record
