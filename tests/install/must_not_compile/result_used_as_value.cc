// error: cannot convert|no viable conversion
#include <levee/status.h>

int f(levee::Result<int> result) {
#ifndef CONTROL
  return result;
#else
  return result.value();
#endif
}
