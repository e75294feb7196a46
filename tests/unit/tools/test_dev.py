"""tools/dev and tools/test: what they say without doing their work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=60)


def test_help_names_every_command_and_every_command_is_in_help():
    text = run("tools/dev", "help").stdout
    listed = set(re.findall(r"^  tools/dev (\w+)", text, re.MULTILINE))
    dispatch = (ROOT / "tools" / "dev").read_text().split("case $command in")[1]
    handled = set(re.findall(r"^  ([a-z |]+)\)", dispatch, re.MULTILINE)[1].split(" | "))
    handled |= {"setup", "gpu", "ci"}
    assert listed == handled


@pytest.mark.parametrize(
    "command, sentence",
    [
        (["tools/dev", "frobnicate"], 'there is no command "frobnicate"'),
        (["tools/dev", "fuzz", "long"], 'fuzz takes a number of seconds, not "long"'),
        (["tools/test", "--frobnicate"], "unknown option --frobnicate"),
        (["tools/dev", "gpu", "--frobnicate"], "unknown option --frobnicate"),
    ],
)
def test_a_wrong_word_is_one_sentence(command: list[str], sentence: str):
    result = run(*command)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_gpu_the_gpu_script_says_so_in_one_sentence():
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    result = run("tools/dev", "gpu")
    assert result.returncode == 77
    assert result.stdout.startswith("There is no NVIDIA GPU")
    assert result.stdout.count("\n") == 1
