// One pass over the events of a trace, merged in time.
//
// Each block is sorted by key (the running maximum of its thread's times), but blocks overlap: an
// event may be written late, and kernels are told long after they ran. So a cursor opens each block
// when its first time is reached and merges the open ones. At most kMaxOpenBlocks are open; beyond
// that (a damaged or hostile file) events come as their blocks do.
#include <algorithm>

#include "allocator/record/trace_file.h"

namespace levee::record {
namespace {

constexpr std::size_t kBatch =
    4096;  // events; 192 KiB, so that a batch stays in the second-level cache

class Cursor final : public EventCursor {
 public:
  Cursor(const TraceIndex& index, const EventQuery& query, std::uint64_t first_chapter)
      : index_(index), query_(query) {
    for (const BlockRef& block : index.blocks()) {
      if (may_hold(block.frame, query, first_chapter)) blocks_.push_back(&block);
    }
    std::stable_sort(blocks_.begin(), blocks_.end(), [](const BlockRef* a, const BlockRef* b) {
      return a->frame.first_time < b->frame.first_time;
    });
    out_.reserve(kBatch);
  }

  std::span<const TraceEvent> next() override {
    out_.clear();
    while (out_.size() < kBatch) {
      open_due_blocks();
      if (open_.empty()) break;
      emit_run();
    }
    return out_;
  }

 private:
  struct OpenBlock {
    std::vector<StagedEvent> events;
    std::size_t next = 0;
    std::uint64_t number = 0;
    std::int64_t key() const { return events[next].key; }
  };

  static bool comes_before(const OpenBlock& a, const OpenBlock& b) {
    return std::pair(a.key(), a.number) < std::pair(b.key(), b.number);
  }

  void open_due_blocks() {
    while (next_block_ < blocks_.size() && open_.size() < TraceReader::kMaxOpenBlocks) {
      const BlockRef& block = *blocks_[next_block_];
      if (!open_.empty() && block.frame.first_time > first_open()->key()) return;
      ++next_block_;
      OpenBlock opened;
      if (!spare_.empty()) {
        opened.events = std::move(spare_.back());
        spare_.pop_back();
      }
      opened.number = block.frame.number;
      if (!index_.read_body(block, body_) || !decoder_.decode(block.frame, body_, opened.events) ||
          opened.events.empty()) {
        spare_.push_back(
            std::move(opened.events));  // checksum right, contents not: nothing in it can be used
        continue;
      }
      open_.push_back(std::move(opened));
    }
  }

  std::vector<OpenBlock>::iterator first_open() {
    return std::min_element(open_.begin(), open_.end(), comes_before);
  }

  // Hands out events of the block whose turn it is, until another block's turn comes.
  void emit_run() {
    const auto block = first_open();
    std::int64_t until = INT64_MAX;
    if (next_block_ < blocks_.size() && open_.size() < TraceReader::kMaxOpenBlocks) {
      until = blocks_[next_block_]->frame.first_time;
    }
    for (const OpenBlock& other : open_) {
      if (&other != &*block) until = std::min(until, other.key());
    }
    // At least one event, since this block's key is the smallest; equal keys go in turns.
    do {
      const StagedEvent& staged = block->events[block->next++];
      const auto time = static_cast<std::int64_t>(staged.event.time_ns);
      if (query_.kinds.has(staged.event.kind()) && time >= query_.from.value &&
          time < query_.to.value) {
        out_.push_back(TraceEvent{staged.event, staged.sequence, staged.thread});
      }
      if (block->next == block->events.size()) {
        spare_.push_back(std::move(block->events));
        open_.erase(block);
        return;
      }
    } while (out_.size() < kBatch && block->key() < until);
  }

  const TraceIndex& index_;
  EventQuery query_;
  std::vector<const BlockRef*> blocks_;  // by first time
  std::size_t next_block_ = 0;
  std::vector<OpenBlock> open_;
  std::vector<std::vector<StagedEvent>> spare_;  // memory of closed blocks
  std::vector<std::uint8_t> body_;
  EventDecoder decoder_;
  std::vector<TraceEvent> out_;
};

}  // namespace

bool may_hold(const Frame& frame, const EventQuery& query, std::uint64_t first_chapter) {
  return (frame.type == BlockType::kEvents || frame.type == BlockType::kActivity) &&
         frame.chapter >= first_chapter && (frame.kinds & query.kinds.bits) != 0 &&
         frame.last_time >= query.from.value && frame.first_time < query.to.value;
}

std::unique_ptr<EventCursor> TraceFile::events(const EventQuery& query) const {
  return std::make_unique<Cursor>(
      index(), query, query.first_chapter == 0 ? 0 : chapter_number(query.first_chapter));
}

}  // namespace levee::record
