// Where events wait for the writer: for each thread a chain of chunks, written by that thread alone
// and read by the writer alone.
//
// Owns the memory of all chunks, mapped once and touched as it is needed. Promises: storing an
// event never blocks, allocates or makes a system call; the writer sees a thread's events in order
// and completely, or their number where memory ran out. A log outlives its thread until the writer
// has read it, and is then given to another one.
//
//   thread:  chunk ──next──► chunk (events [0, used); `published` tells the writer)
//   writer:  ▲ reads at `read_position`, gives a chunk back to the pool when it has read all of it
//   and has its successor
//
//   kFree ──► kClaimed ──► kActive ──thread exits──► kExited ──writer has read everything──► kFree
//
// Thread safety: `ThreadLog`: as marked per field. `ChunkPool`: `take` from any thread, `give` from
// the writer. Costs: storing 2 ns; every 1022nd event takes a chunk (about 30 ns).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include <levee/event.h>
#include <levee/units.h>

#include "allocator/base/mutex.h"

namespace levee::record {

struct Chunk {
  static constexpr std::size_t kBytes = 32 << 10;
  static constexpr std::size_t kHeadBytes = 64;
  static constexpr std::uint32_t kEvents = (kBytes - kHeadBytes) / sizeof(Event);

  std::atomic<std::uint32_t> published{0};  ///< events that the writer may read
  std::atomic<std::uint32_t> next_free{0};  ///< in the pool: index + 1 of the chunk below
  std::atomic<Chunk*> next{nullptr};  ///< set by the thread before it stores into the successor
  alignas(kHeadBytes) std::byte
      storage[kEvents * sizeof(Event)];  ///< not initialised: a fresh chunk touches no page

  Event* events() { return std::launder(reinterpret_cast<Event*>(storage)); }
};
static_assert(sizeof(Chunk) == Chunk::kBytes);

/// Free chunks: a stack, so that the memory touched is that of the largest backlog.
class ChunkPool {
 public:
  explicit ChunkPool(Bytes memory);
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  bool has_memory() const { return chunks_ != nullptr; }
  std::uint32_t capacity() const { return count_; }
  /// An empty chunk; null if there is none. From any thread.
  Chunk* take() noexcept;
  void give(Chunk* chunk) noexcept;

 private:
  // Index + 1 of the chunk on top (0 = none), and a count of changes above it, so that a top that
  // comes back is not taken for one that never left.
  std::atomic<std::uint64_t> top_{0};
  std::atomic<std::uint32_t> fresh_{0};  // chunks from here on have never been used
  Chunk* chunks_ = nullptr;
  std::uint32_t count_ = 0;
};

enum class LogState : std::uint32_t { kFree, kClaimed, kActive, kExited };

/// What a thread did before the first device allocation of the process: the phases it is in, and
/// its latest few other events.
class EarlyEvents {
 public:
  static constexpr std::size_t kCapacity = 48;
  void add(const Event& event);
  std::size_t size() const { return count_; }
  const Event& operator[](std::size_t i) const { return events_[i]; }
  void clear() { count_ = 0; }

 private:
  void remove(std::size_t i);
  std::array<Event, kCapacity> events_{};
  std::size_t count_ = 0;
};

struct alignas(128) ThreadLog {
  // The owning thread's.
  std::uint32_t used = 0;   ///< events in `chunk`
  std::uint32_t limit = 0;  ///< room in `chunk`; 0 while there is none or recording has not begun:
                            ///< every event takes the slow path
  Chunk* chunk = nullptr;

  // Set by the owner, read by the writer.
  std::atomic<LogState> state{LogState::kFree};
  std::atomic<std::uint32_t> thread{0};  ///< index in the file; new for each owner
  std::atomic<std::uint64_t> os_id{0};
  std::atomic<Chunk*> first{nullptr};        ///< where the chain begins
  std::atomic<std::uint64_t> unreported{0};  ///< events lost since the last kLost

  // Before recording begins. The owner adds, the writer takes once.
  base::Mutex early_mutex;
  EarlyEvents early LEVEE_GUARDED_BY(early_mutex);

  // The writer's.
  Chunk* read_chunk = nullptr;
  std::uint32_t read_position = 0;
  bool is_known = false;       ///< the thread is defined in the file and its early events are taken
  std::uint64_t sequence = 0;  ///< of its next event
  std::int64_t key = INT64_MIN;

  /// Stores one event. Pre: used < limit.
  void store(const Event& event) noexcept {
    Event* const at = chunk->events() + used;
    // Chunks that the writer gave back are in its core's cache. Eight events ahead; what lies
    // behind the chunk is asked for in vain.
    __builtin_prefetch(reinterpret_cast<std::byte*>(at) + 8 * sizeof(Event), /*write=*/1);
    *at = event;
    chunk->published.store(++used, std::memory_order_release);
  }
  /// Gets room for more events. False if there is none.
  bool extend(ChunkPool& pool) noexcept;
  /// The writer is done with an exited owner.
  void reset(ChunkPool& pool) noexcept;
};

}  // namespace levee::record
