#include "allocator/record/event_block.h"

#include <algorithm>
#include <array>

#include "allocator/base/check.h"

namespace levee::record {
namespace {

/// How a kind's `a` and `b` are stored. Part of the format: kinds not named here are `kPlain` for
/// ever.
enum class Coding : std::uint8_t {
  kPlain,     // two varints
  kAlloc,     // address by reference or difference; sizes split
  kFree,      // the same; a reference stands for the sizes as well
  kUse,       // address by reference or difference; b plain
  kActivity,  // a plain; b, a correlation id, as a difference from the kernel before
};

Coding coding_of(EventKind kind) {
  switch (kind) {
    case EventKind::kAlloc:
      return Coding::kAlloc;
    case EventKind::kFree:
    case EventKind::kFreeCompleted:
      return Coding::kFree;
    case EventKind::kRecordUse:
      return Coding::kUse;
    case EventKind::kKernel:
      return Coding::kActivity;
    default:
      return Coding::kPlain;
  }
}

constexpr std::uint64_t kRequestMask = kMaxRequest.value;
constexpr unsigned kRoundingShift = 44;

// Address differences: most are multiples of 512, the unit of blocks; the low bit says whether the
// rest was cut off.
constexpr std::uint64_t kAddressUnit = 512;
std::uint64_t code_address(std::uint64_t addr, std::uint64_t previous) {
  const std::uint64_t difference = addr - previous;
  if (difference % kAddressUnit == 0) {
    const auto units =
        static_cast<std::int64_t>(difference) / static_cast<std::int64_t>(kAddressUnit);
    return zigzag(units) << 1;  // |units| < 2^55
  }
  return 1;  // the address follows in full
}

bool is_constant(std::span<const std::uint8_t> bytes, std::size_t count) {
  // Single-byte values alone: a longer constant compresses to nothing anyway.
  return bytes.size() == count && std::all_of(bytes.begin(), bytes.end(), [&](std::uint8_t byte) {
           return byte == bytes.front() && byte < 0x80;
         });
}

}  // namespace

EventEncoder::EventEncoder() : columns_(kColumns), places_(kPlaces) {}

EventEncoder::Place& EventEncoder::place_of(std::uint64_t addr) {
  const std::uint64_t product = addr * 0x9E3779B97F4A7C15ULL;
  for (std::size_t i = static_cast<std::size_t>(product >> 32) % kPlaces;; i = (i + 1) % kPlaces) {
    Place& place = places_[i];
    if (place.block != block_ || place.addr == addr) return place;
  }
}

void EventEncoder::put_threads(std::span<const StagedEvent> events, ByteWriter& body) {
  struct Entry {
    std::uint32_t thread;
    const StagedEvent* first;
  };
  std::vector<Entry> table;
  thread_slots_.clear();
  for (const StagedEvent& event : events) {
    std::size_t slot = 0;
    if (!thread_slots_.empty() && table[thread_slots_.back()].thread == event.thread) {
      slot = thread_slots_.back();
    } else {
      while (slot < table.size() && table[slot].thread != event.thread) ++slot;
      if (slot == table.size()) table.push_back({event.thread, &event});
    }
    thread_slots_.push_back(static_cast<std::uint32_t>(slot));
  }
  body.put_varint(table.size());
  for (const Entry& entry : table) {
    const Event& first = entry.first->event;
    // Lost events come before the event that tells of them.
    const std::uint64_t before =
        entry.first->sequence - (first.kind() == EventKind::kLost ? first.a : 0);
    body.put_varint(entry.thread);
    body.put_varint(before);
    body.put_varint(static_cast<std::uint64_t>(entry.first->key) -
                    static_cast<std::uint64_t>(first_time_));
  }
}

void EventEncoder::put_event(std::span<const StagedEvent> events, std::size_t i) {
  const Event& event = events[i].event;
  column(Column::kKind).put_byte(static_cast<std::uint8_t>(event.kind()));
  column(Column::kThread).put_varint(thread_slots_[i]);
  column(Column::kTime).put_varint(zigzag_difference(event.time_ns, previous_time_));
  previous_time_ = event.time_ns;
  column(Column::kLane).put_varint(event.lane.value);
  column(Column::kAux).put_varint(event.aux);
  column(Column::kContext).put_varint(event.context().value);

  const Coding coding = coding_of(event.kind());
  if (coding == Coding::kPlain) {
    column(Column::kA).put_varint(event.a);
    column(Column::kB).put_varint(event.b);
    return;
  }
  if (coding == Coding::kActivity) {
    column(Column::kA).put_varint(event.a);
    column(Column::kB).put_varint(zigzag_difference(event.b, previous_correlation_));
    previous_correlation_ = event.b;
    return;
  }

  Place& place = place_of(event.a);
  const bool is_known = place.block == block_ && place.addr == event.a;
  bool refers = is_known;
  if (coding == Coding::kFree && is_known && events[place.index].event.b != event.b) refers = false;
  column(Column::kReference).put_varint(refers ? i - place.index : 0);
  if (!refers) {
    // The address before this one: of the event before, whatever it was, since neighbours in time
    // are neighbours in space.
    const std::uint64_t previous = i == 0 ? 0 : events[i - 1].event.a;
    const std::uint64_t code = code_address(event.a, previous);
    column(Column::kA).put_varint(code);
    if (code == 1) column(Column::kA).put_varint(event.a);
  }
  if (coding == Coding::kUse) {
    column(Column::kB).put_varint(event.b);
    return;  // a use is no place to refer to: it has no sizes
  }
  if (coding == Coding::kAlloc || !refers) {
    column(Column::kB).put_varint(event.b & kRequestMask);
    column(Column::kRounding).put_varint(event.b >> kRoundingShift);
  }
  place = Place{event.a, static_cast<std::uint32_t>(i), block_};
}

void EventEncoder::encode(std::span<const StagedEvent> events, ByteWriter& body) {
  LEVEE_CHECK(!events.empty() && events.size() <= kMaxBlockEvents,
              "events in a block: ", events.size());
  if (++block_ == 0) {  // after 2^32 blocks the marks of the first ones would look new
    std::fill(places_.begin(), places_.end(), Place{});
    block_ = 1;
  }
  for (ByteWriter& each : columns_) each.clear();
  kinds_ = 0;
  first_time_ = INT64_MAX;
  last_time_ = INT64_MIN;
  for (const StagedEvent& event : events) {
    const auto time = static_cast<std::int64_t>(event.event.time_ns);
    first_time_ = std::min(first_time_, time);
    last_time_ = std::max(last_time_, time);
    kinds_ |= std::uint64_t{1} << (static_cast<unsigned>(event.event.kind()) & 63U);
  }
  previous_time_ = static_cast<std::uint64_t>(first_time_);
  previous_correlation_ = 0;

  put_threads(events, body);
  for (std::size_t i = 0; i < events.size(); ++i) put_event(events, i);
  for (const ByteWriter& each : columns_) {
    if (!each.empty() && is_constant(each.bytes(), events.size())) {
      body.put_varint(1 << 1 | 1);
      body.put_byte(each.bytes().front());
    } else {
      body.put_varint(each.size() << 1);
      body.put_bytes(each.bytes());
    }
  }
}

namespace {

/// One column being read: values one after the other, or one value for all.
class ColumnReader {
 public:
  /// Takes the column's length and bytes out of `body`.
  explicit ColumnReader(ByteReader& body) : values_({}) {
    const std::uint64_t head = body.take_varint();
    const auto bytes = body.take_bytes(head >> 1);
    if ((head & 1) != 0) {
      ByteReader one(bytes);
      constant_ = one.take_varint();
      is_constant_ = true;
      is_malformed_ = !one.ok() || !one.at_end();
    } else {
      values_ = ByteReader(bytes);
    }
  }
  std::uint64_t next() { return is_constant_ ? constant_ : values_.take_varint(); }
  std::uint8_t next_byte() {
    return is_constant_ ? static_cast<std::uint8_t>(constant_) : values_.take_byte();
  }
  /// Whether the column held exactly what was taken.
  bool is_spent() const {
    return !is_malformed_ && (is_constant_ || (values_.ok() && values_.at_end()));
  }

