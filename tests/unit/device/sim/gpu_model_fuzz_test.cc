// Random programs on the model, compared step by step with references that are slow and obvious:
// one for mappings and capacity, one for the judge. Seeds are fixed; a failure prints its seed and
// its program, and --gtest_filter replays it.
#include <array>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

/// Numbers from a seed, and the program so far, which is printed when an expectation fails.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) { log_ << "seed " << seed; }
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_);
  }
  template <typename... Parts>
  void say(const Parts&... parts) {
    log_ << "\n  ";
    (log_ << ... << parts);
  }
  std::string program() const { return log_.str(); }

 private:
  std::mt19937 engine_;
  std::ostringstream log_;
};

// ---- Mappings

class MappingReference {
 public:
  struct Handle {
    bool is_released = false;
    std::size_t pages = 0;
    std::size_t mappings = 0;
  };
  static constexpr std::size_t kSlots = 12;
  static constexpr std::size_t kCapacityPages = 10;

  std::map<std::uint64_t, Handle> handles;
  std::array<std::uint64_t, kSlots> mapped{};  // the handle; 0: nothing
  std::array<bool, kSlots> is_begin{};         // a mapping begins here
  std::array<bool, kSlots> has_access{};

  std::size_t used_pages() const {
    std::size_t pages = 0;
    for (const auto& [id, handle] : handles) pages += handle.pages;
    return pages;
  }
  bool can_map(std::size_t slot, std::uint64_t id) const {
    const auto it = handles.find(id);
    if (it == handles.end() || it->second.is_released || slot + it->second.pages > kSlots)
      return false;
    for (std::size_t i = slot; i < slot + it->second.pages; ++i) {
      if (mapped[i] != 0) return false;
    }
    return true;
  }
  bool is_whole(std::size_t slot, std::size_t count) const {
    if (slot + count > kSlots || count == 0 || !is_begin[slot]) return false;
    for (std::size_t i = slot; i < slot + count; ++i) {
      if (mapped[i] == 0) return false;
    }
    return slot + count == kSlots || mapped[slot + count] == 0 || is_begin[slot + count];
  }
  void drop(std::uint64_t id) {
    if (handles[id].is_released && handles[id].mappings == 0) handles.erase(id);
  }
};

class MappingFuzz : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(MappingFuzz, AgreesWithTheReferenceAfterEachCall) {
  using Reference = MappingReference;
  Random random(GetParam());
  ModelConfig config = small_config();
  config.devices[0].total_memory = 2_MiB * Reference::kCapacityPages;
  config.report_leaks = false;
  GpuModel model(config);
  Reference reference;
  std::vector<HandleId> known;
  const DeviceAddr base = model.reserve_range(kGpu, 2_MiB * Reference::kSlots, Bytes{}).value();
  const auto addr_of = [base](std::size_t slot) { return base + 2_MiB * slot; };

