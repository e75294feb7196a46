// error: no match for .operator\+|invalid operands
#include <levee/units.h>

levee::Bytes f(levee::Bytes bytes) {
#ifndef CONTROL
  return bytes + 512;
#else
  return bytes + levee::Bytes{512};
#endif
}
