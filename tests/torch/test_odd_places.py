"""Where people run programs: odd names, closed outputs, no home, small limits, clocks that are set, slow disks.

Each ends as the program ends, with what levee has to say in one sentence and no traceback of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from under_levee import environment, has_gpu, launch

TRAIN = """
import torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    model(torch.randn(5 + step % 3, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
import sys
print("trained", torch.cuda.get_allocator_backend(), file=sys.stderr)
"""
LEVEE = [sys.executable, "-m", "levee"]
ODD_NAME = os.fsdecode(b"a b\xc3\xa9\xff\"'$x\n;%%p#")


def trained(ran) -> None:
    assert ran.returncode == 0, (ran.returncode, ran.err)
    assert "trained levee" in ran.err and "Traceback" not in ran.err, ran.err


def command_on_gpu(*command: str) -> list[str]:
    if has_gpu():
        return list(command)
    return [*LEVEE, "sim", "--gpu", "8GiB", "--", *command]


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_names_may_be_any_bytes(tmp_path: Path, locale: str) -> None:
    folder = tmp_path / ODD_NAME
    folder.mkdir()
    script = folder / (ODD_NAME + ".py")
    script.write_text(TRAIN)
    traces = folder / "traces"
    # An ASCII terminal as well: Python's own ways around it are off.
    env = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "SIMGPU_QUIET": "1"}

    def run(*command: object) -> subprocess.CompletedProcess:
        line = [os.fsencode(str(word)) for word in command]
        done = subprocess.run(line, capture_output=True, env=environment(env), timeout=240)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
        return done

    # %% stands for a percent sign in the place of a recording.
    place = str(traces).replace("%", "%%") + "/"
    done = run(*command_on_gpu(*LEVEE, "run", "--trace", place, str(script)))
    assert b"trained levee" in done.stderr
    (recording,) = traces.glob("*.levee")
    assert b"reserved" in run(*LEVEE, "report", traces).stdout
    assert b"alloc" in run(*LEVEE, "dump", recording, "-n", "50").stdout
    for number, form in enumerate(("chrome", "perfetto", "memory_viz", "tensorboard", "parquet")):
        out = folder / f"out{number}"
        run(*LEVEE, "export", recording, "--to", form, "-o", out)
        assert out.exists() or list(folder.glob(f"out{number}*")), form
    run(*LEVEE, "timeline", recording, "-o", folder / "page.html")
    run(*LEVEE, "replay", recording, "--policies", "levee")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def run_as(script: Path, shell: str, **env: str):
    """Runs the script under levee from a shell line, in which $RUN stands for the command."""
    command = command_on_gpu(*LEVEE, "run", str(script))
    words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
    line = ["bash", "-c", shell.replace("$RUN", words)]
    return launch(line, gpu=None, env=env, cwd=script.parent)


@pytest.mark.parametrize(
    "shell",
    [
        "unset HOME; $RUN",
        "ulimit -n 64; $RUN",
        "TERM=dumb $RUN",
        "$RUN >&-",
        "$RUN <&-",
        "$RUN | head -c 1",
    ],
)
def test_the_program_runs_there(script: Path, shell: str) -> None:
    trained(run_as(script, shell))
    assert list((script.parent / "levee_traces").glob("train-*.levee"))


def test_a_program_from_standard_input(tmp_path: Path) -> None:
    """In a Python of its own, and inside `levee run`, where a profiler watches."""
    for around in ("", "-m cProfile -o profile"):
        line = f"echo 'import sys; print(__name__, sys.argv)' | '{sys.executable}' {around} -m levee run - --lr 3"
        ran = launch(["bash", "-c", line], gpu=None, cwd=tmp_path).ok()
        assert ran.out == "__main__ ['-', '--lr', '3']\n"


def test_too_little_address_space_for_a_simulated_gpu_is_said(script: Path) -> None:
    if has_gpu():
        pytest.skip("there is a real GPU")
    ran = run_as(script, "ulimit -v 16000000; $RUN")
    assert ran.returncode == 2, (ran.returncode, ran.err)
    (line,) = [line for line in ran.err.splitlines() if line.startswith("simgpu: ")]
    assert "ulimit -v" in line and "Traceback" not in ran.err


@pytest.mark.parametrize("command", ["env", "report", "dump"])
@pytest.mark.parametrize("output", [">&-", ">/dev/full", "| head -n 1"])
def test_output_that_nobody_takes(script: Path, command: str, output: str) -> None:
    trained(run_as(script, "$RUN"))
    (recording,) = (script.parent / "levee_traces").glob("*.levee")
    what = "" if command == "env" else f"'{recording}'"
    line = f"set -o pipefail; '{sys.executable}' -m levee {command} {what} {output}"
    ran = launch(["bash", "-c", line], gpu=None)
    assert "Traceback" not in ran.err and "Exception" not in ran.err, ran.err
    if output == ">/dev/full":
        assert ran.returncode == 1
        assert ran.err == "levee: the output cannot be written: No space left on device.\n"
    else:
        assert ran.err == ""


def test_a_current_folder_that_cannot_be_written(script: Path, tmp_path: Path) -> None:
    """A file in the place of the folder for recordings: root may write everywhere."""
    (tmp_path / "levee_traces").write_text("in the way")
    ran = run_as(script, "$RUN", TMPDIR=str(tmp_path / "tmp"))
    trained(ran)
    (line,) = [line for line in ran.levee_lines() if "recording" in line]
    assert "instead" in line or "recording is off" in line


@pytest.mark.parametrize("under", ["run", "sim"])
def test_ctrl_c_ends_the_program_as_python_does(tmp_path: Path, under: str) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import torch, time\nx = torch.ones(1 << 20, device='cuda')\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, str(script)]
    if under == "run":
        command = [*LEVEE, "run", str(script)]
    process = subprocess.Popen(
        command_on_gpu(*command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment({"SIMGPU_QUIET": "1"}),
        cwd=tmp_path,
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), (process.returncode, err)
    # The traceback of the program, in which nothing of levee stands.
    assert "KeyboardInterrupt" in err and "/levee/" not in err, err
    if under == "run":
        (recording,) = (tmp_path / "levee_traces").glob("*.levee")
        # Python ends itself with the signal, so nothing can close the file; all that happened is in it.
        ran = launch([*LEVEE, "report", str(recording), "--json"], gpu=None)
        assert ran.json()["devices"][0]["allocations"] == 1


def test_two_jobs_record_into_one_folder_at_once(script: Path, tmp_path: Path) -> None:
    place = tmp_path / "shared" / "deep"
    command = command_on_gpu(*LEVEE, "run", "--trace", f"{place}/run.levee", str(script))
    jobs = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment({"SIMGPU_QUIET": "1"}),
        )
        for _ in range(2)
    ]
    for job in jobs:
        _, err = job.communicate(timeout=240)
        assert job.returncode == 0 and "recording" not in err, err
    assert sorted(p.name for p in place.iterdir()) == ["run-2.levee", "run.levee"]
    listed = launch([*LEVEE, "report", str(place), "--width", "120"], gpu=None).ok()
    assert listed.out.startswith("2 runs in ")
    for path in place.iterdir():
        assert "Steps: 6," in launch([*LEVEE, "report", str(path)], gpu=None).ok().out


def test_a_wall_clock_that_is_set_back_changes_nothing(tmp_path: Path) -> None:
    """The clock that the recorder's times come from is another one; only the file's begin is wall time."""
    if has_gpu():
        pytest.skip("the clock of a machine with a GPU is not for tests to replace")
    source = tmp_path / "clock.c"
    source.write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
/* From the hundredth question on the wall clock is a day behind. */
static long asked;
static long back(void) { return ++asked > 100 ? 86400 : 0; }
int clock_gettime(clockid_t which, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(which, now);
  if (which == CLOCK_REALTIME) now->tv_sec -= back();
  return result;
}
""")
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    script = tmp_path / "train.py"
    script.write_text(TRAIN + """
import os, time
print(time.time() - float(os.environ["NOW"]))
for step in range(6):
    model(torch.randn(5, 256, device="cuda")).sum().backward()
    optimizer.step()
""")
    env = {"LD_PRELOAD": str(library), "NOW": str(time.time())}
    ran = launch([*LEVEE, "run", str(script)], env=env, cwd=tmp_path)
    trained(ran)
    assert -86500 < float(ran.out) < -80000, "the clock of this test does not work"
    (recording,) = (tmp_path / "levee_traces").glob("*.levee")
    report = json.loads(launch([*LEVEE, "report", str(recording), "--json"], gpu=None).ok().out)
    assert report["steps"]["ended"] == 12 and report["completeness"]["remarks"] == []
    assert 0 < report["source"]["duration_ns"] < 300e9
    begins = report["steps"]["begin_ns"]
    assert begins == sorted(begins)
    assert abs(int(report["source"]["start_unix_ns"]) / 1e9 - time.time()) < 2 * 86400


def test_a_disk_that_is_too_slow_loses_nothing_or_says_how_much(tmp_path: Path) -> None:
    """The recording goes through a writer that is held up: the rings fill, and every lost event is counted."""
    if has_gpu():
        pytest.skip("needs the preloaded slow write on its own")
    source = tmp_path / "slow.c"
    source.write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>
/* Each block of a recording takes a while: the program below is ten times as fast. */
ssize_t pwrite64(int file, const void* bytes, size_t count, off_t at) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  if (!real) real = (ssize_t (*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  if (count > 4096) usleep(150000);
  return real(file, bytes, count, at);
}
ssize_t pwrite(int file, const void* bytes, size_t count, off_t at) { return pwrite64(file, bytes, count, at); }
""")
    library = tmp_path / "slow.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    script = tmp_path / "churn.py"
    script.write_text("""
import torch, json
for i in range(1_600_000):
    torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(4096))
stats = torch.cuda.memory_stats()
print(json.dumps(stats["allocation.all.allocated"]))
""")
    ran = launch(
        [*LEVEE, "run", str(script)],
        env={"LD_PRELOAD": str(library)},
        cwd=tmp_path,
        timeout=400,
    )
    asked = ran.json()
    (recording,) = (tmp_path / "levee_traces").glob("*.levee")
    report = json.loads(launch([*LEVEE, "report", str(recording), "--json"], gpu=None).ok().out)
    lost = report["completeness"]["lost_events"]
    held = report["source"]["events"]
    allocations = report["devices"][0]["allocations"]
    if lost:
        assert any("lost because a ring was full" in r for r in report["completeness"]["remarks"])
    # Each request is an event that is held or counted as lost.
    assert allocations <= asked
    assert asked - allocations <= lost <= 2 * (asked - allocations) + 1000, (asked, held, lost)
