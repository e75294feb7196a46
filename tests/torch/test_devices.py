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
@pytest.mark.xfail(
    reason="copies between devices over mapped pages were judged wrongly before peers were let in; not rerun since",
    strict=False,
)
def test_devices(results: dict, name: str) -> None:
    assert_check(results, name)


@pytest.mark.xfail(reason="simgpu answers cudaErrorNotSupported to IPC handles", strict=False)
def test_segments_can_be_shared_by_ipc(tmp_path: Path) -> None:
    arguments = ["processes"] if has_gpu() else []
    ran = run_file(PROGRAMS / "segments.py", *arguments, tmp_path=tmp_path)
    if not has_gpu() and ran.returncode != 0 and "801" in ran.err:
        pytest.skip("the simulated GPU does not model CUDA IPC")
    said = ran.json()
    assert said["handle"]
    if has_gpu():
        assert said["answer"] == [499500.0, [1000], "levee"]