 private:
  ByteReader values_;
  std::uint64_t constant_ = 0;
  bool is_constant_ = false;
  bool is_malformed_ = false;
};

}  // namespace

bool EventDecoder::decode(const Frame& frame, std::span<const std::uint8_t> body,
                          std::vector<StagedEvent>& out) {
  out.clear();
  ByteReader reader(body);
  const std::uint64_t thread_count = reader.take_varint();
  if (thread_count == 0 || thread_count > frame.event_count) return false;
  threads_.clear();
  for (std::uint64_t i = 0; i < thread_count; ++i) {
    Thread thread;
    const std::uint64_t index = reader.take_varint();
    thread.next_sequence = reader.take_varint();
    thread.key = static_cast<std::int64_t>(static_cast<std::uint64_t>(frame.first_time) +
                                           reader.take_varint());
    if (index > UINT32_MAX || thread.key < frame.first_time) return false;
    thread.index = static_cast<std::uint32_t>(index);
    threads_.push_back(thread);
  }

  ColumnReader kinds(reader), threads(reader), times(reader), lanes(reader), auxes(reader),
      contexts(reader), references(reader), as(reader), bs(reader), roundings(reader);
  if (!reader.ok() || !reader.at_end()) return false;

  out.resize(frame.event_count);
  std::uint64_t time = static_cast<std::uint64_t>(frame.first_time);
  std::uint64_t correlation = 0;
  bool ok = true;
  for (std::size_t i = 0; i < out.size(); ++i) {
    StagedEvent& staged = out[i];
    Event& event = staged.event;
    const std::uint8_t kind = kinds.next_byte();
    const std::uint64_t slot = threads.next();
    if (slot >= threads_.size()) {
      ok = false;
      break;
    }
    time += static_cast<std::uint64_t>(unzigzag(times.next()));
    const std::uint64_t lane = lanes.next();
    const std::uint64_t aux = auxes.next();
    const std::uint64_t context = contexts.next();
    ok = ok && lane <= UINT16_MAX && aux <= UINT16_MAX && context <= kMaxContexts;
    event.time_ns = time;
    event.context_and_kind = static_cast<std::uint32_t>(context << 8) | kind;
    event.lane = LaneId{static_cast<std::uint16_t>(lane)};
    event.aux = static_cast<std::uint16_t>(aux);

    const Coding coding = coding_of(static_cast<EventKind>(kind));
    if (coding == Coding::kPlain) {
      event.a = as.next();
      event.b = bs.next();
    } else if (coding == Coding::kActivity) {
      event.a = as.next();
      correlation += static_cast<std::uint64_t>(unzigzag(bs.next()));
      event.b = correlation;
    } else {
      const std::uint64_t distance = references.next();
      if (distance > i) {
        ok = false;
        break;
      }
      if (distance != 0) {
        event.a = out[i - distance].event.a;
      } else {
        const std::uint64_t code = as.next();
        const std::uint64_t previous = i == 0 ? 0 : out[i - 1].event.a;
        event.a = code == 1
                      ? as.next()
                      : previous + kAddressUnit * static_cast<std::uint64_t>(unzigzag(code >> 1));
      }
      if (coding == Coding::kUse) {
        event.b = bs.next();
      } else if (coding == Coding::kFree && distance != 0) {
        event.b = out[i - distance].event.b;
      } else {
        const std::uint64_t requested = bs.next();
        ok = ok && requested <= kRequestMask;
        event.b = requested | roundings.next() << kRoundingShift;
      }
    }

    Thread& thread = threads_[static_cast<std::size_t>(slot)];
    if (event.kind() == EventKind::kLost) thread.next_sequence += event.a;
    staged.sequence = thread.next_sequence++;
    thread.key = std::max(thread.key, static_cast<std::int64_t>(time));
    staged.key = thread.key;
    staged.thread = thread.index;
  }
  for (const ColumnReader* column :
       std::array<const ColumnReader*, kColumns>{&kinds, &threads, &times, &lanes, &auxes,
                                                 &contexts, &references, &as, &bs, &roundings}) {
    ok = ok && column->is_spent();
  }
  if (!ok) out.clear();
  return ok;
}

namespace {

void extend(SummaryBin::Range& range, std::uint64_t value) {
  range.min = std::min(range.min, value);
  range.max = std::max(range.max, value);
  range.last = value;
}
void put_range(const SummaryBin::Range& range, std::uint64_t& previous, ByteWriter& out) {
  out.put_varint(zigzag_difference(range.min, previous));
  out.put_varint(range.max - range.min);
  out.put_varint(range.last - range.min);
  previous = range.last;
}
bool take_range(ByteReader& in, std::uint64_t& previous, SummaryBin::Range& range) {
  range.min = previous + static_cast<std::uint64_t>(unzigzag(in.take_varint()));
  range.max = range.min + in.take_varint();
  range.last = range.min + in.take_varint();
  previous = range.last;
  return range.max >= range.min && range.last >= range.min && range.last <= range.max;
}

SummaryBin open_bin(std::int64_t time, const DeviceCounters& device) {
  const auto flat = [](Bytes bytes) {
    return SummaryBin::Range{bytes.value, bytes.value, bytes.value};
  };
  return SummaryBin{time, flat(device.reserved), flat(device.allocated), flat(device.active)};
}
void extend_bin(SummaryBin& bin, const DeviceCounters& device) {
  extend(bin.reserved, device.reserved.value);
  extend(bin.allocated, device.allocated.value);
  extend(bin.active, device.active.value);
}

}  // namespace

void summarize(std::span<const StagedEvent> events, StateTracker& tracker, ByteWriter& summary) {
  std::vector<DeviceSummary> devices;
  const auto add_devices = [&] {
    for (std::size_t i = devices.size(); i < tracker.devices().size(); ++i) {
      const DeviceCounters& at = tracker.devices()[i];
      devices.push_back(
          {at.device, at.reserved.value, at.allocated.value, at.active.value, at.is_exact, {}});
    }
  };
  add_devices();
  std::vector<std::size_t> bin_of(devices.size(),
                                  SIZE_MAX);  // group of events that its last bin is about
  std::int64_t first_time = INT64_MAX;
  for (std::size_t i = 0; i < events.size(); ++i) {
    first_time = std::min(first_time, static_cast<std::int64_t>(events[i].event.time_ns));
    // A bin starts from what held before its first event, so that the extremes are those of the
    // whole interval.
    const std::size_t known = tracker.devices().size();
    const StateTracker::DeviceSlot slot = tracker.apply(events[i].event, events[i].thread);
    if (tracker.devices().size() != known) {
      // The first event of a device: everything before it was 0.
      for (std::size_t d = known; d < tracker.devices().size(); ++d) {
        devices.push_back({tracker.devices()[d].device, 0, 0, 0, true, {}});
        bin_of.push_back(SIZE_MAX);
      }
    }
    if (slot == StateTracker::kNoDevice) continue;
    const auto d = static_cast<std::size_t>(slot);
    DeviceSummary& device = devices[d];
    const std::size_t group = i / kEventsPerBin;
    if (bin_of[d] != group) {
      bin_of[d] = group;
      DeviceCounters before;
      if (device.bins.empty()) {
        before.reserved = Bytes{device.reserved};
        before.allocated = Bytes{device.allocated};
        before.active = Bytes{device.active};
      } else {
        before.reserved = Bytes{device.bins.back().reserved.last};
        before.allocated = Bytes{device.bins.back().allocated.last};
        before.active = Bytes{device.bins.back().active.last};
      }
      device.bins.push_back(open_bin(events[i].key, before));
    }
    extend_bin(device.bins.back(), tracker.devices()[d]);
  }

  summary.put_varint(devices.size());
  for (const DeviceSummary& device : devices) {
    summary.put_zigzag(device.device.value);
    summary.put_varint(device.is_exact ? 1 : 0);
    summary.put_varint(device.reserved);
    summary.put_varint(device.allocated);
    summary.put_varint(device.active);
    summary.put_varint(device.bins.size());
    std::uint64_t time = static_cast<std::uint64_t>(first_time);
    std::uint64_t reserved = device.reserved, allocated = device.allocated, active = device.active;
    for (const SummaryBin& bin : device.bins) {
      summary.put_varint(zigzag_difference(static_cast<std::uint64_t>(bin.time), time));
      time = static_cast<std::uint64_t>(bin.time);
      put_range(bin.reserved, reserved, summary);
      put_range(bin.allocated, allocated, summary);
      put_range(bin.active, active, summary);
    }
  }
}

bool decode_summary(const Frame& frame, std::span<const std::uint8_t> bytes,
                    std::vector<DeviceSummary>& out) {
  out.clear();
  ByteReader in(bytes);
  const std::uint64_t device_count = in.take_varint();
  if (device_count > in.left()) return false;
  for (std::uint64_t d = 0; d < device_count && in.ok(); ++d) {
    DeviceSummary device;
    device.device = DeviceId{static_cast<std::int32_t>(in.take_zigzag())};
    device.is_exact = in.take_varint() != 0;
    device.reserved = in.take_varint();
    device.allocated = in.take_varint();
    device.active = in.take_varint();
    const std::uint64_t bin_count = in.take_varint();
    if (bin_count > in.left()) return false;
    std::uint64_t time = static_cast<std::uint64_t>(frame.first_time);
    std::uint64_t reserved = device.reserved, allocated = device.allocated, active = device.active;
    for (std::uint64_t i = 0; i < bin_count && in.ok(); ++i) {
      SummaryBin bin;
      time += static_cast<std::uint64_t>(unzigzag(in.take_varint()));
      bin.time = static_cast<std::int64_t>(time);
      if (!take_range(in, reserved, bin.reserved) || !take_range(in, allocated, bin.allocated) ||
          !take_range(in, active, bin.active)) {
        return false;
      }
      device.bins.push_back(bin);
    }
    out.push_back(std::move(device));
  }
  return in.ok() && in.at_end();
}

}  // namespace levee::record
