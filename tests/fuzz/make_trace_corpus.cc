// Writes the seeds of trace_fuzz: small valid inputs of every kind, bodies not compressed so that a
// changed byte changes a field. make_trace_corpus FOLDER. The seeds in corpus/trace were made by
// it; crashes that were found lie beside them.
#include <fcntl.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <vector>

#include "allocator/record/crc32c.h"
#include "allocator/record/trace_index.h"
#include "allocator/record/trace_writer.h"
#include "tests/unit/record/event_programs.h"

namespace levee::record {
namespace {

namespace fs = std::filesystem;
using Bytevector = std::vector<std::uint8_t>;

void save(const fs::path& path, std::uint8_t target, std::span<const std::uint8_t> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.put(static_cast<char>(target));
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

Bytevector small_file(const fs::path& path, int events, Bytes cap, TraceEnding ending) {
  TraceHeader header;
  header.start = Nanos{1'000'000'000};
  header.clock = "monotonic";
  header.cap = cap;
  std::string why;
  std::deque<Bytevector> entries;
  {
    const auto writer =
        TraceWriter::start(::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600), header, &why);
    const auto define = [&](const auto& what) {
      ByteWriter bytes;
      put_definition(what, bytes);
      writer->define(entries.emplace_back(bytes.bytes().begin(), bytes.bytes().end()));
    };
    define(TraceLane{LaneId{1}, DeviceId{0}, StreamId{7}, false});
    define(TraceLane{LaneId{2}, DeviceId{1}, StreamId{0}, true});
    define(TraceThread{0, 17, "python"});
    define(TracePool{1, PoolId{0, 7}});
    define(TraceDevice{DeviceId{0}, "GPU", 80_GiB});
    define(TraceContext{ContextId{1}, ContextKind::kPhase, "forward"});
    test::EventProgram program(1, {.threads = 2});
    for (int i = 0; i < events; ++i) writer->append(program.next());
    for (int i = 0; i < events / 4; ++i) {
      writer->append_activity(
          make_event(EventKind::kKernel, Nanos{1'000'000'000 + i * 999}, LaneId{1}, 5, 9), 3);
    }
    if (ending == TraceEnding::kCut) {
      writer->flush();
    } else {
      writer->finish(ending, "a reason");
    }
  }
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The same blocks with bodies that are not compressed.
Bytevector uncompressed(const Bytevector& file) {
  std::string why;
  const auto index = TraceIndex::build(ByteSource::of_bytes(file), &why);
  Bytevector out(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(index->head().bytes));
  for (const BlockRef& block : index->blocks()) {
    Bytevector summary, body;
    index->read_summary(block, summary);
    index->read_body(block, body);
    Frame frame = block.frame;
    frame.flags = 0;
    frame.body_bytes = static_cast<std::uint32_t>(body.size());
    frame.body_crc = crc32c(body);
    const std::size_t at = out.size();
    out.resize(at + static_cast<std::size_t>(frame.bytes_on_disk()));
    encode_frame(frame, out.data() + at);
    std::copy(summary.begin(), summary.end(),
              out.begin() + static_cast<std::ptrdiff_t>(at + kFrameBytes));
    std::copy(body.begin(), body.end(),
              out.begin() + static_cast<std::ptrdiff_t>(at + kFrameBytes + summary.size()));
  }
  return out;
}

void save_parts(const fs::path& folder, const Bytevector& file) {
  std::string why;
  const auto index = TraceIndex::build(ByteSource::of_bytes(file), &why);
  for (const BlockRef& block : index->blocks()) {
    Bytevector summary, body;
    index->read_summary(block, summary);
    index->read_body(block, body);
    switch (block.frame.type) {
      case BlockType::kEvents:
      case BlockType::kActivity: {
        Bytevector input(2);
        store_le(input.data(), static_cast<std::uint16_t>(block.frame.event_count));
        input.insert(input.end(), body.begin(), body.end());
        save(folder / ("events-" + std::to_string(block.frame.number)), 2, input);
        if (!summary.empty())
          save(folder / ("summary-" + std::to_string(block.frame.number)), 3, summary);
        break;
      }
      case BlockType::kChapter:
        save(folder / ("keyframe-" + std::to_string(block.frame.number)), 4, body);
        break;
      case BlockType::kDefinitions:
        save(folder / ("definitions-" + std::to_string(block.frame.number)), 5, body);
        break;
      case BlockType::kEnd:
        save(folder / "end", 6, body);
        break;
    }
  }
}

}  // namespace
}  // namespace levee::record

int main(int argc, char** argv) {
  using namespace levee;
  using namespace levee::record;
  if (argc != 2) return 2;
  const fs::path folder = argv[1];
  fs::create_directories(folder);
  const fs::path scratch = folder / "scratch.levee";
  const auto complete = small_file(scratch, 300, 0_B, TraceEnding::kComplete);
  const auto cut = small_file(scratch, 40, 2_MiB, TraceEnding::kCut);
  const auto empty = small_file(scratch, 0, 0_B, TraceEnding::kStopped);
  save(folder / "file-complete", 0, complete);
  save(folder / "file-empty", 0, empty);
  save(folder / "repaired-complete", 1, uncompressed(complete));
  save(folder / "repaired-cut", 1, uncompressed(cut));
  save(folder / "head", 7, std::span(complete).first(400));
  save_parts(folder, complete);
  StateTracker tracker;
  tracker.set_lane_device(LaneId{1}, DeviceId{0});
  test::EventProgram program(2);
  for (int i = 0; i < 200; ++i) tracker.apply(program.next().event, 0);
  ByteWriter keyframe;
  put_keyframe({100, 7, tracker.snapshot(Nanos{5'000'000'000})}, keyframe);
  save(folder / "keyframe-live", 4, keyframe.bytes());
  fs::remove(scratch);
  return 0;
}
