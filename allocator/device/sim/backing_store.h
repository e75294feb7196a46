// The true bytes of device memory, as far as a program can see them: copies and memsets. Kernels
// never write.
//
// Owns host copies of physical memory in sparse 4 KiB pieces; what was never written reads as zero
// and costs nothing. Bounded by default: of each buffer (allocation or mapping) only the first 64
// KiB are kept, the rest reads as zero and writes to it are accepted and lost; `complete` keeps
// everything. Follows physical memory, so that two addresses of one handle show the same bytes; the
// owner calls `forget` when physical memory goes. Thread safety: every method may be called from
// any thread; one mutex. Costs: O(bytes) plus a hash lookup per 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <levee/units.h>

namespace levee::device::sim {

class GpuModel;

struct BackingStoreConfig {
  bool complete = false;
  Bytes kept_per_buffer = 64_KiB;
  Bytes most_bytes = 4_GiB;  ///< of host memory; what would exceed it is lost and counted
};

class BackingStore {
 public:
  BackingStore(GpuModel& model, BackingStoreConfig config);
  ~BackingStore();
  BackingStore(const BackingStore&) = delete;
  BackingStore& operator=(const BackingStore&) = delete;

  /// The range must be device memory (allocated or mapped); false, and nothing done, if it is not.
  bool write(DeviceAddr to, const void* from, Bytes bytes);
  bool read(void* to, DeviceAddr from, Bytes bytes) const;
  bool fill(DeviceAddr to, std::uint8_t value, Bytes bytes);
  /// As cudaMemsetD16/D32: repeats a pattern of 1, 2 or 4 bytes; `bytes` is a multiple of it.
  bool fill_pattern(DeviceAddr to, std::uint32_t pattern, std::size_t pattern_bytes, Bytes bytes);
  bool copy(DeviceAddr to, DeviceAddr from, Bytes bytes);  ///< ranges may overlap

  Bytes held() const;  ///< host memory in use
  Bytes lost() const;  ///< bytes written that were not kept

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levee::device::sim
