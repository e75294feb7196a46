// A memory snapshot in PyTorch's format, for torch.cuda._memory_viz and the web viewer.
//
// Segments are stretches of the address space that blocks of the record touched, cut into blocks
// that tile them; the trace lists allocations and frees with their stacks. Promises: consistent in
// the viewer's sense (every event lies in a segment, every free has its allocation in the window or
// a block in the segments); plain containers only. Does not: show physical pages (a page that is
// mapped at two addresses is one page to levee, and the format has no words for that), so the sum
// of segments is address space, not reserved memory. Facts must have been made with `keep_blocks`.
#pragma once

#include <cstddef>
#include <string>

#include "allocator/analysis/facts.h"
#include "allocator/export/sinks.h"

namespace levee::exporting {

struct MemoryVizOptions {
  std::size_t max_entries = 1'000'000;  ///< of the trace, a device; the latest are kept
};

void write_memory_viz(const analysis::TraceFacts& facts, const MemoryVizOptions& options,
                      ByteSink& sink);
bool write_memory_viz(const analysis::TraceFacts& facts, const MemoryVizOptions& options,
                      const std::string& path, std::string* why);

}  // namespace levee::exporting
