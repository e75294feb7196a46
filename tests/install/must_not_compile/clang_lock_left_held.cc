// error: still held
#include "allocator/base/mutex.h"

void f(levee::base::Mutex& mutex) {
  mutex.lock();
#ifdef CONTROL
  mutex.unlock();
#endif
}
