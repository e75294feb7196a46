#include "allocator/analysis/dump.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "allocator/analysis/oom_text.h"

namespace levee::analysis {
namespace {

using Out = std::back_insert_iterator<std::string>;

// Nothing that a terminal obeys: also not the controls of eight bits, two bytes in UTF-8.
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else if (c == '\xC2' && next >= 0x80 && next < 0xA0) {
      out += fmt::format("\\xc2\\x{:02x}", next);
      ++i;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

class Dumper {
 public:
  explicit Dumper(const record::TraceReader& trace) : trace_(trace) {
    start_ = std::max<std::int64_t>(trace.header().start.value, 0);
    for (const record::TraceThread& thread : trace.threads()) {
      threads_[thread.index] =
          thread.name.empty() ? fmt::format("thread-{}", thread.os_id) : escaped(thread.name);
    }
  }

  void header(std::string& text) {
    const record::TraceHeader& h = trace_.header();
    const record::Coverage& c = trace_.coverage();
    const Out out = std::back_inserter(text);
    fmt::format_to(out, "# levee trace, format {}, levee {}\n", h.format_version, h.levee_version);
    fmt::format_to(out, "# program: {}\n# host: {}  pid: {}  rank: {}  clock: {}\n",
                   escaped(h.program), escaped(h.host), h.pid, h.rank, h.clock);
    for (const record::TraceDevice& device : trace_.devices()) {
      fmt::format_to(out, "# device {}: {}, {} bytes\n", device.device.value, escaped(device.name),
                     device.total_memory.value);
    }
    fmt::format_to(out, "# events: {}  lost: {}  dropped: {}  damaged blocks: {}\n", c.events,
                   c.lost_events, c.dropped_events, c.damaged_blocks);
  }

  void line(const record::TraceEvent& item, std::string& text) {
    const Event& e = item.event;
    const Out out = std::back_inserter(text);
    const std::int64_t since = static_cast<std::int64_t>(e.time_ns) - start_;
    const std::uint64_t size = static_cast<std::uint64_t>(since < 0 ? -since : since);
    fmt::format_to(out, "{}{}.{:09} {} {}", since < 0 ? "-" : "+", size / 1'000'000'000,
                   size % 1'000'000'000, thread(item.thread), kind_name(e.kind()));
    fields(e, text);
    if (e.context().value != 0 && !names_itself(e.kind())) {
      fmt::format_to(out, " at=\"{}\"", escaped(trace_.context(e.context()).text));
    }
    text.push_back('\n');
  }

 private:
  std::string thread(std::uint32_t index) {
    const auto known = threads_.find(index);
    return known == threads_.end() ? fmt::format("#{}", index) : known->second;
  }

  static bool names_itself(EventKind kind) {
    return kind == EventKind::kPhasePush || kind == EventKind::kPhasePop ||
           kind == EventKind::kKernel || kind == EventKind::kNote;
  }

  void place(const Event& e, std::string& text) {
    if (e.lane.value == 0) return;
    const record::TraceLane lane = trace_.lane(e.lane);
    fmt::format_to(std::back_inserter(text), " device={} stream={:#x}", lane.device.value,
                   lane.stream.value);
  }

  void fields(const Event& e, std::string& text) {
    const Out out = std::back_inserter(text);
    switch (e.kind()) {
      case EventKind::kAlloc:
      case EventKind::kFree:
      case EventKind::kFreeCompleted:
        fmt::format_to(out, " addr={:#x} bytes={} requested={}", e.a, block_of(e.b).value,
                       requested_of(e.b).value);
        place(e, text);
        if (e.aux != 0) {
          const PoolId pool = trace_.pool(e.aux).pool;
          fmt::format_to(out, " pool=({},{})", pool.first, pool.second);
        }
        return;
      case EventKind::kRecordUse:
        fmt::format_to(out, " addr={:#x}", e.a);
        return place(e, text);
      case EventKind::kSegmentAlloc:
      case EventKind::kSegmentFree:
        fmt::format_to(out, " addr={:#x} bytes={}", e.a, e.b);
        return place(e, text);
      case EventKind::kPageCreate:
      case EventKind::kStitch:
      case EventKind::kRebase:
      case EventKind::kUnmap:
        fmt::format_to(out, " addr={:#x} bytes={} pages={}", e.a, e.b, e.aux);
        return place(e, text);
      case EventKind::kPageRelease:
        fmt::format_to(out, " bytes={} pages={}", e.b, e.aux);
        return place(e, text);
      case EventKind::kDriverCall: {
        const bool failed = (e.aux & kDriverCallFailed) != 0;
        const auto call =
            static_cast<DriverCall>(e.aux & static_cast<std::uint16_t>(~kDriverCallFailed));
        fmt::format_to(out, " call={} ns={}", call_name(call), e.a);
        if (failed) {
          fmt::format_to(out, " error={}", e.b);
        } else if (e.b != 0) {
          fmt::format_to(out, " bytes={}", e.b);
        }
        return place(e, text);
      }
      case EventKind::kEmergencyBegin:
        fmt::format_to(out, " requested={} reserved={} cause=\"{}\"", e.a, e.b,
                       cause_name(static_cast<EmergencyCause>(e.aux)));
        return place(e, text);
      case EventKind::kEmergencyRung:
        fmt::format_to(out, " rung=\"{}\" usable={} ns={}",
                       rung_name(static_cast<LadderRung>(e.aux)), e.b, e.a);
        return;
      case EventKind::kEmergencyEnd:
        fmt::format_to(out, " served={} reserved={} ns={}", e.aux == 1, e.b, e.a);
        return;
      case EventKind::kWaitInserted:
        fmt::format_to(out, " for_lane={} bytes={}", e.a, e.b);
        return place(e, text);
      case EventKind::kPhasePush:
      case EventKind::kPhasePop:
      case EventKind::kNote:
        fmt::format_to(out, " \"{}\"", escaped(trace_.context(e.context()).text));
        return;
      case EventKind::kStepMark:
        fmt::format_to(out, " step={}{}", e.a, e.b == 1 ? " ends" : "");
        return;
      case EventKind::kCounters:
        fmt::format_to(out, " reserved={} allocated={}", e.a, e.b);
        return place(e, text);
      case EventKind::kKernel:
        fmt::format_to(out, " \"{}\" ns={} correlation={}",
                       escaped(trace_.context(e.context()).text), e.a, e.b);
        return place(e, text);
      case EventKind::kMemcpy:
      case EventKind::kMemset:
        fmt::format_to(out, " ns={} bytes={}", e.a, e.b);
        if (e.kind() == EventKind::kMemcpy) fmt::format_to(out, " direction={}", e.aux);
        return place(e, text);
      case EventKind::kLost:
        fmt::format_to(out, " events={}", e.a);
        return;
      case EventKind::kOutOfMemory:
        fmt::format_to(out, " requested={} reserved={}", e.a, e.b);
        return place(e, text);
      case EventKind::kLimit:
        fmt::format_to(out, " bytes={}", e.a);
        return place(e, text);
      case EventKind::kGuard:
        fmt::format_to(out, " change=\"{}\" mapping_ns={} window_ns={}",
                       guard_change_name(static_cast<GuardChange>(e.aux)), e.a, e.b);
        return place(e, text);
      case EventKind::kNone:
        break;
    }
    fmt::format_to(out, " a={} b={} aux={}", e.a, e.b, e.aux);
  }

  const record::TraceReader& trace_;
  std::int64_t start_ = 0;
  std::unordered_map<std::uint32_t, std::string> threads_;
};

}  // namespace

std::uint64_t dump(const record::TraceReader& trace, const DumpOptions& options,
                   const std::function<bool(std::string_view)>& write) {
  constexpr std::size_t kFlushBytes = std::size_t{1} << 16;
  Dumper dumper(trace);
  std::string text;
  if (options.header) dumper.header(text);
  std::uint64_t lines = 0;
  const auto cursor = trace.events({});
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    for (const record::TraceEvent& item : batch) {
      if (options.max_lines != 0 && lines == options.max_lines) {
        write(text);
        return lines;
      }
      dumper.line(item, text);
      ++lines;
      if (text.size() >= kFlushBytes) {
        if (!write(text)) return lines;
        text.clear();
      }
    }
  }
  write(text);
  return lines;
}

const char* kind_name(EventKind kind) {
  switch (kind) {
    case EventKind::kNone:
      return "none";
    case EventKind::kAlloc:
      return "alloc";
    case EventKind::kFree:
      return "free";
    case EventKind::kFreeCompleted:
      return "free_completed";
    case EventKind::kRecordUse:
      return "record_use";
    case EventKind::kSegmentAlloc:
      return "segment_alloc";
    case EventKind::kSegmentFree:
      return "segment_free";
    case EventKind::kPageCreate:
      return "page_create";
    case EventKind::kPageRelease:
      return "page_release";
    case EventKind::kStitch:
      return "stitch";
    case EventKind::kRebase:
      return "rebase";
    case EventKind::kUnmap:
      return "unmap";
    case EventKind::kDriverCall:
      return "driver_call";
    case EventKind::kEmergencyBegin:
      return "emergency_begin";
    case EventKind::kEmergencyRung:
      return "emergency_rung";
    case EventKind::kEmergencyEnd:
      return "emergency_end";
    case EventKind::kWaitInserted:
      return "wait_inserted";
    case EventKind::kPhasePush:
      return "phase_push";
    case EventKind::kPhasePop:
      return "phase_pop";
    case EventKind::kStepMark:
      return "step_mark";
    case EventKind::kCounters:
      return "counters";
    case EventKind::kGuard:
      return "guard";
    case EventKind::kKernel:
      return "kernel";
    case EventKind::kMemcpy:
      return "memcpy";
    case EventKind::kMemset:
      return "memset";
    case EventKind::kLost:
      return "lost";
    case EventKind::kOutOfMemory:
      return "out_of_memory";
    case EventKind::kLimit:
      return "limit";
    case EventKind::kNote:
      return "note";
  }
  return "unknown";
}

const char* call_name(DriverCall call) {
  switch (call) {
    case DriverCall::kNone:
      return "none";
    case DriverCall::kMalloc:
      return "malloc";
    case DriverCall::kFree:
      return "free";
    case DriverCall::kReserveRange:
      return "reserve_range";
    case DriverCall::kFreeRange:
      return "free_range";
    case DriverCall::kCreateHandle:
      return "create_handle";
    case DriverCall::kReleaseHandle:
      return "release_handle";
    case DriverCall::kMap:
      return "map";
    case DriverCall::kSetAccess:
      return "set_access";
    case DriverCall::kUnmap:
      return "unmap";
    case DriverCall::kCreateEvent:
      return "create_event";
    case DriverCall::kDestroyEvent:
      return "destroy_event";
    case DriverCall::kRecordEvent:
      return "record_event";
    case DriverCall::kQueryEvent:
      return "query_event";
    case DriverCall::kWaitEvent:
      return "wait_event";
    case DriverCall::kSynchronizeEvent:
      return "synchronize_event";
    case DriverCall::kSynchronizeStream:
      return "synchronize_stream";
    case DriverCall::kSynchronizeDevice:
      return "synchronize_device";
    case DriverCall::kMemoryInfo:
      return "memory_info";
    case DriverCall::kCaptureState:
      return "capture_state";
    case DriverCall::kCount:
      break;
  }
  return "unknown";
}

}  // namespace levee::analysis
