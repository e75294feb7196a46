// How old the program and its blocks are, in steps if it marks them, else in turnovers of memory.
//
// A *turnover* is as many bytes of large requests as were ever in use at once; four of them stand
// for a step where steps are not marked (training steps were measured to have 2 to 6). A block is
// *old* after two steps: what lives that long is not part of the work that comes and goes. The
// program's own age begins anew when live bytes outgrow what they were by a sixteenth: while a
// model is built, or the first batch runs, nothing that is seen will come again. Guarded by the
// pool lock.
#pragma once

#include <cstdint>

namespace levee::core {

class Age {
 public:
  struct Moment {
    std::uint64_t step = 0;
    std::uint64_t bytes = 0;
  };

  void begin_step() { ++now_.step; }
  void pass_bytes(std::uint64_t bytes, std::uint64_t peak_bytes) {
    now_.bytes += bytes;
    if (peak_bytes <= peak_bytes_) return;
    peak_bytes_ = peak_bytes;
    if (peak_bytes > settled_peak_bytes_ + settled_peak_bytes_ / 16) {
      settled_peak_bytes_ = peak_bytes;
      settled_at_bytes_ = now_.bytes;
      settled_at_step_ = now_.step;
    }
  }

  Moment moment() const { return now_; }
  std::uint64_t steps() const { return now_.step; }
  /// Steps that the program ran, or what stands for them.
  std::uint64_t now() const {
    return now_.step > 0 ? now_.step : turnovers(now_.bytes - settled_at_bytes_) / kTurnoversOfStep;
  }
  bool is_old(Moment birth, std::uint64_t steps = kOldSteps) const {
    if (now_.step > 0) return now_.step >= birth.step + steps;
    return turnovers(now_.bytes - birth.bytes) >= steps * kTurnoversOfStep;
  }
  /// Whether twenty steps went by since live bytes last outgrew what they were: what the program
  /// needs is seen by then, and comes again.
  bool is_settled() const {
    return now_.step > 0 ? now_.step >= settled_at_step_ + kWarmUpSteps : now() >= kWarmUpSteps;
  }

  static constexpr std::uint64_t kOldSteps = 2;
  static constexpr std::uint64_t kWarmUpSteps = 20;

 private:
  static constexpr std::uint64_t kTurnoversOfStep = 4;
  std::uint64_t turnovers(std::uint64_t bytes) const {
    return peak_bytes_ == 0 ? 0 : bytes / peak_bytes_;
  }

  Moment now_;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t settled_peak_bytes_ = 0;
  std::uint64_t settled_at_bytes_ = 0;
  std::uint64_t settled_at_step_ = 0;
};

}  // namespace levee::core
