// Each line of the `validate` of each structure notices what it is about: the structure is broken
// by hand, one thing at a time, and the process ends with the words of that line. What a state as a
// whole must be: validate_test.cc.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/core/run_index.h"
#include "allocator/core/small_heap.h"
#include "allocator/core/space.h"
#include "allocator/core/streams.h"
#include "tests/support/private_member.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

LEVEE_PRIVATE_MEMBER(begins_of, RunIndex, begins_)
LEVEE_PRIVATE_MEMBER(sizes_of, RunIndex, sizes_)
LEVEE_PRIVATE_MEMBER(total_of, RunIndex, total_)
LEVEE_PRIVATE_MEMBER(longest_bound_of, RunIndex, longest_bound_)
LEVEE_PRIVATE_MEMBER(longest_exact_of, RunIndex, longest_exact_)
LEVEE_PRIVATE_MEMBER(bound_of, ZoneRuns, bound_)
LEVEE_PRIVATE_MEMBER(index_of, ZoneRuns, index_)
LEVEE_PRIVATE_MEMBER(longest_list_of, SmallHeap, longest_)
LEVEE_PRIVATE_MEMBER(slab_lists_of, SmallHeap, lists_)
LEVEE_PRIVATE_MEMBER(spare_of, SmallHeap, spare_)
LEVEE_PRIVATE_MEMBER(untold_of, Space, untold_)
LEVEE_PRIVATE_MEMBER(reserved_units_of, Space, reserved_units_)
LEVEE_PRIVATE_MEMBER(used_units_of, Space, used_units_)
LEVEE_PRIVATE_MEMBER(lendable_units_of, Space, lendable_units_)
LEVEE_PRIVATE_MEMBER(partly_used_of, Space, partly_used_pages_)
LEVEE_PRIVATE_MEMBER(held_units_of, Space, held_units_)
LEVEE_PRIVATE_MEMBER(streams_of, StreamTable, streams_)

template <typename Structure>
struct Damage {
  const char* name;
  const char* words;
  std::function<void(Structure&)> break_it;
};

/// Says what is wrong with the structure once `damage` is done to it, and nothing before.
template <typename Structure>
void expect_noticed(const Damage<Structure>& damage) {
  EXPECT_DEATH(
      {
        Structure structure;
        structure.validate();
        damage.break_it(structure);
        structure.validate();
      },
      damage.words);
}

const auto kName = [](const auto& one) { return std::string(one.param.name); };

// ---- Free runs.

struct TwoRuns {
  TwoRuns() {
    index.insert(Run{0_B, 1_MiB});
    index.insert(Run{2_MiB, 4_MiB});
  }
  void validate() const { index.validate(); }
  RunIndex index;
};

