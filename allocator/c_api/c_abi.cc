// The functions of levee.h: each translates plain arguments, calls the runtime or an allocator, and
// turns what came back into a code and a sentence. Nothing is thrown past here.

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <levee/runtime.h>

#include "allocator/c_api/config_reader.h"
#include "allocator/c_api/levee.h"

namespace levee::c_api {
namespace {

static_assert(LEVEE_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(LEVEE_OUT_OF_MEMORY == static_cast<int>(StatusCode::kOutOfMemory));
static_assert(LEVEE_NOT_OWNED == static_cast<int>(StatusCode::kNotOwned));

std::string& last_error() {
  // Never destroyed: threads that end late may still fail and ask.
  static thread_local auto* text = new std::string;
  return *text;
}

int fail(StatusCode code, std::string sentence) {
  last_error() = std::move(sentence);
  return static_cast<int>(code);
}

int fail(Status status, const char* what) {
  if (status.code == StatusCode::kUnsupported && levee_is_forked_child() != 0) {
    return fail(status.code,
                fmt::format("{}: this process was forked from one that uses CUDA.", what));
  }
  return fail(status.code, status.native_code == 0
                               ? fmt::format("{}: {}.", what, name_of(status.code))
                               : fmt::format("{}: {} (CUDA error {}).", what, name_of(status.code),
                                             status.native_code));
}

int answer(Status status, const char* what) {
  return status.ok() ? LEVEE_OK : fail(status, what);
}

/// Runs `body`, which returns a code; an exception (memory of the host ran out) becomes one, too.
template <typename Body>
int guarded(const char* what, const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    try {
      return fail(StatusCode::kInternal, fmt::format("{}: {}", what, error.what()));
    } catch (...) {
      return LEVEE_INTERNAL;
    }
  } catch (...) {
    return LEVEE_INTERNAL;
  }
}

template <typename Body>
std::size_t guarded_text(char* buffer, std::size_t capacity, const Body& body) noexcept {
  std::size_t length = 0;
  if (buffer != nullptr && capacity > 0) buffer[0] = '\0';  // whatever comes, no old text
  guarded("text", [&] {
    const std::string text = body();
    length = text.size();
    if (buffer != nullptr && capacity > 0) {
      const std::size_t count = std::min(length, capacity - 1);
      std::memcpy(buffer, text.data(), count);
      buffer[count] = '\0';
    }
    return static_cast<int>(LEVEE_OK);
  });
  return length;
}

struct Settings {
  std::mutex mutex;
  bool is_read = false;
  Config config;
  std::string problems;
};
Settings& settings() {
  static auto* instance = new Settings;
  return *instance;
}
/// Pre: the mutex is held.
Settings& read_settings() {
  Settings& all = settings();
  if (!all.is_read) {
    all.config = Runtime::config_from_environment(&all.problems);
    all.is_read = true;
  }
  return all;
}

/// The running runtime, or an error that says that there is none.
int runtime(Runtime** out) {
  *out = Runtime::get();
  return *out != nullptr ? LEVEE_OK
                         : fail(StatusCode::kUnsupported, "levee was not started in this process.");
}

int allocator_of(int device, Allocator** out) {
  Runtime* running = nullptr;
  if (const int code = runtime(&running); code != LEVEE_OK) return code;
  const Result<Allocator*> allocator = running->allocator(DeviceId{device});
  if (!allocator.ok()) return fail(allocator.status(), "starting the device");
  *out = *allocator;
  return LEVEE_OK;
}

/// The allocator of a device that has been used, or null for one that has not: a question about a
/// device must not make a context on it.
int existing_allocator_of(int device, Allocator** out) {
  Runtime* running = nullptr;
  if (const int code = runtime(&running); code != LEVEE_OK) return code;
  if (running->is_forked_child()) return fail({StatusCode::kUnsupported, 0}, "memory");
  *out = running->existing_allocator(DeviceId{device});
  if (*out == nullptr && (device < 0 || device >= running->device_count())) {
    return fail(StatusCode::kInvalidArgument, fmt::format("There is no device {}.", device));
  }
  return LEVEE_OK;
}

/// For a pool that must have begun: a device that was never used has none.
int allocator_with_pool(int device, std::uint64_t first, std::uint64_t second, Allocator** out) {
  if (const int code = existing_allocator_of(device, out); code != LEVEE_OK) return code;
  return *out != nullptr
             ? LEVEE_OK
             : fail(StatusCode::kInvalidArgument,
                    fmt::format("There is no pool {}, {} on device {}, which was not used.", first,
                                second, device));
}

/// The allocator that holds `pointer`.
int owner_of(const void* pointer, Allocator** out) {
  Runtime* running = nullptr;
  if (const int code = runtime(&running); code != LEVEE_OK) return code;
  if (running->is_forked_child()) return fail({StatusCode::kUnsupported, 0}, "memory");
  *out = running->owner_of(DeviceAddr{reinterpret_cast<std::uintptr_t>(pointer)});
  return *out != nullptr
             ? LEVEE_OK
             : fail(StatusCode::kNotOwned, fmt::format("{} is no memory of levee.", pointer));
}

DeviceAddr addr_of(const void* pointer) {
  return DeviceAddr{reinterpret_cast<std::uintptr_t>(pointer)};
}
StreamId stream_of(void* stream) {
  return StreamId{reinterpret_cast<std::uintptr_t>(stream)};
}
/// The legacy stream by either name, or the calling thread's default stream.
bool is_default_handle(StreamId stream) {
  return stream.value <= 2;
}
/// Pre: levee has started.
int device_count() {
  return Runtime::get()->device_count();
}

std::string stats_json(const Stats& stats) {
  std::string out = "{";
  const auto field = [&](const char* name, std::int64_t value) {
    out += fmt::format("{}\"{}\": {}", out.size() > 1 ? ", " : "", name, value);
  };
  const auto array = [&](const char* name, const StatArray& values) {
    constexpr const char* kKinds[] = {"all", "small_pool", "large_pool"};
    for (std::size_t i = 0; i < values.size(); ++i) {
      field(fmt::format("{}.{}.current", name, kKinds[i]).c_str(), values[i].current);
      field(fmt::format("{}.{}.peak", name, kKinds[i]).c_str(), values[i].peak);
      field(fmt::format("{}.{}.allocated", name, kKinds[i]).c_str(), values[i].allocated);
      field(fmt::format("{}.{}.freed", name, kKinds[i]).c_str(), values[i].freed);
    }
  };
#define LEVEE_WRITE(name, what) array(#name, stats.name);
  LEVEE_STAT_ARRAYS(LEVEE_WRITE)
#undef LEVEE_WRITE
#define LEVEE_WRITE(name, what) field(#name, stats.name);
  LEVEE_STAT_COUNTERS(LEVEE_WRITE)
#undef LEVEE_WRITE
  return out + "}";
}

}  // namespace
}  // namespace levee::c_api

