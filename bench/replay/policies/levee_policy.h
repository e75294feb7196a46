// The shipped allocator under replay: the code that runs in a training, over the model of a GPU.
//
// Owns: a GpuModel of one device, an allocator on it, and the counts of what it asks of the driver.
// Promises: nothing of the allocator is modelled here; `Config` is all that distinguishes two of
// these. Work is modelled as far as it decides when memory may be used again: with several streams
// each request stands for work on its stream that is done `kHostAhead` requests later, and an event
// is complete when all work ahead of it is, also that of other streams which its stream waits for.
// So early waits can be counted. With one stream events complete at once: stream order needs none.
// The judge is off unless asked for, since it costs more than the allocator.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <levee/allocator.h>
#include <levee/config.h>

#include "bench/replay/op_trace.h"
#include "bench/replay/policy.h"

namespace levee::replay {

struct LeveeOptions {
  std::string label = "levee";
  Config config;
  bool judge = false;        ///< count hazards; `details` then has them
  bool step_marks = true;    ///< false: the allocator is told of no step
  bool models_work = false;  ///< see the head of this file; set for traces with several streams
};

class LeveePolicy final : public ReplayPolicy {
 public:
  LeveePolicy(LeveeOptions options, Limits limits, std::uint16_t stream_count);
  ~LeveePolicy() override;

  std::string name() const override;
  std::string settings() const override;
  bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) override;
  void free(std::uint32_t id) override;
  void record_use(std::uint32_t id, std::uint16_t stream) override;
  void step() override;
  void pass(double seconds) override;
  bool is_guarded() const override;

  Bytes reserved() const override;
  Bytes peak_reserved() const override;
  DriverCosts costs() const override;
  std::uint64_t created_pages() const override;
  std::uint64_t emergencies() const override;
  EarlyWaits early_waits() const override;
  std::vector<std::pair<std::string, std::uint64_t>> details() const override;

  Allocator& allocator();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Options for a trace: work is modelled where it matters.
LeveeOptions levee_options_for(const OpTrace& trace);

}  // namespace levee::replay
