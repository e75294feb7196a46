#include "allocator/record/trace_file.h"

#include <algorithm>

namespace levee::record {
namespace {

// Limits on what tables may need, so that a small hostile file cannot ask for much memory: a table
// has at most one entry for each byte of the file beyond kFreeEntries, and texts and definitions at
// most this many bytes for each byte beyond kFreeBytes.
constexpr std::uint64_t kFreeEntries = 4096;
constexpr std::uint64_t kFreeBytes = 16 << 20;
constexpr std::uint64_t kMaxExpansion = 256;
constexpr std::size_t kMaxDevices = 64;

}  // namespace

std::unique_ptr<TraceReader> TraceReader::open(const std::string& path, std::string* why) {
  std::string reason;
  auto source = ByteSource::of_file(path, &reason);
  if (source == nullptr) {
    *why = path + " " + reason + ".";
    return nullptr;
  }
  return TraceFile::over(std::move(source), path, why);
}

std::unique_ptr<TraceReader> TraceReader::from_bytes(std::span<const std::byte> bytes,
                                                     std::string name, std::string* why) {
  return TraceFile::over(
      ByteSource::of_bytes({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}),
      name, why);
}

std::unique_ptr<TraceReader> TraceFile::over(std::unique_ptr<ByteSource> source,
                                             const std::string& name, std::string* why) {
  std::string reason;
  auto index = TraceIndex::build(std::move(source), &reason);
  if (index == nullptr) {
    *why = name + " " + reason + ".";
    return nullptr;
  }
  return std::unique_ptr<TraceReader>(new TraceFile(std::move(index)));
}

TraceFile::TraceFile(std::unique_ptr<TraceIndex> index) : index_(std::move(index)) {
  lanes_.push_back(lane(LaneId{}));
  pools_.push_back(pool(0));
  contexts_.push_back(context(ContextId{}));
  coverage_.damaged_blocks = index_->damaged_blocks();
  coverage_.unread_bytes = index_->unread_bytes();
  read_tables();
  read_coverage();
}

void TraceFile::read_tables() {
  std::vector<std::uint8_t> body;
  std::uint64_t definition_bytes = 0;
  const auto& blocks = index_->blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Frame& frame = blocks[i].frame;
    if (frame.type == BlockType::kChapter) chapters_.push_back(i);
    if (frame.type != BlockType::kDefinitions) continue;
    definition_bytes += frame.raw_bytes;
    if (definition_bytes > kFreeBytes + kMaxExpansion * index_->file_bytes() ||
        !index_->read_body(blocks[i], body) || !visit_definitions(body, *this)) {
      ++coverage_.damaged_blocks;
    }
  }
}

void TraceFile::read_coverage() {
  Coverage& coverage = coverage_;
  coverage.first = coverage.last = header().start;
  bool any = false;
  std::vector<std::uint8_t> body;
  const auto& blocks = index_->blocks();
  for (const BlockRef& block : blocks) {
    const Frame& frame = block.frame;
    if (frame.type != BlockType::kEvents && frame.type != BlockType::kActivity) continue;
    coverage.events += frame.event_count;
    if (frame.type == BlockType::kActivity) coverage.activity_events += frame.event_count;
    coverage.first =
        any ? std::min(coverage.first, Nanos{frame.first_time}) : Nanos{frame.first_time};
    coverage.last = any ? std::max(coverage.last, Nanos{frame.last_time}) : Nanos{frame.last_time};
    any = true;
  }

  Keyframe keyframe;
  if (!chapters_.empty() && index_->read_body(blocks[chapters_.front()], body) &&
      take_keyframe(body, keyframe)) {
    coverage.dropped_events = keyframe.events_before;
    coverage.lost_events = keyframe.lost_before;
  }
  EndRecord end;
  if (!blocks.empty() && blocks.back().frame.type == BlockType::kEnd &&
      index_->read_body(blocks.back(), body) && take_end(body, end)) {
    coverage.ending = end.ending;
    coverage.stop_reason = end.reason;
    coverage.lost_events = end.lost;
  } else {
    // Without a trailer the losses have to be counted where they are told.
    const auto cursor = events({KindSet::none().with(EventKind::kLost)});
    for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
      for (const TraceEvent& event : batch) coverage.lost_events += event.event.a;
    }
  }
}

