#include "allocator/record/trace_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "allocator/record/byte_coding.h"
#include "allocator/record/crc32c.h"

namespace levee::record {
namespace {

// Read by pread, not by mapping: a file that another process cuts short would end this one with
// SIGBUS.
class FileSource final : public ByteSource {
 public:
  FileSource(int file, std::uint64_t size) : file_(file), size_(size) {}
  ~FileSource() override { ::close(file_); }

  std::uint64_t size() const override { return size_; }
  bool read(std::uint64_t offset, std::span<std::uint8_t> out) const override {
    while (!out.empty()) {
      const ssize_t count = ::pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      offset += static_cast<std::uint64_t>(count);
      out = out.subspan(static_cast<std::size_t>(count));
    }
    return true;
  }

 private:
  int file_;
  std::uint64_t size_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  bool read(std::uint64_t offset, std::span<std::uint8_t> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return false;
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return true;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace

std::unique_ptr<ByteSource> ByteSource::of_file(const std::string& path, std::string* why) {
  // Not blocking: a pipe or device file by mistake is told, not waited for.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    *why = std::string("cannot be opened: ") + std::strerror(errno);
    return nullptr;
  }
  struct stat facts {};
  if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(file);
    *why =
        S_ISDIR(facts.st_mode) ? "is a folder; name a trace file in it" : "is not a regular file";
    return nullptr;
  }
  return std::make_unique<FileSource>(file, static_cast<std::uint64_t>(facts.st_size));
}

std::unique_ptr<ByteSource> ByteSource::of_bytes(std::span<const std::uint8_t> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

std::unique_ptr<TraceIndex> TraceIndex::build(std::unique_ptr<ByteSource> source,
                                              std::string* why) {
  std::vector<std::uint8_t> bytes(
      static_cast<std::size_t>(std::min<std::uint64_t>(source->size(), kFileHeadBytes)));
  if (bytes.empty()) {
    *why = "is empty";
    return nullptr;
  }
  if (!source->read(0, bytes)) {
    *why = std::string("cannot be read: ") + std::strerror(errno);
    return nullptr;
  }
  if (bytes.size() == kFileHeadBytes) {
    const std::uint64_t wanted =
        kFileHeadBytes + std::uint64_t{load_le<std::uint32_t>(bytes.data() + 32)};
    bytes.resize(static_cast<std::size_t>(
        std::min({source->size(), wanted, std::uint64_t{kMaxFileHeadBytes}})));
    if (!source->read(0, bytes)) {
      *why = std::string("cannot be read: ") + std::strerror(errno);
      return nullptr;
    }
  }
  std::optional<FileHead> head = decode_file_head(bytes, why);
  if (!head.has_value()) return nullptr;

  std::unique_ptr<TraceIndex> index(new TraceIndex(std::move(source), std::move(*head)));
  const std::uint64_t size = index->file_bytes();
  for (std::uint64_t begin = index->head_.bytes; begin < size;
       begin += index->head_.layout.slot_bytes) {
    index->scan_slot({begin, std::min(size, begin + index->head_.layout.slot_bytes)});
  }
  std::stable_sort(index->blocks_.begin(), index->blocks_.end(),
                   [](const BlockRef& a, const BlockRef& b) {
                     return std::pair(a.frame.chapter, a.frame.number) <
                            std::pair(b.frame.chapter, b.frame.number);
                   });
  index->leave_out_headless_start();
  index->scratch_ = {};
  return index;
}

std::optional<Frame> TraceIndex::frame_at(std::uint64_t offset, const Slot& slot) const {
  std::uint8_t bytes[kFrameBytes];
  if (slot.end - offset < kFrameBytes || !source_->read(offset, bytes)) return std::nullopt;
  const std::optional<Frame> frame = decode_frame(bytes);
  if (!frame.has_value() || frame->bytes_on_disk() > slot.end - offset) return std::nullopt;
  return frame;
}

bool TraceIndex::has_good_parts(const Frame& frame, std::uint64_t offset) const {
  scratch_.resize(std::size_t{frame.summary_bytes} + frame.body_bytes);
  if (!source_->read(offset + kFrameBytes, scratch_)) return false;
  const std::span<const std::uint8_t> parts(scratch_);
  return crc32c(parts.first(frame.summary_bytes)) == frame.summary_crc &&
         crc32c(parts.subspan(frame.summary_bytes)) == frame.body_crc;
}

// Where the next frame of this chapter (of any, if none is known) begins, at or after `from`; the
// slot's end if there is none.
std::uint64_t TraceIndex::next_frame(std::uint64_t from, const Slot& slot,
                                     std::optional<std::uint64_t> chapter) const {
  constexpr std::size_t kWindow = 64 << 10;
  std::vector<std::uint8_t> window;
  for (std::uint64_t at = from; at < slot.end; at += kWindow) {
    window.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, slot.end - at)));
    if (!source_->read(at, window)) return slot.end;
    for (std::size_t i = 0; i + sizeof(kFrameMagic) <= window.size(); i += kBlockAlignment) {
      if (load_le<std::uint32_t>(window.data() + i) != kFrameMagic) continue;
      const std::optional<Frame> frame = frame_at(at + i, slot);
      if (frame.has_value() && (!chapter.has_value() || frame->chapter == *chapter)) return at + i;
    }
  }
  return slot.end;
}

