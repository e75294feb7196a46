// Switches that take one line of core away, so that a test can show that the judge or `validate`
// notices.
//
// Owns: the list of mutations. Promises: in ordinary builds `mutated` is the constant false and the
// compiler leaves no trace of it; in the library `levee_core_mutants`, which tests alone link, one
// mutation is active at a time. Each enumerator names the line that goes missing.
#pragma once

#include <cstdint>

namespace levee::core {

enum class Mutant : std::uint8_t {
  kNone = 0,
  kNoWait,              ///< memory of another stream is handed out without a stream-side wait
  kNoAliasHide,         ///< other slots of a page stay on offer while one owns it
  kUnmapBeforeDone,     ///< trim does not wait for the last users of the pages it unmaps
  kReleaseWhileMapped,  ///< trim forgets to unmap a page's second slot
  kLeakHandle,          ///< trim forgets to release the handles it unmapped
  kNoSetAccess,         ///< new mappings get no access rights
  kBlockUnderLock,      ///< trim synchronises while it holds the pool lock
  kForgetUses,          ///< free ignores the streams named by record_use
  kLendCaptured,        ///< pages of a captured pool are offered to others when they are free
  kWaitInCapture,       ///< placement on a capturing stream inserts waits on outside events
  kPageTwiceInZone,     ///< a stitch takes pages that its zone holds already
  kNoCut,               ///< a placed block stays in the run index
  kNoStamp,             ///< epochs are not stamped on pages at free
  kNoRollbackUnmap,     ///< a failed stitch leaves its first mappings behind
  kNoDetach,            ///< a slot keeps its page after it was unmapped
  kKeepReleasedPage,    ///< a page stays on the books after its handle was released
  kKeepRefusedHandles,  ///< handles that a failed growth gave back are still believed to be held
  kMapOn,               ///< a stretch is given access although a mapping in it failed
  kStitchBeyondZone,    ///< pages are stitched behind the end of a zone's addresses
  kKeepFreedZone,       ///< a zone stays on the books after its addresses were given back
  kLeakRange,           ///< the end forgets to give a zone's addresses back
  kLeakSegment,         ///< a segment is taken from the books and not from the device
  kLeakEvents,          ///< the end forgets to destroy the events
  kEventGone,           ///< an event that comes back is destroyed, and used again
  kFenceAlways,         ///< who waits for one stream waits for the whole device
  kGuardRefuses,  ///< where the driver-time guard denies a stitch and growth is out of reach, none
                  ///< is made
  kCount,
};

#if defined(LEVEE_CORE_MUTANTS)
extern Mutant active_mutant;
inline bool mutated(Mutant m) {
  return active_mutant == m;
}
#else
constexpr bool mutated(Mutant) {
  return false;
}
#endif

}  // namespace levee::core
