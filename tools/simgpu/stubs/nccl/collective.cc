// Collectives as operations: each rank posts its contribution on the board, piece by piece, and
// takes what the others posted. Ranks that call different collectives, or the same with different
// sizes, fail with a sentence that names both.

#include <algorithm>
#include <array>

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/nccl/communicator.h"
#include "tools/simgpu/stubs/nccl/numbers.h"
#include "tools/simgpu/stubs/nccl/operation.h"

namespace levee::simgpu::nccl {
namespace {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "AllReduce";
    case CollectiveKind::kReduce:
      return "Reduce";
    case CollectiveKind::kBroadcast:
      return "Broadcast";
    case CollectiveKind::kAllGather:
      return "AllGather";
    case CollectiveKind::kReduceScatter:
      return "ReduceScatter";
    case CollectiveKind::kAlltoAll:
      return "AlltoAll";
    case CollectiveKind::kGather:
      return "Gather";
    case CollectiveKind::kScatter:
      return "Scatter";
  }
  return "?";
}

/// Names as NCCL's kernels begin, so that tools which look for them find them.
const char* kernel_name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "ncclDevKernel_AllReduce";
    case CollectiveKind::kReduce:
      return "ncclDevKernel_Reduce";
    case CollectiveKind::kBroadcast:
      return "ncclDevKernel_Broadcast";
    case CollectiveKind::kAllGather:
      return "ncclDevKernel_AllGather";
    case CollectiveKind::kReduceScatter:
      return "ncclDevKernel_ReduceScatter";
    default:
      return "ncclDevKernel_SendRecv";
  }
}

/// Whether a rank's contribution holds a piece for every rank, rather than the same for all.
bool is_piecewise(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAlltoAll ||
         kind == CollectiveKind::kScatter;
}

std::string text_of(const OperationTag& tag) {
  return std::string(name_of(static_cast<CollectiveKind>(tag.kind))) + " of " +
         std::to_string(tag.count) + " elements (type " + std::to_string(tag.type) +
         ", operation " + std::to_string(tag.reduction) + ", root " + std::to_string(tag.root) +
         ")";
}

}  // namespace

Collective::Collective(ncclComm* communicator, const CollectiveCall& call)
    : Operation(communicator),
      call_(call),
      element_bytes_(size_of(call.type)),
      has_contents_(contribution_bytes() <= content_limit()) {}

std::size_t Collective::contribution_bytes() const {
  const std::size_t pieces =
      is_piecewise(call_.kind) ? static_cast<std::size_t>(communicator()->ranks()) : 1;
  return call_.count * size_of(call_.type) * pieces;
}

std::size_t Collective::steps() const {
  const std::size_t bytes = has_contents_ ? contribution_bytes() : 0;
  return std::max<std::size_t>(1, (bytes + kChunkBytes - 1) / kChunkBytes);
}

bool Collective::this_rank_posts() const {
  const bool has_one_source =
      call_.kind == CollectiveKind::kBroadcast || call_.kind == CollectiveKind::kScatter;
  return !has_one_source || communicator()->rank() == call_.root;
}

bool Collective::may_post() const {
  Board& board = communicator()->board();
  const std::uint64_t step = communicator()->next_step;
  for (int rank = 0; rank < board.ranks(); ++rank) {
    if (board.slot(rank).taken.load(std::memory_order_acquire) + 1 < step) return false;
  }
  return true;
}

bool Collective::may_take() const {
  Board& board = communicator()->board();
  const std::uint64_t step = communicator()->next_step;
  for (int rank = 0; rank < board.ranks(); ++rank) {
    if (board.slot(rank).posted.load(std::memory_order_acquire) <= step) return false;
  }
  return true;
}

void Collective::post() {
  ncclComm* self = communicator();
  Slot& slot = self->board().slot(self->rank());
  const std::size_t half = self->next_step % 2;
  slot.tags[half] =
      OperationTag{static_cast<std::uint32_t>(call_.kind), static_cast<std::uint32_t>(call_.type),
                   static_cast<std::uint32_t>(std::min<int>(call_.reduction, ncclNumOps)),
                   static_cast<std::uint32_t>(call_.root), call_.count};
  if (step_ == 0) ready_ns_ = ready_ns(call_.stream);
  slot.ready_ns[half] = ready_ns_;
  if (has_contents_ && this_rank_posts()) {
    const std::size_t offset = step_ * kChunkBytes;
    const std::size_t bytes = std::min(kChunkBytes, contribution_bytes() - offset);
    simgpu_read(slot.chunks[half], static_cast<const std::byte*>(call_.send) + offset, bytes);
    if (call_.premultiplier != 1)
      scale(call_.type, call_.premultiplier, slot.chunks[half], bytes / element_bytes_);
  }
  slot.posted.store(self->next_step + 1, std::memory_order_release);
  self->board().notify();
  has_posted_ = true;
}

bool Collective::check_tags() {
  ncclComm* self = communicator();
  const std::size_t half = self->next_step % 2;
  const OperationTag& mine = self->board().slot(self->rank()).tags[half];
  for (int rank = 0; rank < self->ranks(); ++rank) {
    const OperationTag& other = self->board().slot(rank).tags[half];
    if (other == mine) continue;
    fail(ncclInvalidUsage, "ranks disagree: rank " + std::to_string(self->rank()) + " is in " +
                               text_of(mine) + ", rank " + std::to_string(rank) + " in " +
                               text_of(other));
    return false;
  }
  return true;
}

