#include "bench/replay/op_trace_csv.h"

#include <cstdint>
#include <iterator>

#include <fmt/format.h>

namespace levee::replay {

namespace {
constexpr std::uint16_t kNone = UINT16_MAX;  // no index of a thread
}

std::string to_csv(const OpTrace& trace) {
  std::string text;
  const auto out = std::back_inserter(text);
  if (trace.recorded_peak_reserved.value != 0)
    fmt::format_to(out, "p,{}{}\n", trace.recorded_peak_reserved.value,
                   trace.is_levees_own ? ",levee" : "");
  if (trace.marks_end_steps) fmt::format_to(out, "e,{}\n", trace.number_before_marks.value_or(1));
  // Blocks that were live at the start come first, with the first ids.
  const std::uint64_t before = trace.completeness.live_at_start_count;
  std::size_t step = 0;
  // The thread is named where it is another one than before.
  std::uint16_t thread = trace.thread_count == 0 ? 0 : kNone;
  const auto end_line = [&](const Op& op, const char* separators) {
    if (op.thread != thread) {
      fmt::format_to(out, "{}{}", separators, op.thread);
      thread = op.thread;
    }
    text += '\n';
  };
  for (const Op& op : trace.ops) {
    switch (op.kind) {
      case OpKind::kAlloc:
        fmt::format_to(out, "{},{},{}", op.id < before ? 'b' : 'a', op.id, op.bytes);
        if (op.stream != 0) fmt::format_to(out, ",{}", op.stream);
        if (op.id < before) {
          text += '\n';
        } else {
          end_line(op, op.stream != 0 ? "," : ",,");
        }
        break;
      case OpKind::kFree:
        fmt::format_to(out, "f,{}", op.id);
        end_line(op, ",,,");
        break;
      case OpKind::kRecordUse:
        fmt::format_to(out, "r,{},,{}", op.id, op.stream);
        end_line(op, ",");
        break;
      case OpKind::kStep:
        fmt::format_to(out, "s,{}", trace.step_numbers[step++]);
        if (op.bytes != 0) fmt::format_to(out, ",{}", op.bytes);
        end_line(op, op.bytes != 0 ? ",," : ",,,");
        break;
    }
  }
  return text;
}

}  // namespace levee::replay
