// Words for an out-of-memory: from the numbers that the allocator hands over to sentences that say
// what was asked, where the memory is, what was tried, and what to do.
//
// Promises: the parts of the balance add up to the device's capacity to the byte (allocated +
// waiting + free in levee + everything else + free on the device); the verdict follows from the
// numbers alone and never suggests what they rule out. Pure. The first sentence has the form that
// PyTorch's own allocator gives it, since programs look for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <levee/allocator.h>
#include <levee/ids.h>

namespace levee::analysis {

enum class OomVerdict : std::uint8_t {
  kLimit,       ///< a limit of this process or pool, not the device, is what is full
  kFull,        ///< live blocks fill what there is
  kNearlyFull,  ///< live blocks fill all but a little, which lies on pages that also hold some
  kFragmented,  ///< enough bytes are free, but on pages that also hold live blocks
  kWaiting,     ///< enough bytes are free, but other streams have not finished with them
  kPools,       ///< enough bytes are free in private pools
  kOthers,      ///< other processes, or other libraries of this one, hold what is missing
};

/// Where each byte of the device is. The five parts add up to `total_bytes`.
struct OomBalance {
  std::uint64_t total_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t free_in_levee_bytes = 0;
  std::uint64_t elsewhere_bytes =
      0;  ///< not levee's: CUDA context, other libraries, other processes
  std::uint64_t device_free_bytes = 0;
};

OomBalance balance_of(const OomReport& report);

/// The heading under which every report lists what `kFragmented` speaks of.
inline constexpr const char* kBetweenHeading = "Free bytes between live blocks";

/// A refused request beside the memory that this process can have.
struct Squeeze {
  std::uint64_t requested_bytes = 0;
  std::uint64_t live_bytes = 0;     ///< allocated, or waiting for other streams
  std::uint64_t between_bytes = 0;  ///< free, on pages that also hold live bytes
  std::uint64_t at_hand_bytes = 0;  ///< on free pages, or to be had from the device
};
/// Whether a request is refused for where the free bytes lie, and not for how much lives. Packed
/// ever so well, live blocks leave what `between_bytes` and `at_hand_bytes` are; that must be
/// enough for the request, and `between_bytes` more than any allocator loses: a twentieth of what
/// lives, or, on large devices, a gigabyte that would serve eight such requests.
bool is_fragmentation_why(const Squeeze& squeeze);
/// What to do where it would have been enough, but is not why.
std::string nearly_full_advice(const Squeeze& squeeze);

OomVerdict verdict_of(const OomReport& report);
/// Whether the request would fit if everything that can be given back were given back and all waits
/// were over.
bool would_fit_after_trim(const OomReport& report);
/// 1 - largest free run / free bytes; 0 if nothing is free.
double fragmentation_of(const OomReport& report);

/// "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of ...", one line.
std::string oom_headline(const OomReport& report, DeviceId device);
/// Verdict, balance, rungs and advice, one a line, without the headline.
std::string oom_explanation(const OomReport& report);
/// Both.
std::string oom_text(const OomReport& report, DeviceId device);

/// "waited for blocks that other streams still used". Shared with the explanation of emergencies.
const char* rung_text(LadderRung rung);
/// Short name for tables: "own events".
const char* rung_name(LadderRung rung);
const char* cause_text(EmergencyCause cause);
const char* cause_name(EmergencyCause cause);
/// "on", "off", "overruled".
const char* guard_change_name(GuardChange change);

}  // namespace levee::analysis
