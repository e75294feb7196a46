// error: no match for .operator\+|invalid operands
#include <levee/units.h>

levee::DeviceAddr f(levee::DeviceAddr a, [[maybe_unused]] levee::Bytes n) {
#ifndef CONTROL
  return a + a;
#else
  return a + n;
#endif
}
