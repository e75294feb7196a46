#include "allocator/record/trace_writer.h"

#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "allocator/base/check.h"
#include "allocator/record/crc32c.h"

namespace levee::record {
namespace {

// Measured (bench/micro/record_bench): level 3 stores a training step in 3 to 4 bytes an event at
// about 20 ns; level 9 saves 3 % for three times the time.
constexpr int kCompressionLevel = 3;

// A bin of a block's summary has at most 10 varints.
constexpr std::size_t kMaxBinBytes = 10 * kMaxVarintBytes;

/// Tells the tracker which lanes belong to which device.
class LaneListener final : public DefinitionVisitor {
 public:
  explicit LaneListener(StateTracker& tracker) : tracker_(tracker) {}
  void on(TraceDevice) override {}
  void on(TraceLane lane) override { tracker_.set_lane_device(lane.id, lane.device); }
  void on(TraceThread) override {}
  void on(TracePool) override {}
  void on(const TraceContext&) override {}

 private:
  StateTracker& tracker_;
};

}  // namespace

std::unique_ptr<TraceWriter> TraceWriter::start(int file, const TraceHeader& header,
                                                std::string* why) {
  const SlotLayout layout = SlotLayout::for_cap(header.cap);
  const std::vector<std::uint8_t> head = encode_file_head(header, layout);
  std::unique_ptr<TraceWriter> writer(new TraceWriter(file, header, layout, head.size()));
  writer->write_at(0, head);
  if (!writer->ok()) {
    *why = writer->error();
    return nullptr;
  }
  return writer;
}

TraceWriter::TraceWriter(int file, const TraceHeader& header, const SlotLayout& layout,
                         std::uint64_t head_bytes)
    : file_(file),
      layout_(layout),
      head_bytes_(head_bytes),
      compressor_(ZSTD_createCCtx()),
      latest_(header.start) {
  LEVEE_CHECK(compressor_ != nullptr);
  events_.reserve(layout_.block_events());
}

TraceWriter::~TraceWriter() {
  ZSTD_freeCCtx(compressor_);
  ::close(file_);
}

void TraceWriter::define(std::span<const std::uint8_t> entry) {
  LaneListener listener(tracker_);
  LEVEE_CHECK(visit_definitions(entry, listener), "a definition entry that cannot be read back");
  definitions_.push_back({entry});
}

void TraceWriter::append(const StagedEvent& event) {
  events_.push_back(event);
  if (events_.size() >= layout_.block_events()) write_events();
}

void TraceWriter::append_activity(const Event& event, std::uint32_t thread) {
  activity_.push_back({event, 0, static_cast<std::int64_t>(event.time_ns), thread});
  if (activity_.size() >= layout_.block_events()) write_activity();
}

bool TraceWriter::flush() {
  write_new_definitions();
  write_events();
  write_activity();
  return ok();
}

bool TraceWriter::finish(TraceEnding ending, std::string_view reason) {
  flush();
  if (!ok()) return false;
  body_.clear();
  put_end({ending, std::string(reason), events_written_, lost_}, body_);
  Frame frame;
  frame.type = BlockType::kEnd;
  frame.first_time = frame.last_time = latest_.value;
  store_body(frame);
  if (!has_room(frame, 0)) {
    start_chapter();
    body_.clear();
    put_end({ending, std::string(reason), events_written_, lost_}, body_);
    store_body(frame);
  }
  summary_.clear();
  write_block(frame);
  return ok();
}

void TraceWriter::write_events() {
  if (events_.empty() || !ok()) return;
  write_new_definitions();
  // An event comes late if its thread was put aside between its stamp and its store. In a block all
  // are in order, so that merging blocks by their next event never turns a thread's events round.
  const auto by_key = [](const StagedEvent& a, const StagedEvent& b) { return a.key < b.key; };
  if (!std::is_sorted(events_.begin(), events_.end(), by_key)) {
    std::stable_sort(events_.begin(), events_.end(), by_key);
  }
  body_.clear();
  encoder_.encode(events_, body_);
  Frame frame;
  frame.type = BlockType::kEvents;
  frame.first_time = encoder_.first_time();
  frame.last_time = encoder_.last_time();
  frame.kinds = encoder_.kinds();
  frame.event_count = static_cast<std::uint32_t>(events_.size());
  store_body(frame);
  // A chapter begins with the state before its first block, so the decision comes before the events
  // are digested.
  const std::size_t bins = events_.size() / kEventsPerBin + 2;
  const std::size_t devices = tracker_.devices().size() + 1;
  if (!has_room(frame, bins * devices * kMaxBinBytes)) {
    start_chapter();
    body_.clear();
    encoder_.encode(events_, body_);
    store_body(frame);
  }
  summary_.clear();
  summarize(events_, tracker_, summary_);
  write_block(frame);
  for (const StagedEvent& event : events_) {
    if (event.event.kind() == EventKind::kLost) lost_ += event.event.a;
  }
  events_written_ += events_.size();
  latest_ = Nanos{std::max(latest_.value, events_.back().key)};
  events_.clear();
}

void TraceWriter::write_activity() {
  if (activity_.empty() || !ok()) return;
  write_new_definitions();
  std::stable_sort(activity_.begin(), activity_.end(),
                   [](const StagedEvent& a, const StagedEvent& b) { return a.key < b.key; });
  for (StagedEvent& event : activity_) {
    if (event.event.kind() == EventKind::kLost) {
      activity_sequence_ += event.event.a;
      lost_ += event.event.a;
    }
    event.sequence = activity_sequence_++;
  }
  body_.clear();
  encoder_.encode(activity_, body_);
  Frame frame;
  frame.type = BlockType::kActivity;
  frame.first_time = encoder_.first_time();
  frame.last_time = encoder_.last_time();
  frame.kinds = encoder_.kinds();
  frame.event_count = static_cast<std::uint32_t>(activity_.size());
  store_body(frame);
  if (!has_room(frame, 0)) {
    start_chapter();
    body_.clear();
    encoder_.encode(activity_, body_);
    store_body(frame);
  }
  summary_.clear();
  write_block(frame);
  events_written_ += activity_.size();
  activity_.clear();
}

void TraceWriter::write_new_definitions() {
  if (next_definition_ == definitions_.size() || !ok()) return;
  if (chapter_ == kNeverWritten) start_chapter();
  const std::size_t first = next_definition_;
  next_definition_ = definitions_.size();
  write_definitions_if(std::span(definitions_).subspan(first), [](const Definition& definition) {
    return definition.chapter == kNeverWritten;
  });
}

template <typename Wanted>
void TraceWriter::write_definitions_if(std::span<Definition> all, Wanted wanted) {
  const std::size_t most_bytes = static_cast<std::size_t>(layout_.slot_bytes / 8);
  std::vector<Definition*> batch;
  std::size_t bytes = 0;
  for (Definition& definition : all) {
    if (!wanted(definition)) continue;
    if (!batch.empty() && bytes + definition.entry.size() > most_bytes) {
      write_definitions(batch);
      batch.clear();
      bytes = 0;
    }
    batch.push_back(&definition);
    bytes += definition.entry.size();
  }
  if (!batch.empty()) write_definitions(batch);
}

void TraceWriter::write_definitions(std::span<Definition* const> batch) {
  const auto encode = [&](Frame& frame) {
    body_.clear();
    for (const Definition* definition : batch) body_.put_bytes(definition->entry);
    store_body(frame);
  };
  Frame frame;
  frame.type = BlockType::kDefinitions;
  frame.first_time = frame.last_time = latest_.value;
  frame.event_count = 0;
  encode(frame);
  // At most half of a chapter is definitions, so that the chapter which has to repeat them has room
  // for events as well.
  if (!has_room(frame, 0) ||
      chapter_definition_bytes_ + frame.bytes_on_disk() > layout_.slot_bytes / 2) {
    start_chapter();
    encode(frame);
  }
  for (Definition* definition : batch) definition->chapter = chapter_;
  chapter_definition_bytes_ += frame.bytes_on_disk();
  summary_.clear();
  write_block(frame);
}

void TraceWriter::start_chapter() {
  if (!ok()) return;
  chapter_ = chapter_ == kNeverWritten ? 0 : chapter_ + 1;
  const std::uint64_t slot = layout_.slot_count == 0 ? chapter_ : chapter_ % layout_.slot_count;
  position_ = head_bytes_ + slot * layout_.slot_bytes;
  slot_end_ = position_ + layout_.slot_bytes;
  chapter_definition_bytes_ = 0;

  body_.clear();
  Keyframe keyframe{events_written_, lost_, tracker_.snapshot(latest_, layout_.live_blocks())};
  // Thousands of open phases are a program that never closes them: the outermost say enough.
  constexpr std::size_t kMaxPhases = 1024;
  if (keyframe.state.phases.size() > kMaxPhases) keyframe.state.phases.resize(kMaxPhases);
  put_keyframe(keyframe, body_);
  Frame frame;
  frame.type = BlockType::kChapter;
  frame.first_time = frame.last_time = latest_.value;
  store_body(frame);
  summary_.clear();
  write_block(frame);

  // The next chapter overwrites the oldest one: what that one defines has to stand elsewhere
  // before.
  if (layout_.slot_count != 0 && chapter_ + 1 >= layout_.slot_count) {
    const std::uint64_t next_to_go = chapter_ + 1 - layout_.slot_count;
    write_definitions_if(
        std::span(definitions_).first(next_definition_),
        [&](const Definition& definition) { return definition.chapter <= next_to_go; });
  }
}

void TraceWriter::store_body(Frame& frame) {
  const std::span<const std::uint8_t> raw = body_.bytes();
  LEVEE_DCHECK(raw.size() <= kMaxRawBytes, "a block of ", raw.size(), " bytes");
  frame.raw_bytes = static_cast<std::uint32_t>(raw.size());
  stored_.resize(ZSTD_compressBound(raw.size()));
  const std::size_t size = ZSTD_compressCCtx(compressor_, stored_.data(), stored_.size(),
                                             raw.data(), raw.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0 || size >= raw.size()) {
    stored_.assign(raw.begin(), raw.end());
    frame.flags = 0;
  } else {
    stored_.resize(size);
    frame.flags = kFlagCompressed;
  }
  frame.body_bytes = static_cast<std::uint32_t>(stored_.size());
}

bool TraceWriter::has_room(const Frame& frame, std::size_t summary_bound) const {
  return chapter_ != kNeverWritten &&
         position_ + frame.bytes_on_disk() + summary_bound <= slot_end_;
}

void TraceWriter::write_block(Frame& frame) {
  if (!ok()) return;
  frame.chapter = chapter_;
  frame.number = block_number_++;
  frame.summary_bytes = static_cast<std::uint32_t>(summary_.size());
  frame.summary_crc = crc32c(summary_.bytes());
  frame.body_crc = crc32c(stored_);
  block_.assign(static_cast<std::size_t>(frame.bytes_on_disk()), 0);
  encode_frame(frame, block_.data());
  std::copy(summary_.bytes().begin(), summary_.bytes().end(), block_.begin() + kFrameBytes);
  std::copy(stored_.begin(), stored_.end(),
            block_.begin() + static_cast<std::ptrdiff_t>(kFrameBytes + summary_.size()));
  // By `SlotLayout` every block fits a fresh slot; if one did not, it must not run into the next.
  if (position_ + block_.size() > slot_end_) {
    error_ = "a block is larger than its slot, which is a fault of levee";
    return;
  }
  write_at(position_, block_);
  position_ += block_.size();
}

void TraceWriter::write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      error_ = std::strerror(errno);
      return;
    }
    if (written == 0) {
      error_ = "the file takes no more bytes";
      return;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
    bytes_written_ += static_cast<std::uint64_t>(written);
  }
}

}  // namespace levee::record
