"""Settings as Python sees them: options of install(), LEVEE_* variables, and PyTorch's own ones.

What a setting of the library is called and may be is decided by the library (levee._core.options());
here are those that only concern Python.
"""

from __future__ import annotations

import difflib
import os
from typing import Any, Mapping

from levee.errors import LeveeError

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}

# Name, variable, allowed values, default, what it does. "flag" stands for 0 or 1.
PYTHON_OPTIONS: dict[str, tuple[str, Any, Any, str]] = {
    "door": (
        "LEVEE_DOOR",
        ("auto", "torch", "plain"),
        "auto",
        "how levee gets into PyTorch: the main door, or two plain C functions",
    ),
    "kernels": ("LEVEE_KERNELS", "flag", False, "record kernel, copy and memset times (CUPTI)"),
    "phases": ("LEVEE_PHASES", "flag", True, "record torch.profiler.record_function regions"),
    "steps": (
        "LEVEE_STEPS",
        "flag",
        True,
        "take each optimizer step as the end of a training step",
    ),
}


def is_on(text: str | None) -> bool:
    """Whether a variable that is on or off is on; anything but a known "off" counts as on."""
    return (text or "").strip().lower() not in _FALSE


def is_disabled() -> bool:
    """LEVEE_DISABLE=1: levee does nothing at all, whoever asks."""
    return is_on(os.environ.get("LEVEE_DISABLE"))


def is_wanted() -> bool:
    """LEVEE=1: levee is to be installed as soon as PyTorch is imported."""
    return is_on(os.environ.get("LEVEE")) and not is_disabled()


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise LeveeError(f"{name}={value} cannot be used: give 0 or 1.")


def _python_value(shown_name: str, name: str, value: Any) -> Any:
    allowed = PYTHON_OPTIONS[name][1]
    if allowed == "flag":
        return _flag(shown_name, value)
    word = str(value).strip().lower()
    if word not in allowed:
        raise LeveeError(f"{shown_name}={value} cannot be used: give {', '.join(allowed)}.")
    return word


def as_text(value: Any) -> str:
    """An option of install() as the library reads it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if value is None:
        return ""
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def python_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The Python-side settings in force: options over the environment over the defaults."""
    settings = {}
    for name, (variable, _, default, _) in PYTHON_OPTIONS.items():
        if name in options:
            settings[name] = _python_value(name, name, options[name])
        elif variable in os.environ:
            settings[name] = _python_value(variable, name, os.environ[variable])
        else:
            settings[name] = default
    return settings


def check_names(names: Any, library_names: list[str]) -> None:
    """Raises for the first name that is no option at all, with the one that was probably meant."""
    known = library_names + list(PYTHON_OPTIONS)
    for name in names:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(known)}."
        raise LeveeError(f"{name} is not an option of levee; {hint}")


# What becomes of each key of PYTORCH_CUDA_ALLOC_CONF. Those of pinned host memory stay PyTorch's.
_TORCH_HONOURED = {"per_process_memory_fraction"}
_TORCH_PINNED = "pinned_"


def torch_settings_without_meaning() -> str | None:
    """A sentence that names the keys of PyTorch's allocator settings that levee has no use for."""
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        text = os.environ.get(variable)
        if text:
            break
    else:
        return None
    keys = []
    depth = 0
    word = ""
    for char in text + ",":  # values may be lists: roundup_power2_divisions:[256:1,>:8]
        if char == "," and depth == 0:
            key = word.split(":", 1)[0].strip()
            if key and key not in _TORCH_HONOURED and not key.startswith(_TORCH_PINNED):
                keys.append(key)
            word = ""
            continue
        depth += (char == "[") - (char == "]")
        word += char
    if not keys:
        return None
    verb = "has" if len(keys) == 1 else "have"
    return f"{', '.join(keys)} in {variable} {verb} no meaning under levee."


def is_caching_off() -> bool:
    """PYTORCH_NO_CUDA_MEMORY_CACHING, which is honoured. PyTorch takes any value of it as yes."""
    return "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ
