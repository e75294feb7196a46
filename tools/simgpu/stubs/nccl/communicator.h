// What ncclComm_t points to: one rank's place on a board, and what it has counted so far.
//
// Owns its mapping of the board. Lock: none; NCCL allows one thread at a time on a communicator,
// except for `abort`, which only sets a flag that whoever waits looks at.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tools/simgpu/stubs/nccl/board.h"

struct ncclComm {
 public:
  /// Takes rank `rank` of `ranks` on the board `name`, for the calling thread's current device.
  ncclComm(const std::string& name, int ranks, int rank);
  ncclComm(const ncclComm&) = delete;
  ncclComm& operator=(const ncclComm&) = delete;
  ~ncclComm();

  /// Null if `handle` is null or no communicator (any more).
  static ncclComm* from(ncclComm_t handle) {
    return handle != nullptr && handle->magic_.load() == kMagic ? handle : nullptr;
  }

  levee::simgpu::nccl::Board& board() { return board_; }
  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int ranks() const { return board_.ranks(); }
  int device() const { return device_; }

  void abort() { is_aborted_.store(true, std::memory_order_release); }
  bool is_aborted() const { return is_aborted_.load(std::memory_order_acquire); }

  /// Held while a thread carries out operations of the communicator; `end` waits for it.
  class InUse {
   public:
    explicit InUse(ncclComm* communicator) : communicator_(communicator) {
      ++communicator_->users_;
    }
    InUse(InUse&& other) noexcept : communicator_(std::exchange(other.communicator_, nullptr)) {}
    InUse& operator=(InUse&&) = delete;
    ~InUse() {
      if (communicator_ != nullptr) --communicator_->users_;
    }

   private:
    ncclComm* communicator_;
  };
  /// Deletes the communicator once no thread uses it any more; threads that wait on it give up.
  static void end(ncclComm* communicator);

  std::uint64_t next_step = 0;  ///< of collectives, over the communicator's life
  std::uint64_t communicators_made =
      0;  ///< by splitting or shrinking; part of the names of their boards
  std::map<int, double> premultipliers;  ///< operations made by ncclRedOpCreatePreMulSum
  int next_operation = ncclNumOps;

 private:
  static constexpr std::uint64_t kMagic = 0x6E63'636C'636F'6D6DULL;

  // Atomic: the destructor's store must not be optimised away.
  std::atomic<std::uint64_t> magic_ = kMagic;
  std::string name_;
  levee::simgpu::nccl::Board board_;
  int rank_;
  int device_;
  std::atomic<bool> is_aborted_{false};
  std::atomic<int> users_{0};
};

namespace levee::simgpu::nccl {

/// Name of a board that nobody else uses: for ncclGetUniqueId.
std::string unique_board_name();

/// Largest contribution whose contents are exchanged (setting `nccl_bytes`).
std::size_t content_limit();

}  // namespace levee::simgpu::nccl
