// error: nodiscard|unused-result
#include <levee/status.h>

levee::Status release();
levee::Status f() {
#ifndef CONTROL
  release();
#endif
  return release();
}
