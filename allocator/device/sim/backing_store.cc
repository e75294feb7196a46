#include "allocator/device/sim/backing_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/base/mutex.h"
#include "allocator/device/sim/gpu_model.h"

namespace levee::device::sim {

namespace {
constexpr std::size_t kPieceBytes = 4096;
using Piece = std::array<std::uint8_t, kPieceBytes>;
using Pieces = std::unordered_map<std::uint64_t,
                                  std::unique_ptr<Piece>>;  // by number inside the physical memory
}  // namespace

struct BackingStore::State {
  State(GpuModel& the_model, BackingStoreConfig the_config)
      : model(the_model), config(the_config) {}

  GpuModel& model;
  const BackingStoreConfig config;
  mutable base::Mutex mutex;
  std::unordered_map<std::uint64_t, Pieces> memories;  // by serial
  std::uint64_t piece_count = 0;
  std::uint64_t lost_bytes = 0;

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

  const Piece* find(std::uint64_t serial, std::uint64_t number) const {
    const auto memory = memories.find(serial);
    if (memory == memories.end()) return nullptr;
    const auto piece = memory->second.find(number);
    return piece == memory->second.end() ? nullptr : piece->second.get();
  }

  /// Null if the store is full.
  Piece* make(std::uint64_t serial, std::uint64_t number) {
    std::unique_ptr<Piece>& piece = memories[serial][number];
    if (piece == nullptr) {
      if ((piece_count + 1) * kPieceBytes > config.most_bytes.value) {
        memories[serial].erase(number);
        return nullptr;
      }
      piece = std::make_unique<Piece>();
      piece->fill(0);
      ++piece_count;
    }
    return piece.get();
  }

  void clear(std::uint64_t serial, std::uint64_t number, std::size_t inside, std::size_t count) {
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
    const auto memory = memories.find(span.serial);
    if (memory == memories.end()) return;
    const std::uint64_t begin = span.offset.value;
    const std::uint64_t end = begin + span.bytes.value;
    const std::uint64_t first_whole = (begin + kPieceBytes - 1) / kPieceBytes;
    const std::uint64_t end_whole = end / kPieceBytes;
    if (first_whole < end_whole) {
      Pieces& pieces = memory->second;
      const std::size_t before = pieces.size();
      if (end_whole - first_whole < before) {
        for (std::uint64_t number = first_whole; number < end_whole; ++number) pieces.erase(number);
      } else {
        std::erase_if(pieces, [&](const auto& piece) {
          return piece.first >= first_whole && piece.first < end_whole;
        });
      }
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
  /// beyond `kept`.
  template <typename Source>
  void store(const std::vector<GpuModel::PhysicalSpan>& spans, std::size_t kept, Source&& source) {
    const base::MutexLock lock(mutex);
    for_each_piece(spans, [&](std::uint64_t serial, std::uint64_t number, std::size_t inside,
                              std::size_t count, std::size_t done) {
      const std::size_t wanted = done < kept ? std::min(count, kept - done) : 0;
      lost_bytes += count - wanted;
      if (wanted < count) clear(serial, number, inside, count);
      if (wanted == 0) return;
      Piece* piece = make(serial, number);
      if (piece == nullptr) {
        lost_bytes += wanted;
        return;
      }
      source(done, wanted, piece->data() + inside);
    });
  }
};

BackingStore::BackingStore(GpuModel& model, BackingStoreConfig config)
    : state_(std::make_unique<State>(model, config)) {
  model.set_memory_gone_hook([state = state_.get()](std::uint64_t serial) {
    const base::MutexLock lock(state->mutex);
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
  const Bytes kept = state_->config.complete ? bytes : state_->config.kept_per_access;
  state_->store(spans, static_cast<std::size_t>(kept.value),
                [source](std::size_t done, std::size_t count, std::uint8_t* at) {
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
    const Piece* piece = state_->find(serial, number);
    if (piece == nullptr) {
      std::memset(target + done, 0, count);
    } else {
      std::memcpy(target + done, piece->data() + inside, count);
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
  const Bytes kept = state_->config.complete ? bytes : state_->config.kept_per_access;
  state_->store(spans, static_cast<std::size_t>(kept.value),
                [&unit](std::size_t done, std::size_t count, std::uint8_t* at) {
                  for (std::size_t i = 0; i < count; ++i) at[i] = unit[(done + i) % unit.size()];
                });
  return true;
}

bool BackingStore::copy(DeviceAddr to, DeviceAddr from, Bytes bytes) {
  const auto sources = state_->model.physical_spans(from, bytes);
  const auto targets = state_->model.physical_spans(to, bytes);
  if (sources.empty() || targets.empty()) return bytes.value == 0;
  // What the source holds is taken first, so that overlapping ranges are safe.
  struct Held {
    std::size_t begin;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<Held> held;
  const base::MutexLock lock(state_->mutex);
  State::for_each_piece(sources, [&](std::uint64_t serial, std::uint64_t number, std::size_t inside,
                                     std::size_t count, std::size_t done) {
    const Piece* piece = state_->find(serial, number);
    if (piece == nullptr) return;
    const std::uint8_t* first = piece->data() + inside;
    held.push_back(Held{done, std::vector<std::uint8_t>(first, first + count)});
  });
  auto next = held.begin();
  State::for_each_piece(targets, [&](std::uint64_t serial, std::uint64_t number, std::size_t inside,
                                     std::size_t count, std::size_t done) {
    state_->clear(serial, number, inside, count);
    while (next != held.end() && next->begin + next->bytes.size() <= done) ++next;
    Piece* piece = nullptr;
    for (auto it = next; it != held.end() && it->begin < done + count; ++it) {
      if (piece == nullptr) piece = state_->make(serial, number);
      const std::size_t begin = std::max(it->begin, done);
      const std::size_t end = std::min(it->begin + it->bytes.size(), done + count);
      if (piece == nullptr) {
        state_->lost_bytes += end - begin;
        continue;
      }
      std::memcpy(piece->data() + inside + (begin - done), it->bytes.data() + (begin - it->begin),
                  end - begin);
    }
  });
  return true;
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
