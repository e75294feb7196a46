// The data behind the interactive view (HTML page and TensorBoard tab): an index in JSON and one
// binary file of small compressed chunks, so that a view of 10^7 events starts from some tens of
// kilobytes and fetches detail as the user zooms.
//
// Owns nothing. Promises: `view.json` holds the whole report and where each chunk lies; every level
// keeps exact minima and maxima; the finest level is every sample, at nanosecond resolution, unless
// `max_detail_samples` says otherwise, and then the file says so. Layout: README.md. Cost: about 10
// MB and 2 s for 10^7 events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "allocator/analysis/facts.h"

namespace levee::exporting {

inline constexpr int kViewVersion = 1;

struct ViewOptions {
  std::string title;
  /// Curves with more samples than this keep only the levels above them. 0 = no bound.
  std::size_t max_detail_samples = 0;
  std::size_t max_phase_depth = 6;
};

/// Writes `view.json` and `view.bin` into `folder`, which is made if need be. False with one
/// sentence in `why`.
bool write_view(const analysis::TraceFacts& facts, const ViewOptions& options,
                const std::string& folder, std::string* why);

}  // namespace levee::exporting
