#include "bench/replay/policies/levee_policy.h"

#include <fmt/format.h>

#include "allocator/base/check.h"
#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::replay {

namespace {

using device::sim::GpuModel;
using device::sim::JudgeMode;
using device::sim::ModelConfig;

constexpr Bytes kPage = 2_MiB;
constexpr Nanos kKernel = 8_us;

/// Counts calls on their way to the model. Reserved bytes are those of handles and whole
/// allocations that exist.
class CountingDevice final : public device::Device {
 public:
  CountingDevice(GpuModel& model, DeviceId id) : device_(model, id) {}

  const DriverCosts& costs() const { return costs_; }
  std::uint64_t created_pages() const { return created_pages_; }
  Bytes reserved() const { return reserved_; }
  Bytes peak() const { return peak_; }

  DeviceId id() const override { return device_.id(); }
  const device::Capabilities& capabilities() const override { return device_.capabilities(); }
  Result<device::MemoryInfo> memory_info() override { return device_.memory_info(); }
  Result<DeviceAddr> allocate(Bytes bytes) override {
    ++costs_.mallocs;
    Result<DeviceAddr> result = device_.allocate(bytes);
    if (result.ok()) {
      sizes_[result->value] = bytes;
      grew(bytes);
    }
    return result;
  }
  Status release(DeviceAddr addr) override {
    ++costs_.frees;
    const Status status = device_.release(addr);
    if (status.ok()) shrank(addr.value);
    return status;
  }
  Result<DeviceAddr> reserve_range(Bytes bytes, Bytes alignment) override {
    return device_.reserve_range(bytes, alignment);
  }
  Status free_range(DeviceAddr addr, Bytes bytes) override {
    return device_.free_range(addr, bytes);
  }
  Result<HandleId> create_handle(Bytes bytes) override {
    Result<HandleId> result = device_.create_handle(bytes);
    if (result.ok()) {
      ++costs_.created;
      costs_.created_mib += bytes / 1_MiB;
      created_pages_ += bytes / kPage;
      sizes_[result->value] = bytes;
      grew(bytes);
    }
    return result;
  }
  Status release_handle(HandleId handle) override {
    ++costs_.released;
    const Status status = device_.release_handle(handle);
    if (status.ok()) shrank(handle.value);
    return status;
  }
  Status map(DeviceAddr addr, Bytes bytes, HandleId handle) override {
    ++costs_.mapped;
    return device_.map(addr, bytes, handle);
  }
  Status set_access(DeviceAddr addr, Bytes bytes) override {
    ++costs_.access_calls;
    costs_.accessed_pages += bytes / kPage;
    return device_.set_access(addr, bytes);
  }
  Status unmap(DeviceAddr addr, Bytes bytes) override {
    costs_.unmapped += bytes / kPage;
    return device_.unmap(addr, bytes);
  }
  Result<EventId> create_event() override {
    ++costs_.events_created;
    return device_.create_event();
  }
  Status destroy_event(EventId event) override { return device_.destroy_event(event); }
  Status record_event(EventId event, StreamId stream) override {
    ++costs_.event_records;
    return device_.record_event(event, stream);
  }
  Status query_event(EventId event) override {
    ++costs_.event_queries;
    return device_.query_event(event);
  }
  Status wait_event(StreamId stream, EventId event) override {
    ++costs_.stream_waits;
    return device_.wait_event(stream, event);
  }
  Status synchronize_event(EventId event) override {
    ++costs_.synchronisations;
    return device_.synchronize_event(event);
  }
  Status synchronize_stream(StreamId stream) override {
    ++costs_.synchronisations;
    return device_.synchronize_stream(stream);
  }
  Status synchronize_device() override {
    ++costs_.synchronisations;
    return device_.synchronize_device();
  }
  Result<device::CaptureInfo> capture_info(StreamId stream) override {
    return device_.capture_info(stream);
  }
  void note_use(DeviceAddr addr, Bytes bytes, StreamId stream, device::UseKind kind) override {
    device_.note_use(addr, bytes, stream, kind);
  }
  void note_pool_lock(bool held) override { device_.note_pool_lock(held); }

 private:
  void grew(Bytes bytes) {
    reserved_ += bytes;
    peak_ = std::max(peak_, reserved_);
  }
  void shrank(std::uint64_t key) {
    reserved_ -= sizes_[key];
    sizes_.erase(key);
  }

  device::sim::SimDevice device_;
  DriverCosts costs_;
  std::uint64_t created_pages_ = 0;
  Bytes reserved_{};
  Bytes peak_{};
  std::unordered_map<std::uint64_t, Bytes> sizes_;  // by handle or address
};

ModelConfig model_config(const LeveeOptions& options, Limits limits) {
  ModelConfig config;
  // "No limit" still has to be a device: one that no trace fills.
  config.devices[0].total_memory = limits.capacity.value == 0 ? 4096_GiB : limits.capacity;
  config.judge = options.judge ? JudgeMode::kCount : JudgeMode::kOff;
  config.report_leaks = options.judge;
  config.latency = device::sim::LatencyTable::zero();
  return config;
}

}  // namespace

