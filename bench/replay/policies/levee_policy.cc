#include "bench/replay/policies/levee_policy.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

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
constexpr Bytes kSmall = 1_MiB;  // blocks up to it share pages with others

/// When work is done, in requests: what a stream has enqueued, and what an event stands for.
class Progress {
 public:
  explicit Progress(bool is_modelled) : is_modelled_(is_modelled) {}

  std::uint64_t now() const { return now_; }
  /// A request on the stream, and the work that it is for.
  void request(StreamId stream) {
    ++now_;
    if (is_modelled_) done_at_[stream] = now_ + kHostAhead;
  }
  void record(EventId event, StreamId stream) {
    if (is_modelled_) event_done_at_[event] = done_at_[stream];
  }
  bool is_done(EventId event) const {
    const auto found = event_done_at_.find(event);
    return found == event_done_at_.end() || found->second <= now_;
  }
  void wait(StreamId stream, EventId event) {
    if (!is_modelled_) return;
    std::uint64_t& own = done_at_[stream];
    own = std::max(own, event_done_at_[event]);
  }

 private:
  bool is_modelled_;
  std::uint64_t now_ = 0;
  std::unordered_map<StreamId, std::uint64_t> done_at_;
  std::unordered_map<EventId, std::uint64_t> event_done_at_;
};

/// Who gave back which physical page of 2 MiB last, and when. Pages are told by their handle and
/// place in it, so that all addresses of a page are one.
class PageBook {
 public:
  void map(DeviceAddr addr, Bytes bytes, HandleId handle) {
    for (std::uint64_t i = 0; i < bytes / kPage; ++i) page_of_[slot(addr) + i] = {handle.value, i};
  }
  void unmap(DeviceAddr addr, Bytes bytes) {
    for (std::uint64_t i = 0; i < bytes / kPage; ++i) page_of_.erase(slot(addr) + i);
  }
  void give_back(DeviceAddr addr, Bytes bytes, std::uint16_t stream, std::uint64_t now) {
    for_each(addr, bytes, [&](Key key) {
      std::vector<Tag>& tags = tags_[key];
      // A block's own stream and those of its recorded uses give it back in the same moment.
      std::erase_if(tags, [&](const Tag& tag) { return tag.stream == stream || tag.at != now; });
      tags.push_back({stream, now});
    });
  }
  bool is_fresh_for(DeviceAddr addr, Bytes bytes, std::uint16_t stream, std::uint64_t now) const {
    bool fresh = false;
    for_each(addr, bytes, [&](Key key) {
      const auto found = tags_.find(key);
      if (found == tags_.end()) return;
      for (const Tag& tag : found->second) fresh |= tag.stream != stream && tag.is_fresh(now);
    });
    return fresh;
  }

 private:
  struct Key {
    std::uint64_t handle = 0;
    std::uint64_t place = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>{}(key.handle * 64 + key.place);
    }
  };
  struct Tag {
    std::uint16_t stream = 0;
    std::uint64_t at = 0;
    bool is_fresh(std::uint64_t now) const { return now < at + kHostAhead; }
  };
  static std::uint64_t slot(DeviceAddr addr) { return addr.value / kPage.value; }
  template <typename F>
  void for_each(DeviceAddr addr, Bytes bytes, F&& f) const {
    const std::uint64_t last = slot(addr + bytes - 1_B);
    for (std::uint64_t i = slot(addr); i <= last; ++i) {
      const auto found = page_of_.find(i);
      if (found != page_of_.end()) f(found->second);
    }
  }

  std::unordered_map<std::uint64_t, Key> page_of_;  // by address
  std::unordered_map<Key, std::vector<Tag>, Hash> tags_;
};

/// Counts calls on their way to the model. Reserved bytes are those of handles and whole
/// allocations that exist.
class CountingDevice final : public device::Device {
 public:
  CountingDevice(GpuModel& model, DeviceId id, Progress& progress)
      : device_(model, id), progress_(progress) {}

  /// Not without cost: only where `PageBook` is asked.
  void keep_pages() { keeps_pages_ = true; }
  PageBook& pages() { return pages_; }
  /// Whether a wait for what is not done was made since the last call.
  bool take_early_wait() { return std::exchange(has_early_wait_, false); }

