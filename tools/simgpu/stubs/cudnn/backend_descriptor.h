// A descriptor of cuDNN's graph API: a typed bag of attributes, some of which are other
// descriptors.
//
// Owns `BackendDescriptor` and the handles that programs hold to it. Promises: an attribute reads
// back as it was set, also after the program has destroyed the descriptors that it was set from
// (cuDNN keeps its own reference, and so does this). Does not: check that attributes fit the type
// or each other; a graph that real cuDNN refuses is accepted. Lock: none; cuDNN's descriptors are
// not thread safe either.
#pragma once

#include <cudnn.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace levee::simgpu::stubs {

class BackendDescriptor {
 public:
  struct Attribute {
    cudnnBackendAttributeType_t type{};
    std::int64_t count = 0;
    std::string bytes;  ///< plain values
    std::vector<std::shared_ptr<const BackendDescriptor>>
        children;  ///< CUDNN_TYPE_BACKEND_DESCRIPTOR
  };

  explicit BackendDescriptor(cudnnBackendDescriptorType_t type) : type_(type) {}

  cudnnBackendDescriptorType_t type() const { return type_; }
  bool is_finalized() const { return finalized_; }
  void finalize() { finalized_ = true; }

  void set(cudnnBackendAttributeName_t name, Attribute value) {
    attributes_[name] = std::move(value);
  }
  /// Null if it was never set.
  const Attribute* find(cudnnBackendAttributeName_t name) const;
  /// First child of a descriptor attribute; null if there is none.
  std::shared_ptr<const BackendDescriptor> child(cudnnBackendAttributeName_t name) const;
  /// Every child of every attribute.
  std::vector<std::shared_ptr<const BackendDescriptor>> children() const;
  /// Values of a CUDNN_TYPE_INT64 attribute; empty if it was never set.
  std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name) const;
  /// First value of an attribute of a small type (enums, booleans); `otherwise` if it was never
  /// set.
  std::int32_t value(cudnnBackendAttributeName_t name, std::int32_t otherwise) const;

 private:
  cudnnBackendDescriptorType_t type_;
  bool finalized_ = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes_;
};

/// Bytes of one element of an attribute type, as programs pass them; 0 for an unknown type.
std::size_t size_of(cudnnBackendAttributeType_t type);

/// What a cudnnBackendDescriptor_t points to.
struct BackendHandle {
  static constexpr std::uint64_t kMagic = 0x6261'636B'656E'6421ULL;

  // Atomic: the store before the end must not be optimised away.
  std::atomic<std::uint64_t> magic = kMagic;
  std::shared_ptr<BackendDescriptor> descriptor;

  /// Null if `handle` is null or none of ours.
  static BackendHandle* from(cudnnBackendDescriptor_t handle) {
    auto* found = static_cast<BackendHandle*>(handle);
    return found != nullptr && found->magic.load() == kMagic ? found : nullptr;
  }
};

}  // namespace levee::simgpu::stubs
