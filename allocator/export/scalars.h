// Memory over time as TensorBoard scalars: what a TensorBoard without any plugin shows.
//
// Promises: at most `kMaxScalarPoints` points a tag, so that TensorBoard's own random thinning
// never starts, and every extreme among them; two points at each change, so that its straight lines
// between points draw steps; step = microseconds since the start for curves over time, step number
// for tags by step. A Custom Scalars layout puts reserved and allocated into one chart. Tags:
// README.md.
#pragma once

#include <cstddef>
#include <string>

#include "allocator/analysis/facts.h"

namespace levee::exporting {

inline constexpr std::size_t kMaxScalarPoints = 1'000;

/// Writes one event file into `folder`; its name goes to `written`. False with one sentence in
/// `why`.
bool write_scalars(const analysis::TraceFacts& facts, const std::string& folder,
                   std::string* written, std::string* why);

}  // namespace levee::exporting
