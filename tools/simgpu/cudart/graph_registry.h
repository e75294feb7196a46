// What the model does not know of graphs: which are alive, the user objects they hold, and who must
// be told when they go.
//
// Owns the user objects (reference counted, their destructor is called with the last reference,
// with no lock held). An executable graph holds its own references to what its graph held when it
// was instantiated. One mutex.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "allocator/base/mutex.h"
#include "allocator/device/sim/gpu_model.h"

namespace levee::simgpu::cudart {

struct UserObject {
  void* data = nullptr;
  cudaHostFn_t destroy = nullptr;
  std::uint64_t references = 0;
};

class GraphRegistry {
 public:
  void add(device::sim::GraphId graph);
  std::vector<device::sim::GraphId> live() const;
  void instantiated(device::sim::GraphId graph, device::sim::ExecId exec);
  void cloned(device::sim::GraphId graph, device::sim::GraphId clone);
  void destroyed(device::sim::GraphId graph);
  void destroyed(device::sim::ExecId exec);
  void keep_until_destroyed(device::sim::GraphId graph, std::function<void()> at_end);
  std::uint64_t next_condition();

  UserObject* make_object(void* data, cudaHostFn_t destroy, unsigned references);
  // False if the handle is no live object, or has fewer references than asked for.
  bool retain(cudaUserObject_t object, unsigned count);
  bool release(cudaUserObject_t object, unsigned count);
  bool attach(device::sim::GraphId graph, cudaUserObject_t object, unsigned count, bool moves);
  bool detach(device::sim::GraphId graph, cudaUserObject_t object, unsigned count);

 private:
  using Held = std::map<UserObject*, std::uint64_t>;
  struct Graph {
    Held held;
    std::vector<std::function<void()>> at_end;
  };
  UserObject* find_locked(cudaUserObject_t object) LEVEE_REQUIRES(mutex_);
  /// Gives up references; objects that have none left are appended to `dead`.
  void drop_locked(UserObject* object, std::uint64_t count, std::vector<UserObject>* dead)
      LEVEE_REQUIRES(mutex_);
  static void destroy(const std::vector<UserObject>& dead);

  mutable base::Mutex mutex_;
  std::map<std::uint64_t, Graph> graphs_ LEVEE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Held> execs_ LEVEE_GUARDED_BY(mutex_);
  std::map<UserObject*, bool> objects_ LEVEE_GUARDED_BY(mutex_);
  std::uint64_t last_condition_ LEVEE_GUARDED_BY(mutex_) = 0;
};

GraphRegistry& graphs();

}  // namespace levee::simgpu::cudart
