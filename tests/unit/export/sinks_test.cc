#include "allocator/export/sinks.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::exporting {
namespace {

class Sinks : public ::testing::Test {
 protected:
  Sinks() {
    folder_ =
        std::filesystem::temp_directory_path() / ("levee_sinks_test." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~Sinks() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  }

  std::filesystem::path folder_;
  std::string why_;
};

TEST_F(Sinks, AFileAppearsOnlyWithCommit) {
  const std::string name = path("a.txt");
  auto sink = FileSink::create(name, FileCoding::kPlain, &why_);
  ASSERT_NE(sink, nullptr) << why_;
  sink->write("hello ");
  sink->write("world");
  EXPECT_FALSE(std::filesystem::exists(name));
  ASSERT_TRUE(sink->commit(&why_)) << why_;
  EXPECT_EQ(content(name), "hello world");
  EXPECT_EQ(sink->size(), 11U);
  sink.reset();
  EXPECT_EQ(files(), 1U);
}

TEST_F(Sinks, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  const std::string name = path("a.txt");
  std::ofstream(name) << "old";
  FileSink::create(name, FileCoding::kPlain, &why_)->write("new");
  EXPECT_EQ(content(name), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Sinks, LargeWritesKeepTheirOrder) {
  const std::string name = path("big");
  auto sink = FileSink::create(name, FileCoding::kPlain, &why_);
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    const std::string part(static_cast<std::size_t>(i) * 20'011 + 1,
                           static_cast<char>('a' + i % 26));
    sink->write(part);
    expected += part;
  }
  ASSERT_TRUE(sink->commit(&why_));
  EXPECT_EQ(content(name), expected);
}

TEST_F(Sinks, GzipFilesInflateToWhatWasWritten) {
  const std::string name = path("a.gz");
  auto sink = FileSink::create(name, FileCoding::kGzip, &why_);
  std::string expected;
  for (int i = 0; i < 200'000; ++i) expected += std::to_string(i % 1000);
  sink->write(expected);
  ASSERT_TRUE(sink->commit(&why_));
  EXPECT_LT(std::filesystem::file_size(name), expected.size() / 4);
  gzFile in = gzopen(name.c_str(), "rb");
  std::string got(expected.size() + 1, '\0');
  const int read = gzread(in, got.data(), static_cast<unsigned>(got.size()));
  gzclose(in);
  got.resize(static_cast<std::size_t>(read));
  EXPECT_EQ(got, expected);
}

TEST_F(Sinks, AnUnwritablePlaceIsOneSentence) {
  EXPECT_EQ(FileSink::create(path("no/such/folder/a"), FileCoding::kPlain, &why_), nullptr);
  EXPECT_EQ(why_, "Cannot write " + path("no/such/folder/a") + ": No such file or directory.");
  std::ofstream(path("file")) << "x";
  EXPECT_FALSE(make_folders(path("file") + "/below", &why_));
  EXPECT_THAT(why_, testing::HasSubstr("Cannot make the folder"));
}

TEST_F(Sinks, AFullDiskIsSaidByCommit) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  // The temporary name is a link to the device that is always full.
  const std::string name = path("a");
  const std::string temporary = name + "." + std::to_string(::getpid()) + ".part";
  std::filesystem::create_symlink("/dev/full", temporary);
  auto sink = FileSink::create(name, FileCoding::kPlain, &why_);
  ASSERT_NE(sink, nullptr);
  sink->write("some bytes");
  EXPECT_FALSE(sink->commit(&why_));
  EXPECT_EQ(why_, "Cannot write " + name + ": No space left on device.");
  EXPECT_FALSE(std::filesystem::exists(name));
}

// What does not pack leaves the compressor in many pieces, and a last one at the end that may or
// may not be a part of one.
TEST_F(Sinks, GzipFilesOfNoiseInflateToo) {
  std::mt19937 random(3);
  for (const std::size_t last : {0UL, 1UL, 1'000UL, 20'000UL, 40'000UL, 60'000UL, 65'535UL}) {
    const std::string name = path("noise.gz");
    auto sink = FileSink::create(name, FileCoding::kGzip, &why_);
    std::string expected;
    for (const std::size_t size : {70'000UL, 10UL, 200'000UL, 65'536UL, last}) {
      std::string part;
      while (part.size() < size) part += static_cast<char>(random());
      sink->write(part);
      expected += part;
    }
    ASSERT_TRUE(sink->commit(&why_)) << why_;
    gzFile in = gzopen(name.c_str(), "rb");
    std::string got(expected.size() + 1, '\0');
    const int read = gzread(in, got.data(), static_cast<unsigned>(got.size()));
    gzclose(in);
    got.resize(static_cast<std::size_t>(std::max(read, 0)));
    EXPECT_TRUE(got == expected) << last;
  }
}

TEST_F(Sinks, APlaceThatIsTakenIsSaidByCommit) {
  std::filesystem::create_directories(folder_ / "taken" / "by a folder");
  auto sink = FileSink::create(path("taken"), FileCoding::kPlain, &why_);
  ASSERT_NE(sink, nullptr);
  sink->write("some bytes");
  EXPECT_FALSE(sink->commit(&why_));
  EXPECT_EQ(why_, "Cannot write " + path("taken") + ": Is a directory.");
  sink.reset();
  EXPECT_EQ(files(), 1U);
}

TEST_F(Sinks, WhyAFolderCannotBeMadeIsSaid) {
  const std::string long_name(300, 'x');
  EXPECT_FALSE(make_folders(path(long_name.c_str()), &why_));
  EXPECT_THAT(why_, testing::HasSubstr("File name too long"));
}

}  // namespace
}  // namespace levee::exporting
