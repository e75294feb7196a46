#include "allocator/device/sim/backing_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/base/mutex.h"
#include "allocator/device/sim/gpu_model.h"

namespace levee::device::sim {

namespace {
constexpr std::size_t kPieceBytes = 4096;
constexpr std::uint64_t kShareOfSmall = 8;  // one part in so many
using Piece = std::array<std::uint8_t, kPieceBytes>;
// By number inside the physical memory, in order: what a range holds is found without asking for
// each piece that it could hold.
using Pieces = std::map<std::uint64_t, std::unique_ptr<Piece>>;
struct Shared {
  std::shared_ptr<std::uint8_t[]> contents;
  std::uint64_t bytes = 0;
  std::uint8_t* piece(std::uint64_t number) const { return contents.get() + number * kPieceBytes; }
};

/// Zeros in memory that is mapped from a file: its whole pages are given back instead of written.
void clear_shared(std::uint8_t* begin, std::size_t count) {
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (at + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  const std::uintptr_t last = (at + count) / kPieceBytes * kPieceBytes;
  if (first < last && madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) == 0) {
    std::memset(begin, 0, first - at);
    std::memset(reinterpret_cast<void*>(last), 0, at + count - last);
    return;
  }
  std::memset(begin, 0, count);
}
}  // namespace

struct BackingStore::State {
  State(GpuModel& the_model, BackingStoreConfig the_config)
      : model(the_model), config(the_config) {}

  GpuModel& model;
  const BackingStoreConfig config;
  mutable base::Mutex mutex;
  std::unordered_map<std::uint64_t, Pieces> memories;  // by serial
  std::unordered_map<std::uint64_t, Shared> shared;    // likewise; none of them has pieces
  std::uint64_t piece_count = 0;
  std::uint64_t lost_bytes = 0;
  bool has_run_out = false;
  std::atomic<bool> has_told{false};

  bool is_small(Bytes access) const { return access <= config.small; }
  /// After each access, when the mutex is free again.
  void tell_first_loss(bool ran_out) {
    if (!ran_out || has_told.exchange(true, std::memory_order_relaxed)) return;
    if (config.on_first_loss) config.on_first_loss();
  }

  /// Calls visit(pieces of the memory, piece number, offset in it, count, bytes so far) along the
  /// range.
  template <typename Visit>
  static void for_each_piece(const std::vector<GpuModel::PhysicalSpan>& spans, Visit&& visit) {
    std::size_t done = 0;
    for (const GpuModel::PhysicalSpan& span : spans) {
      std::uint64_t at = span.offset.value;
      const std::uint64_t end = at + span.bytes.value;
      while (at < end) {
        const auto inside = static_cast<std::size_t>(at % kPieceBytes);
        const std::size_t count =
            std::min<std::size_t>(kPieceBytes - inside, static_cast<std::size_t>(end - at));
        visit(span.serial, at / kPieceBytes, inside, count, done);
        done += count;
        at += count;
      }
    }
  }

  /// Calls visit(bytes so far, contents, count) for each part of the range that is held, in order,
  /// until it returns false.
  template <typename Visit>
  void for_each_held(const std::vector<GpuModel::PhysicalSpan>& spans, Visit&& visit) const {
    std::size_t done = 0;
    for (const GpuModel::PhysicalSpan& span : spans) {
      const std::uint64_t begin = span.offset.value;
      const std::uint64_t end = begin + span.bytes.value;
      if (const Shared* known = find_shared(span.serial)) {
        if (!visit(done, known->contents.get() + begin, static_cast<std::size_t>(end - begin)))
          return;
      } else if (const auto memory = memories.find(span.serial); memory != memories.end()) {
        for (auto at = memory->second.lower_bound(begin / kPieceBytes);
             at != memory->second.end() && at->first * kPieceBytes < end; ++at) {
          const std::uint64_t first = std::max(begin, at->first * kPieceBytes);
          const std::uint64_t last = std::min(end, (at->first + 1) * kPieceBytes);
          if (!visit(done + static_cast<std::size_t>(first - begin),
                     at->second->data() + (first - at->first * kPieceBytes),
                     static_cast<std::size_t>(last - first)))
            return;
        }
      }
      done += static_cast<std::size_t>(span.bytes.value);
    }
  }

  const Shared* find_shared(std::uint64_t serial) const {
    if (shared.empty()) return nullptr;
    const auto at = shared.find(serial);
    return at == shared.end() ? nullptr : &at->second;
  }

  const std::uint8_t* find(std::uint64_t serial, std::uint64_t number) const {
    if (const Shared* known = find_shared(serial)) return known->piece(number);
    const auto memory = memories.find(serial);
    if (memory == memories.end()) return nullptr;
    const auto piece = memory->second.find(number);
    return piece == memory->second.end() ? nullptr : piece->second->data();
  }

