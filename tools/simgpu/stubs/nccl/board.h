// The memory that the ranks of one communicator share: in one process, or in several on one
// machine.
//
// Owns the mapping of a file in /dev/shm, and its layout:
//
//   | header | slot of rank 0 | slot of rank 1 | ... | mailbox 0->0 | 0->1 | ... |
//
// A slot is what a rank has to say to all others: which operation it is in, and a chunk of its
// data, twice, so that it can prepare the next chunk while others still read the last. A mailbox
// holds one chunk on its way from one rank to another.
//
// Protocol of a step (every operation is the same number of steps on all ranks):
//   post:  rank r may write its chunk of step k once every rank has taken step k - 2;   posted[r] =
//   k + 1 take:  rank r may read all chunks of step k once every rank has posted it; taken[r]  = k
//   + 1
// All zero is the state before the first step, so that nobody has to initialise the file. Every
// change bumps `epoch` and wakes those who sleep on it. The file's name is removed once every rank
// has it mapped: nothing is left behind, not even by a crash.
//
// Lock: none; each field has one writer, and readers order by acquire and release.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace levee::simgpu::nccl {

inline constexpr std::size_t kChunkBytes =
    256 << 10;  // of a slot; large enough that steps of it cost little
inline constexpr std::size_t kMailboxBytes = 64
                                             << 10;  // small, since there are ranks * ranks of them
inline constexpr int kMaxRanks = 256;  // of one machine; keeps the file below what /dev/shm takes

/// What an operation says about itself, so that ranks which disagree find out.
struct OperationTag {
  std::uint32_t kind = 0;
  std::uint32_t type = 0;
  std::uint32_t reduction = 0;
  std::uint32_t root = 0;
  std::uint64_t count = 0;

  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

struct Slot {
  alignas(64) std::atomic<std::uint64_t> posted;
  alignas(64) std::atomic<std::uint64_t> taken;
  std::atomic<std::int32_t> pid;  ///< 0 until the rank has the board mapped
  std::atomic<std::int32_t> has_left;
  OperationTag tags[2];
  std::int64_t
      ready_ns[2];  ///< when the rank's stream comes to the operation, on its simulated clock
  alignas(64) std::byte chunks[2][kChunkBytes];
};

struct Mailbox {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  std::uint64_t message_bytes;  ///< of the whole message that the chunk is part of
  std::int64_t sender_ready_ns;
  alignas(64) std::byte chunk[kMailboxBytes];
};

class Board {
 public:
  /// Maps the board `name` for `ranks` ranks. On failure `is_open()` is false and `error()` says
  /// why.
  Board(const std::string& name, int ranks);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board();

  bool is_open() const { return base_ != nullptr; }
  const std::string& error() const { return error_; }
  int ranks() const { return ranks_; }

  Slot& slot(int rank) const;
  Mailbox& mailbox(int from, int to) const;

  bool is_complete() const;  ///< every rank has it mapped
  void remove_name();

  /// A rank changed something that others may wait for.
  void notify();
  std::uint32_t epoch() const;
  /// Sleeps until `epoch()` is no longer `seen`, at most some milliseconds.
  void wait(std::uint32_t seen);

  /// Whether a rank that was here has left, or its process has ended.
  bool is_lost(int rank) const;

 private:
  struct Header {
    std::atomic<std::uint32_t> epoch;
    std::atomic<std::uint32_t> sleepers;
  };

  std::string name_;
  std::string error_;
  int ranks_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace levee::simgpu::nccl
