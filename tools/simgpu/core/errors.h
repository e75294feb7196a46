// Names and texts of CUDA's errors, for both APIs: since CUDA 10.1 their numbers agree.
#pragma once

#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

struct ErrorText {
  int code;
  const char* runtime_name;
  const char* driver_name;
  const char* text;
};

/// Null for numbers that are no error.
SIMGPU_CORE const ErrorText* find_error(int code);

}  // namespace levee::simgpu
