// A model of the driver's stream-ordered pool (cudaMallocAsync), configured as PyTorch's backend
// for it does: release threshold unlimited.
//
// Owns: blocks and segments as numbers. What it assumes, since the driver's inner workings are not
// published and no real pool runs without a GPU: the pool grows by segments of 32 MiB or the
// request rounded up to that; best fit with splitting and merging inside a segment, 512 B grain;
// memory freed on another stream is reused only once its event has passed, `kEventLag` requests
// later; when the device is full, segments that are wholly free are given back and it tries again.
// **Not validated** against a driver: read its figures as an estimate. Cost: about 0.3 us a
// request.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/replay/policy.h"

namespace levee::replay {

class StreamPoolModel final : public ReplayPolicy {
 public:
  explicit StreamPoolModel(Limits limits);
  ~StreamPoolModel() override;

  std::string name() const override { return "cudaMallocAsync"; }
  std::string settings() const override { return "release threshold unlimited (unvalidated)"; }
  bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) override;
  void free(std::uint32_t id) override;
  void record_use(std::uint32_t id, std::uint16_t stream) override;

  Bytes reserved() const override { return reserved_; }
  Bytes peak_reserved() const override { return peak_; }
  DriverCosts costs() const override { return costs_; }
  std::uint64_t created_pages() const override { return 0; }
  std::uint64_t emergencies() const override { return emergencies_; }

 private:
  struct Block;
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };

  Block* search(std::uint64_t size, std::uint16_t stream);
  Block* grow(std::uint64_t size);
  void give_back(Block* block);
  void absorb(Block* block, Block* neighbour);
  void come_back_waiting(bool all);
  void release_free_segments();

  Limits limits_;
  std::set<Block*, BySize> free_;
  std::set<Block*> all_;
  std::vector<Block*> by_id_;
  std::deque<std::pair<std::uint64_t, Block*>> waiting_;  // used elsewhere: request at which free
  std::uint64_t requests_ = 0;
  std::uint64_t next_address_ = 1ULL << 40;
  Bytes reserved_{};
  Bytes peak_{};
  DriverCosts costs_;
  std::uint64_t emergencies_ = 0;
};

}  // namespace levee::replay
