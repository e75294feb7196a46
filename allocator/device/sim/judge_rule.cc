#include "allocator/device/sim/judge_rule.h"

#include <array>
#include <atomic>

#include "allocator/base/check.h"

namespace levee::device::sim {

namespace {

struct Entry {
  JudgeRule rule;
  const char* name;
  HazardKind kind;
};

constexpr std::array<Entry, static_cast<std::size_t>(JudgeRule::kCount)> kRules = {{
    {JudgeRule::kNone, "kNone", HazardKind::kCount},
    {JudgeRule::kRangeBeginsThere, "kRangeBeginsThere", HazardKind::kBadRange},
    {JudgeRule::kRangeSize, "kRangeSize", HazardKind::kBadRange},
    {JudgeRule::kRangeIsEmpty, "kRangeIsEmpty", HazardKind::kBadRange},
    {JudgeRule::kHandleIsHeld, "kHandleIsHeld", HazardKind::kBadRelease},
    {JudgeRule::kAllocationIsHeld, "kAllocationIsHeld", HazardKind::kBadRelease},
    {JudgeRule::kImportIsNotFreed, "kImportIsNotFreed", HazardKind::kBadRelease},
    {JudgeRule::kImportIsHeld, "kImportIsHeld", HazardKind::kBadRelease},
    {JudgeRule::kAsyncBlockIsHeld, "kAsyncBlockIsHeld", HazardKind::kBadRelease},
    {JudgeRule::kNoHandleIsLeft, "kNoHandleIsLeft", HazardKind::kLeak},
    {JudgeRule::kNoMappingIsLeft, "kNoMappingIsLeft", HazardKind::kLeak},
    {JudgeRule::kNoRangeIsLeft, "kNoRangeIsLeft", HazardKind::kLeak},
    {JudgeRule::kNoAllocationIsLeft, "kNoAllocationIsLeft", HazardKind::kLeak},
    {JudgeRule::kNoEventIsLeft, "kNoEventIsLeft", HazardKind::kLeak},
    {JudgeRule::kMapLiveHandle, "kMapLiveHandle", HazardKind::kBadMap},
    {JudgeRule::kMapWhole, "kMapWhole", HazardKind::kBadMap},
    {JudgeRule::kMapAligned, "kMapAligned", HazardKind::kBadMap},
    {JudgeRule::kMapInRange, "kMapInRange", HazardKind::kBadMap},
    {JudgeRule::kMapOverNothing, "kMapOverNothing", HazardKind::kMapOverMapping},
    {JudgeRule::kUnmapSomething, "kUnmapSomething", HazardKind::kBadUnmap},
    {JudgeRule::kUnmapMapped, "kUnmapMapped", HazardKind::kBadUnmap},
    {JudgeRule::kUnmapWhole, "kUnmapWhole", HazardKind::kBadUnmap},
    {JudgeRule::kAccessSomething, "kAccessSomething", HazardKind::kBadAccess},
    {JudgeRule::kAccessMapped, "kAccessMapped", HazardKind::kBadAccess},
    {JudgeRule::kAccessWhole, "kAccessWhole", HazardKind::kBadAccess},
    {JudgeRule::kGoneWithoutOwner, "kGoneWithoutOwner", HazardKind::kUnmapInUse},
    {JudgeRule::kGoneWhenDone, "kGoneWhenDone", HazardKind::kUnmapInUse},
    {JudgeRule::kGoneWhenAliasDone, "kGoneWhenAliasDone", HazardKind::kUnmapInUse},
    {JudgeRule::kUseOfMemory, "kUseOfMemory", HazardKind::kTouchUnmapped},
    {JudgeRule::kUseOfMapped, "kUseOfMapped", HazardKind::kTouchUnmapped},
    {JudgeRule::kUseOfAllocation, "kUseOfAllocation", HazardKind::kTouchUnmapped},
    {JudgeRule::kUseWithAccess, "kUseWithAccess", HazardKind::kTouchWithoutAccess},
    {JudgeRule::kUseOnStream, "kUseOnStream", HazardKind::kForeignStream},
    {JudgeRule::kHandOutFree, "kHandOutFree", HazardKind::kLiveTwice},
    {JudgeRule::kHandOutOrdered, "kHandOutOrdered", HazardKind::kUnorderedUse},
    {JudgeRule::kGraphHandOutFree, "kGraphHandOutFree", HazardKind::kLiveTwice},
    {JudgeRule::kGraphHandOutOrdered, "kGraphHandOutOrdered", HazardKind::kUnorderedUse},
    {JudgeRule::kRestoreFree, "kRestoreFree", HazardKind::kLiveTwice},
    {JudgeRule::kTouchOfOwn, "kTouchOfOwn", HazardKind::kAliasUse},
    {JudgeRule::kTouchOrdered, "kTouchOrdered", HazardKind::kUnorderedUse},
    {JudgeRule::kLaunchOverFree, "kLaunchOverFree", HazardKind::kGraphOverLive},
    {JudgeRule::kLaunchOrdered, "kLaunchOrdered", HazardKind::kUnorderedUse},
    {JudgeRule::kNoBlockingUnderLock, "kNoBlockingUnderLock", HazardKind::kBlockingUnderLock},
    {JudgeRule::kNoCallAfterEnd, "kNoCallAfterEnd", HazardKind::kCallAfterShutdown},
    {JudgeRule::kNoEndlessWait, "kNoEndlessWait", HazardKind::kEndlessWait},
    {JudgeRule::kStreamExists, "kStreamExists", HazardKind::kForeignStream},
    {JudgeRule::kEventExists, "kEventExists", HazardKind::kForeignStream},
    {JudgeRule::kCaptureIsLeftAlone, "kCaptureIsLeftAlone", HazardKind::kCaptureBroken},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].rule != static_cast<JudgeRule>(i) || kRules[i].name == nullptr) return false;
  }
  return true;
}
static_assert(is_in_order(), "the table names the rules in the order of the enumeration");

std::atomic<JudgeRule> g_switched_off{JudgeRule::kNone};

const Entry& entry(JudgeRule rule) {
  LEVEE_CHECK_LT(static_cast<std::size_t>(rule), kRules.size());
  return kRules[static_cast<std::size_t>(rule)];
}

}  // namespace

const char* name_of(JudgeRule rule) {
  return entry(rule).name;
}

HazardKind kind_of(JudgeRule rule) {
  return entry(rule).kind;
}

void switch_off_for_test(JudgeRule rule) {
  g_switched_off.store(rule, std::memory_order_relaxed);
}

bool is_switched_off(JudgeRule rule) {
  return rule != JudgeRule::kNone && g_switched_off.load(std::memory_order_relaxed) == rule;
}

}  // namespace levee::device::sim
