// Facts as one JSON document: what `levee report --json` prints, what views and Python are made of.
//
// Promises: the schema of README.md ("levee-report", version 1): keys are only ever added; times
// are nanoseconds since `source.start_ns`, sizes bytes; every emergency and storm carries its text.
// Pure.
#pragma once

#include <cstddef>
#include <string>

#include "allocator/analysis/facts.h"
#include "allocator/export/json_writer.h"

namespace levee::exporting {

inline constexpr int kReportVersion = 1;

struct ReportOptions {
  std::size_t max_emergencies = 10'000;  ///< listed one by one; totals always count all
  std::size_t max_phases = 1'000;
};

/// Writes the report as one JSON object.
void write_report(const analysis::TraceFacts& facts, const ReportOptions& options,
                  JsonWriter& json);
std::string report_json(const analysis::TraceFacts& facts, const ReportOptions& options = {});

/// "cudaMalloc", "cuMemMap", ...: the name that a user looks up.
const char* driver_call_name(DriverCall call);

}  // namespace levee::exporting
