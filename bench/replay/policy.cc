#include "bench/replay/policy.h"

namespace levee::replay {

namespace {
// Published averages over 4,096 pages of 2 MiB on an A100 (allocator/device/README.md): create 193
// us, map 1.5, set access 36, unmap 26, release 23. cudaMalloc and cudaFree: medians of a recorded
// V100 run.
constexpr double kCreate = 193e-6;
constexpr double kMap = 1.5e-6;
constexpr double kSetAccess = 36e-6;
constexpr double kSetAccessNextPage = 1e-6;
constexpr double kUnmap = 26e-6;
constexpr double kRelease = 23e-6;
constexpr double kMalloc = 300e-6;
constexpr double kFree = 700e-6;
constexpr double kRecord = 1e-6;
constexpr double kWait = 1e-6;
constexpr double kQuery = 0.7e-6;
constexpr double kSynchronise = 10e-6;

double d(std::uint64_t n) {
  return static_cast<double>(n);
}
}  // namespace

DriverCosts DriverCosts::operator-(const DriverCosts& b) const {
  return DriverCosts{mallocs - b.mallocs,
                     frees - b.frees,
                     created - b.created,
                     created_mib - b.created_mib,
                     released - b.released,
                     mapped - b.mapped,
                     accessed_pages - b.accessed_pages,
                     access_calls - b.access_calls,
                     unmapped - b.unmapped,
                     synchronisations - b.synchronisations,
                     event_records - b.event_records,
                     stream_waits - b.stream_waits,
                     event_queries - b.event_queries,
                     events_created - b.events_created};
}

DriverSeconds seconds_of(const DriverCosts& costs, std::uint64_t first_mapped_pages) {
  DriverSeconds out;
  // Making memory accessible for the first time belongs to its creation; what is left is mapping it
  // again.
  const std::uint64_t again_mapped =
      costs.mapped > costs.created ? costs.mapped - costs.created : 0;
  const std::uint64_t again_pages =
      costs.accessed_pages > first_mapped_pages ? costs.accessed_pages - first_mapped_pages : 0;
  const double rest = d(costs.unmapped) * kUnmap + d(costs.released) * kRelease +
                      d(costs.frees) * kFree + d(costs.synchronisations) * kSynchronise +
                      d(costs.event_records) * kRecord + d(costs.stream_waits) * kWait +
                      d(costs.event_queries) * kQuery + d(again_mapped) * kMap;
  out.pessimistic = rest + d(again_pages) * kSetAccess;
  const std::uint64_t again_calls = again_pages == 0 ? 0 : costs.access_calls;
  out.optimistic = rest + d(again_calls) * kSetAccess + d(again_pages) * kSetAccessNextPage;
  out.creation = d(costs.created) * (kCreate + kMap) + d(first_mapped_pages) * kSetAccess +
                 d(costs.mallocs) * kMalloc;
  return out;
}

}  // namespace levee::replay
