# Every option of the build. An unknown value stops the configuration: a misspelt option must not mean "off".

# levee_choice(NAME DEFAULT HELP VALUES...): a cache variable that takes one of VALUES.
function(levee_choice name default help)
  set(${name} "${default}" CACHE STRING "${help}")
  set_property(CACHE ${name} PROPERTY STRINGS ${ARGN})
  string(TOUPPER "${${name}}" value)
  if(value STREQUAL "TRUE" OR value STREQUAL "1" OR value STREQUAL "YES")
    set(value ON)
  elseif(value STREQUAL "FALSE" OR value STREQUAL "0" OR value STREQUAL "NO")
    set(value OFF)
  endif()
  if(NOT value IN_LIST ARGN)
    list(JOIN ARGN "|" allowed)
    message(FATAL_ERROR "${name}=${${name}} is not known; choose one of ${allowed}.")
  endif()
  set(${name} "${value}" PARENT_SCOPE)
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  set(levee_top ON)
else()
  set(levee_top OFF)
endif()

levee_choice(LEVEE_BUILD_TESTS ${levee_top} "Build the tests" ON OFF)
levee_choice(LEVEE_BUILD_BENCH ${levee_top} "Build the benchmarks and the replay lab" ON OFF)
levee_choice(LEVEE_BUILD_TOOLS ${levee_top} "Build tools/simgpu" ON OFF)
levee_choice(LEVEE_CUDA AUTO "Build what needs the CUDA headers (no toolkit is linked)" AUTO ON OFF)
if(levee_top)
  set(levee_torch_default AUTO)
else()
  set(levee_torch_default OFF)
endif()
levee_choice(LEVEE_TORCH ${levee_torch_default} "Build what needs PyTorch and Python" AUTO ON OFF)
levee_choice(LEVEE_CHECKED OFF "Compile LEVEE_DCHECK in" ON OFF)
levee_choice(LEVEE_WERROR ${levee_top} "Treat warnings in levee's own code as errors" ON OFF)
levee_choice(LEVEE_FUZZ OFF "Build the fuzzers with libFuzzer (needs clang)" ON OFF)

set(LEVEE_SANITIZE "" CACHE STRING "Sanitizers: a list of address, undefined, thread, leak")
foreach(levee_sanitizer IN LISTS LEVEE_SANITIZE)
  if(NOT levee_sanitizer MATCHES "^(address|undefined|thread|leak)$")
    message(FATAL_ERROR
      "LEVEE_SANITIZE=${LEVEE_SANITIZE} is not known; it is a list of address, undefined, thread and leak.")
  endif()
endforeach()
if("thread" IN_LIST LEVEE_SANITIZE AND "address" IN_LIST LEVEE_SANITIZE)
  message(FATAL_ERROR "LEVEE_SANITIZE cannot hold both thread and address: the two do not work in one program.")
endif()
if(LEVEE_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "LEVEE_FUZZ=ON needs clang (libFuzzer); configure with -DCMAKE_CXX_COMPILER=clang++.")
endif()

# A misspelt option would be ignored in silence by CMake; every LEVEE_ entry of the cache must be one that is known here.
set(levee_known_options
  LEVEE_BUILD_TESTS LEVEE_BUILD_BENCH LEVEE_BUILD_TOOLS LEVEE_CUDA LEVEE_TORCH LEVEE_CHECKED LEVEE_WERROR LEVEE_FUZZ
  LEVEE_SANITIZE LEVEE_CUDA_INCLUDE_DIR LEVEE_CUPTI_INCLUDE_DIR LEVEE_TORCH_PROBE_KEY LEVEE_TORCH_PROBE_FACTS
  LEVEE_ZSTD_INCLUDE_DIR LEVEE_ZSTD_LIBRARY LEVEE_CLANG)
get_property(levee_cache_names DIRECTORY PROPERTY CACHE_VARIABLES)
foreach(levee_name IN LISTS levee_cache_names)
  if(levee_name MATCHES "^LEVEE_" AND NOT levee_name IN_LIST levee_known_options)
    message(FATAL_ERROR "${levee_name} is not an option of levee; the options are in tools/cmake/LeveeOptions.cmake.")
  endif()
endforeach()

# Without a build type a library that is all about speed would be built without optimisation.
if(levee_top AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
