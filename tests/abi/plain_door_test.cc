// The plain door as PyTorch uses it: a library opened at run time, functions found by name, called
// in any order, on a simulated GPU and without PyTorch.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/c_api/levee.h"

namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Pool = std::pair<unsigned long long, unsigned long long>;

/// The functions that torch.cuda.memory.CUDAPluggableAllocator and its setters are given.
struct Door {
  template <typename Function>
  static Function* find(void* library, const char* name) {
    auto* function = reinterpret_cast<Function*>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << name;
    return function;
  }

  static const Door& get() {
    static const Door* door = [] {
      // PyTorch has its own libraries in memory before the door is opened.
      EXPECT_NE(dlopen(LIBC10_PATH, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
      void* library = dlopen(PLAIN_DOOR_PATH, RTLD_NOW | RTLD_LOCAL);
      EXPECT_NE(library, nullptr) << dlerror();
      return library == nullptr ? nullptr : new Door(library);
    }();
    if (door == nullptr) std::abort();
    return *door;
  }

  explicit Door(void* library)
      : alloc(find<void*(std::size_t, int, cudaStream_t)>(library, "levee_torch_alloc")),
        free(find<void(void*, std::size_t, int, cudaStream_t)>(library, "levee_torch_free")),
        init(find<void(int)>(library, "levee_torch_init")),
        reset(find<void()>(library, "levee_torch_reset")),
        memory_fraction(find<void(double, int)>(library, "levee_torch_memory_fraction")),
        base_alloc(find<void*(void*, std::size_t*)>(library, "levee_torch_base_alloc")),
        record_stream(find<void(void*, cudaStream_t)>(library, "levee_torch_record_stream")),
        begin(find<void(int, Pool, std::function<bool(cudaStream_t)>)>(
            library, "levee_torch_begin_allocate_to_pool")),
        end(find<void(int, Pool)>(library, "levee_torch_end_allocate_to_pool")),
        release(find<void(int, Pool)>(library, "levee_torch_release_pool")),
        set_typed_errors(find<void(int)>(library, "levee_torch_set_typed_errors")) {}

  void* (*alloc)(std::size_t, int, cudaStream_t);
  void (*free)(void*, std::size_t, int, cudaStream_t);
  void (*init)(int);
  void (*reset)();
  void (*memory_fraction)(double, int);
  void* (*base_alloc)(void*, std::size_t*);
  void (*record_stream)(void*, cudaStream_t);
  void (*begin)(int, Pool, std::function<bool(cudaStream_t)>);
  void (*end)(int, Pool);
  void (*release)(int, Pool);
  void (*set_typed_errors)(int);
};

/// The text of what `call` throws; "" if it throws nothing.
std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

std::int64_t counter(const std::string& name) {
  std::string json(1 << 16, '\0');
  json.resize(levee_stats_json(0, json.data(), json.size()));
  const std::size_t at = json.find("\"" + name + "\": ");
  EXPECT_NE(at, std::string::npos) << name;
  return std::stoll(json.substr(at + name.size() + 4));
}

// The tests of this suite run in the order in which they stand; the first ones are about the order.

TEST(PlainDoor, BeforeLeveeHasStartedARequestIsRefusedByAnException) {
  const Door& door = Door::get();
  door.init(0);  // as PyTorch does when the object is made
  EXPECT_THAT(thrown([&] { door.alloc(1024, 0, nullptr); }), HasSubstr("not started"));
  door.free(nullptr, 0, 0, nullptr);
  int local = 0;
  door.free(&local, 4, 0, nullptr);  // never throws
  door.reset();                      // no devices so far
}

TEST(PlainDoor, GivesAndTakesMemory) {
  const Door& door = Door::get();
  ASSERT_EQ(levee_set_option("record", "0"), LEVEE_OK);
  ASSERT_EQ(levee_start(), LEVEE_OK) << levee_last_error();
  door.init(1);
  void* pointer = door.alloc(1000, 0, nullptr);
  ASSERT_NE(pointer, nullptr);
  EXPECT_EQ(counter("requested_bytes.all.current"), 1000);
  door.free(pointer, 1000, 0, nullptr);
  EXPECT_EQ(counter("requested_bytes.all.current"), 0);
}

TEST(PlainDoor, AnswersARequestOfNoBytesWithNull) {
  const Door& door = Door::get();
  EXPECT_EQ(door.alloc(0, 0, nullptr), nullptr);
  door.free(nullptr, 0, 0, nullptr);
}

TEST(PlainDoor, AnOutOfMemoryIsAnExceptionInPyTorchsWordsAndCudaForgetsIt) {
  const Door& door = Door::get();
  for (const int typed : {0, 1}) {
    door.set_typed_errors(typed);
    EXPECT_THAT(thrown([&] { door.alloc(std::size_t{1} << 44, 0, nullptr); }),
                StartsWith("CUDA out of memory. Tried to allocate "));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  EXPECT_EQ(counter("num_ooms"), 2);
}

TEST(PlainDoor, RefusesADeviceThatDoesNotExist) {
  EXPECT_THAT(thrown([] { Door::get().alloc(1024, 99, nullptr); }), HasSubstr("levee"));
}

TEST(PlainDoor, RecordsStreamsAndIgnoresNull) {
  const Door& door = Door::get();
  cudaStream_t side = nullptr;
  ASSERT_EQ(cudaStreamCreate(&side), cudaSuccess);
  void* pointer = door.alloc(1 << 22, 0, nullptr);
  door.record_stream(pointer, side);
  door.record_stream(nullptr, side);
  int local = 0;
  EXPECT_THAT(thrown([&] { door.record_stream(&local, side); }), HasSubstr("no memory of levee"));
  door.free(pointer, 1 << 22, 0, nullptr);
  ASSERT_EQ(cudaStreamSynchronize(side), cudaSuccess);
}

TEST(PlainDoor, HasNoBaseForMappedPagesAndSaysSo) {
  const Door& door = Door::get();
  void* pointer = door.alloc(1 << 22, 0, nullptr);
  std::size_t bytes = 0;
  EXPECT_THAT(thrown([&] { door.base_alloc(pointer, &bytes); }),
              HasSubstr("LEVEE_BACKING=segments"));
  door.free(pointer, 1 << 22, 0, nullptr);
}

TEST(PlainDoor, RoutesRequestsIntoAPoolWhileTheFilterSaysYes) {
  const Door& door = Door::get();
  const Pool pool{0, 77};
  bool accepts = true;
  door.begin(0, pool, [&accepts](cudaStream_t) { return accepts; });
  void* inside = door.alloc(1 << 22, 0, nullptr);
  accepts = false;
  void* outside = door.alloc(1 << 22, 0, nullptr);
  door.end(0, pool);
  EXPECT_NE(inside, outside);
  EXPECT_NE(thrown([&] { door.end(0, pool); }), "") << "it has ended";
  door.free(inside, 1 << 22, 0, nullptr);
  door.free(outside, 1 << 22, 0, nullptr);
  door.release(0, pool);
}

TEST(PlainDoor, KeepsToTheMemoryFraction) {
  const Door& door = Door::get();
  door.memory_fraction(0.01, 0);
  EXPECT_THAT(thrown([&] { door.alloc(std::size_t{1} << 30, 0, nullptr); }), HasSubstr("limit"));
  door.memory_fraction(1.0, 0);
  void* pointer = door.alloc(std::size_t{1} << 30, 0, nullptr);
  EXPECT_NE(pointer, nullptr);
  door.free(pointer, 0, 0, nullptr);
  EXPECT_THAT(thrown([&] { door.memory_fraction(2.0, 0); }), HasSubstr("fraction"));
}

TEST(PlainDoor, GivesTheCacheBackOnReset) {
  const Door& door = Door::get();
  door.free(door.alloc(std::size_t{1} << 28, 0, nullptr), 0, 0, nullptr);
  EXPECT_GE(counter("reserved_bytes.all.current"), 1 << 28);
  door.reset();
  EXPECT_LT(counter("reserved_bytes.all.current"), 1 << 28);
}

TEST(PlainDoor, ServesThreads) {
  const Door& door = Door::get();
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&door, seed] {
      for (unsigned i = 0; i < 2000; ++i) {
        const std::size_t bytes = (seed * 7919U + i * 104729U) % 3'000'000U + 1;
        door.free(door.alloc(bytes, 0, nullptr), bytes, 0, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter("allocation.all.current"), 0);
}

}  // namespace