using levee::Allocator;
using levee::Block;
using levee::Bytes;
using levee::DeviceId;
using levee::PoolId;
using levee::Result;
using levee::Runtime;
using levee::Status;
using levee::StatusCode;
using levee::StreamId;
using namespace levee::c_api;  // NOLINT(google-build-using-namespace): this file is its outside

extern "C" {

int levee_abi_version(void) {
  return LEVEE_ABI_VERSION;
}
const char* levee_version(void) {
  return LEVEE_VERSION_TEXT;
}
const char* levee_last_error(void) {
  return last_error().c_str();
}

// ---- Settings ---------------------------------------------------------------------------------

int levee_option_at(int index, levee_option_info* info) {
  return guarded("option_at", [&]() -> int {
    const auto all = options();
    if (info == nullptr) return fail(StatusCode::kInvalidArgument, "info is null.");
    if (index < 0 || static_cast<std::size_t>(index) >= all.size()) {
      return fail(StatusCode::kInvalidArgument, fmt::format("There is no setting {}.", index));
    }
    const OptionInfo& option = all[static_cast<std::size_t>(index)];
    *info = {option.name, option.env, option.values, option.help};
    return LEVEE_OK;
  });
}

int levee_set_option(const char* name, const char* value) {
  return guarded("set_option", [&]() -> int {
    if (name == nullptr || value == nullptr) {
      return fail(StatusCode::kInvalidArgument, "A setting needs a name and a value.");
    }
    if (Runtime::get() != nullptr) {
      return fail(StatusCode::kUnsupported,
                  fmt::format("{} cannot be changed: levee runs already in this process.", name));
    }
    Settings& all = settings();
    const std::lock_guard lock(all.mutex);
    std::string problem = set_option(read_settings().config, name, value);
    return problem.empty() ? LEVEE_OK : fail(StatusCode::kInvalidArgument, std::move(problem));
  });
}

size_t levee_get_option(const char* name, char* buffer, size_t capacity) {
  return guarded_text(buffer, capacity, [&] {
    if (name == nullptr) return std::string{};
    if (const Runtime* running = Runtime::get()) return option_text(running->config(), name);
    const std::lock_guard lock(settings().mutex);
    return option_text(read_settings().config, name);
  });
}

size_t levee_environment_problems(char* buffer, size_t capacity) {
  return guarded_text(buffer, capacity, [] {
    const std::lock_guard lock(settings().mutex);
    return read_settings().problems;
  });
}

size_t levee_environment_strangers(char* buffer, size_t capacity) {
  return guarded_text(buffer, capacity, [] {
    return fmt::format("{}", fmt::join(unknown_environment_names(), "\n"));
  });
}

// ---- Life -------------------------------------------------------------------------------------

int levee_start(void) {
  return guarded("start", [] {
    const std::lock_guard lock(settings().mutex);
    return answer(Runtime::start(read_settings().config).status(), "starting levee");
  });
}

int levee_is_started(void) {
  return Runtime::get() != nullptr ? 1 : 0;
}

void* levee_runtime(void) {
  return Runtime::get();
}

int levee_is_forked_child(void) {
  const Runtime* running = Runtime::get();
  return running != nullptr && running->is_forked_child() ? 1 : 0;
}

int levee_device_count(int* count) {
  return guarded("device_count", [&]() -> int {
    Runtime* running = nullptr;
    if (count == nullptr) return fail(StatusCode::kInvalidArgument, "count is null.");
    if (const int code = runtime(&running); code != LEVEE_OK) return code;
    *count = running->device_count();
    return LEVEE_OK;
  });
}

// ---- Memory -----------------------------------------------------------------------------------

int levee_allocate(int device, size_t bytes, void* stream, void** out) {
  return guarded("allocate", [&]() -> int {
    if (out == nullptr) return fail(StatusCode::kInvalidArgument, "out is null.");
    *out = nullptr;
    if (bytes == 0) return LEVEE_OK;
    Allocator* allocator = nullptr;
    if (const int code = allocator_of(device, &allocator); code != LEVEE_OK) return code;
    levee::OomReport report;
    const Result<Block> block = allocator->allocate(Bytes{bytes}, stream_of(stream), &report);
    if (block.ok()) {
      *out = reinterpret_cast<void*>(block->addr.value);
      return LEVEE_OK;
    }
    if (block.code() == StatusCode::kOutOfMemory) {
      return fail(block.code(), Runtime::get()->explain(report, DeviceId{device}));
    }
    return fail(block.status(), "allocate");
  });
}

int levee_free(void* pointer) {
  return guarded("free", [&]() -> int {
    if (pointer == nullptr) return LEVEE_OK;
    Allocator* owner = nullptr;
    if (const int code = owner_of(pointer, &owner); code != LEVEE_OK) return code;
    return answer(owner->free(addr_of(pointer)).status(), "free");
  });
}

int levee_record_use(void* pointer, void* stream) {
  return guarded("record_use", [&]() -> int {
    Allocator* owner = nullptr;
    if (const int code = owner_of(pointer, &owner); code != LEVEE_OK) return code;
    const StreamId used_on = stream_of(stream);
    Status status = owner->record_use(addr_of(pointer), used_on);
    // A device without an allocator is not in use, and nothing must start it.
    for (int i = 0; status.ok() && is_default_handle(used_on) && i < device_count(); ++i) {
      const DeviceId device{i};
      if (device == owner->device() || Runtime::get()->existing_allocator(device) == nullptr)
        continue;
      status = owner->record_use(addr_of(pointer), StreamId::on_device(device, used_on));
    }
    return answer(status, "record_use");
  });
}

int levee_record_use_on(void* pointer, int device, void* stream) {
  return guarded("record_use_on", [&]() -> int {
    Allocator* owner = nullptr;
    if (const int code = owner_of(pointer, &owner); code != LEVEE_OK) return code;
    if (device < 0 || device >= device_count()) {
      return fail(StatusCode::kInvalidArgument, fmt::format("There is no device {}.", device));
    }
    return answer(owner->record_use(addr_of(pointer),
                                    StreamId::on_device(DeviceId{device}, stream_of(stream))),
                  "record_use_on");
  });
}

int levee_base_allocation(void* pointer, void** base, size_t* bytes) {
  return guarded("base_allocation", [&]() -> int {
    Allocator* owner = nullptr;
    if (const int code = owner_of(pointer, &owner); code != LEVEE_OK) return code;
    const Result<Block> range = owner->base_allocation(addr_of(pointer));
    if (range.code() == StatusCode::kUnsupported) {
      return fail(StatusCode::kUnsupported,
                  "Memory made of mapped pages cannot be shared with other processes; run with "
                  "LEVEE_BACKING=segments.");
    }
    if (!range.ok()) return fail(range.status(), "base_allocation");
    if (base != nullptr) *base = reinterpret_cast<void*>(range->addr.value);
    if (bytes != nullptr) *bytes = range->bytes.value;
    return LEVEE_OK;
  });
}

int levee_trim(int device, size_t keep, size_t* given_back) {
  return guarded("trim", [&]() -> int {
    Allocator* allocator = nullptr;
    if (given_back != nullptr) *given_back = 0;
    const int code = existing_allocator_of(device, &allocator);
    if (code != LEVEE_OK || allocator == nullptr) return code;
    const Result<Bytes> bytes = allocator->trim(Bytes{keep});
    if (!bytes.ok()) return fail(bytes.status(), "trim");
    if (given_back != nullptr) *given_back = bytes->value;
    return LEVEE_OK;
  });
}

int levee_set_memory_fraction(int device, double fraction) {
  return guarded("set_memory_fraction", [&]() -> int {
    if (!(fraction > 0 && fraction <= 1)) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("A memory fraction of {} is not above 0 and up to 1.", fraction));
    }
    Runtime* running = nullptr;
    if (const int code = runtime(&running); code != LEVEE_OK) return code;
    return answer(running->set_memory_fraction(DeviceId{device}, fraction), "set_memory_fraction");
  });
}

