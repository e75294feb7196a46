// Copies and fills. What they do to bytes is in core/work.h; here are the many shapes in which
// CUDA's callers ask for them.
#include <cstring>

#include "tools/simgpu/core/work.h"
#include "tools/simgpu/cudart/face.h"
#include "tools/simgpu/cudart/symbols.h"

using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::Copy;
using levee::simgpu::Direction;
using levee::simgpu::Fill;
using levee::simgpu::Process;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::symbol_address;

namespace {

Direction to_direction(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return Direction::kHostToHost;
    case cudaMemcpyHostToDevice:
      return Direction::kHostToDevice;
    case cudaMemcpyDeviceToHost:
      return Direction::kDeviceToHost;
    case cudaMemcpyDeviceToDevice:
      return Direction::kDeviceToDevice;
    default:
      return Direction::kDefault;
  }
}

Copy flat(void* to, const void* from, std::size_t bytes, Direction direction, cudaStream_t stream,
          bool is_async) {
  Copy copy;
  copy.to = to;
  copy.from = from;
  copy.width = bytes;
  copy.direction = direction;
  copy.stream = stream;
  copy.is_async = is_async;
  return copy;
}

Copy pitched(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
             std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream,
             bool is_async) {
  Copy copy = flat(to, from, width, to_direction(kind), stream, is_async);
  copy.rows = rows;
  copy.to_pitch = to_pitch;
  copy.from_pitch = from_pitch;
  return copy;
}

Fill filled(void* to, int value, std::size_t width, std::size_t rows, std::size_t pitch,
            cudaStream_t stream, bool is_async) {
  Fill fill;
  fill.to = to;
  fill.pattern = static_cast<std::uint8_t>(value);
  fill.width = width;
  fill.rows = rows;
  fill.pitch = pitch;
  fill.stream = stream;
  fill.is_async = is_async;
  return fill;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  static ApiFunction api{"cudaMemcpy", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::copy(process, flat(to, from, bytes, to_direction(kind), nullptr, false));
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  static ApiFunction api{"cudaMemcpyAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::copy(process, flat(to, from, bytes, to_direction(kind), stream, true));
  });
}

cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  static ApiFunction api{"cudaMemcpyPeer", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeer_v4000};
  return answer(api, [&](Process& process) {
    return levee::simgpu::copy(process, flat(to, from, bytes, Direction::kDefault, nullptr, false));
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  static ApiFunction api{"cudaMemcpyPeerAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000};
  return answer(api, [&](Process& process) {
    return levee::simgpu::copy(process, flat(to, from, bytes, Direction::kDefault, stream, true));
  });
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  static ApiFunction api{"cudaMemcpy2D", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::copy(
        process, pitched(to, to_pitch, from, from_pitch, width, height, kind, nullptr, false));
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  static ApiFunction api{"cudaMemcpy2DAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::copy(
        process, pitched(to, to_pitch, from, from_pitch, width, height, kind, stream, true));
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  static ApiFunction api{"cudaMemcpyToSymbol", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_v3020};
  return answer(api, [&](Process& process) {
    void* address = nullptr;
    if (const int code = symbol_address(process, symbol, &address); code != 0) return code;
    return levee::simgpu::copy(process, flat(static_cast<char*>(address) + offset, from, bytes,
                                             to_direction(kind), nullptr, false));
  });
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  static ApiFunction api{"cudaMemcpyFromSymbol", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_v3020};
  return answer(api, [&](Process& process) {
    void* address = nullptr;
    if (const int code = symbol_address(process, symbol, &address); code != 0) return code;
    return levee::simgpu::copy(process, flat(to, static_cast<char*>(address) + offset, bytes,
                                             to_direction(kind), nullptr, false));
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  static ApiFunction api{"cudaMemcpyToSymbolAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbolAsync_v3020};
  return answer(api, [&](Process& process) {
    void* address = nullptr;
    if (const int code = symbol_address(process, symbol, &address); code != 0) return code;
    return levee::simgpu::copy(process, flat(static_cast<char*>(address) + offset, from, bytes,
                                             to_direction(kind), stream, true));
  });
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes,
                                 size_t count, cudaMemcpyAttributes*, size_t*, size_t,
                                 cudaStream_t stream) {
  static ApiFunction api{"cudaMemcpyBatchAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000};
  return answer(api, [&](Process& process) {
    for (std::size_t i = 0; i < count; ++i) {
      const int code = levee::simgpu::copy(
          process, flat(to[i], from[i], sizes[i], Direction::kDefault, stream, true));
      if (code != 0) return code;
    }
    return 0;
  });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  static ApiFunction api{"cudaMemset", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::fill(process, filled(to, value, bytes, 1, 0, nullptr, false));
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  static ApiFunction api{"cudaMemsetAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::fill(process, filled(to, value, bytes, 1, 0, stream, true));
  });
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  static ApiFunction api{"cudaMemset2D", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemset2D_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::fill(process, filled(to, value, width, height, pitch, nullptr, false));
  });
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  static ApiFunction api{"cudaMemset2DAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemset2DAsync_v3020};
  return answer(api, [&](Process& process) {
    return levee::simgpu::fill(process, filled(to, value, width, height, pitch, stream, true));
  });
}

}  // extern "C"
