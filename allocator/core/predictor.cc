#include "allocator/core/predictor.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "allocator/base/check.h"

namespace levee::core {
namespace {

constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15ULL;  // odd: its powers stay apart modulo 2^64
constexpr std::size_t kCounterBits = 16;
constexpr std::size_t kSizeBits = 12;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = a ^ (b + kBase + (a << 6) + (a >> 2));
  h *= 0xFF51AFD7ED558CCDULL;
  h ^= h >> 33;
  h *= 0xC4CEB9FE1A85EC53ULL;
  return h ^ (h >> 29);
}

// One long life undoes a habit of short ones at once: a long block at the wrong end costs more.
void count(std::int8_t& counter, bool was_shorter) {
  if (was_shorter) {
    if (counter < 3) ++counter;
  } else {
    counter = counter > 1 ? std::int8_t{0} : static_cast<std::int8_t>(std::max(-3, counter - 1));
  }
}

// Logarithm in half octaves, rounded: 2 * log2(n).
int half_octaves(std::uint64_t n) {
  // sqrt(2)^(k - 1/2) <= n < sqrt(2)^(k + 1/2), without calling log.
  const int octave = static_cast<int>(std::bit_width(n)) - 1;
  const double rest = std::ldexp(static_cast<double>(n), -octave);  // 1 <= rest < 2
  const int half = rest < 1.189207115 ? 0 : rest < 1.681792831 ? 1 : 2;
  return 2 * octave + half;
}

}  // namespace

Predictor::Predictor() {
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    std::uint64_t factor = 1;
    for (std::uint32_t k = 0; k < kLengths[i]; ++k) factor *= kBase;
    leaving_factor_[i] = factor;
  }
}

Predictor::~Predictor() = default;

void Predictor::begin_step() {
  if (step_ == 0) {
    counters_.resize(std::size_t{1} << kCounterBits);
    sizes_.resize(std::size_t{1} << kSizeBits);
    watch_.resize(1024);
    tickets_.reserve(1024);
  }
  ++step_;
  position_ = 0;
}

std::uint64_t Predictor::token_for(std::uint64_t bytes) {
  SizeUse& use = sizes_[mix(bytes, 1) >> (64 - kSizeBits)];
  if (use.bytes != bytes) use = SizeUse{bytes, 0, 0};
  if (use.last_step != step_) {
    use.last_step = static_cast<std::uint32_t>(step_);
    ++use.steps;
  }
  const bool is_constant = step_ > 3 && use.steps >= 3 && use.steps * 2 >= step_;
  std::uint64_t token = 0;
  if (is_constant) {
    token = mix(7, bytes);
  } else {
    const int ratio =
        previous_bytes_ == 0 ? 0 : 1000 + half_octaves(bytes) - half_octaves(previous_bytes_);
    token = mix(9, static_cast<std::uint64_t>(ratio));
    previous_bytes_ = bytes;
  }
  token = mix(token, std::min<std::uint32_t>(frees_since_, 7));
  frees_since_ = 0;
  return token;
}

void Predictor::push_token(std::uint64_t token) {
  // rolled = sum of token * base^age over the last L tokens: shift all, add the newcomer, take away
  // the one that falls out.
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const std::uint64_t leaving =
        pushed_ >= kLengths[i] ? ring_[(pushed_ - kLengths[i]) % kRing] : 0;
    rolled_[i] = rolled_[i] * kBase + token - leaving * leaving_factor_[i];
  }
  ring_[pushed_++ % kRing] = token;
}

Predictor::Counter* Predictor::find(std::uint64_t context) {
  Counter& counter = counters_[context >> (64 - kCounterBits)];
  return counter.tag == static_cast<std::uint32_t>(context | 1) ? &counter : nullptr;
}

Predictor::Guess Predictor::on_request(Bytes request) {
  clock_bytes_ += request.value;
  const double bytes = static_cast<double>(request.value);
  mean_bytes_ = mean_bytes_ == 0 ? bytes : mean_bytes_ + (bytes - mean_bytes_) * kMeanWeight;
  if (!is_on()) return Guess{};
  ++position_;
  push_token(token_for(request.value));
  Ticket* ticket = tickets_.make();
  if (ticket == nullptr) return Guess{};
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    ticket->contexts[i] = mix(rolled_[i], 100 + i);
  }
  ticket->contexts[kPosition] = mix(position_, 999);
  ticket->contexts[kMoment] = mix(ticket->contexts[kPosition], rolled_[kMomentHistory]);
  Guess guess{Lifetime::kLong, ticket};
  if (opinion(*ticket, &Counter::value) > 0) guess.lifetime = Lifetime::kShort;
  if (guess.lifetime == Lifetime::kShort && step_ >= kBriefFromStep &&
      bytes <= kBriefSize * mean_bytes_ && opinion(*ticket, &Counter::brief) > 0) {
    guess.lifetime = Lifetime::kBrief;
  }
  ticket->asked_at_bytes = clock_bytes_;
  ticket->deadline_bytes =
      clock_bytes_ - request.value + static_cast<std::uint64_t>(kShortLife * mean_bytes_);
  if (watch_count_ == watch_.size()) {
    std::vector<Ticket*> larger(2 * watch_.size());
    for (std::size_t i = 0; i < watch_count_; ++i) {
      larger[i] = watch_[(watch_begin_ + i) % watch_.size()];
    }
    watch_ = std::move(larger);
    watch_begin_ = 0;
  }
  watch_[(watch_begin_ + watch_count_++) % watch_.size()] = ticket;
  ticket->is_watched = true;
  expire();
  return guess;
}

// Of the first context that has one; those of the position in the step need to be sure.
int Predictor::opinion(const Ticket& ticket, std::int8_t Counter::*of) {
  for (std::size_t i = kContexts; i-- > 0;) {
    const Counter* counter = find(ticket.contexts[i]);
    if (counter == nullptr || counter->*of == 0) continue;
    if (i >= kPosition && std::abs(counter->*of) < 2) continue;
    return counter->*of;
  }
  return 0;
}

// Tickets whose time is over were long-lived, if they still live.
void Predictor::expire() {
  while (watch_count_ > 0) {
    Ticket* oldest = watch_[watch_begin_];
    if (oldest->deadline_bytes > clock_bytes_) return;
    watch_begin_ = (watch_begin_ + 1) % watch_.size();
    --watch_count_;
    oldest->is_watched = false;
    if (!oldest->is_trained) train(*oldest, Lifetime::kLong);
    oldest->is_trained = true;
    if (oldest->is_freed) tickets_.destroy(oldest);
  }
}

void Predictor::train(const Ticket& ticket, Lifetime lived) {
  for (const std::uint64_t context : ticket.contexts) {
    Counter& counter = counters_[context >> (64 - kCounterBits)];
    const auto tag = static_cast<std::uint32_t>(context | 1);
    if (counter.tag != tag) counter = Counter{tag, 0, 0};
    count(counter.value, lived != Lifetime::kLong);
    count(counter.brief, lived == Lifetime::kBrief);
  }
}

void Predictor::on_free_slow(Ticket* ticket) {
  if (!ticket->is_trained) {
    const auto since = static_cast<double>(clock_bytes_ - ticket->asked_at_bytes);
    train(*ticket, since < kBriefLife * mean_bytes_ ? Lifetime::kBrief : Lifetime::kShort);
  }
  ticket->is_trained = true;
  drop(ticket);
}

void Predictor::drop(Ticket* ticket) {
  ticket->is_freed = true;
  ticket->is_trained = true;
  if (!ticket->is_watched) tickets_.destroy(ticket);
}

}  // namespace levee::core
