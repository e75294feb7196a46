"""``levee sim``: runs a program on a simulated GPU: PyTorch's CUDA build, no GPU needed."""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from levee.errors import LeveeError

_EPILOG = """\
Values computed on the device are zeros and times are modelled; memory is exact: allocation sizes and
order, streams, the out-of-memory behaviour and the memory that a job needs are PyTorch's own.
  levee sim --gpu 24GiB -- python train.py
  levee sim --gpu 80GiB,name=H100,count=2,used=3GiB --stats -- levee run train.py
"""

# Those that are a variable of the libraries: --gpu is SIMGPU_GPU.
_OPTIONS = ("gpu", "stats", "judge", "backing", "faults", "trace", "set")


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "sim",
        help="run a program on a simulated GPU",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--gpu",
        metavar="SIZE[,KEY=VALUE,...]",
        help="the card: its memory, then name= (sets speed and compute capability), count= (how many), used= (bytes "
        "held by other processes), cc= (compute capability, such as 8.9), context= (bytes that this process's "
        "context takes)",
    )
    parser.add_argument(
        "--stats",
        nargs="?",
        const="1",
        metavar="FILE",
        help="at the end, count the driver calls (on stderr, or as a line of JSON a process in FILE)",
    )
    parser.add_argument(
        "--judge",
        choices=("count", "abort", "off"),
        help="what to do when memory is used in a way that a GPU would not forgive; default: count",
    )
    parser.add_argument(
        "--backing", metavar="SIZE|full|off", help="how many bytes of device memory are really kept"
    )
    parser.add_argument(
        "--faults",
        metavar="PLAN",
        help="driver calls that fail, such as cudaMalloc:first=5; see tools/simgpu/README.md",
    )
    parser.add_argument("--trace", metavar="FILE", help="write every driver call there")
    parser.add_argument(
        "--set",
        metavar="NAME=NUMBER,...",
        help="settings of the libraries; see tools/simgpu/README.md",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM [ARGUMENT ...]")
    parser.set_defaults(run=run)


def library_folder() -> Path:
    """Where the stand-in libraries are: beside the package, in the wheel and in a build tree alike."""
    base = Path(__file__).with_name("simgpu")
    for folder in (base / "lib", base):
        if (folder / "libsimgpu.so").exists():
            return folder
    raise LeveeError(
        "this installation has no simulated GPU (the stand-in libraries were not built: they need the "
        "CUDA headers that PyTorch's wheels bring); install levee again in an environment with a CUDA "
        "build of PyTorch."
    )


def environment(parsed: argparse.Namespace) -> dict[str, str]:
    """The variables that put a program on the simulated GPU."""
    folder = library_folder()
    libraries = sorted(
        folder.glob("lib*.so*"), key=lambda path: (path.name != "libsimgpu.so", path.name)
    )
    preload = [str(path) for path in libraries]
    if os.environ.get("LD_PRELOAD"):
        preload.append(os.environ["LD_PRELOAD"])
    search = os.environ.get("LD_LIBRARY_PATH")
    variables = {
        "LD_PRELOAD": ":".join(preload),
        "LD_LIBRARY_PATH": f"{folder}:{search}" if search else str(folder),
        # Triton links the programs that it makes against the driver that it finds here.
        "TRITON_LIBCUDA_PATH": str(folder),
        "SIMGPU_LIB": str(folder),
    }
    for option in _OPTIONS:
        value = getattr(parsed, option)
        if value is not None:
            variables[f"SIMGPU_{option.upper()}"] = value
    return variables


def run(parsed: argparse.Namespace) -> int:
    program = list(parsed.program)
    if program[:1] == ["--"]:
        program = program[1:]
    if not program:
        raise LeveeError("nothing to run: give a program after --.")
    path = shutil.which(program[0])
    if path is None and program[0] == "levee":
        # This very levee, in an environment that was not activated.
        path, program[:1] = sys.executable, [sys.executable, "-m", "levee"]
    if path is None:
        raise LeveeError(f"there is no program named {program[0]}.")
    variables = environment(parsed)
    _check_settings(parsed, variables)
    try:
        os.execve(path, program, {**os.environ, **variables})
    except OSError as error:
        raise LeveeError(f"{path} cannot be started: {error.strerror}.") from None


def _check_settings(parsed: argparse.Namespace, variables: dict[str, str]) -> None:
    """What the simulated GPU cannot use is said before the program starts, by the name under which it was given."""
    os.environ.update(
        {name: text for name, text in variables.items() if name.startswith("SIMGPU_")}
    )
    library = ctypes.CDLL(variables["SIMGPU_LIB"] + "/libsimgpu.so")
    library.simgpu_settings_problem.restype = ctypes.c_char_p
    problem = (library.simgpu_settings_problem() or b"").decode(errors="replace")
    if not problem:
        return
    for option in _OPTIONS:
        if getattr(parsed, option) is not None:
            problem = problem.replace(f"SIMGPU_{option.upper()}: ", f"--{option}: ", 1)
    raise LeveeError(problem)
