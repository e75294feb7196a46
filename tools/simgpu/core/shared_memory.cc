#include "tools/simgpu/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/settings.h"

namespace levee::simgpu {
namespace {

using Contents = std::shared_ptr<std::uint8_t[]>;

constexpr std::uint64_t kMagic = 0x31'43'50'49'75'70'67'73;  // "sgpuIPC1"
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidDevice = 101;
constexpr int kSameProcess = 201;  // CUDA: "invalid device context"
constexpr int kInvalidHandle = 400;

struct OwnMemory {
  int file = -1;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
};
struct Opened {
  DeviceAddr base;
  int count = 0;
};

struct Table {
  base::Mutex mutex;
  std::map<std::uint64_t, OwnMemory> own LEVEE_GUARDED_BY(mutex);  // by serial of the memory
  std::map<std::uint64_t, Opened> opened LEVEE_GUARDED_BY(mutex);  // by inode
};
Table& table() {
  static auto* value = new Table;
  return *value;
}

/// The bytes of a file, mapped; the file itself stays open as long as they are, if `keep` >= 0.
Contents map_file(int file, std::uint64_t bytes, int keep) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<std::uint8_t*>(at), [bytes, keep](std::uint8_t* mapped) {
            munmap(mapped, bytes);
            if (keep >= 0) close(keep);
          }};
}

/// The file that holds this memory's contents, made at the first call. Null: the host has no room.
const OwnMemory* share_locked(Process& process, Table& shared, std::uint64_t serial,
                              std::uint64_t bytes) LEVEE_REQUIRES(shared.mutex) {
  const auto known = shared.own.find(serial);
  if (known != shared.own.end()) return &known->second;
  OwnMemory made;
  made.bytes = bytes;
  made.file = memfd_create("simgpu", MFD_CLOEXEC);
  if (made.file < 0) return nullptr;
  struct stat status {};
  Contents contents;
  if (ftruncate(made.file, static_cast<off_t>(bytes)) == 0 && fstat(made.file, &status) == 0)
    contents = map_file(made.file, bytes, made.file);
  if (contents == nullptr) {
    close(made.file);
    return nullptr;
  }
  made.inode = status.st_ino;
  process.backing().share(serial, std::move(contents), Bytes{bytes}, true);
  return &shared.own.emplace(serial, made).first->second;
}

int index_of_card(int card) {
  const auto& cards = visible_devices();
  const auto at = std::find(cards.begin(), cards.end(), card);
  return at == cards.end() ? -1 : static_cast<int>(at - cards.begin());
}

}  // namespace

int share_allocation(Process& process, const void* pointer, SharedHandle* handle) {
  if (pointer == nullptr || handle == nullptr) return kInvalidValue;
  const device::sim::AddressInfo info = process.model().find(to_addr(pointer));
  // As with CUDA: of cudaMalloc alone, and only by its owner.
  if (info.kind != device::sim::MemoryKind::kAllocation) return kInvalidValue;
  const auto spans = process.model().physical_spans(info.base, info.bytes);
  const auto whole = process.model().physical_bytes(info.base);
  if (spans.empty() || !whole) return kInvalidValue;
  Table& shared = table();
  const base::MutexLock lock(shared.mutex);
  const OwnMemory* memory = share_locked(process, shared, spans.front().serial, whole->value);
  if (memory == nullptr) return kOutOfMemory;
  SharedHandle made;
  made.magic = kMagic;
  made.process = getpid();
  made.file = memory->file;
  made.inode = memory->inode;
  made.bytes = memory->bytes;
  made.offset = spans.front().offset.value;
  made.card = visible_devices()[static_cast<std::size_t>(info.device.value)];
  *handle = made;
  return 0;
}

