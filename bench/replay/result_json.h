// Results of replays as JSON: a list with one object a replay, keys as the fields of
// `ReplayResult`, bytes and seconds as numbers.
#pragma once

#include <span>
#include <string>

#include "bench/replay/runner.h"

namespace levee::replay {

std::string to_json(std::span<const ReplayResult> results);

}  // namespace levee::replay
