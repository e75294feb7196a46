// A trace in Perfetto's own protocol-buffer format: counters of reserved and allocated, emergencies
// and storms with their texts, steps, phases, driver calls and kernels, each on a track with a
// name.
//
// Promises: timestamps of one sequence never decrease, every slice that begins ends, names are
// interned once. Compared with the Chrome JSON of the same run it is about five times smaller and
// keeps nanoseconds.
#pragma once

#include <string>

#include "allocator/analysis/facts.h"

namespace levee::exporting {

bool write_perfetto(const analysis::TraceFacts& facts, const std::string& path, std::string* why);

}  // namespace levee::exporting
