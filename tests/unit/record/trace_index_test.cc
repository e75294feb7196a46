#include "allocator/record/trace_index.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

TEST(TraceIndex, WhatIsLeftOfABlockAtTheEndIsCounted) {
  HandMade file;
  std::uint64_t at = file.put(0, 0, BlockType::kChapter, 0, 0);
  file.put(0, at, BlockType::kEvents, 0, 1);
  file.bytes.resize(4096 + at + 20);
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(file.index->unread_bytes(), 20U);
  file.bytes.resize(4096 + at);
  EXPECT_EQ(file.numbers(), (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(file.index->unread_bytes(), 0U);
}

/// A file of which reads of up to `most` bytes behind `from` fail once `is_gone`: a network's file
/// system lost it.
class LosingSource final : public ByteSource {
 public:
  LosingSource(std::span<const std::uint8_t> bytes, const bool& is_gone, std::size_t most,
               std::uint64_t from)
      : bytes_(ByteSource::of_bytes(bytes)), is_gone_(is_gone), most_(most), from_(from) {}
  std::uint64_t size() const override { return bytes_->size(); }
  bool read(std::uint64_t offset, std::span<std::uint8_t> out) const override {
    if (is_gone_ && out.size() <= most_ && offset >= from_) return false;
    return bytes_->read(offset, out);
  }

 private:
  std::unique_ptr<ByteSource> bytes_;
  const bool& is_gone_;
  std::size_t most_;
  std::uint64_t from_;
};

TEST(TraceIndex, PartsThatCannotBeReadAreDamage) {
  HandMade file;  // two blocks alike: what was read of the first is no excuse for the second
  const std::uint64_t second = file.put(0, 0, BlockType::kChapter, 0, 0);
  file.put(0, second, BlockType::kChapter, 0, 1);
  bool is_gone = false;
  const auto build = [&](std::size_t most) {
    std::string why;
    return TraceIndex::build(
        std::make_unique<LosingSource>(file.bytes, is_gone, most, 4096 + second), &why);
  };
  const auto index = build(SIZE_MAX);
  ASSERT_EQ(index->blocks().size(), 2U);
  std::vector<std::uint8_t> body;
  EXPECT_TRUE(index->read_body(index->blocks()[1], body));
  is_gone = true;
  EXPECT_FALSE(index->read_body(index->blocks()[1], body));
  EXPECT_FALSE(index->read_summary(index->blocks()[1], body));
  // The frames can be read, which are larger than these blocks' parts, and those cannot.
  const std::size_t parts = index->blocks()[0].frame.body_bytes;
  ASSERT_GT(parts, 0U);
  ASSERT_LT(parts, kFrameBytes);
  const auto damaged = build(parts);
  EXPECT_EQ(damaged->blocks().size(), 1U);
  EXPECT_EQ(damaged->damaged_blocks(), 1U);
}

TEST(ByteSource, WhatIsNotAllThereIsNotRead) {
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  std::vector<std::uint8_t> out(2);
  const auto memory = ByteSource::of_bytes(bytes);
  EXPECT_TRUE(memory->read(1, out));
  EXPECT_FALSE(memory->read(2, out));
  EXPECT_FALSE(memory->read(4, out));
  EXPECT_FALSE(memory->read(UINT64_MAX, out));
  const std::string path = testing::TempDir() + "levee_byte_source_" + std::to_string(::getpid());
  std::ofstream(path) << "abc";
  std::string why;
  const auto file = ByteSource::of_file(path, &why);
  ASSERT_NE(file, nullptr) << why;
  EXPECT_TRUE(file->read(1, out));
  EXPECT_EQ(out, (std::vector<std::uint8_t>{'b', 'c'}));
  EXPECT_FALSE(file->read(2, out));
  ASSERT_EQ(::truncate(path.c_str(), 1), 0) << "another process cut it short meanwhile";
  EXPECT_FALSE(file->read(1, out));
  ::unlink(path.c_str());
}

TEST(Frame, SizesThatNobodyWritesAreRefused) {
  const auto is_read = [](const Frame& frame) {
    std::array<std::uint8_t, kFrameBytes> bytes{};
    encode_frame(frame, bytes.data());
    return decode_frame(bytes).has_value();
  };
  EXPECT_TRUE(is_read({}));
  constexpr std::uint32_t kHuge = UINT32_MAX;
  Frame frame;
  for (std::uint32_t* size :
       {&frame.event_count, &frame.raw_bytes, &frame.summary_bytes, &frame.body_bytes}) {
    *size = kHuge;
    EXPECT_FALSE(is_read(frame));
    *size = 0;
  }
}

}  // namespace
}  // namespace levee::record
