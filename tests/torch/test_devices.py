"""Several devices in one process, and memory that is shared with other processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from under_levee import PROGRAMS, assert_check, check_names, has_gpu, results_of, run_file

PROGRAM = "devices.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    if has_gpu():
        import torch

        if torch.cuda.device_count() < 2:
            pytest.skip("this machine has one GPU")
    return results_of(PROGRAM, "4GiB,count=2", tmp_path_factory.mktemp("devices"))


@pytest.mark.parametrize("name", check_names(PROGRAM))
def test_devices(results: dict, name: str) -> None:
    assert_check(results, name)


def test_peaks_are_those_of_pytorch_where_threads_take_turns(results: dict, tmp_path: Path) -> None:
    native, own = (
        run_file(PROGRAMS / "pipeline.py", which, gpu="4GiB,count=2", tmp_path=tmp_path).json()
        for which in ("native", "torch")
    )
    for counter in ("allocation", "requested_bytes", "allocated_bytes"):
        for kind in ("all", "small_pool"):
            key = f"{counter}.{kind}.peak"
            assert [stats[key] for stats in own] == [stats[key] for stats in native], key


def test_segments_can_be_shared_by_ipc(tmp_path: Path) -> None:
    said = run_file(PROGRAMS / "segments.py", tmp_path=tmp_path).json()
    assert said["handle"]
    # The sum is a kernel's, and those compute nothing on the simulated GPU.
    assert said["answer"] == [499500.0 if has_gpu() else 0.0, 999.0, [1000], "levee"]
    assert said["has_stack"] == [True, False], "taken with the history's lock held"


# A tensor whose memory was taken away behind its back, and whose segment has gone since.
GONE = """
import levee
levee.install(backing="segments")
import torch
tensors = [torch.empty(30 << 20, dtype=torch.uint8, device=f"cuda:{n}") for n in (0, 1)]
torch.cuda.caching_allocator_delete(tensors[0].data_ptr())
torch.cuda.empty_cache()
try:
    tensors[0].record_stream(torch.cuda.Stream())
except RuntimeError as error:
    print(error)
"""


def test_memory_that_is_gone_has_no_streams(run) -> None:
    ran = run(GONE, gpu="4GiB,count=2").ok()
    assert "record_stream of memory that levee does not hold" in ran.out, ran.err
    assert "which levee never handed out; ignored" in ran.err
