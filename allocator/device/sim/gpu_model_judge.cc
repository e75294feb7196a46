// The judge of GpuModel: where uses become findings, and the words for them.
#include <algorithm>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/device/sim/gpu_model_state.h"

namespace levee::device::sim {

namespace {

const char* verb_of(UseKind kind) {
  switch (kind) {
    case UseKind::kHandOut:
      return "handed out";
    case UseKind::kShare:
      return "shared";
    case UseKind::kGiveBack:
      return "given back";
    case UseKind::kRead:
      return "read";
    case UseKind::kWrite:
      return "written";
    case UseKind::kRestore:
      return "restored";
  }
  return "used";
}

struct Range {
  DeviceAddr addr;
  Bytes bytes;
};
base::TextWriter& operator<<(base::TextWriter& text, const Range& range) {
  // A range that is told may be none: it may end behind the last address.
  return text << "[" << range.addr << ", " << DeviceAddr{range.addr.value + range.bytes.value}
              << ")";
}

}  // namespace

Hazard GpuModel::State::new_hazard(JudgeRule rule) const {
  Hazard hazard;
  hazard.kind = kind_of(rule);
  hazard.rule = rule;
  hazard.sequence = sequence;
  hazard.time = clock.now();
  return hazard;
}

void GpuModel::State::file(Hazard hazard, const base::TextWriter& text) {
  hazard.text = text.view();
  hazards.file(std::move(hazard));
}

StreamId GpuModel::State::name_of_stream(const Use& use) const {
  if (use.is_captured()) {
    const Capture* capture = find_capture(use.op);
    if (capture == nullptr) return StreamId{};
    for (const Stream* stream : capture->streams) {
      if (stream->capture_index == use.stream) return stream->id;
    }
    return StreamId{};
  }
  const Stream* stream = use.stream < by_index.size() ? by_index[use.stream] : nullptr;
  return stream == nullptr ? StreamId{} : stream->id;
}

void GpuModel::State::note_use(DeviceAddr addr, Bytes bytes, const UseAt& use) {
  Stream& stream = *use.stream;
  const bool is_captured = stream.capture != nullptr && !use.is_launch;
  NewUse note;
  note.kind = use.kind;
  note.stream = is_captured ? stream.capture_index : stream.index;
  note.op = use.op;
  note.overlap_from = use.overlap_from;
  if (is_captured) {
    note.capture = CaptureOrder{stream.capture->number, &stream.capture->order};
    if (use.kind != UseKind::kGiveBack)
      stream.capture->graph->ranges.push_back(GraphRange{addr, bytes});
  }
  const char* verb = use.is_launch ? "written by a graph launched" : verb_of(use.kind);
  const auto untouchable = [&](JudgeRule rule, DeviceAddr at, const char* why) {
    Hazard hazard = new_hazard(rule);
    hazard.device = stream.device;
    hazard.addr = at;
    hazard.bytes = bytes;
    hazard.stream = stream.id;
    base::FixedBuffer<512> text;
    text << Range{addr, bytes} << " " << verb << " on " << stream.id << ": " << why << " at " << at;
    file(std::move(hazard), text);
    return false;
  };
  if (bytes.value == 0) return;
  if (addr.value + bytes.value < addr.value) {
    untouchable(JudgeRule::kUseOfMemory, addr, "no such memory");
    return;
  }

  bool has_reported =
      false;  // one finding for each note: the rest of a large block tells the same story
  const std::uint64_t device_bit = std::uint64_t{1} << stream.device.value;
  memory.for_each_piece(addr, bytes, [&](Mapping* mapping, DeviceAddr begin, Bytes count) {
    if (mapping == nullptr) return untouchable(JudgeRule::kUseOfMapped, begin, "nothing is mapped");
    if (mapping->chunk != nullptr) {
      const SmallChunk::Piece piece = mapping->chunk->find(begin);
      if (piece.bytes.value == 0 || piece.addr + piece.bytes < begin + count) {
        return untouchable(JudgeRule::kUseOfAllocation, begin, "no allocation holds the bytes");
      }
    }
    const bool writes = use.kind != UseKind::kRead;
    // Lent to a stream of another device, memory may be meant for a peer copy, which needs no
    // access.
    const bool may_be_copied =
        use.kind == UseKind::kShare && mapping->physical->device != stream.device;
    if (use.check_access && !may_be_copied &&
        ((writes ? mapping->writable : mapping->readable) & device_bit) == 0) {
      return untouchable(JudgeRule::kUseWithAccess, begin,
                         "the mapping gives this device no such access");
    }
    Physical& physical = *mapping->physical;
    if (physical.frames.empty()) physical.frames.resize(physical.bytes.value >> kPageShift);
    const std::uint64_t first = (begin - mapping->base).value;
    for (std::uint64_t at = first; at < first + count.value;) {
      const std::uint64_t frame = at >> kPageShift;
      const std::uint64_t frame_end = std::min((frame + 1) << kPageShift, first + count.value);
      note.via = mapping->base.value + (frame << kPageShift);
      const auto report = [&](const Conflict& conflict) {
        if (has_reported) return;
        has_reported = true;
        const Range now{DeviceAddr{note.via + conflict.begin},
                        Bytes{conflict.end - conflict.begin}};
        const DeviceAddr earlier_addr{conflict.earlier.via + conflict.begin};
        Hazard hazard = new_hazard(conflict.rule);
        if (conflict.is_alias) hazard.kind = HazardKind::kAliasUse;
        hazard.device = stream.device;
        hazard.addr = now.addr;
        hazard.bytes = now.bytes;
        hazard.stream = stream.id;
        hazard.other_stream = name_of_stream(conflict.earlier);
        hazard.other_addr = earlier_addr;
        base::FixedBuffer<1024> text;
        text << Range{addr, bytes} << " " << verb << " on " << stream.id;
        if (is_captured) text << " (capturing)";
        text << "; of these bytes " << now << " ";
        if (earlier_addr != now.addr)
          text << "are the same physical bytes as those at " << earlier_addr << ", which ";
        if (conflict.earlier.is_open()) {
          text << "have an owner on " << hazard.other_stream << ", who has not given them back";
        } else {
          text << (conflict.earlier.is_touch() ? "were touched by work on "
                                               : "were last used by an owner on ")
               << hazard.other_stream << "; nothing orders that before this use: ";
          if (hazard.other_stream == hazard.stream) {
            text << "it is the same piece of work, or its predecessor, which may still run";
          } else {
            text << "no event recorded on " << hazard.other_stream
                 << " since then is waited for by " << stream.id
                 << " or known to the host to be complete";
          }
        }
        file(std::move(hazard), text);
      };
      const auto from = static_cast<std::uint32_t>(at - (frame << kPageShift));
      const auto to = static_cast<std::uint32_t>(frame_end - (frame << kPageShift));
      if (use.is_launch) {
        uses.note_launch(physical.frames[frame], from, to, note, report);
      } else {
        uses.note(physical.frames[frame], from, to, note, report);
      }
      at = frame_end;
    }
    return true;
  });
}

bool GpuModel::State::check_done(const Mapping& mapping, DeviceAddr addr, Bytes bytes,
                                 const char* what) {
  const auto report = [&](JudgeRule rule, StreamId user, const char* why) {
    Hazard hazard = new_hazard(rule);
    hazard.device = mapping.physical->device;
    hazard.addr = addr;
    hazard.bytes = bytes;
    hazard.other_stream = user;
    base::FixedBuffer<512> text;
    text << what << " of " << Range{addr, bytes} << " on " << hazard.device << ": " << why << user;
    file(std::move(hazard), text);
    return false;
  };
  constexpr const char* kMayRun =
      "the host does not know that the last use through this address is complete (query or "
      "synchronise with an event "
      "recorded after it); the use was on ";
  const Physical& physical = *mapping.physical;
  const std::uint64_t first = (addr - mapping.base).value;
  const std::uint64_t end = first + bytes.value;
  for (std::uint64_t frame = first >> kPageShift;
       frame < physical.frames.size() && frame << kPageShift < end; ++frame) {
    const std::uint64_t start = frame << kPageShift;
    const auto from = static_cast<std::uint32_t>(first > start ? first - start : 0);
    const auto to = static_cast<std::uint32_t>(std::min<std::uint64_t>(end - start, kFrameBytes));
    const Use* use =
        uses.find_unfinished(physical.frames[frame], from, to, mapping.base.value + start);
    if (use == nullptr) continue;
    if (!use->is_open()) return report(JudgeRule::kGoneWhenDone, name_of_stream(*use), kMayRun);
    return report(JudgeRule::kGoneWithoutOwner, name_of_stream(*use),
                  "the bytes have an owner who has not given them back, on ");
  }
  for (const Mapping::PastUse& past : mapping.past_uses) {
    if (order.host_knows(past.stream, past.tick)) continue;
    const Stream* stream = past.stream < by_index.size() ? by_index[past.stream] : nullptr;
    return report(JudgeRule::kGoneWhenAliasDone, stream == nullptr ? StreamId{} : stream->id,
                  kMayRun);
  }
  return true;
}

void GpuModel::State::forget_uses(Mapping& mapping, DeviceAddr addr, Bytes bytes) {
  Physical& physical = *mapping.physical;
  const std::uint64_t first = (addr - mapping.base).value;
  const std::uint64_t end = first + bytes.value;
  for (std::uint64_t frame = first >> kPageShift;
       frame < physical.frames.size() && frame << kPageShift < end; ++frame) {
    const std::uint64_t start = frame << kPageShift;
    uses.forget(physical.frames[frame],
                static_cast<std::uint32_t>(first > start ? first - start : 0),
                static_cast<std::uint32_t>(std::min<std::uint64_t>(end - start, kFrameBytes)));
  }
}

void GpuModel::State::forget_all_uses() {
  memory.for_each_physical([this](Physical& physical) {
    for (Frame& frame : physical.frames) uses.forget(frame, 0, kFrameBytes);
    physical.frames.clear();
  });
}

void GpuModel::State::report_leaks() {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId device{static_cast<std::int32_t>(i)};
    const DeviceMemory::Account& account = memory.account(device);
    const std::uint64_t pooled = on(device).async_pool.use().reserved.value;
    const auto leak = [&](JudgeRule rule, std::uint64_t count, const char* what, Bytes bytes) {
      if (count == 0) return;
      Hazard hazard = new_hazard(rule);
      hazard.device = device;
      hazard.bytes = bytes;
      base::FixedBuffer<256> text;
      text << count << " " << what << " of " << device
           << " still held when the model was shut down";
      if (bytes.value != 0) text << ", " << bytes << " in all";
      file(std::move(hazard), text);
    };
    Bytes in_handles;
    Bytes in_allocations;
    std::uint64_t mapped_only = 0;
    memory.for_each_physical([&](const Physical& physical) {
      if (physical.device != device) return;
      if (physical.kind == MemoryKind::kMapped) {
        in_handles += physical.bytes;
        if (physical.references == 0) ++mapped_only;
      } else if (physical.kind == MemoryKind::kAllocation) {
        in_allocations += physical.bytes;
      }
    });
    leak(JudgeRule::kNoHandleIsLeft, account.handles - mapped_only, "memory handles", in_handles);
    leak(JudgeRule::kNoMappingIsLeft, mapped_only, "released handles that are mapped", Bytes{});
    leak(JudgeRule::kNoRangeIsLeft, account.ranges, "reserved address ranges", Bytes{});
    leak(JudgeRule::kNoEventIsLeft, on(device).events, "events", Bytes{});
    if (pooled == 0) {
      leak(JudgeRule::kNoAllocationIsLeft, account.allocations, "allocations", in_allocations);
    }
  }
}

