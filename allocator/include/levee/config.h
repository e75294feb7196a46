// Every setting of levee in one struct. `allocator/c_api/config_reader.*` fills it from LEVEE_*
// environment variables and from `levee.install(...)`; nothing else reads the environment. Defaults
// are the values that the scoreboard is measured with.
#pragma once

#include <cstdint>
#include <string>

#include <levee/units.h>

namespace levee {

/// How free pages are brought together when no free run is long enough.
enum class StitchMode : std::uint8_t {
  kAlias,  ///< map them a second time, side by side; nothing is unmapped on a request's path
  kMove,   ///< unmap them where they are once their last reader is done, map them at the new place
  kNone,   ///< never; grow instead
};

/// What backs ordinary memory.
enum class Backing : std::uint8_t {
  kPages,     ///< physical pages under reserved address ranges (needs VMM)
  kSegments,  ///< cudaMalloc-backed segments, as legacy IPC and NCCL registration need them
  kAuto,      ///< pages where the device offers VMM, else segments
};

struct Config {
  Backing backing = Backing::kAuto;
  StitchMode stitch = StitchMode::kAlias;
  Bytes page_size = 2_MiB;  ///< size of a physical handle; a multiple of the device's granularity
  /// From this much reserved on, new memory is made in handles of twice the size, of four times
  /// from twice as much on, and so forth, up to `largest_page`: calls are what creation costs. 0:
  /// never.
  Bytes larger_pages_from = 8_GiB;
  Bytes largest_page = 16_MiB;
  double slack = 0.008;  ///< memory above peak live that may be bought to save stitches, as a share
  /// Share of the time that passes which mapping pages again may take for long. Above it the
  /// driver-time guard goes on: memory grows instead, up to `guard_growth` (a share) above peak
  /// live and as long as a sixteenth of the device stays free. 0: no guard.
  double guard_share = 0.01;
  double guard_growth = 0.25;
  /// How long "for long" is: windows above the share, of a step and a tenth of a second or more.
  std::uint32_t guard_windows = 20;
  bool predict = true;           ///< place by predicted lifetime once step marks arrive
  bool rebase = true;            ///< allow one mapping of all pages into a new primary range
  bool stream_affinity = true;   ///< large blocks of side streams go where no other stream has just
                                 ///< been, so that their work overlaps with the main stream's
  double memory_fraction = 1.0;  ///< share of the device's memory that this process may reserve
  bool record = true;            ///< LEVEE_RECORD
  std::string trace_path;        ///< LEVEE_TRACE; empty = default place, see record/recorder.h
  Bytes trace_cap = 1_GiB;       ///< size of the trace file from which on the oldest blocks are
                                 ///< overwritten; 0 = no cap
  bool record_stacks = false;    ///< Python stacks at every allocation, not on slow paths alone
};

}  // namespace levee
