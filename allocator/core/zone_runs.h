// The free runs of one zone as their readers see them, kept in one of two ways.
//
// A *prompt* zone (primary, small, segment) is searched all the time: each change is made in its
// run index at once. A *deferred* zone (alias, former) is searched only when the primary has no
// run, once in some hundred requests of programs with steps, while the pages under a block have a
// dozen slots in such zones. So a change of a page between wholly free and in use is not told to
// them: the space lists the page, and whoever reads any deferred zone has the list told first, as
// one bit for each slot. What is free on pages that the zone itself owns is kept apart, at once.
// The two questions that every search of such zones asks (the shortest run that is long enough, the
// run at the end) are answered from bits and own bytes as they are; for all others the runs of both
// together are put into an index.
//
// Owns: a run index; of a deferred zone also the bits and the bytes on its own pages. Promises: a
// read of either kind finds the same runs, in the same order. Does not: know pages; `Space` says
// what is told. Guarded by the pool lock, reads too: those of a deferred zone bring it up to date.
// Cost: a slot told is 2 to 5 ns, `may_have` of a zone one comparison (its bound is raised when
// bits are set, and comes down with each look), a look about 2 ns for each run and word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <levee/units.h>

#include "allocator/core/ids.h"
#include "allocator/core/run_index.h"
#include "allocator/core/slot_bits.h"

namespace levee::core {

class Space;

class ZoneRuns {
 public:
  ZoneRuns() = default;
  /// `untold`: pages whose change the space has not told deferred zones yet.
  ZoneRuns(Space& space, const std::vector<PageIndex>& untold, bool is_deferred);

  // Reads, as of RunIndex.
  operator const RunIndex&() const { return view(); }  // NOLINT(google-explicit-constructor)
  std::size_t count() const { return view().count(); }
  Run at(std::size_t i) const { return view().at(i); }
  Bytes total() const { return view().total(); }
  Bytes longest() const { return view().longest(); }
  bool may_have(Bytes size) const {
    if (is_deferred_) {
      settle();
      raise_bound();
      return bound_ >= size.value;
    }
    return index_.may_have(size);
  }
  std::optional<std::size_t> lowest_fit(Bytes size, std::size_t from = 0) const {
    return view().lowest_fit(size, from);
  }
  std::optional<std::size_t> highest_fit(Bytes size, std::size_t below) const {
    return view().highest_fit(size, below);
  }
  std::optional<std::size_t> highest_fit(Bytes size) const { return view().highest_fit(size); }
  /// The shortest run of at least `size`; the lowest of several.
  std::optional<Run> best_run(Bytes size) const {
    if (is_deferred_) return best_deferred(size);
    const std::optional<std::size_t> found = index_.best_fit(size);
    return found ? std::optional<Run>{index_.at(*found)} : std::nullopt;
  }
  std::optional<Run> lowest_aligned(Bytes size, Bytes alignment) const {
    return view().lowest_aligned(size, alignment);
  }
  std::optional<Run> run_at(Bytes offset) const { return view().run_at(offset); }
  std::optional<Run> run_ending_at(Bytes offset) const {
    return is_deferred_ ? deferred_ending_at(offset) : index_.run_ending_at(offset);
  }
  bool contains(Run run) const { return view().contains(run); }

  // Changes, by the space.
  bool is_deferred() const { return is_deferred_; }
  /// Of a prompt zone.
  RunIndex& prompt() { return index_; }
  /// Of a deferred zone: free bytes on pages that it owns itself.
  void insert_own(Run run);
  void cut_own(Run run);
  const RunIndex& own() const { return own_; }
  /// Of a deferred zone: slots of a page that is, or is no longer, on offer as a whole.
  void show(std::uint32_t first, std::uint32_t units) {
    // One look for neighbours that are shown one after the other.
    if (first != shown_end_) raise_bound();
    bits_.set(first, units);
    shown_end_ = first + units;
    is_stale_ = true;
  }
  void hide(std::uint32_t first, std::uint32_t units) {
    raise_bound();
    bits_.clear(first, units);
    is_stale_ = true;
  }
  void cover(std::uint32_t end) { bits_.cover(end); }
  const SlotBits& bits() const { return bits_; }
  /// A prompt zone becomes a deferred one that holds nothing yet. Returns what it held.
  RunIndex defer();
  /// A deferred zone becomes a prompt one, with the same runs.
  void undefer();

  /// Checks index, bits and bound against each other; changes nothing.
  void validate() const;

 private:
  const RunIndex& view() const {
    if (is_deferred_) [[unlikely]]
      bring_up_to_date();
    return index_;
  }
  void settle() const {
    if (!untold_->empty()) tell();
  }
  void tell() const;
  void bring_up_to_date() const;
  void build(RunIndex& index) const;
  std::optional<Run> best_deferred(Bytes size) const;
  std::optional<Run> deferred_ending_at(Bytes offset) const;
  /// The run that free bytes of a deferred zone, all of its own or whole slots, are a part of.
  Run grown(Run part) const;
  void raise_bound() const {
    if (shown_end_ != 0) raise_bound_at(std::exchange(shown_end_, 0) - 1);
  }
  void raise_bound_at(std::uint32_t slot) const;
  std::uint32_t slot_at(Bytes offset) const {
    return static_cast<std::uint32_t>(offset.value >> unit_log2_);
  }

  Space* space_ = nullptr;
  const std::vector<PageIndex>* untold_ = nullptr;
  Bytes unit_;
  int unit_log2_ = 0;
  bool is_deferred_ = false;
  // Whether the index lags behind bits and own bytes.
  mutable bool is_stale_ = false;
  // One past the slots that were shown last and are not in the bound yet; 0: none.
  mutable std::uint32_t shown_end_ = 0;
  // At least the longest run of a deferred zone.
  mutable std::uint64_t bound_ = 0;
  SlotBits bits_;
  mutable RunIndex index_;
  RunIndex own_;
};

}  // namespace levee::core
