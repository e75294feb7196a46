// A program's requests to its allocator as plain data: what every policy of the lab is given.
//
// Owns: `Op`, `OpTrace` and the facts computed from them that no policy may choose for itself (peak
// live, step times). Promises: ids are dense from 0, each is allocated once and freed at most once,
// streams are small indices with 0 the program's main stream, and so are threads; a trace that
// breaks this cannot be made (`OpTraceBuilder` repairs and counts what it repaired). Not thread
// safe; a finished trace is never changed and may be read by any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <levee/units.h>

#include "bench/replay/id_table.h"

namespace levee::replay {

enum class OpKind : std::uint8_t {
  kAlloc,      ///< `id` of `bytes` requested on `stream`
  kFree,       ///< `id` given back
  kRecordUse,  ///< `id` is also used on `stream`
  kStep,       ///< a step begins; `bytes` is its modelled work in MFLOP, 0 if unknown
};

struct Op {
  std::uint64_t bytes = 0;
  std::uint32_t id = 0;
  std::uint16_t stream = 0;
  OpKind kind = OpKind::kAlloc;
  std::uint8_t thread = 0;  ///< that made it; 0 is the first one that made any
};
static_assert(sizeof(Op) == 16);

/// How much of the program's life a trace covers, so that a reader of the figures knows what they
/// rest on.
struct Completeness {
  bool starts_at_beginning =
      true;  ///< false: blocks were live before the first op; they are allocated first
  std::uint64_t live_at_start_count = 0;
  Bytes live_at_start{};
  std::uint64_t unknown_frees =
      0;  ///< frees of blocks whose allocation is not in the trace; dropped
  std::uint64_t repeated_ids =
      0;  ///< allocations at an address still live; the older block is freed first
  std::uint64_t lost_events = 0;  ///< as the recording itself says
  Bytes unnamed_live{};  ///< part of `live_at_start` of which the recording says only how much it
                         ///< was in all; placed as one block
  std::uint64_t dropped_requests =
      0;                  ///< of impossible sizes (`kMaxRequested`, `kMaxLive`); left out
  bool has_gaps = false;  ///< a part is missing that a note tells of: an end, a damaged stretch
  std::uint64_t private_requests =
      0;  ///< for private pools (CUDA graphs, MemPool); replayed as ordinary ones
  /// What only this kind of recording can say, as whole sentences.
  std::vector<std::string> notes;

  /// Nothing is known to be missing.
  bool is_complete() const {
    return starts_at_beginning && unknown_frees == 0 && repeated_ids == 0 && lost_events == 0 &&
           dropped_requests == 0 && !has_gaps;
  }
  /// Sentences for people; empty if nothing is missing and there is nothing to note.
  std::string sentence() const;
};

/// No GPU has more, and no machine has more GPUs than that; larger sizes are errors of the
/// recording.
inline constexpr Bytes kMaxRequested{1ULL << 44};
inline constexpr Bytes kMaxLive{1ULL << 48};

struct OpTrace {
  std::string name;
  std::vector<Op> ops;
  std::uint32_t id_count = 0;
  std::uint16_t stream_count = 1;
  std::uint16_t thread_count = 0;  ///< 0: it is not known which thread made what
  bool has_step_marks = false;
  /// By mark: the number of the step that begins there, as the recording counts. What a person is
  /// told about a step uses it, so that all reports of a run speak of the same one.
  std::vector<std::uint64_t> step_numbers;
  /// Where marks end steps (an optimizer's), what runs before the first one is this step already.
  std::optional<std::uint64_t> number_before_marks;
  bool marks_end_steps = false;  ///< and what runs after the last one is none
  bool is_levees_own = false;    ///< recorded while levee was the allocator
  Completeness completeness;
  Bytes recorded_peak_reserved{};  ///< what the recording's own allocator reserved at most; 0 =
                                   ///< unknown
};

/// Facts of a trace by the definitions that all rows share. *live*: sum of requested bytes rounded
/// up to 512, between allocation and free. *active*: the same, a block with recorded uses staying
/// until `event_lag` further requests were made.
struct TraceFacts {
  Bytes peak_live{};
  Bytes peak_active{};
  std::uint64_t allocations = 0;
  std::uint64_t recorded_uses = 0;  ///< blocks that other streams used
  std::vector<double>
      step_seconds;  ///< modelled duration of each step; one entry for a trace without marks
  double total_seconds = 0;
};

/// Modelled duration of a step: its MFLOP at 40 % of 312 TFLOP/s (an A100's dense bf16 peak), but
/// never less than 8 us for each allocation in it, which is about what dispatching an operator
/// costs.
double step_seconds(std::uint64_t mflop, std::uint64_t allocations);

TraceFacts facts_of(const OpTrace& trace, std::uint64_t event_lag = 300);

/// When something happened, as `levee report` counts steps: "in step 7", "before the first step",
/// "after step 10"; empty for a trace without marks. `marks` is how many marks came before it.
struct StepPlace {
  std::int64_t number = -1;  ///< of the step; -1: before the first one, or no marks
  std::string text;
};
StepPlace step_place(const OpTrace& trace, std::size_t marks);

/// Builds a trace from events that name blocks by arbitrary keys (addresses, the recording's ids).
class OpTraceBuilder {
 public:
  explicit OpTraceBuilder(std::string name);

  void alloc(std::uint64_t key, Bytes bytes, std::uint64_t stream_key);
  void free(std::uint64_t key);
  bool is_live(std::uint64_t key) const { return live_.find(key) != IdTable::kNone; }
  void record_use(std::uint64_t key, std::uint64_t stream_key);
  /// A step begins: of this number, or the one after the last (the first is 1).
  void step(std::uint64_t mflop, std::optional<std::uint64_t> number = std::nullopt);
  /// Marks end steps: what comes before the first is step `number` already.
  void marks_end_steps(std::uint64_t number);
  /// Everything from here on is done by this thread, until another is named.
  void on_thread(std::uint64_t key);
  /// A block that was live before the recording began. Only before the first other call.
  void live_at_start(std::uint64_t key, Bytes bytes, std::uint64_t stream_key);
  /// Bytes that were live before and are not named by any event: one block more, never freed.
  void unnamed_live_at_start(Bytes bytes);
  void note(std::string sentence) { trace_.completeness.notes.push_back(std::move(sentence)); }
  /// A part is missing, as the sentence tells.
  void gap(std::string sentence) {
    trace_.completeness.has_gaps = true;
    note(std::move(sentence));
  }
  void private_requests(std::uint64_t count) { trace_.completeness.private_requests = count; }
  void levees_own() { trace_.is_levees_own = true; }
  void lost(std::uint64_t events) { trace_.completeness.lost_events += events; }
  void set_recorded_peak_reserved(Bytes bytes) { trace_.recorded_peak_reserved = bytes; }

  /// The trace; the builder is empty afterwards.
  OpTrace finish();

 private:
  std::uint16_t stream_index(std::uint64_t key);
  void push(Op op);

  OpTrace trace_;
  IdTable live_;
  std::vector<std::uint64_t> bytes_;  // requested, by id
  Bytes live_bytes_{};
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::uint64_t last_stream_key_ = 0;  // what stream_index was last asked for, and said
  std::uint16_t last_stream_ = 0;
  std::unordered_map<std::uint64_t, std::uint8_t> threads_;
  std::uint64_t last_thread_key_ = 0;
  std::uint8_t last_thread_ = 0;
};

}  // namespace levee::replay
