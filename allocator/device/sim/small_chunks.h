// Small cudaMalloc allocations, packed into 2 MiB chunks of one device, as the driver packs them.
//
// Owns the division of chunks, not their memory. Promises: first fit in the fullest chunk that has
// room; pieces are multiples of 512 B; neighbours merge when freed; an empty chunk is reported, so
// that its memory can go. Not thread-safe. Costs: O(log chunks + log pieces) and a scan of the free
// pieces of one chunk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <levee/units.h>

#include "allocator/device/sim/address_space.h"

namespace levee::device::sim {

inline constexpr Bytes kSmallLimit = 1_MiB;  ///< larger requests get memory of their own
inline constexpr Bytes kSmallUnit = 512_B;

/// One 2 MiB page cut into pieces.
class SmallChunk {
 public:
  explicit SmallChunk(DeviceAddr base) : base_(base) {
    free_.emplace(0, static_cast<std::uint32_t>(kPage.value));
  }

  DeviceAddr base() const { return base_; }
  std::uint32_t largest_free() const { return largest_free_; }
  bool is_empty() const { return live_.empty(); }
  std::size_t live_count() const { return live_.size(); }

  /// `bytes` is at most largest_free() and a multiple of kSmallUnit.
  DeviceAddr take(std::uint32_t bytes, std::uint32_t requested_bytes);
  /// False if no piece begins at `addr`.
  bool give_back(DeviceAddr addr);

  struct Piece {
    DeviceAddr addr;
    Bytes bytes;  ///< as requested
  };
  /// The live piece that contains `addr`; bytes is 0 if there is none.
  Piece find(DeviceAddr addr) const;

 private:
  struct Live {
    std::uint32_t bytes;
    std::uint32_t requested_bytes;
  };
  void update_largest();

  DeviceAddr base_;
  std::uint32_t largest_free_ = static_cast<std::uint32_t>(kPage.value);
  std::map<std::uint32_t, Live> live_;
  std::map<std::uint32_t, std::uint32_t> free_;  // offset -> bytes; no two adjacent
};

/// The chunks of a device that have room, by how much.
class SmallChunks {
 public:
  /// The chunk with the least room that has enough; null if none has.
  SmallChunk* choose(std::uint32_t bytes) const;
  void add(SmallChunk* chunk) { by_room_.emplace(chunk->largest_free(), chunk); }
  void remove(SmallChunk* chunk) { by_room_.erase({chunk->largest_free(), chunk}); }

 private:
  struct ByRoom {
    bool operator()(const std::pair<std::uint32_t, SmallChunk*>& a,
                    const std::pair<std::uint32_t, SmallChunk*>& b) const {
      // By address, not by pointer, so that the same program gets the same addresses every time.
      return a.first != b.first ? a.first < b.first : address(a.second) < address(b.second);
    }
    static std::uint64_t address(const SmallChunk* chunk) {
      return chunk == nullptr ? 0 : chunk->base().value;
    }
  };
  std::set<std::pair<std::uint32_t, SmallChunk*>, ByRoom> by_room_;
};

}  // namespace levee::device::sim
