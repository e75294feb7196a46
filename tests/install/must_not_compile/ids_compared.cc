// error: no match for .operator==|invalid operands
#include <levee/ids.h>

bool f(levee::EventId event, [[maybe_unused]] levee::HandleId handle) {
#ifndef CONTROL
  return event == handle;
#else
  return event == event;
#endif
}
