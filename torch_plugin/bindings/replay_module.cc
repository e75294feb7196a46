// levee._replay: the replay lab for Python, behind `levee replay`.
//
// Promises: no GIL while a recording is read or replayed; a progress callback may end a replay by
// raising; bad input raises LeveeError with the sentence of the reader. Everything that a recording
// says is data: nothing of it is executed.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/replay/generators/catalogue.h"
#include "bench/replay/op_trace.h"
#include "bench/replay/op_trace_csv.h"
#include "bench/replay/policies/policy_factory.h"
#include "bench/replay/readers/recording.h"
#include "bench/replay/result_json.h"
#include "bench/replay/runner.h"
#include "torch_plugin/bindings/levee_error.h"

namespace py = pybind11;

namespace levee::bindings {
namespace {

/// A trace and what is computed from it once.
struct Recording {
  replay::OpTrace trace;
  replay::TraceFacts facts;
  std::string kind;
};

Recording with_facts(replay::OpTrace trace, std::string kind) {
  replay::TraceFacts facts = replay::facts_of(trace);
  return {std::move(trace), std::move(facts), std::move(kind)};
}

Recording read(const py::buffer& buffer, const std::string& name, std::int64_t device,
               double mflop_per_byte) {
  const py::buffer_info info = buffer.request();
  const std::string_view bytes(static_cast<const char*>(info.ptr),
                               static_cast<std::size_t>(info.size * info.itemsize));
  replay::ReadError error;
  std::optional<Recording> recording;
  {
    const py::gil_scoped_release unlocked;
    replay::OpTrace trace = replay::read_recording(bytes, {name, device, mflop_per_byte}, &error);
    if (error.sentence.empty())
      recording = with_facts(std::move(trace), std::string(name_of(replay::kind_of(bytes))));
  }
  if (!recording) raise_error(error.sentence);
  return std::move(*recording);
}

Recording generate(const std::string& name, std::uint32_t seed, const std::string& lengths_folder) {
  const replay::Generated* generated = replay::find_generated(name);
  if (generated == nullptr)
    raise_error("there is no pattern \"" + name + "\"; `levee replay --list` names them.");
  replay::RecordedLengths lengths;
  if (generated->needs_lengths) {
    auto read = replay::read_lengths(lengths_folder);
    if (!read) raise_error("the pattern " + name + " needs lengths that this installation lacks.");
    lengths = std::move(*read);
  }
  const py::gil_scoped_release unlocked;
  return with_facts(generated->make(seed, lengths), "pattern");
}

std::string run(const Recording& recording, const std::string& policy_name, std::uint64_t capacity,
                bool marks, bool judge, bool threads_as_recorded,
                const std::optional<py::function>& progress) {
  const replay::Limits limits{Bytes{capacity}};
  std::string why;
  const std::unique_ptr<replay::ReplayPolicy> policy =
      replay::make_policy(policy_name, recording.trace, limits, {judge, marks}, &why);
  if (policy == nullptr) raise_error(why + ".");
  const auto tell = [&](double share) {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (progress) (*progress)(share);
  };
  const py::gil_scoped_release unlocked;
  const replay::ReplayResult result = replay::run_policy(
      recording.trace, recording.facts, *policy, limits, tell,
      threads_as_recorded ? replay::ReplayThreads::kAsRecorded : replay::ReplayThreads::kOne);
  return replay::to_json(std::span(&result, 1));
}

std::string replay_csv(const Recording& recording) {
  const py::gil_scoped_release unlocked;
  return replay::to_csv(recording.trace);
}

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

NamedTexts policies() {
  NamedTexts all;
  for (const replay::PolicyInfo& info : replay::policy_list())
    all.emplace_back(info.name, info.what);
  return all;
}

NamedTexts patterns() {
  NamedTexts all;
  for (const replay::Generated& generated : replay::catalogue())
    all.emplace_back(generated.name, generated.what);
  return all;
}

}  // namespace
}  // namespace levee::bindings

PYBIND11_MODULE(_replay, module) {
  using levee::bindings::Recording;
  module.doc() = "The replay lab: what a recorded job would have reserved under other allocators.";
  py::class_<Recording>(module, "Recording", "A program's requests to its allocator.")
      .def_property_readonly("name", [](const Recording& r) { return r.trace.name; })
      .def_readonly("kind", &Recording::kind)
      .def_property_readonly("requests", [](const Recording& r) { return r.facts.allocations; })
      .def_property_readonly("streams", [](const Recording& r) { return r.trace.stream_count; })
      .def_property_readonly(
          "threads", [](const Recording& r) { return r.trace.thread_count; },
          "That made the requests; 0 if the recording does not say which made which.")
      .def_property_readonly("steps",
                             [](const Recording& r) {
                               return r.trace.has_step_marks ? r.facts.step_seconds.size()
                                                             : std::size_t{0};
                             })
      .def_property_readonly("peak_live",
                             [](const Recording& r) { return r.facts.peak_live.value; })
      .def_property_readonly("peak_active",
                             [](const Recording& r) { return r.facts.peak_active.value; })
      .def_property_readonly(
          "recorded_peak_reserved",
          [](const Recording& r) { return r.trace.recorded_peak_reserved.value; },
          "What the recorded run reserved at most; 0 if the recording does not say.")
      .def_property_readonly("is_levees_own",
                             [](const Recording& r) { return r.trace.is_levees_own; })
      .def_property_readonly(
          "private_requests",
          [](const Recording& r) { return r.trace.completeness.private_requests; })
      .def_property_readonly(
          "recorded_uses", [](const Recording& r) { return r.facts.recorded_uses; },
          "Blocks that other streams used.")
      .def_property_readonly("is_complete",
                             [](const Recording& r) { return r.trace.completeness.is_complete(); })
      .def_property_readonly(
          "starts_at_beginning",
          [](const Recording& r) { return r.trace.completeness.starts_at_beginning; })
      .def_property_readonly(
          "live_at_start",
          [](const Recording& r) { return r.trace.completeness.live_at_start.value; })
      .def(
          "to_csv", [](const Recording& r) { return py::bytes(levee::bindings::replay_csv(r)); },
          "The requests alone, as the lab's CSV.")
      .def_property_readonly("about",
                             [](const Recording& r) { return r.trace.completeness.sentence(); });
  module.def("read", &levee::bindings::read, py::arg("data"), py::arg("name"),
             py::arg("device") = -1, py::arg("mflop_per_byte") = 0.0);
  module.def("generate", &levee::bindings::generate, py::arg("name"), py::arg("seed") = 1,
             py::arg("lengths_folder") = "");
  module.def("run", &levee::bindings::run, py::arg("recording"), py::arg("policy"),
             py::arg("capacity") = 0, py::arg("marks") = true, py::arg("judge") = false,
             py::arg("threads_as_recorded") = false, py::arg("progress") = py::none(),
             "One replay; its result as JSON.");
  module.def("policies", &levee::bindings::policies, "Name and meaning of every policy.");
  module.def("patterns", &levee::bindings::patterns, "Name and meaning of every pattern.");
}
