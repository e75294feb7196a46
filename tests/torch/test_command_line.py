"""Ways in and ways to fail: levee run, LEVEE=1, options, and one sentence where something is wrong."""

from __future__ import annotations

import json
import os
import pickle
import pstats
import re
import subprocess
import sys
from pathlib import Path

import pytest
from under_levee import LEVEE_RUN, environment, launch, run_file

TRAIN = """
import json, sys
import torch
model = torch.nn.Linear(100, 100).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(5 + step, 100, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(json.dumps({
    "backend": torch.cuda.get_allocator_backend(), "argv": sys.argv[1:], "name": __name__,
    "file": __file__, "path": sys.path[0], "main": sys.modules["__main__"].__file__,
    "levee_imported": "levee.installing" in sys.modules,
}))
"""


def test_run_leaves_a_script_as_it_is(run, tmp_path: Path) -> None:
    ran = run(TRAIN, "--lr", "3", "-m", "x", python=LEVEE_RUN)
    said = ran.json()
    assert said["backend"] == "levee"
    assert said["argv"] == ["--lr", "3", "-m", "x"]
    assert said["name"] == "__main__"
    assert said["file"] == said["main"] == str(tmp_path / "program.py")
    assert said["path"] == str(tmp_path)
    assert list(tmp_path.glob("*.levee")), "no recording was written"


def test_each_block_has_a_stack_or_the_reason_why_not(run, tmp_path: Path) -> None:
    run(
        """
import torch

def weights():
    return torch.randn(1 << 20, device="cuda", requires_grad=True)

(weights() * 2).sum().backward()  # gradients come from autograd's thread, which runs no Python
torch.cuda.synchronize()
""",
        python=(*LEVEE_RUN, "--stacks"),
    )
    (recording,) = tmp_path.glob("*.levee")
    out = tmp_path / "snapshot.pickle"
    launch(
        [sys.executable, "-m", "levee", "export", recording, "--to", "memory_viz", "-o", out],
        cwd=tmp_path,
    )
    snapshot = pickle.loads(out.read_bytes())
    events = [e for trace in snapshot["device_traces"] for e in trace if e["action"] == "alloc"]
    assert events
    innermost = [event["frames"][0] for event in events]
    assert {"weights"} & {frame["name"] for frame in innermost}
    reasons = [frame["filename"] for frame in innermost if frame["line"] == 0]
    assert reasons and all(text.startswith("(no Python frame") for text in reasons)


def test_run_a_module_of_a_package(run, tmp_path: Path) -> None:
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").write_text("import sys; print('begun', file=sys.stderr)")
    (package / "helper.py").write_text("WORD = 'helped'")
    (package / "train.py").write_text(
        "from .helper import WORD\n" + TRAIN + "print(WORD, file=sys.stderr)"
    )
    ran = launch(
        [sys.executable, "-m", "levee", "run", "-m", "project.train", "--epochs", "2"], cwd=tmp_path
    )
    said = ran.json()
    assert said["backend"] == "levee" and said["argv"] == ["--epochs", "2"]
    assert "helped" in ran.err
    assert ran.err.count("begun") == 1, "as `python -m` has it"


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("import sys; sys.exit('a message')", 1, "a message"),
        ("def f():\n    raise ValueError('boom')\nf()", 1, "ValueError: boom"),
    ],
)
def test_run_ends_as_the_script_ends(run, body: str, code: int, text: str) -> None:
    ran = run(body, python=LEVEE_RUN, gpu=None)
    assert ran.returncode == code
    assert text in ran.err
    assert "_cli_run.py" not in ran.err, "levee's own frames are nobody's business"


def test_settings_of_a_run_reach_the_processes_that_it_starts(run) -> None:
    ran = run(
        """
import subprocess, sys
child = "import levee.settings as s; print(s.is_wanted()); " \
        "from levee import _core; print(_core.get_option('page_size'))"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout)
""",
        python=(*LEVEE_RUN, "-o", "page_size=64MiB"),
        gpu=None,
    )
    assert ran.ok().out.split() == ["True", "64MiB"]


def test_levee_1_installs_when_pytorch_is_imported(run) -> None:
    assert run(TRAIN, env={"LEVEE": "1"}).json()["backend"] == "levee"


def test_levee_1_waits_through_looking_for_pytorch(run) -> None:
    ran = run(
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('torch') is not None\n"
        "assert 'torch' not in sys.modules and 'levee.installing' not in sys.modules\n" + TRAIN,
        env={"LEVEE": "1"},
    )
    assert ran.json()["backend"] == "levee"


