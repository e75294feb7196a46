#include "tools/simgpu/stubs/nccl/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace levee::simgpu::nccl {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr long kLongestSleepNs = 2'000'000;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "atomics in shared memory must not have locks of their own");

/// Whether a process runs. One that has ended but was not waited for yet is still there for kill().
bool is_running(std::int32_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return true;
  char state = 'R';
  // "pid (name) state": a name that holds a parenthesis is not read, and then the process counts as
  // running.
  const bool is_read = std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
  std::fclose(file);
  return !is_read || (state != 'Z' && state != 'X');
}

std::uint32_t* word(std::atomic<std::uint32_t>* atomic) {
  return reinterpret_cast<std::uint32_t*>(atomic);
}

}  // namespace

Board::Board(const std::string& name, int ranks) : name_("/" + name), ranks_(ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  bytes_ = kHeaderBytes + n * sizeof(Slot) + n * n * sizeof(Mailbox);
  void* mapped = MAP_FAILED;
  if (ranks == 1) {
    mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  } else {
    const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
      error_ = "cannot share memory through /dev/shm" + name_ + ": " + std::strerror(errno);
      if (file >= 0) close(file);
      return;
    }
    mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
  }
  if (mapped == MAP_FAILED) {
    error_ = std::string("cannot map the memory shared by ranks: ") + std::strerror(errno);
    return;
  }
  base_ = static_cast<std::byte*>(mapped);
}

Board::~Board() {
  if (base_ == nullptr) return;
  if (!is_complete()) remove_name();
  munmap(base_, bytes_);
}

Slot& Board::slot(int rank) const {
  return *reinterpret_cast<Slot*>(base_ + kHeaderBytes +
                                  static_cast<std::size_t>(rank) * sizeof(Slot));
}

Mailbox& Board::mailbox(int from, int to) const {
  const auto n = static_cast<std::size_t>(ranks_);
  const std::size_t index = static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to);
  return *reinterpret_cast<Mailbox*>(base_ + kHeaderBytes + n * sizeof(Slot) +
                                     index * sizeof(Mailbox));
}

bool Board::is_complete() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (slot(rank).pid.load(std::memory_order_acquire) == 0) return false;
  }
  return true;
}

void Board::remove_name() {
  if (ranks_ > 1) shm_unlink(name_.c_str());
}

void Board::notify() {
  auto* header = reinterpret_cast<Header*>(base_);
  header->epoch.fetch_add(1, std::memory_order_seq_cst);
  if (header->sleepers.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, word(&header->epoch), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
}

std::uint32_t Board::epoch() const {
  return reinterpret_cast<const Header*>(base_)->epoch.load(std::memory_order_acquire);
}

void Board::wait(std::uint32_t seen) {
  auto* header = reinterpret_cast<Header*>(base_);
  const timespec longest{0, kLongestSleepNs};
  header->sleepers.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, word(&header->epoch), FUTEX_WAIT, seen, &longest, nullptr, 0);
  header->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

bool Board::is_lost(int rank) const {
  const Slot& other = slot(rank);
  const std::int32_t pid = other.pid.load(std::memory_order_acquire);
  if (pid == 0) return false;
  return other.has_left.load(std::memory_order_acquire) != 0 || !is_running(pid);
}

}  // namespace levee::simgpu::nccl
