#include "allocator/core/slow_path.h"

#include <memory>

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

// Whoever holds a lock here would wait for itself.
TEST(SlowPath, CallsHooksWithNoLockHeld) {
  StateRig rig(64_MiB);
  const auto take_both_locks = [&] { rig.locked([](PoolGuard&) { return 0; }); };
  auto hooks = std::make_shared<AllocatorHooks>();
  int contexts = 0;
  hooks->capture_context = [&] {
    take_both_locks();
    ++contexts;
    return ContextId{7};
  };
  OomReport told;
  hooks->out_of_memory = [&](const OomReport& report) {
    take_both_locks();
    told = report;
  };
  rig.state.hooks = hooks;
  rig.alloc(40_MiB);
  EXPECT_EQ(contexts, 1);
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(40_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(told.requested_bytes, 40_MiB);
  EXPECT_EQ(report.requested_bytes, 40_MiB);
  EXPECT_EQ(rig.slow_path.serve(rig.request(50_MiB), nullptr).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(told.requested_bytes, 50_MiB) << "told also where nobody asked for the report";
}

}  // namespace
}  // namespace levee::core
