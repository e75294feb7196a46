#include "allocator/record/trace_tables.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "allocator/record/crc32c.h"

namespace levee::record {
namespace {

// Offsets in the file head; FORMAT.md has the same table.
constexpr std::size_t kVersion = 8;
constexpr std::size_t kHeadBytes = 12;
constexpr std::size_t kSlotBytes = 16;
constexpr std::size_t kSlotCount = 24;
constexpr std::size_t kTextBytes = 32;
constexpr std::size_t kTextCrc = 36;
constexpr std::size_t kHeadCrc = 40;  // over everything before it

constexpr std::size_t kMaxLaunchBytes = 4096;

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

void put_line(std::string& text, std::string_view key, std::string_view value) {
  text += key;
  text += '=';
  for (const char c : value) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  text += '\n';
}
void put_line(std::string& text, std::string_view key, std::int64_t value) {
  put_line(text, key, std::to_string(value));
}

std::string unescape(std::string_view value) {
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '\\' || i + 1 == value.size()) {
      text += value[i];
    } else {
      text += value[++i] == 'n' ? '\n' : value[i];
    }
  }
  return text;
}

std::int64_t to_number(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);  // 0 for what is no number
  return number;
}

void set_field(TraceHeader& header, std::string_view key, std::string_view value) {
  if (key == "levee") header.levee_version = unescape(value);
  if (key == "pid") header.pid = static_cast<std::uint32_t>(to_number(value));
  if (key == "rank") header.rank = static_cast<std::int32_t>(to_number(value));
  if (key == "local_rank") header.local_rank = static_cast<std::int32_t>(to_number(value));
  if (key == "world_size") header.world_size = static_cast<std::int32_t>(to_number(value));
  if (key == "launch") header.launch = unescape(value);
  if (key == "start_ns") header.start = Nanos{to_number(value)};
  if (key == "start_unix_ns") header.start_unix_ns = to_number(value);
  if (key == "clock") header.clock = unescape(value);
  if (key == "host") header.host = unescape(value);
  if (key == "program") header.program = unescape(value);
  if (key == "config") header.config = unescape(value);
  if (key == "cap_bytes") header.cap = Bytes{static_cast<std::uint64_t>(to_number(value))};
}

constexpr std::uint8_t kLaneIsOthers = 1;
constexpr std::uint8_t kLaneIsCuptiNumber = 2;

// Tags of definition entries.
enum class Tag : std::uint64_t { kContext = 1, kLane = 2, kThread = 3, kPool = 4, kDevice = 5 };

void put_entry(Tag tag, const ByteWriter& fields, ByteWriter& out) {
  out.put_varint(static_cast<std::uint64_t>(tag));
  out.put_varint(fields.size());
  out.put_bytes(fields.bytes());
}

// A varint that has to fit T; anything else makes the reader fail.
template <typename T>
bool take_into(ByteReader& in, T& out) {
  const std::uint64_t value = in.take_varint();
  out = static_cast<T>(value);
  return in.ok() && static_cast<std::uint64_t>(out) == value;
}
bool take_into(ByteReader& in, DeviceId& out) {
  const std::int64_t value = in.take_zigzag();
  out.value = static_cast<std::int32_t>(value);
  return in.ok() && out.value == value;
}

bool visit_context(ByteReader& in, DefinitionVisitor& visitor) {
  TraceContext context;
  std::uint8_t kind = 0;
  if (!take_into(in, context.id.value) || !take_into(in, kind)) return false;
  context.kind = static_cast<ContextKind>(kind);
  context.text = in.take_text();
  if (!in.ok() || context.id.value == 0 || context.id.value > kMaxContexts) return false;
  visitor.on(context);
  return true;
}
bool visit_lane(ByteReader& in, DefinitionVisitor& visitor) {
  TraceLane lane;
  std::uint8_t flags = 0;
  if (!take_into(in, lane.id.value) || !take_into(in, lane.device) ||
      !take_into(in, lane.stream.value) || !take_into(in, flags)) {
    return false;
  }
  lane.is_other_streams = (flags & kLaneIsOthers) != 0;
  lane.is_cupti_number = (flags & kLaneIsCuptiNumber) != 0;
  visitor.on(lane);
  return true;
}
bool visit_thread(ByteReader& in, DefinitionVisitor& visitor) {
  TraceThread thread;
  if (!take_into(in, thread.index) || !take_into(in, thread.os_id)) return false;
  thread.name = in.take_text();
  if (!in.ok()) return false;
  visitor.on(std::move(thread));
  return true;
}
bool visit_pool(ByteReader& in, DefinitionVisitor& visitor) {
  TracePool pool;
  if (!take_into(in, pool.index) || !take_into(in, pool.pool.first) ||
      !take_into(in, pool.pool.second)) {
    return false;
  }
  visitor.on(pool);
  return true;
}
bool visit_device(ByteReader& in, DefinitionVisitor& visitor) {
  TraceDevice device;
  if (!take_into(in, device.device) || !take_into(in, device.total_memory.value)) return false;
  device.name = in.take_text();
  if (!in.ok()) return false;
  visitor.on(std::move(device));
  return true;
}

