#include "allocator/device/sim/hazard_log.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/device/sim/judge_rule.h"

namespace levee::device::sim {

const char* name_of(HazardKind kind) {
  switch (kind) {
    case HazardKind::kMapOverMapping:
      return "map over a mapping";
    case HazardKind::kBadUnmap:
      return "bad unmap";
    case HazardKind::kBadRelease:
      return "bad release";
    case HazardKind::kBadRange:
      return "bad range";
    case HazardKind::kBadMap:
      return "bad map";
    case HazardKind::kBadAccess:
      return "bad access setting";
    case HazardKind::kTouchUnmapped:
      return "unmapped memory touched";
    case HazardKind::kTouchWithoutAccess:
      return "memory touched without access";
    case HazardKind::kUnorderedUse:
      return "unordered use";
    case HazardKind::kAliasUse:
      return "use through another address";
    case HazardKind::kLiveTwice:
      return "live twice";
    case HazardKind::kGraphOverLive:
      return "graph over live memory";
    case HazardKind::kUnmapInUse:
      return "unmapped in use";
    case HazardKind::kLeak:
      return "leak";
    case HazardKind::kBlockingUnderLock:
      return "blocking call under a pool lock";
    case HazardKind::kCallAfterShutdown:
      return "call after shutdown";
    case HazardKind::kEndlessWait:
      return "endless wait";
    case HazardKind::kForeignStream:
      return "no such stream or event";
    case HazardKind::kCaptureBroken:
      return "capture broken";
    case HazardKind::kCount:
      break;
  }
  return "?";
}

void HazardLog::file(Hazard hazard) {
  if (is_switched_off(hazard.rule)) return;
  ++count_;
  ++counts_[static_cast<std::size_t>(hazard.kind)];
  calls_before_newest_.clear();
  append_recent_calls(calls_before_newest_);
  if (mode_ == JudgeMode::kAbort) {
    std::fprintf(stderr, "%s: %s\n%s", name_of(hazard.kind), hazard.text.c_str(),
                 calls_before_newest_.c_str());
    base::FixedBuffer<256> text;
    text << "the model of the GPU found a hazard: " << name_of(hazard.kind);
    base::die(text);
  }
  if (kept_.size() < kKept) kept_.push_back(std::move(hazard));
}

void HazardLog::clear() {
  kept_.clear();
  count_ = 0;
  counts_.fill(0);
  calls_before_newest_.clear();
}

void HazardLog::append_recent_calls(std::string& text) const {
  const std::uint64_t count = std::min<std::uint64_t>(logged_, kRecentCalls);
  if (count == 0) return;
  text += "  the last calls:\n";
  for (std::uint64_t i = logged_ - count; i < logged_; ++i) {
    const CallEntry& call = recent_[static_cast<std::size_t>(i % kRecentCalls)];
    base::FixedBuffer<256> line;
    line << "    ";
    if (call.note[0] != '\0') {
      line << "(note)  " << call.note;
    } else {
      line << "#" << call.sequence << "  " << name_of(call.kind);
    }
    line << "  device " << call.device.value;
    if (!call.addr.is_null()) line << "  " << call.addr;
    if (call.bytes.value != 0) line << "  " << call.bytes;
    if (call.object != 0) line << "  " << base::Hex{call.object};
    line << "  at " << call.time;
    if (call.native != Native::kSuccess) line << "  -> " << to_status(call.native);
    line << "\n";
    text += line.view();
  }
}

std::string HazardLog::report() const {
  if (count_ == 0) return {};
  std::string text = std::to_string(count_) + (count_ == 1 ? " hazard\n" : " hazards\n");
  // A test that fails prints this: the first findings explain the later ones.
  constexpr std::size_t kPrinted = 20;
  for (std::size_t i = 0; i < std::min(kept_.size(), kPrinted); ++i) {
    text += "  ";
    text += name_of(kept_[i].kind);
    text += ": ";
    text += kept_[i].text;
    text += "\n";
  }
  if (count_ > kPrinted) text += "  ... and " + std::to_string(count_ - kPrinted) + " more\n";
  text += calls_before_newest_;
  return text;
}

}  // namespace levee::device::sim
