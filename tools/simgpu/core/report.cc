#include "tools/simgpu/core/report.h"

#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "allocator/base/clock.h"
#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/core/call.h"
#include "tools/simgpu/core/process.h"
#include "tools/simgpu/core/settings.h"

namespace levee::simgpu {
namespace {

pid_t started_by = 0;
Nanos started_real;
Nanos started_modelled;
std::FILE* trace_file = nullptr;

std::FILE* open_or_stderr(const std::string& where) {
  if (where == "1") return stderr;
  std::FILE* file = std::fopen(where.c_str(), "a");
  if (file == nullptr) {
    std::fprintf(stderr, "simgpu: cannot write to %s; writing to stderr instead.\n", where.c_str());
    return stderr;
  }
  return file;
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes.value) / (1ULL << 30);
}
double seconds(Nanos time) {
  return static_cast<double>(time.value) * 1e-9;
}

std::string statistics_json(Process& process) {
  char buffer[256];
  std::string out = "{\"pid\": " + std::to_string(getpid()) + ", \"devices\": [";
  for (int i = 0; i < process.device_count(); ++i) {
    const device::sim::MemoryUse use = process.model().memory_use(DeviceId{i});
    std::snprintf(buffer, sizeof buffer,
                  "%s{\"total_bytes\": %" PRIu64 ", \"used_bytes\": %" PRIu64
                  ", \"peak_used_bytes\": %" PRIu64 "}",
                  i == 0 ? "" : ", ", use.total.value, use.used.value, use.peak_used.value);
    out += buffer;
  }
  std::snprintf(buffer, sizeof buffer,
                "], \"modelled_seconds\": %.6f, \"host_seconds\": %.6f, \"violations\": %" PRIu64
                ", \"lost_bytes\": %" PRIu64 ", \"calls\": {",
                seconds(process.model().now() - started_modelled),
                seconds(base::Clock::monotonic() - started_real), process.model().hazard_count(),
                process.backing().lost().value);
  out += buffer;
  bool is_first = true;
  for (const auto& [name, count] : call_counts()) {
    out += (is_first ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(count);
    is_first = false;
  }
  return out + "}}\n";
}

std::string statistics_text(Process& process) {
  char buffer[256];
  std::string out;
  for (int i = 0; i < process.device_count(); ++i) {
    const device::sim::MemoryUse use = process.model().memory_use(DeviceId{i});
    if (use.peak_used.value == 0 && i > 0) continue;
    std::snprintf(buffer, sizeof buffer,
                  "simgpu: GPU %d of %.2f GiB: %.3f GiB used at its peak, %.3f GiB at the end\n", i,
                  gib(use.total), gib(use.peak_used), gib(use.used));
    out += buffer;
  }
  if (const Bytes lost = process.backing().lost(); lost.value != 0) {
    std::snprintf(buffer, sizeof buffer,
                  "simgpu: %.3f GiB of copies were not kept and read as zero (--backing full keeps "
                  "them, %.3f GiB are held)\n",
                  gib(lost), gib(process.backing().held()));
    out += buffer;
  }
  std::snprintf(buffer, sizeof buffer, "simgpu: %.3f s modelled, %.3f s real\nsimgpu: calls:",
                seconds(process.model().now() - started_modelled),
                seconds(base::Clock::monotonic() - started_real));
  out += buffer;
  for (const auto& [name, count] : call_counts()) {
    out += " " + std::string(name) + " " + std::to_string(count);
  }
  return out + "\n";
}

void report() {
  Process* process = Process::running();
  if (process == nullptr || getpid() != started_by) return;
  const Settings& wanted = settings();
  if (!wanted.stats.empty()) {
    std::FILE* file = open_or_stderr(wanted.stats);
    std::fputs((file == stderr ? statistics_text(*process) : statistics_json(*process)).c_str(),
               file);
    if (file != stderr) std::fclose(file);
  }
  if (const std::uint64_t count = process->model().hazard_count(); count > 0) {
    std::fprintf(stderr, "simgpu: %" PRIu64 " violations of CUDA's rules, the first of them:\n",
                 count);
    const auto hazards = process->model().hazards();
    if (!hazards.empty()) std::fprintf(stderr, "simgpu: %s\n", hazards.front().text.c_str());
  }
  if (trace_file != nullptr) std::fflush(trace_file);
}

}  // namespace

void print_notice() {
  const Settings& wanted = settings();
  if (wanted.quiet) return;
  std::fprintf(
      stderr,
      "simgpu: running on a simulated GPU (%s, %.4g GiB): values are zeros, times are modelled.\n",
      wanted.name.c_str(), gib(wanted.memory));
}

void report_at_exit() {
  started_by = getpid();
  started_real = base::Clock::monotonic();
  started_modelled = started_real;
  std::atexit(&report);
  if (!settings().trace.empty()) {
    trace_file = open_or_stderr(settings().trace);
    activity::flags.fetch_or(activity::kTrace);
  }
}

void trace_call(const char* name, std::uint64_t argument, int result, Nanos start, Nanos end) {
  std::fprintf(trace_file != nullptr ? trace_file : stderr,
               "simgpu: %.6f %s(%#" PRIx64 ") = %d, %.1f us\n", seconds(start), name, argument,
               result, static_cast<double>((end - start).value) * 1e-3);
}

void trace_first_use(const char* library, const char* function) {
  if (!activity::is_on(activity::kTrace)) return;
  std::fprintf(trace_file != nullptr ? trace_file : stderr, "simgpu: first use of %s in %s\n",
               function, library);
}

void say_store_full() {
  std::fprintf(stderr,
               "simgpu: the %.4g MiB for the contents of device memory are used up: what large "
               "copies write from now on reads as zero (--backing full keeps it, --backing SIZE "
               "keeps more).\n",
               gib(settings().backing_limit.value_or(0_B)) * 1024);
}

void say_not_modelled(const char* library, const char* function) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!said->insert(function).second) return;
  }
  std::fprintf(stderr, "simgpu: %s of %s is not modelled; it answers that it is not supported.\n",
               function, library);
}

}  // namespace levee::simgpu
