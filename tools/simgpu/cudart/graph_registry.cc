#include "tools/simgpu/cudart/graph_registry.h"

#include <utility>

namespace levee::simgpu::cudart {

using device::sim::ExecId;
using device::sim::GraphId;

GraphRegistry& graphs() {
  static auto* value = new GraphRegistry;
  return *value;
}

UserObject* GraphRegistry::find_locked(cudaUserObject_t object) {
  const auto at = objects_.find(reinterpret_cast<UserObject*>(object));
  return at != objects_.end() ? at->first : nullptr;
}

void GraphRegistry::drop_locked(UserObject* object, std::uint64_t count,
                                std::vector<UserObject>* dead) {
  object->references -= count;
  if (object->references > 0) return;
  dead->push_back(*object);
  objects_.erase(object);
  delete object;
}

void GraphRegistry::destroy(const std::vector<UserObject>& dead) {
  for (const UserObject& object : dead) object.destroy(object.data);
}

void GraphRegistry::add(GraphId graph) {
  base::MutexLock lock(mutex_);
  graphs_.try_emplace(graph.value);
}

std::vector<GraphId> GraphRegistry::live() const {
  base::MutexLock lock(mutex_);
  std::vector<GraphId> out;
  for (const auto& [id, graph] : graphs_) out.push_back(GraphId{id});
  return out;
}

void GraphRegistry::instantiated(GraphId graph, ExecId exec) {
  base::MutexLock lock(mutex_);
  Held held = graphs_[graph.value].held;
  for (const auto& [object, count] : held) object->references += count;
  execs_[exec.value] = std::move(held);
}

void GraphRegistry::cloned(GraphId graph, GraphId clone) {
  base::MutexLock lock(mutex_);
  Held held = graphs_[graph.value].held;
  for (const auto& [object, count] : held) object->references += count;
  graphs_[clone.value].held = std::move(held);
}

void GraphRegistry::destroyed(GraphId graph) {
  std::vector<UserObject> dead;
  std::vector<std::function<void()>> at_end;
  {
    base::MutexLock lock(mutex_);
    const auto at = graphs_.find(graph.value);
    if (at == graphs_.end()) return;
    for (const auto& [object, count] : at->second.held) drop_locked(object, count, &dead);
    at_end = std::move(at->second.at_end);
    graphs_.erase(at);
  }
  destroy(dead);
  for (const auto& function : at_end) function();
}

void GraphRegistry::destroyed(ExecId exec) {
  std::vector<UserObject> dead;
  {
    base::MutexLock lock(mutex_);
    const auto at = execs_.find(exec.value);
    if (at == execs_.end()) return;
    for (const auto& [object, count] : at->second) drop_locked(object, count, &dead);
    execs_.erase(at);
  }
  destroy(dead);
}

void GraphRegistry::keep_until_destroyed(GraphId graph, std::function<void()> at_end) {
  base::MutexLock lock(mutex_);
  graphs_[graph.value].at_end.push_back(std::move(at_end));
}

std::uint64_t GraphRegistry::next_condition() {
  base::MutexLock lock(mutex_);
  return ++last_condition_;
}

UserObject* GraphRegistry::make_object(void* data, cudaHostFn_t destroy_in, unsigned references) {
  base::MutexLock lock(mutex_);
  auto* object = new UserObject{data, destroy_in, references};
  objects_[object] = true;
  return object;
}

bool GraphRegistry::retain(cudaUserObject_t object, unsigned count) {
  base::MutexLock lock(mutex_);
  UserObject* found = find_locked(object);
  if (found == nullptr) return false;
  found->references += count;
  return true;
}

bool GraphRegistry::release(cudaUserObject_t object, unsigned count) {
  std::vector<UserObject> dead;
  {
    base::MutexLock lock(mutex_);
    UserObject* found = find_locked(object);
    if (found == nullptr || found->references < count) return false;
    drop_locked(found, count, &dead);
  }
  destroy(dead);
  return true;
}

bool GraphRegistry::attach(GraphId graph, cudaUserObject_t object, unsigned count, bool moves) {
  base::MutexLock lock(mutex_);
  UserObject* found = find_locked(object);
  if (found == nullptr || count == 0) return false;
  if (!moves) found->references += count;
  graphs_[graph.value].held[found] += count;
  return true;
}

bool GraphRegistry::detach(GraphId graph, cudaUserObject_t object, unsigned count) {
  std::vector<UserObject> dead;
  {
    base::MutexLock lock(mutex_);
    UserObject* found = find_locked(object);
    const auto at = graphs_.find(graph.value);
    if (found == nullptr || at == graphs_.end()) return false;
    const auto held = at->second.held.find(found);
    if (held == at->second.held.end() || held->second < count) return false;
    held->second -= count;
    if (held->second == 0) at->second.held.erase(held);
    drop_locked(found, count, &dead);
  }
  destroy(dead);
  return true;
}

}  // namespace levee::simgpu::cudart
