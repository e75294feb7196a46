// error: no match for .operator\*|invalid operands
#include <levee/units.h>

levee::Bytes f(levee::Bytes bytes) {
#ifndef CONTROL
  return bytes * bytes;
#else
  return bytes * 2;
#endif
}
