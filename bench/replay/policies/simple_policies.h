// The two ends of the scale: an allocator that caches nothing, and one that no allocator can beat.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "bench/replay/policy.h"

namespace levee::replay {

/// One cudaMalloc a request, one cudaFree a free; the driver hands memory out in pages of 2 MiB.
class PlainMalloc final : public ReplayPolicy {
 public:
  explicit PlainMalloc(Limits limits) : limits_(limits) {}
  std::string name() const override { return "cudaMalloc"; }
  bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) override;
  void free(std::uint32_t id) override;
  Bytes reserved() const override { return reserved_; }
  Bytes peak_reserved() const override { return peak_; }
  DriverCosts costs() const override { return costs_; }
  std::uint64_t emergencies() const override { return 0; }

 private:
  Limits limits_;
  std::vector<Bytes> size_;
  Bytes reserved_{};
  Bytes peak_{};
  DriverCosts costs_;
};

/// Reserves exactly the bytes in use in whole pages, moves nothing and calls nobody: what placement
/// can reach at best. In use is what `TraceFacts` calls active: a block with recorded uses stays
/// for `kHostAhead` requests after its free.
class LowerBound final : public ReplayPolicy {
 public:
  explicit LowerBound(Limits limits) : limits_(limits) {}
  std::string name() const override { return "bound"; }
  bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) override;
  void free(std::uint32_t id) override;
  void record_use(std::uint32_t id, std::uint16_t stream) override;
  Bytes reserved() const override { return reserved_; }
  Bytes peak_reserved() const override { return reserved_; }
  DriverCosts costs() const override { return costs_; }
  std::uint64_t emergencies() const override { return 0; }

 private:
  Limits limits_;
  struct Waiting {
    std::uint64_t until = 0;  // so many requests
    Bytes bytes;
  };
  std::vector<Bytes> size_;
  std::vector<bool> used_elsewhere_;
  std::deque<Waiting> waiting_;
  std::uint64_t requests_ = 0;
  Bytes in_use_{};
  Bytes reserved_{};
  DriverCosts costs_;
};

}  // namespace levee::replay
