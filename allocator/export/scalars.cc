#include "allocator/export/scalars.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "allocator/export/tfevents.h"

namespace levee::exporting {
namespace {

using analysis::Series;
using analysis::Timeline;
using analysis::TraceFacts;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

struct Point {
  std::uint64_t time_ns = 0;
  double value = 0;
};

// A step curve through (time, value) pairs, thinned to extremes of equal stretches of time.
std::vector<Point> thin(const std::vector<Point>& changes, std::uint64_t start_ns,
                        std::uint64_t end_ns) {
  std::vector<Point> out;
  if (changes.empty()) return out;
  if (changes.size() * 2 + 1 <= kMaxScalarPoints) {
    for (const Point& change : changes) {
      // The old value right before each change; between points TensorBoard draws straight lines.
      if (!out.empty()) out.push_back({change.time_ns, out.back().value});
      out.push_back(change);
    }
    if (end_ns > out.back().time_ns) out.push_back({end_ns, out.back().value});
    return out;
  }
  const std::size_t stretches = kMaxScalarPoints / 2 - 1;
  const double width = static_cast<double>(std::max<std::uint64_t>(end_ns - start_ns, 1)) /
                       static_cast<double>(stretches);
  std::size_t at = 0;
  for (std::size_t s = 0; s < stretches && at < changes.size(); ++s) {
    const std::uint64_t limit =
        s + 1 == stretches
            ? ~std::uint64_t{0}
            : start_ns + static_cast<std::uint64_t>(width * static_cast<double>(s + 1));
    std::size_t low = at;
    std::size_t high = at;
    const std::size_t first = at;
    for (; at < changes.size() && changes[at].time_ns < limit; ++at) {
      if (changes[at].value < changes[low].value) low = at;
      if (changes[at].value > changes[high].value) high = at;
    }
    if (at == first) continue;  // nothing changed: the line goes on
    out.push_back(changes[std::min(low, high)]);
    if (low != high) out.push_back(changes[std::max(low, high)]);
  }
  out.push_back({end_ns, changes.back().value});
  return out;
}

class ScalarWriter {
 public:
  ScalarWriter(const TraceFacts& facts, EventFile& file) : facts_(facts), file_(file) {}

  void write() {
    std::vector<ScalarCategory> categories;
    for (const analysis::DeviceFacts& device : facts_.devices) {
      const std::string prefix = facts_.devices.size() == 1
                                     ? std::string("memory")
                                     : fmt::format("memory_gpu{}", device.device.value);
      curves(device, prefix);
      categories.push_back({prefix,
                            {{"Reserved and allocated (GiB)",
                              {"^" + prefix + "/reserved$", "^" + prefix + "/allocated$"},
                              "",
                              ""},
                             {"Idle in the cache: between allocated and reserved (GiB)",
                              {},
                              prefix + "/allocated",
                              prefix + "/reserved"}}});
    }
    file_.layout(wall(facts_.start_ns), categories);
    steps();
  }

 private:
  double wall(std::uint64_t time_ns) const {
    const double since = static_cast<double>(time_ns - std::min(facts_.start_ns, time_ns));
    return (static_cast<double>(facts_.start_unix_ns) + since) / 1e9;
  }

  void curve(const std::string& tag, const std::vector<Point>& changes) {
    for (const Point& point : thin(changes, facts_.start_ns, facts_.end_ns)) {
      const std::uint64_t since = point.time_ns - std::min(facts_.start_ns, point.time_ns);
      file_.scalar(tag, wall(point.time_ns), static_cast<std::int64_t>(since / 1000), point.value);
    }
  }

  template <typename Value>
  void curve_of(const Timeline& timeline, const std::string& tag, Value value) {
    std::vector<Point> changes;
    for (std::size_t i = 0; i < timeline.size(); ++i) {
      const double now = value(i);
      if (changes.empty() || changes.back().value != now) {
        changes.push_back({timeline.time_ns(i), now});
      }
    }
    curve(tag, changes);
  }

