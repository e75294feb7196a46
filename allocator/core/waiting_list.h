// Blocks that were given back while other streams may still use them (record_stream).
//
// A block waits until every stream that used it has passed the epoch which was open when the block
// was given back. It is filed under one stream at a time: the first whose epoch is not known
// complete. When that stream moves on, the block is free, or is filed under the next one. So one
// slow stream holds back only the blocks that it used itself, and no block has an event of its own.
// Owns: the lists. Promises: `pass` returns each block once; nothing is asked of the device here.
// Guarded by the pool lock. Cost: each block is moved at most once for each stream that used it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <levee/units.h>

#include "allocator/core/block.h"
#include "allocator/core/ids.h"
#include "allocator/core/streams.h"

namespace levee::core {

class WaitingList {
 public:
  /// Pre: `block->pending` holds a stamp that is not complete.
  void add(BlockRecord* block, const StreamTable& streams);
  /// Takes a block whose every use is complete by now; null when there is none under `stream`.
  BlockRecord* take_done(StreamIndex stream, const StreamTable& streams);
  /// Takes any waiting block for which `wanted` says yes.
  template <typename F>
  BlockRecord* take_if(F&& wanted) {
    for (List& list : lists_) {
      BlockRecord* previous = nullptr;
      for (BlockRecord* block = list.head; block != nullptr; block = block->next_waiting) {
        if (wanted(*block)) {
          unlink(list, previous, block);
          return block;
        }
        previous = block;
      }
    }
    return nullptr;
  }

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  Bytes bytes() const { return bytes_; }
  /// Whether something is filed under the stream, and the newest epoch it waits for.
  bool has(StreamIndex stream) const {
    return stream.value < lists_.size() && lists_[stream.value].head != nullptr;
  }
  Stamp newest(StreamIndex stream) const { return lists_[stream.value].tail->filed_under; }
  std::uint32_t stream_end() const { return static_cast<std::uint32_t>(lists_.size()); }
  template <typename F>
  void for_each(F&& f) const {
    for (const List& list : lists_) {
      for (BlockRecord* block = list.head; block != nullptr; block = block->next_waiting) f(*block);
    }
  }

 private:
  struct List {
    BlockRecord* head = nullptr;
    BlockRecord* tail = nullptr;
  };
  void unlink(List& list, BlockRecord* previous, BlockRecord* block);
  void file(BlockRecord* block, Stamp under);
  static std::optional<Stamp> first_unmet(const BlockRecord& block, const StreamTable& streams);

  std::vector<List> lists_;  // by stream; in order of epoch
  std::size_t count_ = 0;
  Bytes bytes_;
};

}  // namespace levee::core
