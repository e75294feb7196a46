#include "allocator/c_api/real_parts.h"

#include <memory>
#include <string>
#include <utility>

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
  Status flush() override { return recorder_->flush(); }
  Status start_kernels(std::string* why) override {
    *why = "Kernels are not timed: this build has no CUPTI collector.";
    return {StatusCode::kUnsupported, 0};
  }
  void stop_kernels() override {}

 private:
  static record::TraceRecorder::Options options(const Config& config) {
    record::TraceRecorder::Options options;
    options.path = config.trace_path;
    options.cap = config.trace_cap;
    const LaunchRank rank = launch_rank_from_environment();
    options.rank = rank.rank;
    options.local_rank = rank.local_rank;
    options.world_size = rank.world_size;
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
};

}  // namespace

ProcessRuntime::Parts real_parts() {
  ProcessRuntime::Parts parts;
  parts.device_count = device::cuda_device_count;
  parts.open_device = device::CudaDevice::open;
  parts.make_allocator = core::make_allocator;
  parts.open_recording = [](const Config& config) {
    return std::make_unique<TraceRecording>(config);
  };
  return parts;
}

}  // namespace levee::c_api
