// Facts as columns of numpy arrays and text, for Parquet and for people who want to compute with
// them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::bindings {

std::vector<std::string> table_names();
/// Columns of one table; raises LeveeError for a name that is none.
pybind11::dict table_columns(const analysis::TraceFacts& facts, const std::string& name);
pybind11::dict timeline_columns(const analysis::TraceFacts& facts, std::size_t device);
/// Calls `on_batch` with columns of at most `rows` raw events at a time.
void event_batches(const std::string& path, const pybind11::function& on_batch, std::size_t rows);

}  // namespace levee::bindings
