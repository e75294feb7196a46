"""PyTorch through levee's main door where driver calls fail: what failed is said, and goes on when it works again."""

import contextlib
import ctypes

import levee

levee.install()

import torch  # noqa: E402
from checks import raises, run_all  # noqa: E402

MiB = 1 << 20
INVALID_VALUE = 1
NOT_PERMITTED = 800
DEVICES_UNAVAILABLE = 46

simgpu = ctypes.CDLL(None)
runtime = ctypes.CDLL("libcudart.so.13")


@contextlib.contextmanager
def faults(plan):
    """Driver calls fail inside as `plan` says: the text form of `levee sim --faults`."""
    assert simgpu.simgpu_set_faults(plan.encode()) == 0, plan
    try:
        yield
    finally:
        simgpu.simgpu_set_faults(b"")


def works(device="cuda:0"):
    """The device can be used, and no error of before comes up in a call that has nothing to do with it."""
    torch.zeros(5, device=device).add_(1)
    torch.cuda.synchronize(device)


def check_a_device_that_does_not_start_says_so_and_starts_later():
    works()
    with faults(f"cudaMemGetInfo:times=forever:error={DEVICES_UNAVAILABLE}"):
        error = raises(RuntimeError, lambda: torch.empty(1, device="cuda:1"))
    assert "starting the device failed" in str(error), error
    assert torch.cuda.memory_allocated(1) == 0
    works("cuda:1")


def check_peer_access_that_another_library_took_before_is_no_error():
    with torch.cuda.device(0):
        assert runtime.cudaDeviceEnablePeerAccess(1, 0) == 0
    held = torch.ones(MiB, device="cuda:0")
    there = torch.ones(8, device="cuda:1")
    with faults("cuMemSetAccess:first=1:error=1"):
        error = raises(RuntimeError, lambda: there.copy_(held[:16:2]))
    assert "enablePeerAccess failed" in str(error), error
    for source, target in (("cuda:1", "cuda:0"), ("cuda:0", "cuda:1")):
        there = torch.ones(MiB, device=source)[::2].to(target)
        assert there.device == torch.device(target)
        works(source)
        works(target)


def check_a_cache_that_cannot_be_given_back_says_so():
    torch.empty(64 * MiB, dtype=torch.uint8, device="cuda")
    with faults(f"cuMemUnmap:times=forever:error={INVALID_VALUE}"):
        error = raises(RuntimeError, torch.cuda.empty_cache)
    assert "emptyCache failed" in str(error), error
    works()
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 60 * MiB


def check_a_cache_is_not_emptied_in_a_capture():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.zeros(1000, device="cuda") + 1
        error = raises(RuntimeError, torch.cuda.empty_cache)
    assert "emptyCache" in str(error), error
    graph.replay()
    torch.cuda.synchronize()
    del graph, out


def check_memory_without_a_cache_fails_as_pytorchs():
    torch._C._cuda_cudaCachingAllocator_enable(False)
    try:
        with faults("cudaMalloc:first=1"):
            raises(RuntimeError, lambda: torch.empty(MiB, dtype=torch.uint8, device="cuda"))
        tensor = torch.empty(MiB, dtype=torch.uint8, device="cuda")
        with faults("cudaFree:first=1:error=4"):
            del tensor
        works()
    finally:
        torch._C._cuda_cudaCachingAllocator_enable(True)


def check_a_request_that_fails_for_another_reason_than_memory_says_so():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    with faults(f"cuMemCreate:times=forever:error={INVALID_VALUE}"):
        error = raises(
            RuntimeError, lambda: torch.empty(256 * MiB, dtype=torch.uint8, device="cuda")
        )
    assert not isinstance(error, torch.OutOfMemoryError), error
    assert "allocate failed: CUDA said cudaErrorInvalidValue" in str(error), error
    assert torch.cuda.memory_allocated() == before
    torch.cuda.memory._record_memory_history(max_entries=100)
    try:
        with faults(f"cuMemCreate:times=forever:error={NOT_PERMITTED}"):
            error = raises(
                NotImplementedError,
                lambda: torch.empty(256 * MiB, dtype=torch.uint8, device="cuda"),
            )
        (trace,) = torch.cuda.memory._snapshot()["device_traces"][:1]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    assert "cudaErrorNotPermitted" in str(error), error
    assert not [entry for entry in trace if entry["action"] in ("alloc", "oom")], trace
    torch.empty(256 * MiB, dtype=torch.uint8, device="cuda")
    works()


def check_a_copy_of_a_storage_that_fails_says_so():
    tensor = torch.arange(1000, device="cuda")
    copy = tensor._lazy_clone()
    # PyTorch's count of owners is wrong once a copy on write has failed: both must outlive the process.
    for kept in (tensor, copy):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    with faults("cudaMemcpy:first=1:error=1"):
        raises(RuntimeError, lambda: copy.add_(1))
    works()


if __name__ == "__main__":
    run_all(globals())
