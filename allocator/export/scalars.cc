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

// A point of a step curve: sample `sample` of a timeline holds from `time_ns` on.
struct Place {
  std::uint64_t time_ns = 0;
  std::size_t sample = 0;
};

// Where all curves of one timeline are drawn: the same places for each, since TensorBoard's margin
// charts want that. Every change if they are few, with the old value right before each (between
// points TensorBoard draws straight lines); else the lowest and highest reserved and allocated of
// equal stretches of time.
std::vector<Place> places_of(const Timeline& t, std::uint64_t end_ns) {
  std::vector<Place> out;
  if (t.empty()) return out;
  if (t.size() * 2 + 1 <= kMaxScalarPoints) {
    for (std::size_t i = 0; i < t.size(); ++i) {
      if (i > 0) out.push_back({t.time_ns(i), i - 1});
      out.push_back({t.time_ns(i), i});
    }
  } else {
    const std::size_t stretches = kMaxScalarPoints / 4 - 1;
    const std::uint64_t start_ns = t.start_ns();
    const double width =
        static_cast<double>(std::max<std::uint64_t>(t.time_ns(t.size() - 1) - start_ns, 1)) /
        static_cast<double>(stretches);
    std::size_t at = 0;
    for (std::size_t s = 0; s < stretches && at < t.size(); ++s) {
      const std::uint64_t limit =
          s + 1 == stretches
              ? ~std::uint64_t{0}
              : start_ns + static_cast<std::uint64_t>(width * static_cast<double>(s + 1));
      const std::size_t first = at;
      while (at < t.size() && t.time_ns(at) < limit) ++at;
      if (at == first) continue;  // nothing changed: the line goes on
      std::vector<std::size_t> kept;
      for (const Series series : {Series::kReserved, Series::kAllocated}) {
        const auto begin = t.column(series).begin();
        const auto [low, high] = std::minmax_element(begin + static_cast<std::ptrdiff_t>(first),
                                                     begin + static_cast<std::ptrdiff_t>(at));
        kept.push_back(static_cast<std::size_t>(low - begin));
        kept.push_back(static_cast<std::size_t>(high - begin));
      }
      std::sort(kept.begin(), kept.end());
      kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
      for (const std::size_t i : kept) out.push_back({t.time_ns(i), i});
    }
  }
  out.push_back({std::max(end_ns, out.back().time_ns), t.size() - 1});
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

  void point(const std::string& tag, std::uint64_t time_ns, double value) {
    const std::uint64_t since = time_ns - std::min(facts_.start_ns, time_ns);
    file_.scalar(tag, wall(time_ns), static_cast<std::int64_t>(since / 1000), value);
  }

  void curves(const analysis::DeviceFacts& device, const std::string& prefix) {
    const Timeline& t = device.timeline;
    const std::vector<Place> places = places_of(t, facts_.end_ns);
    const auto curve = [&](const std::string& tag, const auto& value) {
      for (const Place& place : places) point(tag, place.time_ns, value(place.sample));
    };
    const auto in_gib = [&t](Series series) {
      return [&t, series](std::size_t i) { return static_cast<double>(t.value(series, i)) / kGiB; };
    };
    curve(prefix + "/reserved", in_gib(Series::kReserved));
    curve(prefix + "/allocated", in_gib(Series::kAllocated));
    if (t.has_waiting()) curve(prefix + "/active", in_gib(Series::kActive));
    curve(prefix + "/fragmentation", [&t](std::size_t i) {
      return share_free(t.value(Series::kReserved, i), t.value(Series::kActive, i));
    });
    retries(device, prefix + "/retries");
  }

  // A staircase of emergencies so far; of very many, every n-th.
  void retries(const analysis::DeviceFacts& device, const std::string& tag) {
    std::vector<std::uint64_t> times;
    for (const analysis::Emergency& emergency : facts_.emergencies) {
      if (facts_.devices[emergency.device].device == device.device) {
        times.push_back(emergency.begin_ns);
      }
    }
    point(tag, facts_.start_ns, 0);
    const std::size_t every = times.size() / (kMaxScalarPoints / 2 - 2) + 1;
    for (std::size_t i = 0; i < times.size(); i += every) {
      point(tag, times[i], static_cast<double>(i));
      point(tag, times[i], static_cast<double>(i + 1));
    }
    point(tag, facts_.end_ns, static_cast<double>(times.size()));
  }

  // Share of reserved memory that nothing uses: 0 is perfect.
  static double share_free(std::uint64_t reserved, std::uint64_t active) {
    if (reserved == 0 || active >= reserved) return 0.0;
    return 1.0 - static_cast<double>(active) / static_cast<double>(reserved);
  }

  // At most kMaxScalarPoints steps; of each stretch the one with the largest value. What came after
  // the last step is none.
  template <typename Value>
  void by_step(const std::string& tag, Value value) {
    const std::size_t count = facts_.ended_steps();
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
