#include "allocator/core/run_index.h"

#include <algorithm>

#include "allocator/base/check.h"
#include "allocator/core/mutants.h"

namespace levee::core {

std::size_t RunIndex::first_after_slow(std::uint64_t offset) const {
  return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), offset) -
                                  begins_.begin());
}

void RunIndex::erase(std::size_t i) {
  begins_.erase(begins_.begin() + static_cast<std::ptrdiff_t>(i));
  sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(i));
}

void RunIndex::insert_at(std::size_t i, std::uint64_t begin, std::uint64_t size) {
  begins_.insert(begins_.begin() + static_cast<std::ptrdiff_t>(i), begin);
  sizes_.insert(sizes_.begin() + static_cast<std::ptrdiff_t>(i), size);
}

void RunIndex::insert(Run run) {
  if (run.size.value == 0) return;
  const std::uint64_t begin = run.begin.value;
  const std::uint64_t size = run.size.value;
  const std::size_t next = first_after(begin);
  const bool joins_next = next < count() && begin + size == begins_[next];
  const bool joins_previous = next > 0 && begins_[next - 1] + sizes_[next - 1] == begin;
  LEVEE_DCHECK(next == count() || begin + size <= begins_[next], "run freed twice at ", begin);
  LEVEE_DCHECK(next == 0 || begins_[next - 1] + sizes_[next - 1] <= begin, "run freed twice at ",
               begin);
  std::uint64_t merged = size;
  hint_ = joins_previous ? next - 1 : next;
  if (joins_previous && joins_next) {
    merged = sizes_[next - 1] += size + sizes_[next];
    erase(next);
  } else if (joins_previous) {
    merged = sizes_[next - 1] += size;
  } else if (joins_next) {
    begins_[next] = begin;
    merged = sizes_[next] += size;
  } else {
    insert_at(next, begin, size);
  }
  total_ += size;
  if (merged >= longest_bound_) {
    longest_bound_ = merged;
    longest_exact_ = true;
  }
}

void RunIndex::cut(Run run) {
  if (run.size.value == 0 || mutated(Mutant::kNoCut)) return;
  const std::uint64_t begin = run.begin.value;
  const std::uint64_t size = run.size.value;
  const std::size_t after = first_after(begin);
  LEVEE_CHECK_GT(after, 0U, "cut of bytes that are not free, at ", begin);
  const std::size_t i = after - 1;
  hint_ = i;
  const std::uint64_t run_begin = begins_[i];
  const std::uint64_t run_size = sizes_[i];
  const std::uint64_t before = begin - run_begin;
  LEVEE_CHECK_LE(before + size, run_size, "cut of bytes that are not free, at ", begin);
  const std::uint64_t behind = run_size - before - size;
  if (before == 0 && behind == 0) {
    erase(i);
  } else if (before == 0) {
    begins_[i] = begin + size;
    sizes_[i] = behind;
  } else {
    sizes_[i] = before;
    if (behind != 0) insert_at(i + 1, begin + size, behind);
  }
  total_ -= size;
  if (run_size == longest_bound_) longest_exact_ = false;
}

void RunIndex::clear() {
  begins_.clear();
  sizes_.clear();
  total_ = 0;
  longest_bound_ = 0;
  longest_exact_ = true;
}

void RunIndex::append(Run run) {
  const std::uint64_t begin = run.begin.value;
  if (!begins_.empty() && begins_.back() + sizes_.back() == begin) {
    sizes_.back() += run.size.value;
  } else {
    LEVEE_DCHECK(begins_.empty() || begins_.back() + sizes_.back() < begin, "a run at ", begin,
                 " is no longer the last");
    begins_.push_back(begin);
    sizes_.push_back(run.size.value);
  }
  total_ += run.size.value;
  longest_bound_ = std::max(longest_bound_, sizes_.back());
}

Bytes RunIndex::longest() const {
  if (!longest_exact_) {
    longest_bound_ = sizes_.empty() ? 0 : *std::max_element(sizes_.begin(), sizes_.end());
    longest_exact_ = true;
  }
  return Bytes{longest_bound_};
}

std::optional<std::size_t> RunIndex::lowest_fit(Bytes size, std::size_t from) const {
  if (!may_have(size)) return std::nullopt;
  const std::size_t n = sizes_.size();
  const std::uint64_t* sizes = sizes_.data();
  for (std::size_t i = from; i < n; ++i) {
    if (sizes[i] >= size.value) return hint_ = i;
  }
  if (from == 0) longest();  // the bound was too high: the next search fails at once
  return std::nullopt;
}

std::optional<std::size_t> RunIndex::highest_fit(Bytes size, std::size_t below) const {
  if (!may_have(size)) return std::nullopt;
  const std::uint64_t* sizes = sizes_.data();
  for (std::size_t i = below; i-- > 0;) {
    if (sizes[i] >= size.value) return hint_ = i;
  }
  if (below == count()) longest();
  return std::nullopt;
}

std::optional<std::size_t> RunIndex::best_fit(Bytes size) const {
  if (!may_have(size)) return std::nullopt;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] >= size.value && (!best || sizes_[i] < sizes_[*best])) best = i;
  }
  if (!best) longest();
  return best;
}

std::optional<Run> RunIndex::lowest_aligned(Bytes size, Bytes alignment) const {
  if (!may_have(size)) return std::nullopt;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] < size.value) continue;
    const Bytes begin = round_up(Bytes{begins_[i]}, alignment);
    if (begin.value + size.value <= begins_[i] + sizes_[i]) return Run{begin, size};
  }
  return std::nullopt;
}

std::optional<Run> RunIndex::run_at(Bytes offset) const {
  const std::size_t after = first_after(offset.value);
  if (after == 0) return std::nullopt;
  const Run run = at(after - 1);
  return offset < run.end() ? std::optional<Run>{run} : std::nullopt;
}

std::optional<Run> RunIndex::run_ending_at(Bytes offset) const {
  if (offset.value == 0) return std::nullopt;
  const std::optional<Run> run = run_at(offset - 1_B);
  return run && run->end() == offset ? run : std::nullopt;
}

bool RunIndex::contains(Run run) const {
  const std::optional<Run> found = run_at(run.begin);
  return found && run.end() <= found->end();
}

void RunIndex::reserve(std::size_t runs) {
  begins_.reserve(runs);
  sizes_.reserve(runs);
}

void RunIndex::validate() const {
  LEVEE_CHECK_EQ(begins_.size(), sizes_.size());
  std::uint64_t total = 0;
  std::uint64_t longest_run = 0;
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    LEVEE_CHECK_GT(sizes_[i], 0U, "an empty run at ", begins_[i]);
    if (i > 0) {
      LEVEE_CHECK_LT(begins_[i - 1] + sizes_[i - 1], begins_[i], "runs touch or overlap");
    }
    total += sizes_[i];
    longest_run = std::max(longest_run, sizes_[i]);
  }
  LEVEE_CHECK_EQ(total, total_, "sum of runs");
  LEVEE_CHECK_LE(longest_run, longest_bound_, "bound of the longest run");
  if (longest_exact_) LEVEE_CHECK_EQ(longest_run, longest_bound_, "longest run");
}

}  // namespace levee::core
