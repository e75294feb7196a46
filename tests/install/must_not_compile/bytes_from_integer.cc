// error: could not convert|conversion from|no viable conversion
#include <levee/units.h>

levee::Bytes f() {
  [[maybe_unused]] constexpr unsigned long count = 5;
#ifndef CONTROL
  return count;
#else
  return levee::Bytes{count};
#endif
}
