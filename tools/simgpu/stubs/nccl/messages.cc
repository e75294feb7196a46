// Operations between pairs of ranks, and those that make communicators.
#include <algorithm>

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/nccl/communicator.h"
#include "tools/simgpu/stubs/nccl/operation.h"

namespace levee::simgpu::nccl {

// ---- Send and Receive

Send::Send(ncclComm* communicator, const void* data, std::size_t bytes, int peer,
           cudaStream_t stream)
    : Operation(communicator), data_(data), bytes_(bytes), peer_(peer), stream_(stream) {}

bool Send::advance() {
  if (is_done()) return false;
  Mailbox& box = communicator()->board().mailbox(communicator()->rank(), peer_);
  const std::uint64_t written = box.written.load(std::memory_order_relaxed);
  if (written != box.read.load(std::memory_order_acquire))
    return false;  // the last chunk still lies there
  const bool has_contents = bytes_ <= content_limit();
  const std::size_t chunk = has_contents ? std::min(kMailboxBytes, bytes_ - sent_) : 0;
  if (chunk != 0) simgpu_read(box.chunk, static_cast<const std::byte*>(data_) + sent_, chunk);
  box.message_bytes = bytes_;
  if (ready_ns_ == 0) ready_ns_ = ready_ns(stream_);
  box.sender_ready_ns = ready_ns_;
  box.written.store(written + 1, std::memory_order_release);
  communicator()->board().notify();
  sent_ += chunk;
  if (!has_contents || sent_ == bytes_) finish();
  return true;
}

void Send::restart() {
  Operation::restart();
  sent_ = 0;
  ready_ns_ = 0;
}

std::string Send::describe() const {
  return "ncclSend of rank " + std::to_string(communicator()->rank());
}

Operation::Footprint Send::footprint() const {
  Footprint footprint;
  footprint.name = "ncclDevKernel_SendRecv";
  footprint.stream = stream_;
  footprint.bus_bytes = static_cast<double>(bytes_);
  footprint.reads = reinterpret_cast<std::uint64_t>(data_);
  footprint.read_bytes = bytes_;
  return footprint;
}

Receive::Receive(ncclComm* communicator, void* data, std::size_t bytes, int peer,
                 cudaStream_t stream)
    : Operation(communicator), data_(data), bytes_(bytes), peer_(peer), stream_(stream) {}

bool Receive::advance() {
  if (is_done()) return false;
  Mailbox& box = communicator()->board().mailbox(peer_, communicator()->rank());
  const std::uint64_t read = box.read.load(std::memory_order_relaxed);
  if (read == box.written.load(std::memory_order_acquire)) return false;
  const std::size_t message = box.message_bytes;
  const bool has_contents = message <= content_limit();
  const bool fits = message == bytes_;
  const std::size_t chunk =
      has_contents ? std::min(kMailboxBytes, message - std::min(received_, message)) : 0;
  if (fits && chunk != 0)
    simgpu_write(static_cast<std::byte*>(data_) + received_, box.chunk, chunk);
  sender_ready_ns_ = box.sender_ready_ns;
  box.read.store(read + 1, std::memory_order_release);
  communicator()->board().notify();
  received_ += chunk;
  if (has_contents && received_ < message) return true;
  if (fits) {
    finish();
  } else {
    fail(ncclInvalidUsage, "rank " + std::to_string(communicator()->rank()) + " receives " +
                               std::to_string(bytes_) + " bytes, rank " + std::to_string(peer_) +
                               " sent " + std::to_string(message));
  }
  return true;
}

void Receive::restart() {
  Operation::restart();
  received_ = 0;
}

std::string Receive::describe() const {
  return "ncclRecv of rank " + std::to_string(communicator()->rank());
}

Operation::Footprint Receive::footprint() const {
  Footprint footprint;
  footprint.name = "ncclDevKernel_SendRecv";
  footprint.stream = stream_;
  footprint.bus_bytes = static_cast<double>(bytes_);
  footprint.others_ready_ns = sender_ready_ns_;
  footprint.writes = reinterpret_cast<std::uint64_t>(data_);
  footprint.written_bytes = bytes_;
  return footprint;
}

// ---- Join and Split

bool Join::advance() {
  if (is_done() || !communicator()->board().is_complete()) return false;
  communicator()->board().remove_name();
  finish();
  return true;
}

std::string Join::describe() const {
  return "rank " + std::to_string(communicator()->rank()) +
         " of a new communicator (simgpu's NCCL connects processes of one machine)";
}

std::vector<int> Join::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator()->ranks(); ++rank) {
    if (communicator()->board().slot(rank).pid.load(std::memory_order_acquire) == 0)
      ranks.push_back(rank);
  }
  return ranks;
}

Split::Split(ncclComm* communicator, int color, int key, ncclComm_t* result)
    : Operation(communicator),
      mine_{color, key},
      all_(static_cast<std::size_t>(communicator->ranks())),
      result_(result) {
  CollectiveCall call{};
  call.kind = CollectiveKind::kAllGather;
  call.send = &mine_;
  call.receive = all_.data();
  call.count = sizeof(Choice);
  exchange_ = std::make_unique<Collective>(communicator, call);
}

bool Split::advance() {
  if (is_done()) return false;
  if (join_ == nullptr) {
    if (!exchange_->advance()) return false;
    if (!exchange_->is_done()) return true;
    if (exchange_->outcome().code != ncclSuccess) {
      fail(exchange_->outcome().code, exchange_->outcome().text);
      return true;
    }
    make_part();
    return true;
  }
  if (!join_->advance()) return false;
  if (join_->is_done()) finish();
  return true;
}

void Split::make_part() {
  ncclComm* parent = communicator();
  const std::string name = parent->name() + "-" + std::to_string(++parent->communicators_made) +
                           "c" + std::to_string(mine_.color);
  if (mine_.color == NCCL_SPLIT_NOCOLOR) {
    *result_ = nullptr;
    finish();
    return;
  }
  // Ranks of one colour are ordered by key, then by their rank before.
  int ranks = 0;
  int rank = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].color != mine_.color) continue;
    ++ranks;
    const bool is_before = all_[i].key < mine_.key ||
                           (all_[i].key == mine_.key && static_cast<int>(i) < parent->rank());
    if (is_before) ++rank;
  }
  auto part = std::make_unique<ncclComm>(name, ranks, rank);
  if (!part->board().is_open()) {
    fail(ncclSystemError, part->board().error());
    return;
  }
  *result_ = part.release();
  join_ = std::make_unique<Join>(*result_);
}

std::string Split::describe() const {
  return join_ != nullptr ? join_->describe()
                          : "ncclCommSplit of rank " + std::to_string(communicator()->rank());
}

std::vector<int> Split::missing() const {
  return join_ != nullptr ? join_->missing() : exchange_->missing();
}

}  // namespace levee::simgpu::nccl
