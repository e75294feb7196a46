// The reader of a trace file: `TraceReader` over `TraceIndex`.
//
// Owns the index and the tables. Everything is immutable once opened. Internal to record; users
// include trace_reader.h.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "allocator/record/event_block.h"
#include "allocator/record/trace_index.h"
#include "allocator/record/trace_reader.h"

namespace levee::record {

class TraceFile final : public TraceReader, private DefinitionVisitor {
 public:
  static std::unique_ptr<TraceReader> over(std::unique_ptr<ByteSource> source,
                                           const std::string& name, std::string* why);

  const TraceHeader& header() const override { return index_->head().header; }
  const Coverage& coverage() const override { return coverage_; }
  const std::vector<TraceDevice>& devices() const override { return devices_; }
  const std::vector<TraceLane>& lanes() const override { return lanes_; }
  const std::vector<TraceThread>& threads() const override { return threads_; }
  const std::vector<TracePool>& pools() const override { return pools_; }
  const std::vector<TraceContext>& contexts() const override { return contexts_; }
  TraceLane lane(LaneId id) const override;
  TracePool pool(std::uint16_t index) const override;
  TraceContext context(ContextId id) const override;
  std::size_t chapter_count() const override { return chapters_.size(); }
  Nanos chapter_start(std::size_t chapter) const override;
  TraceState chapter_state(std::size_t chapter) const override;
  std::unique_ptr<EventCursor> events(const EventQuery& query) const override;
  CounterSeries counters(DeviceId device, Nanos from, Nanos to,
                         std::size_t max_points) const override;

  // For cursors and series.
  const TraceIndex& index() const { return *index_; }
  /// Number in the file of the chapter at an index of `chapter_count`.
  std::uint64_t chapter_number(std::size_t chapter) const;

 private:
  explicit TraceFile(std::unique_ptr<TraceIndex> index);
  void read_tables();
  void read_coverage();
  void on(TraceDevice device) override;
  void on(TraceLane lane) override;
  void on(TraceThread thread) override;
  void on(TracePool pool) override;
  void on(const TraceContext& context) override;

  std::unique_ptr<TraceIndex> index_;
  Coverage coverage_;
  std::vector<TraceDevice> devices_;
  std::vector<TraceLane> lanes_;
  std::vector<TraceThread> threads_;
  std::vector<TracePool> pools_;
  std::vector<TraceContext> contexts_;
  std::deque<std::string> texts_;  // what contexts_ points at; a deque, so that it never moves
  std::uint64_t text_bytes_ = 0;
  std::vector<std::size_t> chapters_;  // indices of keyframe blocks
};

/// True if `frame` is about events, and may hold some of the query.
bool may_hold(const Frame& frame, const EventQuery& query, std::uint64_t first_chapter);

}  // namespace levee::record