  for (int step = 0; step < 400; ++step) {
    const std::size_t slot = random.below(Reference::kSlots);
    const std::size_t count = 1 + random.below(3);
    const HandleId handle = known.empty() ? HandleId{48} : known[random.below(known.size())];
    switch (random.below(6)) {
      case 0: {
        random.say("create ", count);
        const bool fits = reference.used_pages() + count <= Reference::kCapacityPages;
        const Result<HandleId> made = model.create_handle(kGpu, 2_MiB * count);
        ASSERT_EQ(made.ok(), fits) << random.program();
        if (fits) {
          known.push_back(made.value());
          reference.handles[made.value().value] = Reference::Handle{false, count, 0};
        }
        break;
      }
      case 1: {
        random.say("release ", handle.value);
        const auto it = reference.handles.find(handle.value);
        const bool is_legal = it != reference.handles.end() && !it->second.is_released;
        ASSERT_EQ(model.release_handle(handle).ok(), is_legal) << random.program();
        if (is_legal) {
          it->second.is_released = true;
          reference.drop(handle.value);
        }
        break;
      }
      case 2:
      case 3: {
        random.say("map ", slot, " ", handle.value);
        const bool is_legal = reference.can_map(slot, handle.value);
        const auto it = reference.handles.find(handle.value);
        const std::size_t pages = it == reference.handles.end() ? 1 : it->second.pages;
        ASSERT_EQ(model.map(addr_of(slot), 2_MiB * pages, handle).ok(), is_legal)
            << random.program();
        if (is_legal) {
          ++it->second.mappings;
          for (std::size_t i = slot; i < slot + pages; ++i) {
            reference.mapped[i] = handle.value;
            reference.is_begin[i] = i == slot;
            reference.has_access[i] = false;
          }
        }
        break;
      }
      case 4: {
        random.say("unmap ", slot, " ", count);
        const bool is_legal = reference.is_whole(slot, count);
        ASSERT_EQ(model.unmap(addr_of(slot), 2_MiB * count).ok(), is_legal) << random.program();
        for (std::size_t i = slot; is_legal && i < slot + count; ++i) {
          const std::uint64_t id = reference.mapped[i];
          if (reference.is_begin[i]) {
            --reference.handles[id].mappings;
          }
          reference.mapped[i] = 0;
          if (i + 1 == slot + count || reference.is_begin[i + 1]) reference.drop(id);
          reference.is_begin[i] = false;
        }
        break;
      }
      default: {
        random.say("access ", slot, " ", count);
        const bool is_legal = reference.is_whole(slot, count);
        ASSERT_EQ(model.set_access(addr_of(slot), 2_MiB * count, kGpu).ok(), is_legal)
            << random.program();
        for (std::size_t i = slot; is_legal && i < slot + count; ++i)
          reference.has_access[i] = true;
      }
    }
    for (std::size_t i = 0; i < Reference::kSlots; ++i) {
      const AddressInfo info = model.find(addr_of(i) + 4_KiB);
      ASSERT_EQ(info.kind == MemoryKind::kMapped, reference.mapped[i] != 0) << random.program();
      if (reference.mapped[i] == 0) continue;
      ASSERT_EQ(info.accessible, reference.has_access[i]) << random.program();
      const Reference::Handle& held = reference.handles[reference.mapped[i]];
      ASSERT_EQ(info.handle.value, held.is_released ? 0 : reference.mapped[i]) << random.program();
    }
    ASSERT_EQ(model.memory_use(kGpu).used, 2_MiB * reference.used_pages()) << random.program();
    model.validate();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MappingFuzz, ::testing::Range(0U, 60U));

// ---- Order of uses

/// Every use has a number; a stream, an event and the host each keep the plain set of the uses that
/// are before them.
class UseReference {
 public:
  static constexpr std::size_t kPages = 2;
  static constexpr std::size_t kAliases = 2;
  static constexpr std::size_t kUnitsPerPage = 8;
  static constexpr std::size_t kStreams = 3;
  static constexpr std::size_t kEvents = 3;
  using Past = std::set<int>;
  struct Use {
    int number = 0;  // 0: open
    std::size_t stream = 0;
    std::size_t alias = 0;
    bool is_open() const { return number == 0; }
  };

  std::array<Past, kStreams>
      before{};  // what is ordered before the next work of the stream; its own uses included
  std::array<Past, kEvents> event_past{};
  Past host;
  std::array<std::vector<Use>, kPages * kUnitsPerPage> units;
  std::array<std::set<int>, kAliases * kPages> through;  // closed uses through each mapping, ever

  bool is_ordered(const Use& use, std::size_t stream) const {
    return !use.is_open() && (host.contains(use.number) || before[stream].contains(use.number));
  }
  Use close(std::size_t stream, std::size_t alias) {
    before[stream].insert(++last_);
    return Use{last_, stream, alias};
  }
  /// Returns whether it is a hazard.
  bool hand_out(std::size_t stream, std::size_t alias, std::size_t begin, std::size_t end) {
    bool is_hazard = false;
    for (std::size_t unit = begin; unit < end; ++unit) {
      for (const Use& use : units[unit]) is_hazard |= !is_ordered(use, stream);
      units[unit] = {Use{0, stream, alias}};
    }
    return is_hazard;
  }
  void share(std::size_t stream, std::size_t alias, std::size_t begin, std::size_t end) {
    for (std::size_t unit = begin; unit < end; ++unit) units[unit].push_back(Use{0, stream, alias});
  }
  void give_back(std::size_t stream, std::size_t alias, std::size_t begin, std::size_t end) {
    for (std::size_t unit = begin; unit < end; ++unit) {
      bool was_open = false;
      for (Use& use : units[unit]) {
        if (!use.is_open()) continue;
        use = close(use.stream, use.alias);
        through[use.alias * kPages + unit / kUnitsPerPage].insert(use.number);
        was_open = true;
      }
      if (was_open) continue;
      units[unit].push_back(close(stream, alias));
      through[alias * kPages + unit / kUnitsPerPage].insert(last_);
    }
  }
  bool may_unmap(std::size_t alias, std::size_t page) const {
    for (const int number : through[alias * kPages + page]) {
      if (!host.contains(number)) return false;
    }
    for (std::size_t unit = page * kUnitsPerPage; unit < (page + 1) * kUnitsPerPage; ++unit) {
      for (const Use& use : units[unit]) {
        if (use.is_open() && use.alias == alias) return false;
      }
    }
    return true;
  }
  static void join(Past& to, const Past& from) { to.insert(from.begin(), from.end()); }

