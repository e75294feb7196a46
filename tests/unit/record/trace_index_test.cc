#include "allocator/record/trace_index.h"

#include <gtest/gtest.h>

#include "allocator/record/byte_coding.h"
#include "allocator/record/crc32c.h"

namespace levee::record {
namespace {

/// A file put together by hand: a head, then blocks at given places.
class HandMade {
 public:
  explicit HandMade(Bytes cap = {}) {
    TraceHeader header;
    header.cap = cap;
    layout = SlotLayout::for_cap(cap);
    bytes = encode_file_head(header, layout);
  }
  /// Puts a block at `at` of a slot and returns where it ends.
  std::uint64_t put(std::uint64_t slot, std::uint64_t at, BlockType type, std::uint64_t chapter,
                    std::uint64_t number) {
    ByteWriter body;
    if (type == BlockType::kChapter) put_keyframe({}, body);
    Frame frame;
    frame.type = type;
    frame.chapter = chapter;
    frame.number = number;
    frame.body_bytes = frame.raw_bytes = static_cast<std::uint32_t>(body.size());
    frame.body_crc = crc32c(body.bytes());
    frame.summary_crc = crc32c({});
    const std::uint64_t begin = 4096 + slot * layout.slot_bytes + at;
    if (bytes.size() < begin + frame.bytes_on_disk()) bytes.resize(begin + frame.bytes_on_disk());
    encode_frame(frame, bytes.data() + begin);
    std::copy(body.bytes().begin(), body.bytes().end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(begin + kFrameBytes));
    return at + frame.bytes_on_disk();
  }
  std::vector<std::uint64_t> numbers() {
    std::string why;
    index = TraceIndex::build(ByteSource::of_bytes(bytes), &why);
    std::vector<std::uint64_t> all;
    for (const BlockRef& block : index->blocks()) all.push_back(block.frame.number);
    return all;
  }
  SlotLayout layout;
  std::vector<std::uint8_t> bytes;
  std::unique_ptr<TraceIndex> index;
};

TEST(TraceIndex, BlocksComeInTheOrderOfTheirNumbersWhereverTheirSlotIs) {
  HandMade file(1_MiB);
  std::uint64_t at = file.put(1, 0, BlockType::kChapter, 1, 2);
  file.put(1, at, BlockType::kEvents, 1, 3);
  at = file.put(0, 0, BlockType::kChapter, 4, 9);  // has overwritten chapter 0
  file.put(0, at, BlockType::kEvents, 4, 10);
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{2, 3, 9, 10}));
  EXPECT_EQ(file.index->damaged_blocks(), 0U);
}

TEST(TraceIndex, WhatIsLeftOfAnOverwrittenChapterDoesNotCount) {
  HandMade file(1_MiB);
  std::uint64_t at = file.put(0, 0, BlockType::kChapter, 4, 9);
  file.put(0, at, BlockType::kEvents, 0, 1);  // of the chapter before
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{9}));
  EXPECT_EQ(file.index->damaged_blocks(), 0U);
}

TEST(TraceIndex, ADamagedFrameIsSteppedOver) {
  HandMade file;
  std::uint64_t at = file.put(0, 0, BlockType::kChapter, 0, 0);
  const std::uint64_t damaged = at;
  at = file.put(0, at, BlockType::kEvents, 0, 1);
  at = file.put(0, at, BlockType::kEvents, 0, 2);
  file.bytes[4096 + damaged + 20] ^= 1;
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(file.index->damaged_blocks(), 1U);
}

TEST(TraceIndex, AChapterWithoutItsBeginningIsLeftOutAtTheStartOnly) {
  HandMade file(1_MiB);
  std::uint64_t at = file.put(0, 0, BlockType::kChapter, 0, 0);
  at = file.put(0, at, BlockType::kEvents, 0, 1);
  at = file.put(1, 0, BlockType::kChapter, 1, 2);
  file.put(1, at, BlockType::kEvents, 1, 3);
  at = file.put(2, 0, BlockType::kChapter, 2, 4);
  file.put(2, at, BlockType::kEvents, 2, 5);
  file.bytes[4096 + 20] ^= 1;                               // keyframe of chapter 0
  file.bytes[4096 + 2 * file.layout.slot_bytes + 20] ^= 1;  // and of chapter 2
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{2, 3, 5}));
  EXPECT_EQ(file.index->damaged_blocks(), 2U);
}

TEST(TraceIndex, ABlockOfAnUnknownTypeIsListedAndHarmsNothing) {
  HandMade file;
  std::uint64_t at = file.put(0, 0, BlockType::kChapter, 0, 0);
  at = file.put(0, at, static_cast<BlockType>(77), 0, 1);
  file.put(0, at, BlockType::kEvents, 0, 2);
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace levee::record
