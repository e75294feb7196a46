#include "bench/replay/policies/simple_policies.h"

#include <algorithm>

namespace levee::replay {

namespace {
bool fits(Bytes total, Limits limits) {
  return limits.capacity.value == 0 || total <= limits.capacity;
}

void remember(std::vector<Bytes>& sizes, std::uint32_t id, Bytes bytes) {
  if (sizes.size() <= id) sizes.resize(id + 1);
  sizes[id] = bytes;
}
}  // namespace

bool PlainMalloc::allocate(std::uint32_t id, Bytes requested, std::uint16_t /*stream*/) {
  const Bytes bytes = round_up(requested, 2_MiB);
  if (!fits(reserved_ + bytes, limits_)) return false;
  remember(size_, id, bytes);
  reserved_ += bytes;
  peak_ = std::max(peak_, reserved_);
  ++costs_.mallocs;
  return true;
}

void PlainMalloc::free(std::uint32_t id) {
  reserved_ -= size_[id];
  ++costs_.frees;
}

bool LowerBound::allocate(std::uint32_t id, Bytes requested, std::uint16_t /*stream*/) {
  for (; !waiting_.empty() && waiting_.front().until <= requests_; waiting_.pop_front())
    in_use_ -= waiting_.front().bytes;
  ++requests_;
  const Bytes bytes = round_up(requested, 512_B);
  if (!fits(round_up(in_use_ + bytes, 2_MiB), limits_)) return false;
  remember(size_, id, bytes);
  in_use_ += bytes;
  const Bytes needed = round_up(in_use_, 2_MiB);
  if (needed > reserved_) {
    costs_.created += (needed - reserved_) / 2_MiB;
    reserved_ = needed;
  }
  return true;
}

void LowerBound::free(std::uint32_t id) {
  if (id < used_elsewhere_.size() && used_elsewhere_[id]) {
    waiting_.push_back({requests_ + kHostAhead, size_[id]});
  } else {
    in_use_ -= size_[id];
  }
}

void LowerBound::record_use(std::uint32_t id, std::uint16_t /*stream*/) {
  if (used_elsewhere_.size() <= id) used_elsewhere_.resize(std::size_t{id} + 1);
  used_elsewhere_[id] = true;
}

}  // namespace levee::replay
