#include "allocator/record/time_stamps.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

#include "allocator/base/clock.h"

namespace levee::record {
namespace {

// Some seconds of anchors: events wait no longer than that in a ring.
constexpr std::size_t kMaxLines = 64;
constexpr int kAnchorTries = 5;

#if defined(__x86_64__)
bool counter_is_invariant() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
}

// The kernel compares the counters of all cores when it boots and watches them; it takes another
// source if they disagree.
bool kernel_uses_counter() {
  const int file = ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                          O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[16] = {};
  const ssize_t length = ::read(file, text, sizeof(text));
  ::close(file);
  return length > 0 && std::string_view(text, static_cast<std::size_t>(length)) == "tsc\n";
}
#endif

}  // namespace

bool ticks_are_usable() {
#if defined(__x86_64__)
  static const bool usable = counter_is_invariant() && kernel_uses_counter();
  return usable;
#else
  return false;
#endif
}

CounterMoment counter_moment() {
  CounterMoment best;
  std::uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < kAnchorTries; ++i) {
    const std::uint64_t before = read_ticks() & ~kTickStamp;
    const std::int64_t time = base::Clock::monotonic().value;
    const std::uint64_t width = (read_ticks() & ~kTickStamp) - before;
    if (width < best_width) {
      best_width = width;
      best = {before + width / 2, time};
    }
  }
  return best;
}

TickSource::TickSource(const std::int64_t* ahead, CounterMoment begin) : ahead_(ahead) {
  constexpr std::int64_t kLeastNs = 2'000'000;
  CounterMoment end = counter_moment();
  while (end.host_ns - begin.host_ns < kLeastNs) end = counter_moment();
  ticks_per_ns_ = static_cast<double>(end.ticks - begin.ticks) /
                  static_cast<double>(end.host_ns - begin.host_ns);
}

Nanos StampClock::add_anchor() {
  if (!uses_ticks_) return base::Clock::now();
  // The tightest of some tries: a thread that is put aside between the reads would shift all
  // stamps.
  Anchor best;
  std::uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < kAnchorTries; ++i) {
    const std::uint64_t before = ticks_.read() & ~kTickStamp;
    const std::int64_t time = base::Clock::now().value;
    const std::uint64_t after = ticks_.read() & ~kTickStamp;
    if (after - before < best_width) {
      best_width = after - before;
      best = {before + best_width / 2, time};
    }
  }
  add_anchor(best);
  return Nanos{best.time};
}

void StampClock::add_anchor(Anchor anchor) {
  if (!lines_.empty()) {
    Line& last = lines_.back();
    if (anchor.ticks <= last.from.ticks || anchor.time < last.from.time) return;
    last.ns_per_tick = static_cast<double>(anchor.time - last.from.time) /
                       static_cast<double>(anchor.ticks - last.from.ticks);
    lines_.push_back({anchor, last.ns_per_tick});
    if (lines_.size() > kMaxLines) lines_.erase(lines_.begin());
    return;
  }
  lines_.push_back({anchor, 0});
}

Nanos StampClock::time_of_ticks(std::uint64_t ticks) const {
  if (lines_.empty())
    return base::Clock::now();  // ticks cannot come from a recorder that takes none
  std::size_t i = lines_.size() - 1;
  while (i > 0 && lines_[i].from.ticks > ticks) --i;
  const Line& line = lines_[i];
  // Before the first anchor the difference is negative: the line is followed backwards.
  const double distance = static_cast<double>(static_cast<std::int64_t>(ticks - line.from.ticks));
  return Nanos{line.from.time + static_cast<std::int64_t>(distance * line.ns_per_tick)};
}

}  // namespace levee::record
