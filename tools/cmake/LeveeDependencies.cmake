# Libraries that levee uses, from the system or from PyPI; nothing is downloaded at configure time.

find_package(Threads REQUIRED)

find_package(fmt QUIET)
if(NOT fmt_FOUND)
  message(FATAL_ERROR "fmt was not found (Debian: apt install libfmt-dev).")
endif()

# Some distributions install zstd without its CMake package; the target is called `levee_zstd` in both cases.
add_library(levee_zstd INTERFACE)
find_package(zstd QUIET)
if(TARGET zstd::libzstd_shared)
  target_link_libraries(levee_zstd INTERFACE zstd::libzstd_shared)
else()
  find_path(LEVEE_ZSTD_INCLUDE_DIR zstd.h)
  find_library(LEVEE_ZSTD_LIBRARY zstd)
  mark_as_advanced(LEVEE_ZSTD_INCLUDE_DIR LEVEE_ZSTD_LIBRARY)
  if(NOT LEVEE_ZSTD_INCLUDE_DIR OR NOT LEVEE_ZSTD_LIBRARY)
    message(FATAL_ERROR "zstd was not found (Debian: apt install libzstd-dev).")
  endif()
  target_include_directories(levee_zstd SYSTEM INTERFACE "${LEVEE_ZSTD_INCLUDE_DIR}")
  target_link_libraries(levee_zstd INTERFACE "${LEVEE_ZSTD_LIBRARY}")
endif()

if(LEVEE_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR
      "GoogleTest was not found (Debian: apt install libgtest-dev libgmock-dev); or set LEVEE_BUILD_TESTS=OFF.")
  endif()
endif()
if(LEVEE_BUILD_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(FATAL_ERROR
      "Google Benchmark was not found (Debian: apt install libbenchmark-dev); or set LEVEE_BUILD_BENCH=OFF.")
  endif()
endif()
