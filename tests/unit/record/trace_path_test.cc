#include "allocator/record/trace_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::record {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

TEST(ProgramName, IsWhatTheUserCallsTheProgram) {
  EXPECT_EQ(program_name("python\0train.py\0--lr\0001\0"s), "train");
  EXPECT_EQ(program_name("/usr/bin/python3.11\0-u\0/home/me/train.py\0"s), "train");
  EXPECT_EQ(program_name("python\0-m\0torch.distributed.run\0x.py\0"s), "torch.distributed.run");
  EXPECT_EQ(program_name("python\0-m\0levee\0run\0bert.py\0"s), "bert");
  EXPECT_EQ(program_name("/usr/bin/python3\0/usr/local/bin/levee\0run\0-m\0pkg.train\0"s),
            "pkg.train");
  EXPECT_EQ(program_name("python\0-c\0import torch\0"s), "python");
  EXPECT_EQ(program_name("./serve\0--port\08\0"s), "serve");
  EXPECT_EQ(program_name("python\0"s), "python");
  EXPECT_EQ(program_name(""), "program");
}

class TracePathTest : public ::testing::Test {
 protected:
  TracePathTest()
      : folder(fs::temp_directory_path() /
               ("levee_path_test." + std::to_string(::getpid()) + "." +
                ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        before(fs::current_path()) {
    fs::create_directories(folder);
    fs::current_path(folder);
  }
  ~TracePathTest() override {
    fs::current_path(before);
    fs::remove_all(folder);
  }
  OpenedTrace open(std::string_view pattern) {
    OpenedTrace opened = open_trace_file(pattern, facts);
    if (opened.file >= 0) ::close(opened.file);
    return opened;
  }
  fs::path folder;
  fs::path before;
  TracePlaceFacts facts{"train", "node/7", 42, -1};
};

TEST_F(TracePathTest, PatternsAreExpanded) {
  EXPECT_EQ(expand_trace_path("a-%p-%h-%r-%%-%z", facts), "a-42-node_7-0-%-%z");
  EXPECT_EQ(expand_trace_path("runs/", facts), "runs/train-node_7-42.levee");
  EXPECT_EQ(expand_trace_path(folder.string(), facts), (folder / "train-node_7-42.levee").string());
  facts.rank = 3;
  EXPECT_EQ(expand_trace_path("runs/", facts), "runs/train-node_7-42-rank3.levee");
  EXPECT_EQ(expand_trace_path("run.levee", facts), "run-rank3.levee");
  EXPECT_EQ(expand_trace_path("run-%r.levee", facts), "run-3.levee");
  EXPECT_EQ(expand_trace_path("run-%p.levee", facts), "run-42.levee");
}

TEST_F(TracePathTest, TheDefaultPlaceIsAFolderHere) {
  const OpenedTrace opened = open("");
  EXPECT_EQ(opened.path, (fs::current_path() / "levee_traces/train-node_7-42.levee").string());
  EXPECT_TRUE(opened.notice.empty());
}

TEST_F(TracePathTest, AnExistingFileIsNeverOverwritten) {
  EXPECT_EQ(open("run.levee").path, "run.levee");
  EXPECT_EQ(open("run.levee").path, "run-2.levee");
  EXPECT_EQ(open("run.levee").path, "run-3.levee");
  EXPECT_EQ(open("new/deep/run").path, "new/deep/run");
  EXPECT_EQ(open("new/deep/run").path, "new/deep/run-2");
}

/// The environment's folder for temporary files, for as long as it lives.
class ScopedTemporaryFolder {
 public:
  explicit ScopedTemporaryFolder(const std::string& folder) {
    if (const char* now = std::getenv("TMPDIR"); now != nullptr) kept_ = now;
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  ~ScopedTemporaryFolder() {
    if (kept_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", kept_.c_str(), 1);
    }
  }
  ScopedTemporaryFolder(const ScopedTemporaryFolder&) = delete;
  ScopedTemporaryFolder& operator=(const ScopedTemporaryFolder&) = delete;

 private:
  std::string kept_;
};

TEST_F(TracePathTest, WhereNothingCanBeWrittenTheTemporaryFolderIs) {
  std::ofstream("levee_traces") << "in the way";
  fs::create_directory("temporary");
  const ScopedTemporaryFolder there(fs::absolute("temporary"));
  const OpenedTrace opened = open("");
  ASSERT_GE(opened.file, 0);
  EXPECT_THAT(opened.path, ::testing::HasSubstr("temporary/levee_traces-" +
                                                std::to_string(::getuid()) + "/train-node_7-42"));
  EXPECT_THAT(opened.notice, ::testing::HasSubstr("recording to " + opened.path + " instead."));
}

TEST_F(TracePathTest, ATemporaryFolderThatIsNotThereIsNotUsed) {
  std::ofstream("levee_traces") << "in the way";
  const ScopedTemporaryFolder there("/nowhere/at/all");
  const std::string program = "test_" + std::to_string(::getpid());
  const OpenedTrace opened = open_trace_file("", {program, "node", 42, -1});
  ASSERT_GE(opened.file, 0) << opened.why;
  EXPECT_THAT(opened.path, ::testing::StartsWith("/tmp/levee_traces-"));
  fs::remove(opened.path);
}

TEST_F(TracePathTest, APlaceThatWasAskedForIsTakenOrRefused) {
  std::ofstream("file") << "x";
  const OpenedTrace opened = open("file/run.levee");
  EXPECT_LT(opened.file, 0);
  EXPECT_EQ(opened.why, "file cannot be made: Not a directory");
}

// As root, "-2" would put the recording among the devices.
TEST_F(TracePathTest, WhatIsNoFileIsRefusedAndNothingIsMadeBesideIt) {
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  fs::create_symlink("/dev/null", "nothing");
  for (const std::int32_t rank : {-1, 3}) {
    for (const std::string place : {"pipe", "nothing"}) {
      const OpenedTrace opened = open_trace_file(place, {"train", "node", 42, rank});
      EXPECT_LT(opened.file, 0);
      EXPECT_THAT(opened.why, ::testing::StartsWith(place + " is a device, a pipe or a socket"));
      EXPECT_THAT(opened.why, ::testing::HasSubstr("LEVEE_RECORD=0"));
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator("."), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace levee::record
