#include "allocator/core/chunk.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace levee::core {

void Chunk::reset(DeviceAddr at, ZoneIndex in_zone, Bytes offset, PoolIndex of_pool,
                  StreamIndex stream) {
  base = at;
  zone = in_zone;
  zone_offset = offset;
  pool = of_pool;
  home = stream;
  used_units = 0;
  live_count = 0;
  run_count = 1;
  run_begin[0] = 0;
  run_units[0] = kUnits;
  longest_units = kUnits;
  stamps.clear();
  for (auto& slab : slab_of_cell) slab.store(nullptr, std::memory_order_relaxed);
  range_at.fill(nullptr);
}

void Chunk::find_longest() {
  std::uint16_t longest = 0;
  for (std::uint32_t i = 0; i < run_count; ++i) longest = std::max(longest, run_units[i]);
  longest_units = longest;
}

// Moved by hand: there are few, and memmove alone costs a dozen nanoseconds.
void Chunk::remove_run(std::uint32_t i) {
  --run_count;
  for (; i < run_count; ++i) {
    run_begin[i] = run_begin[i + 1];
    run_units[i] = run_units[i + 1];
  }
}

void Chunk::insert_run(std::uint32_t i, std::uint32_t begin, std::uint32_t units) {
  LEVEE_CHECK_LT(run_count, kMostRuns);
  for (std::uint32_t k = run_count; k > i; --k) {
    run_begin[k] = run_begin[k - 1];
    run_units[k] = run_units[k - 1];
  }
  run_begin[i] = static_cast<std::uint16_t>(begin);
  run_units[i] = static_cast<std::uint16_t>(units);
  ++run_count;
}

std::optional<std::uint32_t> Chunk::find_aligned(std::uint32_t units,
                                                 std::uint32_t alignment_units) const {
  for (std::uint32_t i = 0; i < run_count; ++i) {
    const std::uint32_t begin =
        (run_begin[i] + alignment_units - 1) / alignment_units * alignment_units;
    if (begin + units <= static_cast<std::uint32_t>(run_begin[i]) + run_units[i]) return begin;
  }
  return std::nullopt;
}

bool Chunk::is_free(std::uint32_t begin, std::uint32_t units) const {
  for (std::uint32_t i = 0; i < run_count; ++i) {
    if (run_begin[i] <= begin &&
        begin + units <= static_cast<std::uint32_t>(run_begin[i]) + run_units[i]) {
      return true;
    }
  }
  return false;
}

void Chunk::take(std::uint32_t begin, std::uint32_t units) {
  // The last run that does not begin behind.
  const std::uint32_t after = first_at_least(run_begin.data(), run_count, begin + 1);
  LEVEE_CHECK_GT(after, 0U, "units of a chunk taken twice");
  const std::uint32_t i = after - 1;
  const std::uint32_t run_end = static_cast<std::uint32_t>(run_begin[i]) + run_units[i];
  LEVEE_CHECK(run_begin[i] <= begin && begin + units <= run_end, "units of a chunk taken twice");
  const std::uint32_t before = begin - run_begin[i];
  const std::uint32_t behind = run_end - begin - units;
  const bool was_longest = run_units[i] == longest_units;
  if (before == 0 && behind == 0) {
    remove_run(i);
  } else if (before == 0) {
    run_begin[i] = static_cast<std::uint16_t>(begin + units);
    run_units[i] = static_cast<std::uint16_t>(behind);
  } else {
    run_units[i] = static_cast<std::uint16_t>(before);
    if (behind != 0) insert_run(i + 1, begin + units, behind);
  }
  used_units += units;
  if (was_longest) find_longest();
}

void Chunk::give_back(std::uint32_t begin, std::uint32_t units) {
  const std::uint32_t i = first_at_least(run_begin.data(), run_count, begin);  // first behind
  const bool joins_next = i < run_count && begin + units == run_begin[i];
  const bool joins_previous =
      i > 0 && static_cast<std::uint32_t>(run_begin[i - 1]) + run_units[i - 1] == begin;
  LEVEE_DCHECK(i == run_count || begin + units <= run_begin[i], "units of a chunk freed twice");
  LEVEE_DCHECK(i == 0 || static_cast<std::uint32_t>(run_begin[i - 1]) + run_units[i - 1] <= begin,
               "units of a chunk freed twice");
  std::uint32_t merged = units;
  if (joins_previous && joins_next) {
    merged += run_units[i - 1];
    merged += run_units[i];
    run_units[i - 1] = static_cast<std::uint16_t>(merged);
    remove_run(i);
  } else if (joins_previous) {
    merged += run_units[i - 1];
    run_units[i - 1] = static_cast<std::uint16_t>(merged);
  } else if (joins_next) {
    merged += run_units[i];
    run_begin[i] = static_cast<std::uint16_t>(begin);
    run_units[i] = static_cast<std::uint16_t>(merged);
  } else {
    insert_run(i, begin, units);
  }
  used_units -= units;
  longest_units = std::max(longest_units, merged);
}

void Chunk::validate() const {
  std::uint32_t free_units = 0;
  std::uint32_t longest = 0;
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i < run_count; ++i) {
    LEVEE_CHECK_GT(run_units[i], 0);
    if (i > 0) LEVEE_CHECK_GT(static_cast<std::uint32_t>(run_begin[i]), end, "runs touch");
    end = static_cast<std::uint32_t>(run_begin[i]) + run_units[i];
    free_units += run_units[i];
    longest = std::max<std::uint32_t>(longest, run_units[i]);
  }
  LEVEE_CHECK_LE(end, kUnits);
  LEVEE_CHECK_EQ(longest, longest_units, "longest run of a chunk");
  LEVEE_CHECK_EQ(free_units + used_units, kUnits, "units of a chunk");
  std::uint32_t used = 0;
  std::uint32_t live = 0;
  for (const Slab* slab : slab_of_cell) {
    if (slab == nullptr) continue;
    used += static_cast<std::uint32_t>(kSlabBytes.value / 512);
    live += slab->live_count;
    std::uint32_t free_objects = 0;
    for (std::uint64_t bits : slab->free_bits) {
      free_objects += static_cast<std::uint32_t>(std::popcount(bits));
    }
    LEVEE_CHECK_EQ(free_objects + slab->live_count, slab->object_count, "objects of a slab");
    LEVEE_CHECK_EQ(slab->is_listed, slab->has_free(), "a slab with free objects is listed");
  }
  for (const BlockRecord* range : range_at) {
    if (range == nullptr) continue;
    used += static_cast<std::uint32_t>(range->span.value / 512);
    ++live;
  }
  LEVEE_CHECK_EQ(used, used_units, "what lies in a chunk");
  LEVEE_CHECK_EQ(live, live_count, "live blocks of a chunk");
}

}  // namespace levee::core
