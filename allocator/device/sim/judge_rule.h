// The rules of the judge, each by itself: several rules may tell the same kind of hazard.
//
// A rule is one place in the sources where a call or a use is found wrong. It has a name, so that
// tests can take it away and see that something fails without it (`EachRule` in
// judge_rule_test.cc, which runs over all of them: a rule that nothing needs does not pass).
#pragma once

#include <cstdint>
#include <string_view>

#include "allocator/device/sim/hazard.h"

namespace levee::device::sim {

enum class JudgeRule : std::uint8_t {
  kNone,  ///< no rule: the call is refused, and that is no finding

  // Address ranges
  kRangeBeginsThere,  ///< what is freed begins where a range begins
  kRangeSize,         ///< ... and is all of it
  kRangeIsEmpty,      ///< ... and nothing is mapped in it

  // Handles and allocations
  kHandleIsHeld,        ///< a handle that is released is one
  kAllocationIsHeld,    ///< memory that is freed was allocated, and not freed before
  kImportIsNotFreed,    ///< another process's memory is closed, not freed
  kImportIsHeld,        ///< memory that is closed was opened
  kAsyncBlockIsHeld,    ///< the stream-ordered pool gets back what it gave
  kNoHandleIsLeft,      ///< at the end: handles
  kNoMappingIsLeft,     ///< ... released ones that are mapped
  kNoRangeIsLeft,       ///< ... ranges
  kNoAllocationIsLeft,  ///< ... allocations
  kNoEventIsLeft,       ///< ... events

  // Mappings
  kMapLiveHandle,      ///< what is mapped is a handle
  kMapWhole,           ///< ... as a whole
  kMapAligned,         ///< ... at a multiple of the granularity
  kMapInRange,         ///< ... inside of a reserved range
  kMapOverNothing,     ///< ... where nothing is mapped
  kUnmapSomething,     ///< the range to unmap is one
  kUnmapMapped,        ///< ... all of it is mapped
  kUnmapWhole,         ///< ... and it cuts no mapping
  kAccessSomething,    ///< the range that is given access is one
  kAccessMapped,       ///< ... all of it is mapped
  kAccessWhole,        ///< ... and it cuts no mapping
  kGoneWithoutOwner,   ///< what is unmapped or freed has no owner
  kGoneWhenDone,       ///< ... and the host knows that its last use is complete
  kGoneWhenAliasDone,  ///< ... as well as the last use through that address

  // Uses
  kUseOfMemory,       ///< bytes that are used are addresses at all
  kUseOfMapped,       ///< ... that something is mapped at
  kUseOfAllocation,   ///< ... in a piece that was allocated, where several share a page
  kUseWithAccess,     ///< ... to which the device has access
  kUseOnStream,       ///< ... on a stream
  kHandOutFree,       ///< bytes handed out have no owner
  kHandOutOrdered,    ///< ... and their last use is ordered before
  kGraphHandOutFree,  ///< the same inside of a capture
  kGraphHandOutOrdered,
  kRestoreFree,     ///< bytes that come back to life with a graph's memory have no owner
  kTouchOfOwn,      ///< work uses bytes at the address at which their owner has them
  kTouchOrdered,    ///< ... and uses that it could collide with are ordered before
  kLaunchOverFree,  ///< the bytes of a graph that is launched have no other owner
  kLaunchOrdered,   ///< ... and their last use is ordered before

  // Calls
  kNoBlockingUnderLock,  ///< no pool lock is held in a call that may wait
  kNoCallAfterEnd,       ///< the model is not called once it was shut down
  kNoEndlessWait,        ///< what the host waits for completes
  kStreamExists,         ///< a stream that is named is one
  kEventExists,          ///< an event that is named is one
  kCaptureIsLeftAlone,   ///< no call that would break a capture
  kCount,                // number of rules; not a rule
};

/// Short name as the enumerator says it ("kRangeSize"). Never null.
const char* name_of(JudgeRule rule);
/// What its findings are called; through another address they are kAliasUse instead.
HazardKind kind_of(JudgeRule rule);

/// For tests: the rule finds nothing from now on, in any model; kNone: all of them do again.
void switch_off_for_test(JudgeRule rule);
bool is_switched_off(JudgeRule rule);

}  // namespace levee::device::sim