  void curves(const analysis::DeviceFacts& device, const std::string& prefix) {
    const Timeline& t = device.timeline;
    const auto in_gib = [&t](Series series) {
      return [&t, series](std::size_t i) { return static_cast<double>(t.value(series, i)) / kGiB; };
    };
    curve_of(t, prefix + "/reserved", in_gib(Series::kReserved));
    curve_of(t, prefix + "/allocated", in_gib(Series::kAllocated));
    if (t.has_waiting()) curve_of(t, prefix + "/active", in_gib(Series::kActive));
    curve_of(t, prefix + "/fragmentation", [&t](std::size_t i) {
      return share_free(t.value(Series::kReserved, i), t.value(Series::kActive, i));
    });
    std::vector<Point> retries = {{facts_.start_ns, 0.0}};
    for (const analysis::Emergency& emergency : facts_.emergencies) {
      if (facts_.devices[emergency.device].device != device.device) continue;
      retries.push_back({emergency.begin_ns, retries.back().value + 1});
    }
    curve(prefix + "/retries", retries);
  }

  // Share of reserved memory that nothing uses: 0 is perfect.
  static double share_free(std::uint64_t reserved, std::uint64_t active) {
    if (reserved == 0 || active >= reserved) return 0.0;
    return 1.0 - static_cast<double>(active) / static_cast<double>(reserved);
  }

  // At most kMaxScalarPoints steps; of each stretch the one with the largest value.
  template <typename Value>
  void by_step(const std::string& tag, Value value) {
    const std::size_t count = facts_.steps.size();
    const std::size_t width = (count + kMaxScalarPoints - 1) / kMaxScalarPoints;
    for (std::size_t first = 0; first < count; first += width) {
      std::size_t best = first;
      for (std::size_t i = first; i < std::min(first + width, count); ++i) {
        if (value(i) > value(best)) best = i;
      }
      const analysis::Step& step = facts_.steps[best];
      file_.scalar(tag, wall(step.end_ns), static_cast<std::int64_t>(step.number), value(best));
    }
  }

  void steps() {
    for (const analysis::DeviceFacts& device : facts_.devices) {
      const std::string prefix = facts_.devices.size() == 1
                                     ? std::string("step")
                                     : fmt::format("step_gpu{}", device.device.value);
      const auto peak = [&device](std::size_t i) { return device.step_peaks[i]; };
      by_step(prefix + "/reserved",
              [&](std::size_t i) { return static_cast<double>(peak(i).reserved_bytes) / kGiB; });
      by_step(prefix + "/allocated",
              [&](std::size_t i) { return static_cast<double>(peak(i).allocated_bytes) / kGiB; });
      by_step(prefix + "/fragmentation", [&](std::size_t i) {
        return share_free(peak(i).reserved_bytes, peak(i).allocated_bytes);
      });
    }
    by_step("step/retries",
            [&](std::size_t i) { return static_cast<double>(facts_.steps[i].emergencies); });
    by_step("step/driver_memory_calls",
            [&](std::size_t i) { return static_cast<double>(facts_.steps[i].memory_calls); });
    by_step("step/duration_ms", [&](std::size_t i) {
      return static_cast<double>(facts_.steps[i].duration_ns()) / 1e6;
    });
  }

  const TraceFacts& facts_;
  EventFile& file_;
};

}  // namespace

bool write_scalars(const TraceFacts& facts, const std::string& folder, std::string* written,
                   std::string* why) {
  const double wall_time = static_cast<double>(facts.start_unix_ns) / 1e9;
  const auto file = EventFile::create(folder, wall_time, facts.host, facts.pid, why);
  if (file == nullptr) return false;
  ScalarWriter(facts, *file).write();
  *written = file->path();
  return file->commit(why);
}

}  // namespace levee::exporting
