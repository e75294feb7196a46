"""The fallback: two C functions and a setter for everything else that PyTorch lets such an allocator do."""

from __future__ import annotations

import pytest
from under_levee import assert_check, check_names, results_of

PROGRAM = "plain_door.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return results_of(PROGRAM, "8GiB", tmp_path_factory.mktemp("plain_door"))


@pytest.mark.parametrize("name", check_names(PROGRAM))
def test_plain_door(results: dict, name: str) -> None:
    assert_check(results, name)