// ---- Public

void GpuModel::note_use(DeviceId device, DeviceAddr addr, Bytes bytes, StreamId id, UseKind kind) {
  State& s = *state_;
  const base::MutexLock lock(s.mutex);
  if (!s.is_judging() || s.is_shut_down || !s.has_device(device)) return;
  s.hazards.log_call(CallEntry{s.sequence, CallKind::kOther, device, addr, bytes, id.value,
                               s.clock.now(), Native::kSuccess, verb_of(kind)});
  Stream* stream = s.resolve(device, id);
  if (stream == nullptr) {
    Hazard hazard = s.new_hazard(JudgeRule::kUseOnStream);
    hazard.device = device;
    hazard.addr = addr;
    hazard.bytes = bytes;
    base::FixedBuffer<256> text;
    text << Range{addr, bytes} << " " << verb_of(kind) << " on " << base::Hex{id.value}
         << ", which is no live stream";
    s.file(std::move(hazard), text);
    return;
  }
  if (stream->capture == nullptr) s.order_with_legacy(*stream);
  State::UseAt use;
  use.stream = stream;
  use.kind = kind;
  s.note_use(addr, bytes, use);
  if (kind == UseKind::kGiveBack) {
    // The uses end now on whatever streams they were: who is ordered with those streams implicitly
    // has to be so anew.
    DeviceState& d = s.on(device);
    ++d.blocking_ops;
    ++d.legacy_ops;
  }
}

