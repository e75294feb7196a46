// Any bytes as a trace file, and as each part of one: reading must not crash, hang, or need memory
// out of proportion.
//
// The first byte of an input says what the rest is: see `Target`. Checksums are put right for
// kRepairedFile, so that what lies behind them is reached as well. Crashes that were found are kept
// in tests/fuzz/corpus/trace.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "allocator/record/byte_coding.h"
#include "allocator/record/crc32c.h"
#include "allocator/record/event_block.h"
#include "allocator/record/state_tracker.h"
#include "allocator/record/trace_format.h"
#include "allocator/record/trace_reader.h"
#include "allocator/record/trace_tables.h"

namespace levee::record {
namespace {

enum class Target : std::uint8_t {
  kFile,
  kRepairedFile,
  kEvents,
  kSummary,
  kKeyframe,
  kDefinitions,
  kEnd,
  kHead,
  kCount
};

void require(bool condition) {
  if (!condition) std::abort();
}

// A hostile file may claim 200 events a byte; reading them all is linear, but a fuzzer wants many
// runs a second.
constexpr std::uint64_t kMaxEvents = 200'000;

void read_everything(std::span<const std::uint8_t> bytes) {
  std::string why;
  const auto reader = TraceReader::from_bytes(std::as_bytes(bytes), "input", &why);
  if (reader == nullptr) {
    require(!why.empty());
    return;
  }
  const Coverage& coverage = reader->coverage();
  for (const TraceContext& context : reader->contexts())
    require(context.text.size() <= bytes.size() * 256 + (16 << 20));
  for (std::size_t chapter = 0; chapter < std::min<std::size_t>(reader->chapter_count(), 8);
       ++chapter) {
    StateTracker tracker(reader->chapter_state(chapter));
    for (const TraceLane& lane : reader->lanes()) tracker.set_lane_device(lane.id, lane.device);
    EventQuery query;
    query.first_chapter = chapter;
    std::uint64_t count = 0;
    const auto cursor = reader->events(query);
    for (auto batch = cursor->next(); !batch.empty() && count < kMaxEvents;
         batch = cursor->next()) {
      for (const TraceEvent& event : batch) {
        tracker.apply(event.event, event.thread);
        static_cast<void>(reader->context(event.event.context()));
        static_cast<void>(reader->lane(event.event.lane));
        static_cast<void>(reader->pool(event.event.aux));
      }
      count += batch.size();
    }
    require(count <= coverage.events);
    tracker.snapshot(coverage.last, 1000);
  }
  for (const std::size_t points : {std::size_t{0}, std::size_t{10}, std::size_t{100'000}}) {
    const CounterSeries series =
        reader->counters(DeviceId{0}, Nanos{INT64_MIN}, Nanos{INT64_MAX}, points);
    require(series.time_ns.size() <= std::max<std::size_t>(points, 2) + 1);
    require(std::is_sorted(series.time_ns.begin(), series.time_ns.end()));
    for (std::size_t i = 0; i < series.time_ns.size(); ++i)
      require(series.active_min[i] <= series.active_max[i]);
  }
  reader->counters(DeviceId{-1}, coverage.first, coverage.last, 50);
}

// Makes checksums right wherever a frame begins.
std::vector<std::uint8_t> repaired(std::span<const std::uint8_t> input) {
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  if (bytes.size() < kFileHeadBytes) return bytes;
  const std::span<std::uint8_t> all(bytes);
  const std::uint64_t text_bytes = load_le<std::uint32_t>(bytes.data() + 32);
  if (kFileHeadBytes + text_bytes <= bytes.size()) {
    store_le(bytes.data() + 36,
             crc32c(all.subspan(kFileHeadBytes, static_cast<std::size_t>(text_bytes))));
  }
  store_le(bytes.data() + 40, crc32c(all.first(40)));
  for (std::size_t at = 0; at + kFrameBytes <= bytes.size(); at += kBlockAlignment) {
    std::uint8_t* frame = bytes.data() + at;
    if (load_le<std::uint32_t>(frame) != kFrameMagic) continue;
    const std::uint64_t summary = load_le<std::uint32_t>(frame + 52);
    const std::uint64_t body = load_le<std::uint32_t>(frame + 56);
    if (at + kFrameBytes + summary + body <= bytes.size()) {
      const auto parts = all.subspan(at + kFrameBytes);
      store_le(frame + 64, crc32c(parts.subspan(static_cast<std::size_t>(summary),
                                                static_cast<std::size_t>(body))));
      store_le(frame + 68, crc32c(parts.first(static_cast<std::size_t>(summary))));
    }
    store_le(frame + 72, crc32c(all.subspan(at, 72)));
  }
  return bytes;
}

class Ignore final : public DefinitionVisitor {
  void on(TraceDevice) override {}
  void on(TraceLane) override {}
  void on(TraceThread) override {}
  void on(TracePool) override {}
  void on(const TraceContext&) override {}
};

// What was decoded must come back when it is encoded: in order of its keys, as a writer would have
// it.
void decode_events(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 2) return;
  Frame frame;
  frame.event_count = load_le<std::uint16_t>(bytes.data());
  if (frame.event_count > kMaxBlockEvents) return;
  EventDecoder decoder;
  std::vector<StagedEvent> events;
  if (!decoder.decode(frame, bytes.subspan(2), events) || events.empty()) return;
  EventEncoder encoder;
  ByteWriter body;
  encoder.encode(events, body);
  frame.first_time = encoder.first_time();
  std::vector<StagedEvent> again;
  require(decoder.decode(frame, body.bytes(), again) && again.size() == events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    require(std::memcmp(&events[i].event, &again[i].event, sizeof(Event)) == 0);
    require(events[i].thread == again[i].thread);
  }
  StateTracker tracker;
  ByteWriter summary;
  summarize(events, tracker, summary);
  std::vector<DeviceSummary> devices;
  require(decode_summary(frame, summary.bytes(), devices));
}

void decode_keyframe(std::span<const std::uint8_t> bytes) {
  Keyframe keyframe;
  if (!take_keyframe(bytes, keyframe)) return;
  ByteWriter out;
  put_keyframe(keyframe, out);
  Keyframe again;
  require(take_keyframe(out.bytes(), again));
  require(again.state.live == keyframe.state.live && again.state.devices == keyframe.state.devices);
  StateTracker(keyframe.state).snapshot({});
}

}  // namespace
}  // namespace levee::record

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  using namespace levee::record;
  if (byte_count == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, byte_count - 1);
  switch (static_cast<Target>(data[0] % static_cast<std::uint8_t>(Target::kCount))) {
    case Target::kFile:
      read_everything(rest);
      break;
    case Target::kRepairedFile:
      read_everything(repaired(rest));
      break;
    case Target::kEvents:
      decode_events(rest);
      break;
    case Target::kSummary: {
      std::vector<DeviceSummary> devices;
      decode_summary(Frame{}, rest, devices);
      break;
    }
    case Target::kKeyframe:
      decode_keyframe(rest);
      break;
    case Target::kDefinitions: {
      Ignore ignore;
      visit_definitions(rest, ignore);
      break;
    }
    case Target::kEnd: {
      EndRecord end;
      take_end(rest, end);
      break;
    }
    case Target::kHead: {
      std::string why;
      decode_file_head(rest, &why);
      break;
    }
    case Target::kCount:
      break;
  }
  return 0;
}
