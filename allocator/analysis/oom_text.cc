#include "allocator/analysis/oom_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "allocator/analysis/text.h"

namespace levee::analysis {
namespace {

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : 0;
}

// Bytes on pages that hold nothing live: what could be mapped anew or given back.
std::uint64_t whole_free_bytes(const OomReport& report) {
  return minus(report.free_bytes.value, report.partial_page_bytes.value);
}

// What the process may still take from the device.
std::uint64_t obtainable_bytes(const OomReport& report) {
  const std::uint64_t device = report.device_free_bytes.value;
  if (report.limit_bytes.value == 0) return device;
  return std::min(device, minus(report.limit_bytes.value, report.reserved_bytes.value));
}

Squeeze squeeze_of(const OomReport& report) {
  return {report.requested_bytes.value, report.allocated_bytes.value + report.waiting_bytes.value,
          std::min(report.partial_page_bytes.value, report.free_bytes.value),
          whole_free_bytes(report) + obtainable_bytes(report)};
}

bool is_limit(EmergencyCause cause) {
  return cause == EmergencyCause::kLimitReached || cause == EmergencyCause::kPoolLimitReached;
}

std::string advice(const OomReport& report, OomVerdict verdict) {
  const std::uint64_t missing =
      minus(report.requested_bytes.value, whole_free_bytes(report) + obtainable_bytes(report));
  switch (verdict) {
    case OomVerdict::kLimit:
      if (report.cause == EmergencyCause::kPoolLimitReached) {
        return "Raise the limit of this pool, or let the pool use other memory when it is full.";
      }
      return fmt::format(
          "Raise the limit (torch.cuda.set_per_process_memory_fraction, LEVEE_MEMORY_FRACTION), or "
          "save {}: a smaller batch, activation checkpointing.",
          bytes_text(std::max<std::uint64_t>(missing, 1)));
    case OomVerdict::kFull:
      return fmt::format(
          "The memory is truly used: even without any fragmentation this request would lack {}. "
          "Save at least that (a smaller batch or shorter sequences, activation checkpointing, a "
          "smaller optimizer state), or use a GPU with more memory. No allocator setting helps.",
          bytes_text(minus(report.requested_bytes.value,
                           report.free_bytes.value + obtainable_bytes(report))));
    case OomVerdict::kNearlyFull:
      return nearly_full_advice(squeeze_of(report));
    case OomVerdict::kFragmented:
      return fmt::format(
          "Blocks that live long lie on pages that are free otherwise. `levee report` on a "
          "recording of this run lists them under \"{}\"; allocate what lives long before the "
          "first step.",
          kBetweenHeading);
    case OomVerdict::kWaiting:
      return "Freed blocks wait for work on other streams (record_stream). Let that work finish "
             "earlier, or free what it uses later.";
    case OomVerdict::kPools:
      return "Private pools (CUDA graphs, MemPool) hold free memory that others may not use while "
             "the pool lives. Share one pool between graphs, or release graphs that are done.";
    case OomVerdict::kOthers:
      return "Memory outside levee is what is missing: other processes on this GPU, or other "
             "libraries in this one. `nvidia-smi` names the processes.";
  }
  return {};
}

const char* verdict_text(OomVerdict verdict) {
  switch (verdict) {
    case OomVerdict::kLimit:
      return "a limit is reached";
    case OomVerdict::kFull:
      return "truly full";
    case OomVerdict::kNearlyFull:
      return "full but for a little";
    case OomVerdict::kFragmented:
      return "fragmented";
    case OomVerdict::kWaiting:
      return "waiting for other streams";
    case OomVerdict::kPools:
      return "held by private pools";
    case OomVerdict::kOthers:
      return "held by others";
  }
  return "unknown";
}

}  // namespace

OomBalance balance_of(const OomReport& report) {
  OomBalance out;
  out.total_bytes = report.device_total_bytes.value;
  out.allocated_bytes = report.allocated_bytes.value;
  out.waiting_bytes = report.waiting_bytes.value;
  out.free_in_levee_bytes =
      minus(report.reserved_bytes.value, out.allocated_bytes + out.waiting_bytes);
  out.device_free_bytes = report.device_free_bytes.value;
  out.elsewhere_bytes = minus(out.total_bytes, report.reserved_bytes.value + out.device_free_bytes);
  return out;
}

