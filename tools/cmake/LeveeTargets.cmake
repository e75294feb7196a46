# The functions that make every target of levee; no target is made any other way, so that warnings, sanitizers, visibility and
# include roots are the same everywhere.
#
#   levee_add_library(NAME [SOURCES ...] [DEPS ...] [PUBLIC_DEPS ...] [DEFINES ...])
#       static library, position independent, hidden visibility. Without SOURCES it is an interface library.
#   levee_add_shared(NAME SOURCES ... [DEPS ...] [OUTPUT_NAME name] [SONAME libx.so.1] [EXPORTS file.map] [DEFINES ...])
#       shared library that exports what is marked, or what the version script names. SONAME also names the file.
#   levee_add_program(NAME SOURCES ... [DEPS ...] [OUTPUT_NAME name])
#   levee_add_test(NAME LABEL label SOURCES ... [DEPS ...] [DEFINES ...] [ENVIRONMENT A=b ...] [ARGS ...] [TIMEOUT s] [NO_MAIN])
#       GoogleTest program and one ctest entry with the label.
#   levee_add_command_test(NAME LABEL label COMMAND ... [ENVIRONMENT ...] [TIMEOUT s])
#       ctest entry for a command that is not a GoogleTest program (Python checks, consumers).
#   levee_add_bench(NAME SOURCES ... [DEPS ...] [NO_MAIN] [SMOKE_ARGS ...])
#       Google Benchmark program and a ctest entry `NAME_smoke` with label bench that runs it with --smoke. With NO_MAIN the
#       program brings its own main, which must understand --smoke.
#   levee_add_fuzzer(NAME SOURCES ... [DEPS ...] [CORPUS folder])
#       With LEVEE_FUZZ a libFuzzer program. Always a ctest entry with label fuzz that runs the corpus through it.
#
# The targets tests_LABEL (tests_unit, tests_stress, ...) build all test programs of one label, tests_fuzz the fuzzers.

set(LEVEE_TEST_LABELS
  unit contract model stress fuzz hotpath golden abi install view torch gpu lint bench)

