"""``levee env``: what levee would do here: versions, doors, settings in force, and what is missing."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

from levee import installing, settings
from levee.errors import LeveeError


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "env",
        help="print versions, settings in force and what works on this machine",
        description=__doc__,
    )
    parser.set_defaults(run=run)


def version_line() -> str:
    try:
        return f"levee {installing._load_core().version()}"
    except LeveeError as error:
        return f"levee (its compiled part is missing: {error})"


def _driver() -> str:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        number = ctypes.c_int()
        if library.cuDriverGetVersion(ctypes.byref(number)) != 0:
            return "libcuda.so.1 does not answer"
        version = f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    except (OSError, AttributeError):
        return "none (libcuda.so.1 was not found): only `levee sim` works here"
    simulated = hasattr(ctypes.CDLL(None), "simgpu_is_simulated")
    return f"{version}, simulated: values are zeros and times modelled" if simulated else version


def _torch() -> str:
    try:
        import torch
    except ImportError as error:
        return f"none ({error})"
    if torch.version.cuda is None:
        return f"{torch.__version__}, built without CUDA: nothing for levee to do"
    return f"{torch.__version__} (CUDA {torch.version.cuda}) in {os.path.dirname(torch.__file__)}"


def _doors(torch_line: str) -> str:
    built_for = installing.built_for_torch()
    main = (
        f"main door for PyTorch {built_for}"
        if built_for
        else "no main door (built without PyTorch)"
    )
    if built_for and not torch_line.startswith((built_for + ".", "none")):
        main += ", which this one is not"
    plain = "plain door" if installing.plain_door_path().exists() else "no plain door"
    return f"{main}; {plain}"


def run(_parsed: Any) -> int:
    core = installing._load_core()
    torch_line = _torch()
    print(version_line())
    print(f"  Python   {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"  PyTorch  {torch_line}")
    print(f"  doors    {_doors(torch_line)}")
    print(f"  driver   {_driver()}")
    state = (
        "off (LEVEE_DISABLE)" if settings.is_disabled() else "on" if settings.is_wanted() else "off"
    )
    print(f"  LEVEE=1  {state} for Python programs started from here")
    print("settings in force (name = value, variable: what may be given)")
    rows = [
        (
            option["name"],
            core.get_option(option["name"]),
            option["env"],
            option["values"],
            option["help"],
        )
        for option in core.options()
    ]
    python_values = settings.python_settings({})
    for name, (variable, allowed, _, help_text) in settings.PYTHON_OPTIONS.items():
        values = "0 or 1" if allowed == "flag" else ", ".join(allowed)
        rows.append((name, settings.as_text(python_values[name]), variable, values, help_text))
    rows = [(name, value or "(default place)", *rest) for name, value, *rest in rows]
    name_width, value_width, variable_width = (max(len(row[i]) for row in rows) for i in range(3))
    for name, value, variable, values, help_text in rows:
        # A long path among the values must not push all others away.
        columns = f"{name:<{name_width}} = {value:<{min(value_width, 20)}}"
        print(f"  {columns}  {variable:<{variable_width}}  {values}; {help_text}")
    problems = [
        *core.environment_problems().splitlines(),
        *core.environment_strangers().splitlines(),
    ]
    without_meaning = settings.torch_settings_without_meaning()
    if without_meaning:
        problems.append(without_meaning)
    for problem in problems:
        print(f"  note: {problem}")
    return 0