constexpr std::uint64_t kLiveHasUses = 1;
constexpr std::uint64_t kLiveIsWaiting = 2;

}  // namespace

std::vector<std::uint8_t> encode_file_head(const TraceHeader& header, const SlotLayout& layout) {
  std::string text;
  put_line(text, "levee", header.levee_version);
  put_line(text, "pid", header.pid);
  put_line(text, "rank", header.rank);
  put_line(text, "local_rank", header.local_rank);
  put_line(text, "world_size", header.world_size);
  if (!header.launch.empty())
    put_line(text, "launch", std::string_view(header.launch).substr(0, kMaxLaunchBytes));
  put_line(text, "start_ns", header.start.value);
  put_line(text, "start_unix_ns", header.start_unix_ns);
  put_line(text, "clock", header.clock);
  put_line(text, "host", header.host);
  put_line(text, "cap_bytes", static_cast<std::int64_t>(header.cap.value));
  // A command line or settings of any length: cut what would not fit, the rest is short.
  constexpr std::size_t kRoom = kMaxFileHeadBytes / 8;
  put_line(text, "program", std::string_view(header.program).substr(0, kRoom));
  put_line(text, "config", std::string_view(header.config).substr(0, kRoom));

  const std::size_t used = kFileHeadBytes + text.size();
  std::vector<std::uint8_t> head((used + kFileHeadAlignment - 1) / kFileHeadAlignment *
                                 kFileHeadAlignment);
  std::memcpy(head.data(), kFileMagic, sizeof(kFileMagic));
  store_le(head.data() + kVersion, kFormatVersion);
  store_le(head.data() + kHeadBytes, static_cast<std::uint32_t>(head.size()));
  store_le(head.data() + kSlotBytes, layout.slot_bytes);
  store_le(head.data() + kSlotCount, layout.slot_count);
  store_le(head.data() + kTextBytes, static_cast<std::uint32_t>(text.size()));
  store_le(head.data() + kTextCrc, crc32c(bytes_of(text)));
  store_le(head.data() + kHeadCrc, crc32c({head.data(), kHeadCrc}));
  std::memcpy(head.data() + kFileHeadBytes, text.data(), text.size());
  return head;
}

