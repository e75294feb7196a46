// Programs that once found something, as the runner shrank and printed them.
#include <gtest/gtest.h>

#include <string>

#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::model_test {
namespace {

constexpr std::uint64_t MiB = 1ULL << 20;

std::string problem_of(const Program& program, std::uint64_t capacity, Config config = {}) {
  RunOptions options;
  options.capacity = capacity;
  options.config = config;
  options.check_promise = config.backing != Backing::kSegments;  // they share no pages
  return run_isolated(program, options).problem;
}

TEST(Regressions, ARestoreThatFailsPutsBlocksBackThatOtherStreamsUse) {
  EXPECT_EQ(problem_of(
                {
                    CaptureBegin{1, 2},
                    Alloc{247, 3879113, 2},
                    Checkpoint{1},
                    Free{247},
                    CaptureEnd{1},
                    PoolBegin{1, 0},
                    Alloc{340, 3683, 0},
                    RecordUse{340, 1},
                    Restore{1},
                },
                192 * MiB),
            "");
}

TEST(Regressions, ARestoreThatFailsGivesTheChunkBackThatItTookForAnObject) {
  EXPECT_EQ(problem_of(
                {
                    PoolBegin{1, 0},
                    Alloc{104, 1, 0},
                    Alloc{116, 89, 0},
                    Alloc{149, 993659, 0},
                    Alloc{151, 4953, 0},
                    Alloc{158, 10459, 0},
                    Alloc{162, 2301047, 0},
                    Free{151},
                    Alloc{171, 64277, 0},
                    Free{171},
                    PoolEnd{1},
                    Free{149},
                    Free{158},
                    Free{104},
                    Checkpoint{1},
                    CaptureBegin{1, 6},
                    Free{162},
                    Free{116},
                    Alloc{542, 6655211, 6},
                    Alloc{591, 6258209, 2},
                    Alloc{598, 12138, 0},
                    RecordUse{598, 2},
                    Free{598},
                    Alloc{610, 7808187, 6},
                    Alloc{629, 2096640, 6},
                    CaptureEnd{1},
                    Restore{1},
                },
                224 * MiB),
            "");
}

TEST(Regressions, ARestoreThatFailsLeavesNoUseOfWhatItTried) {
  EXPECT_EQ(problem_of(
                {
                    CaptureBegin{2, 1},
                    Alloc{40, 6762452, 1},
                    PoolNoSplit{2},
                    Alloc{597, 4194304, 1},
                    Alloc{626, 8130198, 1},
                    Checkpoint{2},
                    Alloc{635, 5893655, 1},
                    Free{626},
                    CaptureEnd{2},
                    PoolBegin{2, 0},
                    Free{597},
                    Alloc{672, 3066, 0},
                    Alloc{713, 4194304, 0},
                    Free{713},
                    Alloc{716, 143736, 0},
                    Alloc{725, 1042729, 0},
                    Free{716},
                    Alloc{746, 9215, 0},
                    Alloc{753, 315, 0},
                    RecordUse{753, 1},
                    Free{746},
                    Alloc{757, 996823, 0},
                    Restore{2},
                    Free{757},
                    Alloc{778, 500, 0},
                },
                128 * MiB),
            "");
}

TEST(Regressions, ARestoreThatFailsMakesNoPeak) {
  EXPECT_EQ(problem_of(
                {
                    Alloc{36, 11655892, 1},
                    Alloc{44, 8574173, 1},
                    Alloc{46, 8756171, 1},
                    PoolBegin{1, 0},
                    Alloc{77, 4194304, 0},
                    Alloc{78, 8603296, 1},
                    Alloc{81, 12123840, 0},
                    Checkpoint{1},
                    Alloc{91, 2097152, 0},
                    Free{81},
                    PoolEnd{1},
                    CaptureBegin{1, 1},
                    Free{91},
                    Alloc{126, 2097152, 1},
                    Free{77},
                    CaptureEnd{1},
                    Alloc{169, 16455438, 0},
                    Restore{1},
                },
                64 * MiB),
            "");
}

TEST(Regressions, APictureOfASegmentThatIsGoneCannotBeRestored) {
  Config segments;
  segments.backing = Backing::kSegments;
  EXPECT_EQ(problem_of(
                {
                    Alloc{3, 29646211, 0},
                    RecordUse{3, 2},
                    Alloc{6, 25085235, 4},
                    Free{3},
                    Alloc{7, 8388608, 0},
                    Free{6},
                    Alloc{8, 12582912, 4},
                    Alloc{10, 28113, 0},
                    Alloc{11, 361556, 0},
                    Trim{190296713},
                    Free{8},
                    Free{7},
                    Alloc{15, 12582912, 4},
                    PoolBegin{1, 1},
                    RecordUse{15, 3},
                    Alloc{25, 9404427, 0},
                    Alloc{26, 8541244, 0},
                    Alloc{27, 1118579, 2},
                    Free{15},
                    Alloc{29, 208, 4},
                    Alloc{30, 10485760, 0},
                    Alloc{31, 19068910, 0},
                    Alloc{32, 592671, 0},
                    Free{30},
                    Alloc{33, 5526177, 2},
                    CaptureBegin{2, 2},
                    Alloc{34, 8303, 0},
                    Free{27},
                    Alloc{38, 2097152, 0},
                    Alloc{39, 904609, 0},
                    Alloc{40, 346, 0},
                    Alloc{43, 6291456, 0},
                    Alloc{44, 817820, 0},
                    CaptureEnd{2},
                    Free{43},
                    Alloc{51, 63837445, 0},
                    Alloc{52, 2097152, 0},
                    Alloc{53, 2097152, 0},
                    Free{38},
                    Free{33},
                    Alloc{58, 916606, 0},
                    Free{31},
                    Alloc{60, 9069932, 0},
                    Alloc{61, 2637006, 3},
                    Alloc{66, 1376667, 1},
                    Alloc{68, 15415128, 0},
                    Free{51},
                    Alloc{70, 6291456, 0},
                    Alloc{74, 7091871, 0},
                    Alloc{75, 57465572, 0},
                    Alloc{78, 35500015, 0},
                    Alloc{81, 16777216, 0},
                    Free{68},
                    Free{81},
                    Free{75},
                    Free{66},
                    Alloc{93, 16777216, 0},
                    Alloc{94, 7411092, 2},
                    Alloc{95, 14030848, 0},
                    Alloc{97, 18709295, 3},
                    Alloc{105, 58153230, 0},
                    Free{78},
                    Free{25},
                    Alloc{126, 378062, 1},
                    Free{95},
                    Free{97},
                    PoolBegin{2, 0},
                    Alloc{144, 6465977, 0},
                    Alloc{149, 53005795, 0},
                    Alloc{150, 4194304, 0},
                    Alloc{156, 9204403, 1},
                    Alloc{173, 5870348, 0},
                    Alloc{174, 10934, 0},
                    Alloc{176, 8388608, 0},
                    Alloc{196, 4383907, 0},
                    Alloc{204, 9060953, 0},
                    PoolEnd{2},
                    Alloc{238, 8289067, 0},
                    Alloc{239, 16777216, 0},
                    Checkpoint{2},
                    Alloc{253, 8532988, 2},
                    Free{204},
                    Alloc{272, 14600638, 0},
                    Restore{2},
                },
                256 * MiB, segments),
            "");
}

// The capture's graph would write to a pool that lends what it holds.
TEST(Regressions, ACaptureTakesNothingFromPoolsThatServeOthers) {
  EXPECT_EQ(problem_of(
                {
                    CaptureBegin{1, 1},
                    Alloc{25, 2332382, 1},
                    Alloc{26, 513, 0},
                    Alloc{27, 25502993, 0},
                    Alloc{28, 1048577, 0},
                    Alloc{38, 6291456, 1},
                    Alloc{48, 786964, 0},
                    SetLimit{108564488},
                    Free{38},
                    Alloc{52, 16172039, 0},
                    Alloc{53, 10485760, 0},
                    Alloc{321, 2661446, 0},
                    Alloc{322, 7686838, 0},
                    Alloc{326, 416957, 0},
                    Alloc{327, 5373898, 0},
                    CaptureEnd{1},
                    Alloc{329, 1023137, 0},
                    Alloc{330, 6712188, 1},
                    CaptureBegin{2, 1},
                    Alloc{533, 6129654, 0},
                    Alloc{534, 4350412, 0},
                    Alloc{547, 4194304, 0},
                    PoolServes{1, 1},
                    Alloc{685, 9118, 1},
                    CaptureEnd{2},
                    Free{685},
                    Alloc{708, 2097152, 1},
                    Replay{2, 1},
                },
                160 * MiB),
            "");
}

// P1: what a callback frees may itself wait for another stream.
TEST(Regressions, TheLadderWaitsForWhatItsCallbacksFreed) {
  EXPECT_EQ(problem_of(
                {
                    Alloc{418, 32039943, 0},
                    Alloc{421, 18841042, 0},
                    Alloc{431, 40779281, 1},
                    Alloc{440, 148, 1},
                    Alloc{446, 1046553, 0},
                    Alloc{447, 627647, 0},
                    PoolBegin{2, 2},
                    Free{431},
                    Alloc{474, 647917, 0},
                    PoolBegin{1, 1},
                    Alloc{482, 6070, 1},
                    Alloc{489, 3546291, 1},
                    Alloc{491, 5383125, 1},
                    Free{489},
                    PoolEnd{1},
                    RecordUse{482, 0},
                    Alloc{507, 34722190, 0},
                    FreeOnOom{482},
                    Alloc{508, 5158005, 0},
                    Alloc{509, 3506016, 0},
                    Alloc{514, 6291456, 0},
                    Alloc{515, 10485760, 1},
                    Alloc{516, 559607, 0},
                    Alloc{523, 7258806, 1},
                    Alloc{524, 464661, 2},
                    Alloc{529, 14732, 0},
                    Alloc{530, 4194304, 0},
                    Alloc{531, 819380, 0},
                    Alloc{532, 23664419, 0},
                },
                160 * MiB),
            "");
}

TEST(Regressions, NobodyWaitsForTheDeviceWhileAStreamCapturesThatHasAskedForNothing) {
  Config move;
  move.stitch = StitchMode::kMove;
  EXPECT_EQ(problem_of(
                {
                    Fault{7, 2, 3},
                    CaptureBegin{2, 7},
                    Alloc{409, 5618976, 0},
                    Wait{8, 5},
                    Free{409},
                    Alloc{410, 395, 5},
                },
                96 * MiB, move),
            "");
}

TEST(Regressions, ACaptureEndsOnTheThreadThatBeganIt) {
  EXPECT_EQ(problem_of({SwitchThread{1}, CaptureBegin{2, 2}}, 96 * MiB), "");
}

}  // namespace
}  // namespace levee::model_test
