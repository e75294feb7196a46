// What opening a trace file finds out: where its bytes are, and which blocks are good.
//
// Owns the source of bytes and the list of blocks whose checksums are right. Promises: reading
// never leaves the source; a block's body comes back decompressed or not at all. Internal to the
// reader. Thread safety: const methods from several threads. Costs: opening reads each byte once,
// at the speed of CRC-32C.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/record/trace_format.h"
#include "allocator/record/trace_tables.h"

namespace levee::record {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  /// Fills `out` from `offset`; false if that range is not all there.
  virtual bool read(std::uint64_t offset, std::span<std::uint8_t> out) const = 0;

  /// Null, and why, if the file cannot be opened or is none.
  static std::unique_ptr<ByteSource> of_file(const std::string& path, std::string* why);
  static std::unique_ptr<ByteSource> of_bytes(std::span<const std::uint8_t> bytes);
};

struct BlockRef {
  Frame frame;
  std::uint64_t offset = 0;
};

class TraceIndex {
 public:
  /// Null, and a sentence, if this is no trace.
  static std::unique_ptr<TraceIndex> build(std::unique_ptr<ByteSource> source, std::string* why);

  const FileHead& head() const { return head_; }
  std::uint64_t file_bytes() const { return source_->size(); }
  /// In the order they were written; the first one is the keyframe of the oldest chapter held.
  const std::vector<BlockRef>& blocks() const { return blocks_; }
  std::uint64_t damaged_blocks() const { return damaged_blocks_; }
  std::uint64_t unread_bytes() const { return unread_bytes_; }

  bool read_summary(const BlockRef& block, std::vector<std::uint8_t>& out) const;
  /// The body, decompressed. False if it cannot be.
  bool read_body(const BlockRef& block, std::vector<std::uint8_t>& out) const;

 private:
  struct Slot {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  TraceIndex(std::unique_ptr<ByteSource> source, FileHead head)
      : source_(std::move(source)), head_(std::move(head)) {}
  void scan_slot(const Slot& slot);
  std::optional<Frame> frame_at(std::uint64_t offset, const Slot& slot) const;
  bool has_good_parts(const Frame& frame, std::uint64_t offset) const;
  std::uint64_t next_frame(std::uint64_t from, const Slot& slot,
                           std::optional<std::uint64_t> chapter) const;
  void leave_out_headless_start();

  std::unique_ptr<ByteSource> source_;
  FileHead head_;
  std::vector<BlockRef> blocks_;
  std::uint64_t damaged_blocks_ = 0;
  std::uint64_t unread_bytes_ = 0;
  mutable std::vector<std::uint8_t> scratch_;  // while building, which one thread does
};

}  // namespace levee::record
