"""Everything that PyTorch offers on its allocator, through the main door; and no hazard in any of it."""

from __future__ import annotations

import pytest
from under_levee import assert_check, check_names, results_of

PROGRAM = "main_door.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return results_of(PROGRAM, "8GiB", tmp_path_factory.mktemp("main_door"))


@pytest.mark.parametrize("name", check_names(PROGRAM))
def test_main_door(results: dict, name: str) -> None:
    assert_check(results, name)


def test_it_said_one_line(results: dict) -> None:
    lines = results[""].levee_lines()
    assert len([line for line in lines if "serves the CUDA memory of PyTorch" in line]) == 1
    assert "(main door)" in lines[0]