 private:
  int last_ = 0;
};

class UseFuzz : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(UseFuzz, FindsExactlyTheHazardsOfTheReference) {
  using Reference = UseReference;
  constexpr Bytes kUnit{(2U << 20) / Reference::kUnitsPerPage};
  Random random(GetParam());
  ModelConfig config = small_config();
  config.report_leaks = false;
  GpuModel model(config);
  Reference reference;

  std::vector<HandleId> pages;
  for (std::size_t i = 0; i < Reference::kPages; ++i)
    pages.push_back(model.create_handle(kGpu, 2_MiB).value());
  std::array<DeviceAddr, Reference::kAliases> zones{};
  const auto map_page = [&](std::size_t alias, std::size_t page) {
    const DeviceAddr at = zones[alias] + 2_MiB * page;
    ASSERT_TRUE(model.map(at, 2_MiB, pages[page]).ok());
    ASSERT_TRUE(model.set_access(at, 2_MiB, kGpu).ok());
  };
  for (std::size_t alias = 0; alias < Reference::kAliases; ++alias) {
    zones[alias] = model.reserve_range(kGpu, 2_MiB * Reference::kPages, Bytes{}).value();
    for (std::size_t page = 0; page < Reference::kPages; ++page) map_page(alias, page);
  }
  std::array<StreamId, Reference::kStreams> streams{};
  for (StreamId& stream : streams)
    stream = model.create_stream(kGpu, StreamOptions{.non_blocking = true, .priority = 0}).value();
  std::array<EventId, Reference::kEvents> events{};
  for (EventId& event : events) event = model.create_event(kGpu).value();

  for (int step = 0; step < 500; ++step) {
    const std::size_t stream = random.below(Reference::kStreams);
    const std::size_t event = random.below(Reference::kEvents);
    const std::size_t alias = random.below(Reference::kAliases);
    const std::size_t begin = random.below(Reference::kPages * Reference::kUnitsPerPage);
    const std::size_t end =
        begin + 1 + random.below(Reference::kPages * Reference::kUnitsPerPage - begin);
    const DeviceAddr addr = zones[alias] + kUnit * begin;
    const Bytes bytes = kUnit * (end - begin);
    bool is_hazard = false;
    switch (random.below(9)) {
      case 0:
        random.say("hand out s", stream, " alias ", alias, " ", begin, "..", end);
        is_hazard = reference.hand_out(stream, alias, begin, end);
        model.note_use(kGpu, addr, bytes, streams[stream], UseKind::kHandOut);
        break;
      case 1:
        random.say("share s", stream, " alias ", alias, " ", begin, "..", end);
        reference.share(stream, alias, begin, end);
        model.note_use(kGpu, addr, bytes, streams[stream], UseKind::kShare);
        break;
      case 2:
      case 3:
        random.say("give back s", stream, " alias ", alias, " ", begin, "..", end);
        reference.give_back(stream, alias, begin, end);
        model.note_use(kGpu, addr, bytes, streams[stream], UseKind::kGiveBack);
        break;
      case 4:
        random.say("record e", event, " s", stream);
        reference.event_past[event] = reference.before[stream];
        ASSERT_TRUE(model.record_event(events[event], kGpu, streams[stream]).ok());
        break;
      case 5:
        random.say("wait s", stream, " e", event);
        Reference::join(reference.before[stream], reference.event_past[event]);
        ASSERT_TRUE(model.wait_event(kGpu, streams[stream], events[event]).ok());
        break;
      case 6:
        random.say("query e", event);
        Reference::join(reference.host, reference.event_past[event]);
        ASSERT_TRUE(model.query_event(events[event]).ok());
        break;
      case 7:
        // Rare, since it orders everything.
        if (random.below(4) != 0) break;
        random.say("synchronise s", stream);
        Reference::join(reference.host, reference.before[stream]);
        ASSERT_TRUE(model.synchronize_stream(kGpu, streams[stream]).ok());
        break;
      default: {
        const std::size_t page = begin / Reference::kUnitsPerPage;
        random.say("unmap and map again alias ", alias, " page ", page);
        is_hazard = !reference.may_unmap(alias, page);
        if (is_hazard && random.below(4) != 0) {
          is_hazard = false;  // mostly a correct program
          break;
        }
        ASSERT_TRUE(model.unmap(zones[alias] + 2_MiB * page, 2_MiB).ok());
        // What was in use there is still in use, through an address that now means a new mapping:
        // start the page afresh.
        if (is_hazard) {
          ASSERT_EQ(model.hazard_count(), 1U) << random.program();
          return;
        }
        map_page(alias, page);
      }
    }
    ASSERT_EQ(model.hazard_count() != 0, is_hazard) << random.program() << "\n" << model.report();
    model.clear_hazards();
    model.validate();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, UseFuzz, ::testing::Range(0U, 150U));

}  // namespace
}  // namespace levee::device::sim
