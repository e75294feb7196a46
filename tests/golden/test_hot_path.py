"""The two gates of the hot path that a busy machine does not disturb: instructions and device calls.

    UPDATE_GOLDEN=1 python -m pytest tests/golden/test_hot_path.py

writes the files anew; read the difference before it is committed, and say why it changed.

Instructions are those of callgrind for one pair of alloc and free, in a release build of g++ 12. They may be 10 % (at
least 3) away from the accepted figure, on either side: a gain is to be written down too.
Device calls have no tolerance.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OPERATIONS = 1000  # kOperations of hot_path_scenarios.cc
TOLERANCE = 0.10
LEAST = 3


def _program() -> str:
    program = os.environ.get("LEVEE_SCENARIOS")
    if not program:
        pytest.skip("LEVEE_SCENARIOS does not name the program hot_path_scenarios; ctest does")
    return program


def _update() -> bool:
    return bool(os.environ.get("UPDATE_GOLDEN"))


def test_device_calls():
    golden = HERE / "device_calls.txt"
    text = subprocess.run(
        [_program(), "device_calls"], check=True, capture_output=True, text=True, timeout=120
    ).stdout
    if _update():
        golden.write_text(text)
    assert text == golden.read_text(), f"{golden.name} differs; see the head of this file"


def _count(tmp_path: Path) -> dict[str, float]:
    out = tmp_path / "callgrind.out"
    done = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            _program(),
            "instructions",
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=250,
    )
    if "stamps ticks" not in done.stdout:
        pytest.skip("the processor's counter is not to be trusted here: recording costs more")
    table = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    found = re.findall(r"^\s*([\d,]+) .*?:measured_(\w+)", table, flags=re.MULTILINE)
    return {name: int(count.replace(",", "")) / OPERATIONS for count, name in found}


def test_instructions(tmp_path):
    if os.environ.get("LEVEE_BUILD_IS_GOLDEN") != "1":
        pytest.skip("instructions are counted in release builds of g++ 12 alone")
    for tool in ("valgrind", "callgrind_annotate"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install valgrind")
    counted = _count(tmp_path)
    golden = HERE / "instructions.txt"
    if _update():
        lines = [f"{name:<24} {counted[name]:.0f}\n" for name in sorted(counted)]
        golden.write_text("".join(lines))
    accepted = {
        name: float(value) for name, value in map(str.split, golden.read_text().splitlines())
    }
    assert counted.keys() == accepted.keys()
    off = {
        name: f"{counted[name]:.0f}, accepted {accepted[name]:.0f}"
        for name in accepted
        if abs(counted[name] - accepted[name]) > max(LEAST, TOLERANCE * accepted[name])
    }
    assert not off, f"instructions a pair changed: {off}; see the head of this file"
