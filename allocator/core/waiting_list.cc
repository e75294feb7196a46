#include "allocator/core/waiting_list.h"

#include "allocator/base/check.h"

namespace levee::core {

std::optional<Stamp> WaitingList::first_unmet(const BlockRecord& block,
                                              const StreamTable& streams) {
  for (Stamp stamp : block.pending) {
    if (!streams.is_complete(stamp)) return stamp;
  }
  return std::nullopt;
}

void WaitingList::add(BlockRecord* block, const StreamTable& streams) {
  const std::optional<Stamp> unmet = first_unmet(*block, streams);
  LEVEE_CHECK(unmet.has_value(), "a block waits for nothing");
  ++count_;
  bytes_ += block->bytes;
  file(block, *unmet);
}

void WaitingList::file(BlockRecord* block, Stamp under) {
  if (under.stream().value >= lists_.size()) lists_.resize(under.stream().value + 1);
  List& list = lists_[under.stream().value];
  block->filed_under = under;
  // A block that is in no list has no next one: `unlink` sees to it.
  if (list.head == nullptr) {
    list.head = list.tail = block;
  } else if (list.tail->filed_under.epoch() <= under.epoch()) {
    list.tail->next_waiting = block;
    list.tail = block;
  } else {
    // It waited elsewhere first, so it is older than most of what is here.
    BlockRecord** at = &list.head;
    while ((*at)->filed_under.epoch() <= under.epoch()) at = &(*at)->next_waiting;
    block->next_waiting = *at;
    *at = block;
  }
}

void WaitingList::unlink(List& list, BlockRecord* previous, BlockRecord* block) {
  if (previous == nullptr) {
    list.head = block->next_waiting;
  } else {
    previous->next_waiting = block->next_waiting;
  }
  if (list.tail == block) list.tail = previous;
  block->next_waiting = nullptr;
  --count_;
  bytes_ -= block->bytes;
}

BlockRecord* WaitingList::take_done(StreamIndex stream, const StreamTable& streams) {
  if (stream.value >= lists_.size()) return nullptr;
  while (BlockRecord* block = lists_[stream.value].head) {
    if (!streams.is_complete(block->filed_under)) return nullptr;
    unlink(lists_[stream.value], nullptr, block);
    const std::optional<Stamp> unmet = first_unmet(*block, streams);
    if (!unmet) return block;
    ++count_;
    bytes_ += block->bytes;
    file(block, *unmet);
  }
  return nullptr;
}

}  // namespace levee::core