def test_without_levee_1_nothing_happens(run) -> None:
    for env in ({}, {"LEVEE": "0"}, {"LEVEE": "off"}):
        said = run(TRAIN, env=env).json()
        assert said["backend"] == "native" and not said["levee_imported"], env


def test_the_start_up_hook_costs_nothing_where_it_is_not_wanted() -> None:
    from levee import _autostart

    hook = Path(_autostart.__file__).with_name("levee.pth").read_text(encoding="utf-8")
    measure = f"""
import sys, time
source = compile({hook!r}, "levee.pth", "exec")
before = time.perf_counter()
for _ in range(1000):
    exec(source)
print((time.perf_counter() - before) / 1000 * 1e6)
assert not any(name.startswith("levee") for name in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", measure], capture_output=True, text=True, env=environment({})
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1000, f"{done.stdout} us: a start of Python must not feel it"


@pytest.mark.parametrize("way", ["run", "variable", "call"])
def test_levee_disable_switches_everything_off(run, way: str) -> None:
    source = ("import levee\nassert levee.install() is None\n" if way == "call" else "") + TRAIN
    env = {"LEVEE_DISABLE": "1", **({"LEVEE": "1"} if way == "variable" else {})}
    ran = run(source, python=LEVEE_RUN if way == "run" else (), env=env)
    assert ran.json()["backend"] == "native"


def test_a_notebook_may_install_after_importing_pytorch(run) -> None:
    ran = run("""