bool would_fit_after_trim(const OomReport& report) {
  return report.requested_bytes.value <=
         whole_free_bytes(report) + report.waiting_bytes.value + obtainable_bytes(report);
}

OomVerdict verdict_of(const OomReport& report) {
  const std::uint64_t request = report.requested_bytes.value;
  if (is_limit(report.cause)) return OomVerdict::kLimit;
  const std::uint64_t at_hand = whole_free_bytes(report) + obtainable_bytes(report);
  if (request <= at_hand + report.waiting_bytes.value && report.waiting_bytes.value > 0) {
    return OomVerdict::kWaiting;
  }
  if (request <= at_hand + report.private_pool_bytes.value &&
      report.private_pool_bytes.value > minus(report.allocated_bytes.value, request)) {
    return OomVerdict::kPools;
  }
  if (is_fragmentation_why(squeeze_of(report))) return OomVerdict::kFragmented;
  const OomBalance balance = balance_of(report);
  // Others are to blame when levee's own live bytes and the request would fit an empty device, and
  // what others hold is more than the gap and more than a CUDA context usually takes.
  constexpr std::uint64_t kOrdinaryContext = std::uint64_t{1} << 30;  // chosen: two usual contexts
  if (balance.elsewhere_bytes > kOrdinaryContext &&
      balance.elsewhere_bytes >= minus(request, at_hand)) {
    return OomVerdict::kOthers;
  }
  return request <= report.free_bytes.value + obtainable_bytes(report) ? OomVerdict::kNearlyFull
                                                                       : OomVerdict::kFull;
}

bool is_fragmentation_why(const Squeeze& squeeze) {
  if (squeeze.requested_bytes > squeeze.between_bytes + squeeze.at_hand_bytes) return false;
  if (squeeze.between_bytes >= squeeze.live_bytes / 20 && squeeze.between_bytes > 0) return true;
  return squeeze.between_bytes >= std::uint64_t{1} << 30 &&
         squeeze.between_bytes / 8 >= squeeze.requested_bytes;
}

std::string nearly_full_advice(const Squeeze& squeeze) {
  const std::uint64_t unused = squeeze.between_bytes + squeeze.at_hand_bytes;
  const std::uint64_t all = squeeze.live_bytes + unused;
  const std::uint64_t lacking = minus(squeeze.requested_bytes, squeeze.at_hand_bytes);
  return fmt::format(
      "The memory is used: {} of the {} that this process can have ({}) are live. Fragmentation "
      "({}) "
      "is hardly why: without any, this request would be served, with {} left for all that "
      "follows. "
      "Save at least {} and what the rest of the job adds (a smaller batch or shorter sequences, "
      "activation checkpointing, a smaller optimizer state), or use a GPU with more memory.",
      bytes_text(squeeze.live_bytes), bytes_text(all), share_text(squeeze.live_bytes, all),
      bytes_text(squeeze.between_bytes), bytes_text(minus(unused, squeeze.requested_bytes)),
      bytes_text(lacking > 0 ? lacking : squeeze.requested_bytes));
}

double fragmentation_of(const OomReport& report) {
  const OomBalance balance = balance_of(report);
  if (balance.free_in_levee_bytes == 0) return 0.0;
  const double share = static_cast<double>(report.largest_run_bytes.value) /
                       static_cast<double>(balance.free_in_levee_bytes);
  return share >= 1.0 ? 0.0 : 1.0 - share;
}

std::string oom_headline(const OomReport& report, DeviceId device) {
  const OomBalance balance = balance_of(report);
  std::string out = fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is "
      "free. Of the memory reserved by levee ({}), {} is allocated and {} is reserved but "
      "unallocated.",
      bytes_text(report.requested_bytes.value), device.value, bytes_text(balance.total_bytes),
      bytes_text(balance.device_free_bytes), bytes_text(report.reserved_bytes.value),
      bytes_text(balance.allocated_bytes),
      bytes_text(balance.free_in_levee_bytes + balance.waiting_bytes));
  if (report.limit_bytes.value != 0) {
    out +=
        fmt::format(" This process may reserve at most {}.", bytes_text(report.limit_bytes.value));
  }
  return out;
}

