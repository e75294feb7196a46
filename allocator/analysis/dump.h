// Every event of a trace as one line of text: for golden tests, for grep, and for a person who
// wants the truth.
//
// Promises: the same file gives the same text; times are relative to the start of the record with
// nanoseconds, sizes exact bytes, names resolved; one line an event. Format of a line: time,
// thread, kind, then "name=value" fields that the kind has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <levee/event.h>

#include "allocator/record/trace_reader.h"

namespace levee::analysis {

struct DumpOptions {
  std::uint64_t max_lines = 0;  ///< 0 = all
  bool header = true;           ///< what the file says about itself, as lines that begin with "#"
};

/// Calls `write` with some kilobytes of whole lines at a time; stops early when it returns false.
/// Returns the events printed.
std::uint64_t dump(const record::TraceReader& trace, const DumpOptions& options,
                   const std::function<bool(std::string_view)>& write);

/// "alloc", "driver_call", ...
const char* kind_name(EventKind kind);
/// "map", "create_handle", ...: as `DriverCall` spells it.
const char* call_name(DriverCall call);

}  // namespace levee::analysis