import torch
model = torch.nn.Linear(3, 3)           # a first cell without the GPU
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
import levee
assert levee.install() == "torch"
assert levee.install() == "torch"       # the cell is run again
model.cuda()
import json; print(json.dumps(torch.cuda.memory_allocated()))
""")
    assert ran.json() > 0
    assert len(ran.levee_lines()) == 1, ran.err


# ---- One sentence each -------------------------------------------------------------------------------


def one_sentence(ran, *words: str, code: int | None = 2) -> None:
    if code is not None:
        assert ran.returncode == code, (ran.returncode, ran.err)
    lines = ran.levee_lines()
    assert len(lines) == 1, ran.err
    for word in words:
        assert word in lines[0], lines[0]
    assert "Traceback" not in ran.err, ran.err


def test_installing_after_cuda_has_started_is_refused(run) -> None:
    ran = run("import torch; torch.zeros(1, device='cuda')\nimport levee\nlevee.install()")
    assert ran.returncode == 1
    assert (
        ran.err.strip()
        .splitlines()[-1]
        .startswith("levee.errors.LeveeError: CUDA has already started")
    )


def test_unknown_and_impossible_options_are_refused(run) -> None:
    one_sentence(
        run("", python=(*LEVEE_RUN, "-o", "page_siez=2MiB"), gpu=None), "did you mean page_size"
    )
    one_sentence(
        run("", python=(*LEVEE_RUN, "-o", "page_size=3MiB"), gpu=None), "a multiple of 2MiB"
    )
    one_sentence(run("", python=(*LEVEE_RUN, "-o", "page_size"), gpu=None), "NAME=VALUE")
    # By the name under which it was given: nobody set a variable.
    for name in ("page_size", "kernels"):
        ran = run("", python=(*LEVEE_RUN, "-o", f"{name}=3MiB"), gpu=None)
        one_sentence(ran, f"-o {name}=3MiB cannot be used")
    one_sentence(
        run("", python=LEVEE_RUN, env={"LEVEE_STITCH": "always"}, gpu=None),
        "LEVEE_STITCH=always cannot be used",
        "alias, move or none",
    )
    one_sentence(
        run("", python=LEVEE_RUN, env={"LEVEE_DOOR": "back"}, gpu=None), "LEVEE_DOOR=back", "auto"
    )
    ran = run("import levee; levee.install(colour='red')", gpu=None)
    assert "LeveeError: colour is not an option of levee" in ran.err and ran.returncode == 1


def test_levee_1_with_a_setting_that_cannot_be_used_ends_the_program(run) -> None:
    one_sentence(run(TRAIN, env={"LEVEE": "1", "LEVEE_SLACK": "much"}), "LEVEE_SLACK=much")


def test_a_misspelt_variable_is_named_and_the_program_goes_on(run) -> None:
    ran = run(TRAIN, python=LEVEE_RUN, env={"LEVEE_PAGE_SIEZ": "2MiB"})
    assert ran.json()["backend"] == "levee"
    assert "LEVEE_PAGE_SIEZ is not a variable of levee" in ran.err


def test_a_missing_driver_is_said(run) -> None:
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a CUDA driver")
    one_sentence(run("import torch", python=LEVEE_RUN, gpu=None), "libcuda.so.1", "levee sim")
    ran = run("import torch; print(torch.ones(2).sum())", env={"LEVEE": "1"}, gpu=None)
    assert ran.ok().out.startswith("tensor(2.)")
    assert "not installed: no CUDA driver" in ran.err


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("raise ImportError('broken')", ("cannot import it",)),
        ("class version: cuda = None\n__version__ = '2.14.1+cpu'", ("2.14.1+cpu", "without CUDA")),
    ],
)
def test_no_pytorch_or_one_without_cuda_is_said(run, tmp_path: Path, package: str, words) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(package)
    ran = run(
        "import levee\ntry:\n    levee.install()\nexcept levee.LeveeError as e:\n    print(e)",
        gpu=None,
    )
    for word in words:
        assert word in ran.ok().out
    if "without" in words[-1]:
        one_sentence(run("import torch", python=LEVEE_RUN, gpu=None), *words)


def test_another_pytorch_gets_the_plain_door_and_is_told(run) -> None:
    other = "import torch\ntorch.__version__ = '2.6.0'\nimport levee\n"
    ran = run(other + "print(levee.install())\ntorch.zeros(3, device='cuda')")
    assert ran.ok().out.strip() == "plain"
    assert "this is 2.6" in ran.err and "pip install" in ran.err
    ran = run(other + "levee.install(door='torch')")
    assert ran.returncode == 1 and "LeveeError: levee's main door was built for PyTorch" in ran.err


def test_settings_of_pytorchs_allocator_without_meaning_are_named_once(run) -> None:
    conf = "expandable_segments:True,roundup_power2_divisions:[256:1,>:4],per_process_memory_fraction:0.5"
    ran = run(
        TRAIN + "\nprint(torch.cuda.get_per_process_memory_fraction())",
        python=LEVEE_RUN,
        env={"PYTORCH_CUDA_ALLOC_CONF": conf},
    )
    assert ran.ok().out.strip().endswith("0.5"), "the fraction is honoured"
    (line,) = [line for line in ran.levee_lines() if "no meaning" in line]
    assert line.startswith(
        "expandable_segments, roundup_power2_divisions in PYTORCH_CUDA_ALLOC_CONF have"
    )


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ("nonsense:1", "Unrecognized key 'nonsense'"),
        ("per_process_memory_fraction:7", "[0.0, 1.0]"),
    ],
)
def test_a_setting_that_pytorch_refuses_is_said_in_one_sentence(run, conf: str, words: str) -> None:
    ran = run(TRAIN, python=LEVEE_RUN, env={"PYTORCH_CUDA_ALLOC_CONF": conf})
    one_sentence(ran, "PYTORCH_CUDA_ALLOC_CONF", words)


@pytest.mark.parametrize("place", ["a-file/run.levee", "/proc/nowhere/", "a-pipe", "/dev/null"])
def test_a_recording_that_cannot_be_written_ends_and_the_program_goes_on(
    run, tmp_path: Path, place: str
) -> None:
    (tmp_path / "a-file").write_text("not a folder")
    os.mkfifo(tmp_path / "a-pipe")
    ran = run(TRAIN, python=LEVEE_RUN, env={"LEVEE_TRACE": str(tmp_path / place)})
    assert ran.json()["backend"] == "levee"
    (line,) = [line for line in ran.levee_lines() if "recording" in line]
    assert line.startswith("recording is off: ") and "LEVEE_TRACE" in line
    assert ran.levee_lines().index(line) == 0, "it is said before anything runs"


def test_a_full_disk_ends_the_recording_and_the_program_goes_on(run) -> None:
    """A limit on the size of files stands for the disk: what is beyond it cannot be written."""
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    )
    ran = run(limited + TRAIN, python=LEVEE_RUN)
    assert ran.json()["backend"] == "levee"
    assert "Traceback" not in ran.err
    (line,) = [line for line in ran.levee_lines() if "recording is off" in line]
    assert "File too large" in line


def test_damaged_recordings_are_refused_in_one_sentence(tmp_path: Path) -> None:
    for content in (b"", b"LEV", b"LEVEETRC" + bytes(20), b"PK" + bytes(5000)):
        (tmp_path / "run.levee").write_bytes(content)
        command = [sys.executable, "-m", "levee", "report", str(tmp_path / "run.levee")]
        one_sentence(launch(command, gpu=None), "run.levee")


def test_caching_switched_off_by_pytorchs_variable(run) -> None:
    source = "import torch\nx = torch.empty(1 << 22, device='cuda')\nprint(torch.cuda.memory_allocated())"
    ran = run(source, python=LEVEE_RUN, env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    assert ran.ok().out.strip() == "0"
    assert "every request goes to cudaMalloc" in ran.err


def test_env_prints_what_is_in_force(run) -> None:
    ran = launch(
        [sys.executable, "-m", "levee", "env"],
        env={
            "LEVEE_PAGE_SIZE": "32MiB",
            "LEVEE_SLACKK": "1",
            "PYTORCH_ALLOC_CONF": "backend:native",
        },
    ).ok()
    rows = [line for line in ran.out.splitlines() if " = " in line and "LEVEE_" in line]
    assert ["page_size", "=", "32MiB"] in [row.split()[:3] for row in rows]
    assert len({row.index("LEVEE_") for row in rows}) == 1, "columns are aligned"
    assert "LEVEE_SLACKK is not a variable of levee" in ran.out
    assert "backend in PYTORCH_ALLOC_CONF has no meaning" in ran.out
    assert "main door for PyTorch" in ran.out and "plain door" in ran.out


def test_sim_refuses_what_it_cannot_start() -> None:
    one_sentence(launch([sys.executable, "-m", "levee", "sim"], gpu=None), "nothing to run")
    one_sentence(
        launch([sys.executable, "-m", "levee", "sim", "--", "no-such-program"], gpu=None),
        "no-such-program",
    )
    one_sentence(launch([sys.executable, "-m", "levee", "run"], gpu=None), "nothing to run")
    one_sentence(
        launch([sys.executable, "-m", "levee", "run", "no/such.py"], gpu=None), "no/such.py"
    )
    one_sentence(
        launch([sys.executable, "-m", "levee", "run", "-m", "no.such.module"], gpu=None),
        "no.such.module",
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--gpu", "banana"),
        ("--gpu", "8GiB,colour=red"),
        ("--faults", "cudaNothing"),
        ("--set", "x=1"),
    ],
)
def test_sim_says_what_it_cannot_use_before_the_program_starts(option: str, value: str) -> None:
    command = [sys.executable, "-m", "levee", "sim", option, value, "--", "echo", "started"]
    ran = launch(command, gpu=None)
    one_sentence(ran, f"{option}: ")
    assert "started" not in ran.out and "SIMGPU" not in ran.err


def test_sim_lists_every_key_of_the_card_that_it_names_when_one_is_wrong() -> None:
    wrong = [sys.executable, "-m", "levee", "sim", "--gpu", "2GiB,foo=3", "--", "echo"]
    named = set(re.findall(r"\b([a-z]+)=", launch(wrong, gpu=None).err)) - {"foo"}
    shown = launch([sys.executable, "-m", "levee", "sim", "--help"], gpu=None).out
    assert len(named) == 5 and named <= set(re.findall(r"\b([a-z]+)=", shown)), named
    assert "tools/simgpu/README.md" in "".join(shown.split())


@pytest.mark.parametrize("command", ["run", "sim", "report", "replay", "env", "export"])
def test_an_unknown_option_gets_the_usage_of_its_command(command: str) -> None:
    ran = launch([sys.executable, "-m", "levee", command, "--nonsense"], gpu=None)
    assert ran.returncode == 2 and ran.out == ""
    assert ran.err.startswith(f"usage: levee {command}"), ran.err


def test_run_is_not_on_the_stack_of_the_program(run, tmp_path: Path) -> None:
    source = """
