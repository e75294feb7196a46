#include "bench/replay/result_json.h"

#include <string_view>

#include <fmt/format.h>

namespace levee::replay {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string list(const std::vector<Bytes>& values) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ",", values[i].value);
  return out + "]";
}

std::string object(const ReplayResult& r) {
  std::string out = fmt::format("{{\"trace\":{},\"policy\":{},\"settings\":{}", quoted(r.trace),
                                quoted(r.policy), quoted(r.settings));
  const auto number = [&out](const char* name, auto value) {
    out += fmt::format(",\"{}\":{}", name, value);
  };
  number("capacity", r.capacity.value);
  number("threads", r.threads);
  number("peak_live", r.peak_live.value);
  number("peak_active", r.peak_active.value);
  number("peak_reserved", r.peak_reserved.value);
  number("ratio", r.ratio);
  number("failures", r.failures);
  number("first_failure_step", r.first_failure_step);
  out += fmt::format(",\"first_failure_where\":{}", quoted(r.first_failure_where));
  number("emergencies", r.emergencies);
  number("driver_seconds", r.driver.pessimistic);
  number("driver_seconds_optimistic", r.driver.optimistic);
  number("creation_seconds", r.driver.creation);
  number("step_seconds", r.step_seconds);
  number("driver_pct", r.driver_pct);
  number("driver_pct_warm", r.driver_pct_warm);
  number("driver_pct_warm_optimistic", r.driver_pct_warm_optimistic);
  number("guard_step", r.guard_step);
  number("driver_pct_guarded", r.driver_pct_guarded);
  number("driver_pct_last", r.driver_pct_last);
  number("creation_pct", r.creation_pct);
  number("warm_up_driver_seconds", r.warm_up_driver_seconds);
  number("warm_up_creation_seconds", r.warm_up_creation_seconds);
  number("ops", r.ops);
  number("steps", r.steps);
  number("warm_steps", r.warm_steps);
  number("dirty_steps", r.dirty_steps);
  number("steady_allocations", r.steady_allocations);
  number("steady_memory_calls", r.steady_memory_calls);
  number("steady_events_created", r.steady_events_created);
  number("steady_synchronisations", r.steady_synchronisations);
  number("unexplained_growth", r.unexplained_growth.value);
  number("worst_step_seconds", r.worst_step_seconds);
  number("reserved_growth_warm", r.reserved_growth_warm.value);
  number("memory_calls", r.costs.memory_calls());
  number("mallocs", r.costs.mallocs);
  number("frees", r.costs.frees);
  number("created", r.costs.created);
  number("mapped", r.costs.mapped);
  number("unmapped", r.costs.unmapped);
  number("event_records", r.costs.event_records);
  number("stream_waits", r.costs.stream_waits);
  number("event_queries", r.costs.event_queries);
  number("synchronisations", r.costs.synchronisations);
  number("side_allocations", r.early_waits.side_allocations);
  number("side_early_waits", r.early_waits.side_early);
  number("side_fresh", r.early_waits.side_fresh);
  number("side_early_pct", r.early_waits.side_pct());
  number("main_early_waits", r.early_waits.main_early);
  number("main_fresh", r.early_waits.main_fresh);
  number("read_seconds", r.read_seconds);
  number("cpu_seconds", r.cpu_seconds);
  number("wall_seconds", r.wall_seconds);
  out += ",\"details\":{";
  for (std::size_t i = 0; i < r.details.size(); ++i) {
    out +=
        fmt::format("{}{}:{}", i == 0 ? "" : ",", quoted(r.details[i].first), r.details[i].second);
  }
  out += "},\"reserved_by_step\":" + list(r.reserved_by_step);
  out += ",\"live_by_step\":" + list(r.live_by_step);
  out += ",\"reserved_series\":" + list(r.reserved_series);
  return out + ",\"live_series\":" + list(r.live_series) + "}";
}

}  // namespace

std::string to_json(std::span<const ReplayResult> results) {
  std::string out = "[";
  for (const ReplayResult& result : results)
    out += (out.size() > 1 ? ",\n" : "\n") + object(result);
  return out + "\n]\n";
}

}  // namespace levee::replay
