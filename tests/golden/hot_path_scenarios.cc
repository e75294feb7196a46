// Scenarios of a fixed number of operations, for the two gates that no busy machine disturbs: which
// device calls are made, and how many instructions an operation takes.
//
//   hot_path_scenarios device_calls    runs each, prints the device calls of every one
//   hot_path_scenarios instructions    runs each for callgrind: what is counted is `measured_NAME`
//
// test_hot_path.py compares both with the golden files beside it. Everything is drawn from fixed
// seeds; the program prints nothing that depends on time.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "allocator/record/time_stamps.h"
#include "allocator/record/trace_recorder.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

constexpr int kOperations = 1000;  // pairs, in each measured loop

class Scene {
 public:
  explicit Scene(bool is_recording = false) : model_(config()), device_(model_, DeviceId{0}) {
    if (is_recording) {
      path_ = std::filesystem::temp_directory_path() /
              ("levee_scenarios." + std::to_string(::getpid()));
      record::TraceRecorder::Options options;
      options.path = path_.string();
      recorder_ = record::TraceRecorder::create(options);
    }
    allocator_ = std::move(make_allocator(device_, Config{}, recorder_.get()).value());
    side_ = model_.create_stream(DeviceId{0}).value();
    model_.reset_call_counts();
  }
  ~Scene() {
    allocator_.reset();
    if (recorder_ == nullptr) return;
    recorder_->finish();
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Allocator& operator*() { return *allocator_; }
  Allocator* operator->() { return allocator_.get(); }
  StreamId side() const { return side_; }
  device::sim::GpuModel& model() { return model_; }

  DeviceAddr take(Bytes bytes, StreamId stream = StreamId{0}) {
    const Result<Block> block = allocator_->allocate(bytes, stream);
    LEVEE_CHECK(block.ok(), bytes.value);
    return block->addr;
  }
  void give(DeviceAddr addr) { LEVEE_CHECK(allocator_->free(addr).ok()); }

 private:
  static device::sim::ModelConfig config() {
    device::sim::ModelConfig config;
    config.judge = device::sim::JudgeMode::kOff;
    return config;
  }
  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  std::unique_ptr<record::TraceRecorder> recorder_;
  std::unique_ptr<Allocator> allocator_;
  StreamId side_;
  std::filesystem::path path_;
};

void pairs(Scene& scene, Bytes bytes, int count) {
  for (int i = 0; i < count; ++i) scene.give(scene.take(bytes));
}

/// Places that always hold the same size; one is empty, and each turn fills it after another one
/// was emptied.
class Churn {
 public:
  Churn(Scene& scene, std::size_t live, Bytes low, Bytes step, std::size_t sizes)
      : scene_(scene), blocks_(live) {
    for (std::size_t i = 0; i < live; ++i) bytes_.push_back(low + step * (i % sizes));
    for (std::size_t i = 1; i < live; ++i) blocks_[i] = scene_.take(bytes_[i]);
  }
  ~Churn() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (i != empty_) scene_.give(blocks_[i]);
    }
  }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  void run(int turns) {
    for (int i = 0; i < turns; ++i) {
      seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL;
      std::size_t next = (seed_ >> 33) % blocks_.size();
      if (next == empty_) next = (next + 1) % blocks_.size();
      scene_.give(blocks_[next]);
      blocks_[empty_] = scene_.take(bytes_[empty_]);
      empty_ = next;
    }
  }

 private:
  Scene& scene_;
  std::vector<Bytes> bytes_;
  std::vector<DeviceAddr> blocks_;
  std::size_t empty_ = 0;
  std::uint64_t seed_ = 1;
};

/// A step of a training loop: activations of `layers` layers live until the way back, temporaries
/// die at once.
void step(Scene& scene, Bytes width, int layers) {
  scene->mark_step();
  std::vector<DeviceAddr> activations;
  for (int layer = 0; layer < layers; ++layer) {
    activations.push_back(scene.take(width));
    const DeviceAddr temporary = scene.take(width * 4);
    scene.give(scene.take(2_KiB));
    scene.give(temporary);
  }
  while (!activations.empty()) {
    const DeviceAddr gradient = scene.take(width);
    scene.give(activations.back());
    activations.pop_back();
    scene.give(gradient);
  }
}

// ---- Instructions. Each loop has a function of its own that callgrind can name.

}  // namespace
}  // namespace levee::core

using levee::core::Churn;
using levee::core::kOperations;
using levee::core::pairs;
using levee::core::Scene;

