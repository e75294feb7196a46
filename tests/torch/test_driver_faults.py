"""Driver calls that fail under PyTorch; needs the simulated GPU, whose calls fail when asked to."""

from __future__ import annotations

import pytest
from under_levee import assert_check, check_names, has_gpu, results_of

PROGRAM = "driver_faults.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    if has_gpu():
        pytest.skip("this machine has a GPU; only simgpu fails when asked to")
    return results_of(PROGRAM, "4GiB,count=2", tmp_path_factory.mktemp("driver_faults"))


@pytest.mark.parametrize("name", check_names(PROGRAM))
def test_driver_faults(results: dict, name: str) -> None:
    assert_check(results, name)
