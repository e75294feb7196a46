// How a test drives the fake CUPTI. Times are those of CLOCK_MONOTONIC; the fake shifts them to its
// own clock.
#pragma once

#include <cstddef>
#include <cstdint>

#define FAKE_CUPTI_API extern "C" [[gnu::visibility("default")]]

FAKE_CUPTI_API void fake_cupti_reset();
FAKE_CUPTI_API void fake_cupti_set_taken(int taken);  ///< another client is subscribed
FAKE_CUPTI_API void fake_cupti_set_enable_result(
    int result);  ///< of the third kind that is enabled
FAKE_CUPTI_API void fake_cupti_move_clock(std::int64_t ns);
FAKE_CUPTI_API void fake_cupti_set_dropped(std::size_t count);
FAKE_CUPTI_API void fake_cupti_set_stream(std::uint64_t handle, std::uint32_t number);
FAKE_CUPTI_API int fake_cupti_enabled_kinds();
FAKE_CUPTI_API void fake_cupti_add_kernel(const char* name, std::uint32_t device,
                                          std::uint32_t stream, std::int64_t start,
                                          std::int64_t end, std::uint32_t correlation);
FAKE_CUPTI_API void fake_cupti_add_copy(int kind, std::uint64_t bytes, std::int64_t start,
                                        std::int64_t end);
FAKE_CUPTI_API void fake_cupti_add_peer_copy(std::uint64_t bytes, std::int64_t start,
                                             std::int64_t end);
FAKE_CUPTI_API void fake_cupti_add_memset(std::uint64_t bytes, std::int64_t start,
                                          std::int64_t end);
FAKE_CUPTI_API void fake_cupti_add_unknown();
