#include "allocator/record/trace_format.h"

#include <algorithm>

#include "allocator/record/byte_coding.h"
#include "allocator/record/crc32c.h"

namespace levee::record {
namespace {

// Offsets in a frame; FORMAT.md has the same table.
constexpr std::size_t kType = 4;
constexpr std::size_t kFlags = 5;
constexpr std::size_t kChapter = 8;
constexpr std::size_t kNumber = 16;
constexpr std::size_t kFirstTime = 24;
constexpr std::size_t kLastTime = 32;
constexpr std::size_t kKinds = 40;
constexpr std::size_t kEventCount = 48;
constexpr std::size_t kSummaryBytes = 52;
constexpr std::size_t kBodyBytes = 56;
constexpr std::size_t kRawBytes = 60;
constexpr std::size_t kBodyCrc = 64;
constexpr std::size_t kSummaryCrc = 68;
constexpr std::size_t kFrameCrc = 72;  // over everything before it

}  // namespace

void encode_frame(const Frame& frame, std::uint8_t* out) {
  std::fill_n(out, kFrameBytes, std::uint8_t{0});
  store_le(out, kFrameMagic);
  out[kType] = static_cast<std::uint8_t>(frame.type);
  out[kFlags] = frame.flags;
  store_le(out + kChapter, frame.chapter);
  store_le(out + kNumber, frame.number);
  store_le(out + kFirstTime, frame.first_time);
  store_le(out + kLastTime, frame.last_time);
  store_le(out + kKinds, frame.kinds);
  store_le(out + kEventCount, frame.event_count);
  store_le(out + kSummaryBytes, frame.summary_bytes);
  store_le(out + kBodyBytes, frame.body_bytes);
  store_le(out + kRawBytes, frame.raw_bytes);
  store_le(out + kBodyCrc, frame.body_crc);
  store_le(out + kSummaryCrc, frame.summary_crc);
  store_le(out + kFrameCrc, crc32c({out, kFrameCrc}));
}

std::optional<Frame> decode_frame(std::span<const std::uint8_t> bytes) {
  const std::uint8_t* in = bytes.data();
  if (bytes.size() < kFrameBytes || load_le<std::uint32_t>(in) != kFrameMagic ||
      load_le<std::uint32_t>(in + kFrameCrc) != crc32c({in, kFrameCrc})) {
    return std::nullopt;
  }
  Frame frame;
  frame.type = static_cast<BlockType>(in[kType]);
  frame.flags = in[kFlags];
  frame.chapter = load_le<std::uint64_t>(in + kChapter);
  frame.number = load_le<std::uint64_t>(in + kNumber);
  frame.first_time = load_le<std::int64_t>(in + kFirstTime);
  frame.last_time = load_le<std::int64_t>(in + kLastTime);
  frame.kinds = load_le<std::uint64_t>(in + kKinds);
  frame.event_count = load_le<std::uint32_t>(in + kEventCount);
  frame.summary_bytes = load_le<std::uint32_t>(in + kSummaryBytes);
  frame.body_bytes = load_le<std::uint32_t>(in + kBodyBytes);
  frame.raw_bytes = load_le<std::uint32_t>(in + kRawBytes);
  frame.body_crc = load_le<std::uint32_t>(in + kBodyCrc);
  frame.summary_crc = load_le<std::uint32_t>(in + kSummaryCrc);
  if (frame.event_count > kMaxBlockEvents || frame.raw_bytes > kMaxRawBytes ||
      frame.summary_bytes > kMaxSummaryBytes || frame.body_bytes > kMaxRawBytes) {
    return std::nullopt;
  }
  return frame;
}

SlotLayout SlotLayout::for_cap(Bytes cap) {
  if (cap.value == 0) return {};
  // 64 slots, so that overwriting the oldest drops 1.6 % of what is held.
  constexpr std::uint64_t kWantedSlots = 64;
  const std::uint64_t wanted = cap.value / kWantedSlots / kFileHeadAlignment * kFileHeadAlignment;
  SlotLayout layout;
  layout.slot_bytes = std::clamp(wanted, kMinSlotBytes, kMaxSlotBytes);
  const std::uint64_t room = cap.value - std::min<std::uint64_t>(cap.value, kFileHeadAlignment);
  layout.slot_count = std::max(room / layout.slot_bytes, kMinSlots);
  return layout;
}

}  // namespace levee::record