std::string oom_explanation(const OomReport& report) {
  const OomVerdict verdict = verdict_of(report);
  const OomBalance balance = balance_of(report);
  std::string out =
      fmt::format("Verdict: {}. Cause: {}.\n", verdict_text(verdict), cause_text(report.cause));
  out += fmt::format(
      "Balance: allocated {} + waiting for streams {} + free in levee {} + not levee's {} + free "
      "on "
      "the device {} = {}.\n",
      bytes_text(balance.allocated_bytes), bytes_text(balance.waiting_bytes),
      bytes_text(balance.free_in_levee_bytes), bytes_text(balance.elsewhere_bytes),
      bytes_text(balance.device_free_bytes), bytes_text(balance.total_bytes));
  out += fmt::format(
      "Free in levee: largest run {}, fragmentation {:.3f}; {} on pages that also hold live "
      "blocks; "
      "private pools reserve {}.\n",
      bytes_text(report.largest_run_bytes.value), fragmentation_of(report),
      bytes_text(report.partial_page_bytes.value), bytes_text(report.private_pool_bytes.value));
  const std::uint32_t rungs =
      std::min<std::uint32_t>(report.rung_count, static_cast<std::uint32_t>(report.rungs.size()));
  std::string tried;
  for (std::uint32_t i = 0; i < rungs; ++i) {
    const OomReport::Rung& rung = report.rungs[i];
    if (rung.rung == LadderRung::kOutOfMemory) continue;  // the end of trying
    tried += fmt::format(
        "{}{} ({} in {})", tried.empty() ? "Tried: " : "; ", rung_text(rung.rung),
        rung.freed.value == 0 ? std::string("nothing") : bytes_text(rung.freed.value) + " freed",
        duration_text(static_cast<std::uint64_t>(std::max<std::int64_t>(rung.took.value, 0))));
  }
  if (!tried.empty()) {
    out += fmt::format("{}. After that {} of {} could be had.\n", tried,
                       bytes_text(std::min(report.requested_bytes.value,
                                           whole_free_bytes(report) + obtainable_bytes(report))),
                       bytes_text(report.requested_bytes.value));
  }
  out += fmt::format("Would fit after giving everything free back: {}.\n",
                     would_fit_after_trim(report) ? "yes" : "no");
  out += "Advice: " + advice(report, verdict);
  return out;
}

std::string oom_text(const OomReport& report, DeviceId device) {
  return oom_headline(report, device) + "\n" + oom_explanation(report);
}

const char* rung_text(LadderRung rung) {
  switch (rung) {
    case LadderRung::kOwnEvents:
      return "waited for blocks that other streams still used";
    case LadderRung::kCallbacks:
      return "asked callbacks to give memory back";
    case LadderRung::kFragments:
      return "gathered pieces that placement kept for other uses";
    case LadderRung::kOtherPools:
      return "took free pages of other pools";
    case LadderRung::kCachedHandles:
      return "gave cached memory back to the device and asked anew";
    case LadderRung::kOutOfMemory:
      return "gave up";
  }
  return "climbed an unknown rung";
}

const char* rung_name(LadderRung rung) {
  switch (rung) {
    case LadderRung::kOwnEvents:
      return "own events";
    case LadderRung::kCallbacks:
      return "callbacks";
    case LadderRung::kFragments:
      return "fragments";
    case LadderRung::kOtherPools:
      return "other pools";
    case LadderRung::kCachedHandles:
      return "cached handles";
    case LadderRung::kOutOfMemory:
      return "out of memory";
  }
  return "unknown";
}

const char* cause_text(EmergencyCause cause) {
  switch (cause) {
    case EmergencyCause::kDeviceFull:
      return "the device had no more memory to give";
    case EmergencyCause::kLimitReached:
      return "the limit of this process was reached";
    case EmergencyCause::kPoolLimitReached:
      return "the limit of one pool was reached";
    case EmergencyCause::kMapFailed:
      return "memory was there, but the driver could not map it";
  }
  return "unknown to this version";
}

const char* cause_name(EmergencyCause cause) {
  switch (cause) {
    case EmergencyCause::kDeviceFull:
      return "device full";
    case EmergencyCause::kLimitReached:
      return "process limit";
    case EmergencyCause::kPoolLimitReached:
      return "pool limit";
    case EmergencyCause::kMapFailed:
      return "mapping failed";
  }
  return "unknown";
}

const char* guard_change_name(GuardChange change) {
  switch (change) {
    case GuardChange::kOn:
      return "on";
    case GuardChange::kOff:
      return "off";
    case GuardChange::kOverruled:
      return "overruled";
  }
  return "unknown";
}

}  // namespace levee::analysis
