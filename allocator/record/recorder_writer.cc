// The writer thread of the recorder: from the logs to the file, until it is stopped or the file
// fails.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "allocator/base/clock.h"
#include "allocator/record/trace_path.h"
#include "allocator/record/trace_recorder.h"

namespace levee::record {
namespace {

// An idle program is looked at this often; the sum with the flush interval stays below one second.
constexpr Nanos kMaxDrainInterval = 200_ms;

std::string thread_name(std::uint64_t os_id) {
  std::ifstream in("/proc/self/task/" + std::to_string(os_id) + "/comm");
  std::string name;
  std::getline(in, name);
  return name;  // empty if the thread is gone
}

std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace

void* TraceRecorder::run_writer(void* self) {
  ::pthread_setname_np(::pthread_self(), "levee-recorder");
  static_cast<TraceRecorder*>(self)->write_until_stopped();
  return nullptr;
}

bool TraceRecorder::open_file() {
  const TracePlaceFacts facts = TracePlaceFacts::of_process(options_.rank);
  const OpenedTrace opened = open_trace_file(options_.path, facts);
  if (opened.file < 0) {
    turn_off("recording is off: " + opened.why +
             ". The program goes on; set LEVEE_TRACE to a place that can be written.");
    return false;
  }
  if (!opened.notice.empty()) tell(opened.notice);

  TraceHeader header;
  header.levee_version = options_.levee_version;
  header.pid = facts.pid;
  header.rank = options_.rank;
  header.local_rank = options_.local_rank;
  header.world_size = options_.world_size;
  header.launch = options_.launch;
  header.start = start_;
  header.start_unix_ns = start_unix_ns_;
  header.clock = base::Clock::is_replaced() ? "modelled" : "monotonic";
  header.host = facts.host;
  header.program = command_line();
  header.config = options_.config;
  header.cap = options_.cap;
  std::string why;
  writer_ = TraceWriter::start(opened.file, header, &why);
  if (writer_ == nullptr) {
    turn_off("recording is off: " + opened.path + " cannot be written: " + why +
             ". The program goes on.");
    return false;
  }
  const base::MutexLock lock(control_mutex_);
  path_ = opened.path;
  return true;
}

void TraceRecorder::write_until_stopped() {
  // `finish` waits for kRunning before it stops anything; `turn_off` must not be overtaken by it
  // either.
  while (phase_.load(std::memory_order_acquire) == Phase::kStarting) ::sched_yield();
  if (!open_file()) return;
  merger_ = std::make_unique<LogMerger>(pool_, *clock_);
  activity_thread_ = thread_count_.fetch_add(1, std::memory_order_relaxed);
  other_threads_ = thread_count_.fetch_add(1, std::memory_order_relaxed);
  names_.describe(TraceThread{activity_thread_, 0, "GPU activity"});
  names_.describe(TraceThread{other_threads_, 0, "threads beyond the recorder's limit"});

  Nanos interval = options_.drain_interval;
  Nanos last_flush = base::Clock::monotonic();
  bool is_stopping = false;
  while (!is_stopping) {
    std::uint64_t flushes_wanted = 0;
    bool flushes_now = false;
    {
      const base::MutexLock lock(control_mutex_);
      if (!is_stopping_ && flushes_wanted_ == flushes_done_)
        wake_writer_.wait_for(control_mutex_, interval);
      is_stopping = is_stopping_;
      flushes_wanted = flushes_wanted_;
      flushes_now = is_stopping || flushes_wanted_ != flushes_done_;
    }
    const bool has_news = pass(flushes_now, is_stopping);
    interval =
        has_news ? options_.drain_interval : std::min(Nanos{interval.value * 2}, kMaxDrainInterval);
    const Nanos now = base::Clock::monotonic();
    if (flushes_now || now.value - last_flush.value >= options_.flush_interval.value) {
      writer_->flush();
      last_flush = now;
    }
    if (is_stopping && writer_->ok()) {
      const std::string reason = [&] {
        const base::MutexLock lock(control_mutex_);
        return stop_reason_;
      }();
      writer_->finish(reason.empty() ? TraceEnding::kComplete : TraceEnding::kStopped, reason);
    }
    if (!writer_->ok()) {
      turn_off("recording is off: " + path() + " cannot be written: " + writer_->error() +
               ". The program goes on; what was written before can be read.");
      return;
    }
    const base::MutexLock lock(control_mutex_);
    flushes_done_ = flushes_wanted;
    totals_.events_written = writer_->events_written();
    totals_.events_lost = writer_->events_lost();
    totals_.bytes_written = writer_->bytes_written();
    writer_is_gone_ = is_stopping;
    writer_progress_.notify_all();
  }
}

bool TraceRecorder::pass(bool takes_all, bool is_last) {
  const Nanos now = clock_->add_anchor();
  // What is stamped before the cut is in its log when the log is looked at, also if stamps are a
  // little out of order.
  const Nanos cut = takes_all ? Nanos{INT64_MAX} : Nanos{now.value - kMaxStampInversion.value};
  merger_->collect(logs_, [this](const ThreadLog& log) { define_thread(log); });
  // After the look at the logs: whatever an event there names has been interned before.
  take_activity();
  define_new_names();
  const std::size_t drained = merger_->drain(cut, *writer_, progress_);
  for (const Event& event : taken_activity_) writer_->append_activity(event, activity_thread_);
  report_losses(is_last);
  return drained != 0 || !taken_activity_.empty();
}

void TraceRecorder::define_thread(const ThreadLog& log) {
  const std::uint64_t os_id = log.os_id.load(std::memory_order_relaxed);
  names_.describe(
      TraceThread{log.thread.load(std::memory_order_relaxed), os_id, thread_name(os_id)});
}

void TraceRecorder::define_new_names() {
  for (const auto entry : names_.take_new()) writer_->define(entry);
  if (!told_names_ran_out_ && names_.has_run_out()) {
    told_names_ran_out_ = true;
    tell(
        "there are too many different stacks and names to record; events that come with new ones "
        "are recorded without.");
  }
}

void TraceRecorder::take_activity() {
  taken_activity_.clear();
  std::uint64_t lost = 0;
  {
    const base::MutexLock lock(activity_mutex_);
    taken_activity_.swap(activity_);
    std::swap(lost, activity_lost_);
  }
  if (lost != 0) {
    taken_activity_.push_back(make_event(EventKind::kLost, base::Clock::now(), {}, lost, 0));
  }
}

void TraceRecorder::append_lost(std::uint64_t count, std::uint32_t thread, std::uint64_t& sequence,
                                Nanos time) {
  if (count == 0) return;
  sequence += count;
  writer_->append(
      {make_event(EventKind::kLost, time, {}, count, 0), sequence++, time.value, thread});
}

void TraceRecorder::report_losses(bool is_last) {
  const Nanos now = base::Clock::now();
  append_lost(lost_without_log_.exchange(0, std::memory_order_relaxed), other_threads_,
              other_sequence_, now);
  if (!is_last) return;
  // Threads that lost events and stored none since.
  for (ThreadLog& log : logs_) {
    if (log.state.load(std::memory_order_acquire) != LogState::kActive) continue;
    append_lost(log.unreported.exchange(0, std::memory_order_relaxed),
                log.thread.load(std::memory_order_relaxed), log.sequence, now);
  }
}

}  // namespace levee::record
