#include "torch_plugin/torch_phases.h"

#include <ATen/record_function.h>

#include <memory>
#include <mutex>
#include <thread>

namespace levee::torch_plugin {
namespace {

Runtime* g_runtime = nullptr;

// What the end of a region needs to know. Async regions may end on another thread, whose stack of
// phases is none of theirs.
struct OpenPhase final : at::ObserverContext {
  std::thread::id thread = std::this_thread::get_id();
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (!g_runtime->is_recording()) return nullptr;
  g_runtime->push_phase(function.name());
  return std::make_unique<OpenPhase>();
}

void end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  const auto* open = static_cast<const OpenPhase*>(context);
  if (open != nullptr && open->thread == std::this_thread::get_id()) g_runtime->pop_phase();
}

}  // namespace

void observe_phases(Runtime& runtime) {
  static std::once_flag once;
  std::call_once(once, [&] {
    g_runtime = &runtime;
    at::addGlobalCallback(
        at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::USER_SCOPE}));
  });
}

}  // namespace levee::torch_plugin