struct LeveePolicy::Parts {
  Parts(LeveeOptions o, Limits limits, std::uint16_t stream_count)
      : options(std::move(o)), model(model_config(options, limits)), device(model, DeviceId{0}) {
    streams.push_back(StreamId{0});
    for (std::uint16_t i = 1; i < stream_count; ++i) {
      streams.push_back(*model.create_stream(DeviceId{0}, {.non_blocking = true}));
    }
    Result<std::unique_ptr<Allocator>> made =
        core::make_allocator(device, options.config, /*recorder=*/nullptr);
    LEVEE_CHECK(made.ok(), "the allocator did not start on the model");
    allocator = std::move(*made);
  }

  LeveeOptions options;
  GpuModel model;
  CountingDevice device;
  std::vector<StreamId> streams;
  std::unique_ptr<Allocator> allocator;
  std::vector<DeviceAddr> address;
  std::uint64_t requests = 0;
};

LeveePolicy::LeveePolicy(LeveeOptions options, Limits limits, std::uint16_t stream_count)
    : parts_(std::make_unique<Parts>(std::move(options), limits, stream_count)) {}

LeveePolicy::~LeveePolicy() {
  for (const DeviceAddr addr : parts_->address) {
    if (!addr.is_null()) (void)parts_->allocator->free(addr);  // only frees what is still live
  }
  (void)parts_->allocator->trim(0_B);  // waits for blocks whose recorded uses have not passed
}

std::string LeveePolicy::name() const {
  return parts_->options.label;
}

std::string LeveePolicy::settings() const {
  const Config& c = parts_->options.config;
  const char* stitch = c.stitch == StitchMode::kAlias  ? "alias"
                       : c.stitch == StitchMode::kMove ? "move"
                                                       : "none";
  return fmt::format("stitch:{},page:{}MiB,slack:{},predict:{},rebase:{},marks:{}", stitch,
                     c.page_size / 1_MiB, c.slack, c.predict, c.rebase, parts_->options.step_marks);
}

bool LeveePolicy::allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) {
  Parts& p = *parts_;
  const StreamId on = p.streams[stream];
  const Result<Block> block = p.allocator->allocate(requested, on);
  if (!block.ok()) return false;
  if (p.address.size() <= id) p.address.resize(id + 1);
  p.address[id] = block->addr;
  if (p.options.models_work) {
    device::sim::Work work;
    work.duration = kKernel;
    const Status status =
        p.model.enqueue(DeviceId{0}, on, device::sim::CallKind::kLaunchKernel, work);
    LEVEE_CHECK(status.ok(), "the model refused work");
    if (++p.requests > kHostAhead) p.model.advance(kKernel);
  }
  return true;
}

void LeveePolicy::free(std::uint32_t id) {
  const Result<Block> freed = parts_->allocator->free(parts_->address[id]);
  LEVEE_CHECK(freed.ok(), "the allocator does not know a block that it handed out");
  parts_->address[id] = DeviceAddr{};
}

void LeveePolicy::record_use(std::uint32_t id, std::uint16_t stream) {
  const Status status = parts_->allocator->record_use(parts_->address[id], parts_->streams[stream]);
  LEVEE_CHECK(status.ok(), "the allocator refused a recorded use");
}

void LeveePolicy::step() {
  if (parts_->options.step_marks) parts_->allocator->mark_step();
}

Bytes LeveePolicy::reserved() const {
  return parts_->device.reserved();
}
Bytes LeveePolicy::peak_reserved() const {
  return parts_->device.peak();
}
DriverCosts LeveePolicy::costs() const {
  return parts_->device.costs();
}
std::uint64_t LeveePolicy::created_pages() const {
  return parts_->device.created_pages();
}

std::uint64_t LeveePolicy::emergencies() const {
  return static_cast<std::uint64_t>(parts_->allocator->stats().num_emergencies);
}

std::vector<std::pair<std::string, std::uint64_t>> LeveePolicy::details() const {
  const Stats stats = parts_->allocator->stats();
  const auto count = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  std::vector<std::pair<std::string, std::uint64_t>> lines{
      {"stitches", count(stats.num_stitches)},
      {"stitched pages", count(stats.num_stitched_pages)},
      {"rebases", count(stats.num_rebases)},
      {"waits", count(stats.num_waits)},
      {"event records", count(stats.num_event_records)},
  };
  if (parts_->options.judge) lines.emplace_back("hazards", parts_->model.hazard_count());
  return lines;
}

Allocator& LeveePolicy::allocator() {
  return *parts_->allocator;
}

LeveeOptions levee_options_for(const OpTrace& trace) {
  LeveeOptions options;
  options.models_work = trace.stream_count > 1;
  return options;
}

}  // namespace levee::replay
