"""``levee run``: runs a script or module, unchanged, with levee as its allocator.

Where levee's start-up hook is installed, this process becomes `python SCRIPT ...`: the program then is what it is
without levee, down to its own stack. Elsewhere (a build tree on PYTHONPATH, `python -S`), and where a debugger or
profiler watches this process, the program runs inside this one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import site
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

from levee import settings
from levee.errors import LeveeError, say

_EPILOG = """\
Everything after the script belongs to it. Under a launcher:
  torchrun --nproc-per-node 8 -m levee run train.py
  accelerate launch -m levee run train.py
"""


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a Python program with levee as its CUDA allocator",
        description="Runs a Python script or module, unchanged, with levee as its CUDA allocator.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", metavar="PATH", help="record into this file or folder")
    parser.add_argument("--no-record", action="store_true", help="record nothing")
    parser.add_argument(
        "--stacks", action="store_true", help="record the stack of every allocation"
    )
    parser.add_argument(
        "--kernels", action="store_true", help="record kernel times as well (CUPTI)"
    )
    parser.add_argument(
        "--door", choices=settings.PYTHON_OPTIONS["door"][1], help="way into PyTorch"
    )
    parser.add_argument(
        "-o",
        dest="options",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any setting of `levee env`",
    )
    # Everything behind -m is the program's, options included, as `python -m` has it.
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE [ARGUMENT ...]",
        help="run a module, as `python -m` does",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGUMENT ...]")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    program = list(parsed.program)
    if program[:1] == ["--"]:
        program = program[1:]
    if not parsed.module and not program:
        raise LeveeError("nothing to run: give a script, or -m and a module.")
    if settings.is_disabled():
        say("LEVEE_DISABLE is set: PyTorch's own allocator is used.")
    else:
        _set_environment(parsed)
        if importlib.util.find_spec("torch") is None:
            raise LeveeError("levee needs PyTorch, and this Python cannot import it.")
    becomes_python = settings.is_disabled() or _hook_is_installed()
    becomes_python = becomes_python and not _is_watched()
    if parsed.module:
        _check_module(parsed.module[0], may_import=not becomes_python)
        command = ["-m", *parsed.module]
    else:
        _check_script(program[0])
        # A name that looks like an option of Python's is none.
        is_odd = program[0].startswith("-") and program[0] != "-"
        own = os.path.join(".", program[0]) if is_odd else program[0]
        command = [own, *program[1:]]
    if becomes_python:
        _become_python(command)
    from levee import _autostart

    _autostart.strict = True
    _autostart.add()
    if parsed.module:
        return _run_module(parsed.module[0], parsed.module[1:])
    return _run_script(program)


def _hook_is_installed() -> bool:
    """Whether a Python that is started from here runs levee.pth."""
    if sys.flags.no_site:
        return False
    folders = [
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []),
    ]
    return any(Path(folder, "levee.pth").is_file() for folder in folders)


def _is_watched() -> bool:
    """Whether a debugger, a profiler or a measurement of coverage is at work here; none of them outlives an exec."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in range(6))


def _become_python(command: list[str]) -> None:
    from levee import _autostart

    # By the process's number, since the variable reaches those that the program starts as well.
    if not settings.is_disabled():
        os.environ[_autostart.STRICT] = str(os.getpid())
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    for name, value in sys._xoptions.items():  # of which it passes on those that it knows
        option = f"-X{name}" if value is True else f"-X{name}={value}"
        if option not in options:
            options.append(option)
    # Two that it leaves out. torchrun starts each rank with -u.
    if any(getattr(stream, "write_through", False) for stream in (sys.stdout, sys.stderr)):
        options.append("-u")
    if sys.flags.inspect:
        options.append("-i")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by whoever started this
            stream.flush()
    os.execv(sys.executable, [sys.executable, *options, *command])


def _set_environment(parsed: argparse.Namespace) -> None:
    """Settings go through the environment, so that processes which the program starts share them."""
    from levee.installing import _load_core

    variables = {option["name"]: option["env"] for option in _load_core().options()}
    chosen: dict[str, str] = {}
    for text in parsed.options:
        name, equals, value = text.partition("=")
        if not equals:
            raise LeveeError(f"-o {text} is not of the form NAME=VALUE.")
        chosen[name] = value
    if parsed.trace is not None:
        # A slash at the end says that it is a folder, whether it is there yet or not.
        is_folder = parsed.trace.endswith("/")
        chosen["trace"] = os.path.abspath(parsed.trace) + ("/" if is_folder else "")
    if parsed.no_record:
        chosen["record"] = "0"
    if parsed.stacks:
        chosen["stacks"] = "1"
    if parsed.kernels:
        chosen["kernels"] = "1"
    if parsed.door is not None:
        chosen["door"] = parsed.door
    settings.check_names(chosen, list(variables))
    for name, value in chosen.items():
        os.environ[variables.get(name) or settings.PYTHON_OPTIONS[name][0]] = value
    os.environ["LEVEE"] = "1"
    # What cannot be used is said before the program does its first second of work, by the name that it was given by.
    given = [text.partition("=")[0] for text in parsed.options]
    try:
        settings.python_settings({})
        problems = _load_core().environment_problems()
        if problems:
            raise LeveeError(problems.splitlines()[0])
    except LeveeError as error:
        problem = str(error)
        for name in given:
            variable = variables.get(name) or settings.PYTHON_OPTIONS[name][0]
            if problem.startswith(f"{variable}="):
                problem = f"-o {name}={problem[len(variable) + 1:]}"
        raise LeveeError(problem) from None


def _check_module(name: str, may_import: bool) -> None:
    # To look for a module in a package runs the package; where Python will do that, it must not happen twice.
    sought = name if may_import else name.partition(".")[0]
    # `python -m` puts the current folder first; `-m levee` has done so, the command `levee` has not.
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.util.find_spec(sought) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise LeveeError(f"there is no module named {name}.")


def _check_script(path: str) -> None:
    if path == "-":
        return  # standard input, as Python has it
    try:
        # A folder or an archive with a __main__.py is a program too.
        inner = os.path.join(path, "__main__.py")
        with open(inner if os.path.isfile(inner) else path, "rb"):
            pass
    except OSError as error:
        raise LeveeError(f"{path} cannot be read: {error.strerror}.") from None


def _run_module(name: str, arguments: list[str]) -> int:
    import runpy

    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _run_script(program: list[str]) -> int:
    path = program[0]
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        import runpy

        sys.argv = program
        runpy.run_path(path, run_name="__main__")
        return 0
    is_input = path == "-"
    if is_input:
        source = sys.stdin.buffer.read() if sys.stdin is not None else b""
        path = "<stdin>"
    else:
        with open(path, "rb") as file:
            source = file.read()
    # The script becomes __main__ itself, as under plain `python`: what it defines can be pickled, and
    # processes started with the "spawn" method find it.
    main = types.ModuleType("__main__")
    if not is_input:
        main.__file__ = path
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    sys.argv = program
    own_folder = "" if is_input else os.path.dirname(os.path.abspath(path))
    if sys.path and sys.path[0] in ("", os.getcwd(), os.path.dirname(sys.executable)):
        sys.path[0] = own_folder
    else:
        sys.path.insert(0, own_folder)
    try:
        exec(compile(source, path, "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # The script's own frames alone, as if Python had run it.
        own = error.__traceback__
        error.__traceback__ = own.tb_next if own else None
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0
