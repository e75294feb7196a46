// error: could not convert|no known conversion|no viable conversion
#include <levee/units.h>

levee::Bytes f(levee::Bytes n) {
  return n;
}
levee::Bytes g([[maybe_unused]] levee::Nanos time) {
#ifndef CONTROL
  return f(time);
#else
  return f(levee::Bytes{1});
#endif
}
