// What a trace file defines besides events: its header, devices, lanes, threads, pools, texts; and
// their bytes.
//
// Owns the plain types of these tables and the coding of the file head, of definition entries and
// of keyframes. Promises: decoding any bytes is safe and uses memory in proportion to them; an
// entry of an unknown kind is skipped. Format: FORMAT.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/record/byte_coding.h"
#include "allocator/record/recorder.h"
#include "allocator/record/trace_format.h"
#include "allocator/record/trace_state.h"

namespace levee::record {

/// What the file says about the process that wrote it.
struct TraceHeader {
  std::uint32_t format_version = 0;
  std::string levee_version;
  std::uint32_t pid = 0;
  std::int32_t rank = -1;  ///< RANK of the launcher; -1 = none
  std::int32_t local_rank = -1;
  std::int32_t world_size = -1;
  std::string launch;  ///< the same text in all ranks of one launch; empty = none, or not known
  Nanos start;         ///< on levee's clock: when recording began
  std::int64_t start_unix_ns = 0;  ///< the same moment as wall time
  std::string clock;  ///< where times come from: "monotonic", or "modelled" on a simulated device
  std::string host;
  std::string program;  ///< command line
  std::string config;   ///< settings, one "name=value" a line
  Bytes cap;            ///< size at which the oldest blocks are overwritten; 0 = never

  bool is_modelled() const { return clock == "modelled"; }
  /// Wall time of a moment on levee's clock, Unix ns.
  std::int64_t unix_ns(Nanos time) const { return start_unix_ns + (time.value - start.value); }
};

struct TraceDevice {
  DeviceId device;
  std::string name;
  Bytes total_memory;
};

struct TraceLane {
  LaneId id;
  DeviceId device;
  StreamId stream;
  bool is_other_streams = false;  ///< stands for all streams that came after lanes ran out
  bool is_cupti_number =
      false;  ///< `stream` is CUPTI's number of a stream that the allocator has not seen
};

struct TraceThread {
  std::uint32_t index = 0;  ///< as in `TraceEvent::thread`; never reused in a file
  std::uint64_t os_id = 0;  ///< gettid
  std::string name;
};

struct TracePool {
  std::uint16_t index = 0;  ///< as in `aux` of kAlloc and kFree; 0 is the default pool
  PoolId pool;
};

struct TraceContext {
  ContextId id;
  ContextKind kind = ContextKind::kNote;
  std::string_view text;  ///< a stack has one frame a line, innermost first
};

/// How the file ends.
enum class TraceEnding : std::uint8_t {
  kComplete,  ///< the process closed it
  kCut,       ///< no trailer: the process was killed, or is still running
  kStopped,   ///< recording turned itself off (disk full, ...); the reason is in
              ///< `Coverage::stop_reason`
};

// The file head: fixed fields and the header as text.
std::vector<std::uint8_t> encode_file_head(const TraceHeader& header, const SlotLayout& layout);
struct FileHead {
  TraceHeader header;
  SlotLayout layout;
  std::uint64_t bytes = 0;  ///< where the first slot begins
};
/// Nothing, and a sentence in `why`, if `bytes` do not begin with the head of a trace of this
/// version.
std::optional<FileHead> decode_file_head(std::span<const std::uint8_t> bytes, std::string* why);

// Definition entries. Each is complete in itself, so that a writer may repeat and reorder them.
void put_definition(const TraceDevice& device, ByteWriter& out);
void put_definition(const TraceLane& lane, ByteWriter& out);
void put_definition(const TraceThread& thread, ByteWriter& out);
void put_definition(const TracePool& pool, ByteWriter& out);
void put_definition(const TraceContext& context, ByteWriter& out);

/// Who is told what a definitions block holds.
class DefinitionVisitor {
 public:
  virtual ~DefinitionVisitor() = default;
  virtual void on(TraceDevice device) = 0;
  virtual void on(TraceLane lane) = 0;
  virtual void on(TraceThread thread) = 0;
  virtual void on(TracePool pool) = 0;
  virtual void on(const TraceContext& context) = 0;  ///< its text lies in the block's bytes
};
/// False if the entries are malformed; what came before has been told.
bool visit_definitions(std::span<const std::uint8_t> body, DefinitionVisitor& visitor);

/// A keyframe: totals of the recording before the chapter, and the state.
struct Keyframe {
  std::uint64_t events_before = 0;  ///< written in earlier chapters
  std::uint64_t lost_before = 0;
  TraceState state;
};
void put_keyframe(const Keyframe& keyframe, ByteWriter& out);
bool take_keyframe(std::span<const std::uint8_t> body, Keyframe& out);

/// The trailer.
struct EndRecord {
  TraceEnding ending = TraceEnding::kComplete;
  std::string reason;
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
};
void put_end(const EndRecord& end, ByteWriter& out);
bool take_end(std::span<const std::uint8_t> body, EndRecord& out);

}  // namespace levee::record
