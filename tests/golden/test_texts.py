"""Texts that people read, word for word: reports and dumps of made-up runs.

    UPDATE_GOLDEN=1 python -m pytest tests/golden

writes the files anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _program() -> str | None:
    built = sorted(ROOT.glob("build/*/tests/view/make_trace")) + sorted(
        ROOT.glob("build/tests/view/make_trace")
    )
    return os.environ.get("LEVEE_MAKE_TRACE") or (str(built[-1]) if built else None)


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> dict[str, Path]:
    program = _program()
    if program is None:
        pytest.skip("make_trace is not built (cmake target make_trace; or set LEVEE_MAKE_TRACE)")
    folder = tmp_path_factory.mktemp("golden")
    made = {}
    for kind in ("storms", "calm", "cut", "split"):
        made[kind] = folder / f"{kind}.levee"
        subprocess.run([program, kind, made[kind]], check=True, timeout=120)
    ranks = folder / "ranks"
    ranks.mkdir()
    for rank in range(3):
        subprocess.run(
            [program, "rank", ranks / f"{rank}.levee", str(rank)], check=True, timeout=120
        )
    made["ranks"] = ranks
    return made


CASES = [
    ("report_storms", "storms", ["report", "--width", "110"]),
    ("report_storms_full", "storms", ["report", "--full", "--width", "110"]),
    ("report_calm", "calm", ["report", "--width", "110"]),
    ("report_cut", "cut", ["report", "--width", "110"]),
    ("report_split", "split", ["report", "--width", "110"]),
    ("report_ranks", "ranks", ["report", "--width", "110"]),
    ("dump_storms", "storms", ["dump", "-n", "120"]),
]


@pytest.mark.parametrize("name, kind, command", CASES, ids=[case[0] for case in CASES])
def test_text(traces, name, kind, command):
    done = subprocess.run(
        [sys.executable, "-m", "levee", command[0], str(traces[kind]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    text = "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"
    golden = HERE / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text(), f"{golden.name} differs; see the head of this file"
