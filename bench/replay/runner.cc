#include "bench/replay/runner.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "bench/replay/thread_team.h"

namespace levee::replay {

namespace {

/// Costs and peaks of the step that is being replayed.
class StepBook {
 public:
  StepBook(const OpTrace& trace, const ReplayPolicy& policy, ReplayResult& result)
      : trace_(trace), policy_(policy), result_(result) {}

  void see_reserved() { peak_ = std::max(peak_, policy_.reserved()); }
  void see_live(Bytes live) {
    peak_live_ = std::max(peak_live_, live);
    ++allocations_;
  }

  /// Closes the step; the first one closed is what ran before the first mark if the trace has
  /// marks.
  void close(bool is_step, double seconds) {
    const DriverCosts costs = policy_.costs();
    const std::uint64_t pages = policy_.created_pages();
    const DriverCosts in_step = costs - before_;
    const DriverSeconds driver = seconds_of(in_step, pages - pages_before_);
    result_.reserved_by_step.push_back(peak_);
    result_.live_by_step.push_back(peak_live_);
    if (!is_step) {
      result_.warm_up_driver_seconds += driver.pessimistic + driver.creation;
      result_.warm_up_creation_seconds += driver.creation;
    } else if (++result_.steps <= kWarmUpSteps) {
      result_.warm_up_driver_seconds += driver.pessimistic + driver.creation;
      result_.warm_up_creation_seconds += driver.creation;
      peak_warm_ = policy_.peak_reserved();
    } else {
      ++result_.warm_steps;
      warm_seconds_ += seconds;
      warm_pessimistic_ += driver.pessimistic;
      warm_optimistic_ += driver.optimistic;
      if (in_step.memory_calls() != 0) ++result_.dirty_steps;
      if (peak_live_ <= most_live_) add_steady(in_step);
      result_.worst_step_seconds = std::max(result_.worst_step_seconds, driver.pessimistic);
    }
    if (is_step) {
      steps_.push_back({seconds, driver.pessimistic});
      if (guarded_from_ == 0 && policy_.is_guarded()) {
        guarded_from_ = steps_.size();
        // A trace without marks is one step.
        result_.guard_step = trace_.has_step_marks ? step_place(trace_, guarded_from_).number : 1;
      }
    }
    before_ = costs;
    pages_before_ = pages;
    allocations_ = 0;
    most_live_ = std::max(most_live_, peak_live_);
    most_reserved_ = policy_.peak_reserved();
    peak_ = policy_.reserved();
    peak_live_ = Bytes{};
  }

  void finish() {
    if (warm_seconds_ > 0) {
      result_.driver_pct_warm = 100 * warm_pessimistic_ / warm_seconds_;
      result_.driver_pct_warm_optimistic = 100 * warm_optimistic_ / warm_seconds_;
      result_.reserved_growth_warm = policy_.peak_reserved() - peak_warm_;
    }
    if (guarded_from_ != 0) result_.driver_pct_guarded = share_from(guarded_from_);
    if (steps_.size() >= 2 * kWarmUpSteps) {
      result_.driver_pct_last = share_from(steps_.size() - kWarmUpSteps);
    }
  }

 private:
  void add_steady(const DriverCosts& in_step) {
    result_.steady_allocations += allocations_;
    result_.steady_memory_calls += in_step.memory_calls();
    result_.steady_events_created += in_step.events_created;
    result_.steady_synchronisations += in_step.synchronisations;
    result_.unexplained_growth += policy_.peak_reserved() - most_reserved_;
  }

  struct Step {
    double seconds = 0;
    double driver_seconds = 0;
  };
  // Percent of the time of all steps from `first` on.
  double share_from(std::size_t first) const {
    Step sum;
    for (std::size_t i = first; i < steps_.size(); ++i) {
      sum.seconds += steps_[i].seconds;
      sum.driver_seconds += steps_[i].driver_seconds;
    }
    return sum.seconds > 0 ? 100 * sum.driver_seconds / sum.seconds : 0;
  }

  const OpTrace& trace_;
  const ReplayPolicy& policy_;
  ReplayResult& result_;
  std::vector<Step> steps_;
  std::size_t guarded_from_ = 0;   // how many steps had begun when the guard went on; 0: it did not
  std::uint64_t allocations_ = 0;  // of the step
  Bytes most_live_{};              // of the steps before
  Bytes most_reserved_{};
  DriverCosts before_;
  std::uint64_t pages_before_ = 0;
  Bytes peak_{};
  Bytes peak_live_{};
  Bytes peak_warm_{};
  double warm_seconds_ = 0;
  double warm_pessimistic_ = 0;
  double warm_optimistic_ = 0;
};

/// How long an op lasts: a step's modelled time is spread evenly over its ops. What runs before the
/// first mark has no modelled time and takes what the host needs.
class PaceOfSteps {
 public:
  PaceOfSteps(const OpTrace& trace, const TraceFacts& facts) {
    std::size_t ops = 0;
    bool in_step = !trace.has_step_marks;
    const auto close = [&] {
      const std::size_t step = seconds_.size();
      if (step < facts.step_seconds.size() && ops > 0) {
        seconds_.push_back(facts.step_seconds[step] / static_cast<double>(ops));
      }
      ops = 0;
    };
    for (const Op& op : trace.ops) {
      ++ops;
      if (op.kind != OpKind::kStep) continue;
      if (in_step) close();
      in_step = true;
      ops = 0;
    }
    close();
  }
  double seconds_an_op(bool in_step, std::size_t step) const {
    return in_step && step < seconds_.size() ? seconds_[step] : kHostSeconds;
  }

