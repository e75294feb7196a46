// The true bytes of device memory, as far as a program can see them: copies and memsets. Kernels
// never write.
//
// Owns host copies of physical memory in sparse 4 KiB pieces; what was never written, or was set to
// zero, reads as zero and costs nothing. Bounded by default: of each write from the host, and of
// each fill, only the first 64 KiB are kept; the rest then reads as zero. `complete` keeps
// everything that the bound on host memory leaves room for. An eighth of that is for small accesses
// alone, so that a count or a flag is not crowded out by weights; when the first bytes find no
// room, `on_first_loss` is told. Memory that several processes share lives where `share` was told,
// in memory that they share too, and whole. Copies between device addresses move all that is held.
// Follows physical memory, so that two addresses of one handle show the same bytes, and forgets
// them when the memory goes. Order: an access happens when it is called; the caller calls in the
// order of the streams. Thread safety: every method may be called from any thread; one mutex, which
// is taken after the model's (never before it). Costs: reads and writes O(bytes) and a lookup for
// each 4 KiB; copies and zeros what the ranges hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <levee/units.h>

namespace levee::device::sim {

class GpuModel;

struct BackingStoreConfig {
  bool complete = false;
  Bytes kept_per_access = 64_KiB;
  Bytes most_bytes = 4_GiB;  ///< of host memory; what would exceed it is lost, and counted
  Bytes small = 64_KiB;      ///< accesses of up to this many bytes may use the share kept for them
  /// Called once, without a lock, when something was lost since `most_bytes` were used up.
  std::function<void()> on_first_loss{};
};

class BackingStore {
 public:
  /// Installs itself as the model's memory-gone hook; the model must outlive it.
  explicit BackingStore(GpuModel& model, BackingStoreConfig config = {});
  ~BackingStore();
  BackingStore(const BackingStore&) = delete;
  BackingStore& operator=(const BackingStore&) = delete;

  // Each is false, and does nothing, unless the whole range is device memory (allocated or mapped).
  bool write(DeviceAddr to, const void* from, Bytes bytes);
  bool read(void* to, DeviceAddr from, Bytes bytes) const;
  bool fill(DeviceAddr to, std::uint8_t value, Bytes bytes);
  /// Repeats a pattern of 1, 2 or 4 bytes; `bytes` is a multiple of it.
  bool fill_pattern(DeviceAddr to, std::uint32_t pattern, std::size_t pattern_bytes, Bytes bytes);
  bool copy(DeviceAddr to, DeviceAddr from, Bytes bytes);  ///< the ranges may overlap

  /// Whether anything in the range may be other than zero: something was written there and not
  /// cleared. O(log) for each mapping.
  bool holds(DeviceAddr from, Bytes bytes) const;
  /// From now on the contents of this physical memory (by serial, `bytes` long, a multiple of 4
  /// KiB) are `contents`, which others may see and change; kept until the memory goes. What was
  /// held moves there if `keep_ours`, else it is forgotten.
  void share(std::uint64_t serial, std::shared_ptr<std::uint8_t[]> contents, Bytes bytes,
             bool keep_ours);

  Bytes held() const;  ///< host memory in use for contents
  Bytes lost() const;  ///< bytes written that were not kept

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levee::device::sim