size_t levee_stats_json(int device, char* buffer, size_t capacity) {
  return guarded_text(buffer, capacity, [&] {
    Allocator* allocator = nullptr;
    if (existing_allocator_of(device, &allocator) != LEVEE_OK) return std::string{};
    return stats_json(allocator == nullptr ? levee::Stats{} : allocator->stats());
  });
}

int levee_reset_peak_stats(int device) {
  return guarded("reset_peak_stats", [&]() -> int {
    Allocator* allocator = nullptr;
    const int code = existing_allocator_of(device, &allocator);
    if (code == LEVEE_OK && allocator != nullptr) allocator->reset_peak_stats();
    return code;
  });
}

// ---- Private pools ----------------------------------------------------------------------------

int levee_pool_begin(int device, uint64_t first, uint64_t second,
                     int (*accepts)(void* stream, void* user), void* user,
                     void (*release)(void* user)) {
  return guarded("pool_begin", [&]() -> int {
    // Released with the last copy of the filter, also when nothing comes of it.
    const std::shared_ptr<void> owned(user, [release](void* held) {
      if (release != nullptr) release(held);
    });
    Allocator* allocator = nullptr;
    if (const int code = allocator_of(device, &allocator); code != LEVEE_OK) return code;
    auto filter = [accepts, owned](StreamId stream) {
      return accepts == nullptr || accepts(reinterpret_cast<void*>(stream.value), owned.get()) != 0;
    };
    return answer(allocator->begin_allocate_to_pool(PoolId{first, second}, std::move(filter)),
                  "pool_begin");
  });
}

