#include "allocator/export/tfevents.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "allocator/record/crc32c.h"

namespace levee::exporting {
namespace {

std::uint64_t little_endian(const std::string& bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::uint32_t masked(const std::string& bytes) {
  const std::uint32_t crc =
      record::crc32c({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

TEST(TfEvents, RecordsCarryTheirLengthAndBothChecksums) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("levee_tfevents." + std::to_string(::getpid()));
  std::string why;
  auto file = EventFile::create(folder.string(), 1'780'000'000.5, "a/host", 17, &why);
  ASSERT_NE(file, nullptr) << why;
  EXPECT_TRUE(file->path().ends_with("/events.out.tfevents.1780000000.a_host.17")) << file->path();
  file->scalar("memory/reserved", 1'780'000'001.0, 250, 12.5);
  file->layout(1.0, {{"memory", {{"both", {"a", "b"}, "", ""}, {"band", {}, "a", "b"}}}});
  ASSERT_TRUE(file->commit(&why)) << why;
  std::ifstream in(file->path(), std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  const std::string bytes = text.str();
  std::vector<std::string> records;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = static_cast<std::size_t>(little_endian(bytes, at, 8));
    EXPECT_EQ(little_endian(bytes, at + 8, 4), masked(bytes.substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(little_endian(bytes, at + 12 + length, 4), masked(records.back()));
    at += 16 + length;
  }
  ASSERT_EQ(records.size(), 3U);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(records[1].find("memory/reserved"), std::string::npos);
  // Field 2 of Summary.Value, wire type 5: the float 12.5.
  EXPECT_NE(records[1].find(std::string("\x15\x00\x00\x48\x41", 5)), std::string::npos);
  EXPECT_NE(records[2].find("custom_scalars__config__"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(TfEvents, APlaceThatCannotBeWrittenIsSaid) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("levee_tfevents_no." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "file") << "x";
  std::string why;
  EXPECT_EQ(EventFile::create((folder / "file").string(), 5.0, "host", 17, &why), nullptr);
  EXPECT_EQ(why.rfind("Cannot make the folder", 0), 0U) << why;
  // The file's own name is taken while it is being written.
  std::filesystem::create_directories(
      folder / ("events.out.tfevents.5.host.17." + std::to_string(::getpid()) + ".part"));
  EXPECT_EQ(EventFile::create(folder.string(), 5.0, "host", 17, &why), nullptr);
  EXPECT_EQ(why.rfind("Cannot write", 0), 0U) << why;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace levee::exporting
