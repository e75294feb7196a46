#include "allocator/record/recorder_registry.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/base/mutex.h"
#include "allocator/record/trace_recorder.h"

namespace levee::record {

constinit thread_local RecorderRegistry::Slot this_thread_slot;

namespace {

base::Mutex g_mutex;
// Never destroyed: threads exit, and exit handlers run, after static objects are gone.
std::vector<TraceRecorder*>& recorders() {
  static auto* list = new std::vector<TraceRecorder*>;
  return *list;
}
pthread_key_t g_thread_key;

}  // namespace

void RecorderRegistry::install() {
  LEVEE_CHECK_EQ(::pthread_key_create(&g_thread_key, &leave_thread), 0);
  LEVEE_CHECK_EQ(::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child), 0);
  std::atexit(&at_exit);  // if it is refused, the file ends as a killed process's does
}

void RecorderRegistry::add(TraceRecorder& recorder) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  ::pthread_once(&once, &install);
  const base::MutexLock lock(g_mutex);
  recorders().push_back(&recorder);
}

void RecorderRegistry::remove(TraceRecorder& recorder) {
  const base::MutexLock lock(g_mutex);
  std::erase(recorders(), &recorder);
}

void RecorderRegistry::bind(std::uint64_t recorder, ThreadLog& log) noexcept {
  this_thread_slot = {recorder, &log};
  // Any value but null makes the handler run. If there is no memory for it, the log stays with the
  // dead thread.
  ::pthread_setspecific(g_thread_key, &this_thread_slot);
}

void RecorderRegistry::leave_thread(void* /*slot*/) {
  const Slot slot = this_thread_slot;
  this_thread_slot = {};
  const base::MutexLock lock(g_mutex);
  for (TraceRecorder* recorder : recorders()) {
    if (recorder->id_ == slot.recorder) recorder->leave(*slot.log);
  }
}

void RecorderRegistry::before_fork() {
  g_mutex.lock();
}
void RecorderRegistry::after_fork_in_parent() {
  g_mutex.unlock();
}
void RecorderRegistry::after_fork_in_child() {
  for (TraceRecorder* recorder : recorders()) recorder->become_child();
  g_mutex.unlock();
}

void RecorderRegistry::at_exit() {
  std::vector<TraceRecorder*> all;
  {
    const base::MutexLock lock(g_mutex);
    all = recorders();
  }
  // Not under the lock: threads may exit meanwhile. Nobody destroys a recorder while the process
  // exits.
  for (TraceRecorder* recorder : all) recorder->finish();
}

}  // namespace levee::record