class RunIndexLines : public testing::TestWithParam<Damage<TwoRuns>> {};
TEST_P(RunIndexLines, NoticeWhatIsBroken) {
  expect_noticed(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Each, RunIndexLines,
    testing::Values(
        Damage<TwoRuns>{"a_begin_without_a_size", "begins_.size",
                        [](TwoRuns& runs) { begins_of(runs.index).push_back(1 << 30); }},
        Damage<TwoRuns>{"an_empty_run", "an empty run",
                        [](TwoRuns& runs) { sizes_of(runs.index)[0] = 0; }},
        Damage<TwoRuns>{"runs_that_touch", "runs touch or overlap",
                        [](TwoRuns& runs) { sizes_of(runs.index)[0] = (2_MiB).value; }},
        Damage<TwoRuns>{"the_sum", "sum of runs", [](TwoRuns& runs) { ++total_of(runs.index); }},
        Damage<TwoRuns>{"a_bound_that_is_too_small", "bound of the longest run",
                        [](TwoRuns& runs) { longest_bound_of(runs.index) = (3_MiB).value; }},
        Damage<TwoRuns>{"a_bound_that_is_called_exact", "\\): longest run",
                        [](TwoRuns& runs) {
                          longest_bound_of(runs.index) = (5_MiB).value;
                          longest_exact_of(runs.index) = true;
                        }}),
    kName);

// ---- Small blocks.

// Two chunks, each with a range; in the first also a slab with one object of it handed out.
struct SmallBlocks {
  SmallBlocks() {
    for (std::uint64_t i = 0; i < 2; ++i) {
      chunks[i] = heap.add_chunk(DeviceAddr{(1ULL << 32) + (2_MiB).value * i}, ZoneIndex{0},
                                 2_MiB * i, kDefaultPool, mine);
      ranges[i].addr = chunks[i]->base;
      ranges[i].span = ranges[i].bytes = ranges[i].requested = 64_KiB;
      heap.take_range({chunks[i], 0}, &ranges[i]);
    }
    const SizeClass c = class_of(1_KiB);
    slab = heap.make_slab({chunks[0], 128}, c, mine);
    EXPECT_TRUE(heap.take_object(c, mine, 1_KiB));
  }
  /// Takes all objects: the slab is full, and no longer listed.
  void fill_slab() {
    while (heap.take_object(slab->size_class, mine, 1_KiB)) {
    }
  }
  void validate() const { heap.validate(); }

  device::sim::GpuModel model{device::sim::ModelConfig{}};
  device::sim::SimDevice device{model, DeviceId{0}};
  StreamTable streams{device};
  SmallRecords records;
  SmallHeap heap{records};
  StreamIndex mine = streams.intern(StreamId{0});
  Chunk* chunks[2];
  BlockRecord ranges[2];
  Slab* slab = nullptr;
};

class SmallBlockLines : public testing::TestWithParam<Damage<SmallBlocks>> {};
TEST_P(SmallBlockLines, NoticeWhatIsBroken) {
  expect_noticed(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    OfAChunk, SmallBlockLines,
    testing::Values(Damage<SmallBlocks>{"an_empty_run", "run_units\\[i\\] > 0",
                                        [](SmallBlocks& b) { b.chunks[1]->run_units[0] = 0; }},
                    Damage<SmallBlocks>{"runs_that_touch", "runs touch",
                                        [](SmallBlocks& b) {
                                          Chunk& chunk = *b.chunks[1];
                                          chunk.run_count = 2;
                                          chunk.run_units[0] =
                                              static_cast<std::uint16_t>(chunk.run_units[0] - 8);
                                          chunk.run_begin[1] = static_cast<std::uint16_t>(
                                              chunk.run_begin[0] + chunk.run_units[0]);
                                          chunk.run_units[1] = 8;
                                        }},
                    Damage<SmallBlocks>{"a_run_beyond_the_end", "end <= kUnits",
                                        [](SmallBlocks& b) { ++b.chunks[1]->run_units[0]; }},
                    Damage<SmallBlocks>{"the_longest_run", "longest run of a chunk",
                                        [](SmallBlocks& b) { --b.chunks[1]->longest_units; }},
                    Damage<SmallBlocks>{"units", "units of a chunk",
                                        [](SmallBlocks& b) { ++b.chunks[1]->used_units; }},
                    Damage<SmallBlocks>{"objects_of_a_slab", "objects of a slab",
                                        [](SmallBlocks& b) { ++b.slab->live_count; }},
                    Damage<SmallBlocks>{"a_slab_that_is_not_listed",
                                        "a slab with free objects is listed",
                                        [](SmallBlocks& b) { b.slab->is_listed = false; }},
                    Damage<SmallBlocks>{"what_lies_in_a_chunk", "what lies in a chunk",
                                        [](SmallBlocks& b) { b.ranges[1].span = 32_KiB; }},
                    Damage<SmallBlocks>{"live_blocks", "live blocks of a chunk",
                                        [](SmallBlocks& b) { ++b.chunks[1]->live_count; }}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    OfAHeap, SmallBlockLines,
    testing::Values(Damage<SmallBlocks>{"a_place", "a chunk knows its place",
                                        [](SmallBlocks& b) { b.chunks[1]->place = 7; }},
                    Damage<SmallBlocks>{"a_longest_run", "longest run of chunk 1",
                                        [](SmallBlocks& b) { --longest_list_of(b.heap)[1]; }},
                    Damage<SmallBlocks>{
                        "the_order", "chunks by address",
                        [](SmallBlocks& b) { std::swap(b.chunks[0]->base, b.chunks[1]->base); }},
                    Damage<SmallBlocks>{"an_empty_chunk", "an empty chunk is kept",
                                        [](SmallBlocks& b) {
                                          b.heap.free_range(&b.ranges[1], {});
                                          EXPECT_EQ(spare_of(b.heap), b.chunks[1]);
                                          spare_of(b.heap) = nullptr;
                                        }},
                    Damage<SmallBlocks>{
                        "a_full_slab", "a full slab is listed",
                        [](SmallBlocks& b) {
                          b.fill_slab();
                          slab_lists_of(b.heap)[b.mine.value][b.slab->size_class.value] = b.slab;
                        }},
                    Damage<SmallBlocks>{"the_stream_of_a_slab", "slab->stream",
                                        [](SmallBlocks& b) { ++b.slab->stream.value; }},
                    Damage<SmallBlocks>{"the_class_of_a_slab", "slab->size_class",
                                        [](SmallBlocks& b) { ++b.slab->size_class.value; }}),
    kName);

// ---- Pages and zones.

// Four pages in a prompt zone; 0 and 2 also side by side in a deferred one, which was told.
struct Pages {
  Pages() {
    primary = space.add_zone(DeviceAddr{1ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kPrimary);
    alias = space.add_zone(DeviceAddr{2ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kAlias);
    for (std::uint32_t i = 0; i < 4; ++i) {
      index[i] = space.add_page(HandleId{i + 1}, 1, kDefaultPool);
      space.attach(index[i], Slot{primary, i});
    }
    space.attach(index[0], Slot{alias, 0});
    space.attach(index[2], Slot{alias, 1});
    space.tell_deferred();
  }
  Page& page(int i) { return const_cast<Page&>(space.page(index[i])); }
  ZoneRuns& runs(ZoneIndex zone) { return space.zone(zone).runs; }
  void occupy(ZoneIndex zone, Run run) {
    space.occupy(zone, run, kDefaultPool);
    space.tell_deferred();
  }
  void validate() const { space.validate(); }

  Space space{2_MiB};
  ZoneIndex primary;
  ZoneIndex alias;
  PageIndex index[4];
};

class SpaceLines : public testing::TestWithParam<Damage<Pages>> {};
TEST_P(SpaceLines, NoticeWhatIsBroken) {
  expect_noticed(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    OfAPage, SpaceLines,
    testing::Values(Damage<Pages>{"live_bytes", "page 1 holds more than its size",
                                  [](Pages& p) { p.page(1).live_bytes = (3_MiB).value; }},
                    Damage<Pages>{"an_owner", "page 1 and its owner",
                                  [](Pages& p) { p.page(1).live_bytes = (1_MiB).value; }},
                    Damage<Pages>{"prompt_slots", "slots of page 1 in prompt zones",
                                  [](Pages& p) { ++p.page(1).prompt_slots; }},
                    Damage<Pages>{"slots", "slots == page.slot_count",
                                  [](Pages& p) { ++p.page(1).slot_count; }},
                    Damage<Pages>{"who_hears", "who hears of page 1",
                                  [](Pages& p) { p.page(1).hearers ^= Page::kPrompts; }},
                    Damage<Pages>{"bound", "page.is_bound",
                                  [](Pages& p) { p.page(1).is_bound = true; }},
                    Damage<Pages>{"the_prompt_zone", "page 0 and its prompt zone",
                                  [](Pages& p) { p.page(0).prompt_at = 1; }},
                    Damage<Pages>{"an_owner_that_has_no_slot", "page 1 is owned by no slot of it",
                                  [](Pages& p) {
                                    p.occupy(p.primary, Run{2_MiB, 1_MiB});
                                    p.page(1).owner = p.alias;
                                  }},
                    Damage<Pages>{"an_owner_of_half_a_slot", "page 1 is owned by no slot of it",
                                  [](Pages& p) {
                                    p.occupy(p.primary, Run{2_MiB, 1_MiB});
                                    p.page(1).mappings[0].usable = false;
                                  }},
                    Damage<Pages>{"twice_in_a_zone", "page 1 is mapped twice into zone 0",
                                  [](Pages& p) {
                                    Page& page = p.page(1);
                                    page.mappings.push_back(Mapping{Slot{p.primary, 1}, true});
                                    ++page.slot_count;
                                    ++page.prompt_slots;
                                    page.note_hearers();
                                  }},
                    Damage<Pages>{"another_page_in_its_slot", "slot and page 1 disagree",
                                  [](Pages& p) { p.space.zone(p.primary).slots[1] = p.index[3]; }},
                    Damage<Pages>{"not_on_offer", "page 1 on offer in zone 0",
                                  [](Pages& p) {
                                    p.runs(p.primary).prompt().cut(Run{2_MiB, 2_MiB});
                                  }},
                    Damage<Pages>{"on_offer_elsewhere",
                                  "page 0 has live bytes and is on offer through another slot",
                                  [](Pages& p) {
                                    p.occupy(p.alias, Run{0_B, 1_MiB});
                                    p.runs(p.primary).prompt().insert(Run{0_B, 2_MiB});
                                  }},
                    Damage<Pages>{"not_as_told", "slot 0 of zone 1 is not as it was told",
                                  [](Pages& p) { p.runs(p.alias).hide(0, 1); }},
                    Damage<Pages>{"never_told", "a page changed and nobody will tell zone 1",
                                  [](Pages& p) {
                                    p.runs(p.alias).hide(0, 1);
                                    p.page(0).is_shown_deferred = false;
                                  }}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    OfAZone, SpaceLines,
    testing::Values(
        Damage<Pages>{"a_page_that_is_not_mapped", "slot 2 of a page not mapped",
                      [](Pages& p) { p.space.zone(p.alias).slots.push_back(p.index[1]); }},
        Damage<Pages>{"filled_slots", "filled slots of zone 0",
                      [](Pages& p) { ++p.space.zone(p.primary).filled; }},
        Damage<Pages>{"slots_beyond_the_range", "zone.range_bytes",
                      [](Pages& p) { p.space.zone(p.primary).range_bytes = 6_MiB; }},
        Damage<Pages>{"free_bytes", "free bytes of zone 0",
                      [](Pages& p) {
                        p.runs(p.primary).prompt().insert(Run{100_MiB, 2_MiB});
                      }},
        Damage<Pages>{"own_bytes", "free bytes of zone 1",
                      [](Pages& p) {
                        p.occupy(p.alias, Run{0_B, 1_MiB});
                        p.runs(p.alias).cut_own(Run{1_MiB, 512_KiB});
                      }},
        Damage<Pages>{"bytes_of_a_page_that_it_does_not_own", "zone 1 has bytes of page 2, which",
                      [](Pages& p) {
                        p.occupy(p.alias, Run{0_B, 1_MiB});
                        p.occupy(p.primary, Run{4_MiB, 1_MiB});
                        p.runs(p.alias).cut_own(Run{1_MiB, 1_MiB});
                        p.runs(p.alias).insert_own(Run{2_MiB, 1_MiB});
                      }},
        Damage<Pages>{"the_bound_of_its_runs", "bound of a deferred zone",
                      [](Pages& p) {
                        EXPECT_EQ(p.runs(p.alias).longest(), 4_MiB);
                        bound_of(p.runs(p.alias)) = (2_MiB).value;
                      }},
        Damage<Pages>{"how_many_runs_it_has", "index_.count",
                      [](Pages& p) {
                        EXPECT_EQ(p.runs(p.alias).longest(), 4_MiB);
                        index_of(p.runs(p.alias)).clear();
                      }},
        Damage<Pages>{"its_runs", "run 0 of a deferred zone",
                      [](Pages& p) {
                        EXPECT_EQ(p.runs(p.alias).longest(), 4_MiB);
                        index_of(p.runs(p.alias)).cut(Run{0_B, 1_MiB});
                      }},
        Damage<Pages>{"its_own_bytes_as_runs", "runs touch or overlap",
                      [](Pages& p) {
                        p.occupy(p.alias, Run{0_B, 512_KiB});
                        p.occupy(p.alias, Run{1_MiB, 512_KiB});
                        sizes_of(const_cast<RunIndex&>(p.runs(p.alias).own()))[0] *= 2;
                      }}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    OfAll, SpaceLines,
    testing::Values(
        Damage<Pages>{"what_is_not_told_yet", "pages to tell of",
                      [](Pages& p) { untold_of(p.space).push_back(p.index[1]); }},
        Damage<Pages>{"a_page_that_is_to_be_told_twice", "a page is listed twice",
                      [](Pages& p) {
                        p.page(0).is_untold = true;
                        p.page(0).note_hearers();
                        untold_of(p.space).push_back(p.index[1]);
                      }},
        Damage<Pages>{"reserved", "units reserved", [](Pages& p) { ++reserved_units_of(p.space); }},
        Damage<Pages>{"used", "units used", [](Pages& p) { ++used_units_of(p.space); }},
        Damage<Pages>{"lendable", "units lendable", [](Pages& p) { ++lendable_units_of(p.space); }},
        Damage<Pages>{"partly_used", "pages partly used",
                      [](Pages& p) { ++partly_used_of(p.space); }},
        Damage<Pages>{"held", "units held by pool 0",
                      [](Pages& p) { ++held_units_of(p.space)[0]; }}),
    kName);

// ---- Streams.

struct Streams {
  void validate() const { table.validate(); }
  auto& mine() { return streams_of(table)[index.value]; }

  device::sim::GpuModel model{device::sim::ModelConfig{}};
  device::sim::SimDevice device{model, DeviceId{0}};
  StreamTable table{device};
  StreamIndex index = table.intern(StreamId{0});
};

class StreamLines : public testing::TestWithParam<Damage<Streams>> {};
TEST_P(StreamLines, NoticeWhatIsBroken) {
  expect_noticed(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Each, StreamLines,
    testing::Values(Damage<Streams>{"a_complete_epoch", "an open epoch is complete",
                                    [](Streams& s) { s.mine().completed = s.mine().open_epoch; }},
                    Damage<Streams>{"the_order_of_epochs", "closed epochs are out of order",
                                    [](Streams& s) {
                                      s.mine().closed.emplace_back().epoch = s.mine().completed;
                                    }},
                    Damage<Streams>{"a_closed_epoch", "closed.epoch < stream.open_epoch",
                                    [](Streams& s) {
                                      s.mine().closed.emplace_back().epoch = s.mine().open_epoch;
                                    }}),
    kName);

}  // namespace
}  // namespace levee::core
