"""The PyTorch versions of the main door: the header that knows them refuses others, and the README names the same."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "torch_plugin" / "torch_versions.h"


def known_minors() -> list[int]:
    text = HEADER.read_text(encoding="utf-8")
    first, last = (
        int(re.search(rf"#define LEVEE_TORCH_{end}_MINOR (\d+)", text)[1])
        for end in ("FIRST", "LAST")
    )
    return list(range(first, last + 1))


def compile_for(folder: Path, major: int, minor: int) -> subprocess.CompletedProcess:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    (folder / "torch").mkdir()
    (folder / "torch" / "version.h").write_text(
        f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n"
    )
    command = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", str(folder), str(HEADER)]
    return subprocess.run(command, text=True, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("minor", known_minors())
def test_a_known_version_compiles(tmp_path: Path, minor: int) -> None:
    done = compile_for(tmp_path, 2, minor)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "version", [(2, known_minors()[0] - 1), (2, known_minors()[-1] + 1), (3, known_minors()[0])]
)
def test_another_version_is_refused_with_a_sentence_that_names_the_known_ones(
    tmp_path: Path, version: tuple[int, int]
) -> None:
    done = compile_for(tmp_path, *version)
    assert done.returncode != 0
    for minor in known_minors():
        assert f"2.{minor}" in done.stderr


def test_the_readme_names_the_same_versions() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.search(r"your CUDA build of PyTorch \(([^)]*)\)", readme)
    assert named is not None
    assert named[1] == " or ".join(f"2.{minor}" for minor in known_minors())
