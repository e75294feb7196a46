#include "allocator/core/slow_path.h"

#include "allocator/core/miss.h"

namespace levee::core {

Result<Block> SlowPath::serve(const Request& request, OomReport* report) {
  std::shared_ptr<const AllocatorHooks> hooks;
  {
    PoolGuard guard(state_);
    hooks = state_.hooks;
  }
  const SlowPathContext context(hooks->capture_context ? hooks->capture_context() : ContextId{});
  OomReport local;
  OomReport& out = report != nullptr ? *report : local;
  Result<Block> result = StatusCode::kInternal;
  {
    base::MutexLock growth(state_.growth_mutex);
    PoolGuard guard(state_);
    Miss miss(state_, placer_, pages_, guard, request);
    const Attempt first = miss.attempt();
    switch (first.end) {
      case Attempt::End::kServed:
        return first.block;
      case Attempt::End::kFailed:
        return first.status;
      case Attempt::End::kExhausted:
        break;
    }
    result = miss.climb(first.cause, &out);
  }
  if (result.code() == StatusCode::kOutOfMemory && hooks->out_of_memory) hooks->out_of_memory(out);
  return result;
}

}  // namespace levee::core
