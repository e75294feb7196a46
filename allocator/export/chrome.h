// A trace in Chrome's JSON event format, as Kineto writes it: what Perfetto, chrome://tracing,
// Holistic Trace Analysis and PyTorch's TensorBoard plugin read.
//
// Holds `[memory]` instants with the totals after each event, counters of reserved and allocated,
// emergencies and storms as slices with their numbers, steps, phases, driver calls, and kernels,
// copies and memsets on the tracks of their streams. Promises: every event that a viewer needs an
// attribute of has it; a file above `max_part_bytes` is cut into parts by time, each a whole file
// of its own, with an index beside them that also keeps the exact peaks of every step; what is
// thinned out is said in the file's metadata. Facts must have been made with `keep_blocks`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::exporting {

enum class ChromeFlavour : std::uint8_t {
  kKineto,       ///< driver calls as cuda_runtime and cuda_driver: Kineto's own names
  kTensorBoard,  ///< driver calls as "runtime", the only name torch_tb_profiler 0.4.3 knows; few
                 ///< memory events, since its curve drops what is beyond 5,120 events
};

struct ChromeOptions {
  ChromeFlavour flavour = ChromeFlavour::kKineto;
  bool gzip = true;
  /// Most `[memory]` events a device; 0 = all. Kept are those around every change of reserved and
  /// the extremes of allocated.
  std::size_t max_memory_events = 0;
  std::uint64_t max_part_bytes = std::uint64_t{100}
                                 << 20;  ///< of JSON text, before compression; 0 = one file
};

/// Writes `path`, or parts of it ("x.part1.json.gz", ...) and "x.parts.json". `written` gets the
/// names. False with one sentence in `why`.
bool write_chrome(const analysis::TraceFacts& facts, const ChromeOptions& options,
                  const std::string& path, std::vector<std::string>* written, std::string* why);

}  // namespace levee::exporting
