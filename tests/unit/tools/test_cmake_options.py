"""The build refuses what it does not know, instead of taking it for "off"."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def configure(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *arguments],
        text=True,
        capture_output=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    "argument, sentence",
    [
        ("-DLEVEE_CUDA=maybe", "LEVEE_CUDA=maybe is not known; choose one of AUTO|ON|OFF"),
        ("-DLEVEE_TORCH=2.14", "LEVEE_TORCH=2.14 is not known"),
        ("-DLEVEE_BUILD_TESTS=some", "LEVEE_BUILD_TESTS=some is not known; choose one of ON|OFF"),
        ("-DLEVEE_WERROR=error", "LEVEE_WERROR=error is not known"),
        ("-DLEVEE_SANITIZE=adress", "LEVEE_SANITIZE=adress is not known"),
        ("-DLEVEE_SANITIZE=address;thread", "cannot hold both thread and address"),
        ("-DLEVEE_CHEKED=ON", "LEVEE_CHEKED is not an option of levee"),
        ("-DPython3_EXECUTABLE=/bin/false", "LEVEE_TORCH=ON, but"),
    ],
)
def test_a_wrong_option_stops_the_configuration(tmp_path: Path, argument: str, sentence: str):
    needs_torch = ["-DLEVEE_TORCH=ON"] if "Python3" in argument else []
    result = configure(tmp_path, argument, *needs_torch)
    assert result.returncode != 0
    assert sentence in re.sub(r"\s+", " ", result.stderr)


def test_the_presets_name_known_options_alone():
    presets = (ROOT / "CMakePresets.json").read_text()
    options = (ROOT / "tools" / "cmake" / "LeveeOptions.cmake").read_text()
    names = set(re.findall(r'"(LEVEE_\w+)"', presets))
    assert names
    assert {name for name in names if name not in options} == set()
