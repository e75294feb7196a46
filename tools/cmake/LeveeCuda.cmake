# Target `levee_cuda_headers`: the CUDA, CUPTI, NVTX and CCCL headers, as system includes. Nothing of CUDA is linked; symbols are
# resolved at run time. Looked for, in this order: LEVEE_CUDA_INCLUDE_DIR, the wheels that PyTorch brings for the Python in
# use (nvidia/cu13/include), an installed toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda).

set(LEVEE_CUDA_FOUND OFF)
set(LEVEE_CUDA_REASON "LEVEE_CUDA=OFF")
if(NOT LEVEE_CUDA STREQUAL "OFF")
  set(levee_cuda_hints "")
  foreach(levee_site IN LISTS LEVEE_PYTHON_SITE)
    list(APPEND levee_cuda_hints "${levee_site}/nvidia/cu13/include" "${levee_site}/nvidia/cuda_runtime/include")
  endforeach()
  foreach(levee_var CUDA_HOME CUDA_PATH)
    if(DEFINED ENV{${levee_var}})
      list(APPEND levee_cuda_hints "$ENV{${levee_var}}/include")
    endif()
  endforeach()
  list(APPEND levee_cuda_hints /usr/local/cuda/include)
  find_path(LEVEE_CUDA_INCLUDE_DIR NAMES cuda_runtime_api.h NO_DEFAULT_PATH PATHS ${levee_cuda_hints}
    DOC "Folder of cuda.h and cuda_runtime_api.h")
  mark_as_advanced(LEVEE_CUDA_INCLUDE_DIR)
  if(LEVEE_CUDA_INCLUDE_DIR AND EXISTS "${LEVEE_CUDA_INCLUDE_DIR}/cuda.h")
    find_path(LEVEE_CUPTI_INCLUDE_DIR NAMES cupti.h NO_DEFAULT_PATH
      PATHS "${LEVEE_CUDA_INCLUDE_DIR}" "${LEVEE_CUDA_INCLUDE_DIR}/../extras/CUPTI/include"
            "${LEVEE_CUDA_INCLUDE_DIR}/../../cuda_cupti/include"
      DOC "Folder of cupti.h")
    mark_as_advanced(LEVEE_CUPTI_INCLUDE_DIR)
    add_library(levee_cuda_headers INTERFACE)
    target_include_directories(levee_cuda_headers SYSTEM INTERFACE "${LEVEE_CUDA_INCLUDE_DIR}")
    if(LEVEE_CUPTI_INCLUDE_DIR)
      target_include_directories(levee_cuda_headers SYSTEM INTERFACE "${LEVEE_CUPTI_INCLUDE_DIR}")
    endif()
    # CUB and Thrust moved into a folder of their own with CUDA 13.
    if(EXISTS "${LEVEE_CUDA_INCLUDE_DIR}/cccl")
      target_include_directories(levee_cuda_headers SYSTEM INTERFACE "${LEVEE_CUDA_INCLUDE_DIR}/cccl")
    endif()
    set(LEVEE_CUDA_FOUND ON)
    set(LEVEE_CUDA_REASON "${LEVEE_CUDA_INCLUDE_DIR}")
  else()
    set(LEVEE_CUDA_REASON
      "no CUDA headers; install PyTorch (its wheels bring them) into the Python in use, or a CUDA toolkit")
    if(LEVEE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "LEVEE_CUDA=ON, but there are ${LEVEE_CUDA_REASON}. Or set LEVEE_CUDA_INCLUDE_DIR.")
    endif()
  endif()
endif()
