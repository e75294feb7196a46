// Where findings go: kept, counted, printed; and the last calls of the model, to be printed with
// them.
//
// Owns at most 1,000 findings and the last 32 calls. Not thread-safe; the model's mutex guards it.
// Costs: a call logged is a few stores.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/base/fixed_buffer.h"
#include "allocator/device/native_status.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/hazard.h"

namespace levee::device::sim {

struct CallEntry {
  std::uint64_t sequence = 0;
  CallKind kind = CallKind::kOther;
  DeviceId device;
  DeviceAddr addr;
  Bytes bytes;
  std::uint64_t object = 0;
  Nanos time;
  Native native = Native::kSuccess;
  const char* note = "";  ///< of a note, which is no call: what it said
};

class HazardLog {
 public:
  explicit HazardLog(JudgeMode mode) : mode_(mode) {}

  JudgeMode mode() const { return mode_; }
  void set_mode(JudgeMode mode) { mode_ = mode; }

  /// Keeps the finding; with kAbort prints it and ends the process.
  void file(Hazard hazard);
  /// Returns the place of the entry, for set_answer.
  std::size_t log_call(const CallEntry& entry) {
    const std::size_t place = static_cast<std::size_t>(logged_++ % kRecentCalls);
    recent_[place] = entry;
    return place;
  }
  void set_answer(std::size_t place, Native native) { recent_[place].native = native; }

  const std::vector<Hazard>& kept() const { return kept_; }
  std::uint64_t count() const { return count_; }
  std::uint64_t count(HazardKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  void clear();
  std::string report() const;

 private:
  static constexpr std::size_t kKept = 1000;
  static constexpr std::size_t kRecentCalls = 32;
  void append_recent_calls(std::string& text) const;

  JudgeMode mode_;
  std::vector<Hazard> kept_;
  std::uint64_t count_ = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(HazardKind::kCount)> counts_{};
  std::array<CallEntry, kRecentCalls> recent_{};
  std::uint64_t logged_ = 0;
  std::string calls_before_newest_;  ///< as they were when the newest finding was made
};

}  // namespace levee::device::sim
