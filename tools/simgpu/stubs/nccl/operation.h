// One piece of communication of one rank, as a state machine: it is advanced until it is done and
// never blocks by itself, so that a thread can carry out the operations of several ranks at once
// (ncclGroupEnd).
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/stubs/nccl/board.h"

struct ncclComm;  // what ncclComm_t points to; communicator.h

namespace levee::simgpu::nccl {

/// How an operation ended.
struct Outcome {
  ncclResult_t code = ncclSuccess;
  std::string text;  ///< a sentence for people when it failed
};

class Operation {
 public:
  explicit Operation(ncclComm* communicator) : communicator_(communicator) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  ncclComm* communicator() const { return communicator_; }
  /// Operations with the same channel on the same communicator are carried out one after the other.
  virtual int channel() const = 0;
  /// Does what can be done now. True if it did anything.
  virtual bool advance() = 0;
  bool is_done() const { return is_done_; }
  const Outcome& outcome() const { return outcome_; }
  /// What it is, for messages.
  virtual std::string describe() const = 0;
  /// The ranks without which it cannot go on now.
  virtual std::vector<int> missing() const = 0;
  /// Makes a finished operation ready to be carried out again (a graph that is replayed).
  virtual void restart() { is_done_ = false; }

  /// What appears on the stream; empty name: nothing does.
  struct Footprint {
    const char* name = nullptr;
    cudaStream_t stream = nullptr;
    double bus_bytes = 0;  ///< what goes over one card's links
    /// When the last of the other ranks is ready, on the simulated clock; 0: nobody is waited for.
    std::int64_t others_ready_ns = 0;
    std::uint64_t reads = 0, read_bytes = 0;  ///< device memory that it uses
    std::uint64_t writes = 0, written_bytes = 0;
  };
  virtual Footprint footprint() const { return {}; }

 protected:
  /// When this rank's part of the operation can begin: at the end of what is ahead of it on its
  /// stream. The time of the call alone would not do; a program may be far ahead of its card.
  std::int64_t ready_ns(cudaStream_t stream) const;
  void finish() { is_done_ = true; }
  void fail(ncclResult_t code, std::string text) {
    outcome_ = {code, std::move(text)};
    is_done_ = true;
  }

 private:
  ncclComm* communicator_;
  bool is_done_ = false;
  Outcome outcome_;
};

enum class CollectiveKind : std::uint32_t {
  kAllReduce = 1,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAlltoAll,
  kGather,
  kScatter,
};

/// The arguments of a collective. `count` is that of NCCL's call: elements a rank sends, or for
/// kReduceScatter receives; for kAlltoAll, kGather and kScatter elements between one pair of ranks.
struct CollectiveCall {
  CollectiveKind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  double premultiplier = 1;  ///< of this rank's contribution
  int root = 0;
  cudaStream_t stream = nullptr;
};

/// Collectives: contents are exchanged up to the setting `nccl_bytes`; larger ones only meet.
class Collective : public Operation {
 public:
  Collective(ncclComm* communicator, const CollectiveCall& call);

  int channel() const override { return 0; }
  bool advance() override;
  std::string describe() const override;
  std::vector<int> missing() const override;
  void restart() override;
  Footprint footprint() const override;

 private:
  bool may_post() const;
  bool may_take() const;
  void post();
  void take();
  bool check_tags();
  void take_chunk(std::size_t offset, std::size_t bytes);
  bool this_rank_posts() const;
  std::size_t contribution_bytes() const;
  std::size_t steps() const;

  CollectiveCall call_;
  std::size_t element_bytes_;
  bool has_contents_;
  std::size_t step_ = 0;            ///< of this operation
  bool has_posted_ = false;         ///< the current step
  std::int64_t ready_ns_ = 0;       ///< this rank
  std::int64_t last_ready_ns_ = 0;  ///< of all ranks
  std::vector<std::byte> scratch_;
};

/// One direction between two ranks. A message above `nccl_bytes` is passed on without its contents.
class Send : public Operation {
 public:
  Send(ncclComm* communicator, const void* data, std::size_t bytes, int peer, cudaStream_t stream);
  int channel() const override { return 1 + 2 * peer_; }
  bool advance() override;
  std::string describe() const override;
  std::vector<int> missing() const override { return {peer_}; }
  void restart() override;
  Footprint footprint() const override;

 private:
  const void* data_;
  std::size_t bytes_;
  int peer_;
  cudaStream_t stream_;
  std::size_t sent_ = 0;
  std::int64_t ready_ns_ = 0;
};

class Receive : public Operation {
 public:
  Receive(ncclComm* communicator, void* data, std::size_t bytes, int peer, cudaStream_t stream);
  int channel() const override { return 2 + 2 * peer_; }
  bool advance() override;
  std::string describe() const override;
  std::vector<int> missing() const override { return {peer_}; }
  void restart() override;
  Footprint footprint() const override;

 private:
  void* data_;
  std::size_t bytes_;
  int peer_;
  cudaStream_t stream_;
  std::size_t received_ = 0;
  std::int64_t sender_ready_ns_ = 0;
};

/// Waits until every rank of a new communicator is there.
class Join : public Operation {
 public:
  using Operation::Operation;
  int channel() const override { return 0; }
  bool advance() override;
  std::string describe() const override;
  std::vector<int> missing() const override;
};

/// ncclCommSplit: the ranks tell each other their colour and key, then those of one colour meet on
/// a board of their own.
class Split : public Operation {
 public:
  Split(ncclComm* communicator, int color, int key, ncclComm_t* result);
  int channel() const override { return 0; }
  bool advance() override;
  std::string describe() const override;
  std::vector<int> missing() const override;

 private:
  struct Choice {
    std::int32_t color;
    std::int32_t key;
  };
  void make_part();

  Choice mine_;
  std::vector<Choice> all_;
  std::unique_ptr<Collective> exchange_;
  std::unique_ptr<Join> join_;
  ncclComm_t* result_;
};

}  // namespace levee::simgpu::nccl