void TraceFile::on(TraceDevice device) {
  const auto same = std::find_if(devices_.begin(), devices_.end(), [&](const TraceDevice& each) {
    return each.device == device.device;
  });
  if (same != devices_.end()) {
    *same = std::move(device);
  } else if (devices_.size() < kMaxDevices) {
    devices_.push_back(std::move(device));
  }
}

void TraceFile::on(TraceLane lane) {
  for (std::size_t i = lanes_.size(); i <= lane.id.value; ++i) {
    lanes_.push_back(TraceLane{LaneId{static_cast<std::uint16_t>(i)}, {}, {}, false, false});
  }
  lanes_[lane.id.value] = lane;
}

void TraceFile::on(TracePool pool) {
  for (std::size_t i = pools_.size(); i <= pool.index; ++i) {
    pools_.push_back(TracePool{static_cast<std::uint16_t>(i), {}});
  }
  pools_[pool.index] = pool;
}

void TraceFile::on(TraceThread thread) {
  if (thread.index >= kFreeEntries + index_->file_bytes()) return;
  for (std::size_t i = threads_.size(); i <= thread.index; ++i) {
    threads_.push_back(TraceThread{static_cast<std::uint32_t>(i), 0, {}});
  }
  if (threads_[thread.index].name.empty()) {
    text_bytes_ += thread.name.size();
    if (text_bytes_ > kFreeBytes + kMaxExpansion * index_->file_bytes()) thread.name.clear();
    threads_[thread.index] = std::move(thread);
  }
}

void TraceFile::on(const TraceContext& context) {
  const std::size_t id = context.id.value;
  if (id >= kFreeEntries + index_->file_bytes()) return;
  for (std::size_t i = contexts_.size(); i <= id; ++i) {
    contexts_.push_back(
        TraceContext{ContextId{static_cast<std::uint32_t>(i)}, ContextKind::kNote, {}});
  }
  if (!contexts_[id].text.empty()) return;  // written again for a later chapter; the same text
  text_bytes_ += context.text.size();
  if (text_bytes_ > kFreeBytes + kMaxExpansion * index_->file_bytes()) return;
  contexts_[id] = context;
  contexts_[id].text = texts_.emplace_back(context.text);
}

TraceLane TraceFile::lane(LaneId id) const {
  return id.value < lanes_.size() ? lanes_[id.value] : TraceLane{id, {}, {}, false, false};
}
TracePool TraceFile::pool(std::uint16_t index) const {
  return index < pools_.size() ? pools_[index] : TracePool{index, {}};
}
TraceContext TraceFile::context(ContextId id) const {
  return id.value < contexts_.size() ? contexts_[id.value]
                                     : TraceContext{id, ContextKind::kNote, {}};
}

Nanos TraceFile::chapter_start(std::size_t chapter) const {
  if (chapter >= chapters_.size()) return coverage_.last;
  return Nanos{index_->blocks()[chapters_[chapter]].frame.first_time};
}

std::uint64_t TraceFile::chapter_number(std::size_t chapter) const {
  return chapter < chapters_.size() ? index_->blocks()[chapters_[chapter]].frame.chapter
                                    : UINT64_MAX;
}

TraceState TraceFile::chapter_state(std::size_t chapter) const {
  std::vector<std::uint8_t> body;
  Keyframe keyframe;
  if (chapter < chapters_.size() && index_->read_body(index_->blocks()[chapters_[chapter]], body) &&
      take_keyframe(body, keyframe)) {
    return std::move(keyframe.state);
  }
  TraceState nothing;
  nothing.time = chapter_start(chapter);
  nothing.live_is_complete = false;
  return nothing;
}

}  // namespace levee::record
