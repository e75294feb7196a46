"""`levee replay`, and recordings that real PyTorch made on simgpu."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def replay(levee: Any) -> Callable[..., list[dict[str, Any]]]:
    """replay(*arguments): the inputs of `levee replay --json -`."""

    def run(*arguments: Any) -> list[dict[str, Any]]:
        code, out, err = levee("replay", "--json", "-", *arguments)
        assert code == 0, err
        return json.loads(out)["inputs"]

    return run


def recorded_job(folder: Path, settings: dict[str, str]) -> Path:
    """Fills the folder with the recordings of record_job.py, made by PyTorch on simgpu."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip(f"torch is not installed in {sys.executable}")
    program = [sys.executable, str(HERE / "record_job.py"), str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "levee", "sim", "--gpu", "8GiB", "--", *program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **settings},
    )
    if "has no simulated GPU" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of a job under PyTorch's defaults."""
    return recorded_job(tmp_path_factory.mktemp("job"), {"PYTORCH_CUDA_ALLOC_CONF": ""})