import inspect, json, sys, torch
torch.cuda.memory._record_memory_history()
x = torch.ones(1 << 20, device="cuda")
frames = [f for s in torch.cuda.memory._snapshot()["segments"] for b in s["blocks"] for f in b.get("frames", ())]
print(json.dumps({"stack": [f.filename for f in inspect.stack()], "snapshot": [f["filename"] for f in frames]}))
"""
    said = run(source, python=(*LEVEE_RUN, "--stacks")).json()
    assert said["stack"] == [str(tmp_path / "program.py")]
    assert said["snapshot"] and not [
        name for name in said["snapshot"] if "levee" in name.split("/")
    ]


def test_run_keeps_the_options_of_the_interpreter(run) -> None:
    source = "import sys; print(sys.flags.optimize, sys.flags.dont_write_bytecode, sys._xoptions)"
    ran = run(source, python=("-OO", "-B", "-X", "mine", *LEVEE_RUN), gpu=None)
    assert ran.ok().out.split() == ["2", "1", "{'mine':", "True}"]


def test_run_keeps_output_unbuffered_as_torchrun_wants_it(run) -> None:
    source = "import sys; print(sys.stdout.write_through)"
    for options, expected in ((("-u",), "True"), ((), "False")):
        ran = run(source, python=(*options, *LEVEE_RUN), gpu=None, env={"PYTHONUNBUFFERED": ""})
        assert ran.ok().out.split() == [expected], options


def test_a_profiler_around_run_sees_the_program(run, tmp_path: Path) -> None:
    """As do debuggers and measurements of coverage: what watches a process does not outlive an exec."""
    profile = tmp_path / "profile"
    watched = ("-m", "cProfile", "-o", str(profile), *LEVEE_RUN)
    run("def worked():\n    return 1\nprint(worked())", python=watched, gpu=None).ok()
    assert profile.exists(), "the profiler did not come to its end"
    assert "worked" in {name for _, _, name in pstats.Stats(str(profile)).stats}


def test_an_argument_that_is_the_name_of_a_launcher_is_none(run) -> None:
    # Without variables that `levee run` hands on as options in front of the script.
    plain = {"PYTHONUNBUFFERED": "", "PYTHONDONTWRITEBYTECODE": ""}
    ran = run(TRAIN, "accelerate", python=LEVEE_RUN, env=plain)
    assert ran.json()["backend"] == "levee"


def test_run_works_without_the_start_up_hook(run, tmp_path: Path) -> None:
    """As from a build tree: the program then runs inside of `levee run`, whose frame no stack in a recording has."""
    import levee

    copy = tmp_path / "without_hook"
    copy.mkdir()
    (copy / "levee").symlink_to(Path(levee.__file__).parent)
    torch_folder = str(Path(__import__("torch").__file__).parents[1])
    ran = run(
        TRAIN,
        "--lr",
        "3",
        python=("-S", *LEVEE_RUN, "--stacks"),
        env={"PYTHONPATH": f"{copy}:{torch_folder}"},
    )
    said = ran.json()
    assert (
        said["backend"] == "levee" and said["argv"] == ["--lr", "3"] and said["name"] == "__main__"
    )
    (recording,) = tmp_path.glob("*.levee")
    dump = launch([sys.executable, "-m", "levee", "dump", str(recording)], gpu=None).ok().out
    assert "program.py" in dump and "_cli_run.py" not in dump


def test_a_program_with_an_allocator_of_its_own_keeps_it_and_is_told(run, tmp_path: Path) -> None:
    source = tmp_path / "own.c"
    source.write_text(
        "#include <stddef.h>\n"
        "int cudaMalloc(void**, size_t);\nint cudaFree(void*);\n"
        "void* own_alloc(size_t n, int d, void* s) { void* p = 0; cudaMalloc(&p, n); return p; }\n"
        "void own_free(void* p, size_t n, int d, void* s) { cudaFree(p); }\n"
    )
    library = tmp_path / "own.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = f"""
