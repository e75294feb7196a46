#include "allocator/base/process_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/base/check.h"

namespace levee::base {
namespace {

long membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0U, 0);
}

bool register_process() {
  const long offered = membarrier(MEMBARRIER_CMD_QUERY);
  constexpr long kNeeded =
      MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
  return offered > 0 && (offered & kNeeded) == kNeeded &&
         membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

}  // namespace

bool ProcessFence::is_available() {
  static const bool available = register_process();
  return available;
}

void ProcessFence::run() {
  LEVEE_CHECK_EQ(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED), 0, "membarrier");
}

}  // namespace levee::base
