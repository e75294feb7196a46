// `levee::Runtime` of this process over the real parts: CUDA devices, the policy of core/, the
// trace file and CUPTI.

#include <levee/runtime.h>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "allocator/base/attributes.h"
#include "allocator/base/clock.h"
#include "allocator/c_api/config_reader.h"
#include "allocator/c_api/process_runtime.h"
#include "allocator/c_api/real_parts.h"

namespace levee {
namespace {

// Never destroyed, see runtime.h.
std::atomic<c_api::ProcessRuntime*> g_runtime{nullptr};

/// On a simulated GPU every time is the simulation's.
void adopt_simulated_clock() {
  using Now = std::int64_t (*)();
  static const auto now = reinterpret_cast<Now>(dlsym(RTLD_DEFAULT, "simgpu_now_ns"));
  if (now == nullptr) return;
  const auto ahead =
      reinterpret_cast<base::Clock::Ahead>(dlsym(RTLD_DEFAULT, "simgpu_clock_ahead"));
  base::Clock::replace_source([] { return Nanos{now()}; }, ahead);
}

// The runtime's lock is held across a fork, from one of these to another, which no analysis of
// single functions can follow.
void before_fork() LEVEE_NO_THREAD_SAFETY_ANALYSIS {
  g_runtime.load()->before_fork();
}
void after_fork_in_parent() LEVEE_NO_THREAD_SAFETY_ANALYSIS {
  g_runtime.load()->after_fork_in_parent();
}
void after_fork_in_child() LEVEE_NO_THREAD_SAFETY_ANALYSIS {
  g_runtime.load()->after_fork_in_child();
}

}  // namespace

Config Runtime::config_from_environment(std::string* problems) {
  return c_api::config_from_environment(problems);
}

Runtime* Runtime::get() {
  return g_runtime.load(std::memory_order_acquire);
}

Result<Runtime*> Runtime::start(const Config& config) {
  static std::mutex starting;
  const std::lock_guard lock(starting);
  if (Runtime* running = get()) return running;
  adopt_simulated_clock();
  auto* made = new c_api::ProcessRuntime(config, c_api::real_parts());
  g_runtime.store(made, std::memory_order_release);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  // What was recorded last reaches the file even if nobody asks.
  std::atexit([] { static_cast<void>(g_runtime.load()->flush()); });
  return static_cast<Runtime*>(made);
}

}  // namespace levee