import torch
own = torch.cuda.memory.CUDAPluggableAllocator({str(library)!r}, "own_alloc", "own_free")
torch.cuda.memory.change_current_allocator(own)
print(torch.ones(1000, device="cuda").shape, torch.cuda.get_allocator_backend())
import levee
print(levee.is_installed())
"""
    ran = run(program, python=LEVEE_RUN)
    assert ran.ok().out.split() == ["torch.Size([1000])", "pluggable", "False"]
    (line,) = [line for line in ran.levee_lines() if "another allocator" in line]
    assert "serves none" in line


def test_sim_finds_levee_in_an_environment_that_is_not_activated() -> None:
    ran = launch(
        [sys.executable, "-m", "levee", "sim", "--", "levee", "--version"],
        gpu=None,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert "levee" in ran.ok().out


def test_the_package_imports_neither_pytorch_nor_anything_compiled() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, levee, json; print(json.dumps([m for m in sys.modules if m.startswith"
            "(('levee', 'torch', 'numpy'))]))",
        ],
        capture_output=True,
        text=True,
        env=environment({}),
    )
    assert sorted(json.loads(done.stdout)) == ["levee", "levee.errors"]


def test_run_file_is_reached_by_a_relative_path(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "neighbour.py").write_text("VALUE = 5")
    (tmp_path / "sub" / "script.py").write_text(
        "import neighbour; print(neighbour.VALUE, __file__)"
    )
    ran = run_file(Path("sub/script.py"), python=LEVEE_RUN, tmp_path=tmp_path, gpu=None)
    assert ran.ok().out.split() == ["5", str(tmp_path / "sub" / "script.py")], "as Python has it"
