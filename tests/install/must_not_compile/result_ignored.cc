// error: nodiscard|unused-result
#include <levee/status.h>

levee::Result<int> create();
bool f() {
#ifndef CONTROL
  create();
#endif
  return create().ok();
}
