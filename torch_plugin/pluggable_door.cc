#include "torch_plugin/pluggable_door.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "allocator/c_api/levee.h"
#include "torch_plugin/pluggable_errors.h"

namespace {

using Filter = std::function<bool(cudaStream_t)>;
using PoolPair = std::pair<unsigned long long, unsigned long long>;

std::atomic<bool> g_typed_errors{false};
std::atomic<int> g_device_count{0};

[[noreturn]] void fail(int code) {
  const bool is_typed = g_typed_errors.load(std::memory_order_relaxed);
  if (code == LEVEE_OUT_OF_MEMORY) {
    levee::torch_plugin::throw_out_of_memory(levee_last_error(), is_typed);
  }
  levee::torch_plugin::throw_error(std::string{"levee: "} + levee_last_error());
}

void require(int code) {
  if (code != LEVEE_OK) fail(code);
}

}  // namespace

extern "C" {

void* levee_torch_alloc(std::size_t bytes, int device, cudaStream_t stream) {
  void* pointer = nullptr;
  require(levee_allocate(device, bytes, stream, &pointer));
  return pointer;
}

void levee_torch_free(void* pointer, std::size_t /*bytes*/, int /*device*/,
                      cudaStream_t /*stream*/) noexcept {
  // PyTorch calls this in a destructor: what is wrong can only be said.
  if (levee_free(pointer) == LEVEE_OK || levee_is_forked_child() != 0) return;
  const std::string_view parts[] = {"levee: ", levee_last_error(), "\n"};
  for (const std::string_view part : parts) {
    static_cast<void>(!::write(STDERR_FILENO, part.data(), part.size()));
  }
}

void levee_torch_init(int device_count) {
  // PyTorch calls this once with 0 when the object is made, and again when CUDA starts.
  g_device_count.store(device_count, std::memory_order_relaxed);
}

void levee_torch_reset() {
  for (int device = 0; device < g_device_count.load(std::memory_order_relaxed); ++device) {
    require(levee_trim(device, 0, nullptr));
  }
}

void levee_torch_memory_fraction(double fraction, int device) {
  require(levee_set_memory_fraction(device, fraction));
}

void* levee_torch_base_alloc(void* pointer, std::size_t* bytes) {
  void* base = nullptr;
  std::size_t base_bytes = 0;
  require(levee_base_allocation(pointer, &base, &base_bytes));
  if (bytes != nullptr) *bytes = base_bytes;
  return base;
}

void levee_torch_record_stream(void* pointer, cudaStream_t stream) {
  if (pointer != nullptr) require(levee_record_use(pointer, stream));
}

void levee_torch_begin_allocate_to_pool(int device, PoolPair pool, Filter filter) {
  auto owned = std::make_unique<Filter>(std::move(filter));
  const auto accepts = [](void* stream, void* user) -> int {
    return (*static_cast<Filter*>(user))(static_cast<cudaStream_t>(stream)) ? 1 : 0;
  };
  const auto release = [](void* user) { delete static_cast<Filter*>(user); };
  // From here on levee releases it, also if the call fails.
  require(levee_pool_begin(device, pool.first, pool.second, accepts, owned.release(), release));
}

void levee_torch_end_allocate_to_pool(int device, PoolPair pool) {
  require(levee_pool_end(device, pool.first, pool.second));
}

void levee_torch_release_pool(int device, PoolPair pool) {
  require(levee_pool_release(device, pool.first, pool.second));
}

void levee_torch_set_typed_errors(int typed) noexcept {
  g_typed_errors.store(typed != 0, std::memory_order_relaxed);
}

}  // extern "C"
