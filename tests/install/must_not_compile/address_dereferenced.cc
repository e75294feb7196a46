// error: no match for .operator\*|requires pointer operand
#include <levee/units.h>

unsigned long f(levee::DeviceAddr a) {
#ifndef CONTROL
  return *a;
#else
  return a.value;
#endif
}
