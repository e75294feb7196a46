// What the functions that emit.py writes are made of, beyond `launch` and `Object`.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/common/object.h"

/// A generated function. Weak, so that one written by hand in the same library takes its place.
#define SIMGPU_GENERATED extern "C" __attribute__((weak))

namespace levee::simgpu::stubs {

/// Shapes come as int, int64_t or size_t; costs are doubles.
template <typename T>
constexpr double number(T count) {
  return static_cast<double>(count);
}

inline std::string attribute_key(int attribute) {
  return "attribute." + std::to_string(attribute);
}

inline void set_attribute(Object* object, int attribute, const void* data, std::size_t size) {
  if (object != nullptr && data != nullptr) object->set_bytes(attribute_key(attribute), data, size);
}

/// The bytes that were set; zeros if none were. `written` may be null.
inline void get_attribute(const Object* object, int attribute, void* data, std::size_t size,
                          std::size_t* written) {
  if (data != nullptr) std::memset(data, 0, size);
  std::size_t found = 0;
  if (object != nullptr) found = object->get_bytes(attribute_key(attribute), data, size);
  if (written != nullptr) *written = found != 0 ? found : size;
}

/// Sets an answer to 0: a program looks at it to learn whether a call has worked, and stale bytes
/// would read as a failure. In device memory there is one for each of `count` matrices; one on the
/// host is about the call's arguments, hence single.
template <typename T, typename Count>
void answer_zero(T* out, Count count) {
  if (out == nullptr || count <= 0) return;
  if (simgpu_device_of(out) < 0) {
    *out = T{};
    return;
  }
  const std::vector<std::byte> zeros(sizeof(T) * static_cast<std::size_t>(count));
  simgpu_write(out, zeros.data(), zeros.size());
}

template <typename Stream>
void write_stream(const Object* object, Stream* out) {
  if (out != nullptr) *out = object == nullptr ? nullptr : static_cast<Stream>(object->stream());
}

template <typename T>
T value_of(const Object* object, std::string_view key) {
  return object == nullptr ? T{} : object->get<T>(key);
}

/// A symbol that a program imports although the library's headers do not have it.
inline long not_declared(const char* library, const char* function) {
  simgpu_not_modelled(library, function);
  return 1;  // every library's status is 0 for success
}

}  // namespace levee::simgpu::stubs
