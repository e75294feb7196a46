# The Python in use. It tells where the CUDA headers of the installed wheels and where PyTorch are, and is what the extension
# modules are built for. Choose another with -DPython3_EXECUTABLE=/path/to/python. Without any Python the C++ library is built.

find_package(Python3 3.9 QUIET COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
set(LEVEE_PYTHON_SITE "" )
if(Python3_Interpreter_FOUND)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
      "import os,sys; print(';'.join(p for p in sys.path if p and os.path.isdir(os.path.join(p, 'nvidia'))))"
    OUTPUT_VARIABLE LEVEE_PYTHON_SITE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
