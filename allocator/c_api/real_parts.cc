#include "allocator/c_api/real_parts.h"

#include <memory>
#include <string>
#include <utility>

#include "allocator/activity/kernel_collector.h"
#include "allocator/base/mutex.h"
#include "allocator/c_api/config_reader.h"
#include "allocator/core/make_allocator.h"
#include "allocator/device/cuda_device.h"
#include "allocator/record/trace_recorder.h"

namespace levee::c_api {
namespace {

class TraceRecording final : public Recording {
 public:
  explicit TraceRecording(const Config& config)
      : recorder_(record::TraceRecorder::create(options(config))) {}

  record::Recorder& recorder() override { return *recorder_; }
  std::string path() const override { return recorder_->path(); }
  Status flush() override {
    {
      const base::MutexLock lock(kernels_mutex_);
      if (kernels_ != nullptr) kernels_->flush();
    }
    return recorder_->flush();
  }
  Status start_kernels(std::string* why) override {
    const base::MutexLock lock(kernels_mutex_);
    if (kernels_ != nullptr && kernels_->is_on()) return {};
    kernels_ = activity::KernelCollector::start(*recorder_, {}, why);
    return kernels_ == nullptr ? Status{StatusCode::kUnsupported, 0} : Status{};
  }
  void stop_kernels() override {
    const base::MutexLock lock(kernels_mutex_);
    if (kernels_ != nullptr) kernels_->stop();
  }

 private:
  static record::TraceRecorder::Options options(const Config& config) {
    record::TraceRecorder::Options options;
    options.path = config.trace_path;
    options.cap = config.trace_cap;
    const LaunchRank rank = launch_rank_from_environment();
    options.rank = rank.rank;
    options.local_rank = rank.local_rank;
    options.world_size = rank.world_size;
    options.launch = rank.launch;
    options.levee_version = LEVEE_VERSION_TEXT;
    for (const OptionInfo& info : c_api::options()) {
      if (!options.config.empty()) options.config += '\n';
      options.config += info.name;
      options.config += '=';
      options.config += option_text(config, info.name);
    }
    return options;
  }

  const std::unique_ptr<record::TraceRecorder> recorder_;
  base::Mutex kernels_mutex_;
  std::unique_ptr<activity::KernelCollector> kernels_ LEVEE_GUARDED_BY(kernels_mutex_);
};

}  // namespace

ProcessRuntime::Parts real_parts() {
  ProcessRuntime::Parts parts;
  parts.device_count = [] { return device::cuda_device_count(); };
  parts.open_device = [](DeviceId id) { return device::CudaDevice::open(id); };
  // Every device that `open_device` opens is one of these.
  parts.allow_peer = [](device::Device& owner, DeviceId peer) {
    return static_cast<device::CudaDevice&>(owner).allow_peer(peer);
  };
  parts.make_allocator = core::make_allocator;
  parts.open_recording = [](const Config& config) {
    return std::make_unique<TraceRecording>(config);
  };
  return parts;
}

}  // namespace levee::c_api
