#include "tools/simgpu/core/faults.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <optional>

namespace levee::simgpu {
namespace {

using device::sim::CallKind;
using device::sim::Fault;

std::string_view cut(std::string_view* rest, char separator) {
  const std::size_t end = rest->find(separator);
  std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
  while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
  return part;
}

std::optional<CallKind> kind_named(std::string_view name) {
  for (std::size_t i = 0; i < device::sim::kCallKinds; ++i) {
    const auto kind = static_cast<CallKind>(i);
    if (name == device::sim::name_of(kind)) return kind;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Nanos> duration(std::string_view text) {
  if (text == "never") return device::sim::kNever;
  constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = number(text.substr(0, text.size() - unit.size()));
    if (value && *value < 1'000'000'000) return Nanos{static_cast<std::int64_t>(*value) * factor};
  }
  return std::nullopt;
}

/// Sets one "key=value" of a rule; false if it is not known.
bool set_key(std::string_view part, Fault* fault) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = part.substr(0, equals);
  const std::string_view value = part.substr(equals + 1);
  if (key == "delay") {
    const auto late = duration(value);
    if (!late) return false;
    fault->delay = *late;
    fault->status = device::Native::kSuccess;
    return true;
  }
  if (key == "times" && value == "forever") {
    fault->times = Fault::kForever;
    return true;
  }
  const auto count = number(value);
  if (!count) return false;
  if (key == "first" && *count > 0) {
    fault->first = *count;
  } else if (key == "every" && *count > 0) {
    fault->every = *count;
  } else if (key == "times") {
    fault->times = *count;
  } else if (key == "error" && *count < 1000) {
    fault->status = static_cast<device::Native>(*count);
  } else if (key == "device" && *count < 64) {
    fault->device = DeviceId{static_cast<std::int32_t>(*count)};
  } else {
    return false;
  }
  return true;
}

}  // namespace

device::sim::FaultPlan parse_faults(std::string_view text, std::string* problem) {
  device::sim::FaultPlan plan;
  problem->clear();
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view rule = cut(&rest, ';');
    if (rule.empty()) continue;
    const std::string_view name = cut(&rule, ':');
    const auto kind = kind_named(name);
    if (!kind) {
      *problem = "\"" + std::string(name) + "\" is not a call that can be made to fail.";
      return {};
    }
    Fault fault;
    fault.kind = *kind;
    while (!rule.empty()) {
      const std::string_view part = cut(&rule, ':');
      if (!set_key(part, &fault)) {
        *problem = "\"" + std::string(part) +
                   "\" is not understood; a rule takes first=, every=, times=, error=, device= and "
                   "delay=.";
        return {};
      }
    }
    plan.push_back(fault);
  }
  return plan;
}

device::sim::FaultPlan parse_faults_or_exit(std::string_view text) {
  std::string problem;
  device::sim::FaultPlan plan = parse_faults(text, &problem);
  if (!problem.empty()) {
    std::fprintf(stderr, "simgpu: SIMGPU_FAULTS: %s\n", problem.c_str());
    _exit(2);
  }
  return plan;
}

}  // namespace levee::simgpu