void Collective::take() {
  ncclComm* self = communicator();
  const std::size_t half = self->next_step % 2;
  const bool agreed = check_tags();
  for (int rank = 0; rank < self->ranks(); ++rank) {
    last_ready_ns_ = std::max(last_ready_ns_, self->board().slot(rank).ready_ns[half]);
  }
  if (agreed && has_contents_) {
    const std::size_t offset = step_ * kChunkBytes;
    take_chunk(offset, std::min(kChunkBytes, contribution_bytes() - offset));
  }
  self->board().slot(self->rank()).taken.store(self->next_step + 1, std::memory_order_release);
  self->board().notify();
  ++self->next_step;
  ++step_;
  has_posted_ = false;
  if (agreed && step_ == steps()) finish();
}

void Collective::take_chunk(std::size_t offset, std::size_t bytes) {
  ncclComm* self = communicator();
  const std::size_t half = self->next_step % 2;
  const auto rank = static_cast<std::size_t>(self->rank());
  auto* receive = static_cast<std::byte*>(call_.receive);
  const std::size_t piece = call_.count * element_bytes_;
  const auto chunk_of = [&](int of) {
    return static_cast<const std::byte*>(self->board().slot(of).chunks[half]);
  };
  // Which part of this chunk lies in this rank's piece, for operations that deal pieces out.
  const std::size_t from = std::max(offset, rank * piece);
  const std::size_t to = std::min(offset + bytes, (rank + 1) * piece);

  const auto write_reduced = [&](std::size_t begin, std::size_t end, std::size_t target) {
    if (begin >= end) return;
    std::vector<const std::byte*> inputs;
    for (int i = 0; i < self->ranks(); ++i) inputs.push_back(chunk_of(i) + (begin - offset));
    scratch_.resize(end - begin);
    reduce(call_.type, call_.reduction, inputs, scratch_.data(), (end - begin) / element_bytes_);
    simgpu_write(receive + target, scratch_.data(), end - begin);
  };

  switch (call_.kind) {
    case CollectiveKind::kAllReduce:
      write_reduced(offset, offset + bytes, offset);
      break;
    case CollectiveKind::kReduce:
      if (self->rank() == call_.root) write_reduced(offset, offset + bytes, offset);
      break;
    case CollectiveKind::kReduceScatter:
      write_reduced(from, to, from - rank * piece);
      break;
    case CollectiveKind::kBroadcast:
      simgpu_write(receive + offset, chunk_of(call_.root), bytes);
      break;
    case CollectiveKind::kGather:
      if (self->rank() != call_.root) break;
      [[fallthrough]];
    case CollectiveKind::kAllGather:
      for (int i = 0; i < self->ranks(); ++i) {
        simgpu_write(receive + static_cast<std::size_t>(i) * piece + offset, chunk_of(i), bytes);
      }
      break;
    case CollectiveKind::kScatter:
      if (from < to)
        simgpu_write(receive + (from - rank * piece), chunk_of(call_.root) + (from - offset),
                     to - from);
      break;
    case CollectiveKind::kAlltoAll:
      for (int i = 0; i < self->ranks() && from < to; ++i) {
        const std::size_t target = static_cast<std::size_t>(i) * piece + (from - rank * piece);
        simgpu_write(receive + target, chunk_of(i) + (from - offset), to - from);
      }
      break;
  }
}

bool Collective::advance() {
  if (is_done()) return false;
  if (!has_posted_) {
    if (!may_post()) return false;
    post();
    return true;
  }
  if (!may_take()) return false;
  take();
  return true;
}

void Collective::restart() {
  Operation::restart();
  step_ = 0;
  last_ready_ns_ = 0;
}

std::string Collective::describe() const {
  return std::string("nccl") + name_of(call_.kind) + " of rank " +
         std::to_string(communicator()->rank());
}

std::vector<int> Collective::missing() const {
  std::vector<int> ranks;
  ncclComm* self = communicator();
  for (int rank = 0; rank < self->ranks(); ++rank) {
    const Slot& slot = self->board().slot(rank);
    const bool is_behind = has_posted_
                               ? slot.posted.load(std::memory_order_acquire) <= self->next_step
                               : slot.taken.load(std::memory_order_acquire) + 1 < self->next_step;
    if (is_behind) ranks.push_back(rank);
  }
  return ranks;
}

Operation::Footprint Collective::footprint() const {
  Footprint footprint;
  footprint.name = kernel_name_of(call_.kind);
  footprint.stream = call_.stream;
  footprint.others_ready_ns = last_ready_ns_;
  // What a ring sends over each card's links.
  const auto ranks = static_cast<double>(communicator()->ranks());
  const auto bytes = static_cast<double>(call_.count * element_bytes_);
  const double share = (ranks - 1) / ranks;
  switch (call_.kind) {
    case CollectiveKind::kAllReduce:
      footprint.bus_bytes = 2 * share * bytes;
      break;
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast:
      footprint.bus_bytes = ranks > 1 ? bytes : 0;
      break;
    default:
      footprint.bus_bytes = (ranks - 1) * bytes;
      break;
  }
  const std::size_t piece = call_.count * element_bytes_;
  const std::size_t all = piece * static_cast<std::size_t>(communicator()->ranks());
  const bool is_root = communicator()->rank() == call_.root;
  if (this_rank_posts()) {
    footprint.reads = reinterpret_cast<std::uint64_t>(call_.send);
    footprint.read_bytes = contribution_bytes();
  }
  const bool gets_all = call_.kind == CollectiveKind::kAllGather ||
                        call_.kind == CollectiveKind::kAlltoAll ||
                        call_.kind == CollectiveKind::kGather;
  const bool only_root_gets =
      call_.kind == CollectiveKind::kReduce || call_.kind == CollectiveKind::kGather;
  if (!only_root_gets || is_root) {
    footprint.writes = reinterpret_cast<std::uint64_t>(call_.receive);
    footprint.written_bytes = gets_all ? all : piece;
  }
  return footprint;
}

}  // namespace levee::simgpu::nccl
