#include "allocator/record/log_merger.h"

#include <algorithm>

namespace levee::record {

void LogMerger::collect(std::span<ThreadLog> logs, const ThreadVisitor& on_new_thread) {
  cursors_.clear();
  for (ThreadLog& log : logs) {
    const LogState state = log.state.load(std::memory_order_acquire);
    if (state != LogState::kActive && state != LogState::kExited) continue;
    Cursor cursor;
    cursor.log = &log;
    cursor.is_exiting = state == LogState::kExited;
    if (!log.is_known) {
      log.is_known = true;
      on_new_thread(log);
      const base::MutexLock lock(log.early_mutex);
      for (std::size_t i = 0; i < log.early.size(); ++i) cursor.early.push_back(log.early[i]);
      log.early.clear();
    }
    load(cursor);
    if (cursor.has_event || cursor.is_exiting) cursors_.push_back(std::move(cursor));
  }
}

// Finds the next event of a log, if the thread has published one.
void LogMerger::load(Cursor& cursor) {
  ThreadLog& log = *cursor.log;
  if (cursor.early_position < cursor.early.size()) {
    cursor.event = cursor.early[cursor.early_position];
    cursor.has_event = true;
  } else {
    if (log.read_chunk == nullptr) log.read_chunk = log.first.load(std::memory_order_acquire);
    cursor.has_event = false;
    while (log.read_chunk != nullptr) {
      if (log.read_position == cursor.published || cursor.published == 0) {
        cursor.published = log.read_chunk->published.load(std::memory_order_acquire);
      }
      if (log.read_position < cursor.published) {
        cursor.event = log.read_chunk->events()[log.read_position];
        cursor.has_event = true;
        break;
      }
      Chunk* successor = cursor.published == Chunk::kEvents
                             ? log.read_chunk->next.load(std::memory_order_acquire)
                             : nullptr;
      if (successor == nullptr) break;
      pool_.give(log.read_chunk);
      log.read_chunk = successor;
      log.read_position = 0;
      cursor.published = 0;
    }
    if (!cursor.has_event) return;
  }
  const Nanos time = clock_.time_of(cursor.event.time_ns);
  cursor.event.time_ns = static_cast<std::uint64_t>(time.value);
  cursor.key = std::max(log.key, time.value);
}

void LogMerger::advance(Cursor& cursor) {
  if (cursor.early_position < cursor.early.size()) {
    ++cursor.early_position;
  } else {
    ++cursor.log->read_position;
  }
  load(cursor);
}

void LogMerger::hand_over(Cursor& cursor, TraceWriter& writer) {
  ThreadLog& log = *cursor.log;
  if (cursor.event.kind() == EventKind::kLost) log.sequence += cursor.event.a;
  log.key = cursor.key;
  writer.append(
      {cursor.event, log.sequence++, cursor.key, log.thread.load(std::memory_order_relaxed)});
  advance(cursor);
}

// When the log of `cursor` frees `addr`, up to `until`; INT64_MAX if it does not.
std::int64_t LogMerger::key_of_free(const Cursor& cursor, std::uint64_t addr,
                                    std::int64_t until) const {
  const auto frees = [&](const Event& event) {
    return event.a == addr &&
           (event.kind() == EventKind::kFree || event.kind() == EventKind::kFreeCompleted);
  };
  if (cursor.key > until) return INT64_MAX;
  if (frees(cursor.event)) return cursor.key;
  if (cursor.early_position < cursor.early.size()) return INT64_MAX;  // long before any allocation
  std::int64_t key = cursor.key;
  const Chunk* chunk = cursor.log->read_chunk;
  std::uint32_t position = cursor.log->read_position;
  while (key <= until) {
    if (++position >= chunk->published.load(std::memory_order_acquire)) {
      chunk = position == Chunk::kEvents ? chunk->next.load(std::memory_order_acquire) : nullptr;
      if (chunk == nullptr || chunk->published.load(std::memory_order_acquire) == 0) break;
      position = 0;
    }
    const Event& event = const_cast<Chunk*>(chunk)->events()[position];
    key = std::max(key, clock_.time_of(event.time_ns).value);
    if (key <= until && frees(event)) return key;
  }
  return INT64_MAX;
}

// When one of the logs from `place` of the heap downwards frees `addr`, up to `until`. Below a
// later log all are later.
std::int64_t LogMerger::key_of_free_below(std::size_t place, std::uint64_t addr,
                                          std::int64_t until) const {
  if (place >= heap_.size() || heap_[place]->key > until) return INT64_MAX;
  std::int64_t key = key_of_free(*heap_[place], addr, until);
  if (key == INT64_MAX) key = key_of_free_below(2 * place + 1, addr, until);
  if (key == INT64_MAX) key = key_of_free_below(2 * place + 2, addr, until);
  return key;
}

// True if the allocation that `cursor` is at has to wait for a free in another thread's log; its
// time is then moved behind it.
bool LogMerger::put_behind_its_free(Cursor& cursor) const {
  const std::int64_t freed =
      key_of_free_below(0, cursor.event.a, cursor.key + kMaxStampInversion.value);
  if (freed == INT64_MAX) return false;
  cursor.key = freed + 1;
  cursor.event.time_ns = static_cast<std::uint64_t>(cursor.key);
  return true;
}

void LogMerger::finish_exited(Cursor& cursor, TraceWriter& writer) {
  ThreadLog& log = *cursor.log;
  const std::uint64_t lost = log.unreported.load(std::memory_order_relaxed);
  if (lost != 0) {
    log.sequence += lost;
    const std::int64_t time = std::max(log.key, clock_.add_anchor().value);
    writer.append({make_event(EventKind::kLost, Nanos{time}, {}, lost, 0), log.sequence++, time,
                   log.thread.load(std::memory_order_relaxed)});
  }
  log.reset(pool_);
}

std::size_t LogMerger::drain(Nanos cut, TraceWriter& writer, std::atomic<std::uint64_t>& progress) {
  std::size_t count = 0;
  heap_.clear();
  for (Cursor& cursor : cursors_) {
    if (cursor.has_event) heap_.push_back(&cursor);
  }
  const auto is_later = [](const Cursor* a, const Cursor* b) { return a->key > b->key; };
  std::make_heap(heap_.begin(), heap_.end(), is_later);
  while (!heap_.empty() && heap_.front()->key <= cut.value) {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    Cursor& cursor = *heap_.back();
    heap_.pop_back();
    const std::int64_t until = heap_.empty() ? cut.value : std::min(cut.value, heap_.front()->key);
    do {
      if (cursor.event.kind() == EventKind::kAlloc && put_behind_its_free(cursor)) break;
      hand_over(cursor, writer);
      ++count;
    } while (cursor.has_event && cursor.key <= until);
    if (cursor.has_event) {
      heap_.push_back(&cursor);
      std::push_heap(heap_.begin(), heap_.end(), is_later);
    }
    progress.fetch_add(1, std::memory_order_relaxed);
  }
  for (Cursor& cursor : cursors_) {
    if (cursor.is_exiting && !cursor.has_event) finish_exited(cursor, writer);
  }
  cursors_.clear();
  return count;
}

}  // namespace levee::record
