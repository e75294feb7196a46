#include "allocator/activity/record_translator.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "allocator/base/clock.h"

namespace levee::activity {
namespace {

// CUPTI's number of the legacy default stream in every context, as every trace of a profiler shows
// it.
constexpr std::uint32_t kDefaultStream = 7;

// A change of the host's calendar clock, which CUPTI's follows, shows as a jump against ours. Rates
// differ by less.
constexpr std::int64_t kJump = 1'000'000;

// The fields used have not moved between the versions of a record; the newest ones of CUDA 13 prove
// it.
using KernelRecord = CUpti_ActivityKernel4;
using CopyRecord = CUpti_ActivityMemcpy;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP;
using MemsetRecord = CUpti_ActivityMemset;
#if CUPTI_API_VERSION >= 130000
static_assert(offsetof(KernelRecord, start) == offsetof(CUpti_ActivityKernel10, start));
static_assert(offsetof(KernelRecord, deviceId) == offsetof(CUpti_ActivityKernel10, deviceId));
static_assert(offsetof(KernelRecord, streamId) == offsetof(CUpti_ActivityKernel10, streamId));
static_assert(offsetof(KernelRecord, correlationId) ==
              offsetof(CUpti_ActivityKernel10, correlationId));
static_assert(offsetof(KernelRecord, name) == offsetof(CUpti_ActivityKernel10, name));
static_assert(offsetof(CopyRecord, bytes) == offsetof(CUpti_ActivityMemcpy6, bytes));
static_assert(offsetof(CopyRecord, start) == offsetof(CUpti_ActivityMemcpy6, start));
static_assert(offsetof(CopyRecord, deviceId) == offsetof(CUpti_ActivityMemcpy6, deviceId));
static_assert(offsetof(CopyRecord, streamId) == offsetof(CUpti_ActivityMemcpy6, streamId));
static_assert(offsetof(PeerCopyRecord, bytes) == offsetof(CUpti_ActivityMemcpyPtoP4, bytes));
static_assert(offsetof(PeerCopyRecord, start) == offsetof(CUpti_ActivityMemcpyPtoP4, start));
static_assert(offsetof(PeerCopyRecord, streamId) == offsetof(CUpti_ActivityMemcpyPtoP4, streamId));
static_assert(offsetof(MemsetRecord, bytes) == offsetof(CUpti_ActivityMemset4, bytes));
static_assert(offsetof(MemsetRecord, start) == offsetof(CUpti_ActivityMemset4, start));
static_assert(offsetof(MemsetRecord, deviceId) == offsetof(CUpti_ActivityMemset4, deviceId));
static_assert(offsetof(MemsetRecord, streamId) == offsetof(CUpti_ActivityMemset4, streamId));
#endif

// cudaMemcpyKind.
std::uint16_t copy_kind(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return 1;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return 2;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return 0;
    default:
      return 3;
  }
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

// The record as the type of its kind: CUPTI writes it as such, aligned for it.
template <typename T>
const T& as(const CUpti_Activity& record) {
  return *reinterpret_cast<const T*>(&record);
}

}  // namespace

RecordTranslator::RecordTranslator(record::TraceRecorder& recorder, const CuptiLibrary& cupti)
    : recorder_(recorder), cupti_(cupti), clock_(false) {
  align_clocks();
}

void RecordTranslator::align_clocks() {
  const base::MutexLock lock(mutex_);
  align_clocks_locked();
}

void RecordTranslator::align_clocks_locked() {
  // The tightest of some tries, as for the processor's counter (record/time_stamps.cc).
  record::StampClock::Anchor best;
  std::int64_t best_width = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    std::uint64_t theirs = 0;
    const std::int64_t before = base::Clock::now().value;
    if (cupti_.get_timestamp(&theirs) != CUPTI_SUCCESS) return;
    const std::int64_t after = base::Clock::now().value;
    if (after - before < best_width) {
      best_width = after - before;
      best = {theirs, before + best_width / 2};
    }
  }
  const auto drift =
      static_cast<std::int64_t>(best.ticks - latest_.ticks) - (best.time - latest_.time);
  const bool jumped =
      latest_.ticks != 0 && std::abs(drift) > kJump + (best.time - latest_.time) / 1000;
  if (jumped) clock_ = record::StampClock(false);
  clock_.add_anchor(best);
  latest_ = best;
}

