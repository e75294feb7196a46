// How long a large block will live, guessed from what the program did before.
//
// A block is *short-lived* if fewer than 40 times the mean large request are allocated while it
// lives. Bytes, not calls or time: what matters is how much has to find a place beside it. The
// history is a sequence of tokens, one for each request: the size itself if most steps ask for
// exactly that size, else the ratio to the previous size in half octaves; and the number of frees
// in between. Seven contexts name a moment: the position in the step together with the last 6
// tokens (an evaluation's steps look like training until memory is not kept), the position alone,
// and the last 100, 40, 16, 6 and 2 tokens. Each context has a counter of -3 (long) to 3 (short);
// the first context that has an opinion decides. All seven are trained when the block is freed, or,
// if it still lives, once that many bytes went by. A second counter beside each says in the same
// way which of the short-lived are *brief*: fewer than 8 times the mean are allocated after them.
// Only blocks of up to twice the mean are called so, and from the fifth step on: where a brief
// block is put saves memory that is there, and counts on frees that were seen; a large one would
// take the very run that the largest requests need. Promises: advice only; no heap once warm;
// constant cost, about 60 ns for a request and 40 for a free: hashes of the last tokens are rolled,
// not recomputed. Off until `begin_step` is called for the first time: history alone was measured
// to be worse than no guess. Guarded by the pool lock.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <levee/units.h>

#include "allocator/base/record_arena.h"
#include "allocator/core/placement.h"

namespace levee::core {

class Predictor {
 public:
  /// What a block carries so that its contexts can be trained. Owned by the predictor.
  struct Ticket;

  Predictor();
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  void begin_step();
  bool is_on() const { return step_ > 0; }

  struct Guess {
    Lifetime lifetime = Lifetime::kLong;
    Ticket* ticket = nullptr;
  };
  /// A large request. The ticket goes to `on_free`, or to `drop` if the request fails.
  Guess on_request(Bytes bytes);
  void on_free(Ticket* ticket) {
    ++frees_since_;
    if (ticket != nullptr) on_free_slow(ticket);
  }
  void drop(Ticket* ticket);  ///< not null
  /// Small requests are part of the history, without a guess of their own: where large requests are
  /// few, it is they which tell one moment from another.
  void on_small_request(Bytes bytes) {
    if (!is_on()) return;
    ++position_;
    push_token(token_for(bytes.value));
  }
  void on_small_free() { ++frees_since_; }
  /// The same for requests and frees that are told late, in order.
  void on_small_frees(std::uint32_t count) { frees_since_ += count; }
  /// Requests so long ago that no history reaches them: they count as moments of the step alone.
  void skip(std::uint64_t requests) {
    if (is_on()) position_ += requests;
  }
  /// Bytes of large requests so far.
  std::uint64_t clock_bytes() const { return clock_bytes_; }

 private:
  static constexpr std::array<std::uint32_t, 5> kLengths = {2, 6, 16, 40, 100};
  static constexpr std::size_t kPosition = kLengths.size();  // the position alone
  static constexpr std::size_t kMoment = kPosition + 1;      // and with a history
  static constexpr std::size_t kContexts = kMoment + 1;
  static constexpr std::size_t kMomentHistory = 1;  // which of `kLengths`
  static constexpr std::size_t kRing = 128;         // above the longest history
  static constexpr double kShortLife = 40;  // times the mean large request; see the study in README
  static constexpr double kBriefLife = 8;   // times the mean, and
  static constexpr double kBriefSize =
      2;  // the largest that counts; chosen on the traces in README
  static constexpr std::uint64_t kBriefFromStep = 5;
  static constexpr double kMeanWeight = 1.0 / 64;

  // One counter a context, found by hash; a newcomer takes the place of what lies there.
  struct Counter {
    std::uint32_t tag = 0;
    std::int8_t value = 0;
    std::int8_t brief = 0;
  };
  struct SizeUse {
    std::uint64_t bytes = 0;
    std::uint32_t last_step = 0;
    std::uint32_t steps = 0;
  };

  std::uint64_t token_for(std::uint64_t bytes);
  void push_token(std::uint64_t token);
  Counter* find(std::uint64_t context);
  void on_free_slow(Ticket* ticket);
  void train(const Ticket& ticket, Lifetime lived);
  int opinion(const Ticket& ticket, std::int8_t Counter::*of);  // above 0: yes; 0: none
  void expire();

  std::uint64_t step_ = 0;
  std::uint64_t position_ = 0;  // large requests since the step began
  std::uint64_t clock_bytes_ = 0;
  double mean_bytes_ = 0;
  std::uint64_t previous_bytes_ = 0;  // last request of a size that is not constant
  std::uint32_t frees_since_ = 0;

  std::array<std::uint64_t, kRing> ring_{};
  std::uint64_t pushed_ = 0;
  std::array<std::uint64_t, kLengths.size()> rolled_{};
  std::array<std::uint64_t, kLengths.size()> leaving_factor_{};

  std::vector<Counter> counters_;
  std::vector<SizeUse> sizes_;
  base::RecordArena<Ticket> tickets_;
  std::vector<Ticket*> watch_;  // ring: tickets in order of their deadline
  std::size_t watch_begin_ = 0;
  std::size_t watch_count_ = 0;
};

struct Predictor::Ticket {
  std::array<std::uint64_t, kContexts> contexts{};
  std::uint64_t asked_at_bytes = 0;  // of the clock, itself included
  std::uint64_t deadline_bytes = 0;
  bool is_freed = false;
  bool is_trained = false;
  bool is_watched = false;
};

}  // namespace levee::core
