// What an allocator owes its user, kept naively: a map of live blocks and the sums over them.
// Shares no code with core; obviously right rather than fast.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace levee::model_test {

class ReferenceModel {
 public:
  struct Live {
    std::uint64_t addr = 0;
    std::uint64_t bytes = 0;
    std::uint64_t requested = 0;
    std::uint32_t stream = 0;
    std::uint32_t pool = 0;
  };

  /// "" or what is wrong with the answer.
  std::string on_alloc(std::uint32_t id, const Live& block) {
    if (block.bytes < block.requested) return "fewer bytes than asked for";
    if (block.bytes - block.requested >= 512) return "rounded by more than 512 B";
    if (block.addr % 512 != 0) return "not aligned to 512 B";
    const auto next = by_addr_.lower_bound(block.addr);
    if (next != by_addr_.end() && next->first < block.addr + block.bytes) {
      return "overlaps a live block";
    }
    if (next != by_addr_.begin()) {
      const auto before = std::prev(next);
      if (before->first + live_[before->second].bytes > block.addr) return "overlaps a live block";
    }
    by_addr_[block.addr] = id;
    live_[id] = block;
    allocated_ += block.bytes;
    requested_ += block.requested;
    if (allocated_ > peak_allocated_) peak_allocated_ = allocated_;
    return "";
  }
  void on_free(std::uint32_t id) {
    const Live block = live_[id];
    allocated_ -= block.bytes;
    requested_ -= block.requested;
    by_addr_.erase(block.addr);
    live_.erase(id);
  }
  void reset_peaks() { peak_allocated_ = allocated_; }

  bool is_live(std::uint32_t id) const { return live_.count(id) != 0; }
  const Live& at(std::uint32_t id) const { return live_.at(id); }
  const std::map<std::uint32_t, Live>& live() const { return live_; }
  std::uint64_t allocated() const { return allocated_; }
  std::uint64_t requested() const { return requested_; }
  std::uint64_t peak_allocated() const { return peak_allocated_; }
  std::size_t count() const { return live_.size(); }
  /// Numbers of the 2 MiB pages that hold live bytes.
  std::set<std::uint64_t> used_units() const {
    std::set<std::uint64_t> units;
    for (const auto& [addr, id] : by_addr_) {
      const std::uint64_t last = (addr + live_.at(id).bytes - 1) >> 21;
      for (std::uint64_t unit = addr >> 21; unit <= last; ++unit) units.insert(units.end(), unit);
    }
    return units;
  }

 private:
  std::map<std::uint32_t, Live> live_;
  std::map<std::uint64_t, std::uint32_t> by_addr_;
  std::uint64_t allocated_ = 0;
  std::uint64_t requested_ = 0;
  std::uint64_t peak_allocated_ = 0;
};

}  // namespace levee::model_test