std::size_t RecordTranslator::translate(std::uint8_t* buffer, std::size_t valid_bytes) {
  const base::MutexLock lock(mutex_);
  align_clocks_locked();
  events_.clear();
  std::size_t count = 0;
  CUpti_Activity* record = nullptr;
  while (cupti_.get_next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    put_locked(*record);
    ++count;
  }
  recorder_.emit_activity(events_);
  return count;
}

void RecordTranslator::put_locked(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = as<KernelRecord>(record);
      ++totals_.kernels;
      put_event_locked(EventKind::kKernel, kernel.start, kernel.end,
                       lane_locked(kernel.deviceId, kernel.streamId), kernel.correlationId, 0,
                       name_locked(kernel.name));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = as<CopyRecord>(record);
      ++totals_.copies;
      put_event_locked(EventKind::kMemcpy, copy.start, copy.end,
                       lane_locked(copy.deviceId, copy.streamId), copy.bytes,
                       copy_kind(copy.copyKind), {});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = as<PeerCopyRecord>(record);
      ++totals_.copies;
      put_event_locked(EventKind::kMemcpy, copy.start, copy.end,
                       lane_locked(copy.deviceId, copy.streamId), copy.bytes,
                       copy_kind(copy.copyKind), {});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& memset = as<MemsetRecord>(record);
      ++totals_.memsets;
      put_event_locked(EventKind::kMemset, memset.start, memset.end,
                       lane_locked(memset.deviceId, memset.streamId), memset.bytes, 0, {});
      break;
    }
    default:
      break;
  }
}

void RecordTranslator::put_event_locked(EventKind kind, std::uint64_t start, std::uint64_t end,
                                        LaneId lane, std::uint64_t b, std::uint16_t aux,
                                        ContextId context) {
  if (start == 0 || end < start) {  // CUPTI's word for "the times could not be had"
    ++totals_.dropped;
    return;
  }
  const Nanos time = clock_.time_of(start | record::kTickStamp);
  events_.push_back(make_event(kind, time, lane, end - start, b, aux, context));
}

ContextId RecordTranslator::name_locked(const char* name) {
  if (name == nullptr) return {};
  Name& known = names_[name];
  if (known.id.value == 0 || known.text != name) {
    known.text = name;
    known.id = recorder_.intern(demangled(name), record::ContextKind::kKernel);
  }
  return known.id;
}

// Asks CUPTI for its numbers of the streams that the allocator has seen.
void RecordTranslator::learn_streams_locked() {
  const std::vector<record::TraceLane> lanes = recorder_.lanes();
  for (; known_lanes_ < lanes.size(); ++known_lanes_) {
    const record::TraceLane& lane = lanes[known_lanes_];
    if (lane.is_other_streams || lane.is_cupti_number) continue;
    std::uint32_t number = 0;
    // The handle is the bits of a CUstream; a stream that is gone is refused.
    auto* stream = reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(lane.stream.value));
    if (lane.stream.value == 0) {
      // The default stream is that of the calling thread's context, and this thread has none.
      number = kDefaultStream;
    } else if (cupti_.get_stream_id(nullptr, stream, 0, &number) != CUPTI_SUCCESS) {
      continue;
    }
    lanes_.insert_or_assign({static_cast<std::uint32_t>(lane.device.value), number}, lane.id);
  }
}

LaneId RecordTranslator::lane_locked(std::uint32_t device, std::uint32_t stream) {
  auto found = lanes_.find({device, stream});
  if (found != lanes_.end()) return found->second;
  learn_streams_locked();
  found = lanes_.find({device, stream});
  if (found != lanes_.end()) return found->second;
  const LaneId lane =
      recorder_.intern_cupti_lane(DeviceId{static_cast<std::int32_t>(device)}, stream);
  lanes_.emplace(std::pair(device, stream), lane);
  return lane;
}

void RecordTranslator::add_dropped(std::uint64_t count) {
  if (count == 0) return;
  {
    const base::MutexLock lock(mutex_);
    totals_.dropped += count;
  }
  const Event lost = make_event(EventKind::kLost, base::Clock::now(), {}, count, 0);
  recorder_.emit_activity({&lost, 1});
}

KernelCollector::Totals RecordTranslator::totals() const {
  const base::MutexLock lock(mutex_);
  return totals_;
}

}  // namespace levee::activity
