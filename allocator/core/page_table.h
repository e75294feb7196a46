// Every physical page (handle) that is held, with its live bytes and the addresses it is mapped at.
//
// Owns: the `Page` records. A page is created once and kept until it is given back to the device.
// It may be mapped at several slots; while it holds live bytes exactly one of them owns it.
// Invariants (checked by `Space::validate`):
//   live_bytes == 0  <=>  owner is none ("wholly free")
//   a page has at most one slot in each zone (I13)
//   the owner is one of the page's usable slots
// Indices are reused after `remove`. Guarded by the pool lock.
#pragma once

#include <cstdint>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/base/small_vector.h"
#include "allocator/core/ids.h"
#include "allocator/core/stamp.h"

namespace levee::core {

/// One mapping of a page: its first slot. `usable` is false for a mapping that a failed operation
/// could neither finish nor take back; it is never handed out, and unmapped when that works again.
struct Mapping {
  Slot slot;
  bool usable = true;
};

/// What taking and giving back a page needs is one line of the processor's cache; the rest is in
/// the next.
struct alignas(64) Page {
  std::uint64_t live_bytes = 0;
  std::uint32_t units = 0;         ///< size, in units of the space; 0: this index is not in use
  ZoneIndex owner;                 ///< zone of the owning slot; none while wholly free
  PoolIndex holder;                ///< pool that used it last: whose reserved bytes it counts as
  PoolIndex pinned_to;             ///< captured pool that alone may use it; none: anybody may
  std::uint16_t withheld = 0;      ///< >0: an operation works on it, lock released; on no offer
  std::uint16_t slot_count = 0;    ///< mappings
  std::uint16_t prompt_slots = 0;  ///< those in zones that are told at once (zone_runs.h)
  bool is_bound : 1 = false;       ///< pinned or anchored: no stitch takes it however free it is
  bool is_untold : 1 = false;      ///< listed to be told to its deferred zones
  bool is_shown_deferred : 1 = false;  ///< what those zones have been told last
  /// Who has to hear of it when it changes between wholly free and in use (`Space::on_change`).
  std::uint8_t hearers = 0;
  StampSet stamps;              ///< of everything given back on it since one block covered it whole
  std::uint32_t prompt_at = 0;  ///< which mapping is in a prompt zone, if one alone is
  HandleId handle;              ///< {0} for a page of a cudaMalloc segment
  base::SmallVector<Mapping, 2> mappings;

  bool is_wholly_free() const { return live_bytes == 0; }
  bool is_anchored() const { return handle.value == 0; }  ///< cannot be mapped anywhere else
  static constexpr std::uint8_t kDeferredUnlisted = 1;    ///< deferred zones, and it is not listed
  static constexpr std::uint8_t kAPrompt = 2;             ///< a prompt zone
  static constexpr std::uint8_t kPrompts = 4;             ///< several of them
  /// After the counts of slots or `is_untold` have changed.
  void note_hearers() {
    hearers = 0;
    if (slot_count != prompt_slots && !is_untold) hearers |= kDeferredUnlisted;
    if (prompt_slots > 0) hearers |= kAPrompt;
    if (prompt_slots > 1) hearers |= kPrompts;
  }
  const Mapping* mapping_in(ZoneIndex zone) const {
    for (const Mapping& m : mappings) {
      if (m.slot.zone == zone) return &m;
    }
    return nullptr;
  }
};

static_assert(sizeof(Page) == 128, "two lines");

class PageTable {
 public:
  PageIndex add(HandleId handle, std::uint32_t units, PoolIndex holder) {
    PageIndex index;
    if (free_.empty()) {
      index.value = static_cast<std::uint32_t>(pages_.size());
      pages_.emplace_back();
    } else {
      index.value = free_.back();
      free_.pop_back();
    }
    Page& page = pages_[index.value];
    page.handle = handle;
    page.is_bound = page.is_anchored();
    page.units = units;
    page.holder = holder;
    ++count_;
    return index;
  }

  void remove(PageIndex index) {
    pages_[index.value] = Page{};
    free_.push_back(index.value);
    --count_;
  }

  Page& operator[](PageIndex index) { return pages_[index.value]; }
  const Page& operator[](PageIndex index) const { return pages_[index.value]; }

  std::uint32_t count() const { return count_; }
  /// One past the largest index; those with `units == 0` are not in use.
  std::uint32_t end() const { return static_cast<std::uint32_t>(pages_.size()); }

 private:
  std::vector<Page> pages_;
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

}  // namespace levee::core
