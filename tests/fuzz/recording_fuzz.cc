// Any bytes as a recording for the replay lab: one sentence or a trace, never a crash or a hang,
// and what comes out can be replayed.
//
// The first byte of an input says which reader it is for; what is left is the file. Crashes that
// were found are kept in tests/fuzz/corpus/recording.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "bench/replay/policies/simple_policies.h"
#include "bench/replay/policies/torch_model.h"
#include "bench/replay/readers/csv_reader.h"
#include "bench/replay/readers/kineto_reader.h"
#include "bench/replay/readers/levee_reader.h"
#include "bench/replay/readers/recording.h"
#include "bench/replay/readers/snapshot_reader.h"
#include "bench/replay/runner.h"

namespace levee::replay {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

OpTrace read(std::uint8_t target, std::string_view bytes, ReadError* error) {
  const ReadOptions options{"input", -1, 1.0};
  switch (target % 5) {
    case 0:
      return read_snapshot(bytes, options, error);
    case 1:
      return read_kineto(bytes, options, error);
    case 2:
      return read_csv(bytes, options, error);
    case 3:
      return read_levee(std::as_bytes(std::span(bytes)), options, error);
    default:
      return read_recording(bytes, options, error);
  }
}

void replay(const OpTrace& trace) {
  const TraceFacts facts = facts_of(trace);
  require(facts.peak_live <= facts.peak_active);
  LowerBound bound(Limits{});
  const ReplayResult best = run_policy(trace, facts, bound, {});
  require(best.failures == 0);
  TorchOptions options;
  options.expandable_segments = true;
  for (const bool expandable : {false, true}) {
    options.expandable_segments = expandable;
    TorchModel model(options, Limits{});
    const ReplayResult r = run_policy(trace, facts, model, {});
    require(r.peak_reserved.value != 0 || trace.id_count == 0 || r.failures != 0);
  }
}

}  // namespace
}  // namespace levee::replay

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using levee::replay::OpTrace;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  levee::replay::ReadError error;
  const OpTrace trace = levee::replay::read(data[0], bytes, &error);
  levee::replay::require(error.sentence.empty() || trace.ops.empty());
  if (error.sentence.empty()) levee::replay::replay(trace);
  return 0;
}
