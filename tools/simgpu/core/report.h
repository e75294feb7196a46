// Everything that simgpu tells people: the line at the start, the trace, the statistics at the end,
// what is not modelled, what could not be kept.
//
// Promises: the start-up line is printed once for each process that uses a GPU, unless whoever
// started it has printed it (SIMGPU_QUIET); statistics and violations are printed once, at the end
// of the process that started the GPU, not by its forked children. Everything goes to stderr, or to
// the file that was asked for.
#pragma once

#include <cstdint>

#include <levee/units.h>

#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

void print_notice();
/// Registers the report at the end of the process and turns the trace on, if they were asked for.
void report_at_exit();
void trace_call(const char* name, std::uint64_t argument, int result, Nanos start, Nanos end);
/// One line for each library function, the first time: SIMGPU_TRACE.
void trace_first_use(const char* library, const char* function);
/// That the first bytes copied to the device found no room; the store says it once.
void say_store_full();
/// One line for each name, always.
SIMGPU_CORE void say_not_modelled(const char* library, const char* function);

}  // namespace levee::simgpu
