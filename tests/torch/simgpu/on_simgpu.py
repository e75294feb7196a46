"""Runs programs on the stand-in GPU and hands their facts to the tests.

A program (programs/NAME.py) uses real PyTorch and prints what it found out as one line of JSON; many checks share one
process, since importing PyTorch takes seconds. All programs that the collected tests need are started as soon as
collection is over, two at a time; a test waits for its own. Nothing runs in this process: it need not even have a GPU
build of PyTorch.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LAUNCHER = ROOT / "tools" / "simgpu" / "run"
FACTS = "FACTS "
SIDE_BY_SIDE = 2  # programs at a time; most of their time is Python on one core


@dataclasses.dataclass(frozen=True)
class Program:
    """How one program is started. `ranks` > 0: by torchrun, with that many processes."""

    gpu: str = "24GiB"
    ranks: int = 0
    options: tuple[str, ...] = ()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    timeout: int = 240


# Longest first: they are started in this order.
PROGRAMS = {
    "compiled": Program(timeout=420),
    "trainer": Program(gpu="16GiB,count=2", ranks=2, timeout=420),
    "distributed": Program(gpu="16GiB,count=2", ranks=2),
    "operators": Program(),
    "libraries": Program(),
    "memory": Program(),
    "graphs": Program(),
    "profiled": Program(),
    "several_gpus": Program(gpu="16GiB,count=3"),
    "native_limits": Program(gpu="2GiB"),
    "expandable_limits": Program(
        gpu="2GiB", environment={"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    ),
    "unmodelled": Program(),
    "checkpoint": Program(options=("--backing", "8MiB")),
}


@dataclasses.dataclass
class Finished:
    """What a program printed, and the facts of each rank (rank 0 where there are none)."""

    name: str
    returncode: int
    output: str
    facts: dict[int, dict[str, Any]]

    def fact(self, name: str, rank: int = 0) -> Any:
        """The value that a check of the program returned; fails the test with the check's error otherwise."""
        found = self.facts.get(rank, {}).get(name)
        if found is None:
            pytest.fail(
                f"{self.name} told nothing of {name} (exit code {self.returncode}):\n{self.output[-4000:]}"
            )
        if "error" in found:
            pytest.fail(f"{self.name}, {name}:\n{found['error']}")
        return found["value"]


def run_on_simgpu(
    command: list[str],
    gpu: str = "24GiB",
    options: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    timeout: int = 240,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LAUNCHER), "--gpu", gpu, *options, "--", *command],
        env={
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_program(name: str, folder: Path) -> Finished:
    program = PROGRAMS[name]
    command = [sys.executable]
    if program.ranks:
        command += [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={program.ranks}",
        ]
    command += [str(HERE / "programs" / f"{name}.py")]
    environment = {**program.environment, "SIMGPU_TEST_FOLDER": str(folder)}
    done = run_on_simgpu(command, program.gpu, program.options, environment, program.timeout)
    facts: dict[int, dict[str, Any]] = {}
    for line in done.stdout.splitlines():
        if FACTS in line:
            found = json.loads(line.split(FACTS, 1)[1])
            facts[found["rank"]] = found["facts"]
    return Finished(name, done.returncode, done.stdout, facts)


class Runs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._futures: dict[str, Future[Finished]] = {}

    def start(self, name: str) -> Future[Finished]:
        if name not in self._futures:
            folder = self._folder / name
            folder.mkdir(parents=True, exist_ok=True)
            self._futures[name] = self._pool.submit(run_program, name, folder)
        return self._futures[name]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


_RUNS = pytest.StashKey[Runs]()


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        return
    # pylint: disable=protected-access
    folder = session.config._tmp_path_factory.mktemp("simgpu")  # type: ignore[attr-defined]
    runs = Runs(folder)
    session.config.stash[_RUNS] = runs
    needed = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for name in PROGRAMS:
        if name in needed:
            runs.start(name)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _RUNS in config.stash:
        config.stash[_RUNS].close()


def _fixture_for(name: str) -> Any:
    @pytest.fixture(name=name, scope="session")
    def finished(request: pytest.FixtureRequest) -> Finished:
        return request.config.stash[_RUNS].start(name).result()

    return finished


for _name in PROGRAMS:
    globals()[f"fixture_{_name}"] = _fixture_for(_name)