int levee_pool_end(int device, uint64_t first, uint64_t second) {
  return guarded("pool_end", [&]() -> int {
    Allocator* allocator = nullptr;
    if (const int code = allocator_with_pool(device, first, second, &allocator); code != LEVEE_OK)
      return code;
    return answer(allocator->end_allocate_to_pool(PoolId{first, second}), "pool_end");
  });
}

int levee_pool_release(int device, uint64_t first, uint64_t second) {
  return guarded("pool_release", [&]() -> int {
    Allocator* allocator = nullptr;
    if (const int code = allocator_with_pool(device, first, second, &allocator); code != LEVEE_OK)
      return code;
    return answer(allocator->release_pool(PoolId{first, second}), "pool_release");
  });
}

// ---- Recording --------------------------------------------------------------------------------

int levee_is_recording(void) {
  const Runtime* running = Runtime::get();
  return running != nullptr && running->is_recording() ? 1 : 0;
}

void levee_push_phase(const char* name) {
  guarded("push_phase", [&]() -> int {
    if (Runtime* running = Runtime::get(); running != nullptr && name != nullptr) {
      running->push_phase(name);
    }
    return LEVEE_OK;
  });
}

void levee_pop_phase(void) {
  guarded("pop_phase", []() -> int {
    if (Runtime* running = Runtime::get()) running->pop_phase();
    return LEVEE_OK;
  });
}

