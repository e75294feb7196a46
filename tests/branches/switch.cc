// Which mutant is on, and what was reached: in a file that processes share if
// BRANCHES_REACHED names one, so that the child of a death test counts too.
#include "tests/branches/switch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace levee_branches {

namespace {
std::atomic<unsigned char> own_marks[kMost + 1];
}  // namespace

thread_local int Check::running = 0;
int broken = 0;
std::atomic<unsigned char>* reached = own_marks;

namespace {
// Before the constructors of any other static object, which may run through the library.
[[gnu::constructor(101)]] void read_environment() {
  if (const char* number = std::getenv("BRANCHES_BROKEN"); number != nullptr)
    broken = std::atoi(number);
  const char* path = std::getenv("BRANCHES_REACHED");
  if (path == nullptr) return;
  const int file = ::open(path, O_RDWR);
  if (file < 0) std::abort();
  void* marks = ::mmap(nullptr, kMost + 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (marks == MAP_FAILED) std::abort();
  ::close(file);
  reached = static_cast<std::atomic<unsigned char>*>(marks);
  std::signal(SIGABRT, [](int) {
    if (Check::running != 0) note(Check::running);
  });
}
}  // namespace

}  // namespace levee_branches
