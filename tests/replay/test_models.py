"""The lab's models of PyTorch's allocators reserve what PyTorch itself reserved: the same job, run by PyTorch on simgpu
under the same settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replaying import recorded_job

SETTINGS = {
    "native": "",
    "native-split": "max_split_size_mb:128,garbage_collection_threshold:0.8",
    "native-pow2": "roundup_power2_divisions:8",
    "expandable": "expandable_segments:True",
}
# The expandable model maps when PyTorch maps, but not always in the same pieces.
TOLERANCE = {"expandable": 0.02}


@pytest.mark.parametrize("policy", SETTINGS)
def test_a_model_reserves_what_pytorch_reserved(policy: str, tmp_path: Path, replay: Any) -> None:
    recorded_job(tmp_path, {"PYTORCH_CUDA_ALLOC_CONF": SETTINGS[policy]})
    (found,) = replay(tmp_path / "history.pickle", "--policies", policy)
    reserved = json.loads((tmp_path / "facts.json").read_text())["peak_reserved"]
    (result,) = found["results"]
    assert found["recorded_peak_reserved"] == reserved
    assert result["peak_reserved"] == pytest.approx(reserved, rel=TOLERANCE.get(policy, 0.005))
