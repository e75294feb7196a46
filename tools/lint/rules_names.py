"""Names in backticks, in comments and READMEs, exist: what was renamed or removed is not cited.

A quoted text is checked when it looks like a name (an identifier, possibly qualified or called, an
option) or a path. The words of all code (strings included, comments not) are what exists. Phrases,
formulas and patterns are not checked.
"""

from __future__ import annotations

import re

from findings import Finding
from source_tree import SourceTree

_QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"~?[A-Za-z_][\w]*((::|\.|->)~?[A-Za-z_]\w*)*(\(\))?$")
_PATH = re.compile(r"[\w.\-]+(/[\w.\-*]+)+/?$")
_OPTION = re.compile(r"--?[a-z][\w-]*$")
# Names of other projects: what they call things is theirs to change.
_FOREIGN = re.compile(
    r"(cu[A-Z]|cuda|CU[A-Z]?_?|CUDA|cupti|CUPTI|nvml|nvtx|nccl|CUDNN|cudnn|std\b|std::|"
    r"c10|at::|torch\b|torch\.|PYTORCH_|TORCH_|transformers|accelerate|peft|numpy|pyarrow|pandas|"
    r"python|pip|cmake|ctest|ninja|git|bash|apt|chromium|pytest|clang|gcc|g\+\+)"
)


def _words_of_code(tree: SourceTree) -> set[str]:
    words: set[str] = set()
    for file in tree.files:
        if not file.is_code or file.path.startswith("tools/lint/"):
            continue
        words.update(_WORD.findall(file.code))
    for path in tree.all_paths:
        for part in path.split("/"):
            words.add(part)
            words.add(part.split(".")[0])
    return words


def _text_of_code(tree: SourceTree) -> str:
    """All code in one text: for names of files that a program writes."""
    return "\n".join(file.code for file in tree.files if file.is_code)


def _external_names(tree: SourceTree) -> set[str]:
    for file in tree.files:
        if file.path == "tools/lint/external_names.txt":
            lines = [line.split("#")[0].strip() for line in file.lines]
            return {line for line in lines if line}
    return set()


def _path_exists(tree: SourceTree, path: str, folder: str) -> bool:
    path = path.rstrip("/")
    known = tree.all_paths | tree.folders
    if path in known or f"{folder}/{path}" in known:
        return True
    if any(other.endswith("/" + path) for other in known):
        return True
    # "core/pool.*" and "core/pool" stand for the files of that name.
    stem = path.removesuffix(".*")
    return any(other.startswith(stem + ".") or f"/{stem}." in other for other in tree.all_paths)


def _missing_part(name: str, words: set[str]) -> str | None:
    for part in re.split(r"::|\.|->", name.removesuffix("()")):
        if part.lstrip("~") not in words:
            return part
    return None


def check_names(tree: SourceTree) -> list[Finding]:
    words = _words_of_code(tree)
    external = _external_names(tree)
    code_text = _text_of_code(tree)
    findings = []
    for file in tree.files:
        if file.path.startswith("tools/lint/") and file.suffix != ".md":
            continue
        folder = file.path.rpartition("/")[0]
        in_fence = False
        for number, line in enumerate(file.comments.split("\n"), 1):
            if file.suffix == ".md" and line.lstrip().startswith("```"):
                in_fence = not in_fence
            if in_fence:
                continue
            for match in _QUOTED.finditer(line):
                problem = _judge(tree, match.group(1).strip(), folder, words, external, code_text)
                if problem:
                    findings.append(Finding("names-exist", file.path, number, problem, line))
    return findings


def _judge(
    tree: SourceTree,
    quoted: str,
    folder: str,
    words: set[str],
    external: set[str],
    code_text: str,
) -> str | None:
    first = quoted.split(" ")[0]
    if _FOREIGN.match(quoted) or {quoted, quoted.removesuffix("()"), first} & external:
        return None
    if " " in quoted:
        # A command of this repository: its program must exist.
        if re.match(
            r"(tools|bench|tests|allocator|torch_plugin)/[\w/.-]+$", first
        ) and not _path_exists(tree, first, ""):
            return f"`{quoted}`: there is no {first}"
        return None
    if _OPTION.match(quoted):
        body = quoted.lstrip("-").replace("-", "_")
        if body in words or quoted.lstrip("-").split("-")[0] in words:
            return None
        return f"`{quoted}`: no code mentions this option"
    if _PATH.match(quoted):
        known_top = quoted.split("/")[0] in {path.split("/")[0] for path in tree.all_paths}
        has_suffix = re.search(r"\.(h|cc|py|md|cmake|txt|json|js|html|map)$", quoted) is not None
        if (
            (known_top or has_suffix)
            and "*" not in quoted
            and not _path_exists(tree, quoted, folder)
        ):
            return f"`{quoted}`: there is no such file"
        return None
    if re.search(r"\.(h|cc|py|md|cmake|json|js|html|map)$", quoted) and re.match(
        r"[\w.-]+$", quoted
    ):
        exists = _path_exists(tree, quoted, folder) or quoted in code_text
        return None if exists else f"`{quoted}`: there is no such file"
    if re.match(r"_[a-z]+$", quoted):  # a suffix, as in "ends in `_slow`"
        return (
            None if any(word.endswith(quoted) for word in words) else f"`{quoted}`: no name ends so"
        )
    if _NAME.match(quoted):
        missing = _missing_part(quoted, words)
        if missing:
            return f"`{quoted}`: no code mentions {missing}"
    return None
