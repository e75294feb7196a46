// The version questions that every CUDA library answers in the same three forms, from the numbers
// in the installed headers.
#pragma once

#include <library_types.h>

namespace levee::simgpu::stubs {

/// What `cublasGetProperty` and its kin write; false for an unknown property.
inline bool version_property(libraryPropertyType type, int major, int minor, int patch,
                             int* value) {
  if (value == nullptr) return false;
  switch (type) {
    case MAJOR_VERSION:
      *value = major;
      return true;
    case MINOR_VERSION:
      *value = minor;
      return true;
    case PATCH_LEVEL:
      *value = patch;
      return true;
  }
  return false;
}

}  // namespace levee::simgpu::stubs
