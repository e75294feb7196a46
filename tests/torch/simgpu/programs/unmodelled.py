"""What is not there says so: missing symbols, functions that are not modelled, handles that are none."""

import ctypes
import os

from checks import check

LIBRARIES = os.environ["SIMGPU_LIB"]


def library(name):
    return ctypes.CDLL(f"{LIBRARIES}/{name}")


@check
def missing_symbol():
    try:
        library("libcublas.so.13").cublasNoSuchFunction
    except AttributeError as error:
        return str(error)
    return ""


@check
def not_modelled():
    nccl = library("libnccl.so.2")
    return [nccl.ncclCommWindowRegister(None, None, ctypes.c_size_t(0), None, 0) for _ in range(2)]


@check
def handles_that_are_none():
    cublas, cudnn = library("libcublas.so.13"), library("libcudnn.so.9")
    number = ctypes.c_int(7)
    return [
        cublas.cublasGetMathMode(None, ctypes.byref(number)),
        cublas.cublasSgemm_v2(*[None] * 14),
        cudnn.cudnnSetStream(None, None),
        cudnn.cudnnBackendFinalize(None),
    ]


@check
def settings_read_back():
    cublas = library("libcublas.so.13")
    handle, mode, pointers = ctypes.c_void_p(), ctypes.c_int(-1), ctypes.c_int(-1)
    assert cublas.cublasCreate_v2(ctypes.byref(handle)) == 0
    cublas.cublasGetMathMode(handle, ctypes.byref(mode))
    before = mode.value
    cublas.cublasSetMathMode(handle, 3)
    cublas.cublasSetPointerMode_v2(handle, 1)
    cublas.cublasGetMathMode(handle, ctypes.byref(mode))
    cublas.cublasGetPointerMode_v2(handle, ctypes.byref(pointers))
    assert cublas.cublasDestroy_v2(handle) == 0
    return [before, mode.value, pointers.value]


@check
def names_of_errors():
    cublas = library("libcublas.so.13")
    cublas.cublasGetStatusName.restype = ctypes.c_char_p
    return [cublas.cublasGetStatusName(code).decode() for code in (0, 15, 999)]
