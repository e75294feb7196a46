# Target `levee_torch`: headers and libraries of the PyTorch that the Python in use imports. PyTorch's own CMake package is not
# used, since it asks for nvcc and a toolkit. Also sets LEVEE_TORCH_VERSION ("2.14.1"), LEVEE_TORCH_CUDA_VERSION (empty for a
# CPU-only build) and LEVEE_TORCH_ROOT. Without PyTorch LEVEE_TORCH_FOUND is OFF and LEVEE_TORCH_REASON says why.

# Asks the Python in use about its torch: "version|root|cuda version|C++11 ABI", or nothing. Importing torch takes seconds, so
# the answer is kept in the cache for as long as the interpreter and the installed package stay the same.
function(levee_probe_torch result)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.getmtime(s.origin) if s and s.origin else '')"
    OUTPUT_VARIABLE stamp OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(key "${Python3_EXECUTABLE}@${stamp}")
  if(NOT "${LEVEE_TORCH_PROBE_KEY}" STREQUAL "${key}")
    set(facts "")
    if(NOT stamp STREQUAL "")
      execute_process(
        COMMAND "${Python3_EXECUTABLE}" -c
          "import torch, os; print('|'.join([torch.__version__.split('+')[0], os.path.dirname(torch.__file__), torch.version.cuda or '', str(int(torch.compiled_with_cxx11_abi()))]))"
        OUTPUT_VARIABLE facts OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    set(LEVEE_TORCH_PROBE_KEY "${key}" CACHE INTERNAL "")
    set(LEVEE_TORCH_PROBE_FACTS "${facts}" CACHE INTERNAL "")
  endif()
  set(${result} "${LEVEE_TORCH_PROBE_FACTS}" PARENT_SCOPE)
endfunction()

set(LEVEE_TORCH_FOUND OFF)
set(LEVEE_TORCH_REASON "LEVEE_TORCH=OFF")
if(NOT LEVEE_TORCH STREQUAL "OFF")
  if(NOT Python3_Interpreter_FOUND)
    set(LEVEE_TORCH_REASON "no Python 3 was found")
  elseif(NOT Python3_Development.Module_FOUND)
    set(LEVEE_TORCH_REASON "the headers of ${Python3_EXECUTABLE} are missing (Debian: apt install python3-dev)")
  else()
    levee_probe_torch(levee_torch_facts)
    if(levee_torch_facts MATCHES "^([^|]+)[|]([^|]+)[|]([^|]*)[|]([01])$")
      set(LEVEE_TORCH_VERSION "${CMAKE_MATCH_1}")
      set(LEVEE_TORCH_ROOT "${CMAKE_MATCH_2}")
      set(LEVEE_TORCH_CUDA_VERSION "${CMAKE_MATCH_3}")
      set(levee_torch_abi "${CMAKE_MATCH_4}")
      if(LEVEE_TORCH_CUDA_VERSION STREQUAL "")
        set(LEVEE_TORCH_REASON "PyTorch ${LEVEE_TORCH_VERSION} of ${Python3_EXECUTABLE} is a CPU-only build")
      elseif(NOT LEVEE_CUDA_FOUND)
        set(LEVEE_TORCH_REASON "PyTorch's CUDA build needs the CUDA headers, and there are ${LEVEE_CUDA_REASON}")
      else()
        set(LEVEE_TORCH_FOUND ON)
        set(LEVEE_TORCH_REASON "${LEVEE_TORCH_VERSION} (CUDA ${LEVEE_TORCH_CUDA_VERSION}) in ${LEVEE_TORCH_ROOT}")
      endif()
    else()
      set(LEVEE_TORCH_REASON "${Python3_EXECUTABLE} cannot import torch")
    endif()
  endif()
  if(LEVEE_TORCH STREQUAL "ON" AND NOT LEVEE_TORCH_FOUND)
    message(FATAL_ERROR "LEVEE_TORCH=ON, but ${LEVEE_TORCH_REASON}. "
      "Choose the Python with -DPython3_EXECUTABLE=/path/to/python.")
  endif()
endif()

if(LEVEE_TORCH_FOUND)
  add_library(levee_torch INTERFACE)
  target_include_directories(levee_torch SYSTEM INTERFACE
    "${LEVEE_TORCH_ROOT}/include" "${LEVEE_TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(levee_torch INTERFACE "_GLIBCXX_USE_CXX11_ABI=${levee_torch_abi}")
  foreach(levee_lib c10 c10_cuda torch_cpu torch_cuda torch torch_python)
    target_link_libraries(levee_torch INTERFACE "${LEVEE_TORCH_ROOT}/lib/lib${levee_lib}.so")
  endforeach()
  target_link_libraries(levee_torch INTERFACE levee_cuda_headers)
endif()
