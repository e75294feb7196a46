"""Reads the declarations of a C header after the preprocessor has run over it.

Owns a small parser for what CUDA's headers contain: function declarations, enums, typedefs of pointers. Promises: every
function with external linkage is found with its exact result and parameter types, so that a definition made from it
compiles against the same header; anything else (bodies, structs, macros) is passed over. It is no C parser: it
understands headers, not programs.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Sequence


@dataclass(frozen=True)
class Parameter:
    """`text` declares the parameter; `type` is `text` without the name, arrays written as pointers."""

    text: str
    type: str
    name: str

    @property
    def is_output(self) -> bool:
        """A pointer through which the function could write (a const pointee could not be written)."""
        return self.type.endswith("*") and not re.match(r"(const\b.*|.*\bconst ?)\*$", self.type)

    @property
    def pointee(self) -> str:
        return self.type[:-1].strip()


@dataclass(frozen=True)
class Function:
    name: str
    result: str
    parameters: tuple[Parameter, ...]

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


@dataclass
class Declarations:
    functions: dict[str, Function] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(
        default_factory=dict
    )  # typedef name -> enumerators, one per value
    pointers: set[str] = field(default_factory=set)  # typedef names of pointers to something opaque


def preprocess(compiler: str, headers: Sequence[str], include: Sequence[Path]) -> str:
    """The headers as the C compiler sees them. Raises RuntimeError with the compiler's words if one cannot be read."""
    source = "".join(f"#include <{header}>\n" for header in headers)
    flags = [flag for folder in include for flag in ("-isystem", str(folder))]
    done = subprocess.run(
        [compiler, "-E", "-P", "-x", "c", *flags, "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{compiler} cannot read {', '.join(headers)}:\n{done.stderr.strip()}")
    return done.stdout


def parse(text: str) -> Declarations:
    found = Declarations()
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)  # pragmas
    for statement in _statements(_without_attributes(text)):
        if statement.startswith("typedef"):
            _add_typedef(statement, found)
        else:
            function = _function_of(statement)
            if function is not None:
                found.functions.setdefault(function.name, function)
    return found


def _without_attributes(text: str) -> str:
    text = re.sub(
        r"__extension__|__inline__|__inline|\binline\b|__restrict__|__restrict|\brestrict\b",
        " ",
        text,
    )
    out, position = [], 0
    for match in re.finditer(r"__attribute__\s*|__asm__\s*", text):
        if match.start() < position:
            continue
        out.append(text[position : match.start()])
        position = _after_parentheses(text, match.end())
    out.append(text[position:])
    return "".join(out)


def _after_parentheses(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position + 1
    return len(text)


def _statements(text: str) -> Iterator[str]:
    """What stands between semicolons outside of braces; function bodies end a statement and are left out with it."""
    depth, start = 0, 0
    for match in re.finditer(r"[{};]", text):
        mark, position = match.group(), match.start()
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            body_of_function = depth == 0 and text[start:position].split("{", 1)[
                0
            ].rstrip().endswith(")")
            if body_of_function:
                start = position + 1
        elif depth == 0:
            yield " ".join(text[start:position].split())
            start = position + 1


def _add_typedef(statement: str, found: Declarations) -> None:
    enum = re.match(r"typedef enum\b[^{]*\{(.*)\} ?(\w+)$", statement)
    if enum:
        found.enums[enum.group(2)] = _enumerators(enum.group(1))
        return
    pointer = re.match(
        r"typedef (?:const )?(?:struct )?\w+(?: const)? ?\* ?(?:const )?(\w+)$", statement
    )
    if pointer:
        found.pointers.add(pointer.group(1))


def _enumerators(body: str) -> list[str]:
    """Names of the enumerators, the first one of each value, as far as the values can be told without evaluating."""
    names: list[str] = []
    seen: set[str] = set()
    implicit = 0
    for item in body.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if not name:
            continue
        if re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+", value):
            implicit = int(value, 0)
        elif value:
            continue  # an alias of, or an expression over, other enumerators
        if str(implicit) not in seen:
            seen.add(str(implicit))
            names.append(name)
        implicit += 1
    return names


def _function_of(statement: str) -> Function | None:
    match = re.match(r"(?:extern )?((?:[\w]+[\s\*]+)+)(\w+) ?\((.*)\)$", statement)
    if not match or statement.startswith("static") or "{" in statement:
        return None
    result, name, inside = match.group(1).strip(), match.group(2), match.group(3).strip()
    if inside in ("", "void"):
        return Function(name, _tidy(result), ())
    parameters = []
    for index, text in enumerate(_split_arguments(inside)):
        if text == "...":
            return None
        parameters.append(_parameter_of(text, index))
    return Function(name, _tidy(result), tuple(parameters))


def _split_arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if mark == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


def _parameter_of(text: str, index: int) -> Parameter:
    callback = re.match(r"(.*\(\s*\*\s*)(\w*)(\s*\).*)$", text)
    if callback:
        name = callback.group(2) or f"argument{index}"
        return Parameter(callback.group(1) + name + callback.group(3), "function", name)
    array = re.match(r"(.*?)(\w+) ?((?:\[[^\]]*\] ?)+)$", text)
    if array:
        return Parameter(text, _tidy(array.group(1)) + " *", array.group(2))
    named = re.match(r"(.*[\s\*])(\w+)$", text)
    if named and named.group(2) not in (
        "int",
        "char",
        "long",
        "short",
        "unsigned",
        "float",
        "double",
        "const",
    ):
        return Parameter(text, _tidy(named.group(1)), named.group(2))
    return Parameter(f"{text} argument{index}", _tidy(text), f"argument{index}")


def _tidy(type_text: str) -> str:
    """One spelling per type: single blanks, one blank before the stars, no blank between them."""
    text = re.sub(r"\s*\*\s*", "*", " ".join(type_text.split()))
    return re.sub(r"(\w)\*", r"\1 *", text).replace("_Bool", "bool").strip()