void levee_end_step(void) {
  guarded("end_step", []() -> int {
    if (Runtime* running = Runtime::get()) running->end_step();
    return LEVEE_OK;
  });
}

void levee_mark_step(void) {
  guarded("mark_step", []() -> int {
    if (Runtime* running = Runtime::get()) running->mark_step();
    return LEVEE_OK;
  });
}

uint32_t levee_intern_stack(const char* frames, size_t length) {
  uint32_t id = 0;
  guarded("intern_stack", [&]() -> int {
    if (Runtime* running = Runtime::get(); running != nullptr && frames != nullptr) {
      id = running->intern_stack({frames, length}).value;
    }
    return LEVEE_OK;
  });
  return id;
}

int levee_set_context_hook(uint32_t (*capture)(void)) {
  return guarded("set_context_hook", [&]() -> int {
    Runtime* running = nullptr;
    if (const int code = runtime(&running); code != LEVEE_OK) return code;
    levee::AllocatorHooks hooks;
    if (capture != nullptr) {
      hooks.capture_context = [capture] { return levee::ContextId{capture()}; };
    }
    running->set_hooks(std::move(hooks));
    return LEVEE_OK;
  });
}

size_t levee_trace_path(char* buffer, size_t capacity) {
  return guarded_text(buffer, capacity, [] {
    const Runtime* running = Runtime::get();
    return running == nullptr ? std::string{} : running->trace_path();
  });
}

int levee_flush(void) {
  return guarded("flush", []() -> int {
    Runtime* running = nullptr;
    if (const int code = runtime(&running); code != LEVEE_OK) return code;
    return answer(running->flush(), "flush");
  });
}

int levee_start_kernels(void) {
  return guarded("start_kernels", []() -> int {
    Runtime* running = nullptr;
    if (const int code = runtime(&running); code != LEVEE_OK) return code;
    std::string why;
    const Status status = running->start_kernels(&why);
    if (status.ok()) return LEVEE_OK;
    return why.empty() ? fail(status, "start_kernels") : fail(status.code, std::move(why));
  });
}

void levee_stop_kernels(void) {
  guarded("stop_kernels", []() -> int {
    if (Runtime* running = Runtime::get()) running->stop_kernels();
    return LEVEE_OK;
  });
}

}  // extern "C"
