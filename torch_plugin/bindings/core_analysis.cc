// Readers of recordings for levee._core: a trace or samples in, reports and files out.
//
// Promises: no GIL while files are read or written; a file that is no trace, and a file that cannot
// be written, raise LeveeError with the one sentence that the library gives; nothing here touches a
// running allocator.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocator/analysis/analyze.h"
#include "allocator/analysis/dump.h"
#include "allocator/analysis/explain.h"
#include "allocator/analysis/ranks.h"
#include "allocator/analysis/samples.h"
#include "allocator/export/chrome.h"
#include "allocator/export/memory_viz.h"
#include "allocator/export/perfetto.h"
#include "allocator/export/report_json.h"
#include "allocator/export/scalars.h"
#include "allocator/export/view_bundle.h"
#include "allocator/record/trace_reader.h"
#include "torch_plugin/bindings/core_analysis_columns.h"
#include "torch_plugin/bindings/core_bindings.h"
#include "torch_plugin/bindings/levee_error.h"

namespace py = pybind11;

namespace levee::bindings {
namespace {

using analysis::TraceFacts;

std::unique_ptr<record::TraceReader> open_reader(const std::string& path) {
  std::string why;
  std::unique_ptr<record::TraceReader> reader;
  {
    const py::gil_scoped_release unlocked;
    reader = record::TraceReader::open(path, &why);
  }
  if (reader == nullptr) raise_error(why);
  return reader;
}

TraceFacts analyze_file(const std::string& path, bool keep_blocks, bool activity) {
  const std::unique_ptr<record::TraceReader> reader = open_reader(path);
  const py::gil_scoped_release unlocked;
  analysis::AnalysisOptions options;
  options.keep_blocks = keep_blocks;
  options.read_activity = activity;
  TraceFacts facts = analysis::analyze(*reader, options);
  facts.path = path;
  return facts;
}

template <typename T>
std::vector<std::uint64_t> column_of(const py::dict& columns, const char* name, std::size_t rows,
                                     T missing) {
  std::vector<std::uint64_t> out(rows, static_cast<std::uint64_t>(missing));
  if (!columns.contains(name)) return out;
  const auto array =
      py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>(columns[name]);
  if (static_cast<std::size_t>(array.size()) != rows) {
    raise_error(std::string("The column ") + name + " has another length than the times.");
  }
  for (std::size_t i = 0; i < rows; ++i) out[i] = array.data()[i];
  return out;
}

TraceFacts facts_of_samples(const py::dict& about, const py::dict& columns) {
  analysis::SampledRun run;
  const auto text = [&](const char* name) {
    return about.contains(name) ? py::cast<std::string>(about[name]) : std::string();
  };
  run.label = text("label");
  run.program = text("program");
  run.device_name = text("device_name");
  if (about.contains("total_bytes"))
    run.total_bytes = py::cast<std::uint64_t>(about["total_bytes"]);
  if (about.contains("is_modelled")) run.is_modelled = py::cast<bool>(about["is_modelled"]);
  const auto times =
      py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>(columns["time_ns"]);
  const auto rows = static_cast<std::size_t>(times.size());
  const auto reserved = column_of(columns, "reserved", rows, 0);
  const auto allocated = column_of(columns, "allocated", rows, 0);
  const auto reserved_peak = column_of(columns, "reserved_peak", rows, 0);
  const auto allocated_peak = column_of(columns, "allocated_peak", rows, 0);
  const auto step = column_of(columns, "step", rows, std::int64_t{-1});
  for (std::size_t i = 0; i < rows; ++i) {
    run.samples.push_back({times.data()[i], reserved[i], allocated[i], reserved_peak[i],
                           allocated_peak[i], static_cast<std::int64_t>(step[i])});
  }
  return analysis::facts_from_samples(run);
}

py::dict header_of(const std::string& path) {
  const std::unique_ptr<record::TraceReader> reader = open_reader(path);
  const record::TraceHeader& header = reader->header();
  // A command line is bytes, not necessarily text.
  const auto text = [](const std::string& bytes) {
    return py::bytes(bytes).attr("decode")("utf-8", "replace");
  };
  py::dict out;
  out["pid"] = header.pid;
  out["rank"] = header.rank;
  out["world_size"] = header.world_size;
  out["launch"] = text(header.launch);
  out["host"] = text(header.host);
  out["program"] = text(header.program);
  out["start_unix_ns"] = header.start_unix_ns;
  return out;
}

std::uint64_t dump_file(const std::string& path, const py::function& write, std::uint64_t max_lines,
                        bool header) {
  const std::unique_ptr<record::TraceReader> reader = open_reader(path);
  analysis::DumpOptions options;
  options.max_lines = max_lines;
  options.header = header;
  // A failed write (a closed pipe) ends the dump; the exception goes on to the caller.
  return analysis::dump(*reader, options, [&](std::string_view text) {
    write(py::str(py::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace")));
    return true;
  });
}

py::dict rank_report(const std::vector<TraceFacts*>& runs) {
  const std::vector<const TraceFacts*> all(runs.begin(), runs.end());
  const analysis::RankReport report = analysis::merge_ranks(all);
  py::list ranks;
  for (const analysis::RankFacts& rank : report.ranks) {
    py::dict row;
    row["rank"] = rank.rank;
    row["label"] = rank.label;
    row["peak_reserved_bytes"] = rank.peak_reserved_bytes;
    row["peak_allocated_bytes"] = rank.peak_allocated_bytes;
    row["emergencies"] = rank.emergencies;
    row["allocator_ns"] = rank.allocator_ns;
    row["stalled_steps"] = rank.stalled_steps;
    row["cost_ns"] = rank.cost_ns;
    ranks.append(row);
  }
  py::list steps;
  for (const analysis::SharedStep& step : report.worst_steps) {
    py::dict row;
    row["step"] = step.number;
    row["slowest"] = report.ranks[step.slowest].label;
    row["allocator_ns"] = step.allocator_ns;
    row["others_ns"] = step.others_ns;
    steps.append(row);
  }
  py::dict out;
  out["ranks"] = ranks;
  out["worst_steps"] = steps;
  out["shared_steps"] = report.shared_steps;
  out["lost_ns"] = report.lost_ns;
  out["verdict"] = report.verdict;
  return out;
}

// Runs a writer without the GIL and raises what it says.
template <typename Write>
void write_or_raise(Write write) {
  std::string why;
  bool written = false;
  {
    const py::gil_scoped_release unlocked;
    written = write(&why);
  }
  if (!written) raise_error(why);
}

void write_view(const TraceFacts& facts, const std::string& folder, const std::string& title,
                std::size_t max_detail_samples) {
  exporting::ViewOptions options;
  options.title = title;
  options.max_detail_samples = max_detail_samples;
  write_or_raise(
      [&](std::string* why) { return exporting::write_view(facts, options, folder, why); });
}

py::list write_chrome(const TraceFacts& facts, const std::string& path, bool for_tensorboard,
                      bool gzip, std::size_t max_memory_events, std::uint64_t max_part_bytes) {
  exporting::ChromeOptions options;
  options.flavour =
      for_tensorboard ? exporting::ChromeFlavour::kTensorBoard : exporting::ChromeFlavour::kKineto;
  options.gzip = gzip;
  options.max_memory_events = max_memory_events;
  options.max_part_bytes = max_part_bytes;
  std::vector<std::string> written;
  write_or_raise([&](std::string* why) {
    return exporting::write_chrome(facts, options, path, &written, why);
  });
  py::list paths;
  for (const std::string& one : written) paths.append(fs_text(one));
  return paths;
}

py::str write_scalars(const TraceFacts& facts, const std::string& folder) {
  std::string written;
  write_or_raise(
      [&](std::string* why) { return exporting::write_scalars(facts, folder, &written, why); });
  return fs_text(written);
}

}  // namespace

void bind_analysis(py::module_& module) {
  py::class_<TraceFacts>(module, "Facts", "What analysis found in one recording.")
      .def_property_readonly("path", [](const TraceFacts& f) { return fs_text(f.path); })
      .def_readwrite("label", &TraceFacts::label)
      .def_readonly("rank", &TraceFacts::rank)
      .def_readonly("host", &TraceFacts::host)
      .def_readonly("pid", &TraceFacts::pid)
      .def_readonly("events", &TraceFacts::events)
      .def_readonly("is_sampled", &TraceFacts::is_sampled)
      .def_readonly("is_modelled", &TraceFacts::is_modelled)
      .def_property_readonly("start_unix_ns", [](const TraceFacts& f) { return f.start_unix_ns; })
      .def(
          "report_json",
          [](const TraceFacts& facts, std::size_t max_emergencies) {
            exporting::ReportOptions options;
            options.max_emergencies = max_emergencies;
            return exporting::report_json(facts, options);
          },
          py::arg("max_emergencies") = 10'000, py::call_guard<py::gil_scoped_release>())
      .def("emergency_text",
           [](const TraceFacts& facts, std::size_t index) {
             if (index >= facts.emergencies.size()) throw py::index_error();
             return analysis::emergency_text(facts, facts.emergencies[index]);
           })
      .def("write_view", &write_view, py::arg("folder"), py::arg("title") = "",
           py::arg("max_detail_samples") = 0)
      .def("write_chrome", &write_chrome, py::arg("path"), py::arg("for_tensorboard") = false,
           py::arg("gzip") = true, py::arg("max_memory_events") = 0,
           py::arg("max_part_bytes") = std::uint64_t{100} << 20)
      .def("write_perfetto",
           [](const TraceFacts& facts, const std::string& path) {
             write_or_raise(
                 [&](std::string* why) { return exporting::write_perfetto(facts, path, why); });
           })
      .def("write_scalars", &write_scalars, py::arg("folder"))
      .def(
          "write_memory_viz",
          [](const TraceFacts& facts, const std::string& path, std::size_t max_entries) {
            exporting::MemoryVizOptions options;
            options.max_entries = max_entries;
            write_or_raise([&](std::string* why) {
              return exporting::write_memory_viz(facts, options, path, why);
            });
          },
          py::arg("path"), py::arg("max_entries") = 1'000'000)
      .def("timeline", &timeline_columns, py::arg("device") = 0,
           "Columns time_ns, reserved, allocated, active of one device (by position).")
      .def("table", &table_columns, py::arg("name"),
           "Columns of one of TABLES; see allocator/export/README.md.");

  module.def("open_trace", &analyze_file, py::arg("path"), py::arg("keep_blocks") = false,
             py::arg("activity") = true);
  module.def("facts_from_samples", &facts_of_samples, py::arg("about"), py::arg("columns"));
  module.def("dump_trace", &dump_file, py::arg("path"), py::arg("write"), py::arg("max_lines") = 0,
             py::arg("header") = true);
  module.def("trace_header", &header_of, py::arg("path"), "Who wrote a recording, and when.");
  module.def("merge_ranks", &rank_report);
  module.def("event_batches", &event_batches, py::arg("path"), py::arg("on_batch"),
             py::arg("rows") = 65'536, "Calls on_batch(dict of columns) for all events in order.");
  module.attr("TABLES") = py::cast(table_names());
}

}  // namespace levee::bindings