std::optional<FileHead> decode_file_head(std::span<const std::uint8_t> bytes, std::string* why) {
  const auto fail = [&](std::string sentence) -> std::optional<FileHead> {
    *why = std::move(sentence);
    return std::nullopt;
  };
  const std::uint8_t* in = bytes.data();
  if (bytes.size() < sizeof(kFileMagic) || std::memcmp(in, kFileMagic, sizeof(kFileMagic)) != 0) {
    return fail("is not a levee trace: it does not begin with LEVEETRC");
  }
  if (bytes.size() < kFileHeadBytes)
    return fail("is cut off within its header, so that nothing of it can be read");
  if (load_le<std::uint32_t>(in + kVersion) > kFormatVersion) {
    return fail("was written in format version " +
                std::to_string(load_le<std::uint32_t>(in + kVersion)) +
                " by a newer levee; this one reads up to version " +
                std::to_string(kFormatVersion) + ": upgrade levee to open it");
  }
  FileHead head;
  head.bytes = load_le<std::uint32_t>(in + kHeadBytes);
  head.layout.slot_bytes = load_le<std::uint64_t>(in + kSlotBytes);
  head.layout.slot_count = load_le<std::uint64_t>(in + kSlotCount);
  const std::uint64_t text_bytes = load_le<std::uint32_t>(in + kTextBytes);
  if (load_le<std::uint32_t>(in + kHeadCrc) != crc32c({in, kHeadCrc}) ||
      head.bytes % kFileHeadAlignment != 0 || head.bytes > kMaxFileHeadBytes ||
      head.bytes < kFileHeadBytes + text_bytes || head.layout.slot_bytes < kMinSlotBytes ||
      head.layout.slot_bytes > kMaxSlotBytes || head.layout.slot_bytes % kBlockAlignment != 0) {
    return fail("has a damaged header, so that nothing of it can be read");
  }
  if (bytes.size() < kFileHeadBytes + text_bytes) {
    return fail("is cut off within its header, so that nothing of it can be read");
  }
  std::string_view text(reinterpret_cast<const char*>(in + kFileHeadBytes), text_bytes);
  if (load_le<std::uint32_t>(in + kTextCrc) != crc32c(bytes_of(text))) {
    return fail("has a damaged header, so that nothing of it can be read");
  }
  head.header.format_version = load_le<std::uint32_t>(in + kVersion);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      set_field(head.header, line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return head;
}

void put_definition(const TraceDevice& device, ByteWriter& out) {
  ByteWriter fields;
  fields.put_zigzag(device.device.value);
  fields.put_varint(device.total_memory.value);
  fields.put_text(device.name);
  put_entry(Tag::kDevice, fields, out);
}
void put_definition(const TraceLane& lane, ByteWriter& out) {
  ByteWriter fields;
  fields.put_varint(lane.id.value);
  fields.put_zigzag(lane.device.value);
  fields.put_varint(lane.stream.value);
  fields.put_varint((lane.is_other_streams ? kLaneIsOthers : 0U) |
                    (lane.is_cupti_number ? kLaneIsCuptiNumber : 0U));
  put_entry(Tag::kLane, fields, out);
}
void put_definition(const TraceThread& thread, ByteWriter& out) {
  ByteWriter fields;
  fields.put_varint(thread.index);
  fields.put_varint(thread.os_id);
  fields.put_text(thread.name);
  put_entry(Tag::kThread, fields, out);
}
void put_definition(const TracePool& pool, ByteWriter& out) {
  ByteWriter fields;
  fields.put_varint(pool.index);
  fields.put_varint(pool.pool.first);
  fields.put_varint(pool.pool.second);
  put_entry(Tag::kPool, fields, out);
}
void put_definition(const TraceContext& context, ByteWriter& out) {
  ByteWriter fields;
  fields.put_varint(context.id.value);
  fields.put_varint(static_cast<std::uint8_t>(context.kind));
  fields.put_text(context.text);
  put_entry(Tag::kContext, fields, out);
}

bool visit_definitions(std::span<const std::uint8_t> body, DefinitionVisitor& visitor) {
  ByteReader in(body);
  while (!in.at_end()) {
    const std::uint64_t tag = in.take_varint();
    ByteReader fields(in.take_bytes(in.take_varint()));
    if (!in.ok()) return false;
    bool ok = true;  // also for entries of a kind that this reader does not know
    switch (static_cast<Tag>(tag)) {
      case Tag::kContext:
        ok = visit_context(fields, visitor);
        break;
      case Tag::kLane:
        ok = visit_lane(fields, visitor);
        break;
      case Tag::kThread:
        ok = visit_thread(fields, visitor);
        break;
      case Tag::kPool:
        ok = visit_pool(fields, visitor);
        break;
      case Tag::kDevice:
        ok = visit_device(fields, visitor);
        break;
    }
    if (!ok) return false;
  }
  return true;
}

void put_keyframe(const Keyframe& keyframe, ByteWriter& out) {
  const TraceState& state = keyframe.state;
  out.put_varint(keyframe.events_before);
  out.put_varint(keyframe.lost_before);
  out.put_zigzag(state.time.value);
  out.put_varint(state.step);
  out.put_varint(state.devices.size());
  for (const DeviceCounters& device : state.devices) {
    out.put_zigzag(device.device.value);
    out.put_varint(device.reserved.value);
    out.put_varint(device.allocated.value);
    out.put_varint(device.active.value);
    out.put_varint(device.requested.value);
    out.put_varint(device.limit.value);
    out.put_varint(device.is_exact ? 1 : 0);
  }
  out.put_varint(state.phases.size());
  for (const OpenPhase& phase : state.phases) {
    out.put_varint(phase.thread);
    out.put_varint(phase.context.value);
    out.put_varint(zigzag_difference(static_cast<std::uint64_t>(phase.since.value),
                                     static_cast<std::uint64_t>(state.time.value)));
  }
  out.put_varint(state.live_is_complete ? 1 : 0);
  out.put_varint(state.live.size());
  std::uint64_t previous = 0;
  for (const LiveBlock& block : state.live) {
    out.put_varint(block.addr.value - previous);
    previous = block.addr.value;
    out.put_varint(block.requested_bytes.value);
    out.put_varint((block.bytes - block.requested_bytes).value);
    out.put_varint(block.lane.value);
    out.put_varint(block.pool);
    out.put_varint(block.context.value);
    out.put_varint(zigzag_difference(static_cast<std::uint64_t>(block.allocated_at.value),
                                     static_cast<std::uint64_t>(state.time.value)));
    out.put_varint((block.has_uses ? kLiveHasUses : 0) | (block.is_waiting ? kLiveIsWaiting : 0));
  }
}

bool take_keyframe(std::span<const std::uint8_t> body, Keyframe& out) {
  out = Keyframe{};
  ByteReader in(body);
  TraceState& state = out.state;
  out.events_before = in.take_varint();
  out.lost_before = in.take_varint();
  state.time = Nanos{in.take_zigzag()};
  state.step = in.take_varint();
  const auto time = static_cast<std::uint64_t>(state.time.value);
  const std::uint64_t device_count = in.take_varint();
  for (std::uint64_t i = 0; i < device_count && in.ok(); ++i) {
    DeviceCounters device;
    if (!take_into(in, device.device)) return false;
    device.reserved = Bytes{in.take_varint()};
    device.allocated = Bytes{in.take_varint()};
    device.active = Bytes{in.take_varint()};
    device.requested = Bytes{in.take_varint()};
    device.limit = Bytes{in.take_varint()};
    device.is_exact = in.take_varint() != 0;
    state.devices.push_back(device);
  }
  const std::uint64_t phase_count = in.take_varint();
  for (std::uint64_t i = 0; i < phase_count && in.ok(); ++i) {
    OpenPhase phase;
    if (!take_into(in, phase.thread) || !take_into(in, phase.context.value)) return false;
    phase.since =
        Nanos{static_cast<std::int64_t>(time + static_cast<std::uint64_t>(in.take_zigzag()))};
    state.phases.push_back(phase);
  }
  state.live_is_complete = in.take_varint() != 0;
  const std::uint64_t live_count = in.take_varint();
  std::uint64_t addr = 0;
  for (std::uint64_t i = 0; i < live_count && in.ok(); ++i) {
    LiveBlock block;
    addr += in.take_varint();
    block.addr = DeviceAddr{addr};
    block.requested_bytes = Bytes{in.take_varint()};
    const std::uint64_t rounding = in.take_varint();
    if (block.requested_bytes > kMaxRequest || rounding > kMaxRequest.value) return false;
    block.bytes = block.requested_bytes + Bytes{rounding};
    if (!take_into(in, block.lane.value) || !take_into(in, block.pool) ||
        !take_into(in, block.context.value)) {
      return false;
    }
    block.allocated_at =
        Nanos{static_cast<std::int64_t>(time + static_cast<std::uint64_t>(in.take_zigzag()))};
    const std::uint64_t flags = in.take_varint();
    block.has_uses = (flags & kLiveHasUses) != 0;
    block.is_waiting = (flags & kLiveIsWaiting) != 0;
    state.live.push_back(block);
  }
  return in.ok() && in.at_end();
}

void put_end(const EndRecord& end, ByteWriter& out) {
  out.put_varint(static_cast<std::uint8_t>(end.ending));
  out.put_text(end.reason);
  out.put_varint(end.events);
  out.put_varint(end.lost);
}
bool take_end(std::span<const std::uint8_t> body, EndRecord& out) {
  ByteReader in(body);
  std::uint8_t ending = 0;
  if (!take_into(in, ending)) return false;
  out.ending = ending == static_cast<std::uint8_t>(TraceEnding::kComplete) ? TraceEnding::kComplete
                                                                           : TraceEnding::kStopped;
  out.reason = in.take_text();
  out.events = in.take_varint();
  out.lost = in.take_varint();
  return in.ok() && in.at_end();
}

}  // namespace levee::record
