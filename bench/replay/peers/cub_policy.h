// The real cub::CachingDeviceAllocator of the CUDA Toolkit, over a runtime that hands out numbers.
//
// Owns: one allocator of the toolkit, and the few runtime calls it makes, answered here: addresses
// are counted up, an event has passed `kEventLag` requests after it was recorded. Promises: nothing
// of its policy is modelled. Configured as its documentation says: `cub` with bins of powers of two
// from 512 B to 64 GiB and no limit on what it caches, so that every size of a training is cached;
// `cub-default` as it comes (bins of 512 B to 2 MiB, larger requests go to cudaMalloc). Not thread
// safe. Needs the toolkit's headers (CCCL) at build time; without them `make_cub` says so.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bench/replay/policy.h"

namespace levee::replay {

/// `name` is cub or cub-default. Null with one sentence in `why` in a build without the headers.
std::unique_ptr<ReplayPolicy> make_cub(std::string_view name, Limits limits, std::string* why);

}  // namespace levee::replay
