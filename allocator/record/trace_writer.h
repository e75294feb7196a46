// Puts events and definitions into a trace file, block by block.
//
// Owns the file, the events that wait for their block, and the state that keyframes are made of.
// Promises: what `flush` has returned from survives the process; every block is complete in itself
// and written in one piece, so that the file is readable at all times, also after a kill; with a
// size cap the file never grows beyond it (`SlotLayout`), the oldest chapter is overwritten and
// everything that later ones need (texts, state) has been written again before. After the first
// failed write it writes no more and `error` says why. Does not choose the file's name
// (trace_path.h) nor run a thread (trace_recorder.h). Not thread-safe. Costs: about 100 ns an
// event, all of it on the writer thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/record/byte_coding.h"
#include "allocator/record/event_block.h"
#include "allocator/record/state_tracker.h"
#include "allocator/record/trace_format.h"
#include "allocator/record/trace_tables.h"

struct ZSTD_CCtx_s;

namespace levee::record {

class TraceWriter {
 public:
  /// Writes the head of a trace into `file`, an empty file open for writing, which the writer
  /// closes. Null, with a reason such as "No space left on device" in `why`, if that fails.
  static std::unique_ptr<TraceWriter> start(int file, const TraceHeader& header, std::string* why);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// A definition entry as `put_definition` makes it. The bytes must outlive the writer: a size cap
  /// makes it write them again.
  void define(std::span<const std::uint8_t> entry);
  /// An event that comes after all earlier ones by `StagedEvent::key`, or late by a little. What it
  /// names is defined.
  void append(const StagedEvent& event);
  /// A kernel, copy or memset, in any order; of the pseudo-thread `thread`.
  void append_activity(const Event& event, std::uint32_t thread);

  /// Everything handed over so far is in the file when it returns true.
  bool flush();
  /// `flush`, then the trailer. Nothing may follow.
  bool finish(TraceEnding ending, std::string_view reason);

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  std::size_t staged() const { return events_.size() + activity_.size(); }
  std::uint64_t events_written() const { return events_written_; }
  std::uint64_t events_lost() const { return lost_; }
  std::uint64_t bytes_written() const { return bytes_written_; }
  bool is_live(std::uint64_t addr) { return tracker_.is_live(addr); }

 private:
  struct Definition {
    std::span<const std::uint8_t> entry;
    std::uint64_t chapter = kNeverWritten;
  };
  static constexpr std::uint64_t kNeverWritten = UINT64_MAX;

  TraceWriter(int file, const TraceHeader& header, const SlotLayout& layout,
              std::uint64_t head_bytes);

  void write_events();
  void write_activity();
  void write_new_definitions();
  void write_definitions(std::span<Definition* const> batch);
  /// Writes those of `all` for which `wanted` is true, in blocks of bounded size.
  template <typename Wanted>
  void write_definitions_if(std::span<Definition> all, Wanted wanted);
  void start_chapter();
  /// Compresses `body_` into `stored_` and fills in the frame's sizes.
  void store_body(Frame& frame);
  bool has_room(const Frame& frame, std::size_t summary_bound) const;
  void write_block(Frame& frame);
  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes);

  int file_;
  SlotLayout layout_;
  std::uint64_t head_bytes_;
  ZSTD_CCtx_s* compressor_;

  StateTracker tracker_;
  EventEncoder encoder_;
  std::vector<StagedEvent> events_;
  std::vector<StagedEvent> activity_;
  std::vector<Definition> definitions_;
  std::size_t next_definition_ = 0;  // those from here on have never been written

  std::uint64_t chapter_ = kNeverWritten;
  std::uint64_t position_ = 0;  // where the next block goes
  std::uint64_t slot_end_ = 0;
  std::uint64_t chapter_definition_bytes_ = 0;
  std::uint64_t block_number_ = 0;
  std::uint64_t events_written_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t activity_sequence_ = 0;
  std::uint64_t bytes_written_ = 0;
  Nanos latest_;  // key of the latest event written

  ByteWriter body_;  // before compression
  ByteWriter summary_;
  std::vector<std::uint8_t> stored_;  // after it
  std::vector<std::uint8_t> block_;   // frame, summary, body: what one write puts down
  std::string error_;
};

}  // namespace levee::record
