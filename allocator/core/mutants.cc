#include "allocator/core/mutants.h"

namespace levee::core {

#if defined(LEVEE_CORE_MUTANTS)
Mutant active_mutant = Mutant::kNone;
#endif

}  // namespace levee::core
