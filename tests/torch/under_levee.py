"""PyTorch's CUDA build under levee: on a real GPU if there is one, else on simgpu.

Each program is a process of its own, since a process chooses its allocator once. `sim` runs one and
gives back what it printed. A program of `checks` runs many checks in one process and reports each, so
that PyTorch is not loaded a hundred times.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

import pytest

PROGRAMS = Path(__file__).with_name("programs")


def has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()


def missing() -> str | None:
    """Why nothing here can run, or None."""
    for module in ("torch", "levee"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed in {sys.executable}"
    import torch

    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in Path(item.path).parents]
    reason = missing() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.torch)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclasses.dataclass
class Ran:
    """What became of a program."""

    returncode: int
    out: str
    err: str

    def ok(self) -> "Ran":
        assert self.returncode == 0, f"exit code {self.returncode}\n{self.out}\n{self.err}"
        return self

    def json(self) -> Any:
        """The last line of the output, as JSON."""
        return json.loads(self.ok().out.strip().splitlines()[-1])

    def levee_lines(self) -> list[str]:
        return [line[7:] for line in self.err.splitlines() if line.startswith("levee: ")]


def environment(extra: dict[str, str]) -> dict[str, str]:
    """This process's environment without settings that a developer may have, plus `extra`."""
    base = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LEVEE", "SIMGPU_", "PYTORCH_"))
    }
    return {**base, "PYTHONUNBUFFERED": "1", **extra}


def launch(
    command: Sequence[str],
    *,
    gpu: str | None = "8GiB",
    env: dict[str, str] | None = None,
    timeout: float = 240,
    cwd: Path | str | None = None,
    judge: str = "count",
) -> Ran:
    """Runs a command, on the simulated GPU unless there is a real one or `gpu` is None."""
    command = list(command)
    extra = {"SIMGPU_QUIET": "1", **(env or {})}
    if gpu is not None and not has_gpu():
        simulate = [sys.executable, "-m", "levee", "sim", "--gpu", gpu, "--judge", judge]
        command = [*simulate, "--", *command]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(extra),
        cwd=cwd,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(tmp_path: Path):
    """run(source, ...): runs Python source in a folder of its own; recordings land there as well."""

    def run_source(source: str, *arguments: str, **options: Any) -> Ran:
        script = tmp_path / "program.py"
        script.write_text(source, encoding="utf-8")
        return run_file(script, *arguments, tmp_path=tmp_path, **options)

    return run_source


def run_file(
    script: Path,
    *arguments: str,
    tmp_path: Path,
    python: Sequence[str] = (),
    env: dict[str, str] | None = None,
    **options: Any,
) -> Ran:
    """python: what stands between the interpreter and the script, such as ("-m", "levee", "run")."""
    settings = {"LEVEE_TRACE": str(tmp_path) + "/", **(env or {})}
    command = [sys.executable, *python, str(script), *arguments]
    return launch(command, env=settings, cwd=tmp_path, **options)


LEVEE_RUN = ("-m", "levee", "run")


def check_names(program: str) -> list[str]:
    """The functions check_* of a program, without importing it."""
    tree = ast.parse((PROGRAMS / program).read_text(encoding="utf-8"))
    return [
        node.name[len("check_") :]
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]


@functools.lru_cache(maxsize=None)
def results_of(program: str, gpu: str, folder: Path, *environment_items: tuple[str, str]) -> dict:
    """Outcome of every check of a program, run once."""
    ran = run_file(
        PROGRAMS / program,
        tmp_path=folder,
        gpu=gpu,
        env={"PYTHONPATH": prepend_path(PROGRAMS), **dict(environment_items)},
    )
    try:
        return {**ran.json(), "": ran}
    except (AssertionError, IndexError, ValueError) as error:
        raise AssertionError(f"{program} did not report: {error}\n{ran.out}\n{ran.err}") from None


def prepend_path(folder: Path) -> str:
    old = os.environ.get("PYTHONPATH")
    return f"{folder}{os.pathsep}{old}" if old else str(folder)


def assert_check(results: dict, name: str) -> None:
    outcome = results.get(name, "was not reached: the program ended before it")
    if outcome.startswith("skip: "):
        pytest.skip(outcome[6:])
    assert outcome == "ok", outcome