 private:
  static constexpr double kHostSeconds = 8e-6;
  std::vector<double> seconds_;
};

/// Peaks over equal stretches of the trace.
class SeriesBook {
 public:
  SeriesBook(std::size_t ops, ReplayResult& result)
      : stride_(std::max<std::size_t>(1, (ops + kSeriesPoints - 1) / kSeriesPoints)),
        left_(stride_),
        result_(result) {}

  void see(Bytes reserved, Bytes live) {
    reserved_ = std::max(reserved_, reserved);
    live_ = std::max(live_, live);
    if (--left_ == 0) close();
  }
  void finish() {
    if (left_ != stride_) close();
  }

 private:
  void close() {
    result_.reserved_series.push_back(reserved_);
    result_.live_series.push_back(live_);
    reserved_ = {};
    live_ = {};
    left_ = stride_;
  }

  std::size_t stride_;
  std::size_t left_;
  ReplayResult& result_;
  Bytes reserved_{};
  Bytes live_{};
};

}  // namespace

ReplayResult run_policy(const OpTrace& trace, const TraceFacts& facts, ReplayPolicy& policy,
                        Limits limits, const std::function<void(double)>& progress,
                        ReplayThreads threads) {
  const auto began = std::chrono::steady_clock::now();
  const std::clock_t cpu_began = std::clock();
  ReplayResult result;
  result.trace = trace.name;
  result.policy = policy.name();
  result.settings = policy.settings();
  result.capacity = limits.capacity;
  result.ops = trace.ops.size();
  result.peak_live = facts.peak_live;
  result.peak_active = facts.peak_active;
  StepBook book(trace, policy, result);
  SeriesBook series(trace.ops.size(), result);
  std::vector<std::uint64_t> size(trace.id_count);  // 0: not live
  Bytes live{};
  std::size_t step_index = 0;
  bool in_step = !trace.has_step_marks;
  const PaceOfSteps pace(trace, facts);
  const auto replay = [&](const Op& op) {
    policy.pass(pace.seconds_an_op(in_step, step_index));
    switch (op.kind) {
      case OpKind::kAlloc: {
        const Bytes wanted = std::max(Bytes{op.bytes}, 1_B);
        if (policy.allocate(op.id, wanted, op.stream)) {
          size[op.id] = round_up(wanted, 512_B).value;
          live += Bytes{size[op.id]};
          book.see_live(live);
        } else {
          if (result.failures++ == 0) {
            StepPlace place = step_place(trace, in_step ? step_index + 1 : 0);
            result.first_failure_step = place.number;
            result.first_failure_where = std::move(place.text);
          }
        }
        book.see_reserved();
        break;
      }
      case OpKind::kFree:
        if (size[op.id] == 0) break;
        policy.free(op.id);
        live -= Bytes{size[op.id]};
        size[op.id] = 0;
        break;
      case OpKind::kRecordUse:
        if (size[op.id] != 0) policy.record_use(op.id, op.stream);
        break;
      case OpKind::kStep:
        if (in_step) {
          book.close(true, facts.step_seconds[step_index++]);
        } else {
          book.close(false, 0);
          in_step = true;
        }
        policy.step();
        break;
    }
    series.see(policy.reserved(), live);
  };
  const bool is_as_recorded = threads == ReplayThreads::kAsRecorded;
  if (is_as_recorded) result.threads = std::max<std::uint16_t>(1, trace.thread_count);
  ThreadTeam team;
  const std::size_t stride = std::max<std::size_t>(1, trace.ops.size() / 100);
  for (std::size_t i = 0; i < trace.ops.size();) {
    if (progress && i % stride == 0)
      progress(static_cast<double>(i) / static_cast<double>(trace.ops.size()));
    // Up to where somebody is told, or another thread goes on.
    const std::uint8_t thread = is_as_recorded ? trace.ops[i].thread : 0;
    const std::size_t end = std::min(trace.ops.size(), i - i % stride + stride);
    const auto stretch = [&] {
      do {
        replay(trace.ops[i++]);
      } while (i < end && (!is_as_recorded || trace.ops[i].thread == thread));
    };
    if (thread == 0) {
      stretch();
    } else {
      team.run(thread, stretch);
    }
  }
  series.finish();
  if (in_step && step_index < facts.step_seconds.size())
    book.close(true, facts.step_seconds[step_index]);
  book.finish();
  result.peak_reserved = policy.peak_reserved();
  const bool uses = facts.peak_active > facts.peak_live;
  const Bytes base = uses ? facts.peak_active : facts.peak_live;
  if (base.value != 0)
    result.ratio =
        static_cast<double>(result.peak_reserved.value) / static_cast<double>(base.value);
  result.emergencies = policy.emergencies();
  result.costs = policy.costs();
  result.early_waits = policy.early_waits();
  for (const Op& op : trace.ops) {
    if (op.kind == OpKind::kAlloc && op.stream != 0) ++result.early_waits.side_allocations;
  }
  result.driver = seconds_of(result.costs, policy.created_pages());
  result.step_seconds = facts.total_seconds;
  if (facts.total_seconds > 0) {
    result.driver_pct = 100 * result.driver.pessimistic / facts.total_seconds;
    result.creation_pct = 100 * result.driver.creation / facts.total_seconds;
  }
  result.details = policy.details();
  result.cpu_seconds = static_cast<double>(std::clock() - cpu_began) / CLOCKS_PER_SEC;
  result.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace levee::replay
