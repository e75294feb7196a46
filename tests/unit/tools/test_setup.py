"""tools/support/setup.sh in a copy of its own, with the programs that would change the machine replaced by stubs."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
UNPRIVILEGED = 65534  # nobody

DF_WITH = """#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "/dev/disk 999999999 0 {kib} 1% /somewhere"
"""


class Machine:
    """A copy of the set-up in a folder, and a folder of stubs that comes first in PATH."""

    def __init__(self, folder: Path):
        self.root = folder / "checkout"
        self.stubs = folder / "stubs"
        self.calls = folder / "calls"
        shutil.copytree(ROOT / "tools" / "support", self.root / "tools" / "support")
        shutil.copy(ROOT / "pyproject.toml", self.root)
        self.stubs.mkdir()
        self.calls.touch()
        self.stub("dpkg-query", "#!/bin/sh\necho install ok installed\n")
        self.stub("df", DF_WITH.format(kib=500 << 20))
        for name in ("apt-get", "sudo"):
            self.stub(name, f'#!/bin/sh\necho "{name} $*" >>"{self.calls}"\nexit 1\n')

    def stub(self, name: str, text: str) -> None:
        path = self.stubs / name
        path.write_text(text)
        path.chmod(0o755)

    def setup(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        environment = {key: value for key, value in os.environ.items() if "PIP_" not in key}
        environment["PATH"] = f"{self.stubs}:{os.environ['PATH']}"
        environment["PIP_NO_INDEX"] = "1"  # whatever goes wrong here, nothing is downloaded
        environment["PIP_CONFIG_FILE"] = os.devnull
        return subprocess.run(
            [self.root / "tools" / "support" / "setup.sh", *arguments],
            env=environment,
            text=True,
            capture_output=True,
            timeout=120,
            **options,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_too_little_disk_is_said_before_anything_is_downloaded(machine: Machine):
    machine.stub("df", DF_WITH.format(kib=3 << 20))
    result = machine.setup()
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "too little disk" in result.stderr
    assert "10 GiB in /somewhere and 3 GiB are free; nothing was downloaded" in result.stderr
    assert "downloading" not in result.stdout
    assert not list((machine.root / "build" / "venv").glob("lib/*/site-packages/torch"))


def test_missing_debian_packages_are_installed_by_root(machine: Machine):
    if os.geteuid() != 0:
        pytest.skip("only root gets as far as calling apt-get")
    machine.stub(
        "dpkg-query", "#!/bin/sh\ncase $3 in chromium) exit 1 ;; esac\necho install ok installed\n"
    )
    result = machine.setup()
    assert "Debian packages missing: chromium\n" in result.stdout
    assert machine.calls.read_text().startswith("apt-get update")
    assert result.returncode != 0


def test_the_demo_does_without_what_only_tests_need(machine: Machine):
    machine.stub(
        "dpkg-query", "#!/bin/sh\ncase $3 in chromium) exit 1 ;; esac\necho install ok installed\n"
    )
    machine.stub("df", DF_WITH.format(kib=3 << 20))
    assert "Debian packages: all there." in machine.setup("--demo").stdout


def test_a_user_without_rights_is_told_the_command(machine: Machine, tmp_path: Path):
    machine.stub("dpkg-query", "#!/bin/sh\nexit 1\n")
    options = {}
    if os.geteuid() == 0:
        for path in [*tmp_path.parents, tmp_path]:
            if path.is_relative_to("/tmp") and path != Path("/tmp"):
                path.chmod(0o755)
        options = {"user": UNPRIVILEGED, "extra_groups": []}
    result = machine.setup("--demo", **options)
    assert result.returncode == 1
    assert "run: sudo apt-get install -y --no-install-recommends cmake ninja-build" in result.stderr
    assert "apt-get" not in machine.calls.read_text().replace("sudo -n true", "")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--frobnicate"], "unknown option --frobnicate"),
        (["--torch", "latest"], '--torch takes a version such as 2.14.1, not "latest"'),
        (["--torch"], "--torch takes a version"),
    ],
)
def test_a_wrong_option_is_one_sentence(machine: Machine, arguments: list[str], sentence: str):
    result = machine.setup(*arguments)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (machine.root / "build").exists()


def test_help_describes_every_option(machine: Machine):
    text = machine.setup("--help").stdout
    for option in ("--demo", "--install", "--werror", "--torch VERSION"):
        assert option in text


def test_a_package_that_was_built_with_warnings_as_errors_is_built_so_again(machine: Machine):
    """Other flags would compile everything anew: `tools/demo` after `tools/test`."""
    # The pip of Debian 12, 23.0, does not know the short name of the option.
    option = " --config-settings cmake.define.LEVEE_WERROR=ON"
    programs = machine.root / "build" / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "pip").write_text(f'#!/bin/sh\necho "pip $*" >>"{machine.calls}"\n')
    (programs / "pip").chmod(0o755)
    cache = machine.root / "build" / "pip-some" / "CMakeCache.txt"
    cache.parent.mkdir()
    for value, is_kept in (("OFF", False), ("ON", True)):
        cache.write_text(f"LEVEE_WERROR:STRING={value}\nLEVEE_WERROR-STRINGS:INTERNAL=ON;OFF\n")
        machine.calls.write_text("")
        result = machine.setup("--install")
        assert f"--no-deps{option * is_kept} {machine.root}" in (
            machine.calls.read_text()
        ), result.stderr


FAKE_PIP = """#!/bin/sh
case "$*" in
  *requirements*) printf 'Requirement already satisfied: a\\nCollecting torch\\nInstalled the rest'; exit 0 ;;
esac
for i in $(seq 1 40); do echo "  [$i/40] Building"; [ "$i" = 20 ] && sleep "{pause}"; done
exit 0
"""


def with_fake_pip(machine: Machine, pause: float) -> None:
    programs = machine.root / "build" / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "pip").write_text(FAKE_PIP.format(pause=pause))
    (programs / "pip").chmod(0o755)


def test_progress_in_a_log_is_a_line_each_tenth_and_nothing_is_lost(machine: Machine):
    with_fake_pip(machine, 0)
    said = machine.setup("--install").stdout
    assert [line for line in said.splitlines() if "compiling" in line] == [
        f"  compiling [{n}/40]" for n in range(4, 41, 4)
    ]
    assert "Collecting torch\nInstalled the rest\n" in said
    assert "already satisfied" not in said


def test_progress_on_a_terminal_counts_as_it_goes(machine: Machine):
    with_fake_pip(machine, 3)
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [machine.root / "tools" / "support" / "setup.sh", "--install"],
        env={**os.environ, "PATH": f"{machine.stubs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=child,
    )
    os.close(child)
    said = b""
    while b"[20/40]" not in said:  # while the build goes on, not at its end
        said += os.read(parent, 4096)
    assert process.poll() is None
    assert b"\r  compiling [19/40]" in said and b"[21/40]" not in said
    assert process.wait(60) == 0
    os.close(parent)


def test_the_demo_refuses_an_unknown_option_before_it_sets_anything_up(machine: Machine):
    shutil.copy(ROOT / "tools" / "demo", machine.root / "tools")
    comparison = machine.root / "bench" / "workloads" / "compare.py"
    comparison.parent.mkdir(parents=True)
    shutil.copy(ROOT / "bench" / "workloads" / "compare.py", comparison)
    result = subprocess.run(
        [machine.root / "tools" / "demo", "--nosuch"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == "demo: unknown option --nosuch; --help lists the options.\n"