set(LEVEE_WARNINGS
  -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wconversion -Wsign-conversion
  # g++ 12 sees overlapping copies in std::string's own code from -O2 on (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wthread-safety>)

# What every target of levee is compiled with.
add_library(levee_build_flags INTERFACE)
target_compile_features(levee_build_flags INTERFACE cxx_std_20)
target_compile_options(levee_build_flags INTERFACE ${LEVEE_WARNINGS})
target_include_directories(levee_build_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/allocator/include")
# Sanitizers and fuzzers find more when the checks are in.
if(LEVEE_CHECKED OR LEVEE_SANITIZE OR LEVEE_FUZZ)
  target_compile_definitions(levee_build_flags INTERFACE LEVEE_CHECKED=1)
else()
  target_compile_definitions(levee_build_flags INTERFACE LEVEE_CHECKED=0)
endif()
# Messages name files from the repository root, whatever folder was built in.
target_compile_options(levee_build_flags INTERFACE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
target_link_libraries(levee_build_flags INTERFACE Threads::Threads)
if(LEVEE_SANITIZE)
  list(JOIN LEVEE_SANITIZE "," levee_sanitizers)
  target_compile_options(levee_build_flags INTERFACE -fsanitize=${levee_sanitizers} -fno-omit-frame-pointer)
  target_link_options(levee_build_flags INTERFACE -fsanitize=${levee_sanitizers})
  if("undefined" IN_LIST LEVEE_SANITIZE)
    target_compile_options(levee_build_flags INTERFACE -fno-sanitize-recover=undefined)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # CUDA's functions are found at run time and called through C's types, where an enumeration is an int; clang would have the types
      # of pointer and function equal.
      target_compile_options(levee_build_flags INTERFACE -fno-sanitize=function)
    endif()
  endif()
endif()
if(LEVEE_FUZZ)
  # Coverage feedback for the libraries; the fuzzers themselves are linked with the driver.
  target_compile_options(levee_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(LEVEE_BUILD_TESTS)
  foreach(levee_label IN LISTS LEVEE_TEST_LABELS)
    add_custom_target(tests_${levee_label})
  endforeach()
endif()

function(levee_add_subdirectory_if_present folder)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory("${folder}")
  endif()
endfunction()

function(levee_configure_target name)
  set_target_properties(${name} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    COMPILE_WARNING_AS_ERROR ${LEVEE_WERROR})
endfunction()

macro(levee_check_arguments)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unknown arguments ${arg_UNPARSED_ARGUMENTS}.")
  endif()
endmacro()

function(levee_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PUBLIC_DEPS;DEFINES")
  levee_check_arguments()
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    levee_configure_target(${name})
    target_link_libraries(${name} PRIVATE levee_build_flags ${arg_DEPS} PUBLIC ${arg_PUBLIC_DEPS})
    target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_DEPS} ${arg_PUBLIC_DEPS})
  endif()
endfunction()

function(levee_add_shared name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME;SONAME;EXPORTS" "SOURCES;DEPS;DEFINES")
  levee_check_arguments()
  add_library(${name} SHARED ${arg_SOURCES})
  levee_configure_target(${name})
  target_link_libraries(${name} PRIVATE levee_build_flags ${arg_DEPS})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  if(arg_OUTPUT_NAME)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME "${arg_OUTPUT_NAME}")
  endif()
  if(arg_SONAME)
    # The file carries the SONAME itself, without a chain of links: that is the name the loader asks for.
    set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME "${arg_SONAME}" NO_SONAME ON)
    target_link_options(${name} PRIVATE "LINKER:-soname,${arg_SONAME}")
  endif()
  if(arg_EXPORTS)
    get_filename_component(exports "${arg_EXPORTS}" ABSOLUTE)
    target_link_options(${name} PRIVATE "LINKER:--version-script,${exports}")
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${exports}")
  endif()
  if(NOT LEVEE_SANITIZE)
    target_link_options(${name} PRIVATE "LINKER:--no-undefined")
  endif()
endfunction()

function(levee_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "SOURCES;DEPS;DEFINES")
  levee_check_arguments()
  add_executable(${name} ${arg_SOURCES})
  levee_configure_target(${name})
  target_link_libraries(${name} PRIVATE levee_build_flags ${arg_DEPS})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  if(arg_OUTPUT_NAME)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME "${arg_OUTPUT_NAME}")
  endif()
endfunction()

# ENVIRONMENT: one argument a variable, not one list. LONG: takes a good part of a minute or more, so it starts before the others;
# started last it would keep one processor busy and the others idle.
function(levee_add_command_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LONG" "LABEL;TIMEOUT;WORKING_DIRECTORY" "COMMAND;ENVIRONMENT")
  levee_check_arguments()
  if(NOT arg_LABEL IN_LIST LEVEE_TEST_LABELS)
    message(FATAL_ERROR "${name}: LABEL \"${arg_LABEL}\" is not one of ${LEVEE_TEST_LABELS}.")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${arg_WORKING_DIRECTORY}")
  # Exit code 77 is a skip: the program has said why on its last line.
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
  if(arg_LONG)
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
  if(arg_ENVIRONMENT)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
endfunction()

# OPTIMISED: also under the sanitizers, where its time goes into inline functions of the library.
function(levee_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_MAIN;LONG;OPTIMISED" "LABEL;TIMEOUT" "SOURCES;DEPS;DEFINES;ENVIRONMENT;ARGS")
  levee_check_arguments()
  levee_add_program(${name} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} GTest::gtest GTest::gmock DEFINES ${arg_DEFINES})
  if(NOT arg_NO_MAIN)
    target_link_libraries(${name} PRIVATE levee_test_main)
  endif()
  if(LEVEE_SANITIZE AND NOT arg_OPTIMISED AND arg_LABEL MATCHES "^(unit|contract)$")
    # What is optimised there are the bodies of the tests, at twice the compiling time; they are instrumented all the same.
    target_compile_options(${name} PRIVATE -O0)
  endif()
  set(long "")
  if(arg_LONG)
    set(long LONG)
  endif()
  levee_add_command_test(${name} ${long} LABEL ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} COMMAND ${name} ${arg_ARGS}
    ENVIRONMENT ${arg_ENVIRONMENT})
  add_dependencies(tests_${arg_LABEL} ${name})
endfunction()

function(levee_add_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_MAIN" "TIMEOUT" "SOURCES;DEPS;SMOKE_ARGS;DEFINES")
  levee_check_arguments()
  levee_add_program(${name} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} benchmark::benchmark DEFINES ${arg_DEFINES})
  if(NOT arg_NO_MAIN)
    target_link_libraries(${name} PRIVATE levee_bench_main)
  endif()
  if(LEVEE_BUILD_TESTS)
    levee_add_command_test(${name}_smoke LABEL bench TIMEOUT ${arg_TIMEOUT} COMMAND ${name} --smoke ${arg_SMOKE_ARGS})
  endif()
endfunction()

function(levee_add_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS" "SOURCES;DEPS")
  levee_check_arguments()
  levee_add_program(${name} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS})
  add_dependencies(tests_fuzz ${name})
  if(LEVEE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(run -runs=0)
  else()
    target_link_libraries(${name} PRIVATE levee_fuzz_replay_main)
    set(run "")
  endif()
  if(arg_CORPUS)
    get_filename_component(corpus "${arg_CORPUS}" ABSOLUTE)
    levee_add_command_test(${name}_corpus LABEL fuzz COMMAND ${name} ${run} "${corpus}")
  endif()
endfunction()

# One table that says what is built and what is not.
function(levee_print_summary)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  message(STATUS "")
  message(STATUS "levee ${PROJECT_VERSION}")
  message(STATUS "  compiler     ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
  message(STATUS "  checked      ${LEVEE_CHECKED}, sanitizers: ${LEVEE_SANITIZE}, warnings are errors: ${LEVEE_WERROR}")
  message(STATUS "  tests        ${LEVEE_BUILD_TESTS}, benchmarks: ${LEVEE_BUILD_BENCH}, simgpu: ${LEVEE_BUILD_TOOLS}, fuzzers: ${LEVEE_FUZZ}")
  message(STATUS "  Python       ${Python3_EXECUTABLE}")
  message(STATUS "  CUDA headers ${LEVEE_CUDA_FOUND}: ${LEVEE_CUDA_REASON}")
  message(STATUS "  PyTorch      ${LEVEE_TORCH_FOUND}: ${LEVEE_TORCH_REASON}")
  message(STATUS "")
endfunction()