int open_allocation(Process& process, const SharedHandle& handle, void** pointer) {
  if (pointer == nullptr) return kInvalidValue;
  if (handle.magic != kMagic || handle.is_event != 0 || handle.offset >= handle.bytes)
    return kInvalidHandle;
  if (handle.process == getpid()) return kSameProcess;
  const int device = index_of_card(handle.card);
  if (device < 0) return kInvalidDevice;
  Table& shared = table();
  const base::MutexLock lock(shared.mutex);
  Opened& opened = shared.opened[handle.inode];
  if (opened.count == 0) {
    const std::string path =
        "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status {};
    Contents contents;
    if (file >= 0 && fstat(file, &status) == 0 && status.st_ino == handle.inode &&
        static_cast<std::uint64_t>(status.st_size) == handle.bytes)
      contents = map_file(file, handle.bytes, -1);
    if (file >= 0) close(file);
    int code = contents != nullptr ? 0 : kInvalidHandle;
    if (code == 0) {
      process.activate(device);
      const auto made = process.model().import_allocation(DeviceId{device}, Bytes{handle.bytes});
      code = native_code(made.status());
      if (code == 0) {
        opened.base = *made;
        process.backing().share(process.model().physical_spans(*made, 1_B).front().serial,
                                std::move(contents), Bytes{handle.bytes}, false);
      }
    }
    if (code != 0) {
      shared.opened.erase(handle.inode);
      return code;
    }
  }
  ++opened.count;
  *pointer = reinterpret_cast<void*>(opened.base.value + handle.offset);
  return 0;
}

int close_allocation(Process& process, void* pointer) {
  const device::sim::AddressInfo info = process.model().find(to_addr(pointer));
  if (info.kind != device::sim::MemoryKind::kImported) return kInvalidValue;
  Table& shared = table();
  const base::MutexLock lock(shared.mutex);
  const auto at = std::find_if(shared.opened.begin(), shared.opened.end(),
                               [&](const auto& entry) { return entry.second.base == info.base; });
  if (at == shared.opened.end()) return kInvalidValue;
  if (--at->second.count > 0) return 0;
  shared.opened.erase(at);
  return native_code(process.model().close_import(info.base));
}

int export_handle(Process& process, HandleId handle, int* descriptor) {
  const auto physical = process.model().physical_of(handle);
  if (!physical || descriptor == nullptr) return kInvalidValue;
  Table& shared = table();
  const base::MutexLock lock(shared.mutex);
  const OwnMemory* memory = share_locked(process, shared, physical->serial, physical->bytes.value);
  if (memory == nullptr) return kOutOfMemory;
  *descriptor = fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
  return *descriptor >= 0 ? 0 : kOutOfMemory;
}

int import_handle(Process& process, int descriptor, HandleId* handle) {
  struct stat status {};
  if (handle == nullptr || fstat(descriptor, &status) != 0) return kInvalidValue;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  Contents contents = map_file(descriptor, bytes, -1);
  if (contents == nullptr) return kInvalidValue;
  const auto made = process.model().import_handle(current_device(), Bytes{bytes});
  if (!made.ok()) return native_code(made.status());
  process.backing().share(process.model().physical_of(*made)->serial, std::move(contents),
                          Bytes{bytes}, false);
  *handle = *made;
  return 0;
}

int share_event(Process& process, EventId event, SharedHandle* handle) {
  if (handle == nullptr) return kInvalidValue;
  // cudaErrorNotReady (600) is an answer too: the event exists.
  const int code = native_code(process.model().query_event(event));
  if (code != 0 && code != 600) return kInvalidHandle;
  SharedHandle made;
  made.magic = kMagic;
  made.process = getpid();
  made.is_event = 1;
  *handle = made;
  return 0;
}

int open_event(Process& process, const SharedHandle& handle, EventId* event) {
  if (event == nullptr) return kInvalidValue;
  if (handle.magic != kMagic || handle.is_event == 0) return kInvalidHandle;
  if (handle.process == getpid()) return kSameProcess;
  device::sim::EventOptions options;
  options.timing = false;
  const auto made = process.model().create_event(current_device(), options);
  if (!made.ok()) return native_code(made.status());
  *event = *made;
  return 0;
}

}  // namespace levee::simgpu