#define LEVEE_MEASURED extern "C" [[gnu::noinline, gnu::noclone]] void
LEVEE_MEASURED measured_hot_small(Scene& scene) {
  pairs(scene, levee::Bytes{1024}, kOperations);
}
LEVEE_MEASURED measured_hot_small_recorded(Scene& scene) {
  pairs(scene, levee::Bytes{1024}, kOperations);
  asm volatile("");  // kept apart from its twin
}
LEVEE_MEASURED measured_hot_small_in_steps(Scene& scene) {
  pairs(scene, levee::Bytes{1024}, kOperations);
  asm volatile("nop");
}
LEVEE_MEASURED measured_hot_range(Scene& scene) {
  pairs(scene, levee::Bytes{256 << 10}, kOperations);
}
LEVEE_MEASURED measured_hot_large(Scene& scene) {
  pairs(scene, levee::Bytes{8 << 20}, kOperations);
}
LEVEE_MEASURED measured_hot_large_recorded(Scene& scene) {
  pairs(scene, levee::Bytes{8 << 20}, kOperations);
  asm volatile("");
}
LEVEE_MEASURED measured_churn_small(Churn& churn) {
  churn.run(kOperations);
}
LEVEE_MEASURED measured_churn_range(Churn& churn) {
  churn.run(kOperations);
  asm volatile("");
}

namespace levee::core {
namespace {

void run_instructions() {
  const auto hot = [](bool is_recording, Bytes bytes, void (*measured)(Scene&)) {
    Scene scene(is_recording);
    pairs(scene, bytes, 100);
    measured(scene);
  };
  hot(false, 1_KiB, &measured_hot_small);
  hot(true, 1_KiB, &measured_hot_small_recorded);
  hot(false, 256_KiB, &measured_hot_range);
  hot(false, 8_MiB, &measured_hot_large);
  hot(true, 8_MiB, &measured_hot_large_recorded);
  {
    Scene scene;
    for (int i = 0; i < 10; ++i) {
      scene->mark_step();
      pairs(scene, 1_KiB, 10);
    }
    measured_hot_small_in_steps(scene);
  }
  {
    Scene scene;
    Churn churn(scene, 256, 512_B, 512_B, 32);
    churn.run(4 * kOperations);
    measured_churn_small(churn);
  }
  {
    Scene scene;
    Churn churn(scene, 256, 20_KiB, 31_KiB, 32);
    churn.run(4 * kOperations);
    measured_churn_range(churn);
  }
  std::printf("stamps %s\n", record::ticks_are_usable() ? "ticks" : "clock");
}

// ---- Device calls

void print_calls(std::string_view scenario, device::sim::GpuModel& model) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(CallKind::kCount); ++i) {
    const auto kind = static_cast<CallKind>(i);
    if (model.calls(kind) != 0) {
      std::printf("%-28s %-24s %llu\n", std::string(scenario).c_str(), name_of(kind),
                  static_cast<unsigned long long>(model.calls(kind)));
    }
  }
  if (model.total_calls() == 0) std::printf("%-28s none\n", std::string(scenario).c_str());
  model.reset_call_counts();
}

void run_device_calls() {
  {
    Scene scene;
    pairs(scene, 1_KiB, 1);
    print_calls("first small block", scene.model());
    pairs(scene, 1_KiB, kOperations);
    print_calls("hot small", scene.model());
    pairs(scene, 64_MiB, 1);
    print_calls("first block of 64 MiB", scene.model());
    pairs(scene, 64_MiB, kOperations);
    pairs(scene, 256_KiB, kOperations);
    print_calls("hot large and ranges", scene.model());
    LEVEE_CHECK(scene->trim(0_B).ok());
    print_calls("trim", scene.model());
  }
  {
    Scene scene;
    Churn churn(scene, 500, 512_B, 512_B, 32);
    churn.run(4 * kOperations);
    scene.model().reset_call_counts();
    churn.run(kOperations);
    print_calls("small churn", scene.model());
  }
  {
    Scene scene;
    for (int i = 0; i < 20; ++i) step(scene, 4_MiB, 12);
    print_calls("20 steps from the start", scene.model());
    for (int i = 0; i < 50; ++i) step(scene, 4_MiB, 12);
    print_calls("50 steps more", scene.model());
  }
  {
    Scene scene;
    const auto hand_over = [&] {
      for (StreamId stream : {scene.side(), StreamId{0}}) {
        std::vector<DeviceAddr> blocks;
        for (int i = 0; i < 8; ++i) blocks.push_back(scene.take(6_MiB, stream));
        for (DeviceAddr addr : blocks) scene.give(addr);
      }
    };
    // Until as many events exist as are ever kept.
    for (int i = 0; i < 60; ++i) hand_over();
    scene.model().reset_call_counts();
    for (int i = 0; i < 10; ++i) hand_over();
    print_calls("20 hand-overs of 8 blocks", scene.model());
  }
  {
    Scene scene;
    const auto share = [&] {
      const DeviceAddr addr = scene.take(4_KiB);
      LEVEE_CHECK(scene->record_use(addr, scene.side()).ok());
      scene.give(addr);
      scene.model().advance(1_ms);
    };
    share();
    scene.model().reset_call_counts();
    for (int i = 0; i < 100; ++i) share();
    print_calls("100 blocks used elsewhere", scene.model());
  }
}

}  // namespace
}  // namespace levee::core

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "instructions") {
    levee::core::run_instructions();
  } else if (what == "device_calls") {
    levee::core::run_device_calls();
  } else {
    std::fprintf(stderr, "hot_path_scenarios: device_calls or instructions\n");
    return 2;
  }
  return 0;
}