// A slot holds one chapter, block after block. Behind its last block may stand what is left of the
// chapter that had the slot before: whole blocks of a smaller chapter number, which do not count.
void TraceIndex::scan_slot(const Slot& slot) {
  std::optional<std::uint64_t> chapter;
  std::uint64_t at = slot.begin;
  std::uint64_t end_of_good = at;
  while (at < slot.end) {
    const std::optional<Frame> frame = frame_at(at, slot);
    if (!frame.has_value() || (chapter.has_value() && frame->chapter != *chapter)) {
      const std::uint64_t next = next_frame(at, slot, chapter);
      if (next == slot.end) break;
      ++damaged_blocks_;  // at least one block lay between
      at = next;
      continue;
    }
    chapter = frame->chapter;
    if (has_good_parts(*frame, at)) {
      blocks_.push_back({*frame, at});
    } else {
      ++damaged_blocks_;
    }
    at += frame->bytes_on_disk();
    end_of_good = at;
  }
  const bool is_reused =
      head_.layout.slot_count != 0 && chapter.value_or(0) >= head_.layout.slot_count;
  if (slot.end == file_bytes() && !is_reused) {
    // The end of a file that was cut within a block. Zeros are room that was never written.
    scratch_.resize(static_cast<std::size_t>(slot.end - std::min(end_of_good, slot.end)));
    if (source_->read(end_of_good, scratch_) &&
        std::any_of(scratch_.begin(), scratch_.end(),
                    [](std::uint8_t byte) { return byte != 0; }) &&
        !frame_at(end_of_good, slot).has_value()) {
      unread_bytes_ = scratch_.size();
    }
  }
}

// A chapter without its keyframe at the start of what is held says nothing about the state before
// it (it was being overwritten when the process died): it counts as dropped.
void TraceIndex::leave_out_headless_start() {
  const auto head = std::find_if(blocks_.begin(), blocks_.end(), [](const BlockRef& block) {
    return block.frame.type == BlockType::kChapter;
  });
  blocks_.erase(blocks_.begin(), head);
}

bool TraceIndex::read_summary(const BlockRef& block, std::vector<std::uint8_t>& out) const {
  out.resize(block.frame.summary_bytes);
  return source_->read(block.offset + kFrameBytes, out);
}

bool TraceIndex::read_body(const BlockRef& block, std::vector<std::uint8_t>& out) const {
  std::vector<std::uint8_t> stored(block.frame.body_bytes);
  if (!source_->read(block.offset + kFrameBytes + block.frame.summary_bytes, stored)) return false;
  if ((block.frame.flags & kFlagCompressed) == 0) {
    out.swap(stored);
    return out.size() == block.frame.raw_bytes;
  }
  out.resize(block.frame.raw_bytes);
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  return ZSTD_isError(size) == 0 && size == out.size();
}

}  // namespace levee::record
