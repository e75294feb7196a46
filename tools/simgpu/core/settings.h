// What the stand-in GPU was asked to be: every SIMGPU_* variable, read once and in this one place.
//
// Owns the grammar of the variables. Promises: `parse_settings` has no side effect and says in one
// sentence what is wrong with a value; `settings()` reads the environment of the process at first
// use and ends the process with that sentence and exit code 2 when a value cannot be used, since a
// run on the wrong card would be worse than none. Immutable afterwards: no lock.
//
//   SIMGPU_GPU      "24GiB,name=A100,count=2,used=3GiB,cc=8.6,context=400MiB"
//   SIMGPU_STATS    "1" = stderr, else a file that gets one line of JSON per process
//   SIMGPU_JUDGE    "count" (default), "abort" at the first violation, "off"
//   SIMGPU_BACKING  how many bytes of device memory are really kept: a size, "full", "off"
//   SIMGPU_FAULTS   a fault plan, in the text form of core/faults.h
//   SIMGPU_TRACE    "1" = stderr, else a file: every driver call, and first uses of libraries
//   SIMGPU_SET      "name=number,...": settings of the generated libraries, see README.md
//   SIMGPU_QUIET    "1": whoever started this process has printed the start-up line
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <levee/units.h>

#include "allocator/device/sim/hazard.h"
#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

/// What is wrong with the SIMGPU_* variables as they are now, as `settings()` would say it; empty
/// if nothing is. Ends nothing: for whoever is about to start a program with them.
std::string settings_problem();

/// The published figures of a card that decide what PyTorch chooses and what work costs.
struct CardModel {
  std::string_view key;  ///< what `name=` is searched for
  int compute_major;
  int compute_minor;
  int multiprocessors;
  int threads_per_multiprocessor;
  int shared_kib_per_multiprocessor;
  int shared_kib_per_block_optin;
  int l2_mib;
  int clock_khz;
  int memory_clock_khz;
  int bus_width_bits;
  double bandwidth_gb_per_s;  ///< of its memory
  double dense_tflops;        ///< bf16 with tensor cores, dense
  int memory_gib;             ///< when no size is given
};

/// The names that SIMGPU_SET takes: what the generated libraries ask `simgpu_setting` for.
inline constexpr std::array<std::string_view, 3> kNamedSettings{"cudnn_workspace", "nccl_bytes",
                                                                "nccl_timeout_s"};

struct Settings {
  Bytes memory = 80_GiB;       ///< of each card
  Bytes used_by_others = 0_B;  ///< of each card
  Bytes context = 0_B;  ///< taken by this process as such. 0: the whole card is the program's
  int count = 1;
  std::string name;  ///< contains "simgpu", whatever was asked for
  CardModel card{};
  std::string stats;  ///< empty = off
  std::string trace;  ///< empty = off
  device::sim::JudgeMode judge = device::sim::JudgeMode::kCount;
  std::optional<Bytes> backing_limit =
      512_MiB;  ///< none = keep everything. Chosen: a small model fits, a laptop bears it
  std::string faults;
  std::map<std::string, std::uint64_t, std::less<>> named;
  bool quiet = false;
};

/// The variables as text; absent ones are null. What `settings()` reads, and what tests hand in.
struct SettingsText {
  const char* gpu = nullptr;
  const char* stats = nullptr;
  const char* judge = nullptr;
  const char* backing = nullptr;
  const char* faults = nullptr;
  const char* trace = nullptr;
  const char* set = nullptr;
  const char* quiet = nullptr;
};

/// Empty `problem` = all values were understood.
SIMGPU_CORE Settings parse_settings(const SettingsText& text, std::string* problem);

/// "24GiB", "512MiB", "1.5GiB", "1048576"; none if it is not a size.
SIMGPU_CORE std::optional<Bytes> parse_size(std::string_view text);

SIMGPU_CORE const Settings& settings();

/// The cards that this process may use, as CUDA_VISIBLE_DEVICES names them (numbers, or the GPU-...
/// of a card); all if it is not set. Read at the first call, since programs set the variable
/// themselves. `text` null = not set.
SIMGPU_CORE const std::vector<int>& visible_devices();
SIMGPU_CORE std::vector<int> parse_visible(const char* text, int count);

}  // namespace levee::simgpu