  const DriverCosts& costs() const { return costs_; }
  std::uint64_t created_pages() const { return created_pages_; }
  /// The program's time: what the runner lets pass, and the modelled cost of every call.
  Nanos now() const override {
    const DriverSeconds driver = seconds_of(costs_, created_pages_);
    return Nanos{static_cast<std::int64_t>((passed_ + driver.pessimistic + driver.creation) * 1e9)};
  }
  void pass(double seconds) { passed_ += seconds; }

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
    const Status status = device_.map(addr, bytes, handle);
    if (keeps_pages_ && status.ok()) pages_.map(addr, bytes, handle);
    return status;
  }
  Status set_access(DeviceAddr addr, Bytes bytes) override {
    ++costs_.access_calls;
    costs_.accessed_pages += bytes / kPage;
    return device_.set_access(addr, bytes);
  }
  Status unmap(DeviceAddr addr, Bytes bytes) override {
    costs_.unmapped += bytes / kPage;
    const Status status = device_.unmap(addr, bytes);
    if (keeps_pages_ && status.ok()) pages_.unmap(addr, bytes);
    return status;
  }
  Result<EventId> create_event() override {
    ++costs_.events_created;
    return device_.create_event();
  }
  Status destroy_event(EventId event) override { return device_.destroy_event(event); }
  Status record_event(EventId event, StreamId stream) override {
    ++costs_.event_records;
    progress_.record(event, stream);
    return device_.record_event(event, stream);
  }
  Status query_event(EventId event) override {
    ++costs_.event_queries;
    if (!progress_.is_done(event)) return Status{StatusCode::kNotReady, 0};
    return device_.query_event(event);
  }
  Status wait_event(StreamId stream, EventId event) override {
    ++costs_.stream_waits;
    has_early_wait_ |= !progress_.is_done(event);
    progress_.wait(stream, event);
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
  Progress& progress_;
  PageBook pages_;
  bool keeps_pages_ = false;
  bool has_early_wait_ = false;
  DriverCosts costs_;
  std::uint64_t created_pages_ = 0;
  double passed_ = 0;
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
      : options(std::move(o)),
        model(model_config(options, limits)),
        progress(options.models_work),
        device(model, DeviceId{0}, progress) {
    if (options.models_work) device.keep_pages();
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
  Progress progress;
  CountingDevice device;
  std::vector<StreamId> streams;
  std::unique_ptr<Allocator> allocator;
  struct Held {
    DeviceAddr addr;
    Bytes bytes;
    std::uint16_t stream = 0;
  };
  std::vector<Held> held;                                              // by id
  std::unordered_map<std::uint32_t, std::vector<std::uint16_t>> uses;  // recorded, by id
  EarlyWaits early;
};

LeveePolicy::LeveePolicy(LeveeOptions options, Limits limits, std::uint16_t stream_count)
    : parts_(std::make_unique<Parts>(std::move(options), limits, stream_count)) {}

LeveePolicy::~LeveePolicy() {
  for (const Parts::Held& held : parts_->held) {
    if (!held.addr.is_null()) (void)parts_->allocator->free(held.addr);  // what is still live
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
  if (p.held.size() <= id) p.held.resize(id + 1);
  p.held[id] = {block->addr, block->bytes, stream};
  if (p.options.models_work) {
    (stream == 0 ? p.early.main_early : p.early.side_early) += p.device.take_early_wait();
    if (block->bytes > kSmall &&
        p.device.pages().is_fresh_for(block->addr, block->bytes, stream, p.progress.now())) {
      ++(stream == 0 ? p.early.main_fresh : p.early.side_fresh);
    }
    p.progress.request(on);
  }
  return true;
}

void LeveePolicy::free(std::uint32_t id) {
  Parts& p = *parts_;
  Parts::Held& held = p.held[id];
  if (p.options.models_work && held.bytes > kSmall) {
    const auto tag = [&](std::uint16_t stream) {
      p.device.pages().give_back(held.addr, held.bytes, stream, p.progress.now());
    };
    tag(held.stream);
    if (const auto uses = p.uses.find(id); uses != p.uses.end()) {
      for (const std::uint16_t stream : uses->second) tag(stream);
    }
  }
  p.uses.erase(id);
  const Result<Block> freed = p.allocator->free(held.addr);
  LEVEE_CHECK(freed.ok(), "the allocator does not know a block that it handed out");
  held = {};
}

void LeveePolicy::record_use(std::uint32_t id, std::uint16_t stream) {
  Parts& p = *parts_;
  if (p.options.models_work) p.uses[id].push_back(stream);
  const Status status = p.allocator->record_use(p.held[id].addr, p.streams[stream]);
  LEVEE_CHECK(status.ok(), "the allocator refused a recorded use");
}

void LeveePolicy::step() {
  if (parts_->options.step_marks) parts_->allocator->mark_step();
}

bool LeveePolicy::is_guarded() const {
  return parts_->allocator->stats().num_guard_entries > 0;
}

void LeveePolicy::pass(double seconds) {
  parts_->device.pass(seconds);
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

EarlyWaits LeveePolicy::early_waits() const {
  return parts_->early;
}

std::vector<std::pair<std::string, std::uint64_t>> LeveePolicy::details() const {
  const Stats stats = parts_->allocator->stats();
  const auto count = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  std::vector<std::pair<std::string, std::uint64_t>> lines{
      {"stitches", count(stats.num_stitches)},
      {"stitched pages", count(stats.num_stitched_pages)},
      {"rebases", count(stats.num_rebases)},
      {"guard entries", count(stats.num_guard_entries)},
      {"guard growths", count(stats.num_guard_growths)},
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