  /// Null if the store is full: for large accesses when only the share of the small ones is left.
  std::uint8_t* make(std::uint64_t serial, std::uint64_t number, bool is_small) {
    if (const Shared* known = find_shared(serial)) return known->piece(number);
    std::unique_ptr<Piece>& piece = memories[serial][number];
    if (piece == nullptr) {
      const std::uint64_t most = config.most_bytes.value;
      if ((piece_count + 1) * kPieceBytes > (is_small ? most : most - most / kShareOfSmall)) {
        memories[serial].erase(number);
        has_run_out = true;
        return nullptr;
      }
      piece = std::make_unique<Piece>();  // zeros
      ++piece_count;
    }
    return piece->data();
  }

  void clear(std::uint64_t serial, std::uint64_t number, std::size_t inside, std::size_t count) {
    if (const Shared* known = find_shared(serial)) {
      clear_shared(known->piece(number) + inside, count);
      return;
    }
    const auto memory = memories.find(serial);
    if (memory == memories.end()) return;
    const auto piece = memory->second.find(number);
    if (piece == memory->second.end()) return;
    if (count == kPieceBytes) {
      memory->second.erase(piece);
      --piece_count;
    } else {
      std::memset(piece->second->data() + inside, 0, count);
    }
  }

  /// As `clear` for a whole span. Large spans of little-used memory (a zeroed gradient) cost what
  /// the memory holds, not what the span could hold.
  void clear_span(const GpuModel::PhysicalSpan& span) {
    if (const Shared* known = find_shared(span.serial)) {
      clear_shared(known->contents.get() + span.offset.value,
                   static_cast<std::size_t>(span.bytes.value));
      return;
    }
    const auto memory = memories.find(span.serial);
    if (memory == memories.end()) return;
    const std::uint64_t begin = span.offset.value;
    const std::uint64_t end = begin + span.bytes.value;
    const std::uint64_t first_whole = (begin + kPieceBytes - 1) / kPieceBytes;
    const std::uint64_t end_whole = end / kPieceBytes;
    if (first_whole < end_whole) {
      Pieces& pieces = memory->second;
      const std::size_t before = pieces.size();
      pieces.erase(pieces.lower_bound(first_whole), pieces.lower_bound(end_whole));
      piece_count -= before - pieces.size();
    }
    // The pieces that the span covers in part: at its begin, and at its end if that is another one.
    const auto clear_part = [&](std::uint64_t from, std::uint64_t to) {
      if (from < to) clear(span.serial, from / kPieceBytes, from % kPieceBytes, to - from);
    };
    if (begin / kPieceBytes == end / kPieceBytes) {
      clear_part(begin, end);
      return;
    }
    clear_part(begin, first_whole * kPieceBytes);
    clear_part(end_whole * kPieceBytes, end);
  }

  /// Gives each byte of the range the value that `source(bytes so far, count, to)` writes; zero
  /// beyond what is kept of one access.
  template <typename Source>
  void store(const std::vector<GpuModel::PhysicalSpan>& spans, Bytes bytes, Source&& source) {
    tell_first_loss(store_locked(spans, bytes, std::forward<Source>(source)));
  }

  /// Whether the store has run out of room.
  template <typename Source>
  bool store_locked(const std::vector<GpuModel::PhysicalSpan>& spans, Bytes bytes,
                    Source&& source) {
    const auto kept = static_cast<std::size_t>(
        config.complete ? bytes.value : std::min(bytes, config.kept_per_access).value);
    const base::MutexLock lock(mutex);
    for_each_piece(spans, [&](std::uint64_t serial, std::uint64_t number, std::size_t inside,
                              std::size_t count, std::size_t done) {
      const std::size_t wanted = done < kept ? std::min(count, kept - done) : 0;
      lost_bytes += count - wanted;
      if (wanted < count) clear(serial, number, inside, count);
      if (wanted == 0) return;
      std::uint8_t* piece = make(serial, number, is_small(bytes));
      if (piece == nullptr) {
        lost_bytes += wanted;
        return;
      }
      source(done, wanted, piece + inside);
    });
    return has_run_out;
  }

