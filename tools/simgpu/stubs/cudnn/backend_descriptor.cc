#include "tools/simgpu/stubs/cudnn/backend_descriptor.h"

#include <cstring>

namespace levee::simgpu::stubs {

const BackendDescriptor::Attribute* BackendDescriptor::find(
    cudnnBackendAttributeName_t name) const {
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? nullptr : &found->second;
}

std::shared_ptr<const BackendDescriptor> BackendDescriptor::child(
    cudnnBackendAttributeName_t name) const {
  const Attribute* attribute = find(name);
  return attribute == nullptr || attribute->children.empty() ? nullptr
                                                             : attribute->children.front();
}

std::vector<std::shared_ptr<const BackendDescriptor>> BackendDescriptor::children() const {
  std::vector<std::shared_ptr<const BackendDescriptor>> all;
  for (const auto& [name, attribute] : attributes_) {
    all.insert(all.end(), attribute.children.begin(), attribute.children.end());
  }
  return all;
}

std::vector<std::int64_t> BackendDescriptor::integers(cudnnBackendAttributeName_t name) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr || attribute->type != CUDNN_TYPE_INT64) return {};
  std::vector<std::int64_t> values(attribute->bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), attribute->bytes.data(), values.size() * sizeof(std::int64_t));
  return values;
}

std::int32_t BackendDescriptor::value(cudnnBackendAttributeName_t name,
                                      std::int32_t otherwise) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr || attribute->bytes.empty()) return otherwise;
  std::int32_t value = 0;
  std::memcpy(&value, attribute->bytes.data(), std::min(sizeof value, attribute->bytes.size()));
  return value;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:
      return 4;  // INT32, FLOAT and the enums
  }
}

}  // namespace levee::simgpu::stubs
