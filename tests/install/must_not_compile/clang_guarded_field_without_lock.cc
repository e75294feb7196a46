// error: requires holding mutex
#include "allocator/base/mutex.h"

class Counter {
 public:
  void add() {
#ifdef CONTROL
    const levee::base::MutexLock lock{mutex_};
#endif
    ++value_;
  }

 private:
  levee::base::Mutex mutex_;
  int value_ LEVEE_GUARDED_BY(mutex_) = 0;
};

void f(Counter& counter) {
  counter.add();
}
