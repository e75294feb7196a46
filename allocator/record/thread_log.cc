#include "allocator/record/thread_log.h"

#include <sys/mman.h>

#include <new>

namespace levee::record {

ChunkPool::ChunkPool(Bytes memory) {
  const auto count = static_cast<std::uint32_t>(memory.value / Chunk::kBytes);
  // Not reserved: the kernel gives a page when it is first touched, so that a quiet program pays
  // for what it uses.
  void* mapped = ::mmap(nullptr, std::size_t{count} * Chunk::kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (count == 0 || mapped == MAP_FAILED) return;
  chunks_ = static_cast<Chunk*>(mapped);
  count_ = count;
}

ChunkPool::~ChunkPool() {
  ::munmap(chunks_, std::size_t{count_} * Chunk::kBytes);  // of nothing: refused, to no effect
}

Chunk* ChunkPool::take() noexcept {
  std::uint64_t top = top_.load(std::memory_order_acquire);
  while ((top & UINT32_MAX) != 0) {
    Chunk* chunk = chunks_ + ((top & UINT32_MAX) - 1);
    // May be another thread's by now; then the exchange fails, since the count has changed.
    const std::uint64_t below = chunk->next_free.load(std::memory_order_relaxed);
    const std::uint64_t wanted = ((top >> 32) + 1) << 32 | below;
    if (top_.compare_exchange_weak(top, wanted, std::memory_order_acquire,
                                   std::memory_order_acquire)) {
      chunk->published.store(0, std::memory_order_relaxed);
      chunk->next.store(nullptr, std::memory_order_relaxed);
      return chunk;
    }
  }
  if (fresh_.load(std::memory_order_relaxed) >= count_) return nullptr;
  const std::uint32_t index = fresh_.fetch_add(1, std::memory_order_relaxed);
  return index < count_ ? new (chunks_ + index) Chunk : nullptr;
}

void ChunkPool::give(Chunk* chunk) noexcept {
  const auto index = static_cast<std::uint64_t>(chunk - chunks_);
  std::uint64_t top = top_.load(std::memory_order_relaxed);
  std::uint64_t wanted = 0;
  do {
    chunk->next_free.store(static_cast<std::uint32_t>(top & UINT32_MAX), std::memory_order_relaxed);
    wanted = ((top >> 32) + 1) << 32 | (index + 1);
  } while (!top_.compare_exchange_weak(top, wanted, std::memory_order_release,
                                       std::memory_order_relaxed));
}

void EarlyEvents::remove(std::size_t i) {
  for (; i + 1 < count_; ++i) events_[i] = events_[i + 1];
  --count_;
}

void EarlyEvents::add(const Event& event) {
  if (event.kind() == EventKind::kPhasePop) {
    // The innermost open phase ends; with its push it is history.
    for (std::size_t i = count_; i-- > 0;) {
      if (events_[i].kind() == EventKind::kPhasePush) {
        remove(i);
        return;
      }
    }
    return;
  }
  if (count_ == kCapacity) {
    // Make room: the oldest event that is no open phase, else the innermost open phase.
    std::size_t oldest = 0;
    while (oldest < kCapacity - 1 && events_[oldest].kind() == EventKind::kPhasePush) ++oldest;
    remove(oldest);
  }
  events_[count_++] = event;
}

bool ThreadLog::extend(ChunkPool& pool) noexcept {
  Chunk* fresh = pool.take();
  if (fresh == nullptr) {
    // The full chunk stays: its successor is linked from it.
    limit = 0;
    return false;
  }
  if (chunk == nullptr) {
    first.store(fresh, std::memory_order_release);
  } else {
    chunk->next.store(fresh, std::memory_order_release);
  }
  chunk = fresh;
  used = 0;
  limit = Chunk::kEvents;
  return true;
}

void ThreadLog::reset(ChunkPool& pool) noexcept {
  if (read_chunk == nullptr) read_chunk = first.load(std::memory_order_acquire);
  if (read_chunk != nullptr) pool.give(read_chunk);
  used = limit = 0;
  chunk = nullptr;
  first.store(nullptr, std::memory_order_relaxed);
  unreported.store(0, std::memory_order_relaxed);
  {
    const base::MutexLock lock(early_mutex);
    early.clear();
  }
  read_chunk = nullptr;
  read_position = 0;
  is_known = false;
  sequence = 0;
  key = INT64_MIN;
  state.store(LogState::kFree, std::memory_order_release);
}

}  // namespace levee::record
