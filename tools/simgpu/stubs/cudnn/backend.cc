// cuDNN's graph API (cudnnBackend*): descriptors that keep their attributes, heuristics that always
// offer one engine, plans that become one kernel on the handle's stream.
//
// The settings: `cudnn_workspace` (bytes that every plan asks for; default 0).
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/cudnn/backend_descriptor.h"
#include "tools/simgpu/stubs/cudnn/graph_cost.h"

using namespace levee::simgpu::stubs;

namespace {

using Attribute = BackendDescriptor::Attribute;

std::int64_t workspace_bytes() {
  return static_cast<std::int64_t>(simgpu_setting("cudnn_workspace", 0));
}

Attribute integers(std::initializer_list<std::int64_t> values) {
  Attribute attribute;
  attribute.type = CUDNN_TYPE_INT64;
  attribute.count = static_cast<std::int64_t>(values.size());
  for (std::int64_t value : values)
    attribute.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return attribute;
}

Attribute text(const std::string& characters) {
  Attribute attribute;
  attribute.type = CUDNN_TYPE_CHAR;
  attribute.bytes = characters + '\0';
  attribute.count = static_cast<std::int64_t>(attribute.bytes.size());
  return attribute;
}

Attribute child(std::shared_ptr<const BackendDescriptor> descriptor) {
  Attribute attribute;
  attribute.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  attribute.count = 1;
  attribute.children.push_back(std::move(descriptor));
  return attribute;
}

/// The one engine that runs any graph.
std::shared_ptr<BackendDescriptor> engine_config_for(
    std::shared_ptr<const BackendDescriptor> graph) {
  auto engine = std::make_shared<BackendDescriptor>(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine->set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, integers({0}));
  if (graph != nullptr) engine->set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, child(std::move(graph)));
  engine->finalize();
  auto config = std::make_shared<BackendDescriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config->set(CUDNN_ATTR_ENGINECFG_ENGINE, child(std::move(engine)));
  config->finalize();
  return config;
}

/// What cuDNN works out rather than keeps. The frontend drops a plan that leaves some of these
/// unanswered.
std::optional<Attribute> computed(const BackendDescriptor& descriptor,
                                  cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return child(engine_config_for(descriptor.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)));
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return integers({1});
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return integers({workspace_bytes()});
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      return text("{\"simgpu\":1}");
    default:
      break;
  }
#if CUDNN_VERSION >= 90200
  if (name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) return integers({workspace_bytes()});
  if (name == CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED) return integers({0});
#endif
  return std::nullopt;
}

/// Writes an attribute's values where the program wants them; numbers in the width that it asks
/// for.
void copy_out(const Attribute& attribute, cudnnBackendAttributeType_t as, std::int64_t wanted,
              void* out) {
  const std::int64_t count = std::min(wanted, attribute.count);
  if (out == nullptr || count <= 0) return;
  if (attribute.type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    // The program passes descriptors that it made; they become copies of ours.
    auto* handles = static_cast<cudnnBackendDescriptor_t*>(out);
    for (std::int64_t i = 0; i < count; ++i) {
      BackendHandle* handle = BackendHandle::from(handles[i]);
      if (handle != nullptr) {
        handle->descriptor =
            std::make_shared<BackendDescriptor>(*attribute.children[static_cast<std::size_t>(i)]);
      }
    }
    return;
  }
  const std::size_t have = size_of(attribute.type);
  const std::size_t want = size_of(as);
  for (std::int64_t i = 0; i < count; ++i) {
    char* target = static_cast<char*>(out) + static_cast<std::size_t>(i) * want;
    std::memset(target, 0, want);
    std::memcpy(target, attribute.bytes.data() + static_cast<std::size_t>(i) * have,
                std::min(have, want));
  }
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t descriptorType,
                                           cudnnBackendDescriptor_t* descriptor) {
  SIMGPU_TRACE_CALL("cudnn");
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  auto* handle = new BackendHandle;
  handle->descriptor = std::make_shared<BackendDescriptor>(descriptorType);
  *descriptor = handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  SIMGPU_TRACE_CALL("cudnn");
  BackendHandle* handle = BackendHandle::from(descriptor);
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->magic.store(0);
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  SIMGPU_TRACE_CALL("cudnn");
  return BackendHandle::from(descriptor) == nullptr ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  SIMGPU_TRACE_CALL("cudnn");
  BackendHandle* handle = BackendHandle::from(descriptor);
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->descriptor->finalize();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType,
                                       int64_t elementCount, const void* arrayOfElements) {
  SIMGPU_TRACE_CALL("cudnn");
  BackendHandle* handle = BackendHandle::from(descriptor);
  if (handle == nullptr || elementCount < 0) return CUDNN_STATUS_BAD_PARAM;
  if (elementCount > 0 && arrayOfElements == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  Attribute attribute;
  attribute.type = attributeType;
  attribute.count = elementCount;
  if (attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* children = static_cast<const cudnnBackendDescriptor_t*>(arrayOfElements);
    for (std::int64_t i = 0; i < elementCount; ++i) {
      BackendHandle* of_child = BackendHandle::from(children[i]);
      if (of_child == nullptr) return CUDNN_STATUS_BAD_PARAM;
      attribute.children.push_back(of_child->descriptor);
    }
  } else if (elementCount > 0) {
    attribute.bytes.assign(static_cast<const char*>(arrayOfElements),
                           size_of(attributeType) * static_cast<std::size_t>(elementCount));
  }
  handle->descriptor->set(attributeName, std::move(attribute));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attributeName,
                                       cudnnBackendAttributeType_t attributeType,
                                       int64_t requestedElementCount, int64_t* elementCount,
                                       void* arrayOfElements) {
  SIMGPU_TRACE_CALL("cudnn");
  BackendHandle* handle = BackendHandle::from(descriptor);
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  std::optional<Attribute> attribute;
  if (const Attribute* kept = handle->descriptor->find(attributeName)) {
    attribute = *kept;
  } else {
    attribute = computed(*handle->descriptor, attributeName);
  }
  // An attribute that has no elements (numerical notes, knobs, ...) is an answer, too.
  if (elementCount != nullptr) *elementCount = attribute.has_value() ? attribute->count : 0;
  if (attribute.has_value())
    copy_out(*attribute, attributeType, requestedElementCount, arrayOfElements);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack) {
  SIMGPU_TRACE_CALL("cudnn");
  const Object* library = Object::from(handle);
  BackendHandle* plan = BackendHandle::from(executionPlan);
  BackendHandle* addresses = BackendHandle::from(variantPack);
  if (library == nullptr || plan == nullptr || addresses == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const PlannedWork work = work_of_plan(*plan->descriptor);
  launch(library, work.name, work.cost);
  forget_outputs(*plan->descriptor, *addresses->descriptor);
  return CUDNN_STATUS_SUCCESS;
}
