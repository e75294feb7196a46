#include "tools/simgpu/core/properties.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/core/process.h"
#include "tools/simgpu/core/settings.h"

namespace levee::simgpu {
namespace {

constexpr int kMaxAttribute = 147;

/// Attributes that tell the size of something or its number.
int measure(int attribute) {
  const CardModel& card = settings().card;
  switch (attribute) {
    case 1:
      return 1024;  // threads per block
    case 2:
    case 3:
      return 1024;  // block x, y
    case 4:
      return 64;  // block z
    case 5:
      return 2147483647;  // grid x
    case 6:
    case 7:
      return 65535;  // grid y, z
    case 8:
      return 48 << 10;  // shared memory per block
    case 9:
      return 64 << 10;  // constant memory
    case 10:
      return 32;  // warp
    case 11:
      return 2147483647;  // pitch
    case 12:
    case 82:
      return 65536;  // registers per block, per multiprocessor
    case 13:
      return card.clock_khz;
    case 14:
    case 30:
      return 512;  // texture, surface alignment
    case 16:
      return card.multiprocessors;
    case 21:
      return 131072;  // texture 1D
    case 22:
      return 131072;  // texture 2D
    case 23:
      return 65536;
    case 24:
    case 25:
    case 26:
      return 16384;  // texture 3D
    case 27:
    case 28:
    case 42:
      return 32768;  // layered
    case 29:
    case 43:
    case 62:
    case 65:
      return 2048;  // layers
    case 36:
      return card.memory_clock_khz;
    case 37:
      return card.bus_width_bits;
    case 38:
      return card.l2_mib << 20;
    case 39:
      return card.threads_per_multiprocessor;
    case 40:
      return 3;  // copy engines
    case 45:
    case 46:
    case 52:
    case 53:
    case 55:
    case 56:
    case 57:
    case 58:
    case 59:
    case 60:
    case 61:
    case 63:
    case 64:
    case 66:
    case 67:
      return 32768;  // gather, cube maps, surfaces
    case 54:
    case 68:
      return 2046;
    case 47:
    case 48:
      return 8192;
    case 49:
      return 32768;
    case 51:
      return 32;  // texture pitch alignment
    case 69:
      return 268435456;
    case 70:
    case 71:
      return 131072;
    case 72:
      return 2097120;
    case 73:
    case 74:
    case 77:
      return 32768;
    case 75:
      return card.compute_major;
    case 76:
      return card.compute_minor;
    case 81:
      return card.shared_kib_per_multiprocessor << 10;
    case 87:
      return card.compute_minor == 0 ? 2 : 64;
    case 97:
      return card.shared_kib_per_block_optin << 10;
    case 106:
      return card.threads_per_multiprocessor >= 2048 ? 32 : 16;
    case 108:
      return (card.l2_mib << 20) / 4 * 3;
    case 109:
      return 128 << 20;
    case 111:
      return 1024;  // shared memory that the system keeps, per block
    case 117:
      return 1;  // flush writes: by the host
    case 118:
      return 100;  // writes ordered for the owner
    case 126:
      return card.compute_major >= 9 ? 4 : 1;
    case 131:
    case 134:
      return -1;  // no NUMA node
    default:
      return 0;
  }
}

/// Attributes that say whether something works.
bool offers(int attribute) {
  const CardModel& card = settings().card;
  switch (attribute) {
    case 15:  // copy while computing
    case 19:  // maps host memory
    case 31:  // concurrent kernels
    case 32:  // ECC
    case 41:  // unified addresses
    case 44:  // gather
    case 78:  // priorities
    case 79:
    case 80:  // L1
    case 83:  // managed memory
    case 89:  // managed memory while kernels run
    case 90:  // preemption
    case 91:  // host pointers of registered memory
    case 92:
    case 93:
    case 94:
    case 122:
    case 123:  // stream memory operations
    case 95:   // cooperative launch
    case 99:   // host registration
    case 102:  // virtual memory management
    case 103:  // handles as file descriptors: expandable segments ask for it
    case 112:
    case 114:
    case 115:  // memory pools
    case 121:
    case 125:
      return true;  // events between processes
    case 120:       // clusters
    case 127:       // tensor maps
    case 129:
      return card.compute_major >= 9;
    default:
      return false;
  }
}

int visible_number(int device) {
  const auto& visible = visible_devices();
  const auto at = static_cast<std::size_t>(device);
  return at < visible.size() ? visible[at] : device;
}

}  // namespace

bool device_attribute(int device, int attribute, int* value) {
  if (attribute < 1 || attribute > kMaxAttribute) return false;
  if (attribute == 33) {
    *value = visible_number(device) + 1;  // PCI bus
  } else {
    const int number = measure(attribute);
    *value = number != 0 ? number : (offers(attribute) ? 1 : 0);
  }
  return true;
}

std::string device_name(int) {
  return settings().name;
}

std::array<std::uint8_t, 16> device_uuid(int device) {
  std::array<std::uint8_t, 16> out{'s', 'i', 'm', 'g', 'p', 'u', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  out[15] = static_cast<std::uint8_t>(visible_number(device));
  return out;
}

std::string device_uuid_text(int device) {
  const auto bytes = device_uuid(device);
  std::string out = "GPU-";
  char digits[3];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(bytes[i]));
    out += digits;
  }
  return out;
}

std::string device_bus_id(int device, int domain_digits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%0*x:%02x:00.0", domain_digits, 0U,
                static_cast<unsigned>(visible_number(device) + 1));
  return buffer;
}

int device_with_bus_id(const char* text) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) < 3) return -1;
  const Process* process = Process::get();
  if (process == nullptr || domain != 0 || slot != 0) return -1;
  for (int i = 0; i < process->device_count(); ++i) {
    if (static_cast<unsigned>(visible_number(i) + 1) == bus) return i;
  }
  return -1;
}

int occupancy(int block_threads, std::size_t shared_bytes) {
  if (block_threads < 1 || block_threads > 1024) return 0;
  int threads = 0;
  int blocks = 0;
  int shared = 0;
  device_attribute(0, 39, &threads);
  device_attribute(0, 106, &blocks);
  device_attribute(0, 81, &shared);
  const int warps = (block_threads + 31) / 32;
  int fit = std::min(blocks, threads / 32 / warps);
  if (shared_bytes > 0) {
    const std::size_t each = shared_bytes + 1024;
    fit = std::min(fit, static_cast<int>(static_cast<std::size_t>(shared) / each));
  }
  return fit;
}

}  // namespace levee::simgpu
