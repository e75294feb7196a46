// error: deleted
#include "allocator/device/device.h"

void f(levee::device::Device& device) {
#ifndef CONTROL
  levee::device::Device& copy = device;
  copy = device;
#endif
  static_cast<void>(device.id());
}
