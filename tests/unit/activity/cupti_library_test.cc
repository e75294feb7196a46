#include "allocator/activity/cupti_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace {

// Whether CUPTI is on the library path depends on the machine: while this is set it is not.
bool is_path_empty = false;

}  // namespace

// Comes before the system's own, for the code under test as well.
extern "C" void* dlopen(const char* name, int flags) noexcept {
  if (is_path_empty && name != nullptr && std::strncmp(name, "libcupti.so", 11) == 0)
    name = "/no/folder/libcupti.so";  // fails as the name itself would, and leaves a text
  using Open = void* (*)(const char*, int);
  static const auto next = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "dlopen"));
  return next(name, flags);
}

namespace levee::activity {
namespace {

TEST(CuptiLibrary, ALibraryAtAPathIsResolved) {
  CuptiLibrary cupti;
  std::string why;
  ASSERT_TRUE(cupti.load(LEVEE_FAKE_CUPTI, {}, &why)) << why;
  EXPECT_EQ(cupti.path, LEVEE_FAKE_CUPTI);
  EXPECT_EQ(cupti.text_of(CUPTI_ERROR_NOT_INITIALIZED), "CUPTI_ERROR_NOT_INITIALIZED");
  EXPECT_EQ(cupti.text_of(CUPTI_ERROR_UNKNOWN), "CUPTI error 999") << "it has no text for that";
}

class CuptiPlaces : public ::testing::Test {
 protected:
  CuptiPlaces() { is_path_empty = true; }
  ~CuptiPlaces() override { is_path_empty = false; }
  CuptiLibrary cupti_;
  std::string why_;
};

TEST_F(CuptiPlaces, AreNamedWhereItIsInNone) {
  EXPECT_FALSE(cupti_.load("", {}, &why_));
  EXPECT_NE(why_.find("not on the library path; it comes"), std::string::npos) << why_;
  EXPECT_FALSE(cupti_.load("", {"/no/folder", "/no/other"}, &why_));
  EXPECT_NE(why_.find("library path, nor in /no/folder, /no/other;"), std::string::npos) << why_;
}

TEST_F(CuptiPlaces, AreLookedThroughForEachName) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("levee_cupti_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(LEVEE_FAKE_CUPTI, folder / "libcupti.so.12");
  EXPECT_TRUE(cupti_.load("", {"/no/folder", folder.string()}, &why_)) << why_;
  EXPECT_FALSE(cupti_.path.empty());
  std::filesystem::remove_all(folder);
}

TEST(CuptiLibrary, OnTheLibraryPathItIsFoundWithoutAFolder) {
  for (const char* name : {"libcupti.so.13", "libcupti.so.12"}) {
    // Stays loaded: what it allocated when it was loaded would otherwise be lost.
    if (::dlopen(name, RTLD_LAZY | RTLD_LOCAL) == nullptr) continue;
    CuptiLibrary cupti;
    std::string why;
    EXPECT_TRUE(cupti.load("", {}, &why)) << why;
    return;
  }
  GTEST_SKIP() << "CUPTI is not on this machine's library path";
}

}  // namespace
}  // namespace levee::activity
