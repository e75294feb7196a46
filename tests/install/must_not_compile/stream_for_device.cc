// error: could not convert|no known conversion|no viable conversion
#include <levee/ids.h>

int device_of(levee::DeviceId id) {
  return id.value;
}
int f([[maybe_unused]] levee::StreamId stream, [[maybe_unused]] levee::DeviceId device) {
#ifndef CONTROL
  return device_of(stream);
#else
  return device_of(device);
#endif
}
