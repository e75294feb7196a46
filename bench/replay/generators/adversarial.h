// Patterns made to break placement policies: what no recording shows, or shows rarely.
//
// Owns: a list of named generators, all seeded and all of modelled steps of 60 TFLOP (0.48 s), so
// that driver time has a base. Promises: the same name and seed give the same trace everywhere.
// Each says in one sentence what it attacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/replay/op_trace.h"

namespace levee::replay {

struct AdversarialPattern {
  std::string name;
  std::string attacks;
  OpTrace (*make)(const std::string& name, std::uint32_t seed);
};

const std::vector<AdversarialPattern>& adversarial_patterns();

}  // namespace levee::replay
