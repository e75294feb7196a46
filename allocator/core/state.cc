#include "allocator/core/state.h"

#include <algorithm>

namespace levee::core {
namespace {

Backing resolve_backing(Backing wanted, const device::Capabilities& capabilities) {
  if (!capabilities.has_vmm) return Backing::kSegments;
  return wanted == Backing::kAuto ? Backing::kPages : wanted;
}

Bytes unit_for(const Config& config, const device::Capabilities& capabilities) {
  // Chunks of small blocks are 2 MiB; a unit holds whole chunks.
  const Bytes granularity = std::max(capabilities.vmm_granularity, kChunkBytes);
  return round_up(std::max(config.page_size, granularity), granularity);
}

Bytes initial_limit(const Config& config, const device::Capabilities& capabilities) {
  if (config.memory_fraction >= 1.0) return 0_B;
  const double bytes =
      std::max(config.memory_fraction, 0.0) * static_cast<double>(capabilities.total_memory.value);
  // 0 would mean no limit.
  return Bytes{std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes))};
}

}  // namespace

State::State(device::Device& real_device, const Config& settings, record::Recorder* event_recorder)
    : device(real_device, event_recorder),
      config(settings),
      recorder(event_recorder),
      space(unit_for(settings, real_device.capabilities())),
      streams(device),
      pools(resolve_backing(settings.backing, real_device.capabilities()), small_records),
      limits{initial_limit(settings, real_device.capabilities())},
      stitcher(make_stitcher(settings.stitch)),
      guard(settings.guard_share, settings.guard_windows),
      is_judging(real_device.capabilities().judges_use) {
  block_records.reserve(1024);
  update_cache_use();
  counters.stats().limit_bytes = static_cast<std::int64_t>(limits.process.value);
}

StreamIndex State::stream_index_slow(StreamId id) {
  const std::uint32_t known = streams.count();
  const StreamIndex index = streams.intern(id);
  if (index.value == known && recorder != nullptr) {
    const StreamId named = streams.id(index);
    streams.set_lane(index, recorder->intern_lane(named.is_foreign() ? named.device() : device.id(),
                                                  named.handle()));
  }
  return index;
}

}  // namespace levee::core