void GpuModel::note_pool_lock(bool held) {
  pool_locks_of_this_thread() += held ? 1 : -1;
}

void GpuModel::set_judge(JudgeMode mode) {
  const base::MutexLock lock(state_->mutex);
  if (mode == JudgeMode::kOff || state_->hazards.mode() == JudgeMode::kOff)
    state_->forget_all_uses();
  state_->hazards.set_mode(mode);
}

JudgeMode GpuModel::judge_mode() const {
  const base::MutexLock lock(state_->mutex);
  return state_->hazards.mode();
}

std::vector<Hazard> GpuModel::hazards() const {
  const base::MutexLock lock(state_->mutex);
  return state_->hazards.kept();
}

std::uint64_t GpuModel::hazard_count() const {
  const base::MutexLock lock(state_->mutex);
  return state_->hazards.count();
}

std::uint64_t GpuModel::hazard_count(HazardKind kind) const {
  const base::MutexLock lock(state_->mutex);
  return state_->hazards.count(kind);
}

void GpuModel::clear_hazards() {
  const base::MutexLock lock(state_->mutex);
  state_->hazards.clear();
}

std::string GpuModel::report() const {
  const base::MutexLock lock(state_->mutex);
  return state_->hazards.report();
}

void GpuModel::validate() const {
  const base::MutexLock lock(state_->mutex);
  state_->memory.validate();
  state_->memory.for_each_physical([this](const Physical& physical) {
    for (const Frame& frame : physical.frames) state_->uses.validate(frame);
  });
  for (const auto& capture : state_->captures) {
    for (const Stream* stream : capture->streams) LEVEE_CHECK(stream->capture == capture.get());
  }
}

}  // namespace levee::device::sim
