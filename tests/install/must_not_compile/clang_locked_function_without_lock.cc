// error: requires holding mutex
#include "allocator/base/mutex.h"

class Pool {
 public:
  void trim() {
#ifdef CONTROL
    const levee::base::MutexLock lock{mutex_};
#endif
    trim_locked();
  }

 private:
  void trim_locked() LEVEE_REQUIRES(mutex_) {}
  levee::base::Mutex mutex_;
};

void f(Pool& pool) {
  pool.trim();
}
