#include "bench/replay/op_trace_csv.h"

#include <iterator>

#include <fmt/format.h>

namespace levee::replay {

std::string to_csv(const OpTrace& trace) {
  std::string text;
  const auto out = std::back_inserter(text);
  if (trace.recorded_peak_reserved.value != 0)
    fmt::format_to(out, "p,{}\n", trace.recorded_peak_reserved.value);
  // Blocks that were live at the start come first, with the first ids.
  const std::uint64_t before = trace.completeness.live_at_start_count;
  std::uint64_t step = 0;
  for (const Op& op : trace.ops) {
    switch (op.kind) {
      case OpKind::kAlloc:
        fmt::format_to(out, "{},{},{}", op.id < before ? 'b' : 'a', op.id, op.bytes);
        if (op.stream != 0) fmt::format_to(out, ",{}", op.stream);
        text += '\n';
        break;
      case OpKind::kFree:
        fmt::format_to(out, "f,{}\n", op.id);
        break;
      case OpKind::kRecordUse:
        fmt::format_to(out, "r,{},,{}\n", op.id, op.stream);
        break;
      case OpKind::kStep:
        fmt::format_to(out, "s,{}", step++);
        if (op.bytes != 0) fmt::format_to(out, ",{}", op.bytes);
        text += '\n';
        break;
    }
  }
  return text;
}

}  // namespace levee::replay
