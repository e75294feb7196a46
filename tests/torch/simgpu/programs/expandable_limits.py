"""Expandable segments on a small card."""

import ctypes

import limits  # noqa: F401
from checks import check


@check
def mappings():
    simgpu = ctypes.CDLL(None)
    simgpu.simgpu_counter.restype = ctypes.c_uint64
    return {
        name: simgpu.simgpu_counter(name.encode())
        for name in ("cuMemMap", "cuMemUnmap", "cudaMalloc")
    }
