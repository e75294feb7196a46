#include "tools/simgpu/stubs/nccl/group.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/nccl/communicator.h"

namespace levee::simgpu::nccl {
namespace {

using Operations = std::vector<std::unique_ptr<Operation>>;

// The judge's numbers for one piece of work that reads or writes (simgpu_abi.h).
constexpr int kReads = 3;
constexpr int kWrites = 4;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kSayAfter = 20 * kSecond;

struct ThreadGroup {
  int depth = 0;
  Operations operations;
};

ThreadGroup& this_thread() {
  thread_local ThreadGroup group;
  return group;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

/// Watches one wait: says so when it gets long, and finds out when it is hopeless.
class Patience {
 public:
  /// Sleeps a little, unless the board has changed since `seen`. Returns why there is no hope; ""
  /// while there is.
  std::string sleep(const Operation& blocked, std::uint32_t seen) {
    Board& board = blocked.communicator()->board();
    if (blocked.communicator()->is_aborted())
      return blocked.describe() + ": the communicator was aborted";
    const std::int64_t now = simgpu_now_ns();
    if (start_ == 0) start_ = now;
    const std::vector<int> missing = blocked.missing();
    std::vector<int> lost;
    std::copy_if(missing.begin(), missing.end(), std::back_inserter(lost),
                 [&](int rank) { return board.is_lost(rank); });
    const bool is_hopeless = !lost.empty();
    if (is_hopeless && saw_lost_)
      return text_of(blocked, missing) + "; gone: rank " + list_of(lost);
    // What a rank posted before it ended still counts: only a second look tells that nothing more
    // comes.
    saw_lost_ = is_hopeless;
    if (is_hopeless) return "";
    if (!has_said_ && now - start_ > kSayAfter) {
      std::fprintf(stderr, "simgpu: %s for %lld s\n", text_of(blocked, missing).c_str(),
                   static_cast<long long>((now - start_) / kSecond));
      has_said_ = true;
    }
    static const auto limit =
        static_cast<std::int64_t>(simgpu_setting("nccl_timeout_s", 1800)) * kSecond;
    if (now - start_ > limit) return text_of(blocked, missing) + " for longer than nccl_timeout_s";
    board.wait(seen);
    return "";
  }

 private:
  static std::string text_of(const Operation& blocked, const std::vector<int>& missing) {
    return blocked.describe() + " waits for rank " + list_of(missing);
  }

  std::int64_t start_ = 0;
  bool has_said_ = false;
  bool saw_lost_ = false;
};

/// Advances all operations until each is done. Returns the first failure.
Outcome carry_out(const Operations& operations) {
  std::vector<ncclComm::InUse> in_use;
  for (const auto& operation : operations) in_use.emplace_back(operation->communicator());
  Patience patience;
  for (;;) {
    bool moved = false;
    const Operation* blocked = nullptr;
    std::uint32_t seen = 0;  // the board of `blocked`, before it was found blocked
    std::set<std::pair<ncclComm*, int>> busy;  // channels that an earlier operation still uses
    for (const auto& operation : operations) {
      const std::uint32_t epoch = operation->communicator()->board().epoch();
      if (operation->is_done()) continue;
      if (!busy.emplace(operation->communicator(), operation->channel()).second) continue;
      while (operation->advance()) moved = true;
      if (operation->is_done()) {
        busy.erase({operation->communicator(), operation->channel()});
        if (operation->outcome().code != ncclSuccess) return operation->outcome();
      } else if (blocked == nullptr) {
        blocked = operation.get();
        seen = epoch;
      }
    }
    if (blocked == nullptr) return {};
    if (moved) {
      patience = Patience{};
      continue;
    }
    if (std::string why = patience.sleep(*blocked, seen); !why.empty())
      return {ncclRemoteError, std::move(why)};
  }
}

/// Puts the operations' kernels on their streams. Ranks of this process that are in the same
/// collective end together. Those of other processes have clocks of their own, with one origin: the
/// kernel spins until the last of the ranks is ready by its clock, so that the collective ends
/// everywhere at that time plus what it takes.
void show(const Operations& operations) {
  struct Shown {
    Operation::Footprint footprint;
    std::vector<simgpu_stream> streams;
    std::vector<int> devices;
  };
  std::vector<Shown> shown;
  std::map<std::pair<std::string, std::size_t>, std::size_t>
      collectives;  // board, how manieth there -> index
  std::map<ncclComm*, std::size_t> passed;
  for (const auto& operation : operations) {
    const Operation::Footprint footprint = operation->footprint();
    if (footprint.name == nullptr) continue;
    ncclComm* communicator = operation->communicator();
    std::size_t index = shown.size();
    if (operation->channel() == 0) {
      const std::pair key(communicator->name(), passed[communicator]++);
      index = collectives.try_emplace(key, index).first->second;
    }
    if (index == shown.size()) shown.push_back({footprint, {}, {}});
    Shown& entry = shown[index];
    entry.streams.push_back(footprint.stream);
    entry.devices.push_back(communicator->device());
    entry.footprint.others_ready_ns =
        std::max(entry.footprint.others_ready_ns, footprint.others_ready_ns);
    if (footprint.read_bytes != 0)
      simgpu_note_use(footprint.reads, footprint.read_bytes, footprint.stream, kReads);
    if (footprint.written_bytes != 0) {
      simgpu_note_use(footprint.writes, footprint.written_bytes, footprint.stream, kWrites);
    }
  }
  for (const Shown& entry : shown) {
    simgpu_launch_meeting(entry.streams.data(), entry.devices.data(),
                          static_cast<int>(entry.streams.size()), entry.footprint.name,
                          entry.footprint.bus_bytes, entry.footprint.others_ready_ns);
  }
}

/// Operations that a graph captured; they live as long as the graph may, which nobody tells us.
void carry_out_at_replay(Operations operations, cudaStream_t stream) {
  auto* kept = new Operations(std::move(operations));
  simgpu_enqueue_host(
      stream,
      [](void* argument) {
        const auto& again = *static_cast<Operations*>(argument);
        for (const auto& operation : again) operation->restart();
        const Outcome outcome = carry_out(again);
        if (outcome.code != ncclSuccess) failed(outcome.code, outcome.text);
      },
      kept);
}

/// Carries out the operations of a group whose first one names the stream.
ncclResult_t run(Operations operations) {
  if (operations.empty()) return ncclSuccess;
  const Operation::Footprint first = operations.front()->footprint();
  const bool is_captured = first.name != nullptr && simgpu_is_capturing(first.stream) != 0;
  if (is_captured) {
    show(operations);
    carry_out_at_replay(std::move(operations), first.stream);
    return ncclSuccess;
  }
  Outcome outcome = carry_out(operations);
  if (outcome.code != ncclSuccess) return failed(outcome.code, std::move(outcome.text));
  show(operations);
  return ncclSuccess;
}

struct LastError {
  std::mutex mutex;
  std::set<std::string> texts;  // handed out as pointers, hence kept
  const char* last = "";
};

LastError& errors() {
  static auto* kept = new LastError;
  return *kept;
}

}  // namespace

void group_start() {
  ++this_thread().depth;
}

ncclResult_t group_end() {
  ThreadGroup& group = this_thread();
  if (group.depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  return run(std::exchange(group.operations, {}));
}

void group_abandon() {
  ThreadGroup& group = this_thread();
  if (group.depth > 0) --group.depth;
  group.operations.clear();
}

ncclResult_t submit(std::unique_ptr<Operation> operation) {
  ThreadGroup& group = this_thread();
  if (group.depth > 0) {
    group.operations.push_back(std::move(operation));
    return ncclSuccess;
  }
  Operations one;
  one.push_back(std::move(operation));
  return run(std::move(one));
}

ncclResult_t failed(ncclResult_t code, std::string text) {
  LastError& kept = errors();
  std::lock_guard lock(kept.mutex);
  kept.last = kept.texts.insert(std::move(text)).first->c_str();
  return code;
}

const char* last_error() {
  LastError& kept = errors();
  std::lock_guard lock(kept.mutex);
  return kept.last;
}

}  // namespace levee::simgpu::nccl