  bool copy(const std::vector<GpuModel::PhysicalSpan>& targets,
            const std::vector<GpuModel::PhysicalSpan>& sources, Bytes bytes);
};

BackingStore::BackingStore(GpuModel& model, BackingStoreConfig config)
    : state_(std::make_unique<State>(model, config)) {
  model.set_memory_gone_hook([state = state_.get()](std::uint64_t serial) {
    const base::MutexLock lock(state->mutex);
    state->shared.erase(serial);
    const auto memory = state->memories.find(serial);
    if (memory == state->memories.end()) return;
    state->piece_count -= memory->second.size();
    state->memories.erase(memory);
  });
}

BackingStore::~BackingStore() {
  state_->model.set_memory_gone_hook({});
}

bool BackingStore::write(DeviceAddr to, const void* from, Bytes bytes) {
  const auto spans = state_->model.physical_spans(to, bytes);
  if (spans.empty()) return bytes.value == 0;
  const auto* source = static_cast<const std::uint8_t*>(from);
  state_->store(spans, bytes, [source](std::size_t done, std::size_t count, std::uint8_t* at) {
    std::memcpy(at, source + done, count);
  });
  return true;
}

bool BackingStore::read(void* to, DeviceAddr from, Bytes bytes) const {
  const auto spans = state_->model.physical_spans(from, bytes);
  if (spans.empty()) return bytes.value == 0;
  auto* target = static_cast<std::uint8_t*>(to);
  const base::MutexLock lock(state_->mutex);
  State::for_each_piece(spans, [&](std::uint64_t serial, std::uint64_t number, std::size_t inside,
                                   std::size_t count, std::size_t done) {
    const std::uint8_t* piece = state_->find(serial, number);
    if (piece == nullptr) {
      std::memset(target + done, 0, count);
    } else {
      std::memcpy(target + done, piece + inside, count);
    }
  });
  return true;
}

bool BackingStore::fill(DeviceAddr to, std::uint8_t value, Bytes bytes) {
  return fill_pattern(to, value, 1, bytes);
}

bool BackingStore::fill_pattern(DeviceAddr to, std::uint32_t pattern, std::size_t pattern_bytes,
                                Bytes bytes) {
  if ((pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4) ||
      bytes.value % pattern_bytes != 0)
    return false;
  const auto spans = state_->model.physical_spans(to, bytes);
  if (spans.empty()) return bytes.value == 0;
  if (pattern == 0) {
    const base::MutexLock lock(state_->mutex);
    for (const GpuModel::PhysicalSpan& span : spans) state_->clear_span(span);
    return true;
  }
  std::array<std::uint8_t, 4> unit{};
  for (std::size_t i = 0; i < unit.size(); ++i) {
    unit[i] = static_cast<std::uint8_t>(pattern >> (8 * (i % pattern_bytes)));
  }
  state_->store(spans, bytes, [&unit](std::size_t done, std::size_t count, std::uint8_t* at) {
    for (std::size_t i = 0; i < count; ++i) at[i] = unit[(done + i) % unit.size()];
  });
  return true;
}

bool BackingStore::copy(DeviceAddr to, DeviceAddr from, Bytes bytes) {
  const auto sources = state_->model.physical_spans(from, bytes);
  const auto targets = state_->model.physical_spans(to, bytes);
  if (sources.empty() || targets.empty()) return bytes.value == 0;
  state_->tell_first_loss(state_->copy(targets, sources, bytes));
  return true;
}

/// Whether the store has run out of room.
bool BackingStore::State::copy(const std::vector<GpuModel::PhysicalSpan>& targets,
                               const std::vector<GpuModel::PhysicalSpan>& sources, Bytes bytes) {
  // What the source holds is taken first, so that overlapping ranges are safe.
  struct Held {
    std::size_t begin;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<Held> held;
  const base::MutexLock lock(mutex);
  for_each_held(sources, [&](std::size_t done, const std::uint8_t* first, std::size_t count) {
    held.push_back(Held{done, std::vector<std::uint8_t>(first, first + count)});
    return true;
  });
  for (const GpuModel::PhysicalSpan& target : targets) clear_span(target);
  std::size_t span_begin = 0;
  auto span = targets.begin();
  for (const Held& part : held) {
    for (std::size_t at = part.begin, end = part.begin + part.bytes.size(); at < end;) {
      while (at - span_begin >= span->bytes.value) span_begin += (span++)->bytes.value;
      const std::uint64_t offset = span->offset.value + (at - span_begin);
      const auto inside = static_cast<std::size_t>(offset % kPieceBytes);
      const std::size_t count =
          std::min({end - at, kPieceBytes - inside,
                    static_cast<std::size_t>(span->bytes.value) - (at - span_begin)});
      if (std::uint8_t* piece = make(span->serial, offset / kPieceBytes, is_small(bytes))) {
        std::memcpy(piece + inside, part.bytes.data() + (at - part.begin), count);
      } else {
        lost_bytes += count;
      }
      at += count;
    }
  }
  return has_run_out;
}

bool BackingStore::holds(DeviceAddr from, Bytes bytes) const {
  const auto spans = state_->model.physical_spans(from, bytes);
  bool found = false;
  const base::MutexLock lock(state_->mutex);
  state_->for_each_held(spans, [&found](std::size_t, const std::uint8_t*, std::size_t) {
    found = true;
    return false;
  });
  return found;
}

void BackingStore::share(std::uint64_t serial, std::shared_ptr<std::uint8_t[]> contents,
                         Bytes bytes, bool keep_ours) {
  const base::MutexLock lock(state_->mutex);
  if (const auto memory = state_->memories.find(serial); memory != state_->memories.end()) {
    for (const auto& [number, piece] : memory->second) {
      if (keep_ours && (number + 1) * kPieceBytes <= bytes.value)
        std::memcpy(contents.get() + number * kPieceBytes, piece->data(), kPieceBytes);
    }
    state_->piece_count -= memory->second.size();
    state_->memories.erase(memory);
  }
  state_->shared[serial] = Shared{std::move(contents), bytes.value};
}

Bytes BackingStore::held() const {
  const base::MutexLock lock(state_->mutex);
  return Bytes{state_->piece_count * kPieceBytes};
}

Bytes BackingStore::lost() const {
  const base::MutexLock lock(state_->mutex);
  return Bytes{state_->lost_bytes};
}

}  // namespace levee::device::sim
