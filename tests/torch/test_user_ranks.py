"""Jobs of several ranks under their launchers: PyTorch alone, then with levee in front of the script."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
from pathlib import Path

import pytest
from under_levee import LEVEE_RUN, PROGRAMS, has_gpu, launch

RANKS = 2


def launcher(kind: str) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    if kind == "accelerate":
        options = ["--num_processes", str(RANKS), "--multi_gpu", "--num_machines", "1"]
        options += ["--main_process_port", port, "--mixed_precision", "bf16"]
        command = ["-m", "accelerate.commands.launch", *options, "--dynamo_backend", "no"]
    else:
        options = ["--nproc-per-node", str(RANKS), "--master-addr", "127.0.0.1"]
        command = ["-m", "torch.distributed.run", *options, "--master-port", port]
    return [sys.executable, *command]


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "accelerate"])
def test_ranks_ask_for_the_same_memory(kind: str, tmp_path: Path) -> None:
    if has_gpu():
        pytest.skip("needs two GPUs; the simulated ones are two")
    if kind == "accelerate" and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    said: dict[str, list[dict]] = {}
    for backend, between in (("native", ()), ("levee", LEVEE_RUN)):
        folder = tmp_path / backend
        folder.mkdir()
        command = [*launcher(kind), *between, str(PROGRAMS / "user_ranks.py"), kind]
        ran = launch(command, gpu=f"8GiB,count={RANKS}", cwd=folder, timeout=600).ok()
        assert "violations" not in ran.err, ran.err
        said[backend] = [json.loads((folder / f"rank{n}.json").read_text()) for n in range(RANKS)]
        recordings = list(folder.rglob("*.levee"))
        assert len(recordings) == (RANKS if backend == "levee" else 0), "one of each rank"
    for own, levee in zip(said["native"], said["levee"]):
        assert own["backend"] == "native" and levee["backend"] == "levee"
        assert own["total"] == levee["total"] == 3
        for key in ("allocation.all.allocated", "requested_bytes.all.allocated"):
            assert levee["stats"][key] == own["stats"][key] > 0, key
        # What collectives on another stream still hold is given back when that is seen to be done.
        for key in ("requested_bytes.all.peak", "allocated_bytes.all.peak"):
            assert abs(levee["stats"][key] - own["stats"][key]) <= 0.02 * own["stats"][key], key
        assert levee["stats"]["num_ooms"] == levee["stats"]["num_alloc_retries"] == 0
