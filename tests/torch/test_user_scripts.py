"""Scripts as people have them, unchanged: PyTorch alone, then under `levee run`.

They end alike and ask for the same memory.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from under_levee import LEVEE_RUN, PROGRAMS, has_gpu, run_file

NEEDS = {
    "user_compiled": ("triton",),
    "user_training": (),
    "user_generation": ("transformers", "peft"),
    "user_vision": ("torchvision",),
}


@pytest.fixture(scope="module", params=sorted(NEEDS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    for module in NEEDS[request.param]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    folder: Path = tmp_path_factory.mktemp(request.param)
    script = PROGRAMS / f"{request.param}.py"
    own = run_file(script, "an", "argument", tmp_path=folder)
    levee = run_file(script, "an", "argument", tmp_path=folder, python=LEVEE_RUN)
    assert "main door" in levee.err
    for ran in (own, levee):
        assert "violations" not in ran.err, ran.err
    return {"script": request.param, "own": own.json(), "levee": levee.json()}


def test_the_script_says_the_same(pair: dict) -> None:
    own, levee = ({k: v for k, v in pair[who].items() if k != "stats"} for who in ("own", "levee"))
    assert own == levee
    if "labels" in own:
        assert own["labels"] == [n % 10 for n in range(20)] * 2
    if "shape" in own:
        assert own["prompt"] and (has_gpu() or own["shape"] == [2, 22])


def test_it_asks_for_the_same_memory(pair: dict) -> None:
    if pair["script"] == "user_compiled":
        pytest.skip("PyTorch counts what it allocates on the way to an earlier state of a pool")
    own, levee = pair["own"]["stats"], pair["levee"]["stats"]
    for counter in ("allocation", "requested_bytes"):
        for field in ("current", "peak", "allocated", "freed"):
            key = f"{counter}.all.{field}"
            assert levee[key] == own[key] > 0, key
    for key in ("num_ooms", "num_alloc_retries"):
        assert levee[key] == 0
    # Jobs of some 30 MiB: a page more or less for each kind of block is all that reserved memory can tell.
    assert levee["reserved_bytes.all.peak"] <= own["reserved_bytes.all.peak"] + (4 << 20)
    most = 1.02 * own["allocated_bytes.all.current"] + 4096
    assert levee["allocated_bytes.all.current"] <= most
