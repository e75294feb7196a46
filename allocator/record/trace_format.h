// The fixed parts of a trace file: magic numbers, limits, the frame around each block. FORMAT.md
// says what each byte means.
//
// Promises: what is written here never changes for format version 1; `decode_frame` accepts only a
// frame whose checksum is right and whose sizes are within the limits, so that nobody allocates by
// a damaged number. Costs: a frame is 80 bytes on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <levee/units.h>

namespace levee::record {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr char kFileMagic[8] = {'L', 'E', 'V', 'E', 'E', 'T', 'R', 'C'};
inline constexpr std::uint32_t kFrameMagic = 0x314B4C42;  // "BLK1" on disk

inline constexpr std::size_t kFileHeadBytes = 48;        // fixed fields before the text
inline constexpr std::size_t kFileHeadAlignment = 4096;  // slots begin at a multiple of it
inline constexpr std::size_t kMaxFileHeadBytes = 1 << 20;
inline constexpr std::size_t kFrameBytes = 80;
inline constexpr std::size_t kBlockAlignment = 8;

inline constexpr std::uint64_t kMinSlotBytes = 256 << 10;
inline constexpr std::uint64_t kMaxSlotBytes = 16 << 20;
inline constexpr std::uint64_t kMinSlots =
    4;  // one being written, one about to be overwritten, two to read

inline constexpr std::uint32_t kMaxBlockEvents = 16384;
/// A block after decompression. 16,384 events need at most 72 bytes each, 65,536 live blocks at
/// most 56.
inline constexpr std::uint32_t kMaxRawBytes = 4 << 20;
inline constexpr std::uint32_t kMaxSummaryBytes = 1 << 20;
inline constexpr std::size_t kMaxLiveBlocks = 65536;    // in a keyframe
inline constexpr std::size_t kMaxTextBytes = 64 << 10;  // of one interned text
inline constexpr std::size_t kEventsPerBin = 256;       // of a block's summary

enum class BlockType : std::uint8_t {
  kChapter = 1,      ///< keyframe: the state at the start of a chapter; the first block of a slot
  kDefinitions = 2,  ///< texts, lanes, threads, pools, devices
  kEvents = 3,       ///< events as the allocator and the program emitted them
  kActivity = 4,     ///< kernels, copies, memsets, by time
  kEnd = 5,          ///< how the recording ended; nothing follows
};

inline constexpr std::uint8_t kFlagCompressed = 1;  // the body is one zstd frame

/// Around each block. On disk: these fields, then the summary, the body, and zeros up to a multiple
/// of 8.
struct Frame {
  BlockType type = BlockType::kEnd;
  std::uint8_t flags = 0;
  std::uint64_t chapter = 0;    ///< counts from 0; not reused
  std::uint64_t number = 0;     ///< of the block in the recording
  std::int64_t first_time = 0;  ///< smallest time of its events
  std::int64_t last_time = 0;   ///< largest
  std::uint64_t kinds = 0;      ///< bit k: it holds events of kind k
  std::uint32_t event_count = 0;
  std::uint32_t summary_bytes = 0;
  std::uint32_t body_bytes = 0;  ///< as stored
  std::uint32_t raw_bytes = 0;   ///< of the body after decompression
  std::uint32_t body_crc = 0;
  std::uint32_t summary_crc = 0;

  std::uint64_t bytes_on_disk() const {
    const std::uint64_t bytes = kFrameBytes + std::uint64_t{summary_bytes} + body_bytes;
    return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
};

void encode_frame(const Frame& frame, std::uint8_t* out);
/// Nothing if these are not the bytes of a frame. `bytes` holds at least kFrameBytes.
std::optional<Frame> decode_frame(std::span<const std::uint8_t> bytes);

/// How the file is cut. cap 0: any number of slots of the largest size, never reused.
struct SlotLayout {
  std::uint64_t slot_bytes = kMaxSlotBytes;
  std::uint64_t slot_count = 0;  ///< 0 = without limit

  /// The layout for a size cap. Caps below kMinSlots * kMinSlotBytes are raised to that.
  static SlotLayout for_cap(Bytes cap);
  /// Events that fit one block, so that the worst case is a small part of a slot.
  std::uint32_t block_events() const {
    const std::uint64_t events = slot_bytes / 512;
    return static_cast<std::uint32_t>(events < kMaxBlockEvents ? events : kMaxBlockEvents);
  }
  std::size_t live_blocks() const {
    const std::size_t blocks = static_cast<std::size_t>(slot_bytes / 256);
    return blocks < kMaxLiveBlocks ? blocks : kMaxLiveBlocks;
  }
};

}  // namespace levee::record
