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


# Of PyTorch 2.14's own calls none asks for the base of an allocation; other users of the symbol do.
BASES = """
import ctypes, sys
from pathlib import Path
import levee
levee.install(door="plain", backing="segments")
import torch
(library,) = Path(levee.__file__).parent.glob("*levee_torch*")
base_of = ctypes.CDLL(str(library)).levee_torch_base_alloc
base_of.restype = ctypes.c_void_p
base_of.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
tensors = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
size = ctypes.c_size_t()
for tensor in tensors:
    base = base_of(tensor.data_ptr(), ctypes.addressof(size))
    assert base <= tensor.data_ptr() and tensor.data_ptr() + tensor.nbytes <= base + size.value
    assert base_of(tensor.data_ptr(), None) == base
assert base_of(tensors[0].data_ptr(), None) == base
print("bases", flush=True)
base_of(4096, None)
"""


def test_bases_of_allocations_are_told_and_of_nothing_else(run) -> None:
    ran = run(BASES)
    assert ran.out == "bases\n", ran.err
    assert ran.returncode < 0 and "levee: " in ran.err, "an exception where nobody catches one"
