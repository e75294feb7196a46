// What stands behind a library's opaque handle (cublasHandle_t, cudnnTensorDescriptor_t, ...): a
// bag of named values.
//
// Owns `Object`. Promises: what a program sets it gets back, under the parameter's name in the
// header; a value that was never set reads as zero, which is the default of nearly every setting of
// these libraries. A null handle, or one that these libraries did not make, is told apart from a
// live one (`from` gives null), so that callers answer with "invalid" instead of crashing. Does
// not: check what is set. All libraries share one layout, since cuBLAS handles are passed to
// cuBLASLt. Lock: each object has its own; handles are used by several threads only where the
// library allows it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

namespace levee::simgpu::stubs {

class Object {
 public:
  /// `kind`: the handle's type name, for debuggers.
  explicit Object(const char* kind) : kind_(kind) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { magic_.store(0, std::memory_order_relaxed); }

  /// The object behind a handle; null if `handle` is null or not made here.
  static Object* from(const void* handle) {
    // Handles are const for getters only in name; the object has a lock that must be taken.
    auto* object = static_cast<Object*>(const_cast<void*>(handle));
    if (object == nullptr || object->magic_.load(std::memory_order_relaxed) != kMagic)
      return nullptr;
    return object;
  }
  /// Makes an object and hands it out through a library's handle type.
  template <typename Handle>
  static Object* make(Handle* out, const char* kind) {
    if (out == nullptr) return nullptr;
    auto* object = new Object(kind);
    *out = reinterpret_cast<Handle>(object);
    return object;
  }
  static bool destroy(const void* handle) {
    Object* object = from(handle);
    delete object;
    return object != nullptr;
  }

  const char* kind() const { return kind_; }

  void* stream() const {
    std::lock_guard lock(mutex_);
    return stream_;
  }
  void set_stream(void* stream) {
    std::lock_guard lock(mutex_);
    stream_ = stream;
  }

  void set_bytes(std::string_view key, const void* data, std::size_t size) {
    std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(static_cast<const char*>(data), size));
  }
  /// Copies at most `capacity` bytes of the value; returns its size, or 0 if it was never set.
  std::size_t get_bytes(std::string_view key, void* data, std::size_t capacity) const {
    std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return 0;
    const std::size_t size = found->second.size();
    if (data != nullptr) std::memcpy(data, found->second.data(), size < capacity ? size : capacity);
    return size;
  }

  template <typename T>
  void set(std::string_view key, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    set_bytes(key, &value, sizeof value);
  }
  /// The value, or `otherwise` if it was never set.
  template <typename T>
  T get(std::string_view key, T otherwise = T{}) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value = otherwise;
    if (get_bytes(key, nullptr, 0) == sizeof value) get_bytes(key, &value, sizeof value);
    return value;
  }

 private:
  static constexpr std::uint64_t kMagic = 0x6C65'7665'6573'696DULL;

  // Atomic only so that the compiler keeps the destructor's store: it is what a use after the end
  // is told by.
  std::atomic<std::uint64_t> magic_ = kMagic;
  const char* kind_;
  mutable std::mutex mutex_;
  void* stream_ = nullptr;
  std::map<std::string, std::string, std::less<>> values_;
};

/// What a getter writes: the value set under `key`, else the one under `fallback` (a value given at
/// creation), else zero.
template <typename T>
void write_value(const Object* object, std::string_view key, std::string_view fallback, T* out) {
  if (out == nullptr) return;
  *out = T{};
  if (object == nullptr) return;
  *out = object->get<T>(key, object->get<T>(fallback));
}

template <typename T>
void write_zero(T* out) {
  if (out != nullptr) *out = T{};
}

}  // namespace levee::simgpu::stubs
