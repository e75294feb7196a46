#include "allocator/record/name_table.h"

#include "allocator/record/trace_format.h"

namespace levee::record {
namespace {

// The last lanes are kept for the "other streams" of devices.
constexpr std::uint32_t kMaxLanes = 65535 - 64;
constexpr std::uint32_t kMaxPools = 65535;

}  // namespace

template <typename T>
const NameTable::Entry& NameTable::add_locked(const T& what) {
  ByteWriter bytes;
  put_definition(what, bytes);
  return entries_.emplace_back(bytes.bytes().begin(), bytes.bytes().end());
}

LaneId NameTable::lane_of(DeviceId device, StreamId stream, bool is_cupti_number) {
  const LaneKey key{is_cupti_number, {device, stream}};
  const base::MutexLock lock(mutex_);
  const auto found = lanes_.find(key);
  if (found != lanes_.end()) return found->second;
  TraceLane lane{{}, device, stream, false, is_cupti_number};
  if (lane_count_ < kMaxLanes) {
    lane.id = LaneId{static_cast<std::uint16_t>(lane_count_++)};
    lanes_.emplace(key, lane.id);
  } else {
    const auto other = other_lanes_.find(device);
    if (other != other_lanes_.end()) return other->second;
    const std::size_t index = kMaxLanes + other_lanes_.size();
    if (index > UINT16_MAX) return LaneId{};
    lane = {LaneId{static_cast<std::uint16_t>(index)}, device, {}, true, false};
    other_lanes_.emplace(device, lane.id);
  }
  lane_list_.push_back(lane);
  add_locked(lane);
  return lane.id;
}

std::vector<TraceLane> NameTable::lanes() const {
  const base::MutexLock lock(mutex_);
  return lane_list_;
}

std::uint16_t NameTable::pool(PoolId pool) {
  if (pool.is_default()) return 0;
  const base::MutexLock lock(mutex_);
  const auto found = pools_.find(pool);
  if (found != pools_.end()) return found->second;
  if (pools_.size() >= kMaxPools) return 0;
  const auto index = static_cast<std::uint16_t>(pools_.size() + 1);
  pools_.emplace(pool, index);
  add_locked(TracePool{index, pool});
  return index;
}

ContextId NameTable::text(std::string_view text, ContextKind kind) {
  text = text.substr(0, kMaxTextBytes);
  const base::MutexLock lock(mutex_);
  auto& known = texts_[kind];
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  if (text_count_ >= kMaxContexts || text_bytes_ + Bytes{text.size()} > most_text_) {
    has_run_out_ = true;
    return {};
  }
  const ContextId id{++text_count_};
  text_bytes_ += Bytes{text.size()};
  const Entry& entry = add_locked(TraceContext{id, kind, text});
  // The text ends its entry.
  known.emplace(
      std::string_view(reinterpret_cast<const char*>(entry.data() + entry.size() - text.size()),
                       text.size()),
      id);
  return id;
}

void NameTable::describe(const TraceDevice& device) {
  const base::MutexLock lock(mutex_);
  add_locked(device);
}
void NameTable::describe(const TraceThread& thread) {
  const base::MutexLock lock(mutex_);
  add_locked(thread);
}

bool NameTable::has_run_out() const {
  const base::MutexLock lock(mutex_);
  return has_run_out_;
}

std::vector<std::span<const std::uint8_t>> NameTable::take_new() {
  const base::MutexLock lock(mutex_);
  std::vector<std::span<const std::uint8_t>> fresh;
  for (; taken_ < entries_.size(); ++taken_) fresh.emplace_back(entries_[taken_]);
  return fresh;
}

}  // namespace levee::record
