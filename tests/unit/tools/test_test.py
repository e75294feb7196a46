"""tools/test with its steps replaced by stubs: the order, what a failure does, and the closing lines."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

CTEST_LOG = """1/3 Test #1: base_test ........   Passed    0.02 sec
2/3 Test #2: contract_gpu_test ***Skipped   0.01 sec
3/3 Test #3: core_test ........   Passed    0.02 sec

100% tests passed, 0 tests failed out of 3

Total Test time (real) =   0.05 sec
"""

STUB = """#!/bin/sh
echo "$(basename "$0") $*" >>"{calls}"
"""


class Checkout:
    def __init__(self, folder: Path):
        self.root = folder / "checkout"
        self.calls_file = folder / "calls"
        self.calls_file.touch()
        self.stubs = folder / "stubs"
        shutil.copytree(ROOT / "tools" / "support", self.root / "tools" / "support")
        shutil.copy(ROOT / "tools" / "test", self.root / "tools")
        (self.root / "CMakePresets.json").touch()
        self.stub(self.root / "tools" / "support" / "setup.sh")
        self.stub(self.root / "tools" / "dev")
        self.stub(
            self.root / "build" / "venv" / "bin" / "python", 'echo "12 passed, 1 skipped in 3.00s"'
        )
        self.stub(self.stubs / "cmake", 'echo "-- levee 0.1.0"')
        self.ctest(CTEST_LOG, 0)
        log = self.root / "build" / "ci" / "Testing" / "Temporary" / "LastTest.log"
        log.parent.mkdir(parents=True)
        log.write_text("[  SKIPPED ] Pool.NeedsAGpu (0 ms)\n[  SKIPPED ] Pool.NeedsAGpu\n")

    def stub(self, path: Path, body: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB.format(calls=self.calls_file) + body + "\n")
        path.chmod(0o755)

    def ctest(self, output: str, code: int) -> None:
        listing = 'case "$*" in *" -N "*) echo "Total Tests: 1"; exit 0 ;; esac\n'
        self.stub(self.stubs / "ctest", f"{listing}cat <<'END'\n{output}END\nexit {code}")

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.root / "tools" / "test", *arguments],
            env={**os.environ, "PATH": f"{self.stubs}:{os.environ['PATH']}"},
            text=True,
            capture_output=True,
            timeout=60,
        )

    def calls(self) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if " -N " not in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_style_comes_before_the_build_and_the_package_before_its_tests(checkout: Checkout):
    result = checkout.run()
    assert result.returncode == 0, result.stderr
    words = [call.split(" --test-dir")[0].split(" -n ")[0] for call in checkout.calls()]
    order = [
        words.index(word) for word in ("setup.sh ", "dev check", "ctest", "python -m pytest -q")
    ]
    assert order == sorted(order)
    assert words.index("setup.sh --install --werror") < words.index("python -m pytest -q")
    assert words[-2:] == ["dev sanitizers", "dev fuzz 30"]


def test_quick_leaves_out_sanitizers_and_fuzzers_alone(checkout: Checkout):
    result = checkout.run("--quick")
    assert result.returncode == 0
    assert not any("sanitizers" in call or "fuzz" in call for call in checkout.calls())
    assert "[6/6]" in result.stdout


def test_the_time_of_the_fuzzers_is_an_option(checkout: Checkout):
    assert checkout.run("--fuzz", "7").returncode == 0
    assert checkout.calls()[-1] == "dev fuzz 7"
    for bad in ("0", "soon", ""):
        refused = checkout.run("--fuzz", bad)
        assert refused.returncode != 0
        assert refused.stderr.count("\n") == 1 and "number of seconds" in refused.stderr


def test_the_last_lines_are_those_of_ctest_and_pytest(checkout: Checkout):
    lines = checkout.run().stdout.splitlines()
    assert lines[-5:] == [
        "ctest:",
        "100% tests passed, 0 tests failed out of 3",
        "Total Test time (real) =   0.05 sec",
        "pytest:",
        "12 passed, 1 skipped in 3.00s",
    ]


def test_what_did_not_run_is_counted(checkout: Checkout):
    (line,) = [x for x in checkout.run().stdout.splitlines() if x.startswith("NOT RUN")]
    assert line.startswith("NOT RUN: 1 ctest entries, 1 C++ test cases, 0 groups of Python tests")
    assert "1 ctest entries need a real GPU" in line


def test_a_failure_lets_the_rest_run_and_fails_at_the_end(checkout: Checkout):
    checkout.ctest("67% tests passed, 1 tests failed out of 3\n", 8)
    checkout.stub(checkout.root / "tools" / "dev", "exit 1")
    result = checkout.run()
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "FAILED: check ctest sanitizers fuzz"
    assert any("pytest" in call for call in checkout.calls())


def test_a_failed_set_up_ends_it_at_once(checkout: Checkout):
    checkout.stub(checkout.root / "tools" / "support" / "setup.sh", "exit 1")
    result = checkout.run()
    assert result.returncode == 1
    assert checkout.calls() == ["setup.sh "]
