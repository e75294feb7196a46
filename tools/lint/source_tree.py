"""The repository as the lint rules see it: text files, each with its code and its comments apart.

Promises: what git ignores is not seen, nor what git does not know yet, unless it is a source: a
program that ran here may have left a recording or a picture. A tree without git (a source archive, a
test fixture) is walked instead. Code keeps its line numbers: comments and the contents of strings are replaced,
never removed with their lines.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import subprocess
from pathlib import Path

CPP_SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".c", ".cu", ".inc"}
HASH_SUFFIXES = {".py", ".sh", ".cmake", ".yml", ".yaml", ".toml"}
TEXT_SUFFIXES = (
    CPP_SUFFIXES
    | HASH_SUFFIXES
    | {".md", ".js", ".mjs", ".css", ".html", ".json", ".txt", ".in", ".map"}
)
# What a new file, which git does not know yet, has to end in to be looked at.
SOURCE_SUFFIXES = CPP_SUFFIXES | HASH_SUFFIXES | {".md", ".js", ".mjs", ".css"}
# Recorded or accepted data, not written by people: no rule reads it.
DATA_FOLDERS = ("bench/traces/", "bench/golden/", "tests/golden/", "tests/fuzz/corpus/")

_CPP_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^()\\ ]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


@dataclasses.dataclass(frozen=True)
class SourceFile:
    path: str  # from the root, with slashes
    text: str

    @property
    def suffix(self) -> str:
        return Path(self.path).suffix

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def is_cpp(self) -> bool:
        return self.suffix in CPP_SUFFIXES

    @property
    def is_python(self) -> bool:
        return self.suffix == ".py" or self.text.startswith("#!/usr/bin/env python")

    @property
    def is_shell(self) -> bool:
        return self.suffix == ".sh" or re.match(r"#!.*\b(bash|sh)\b", self.text) is not None

    @property
    def is_cmake(self) -> bool:
        return self.suffix == ".cmake" or self.name == "CMakeLists.txt"

    @property
    def is_code(self) -> bool:
        return self.is_cmake or self.suffix not in {".md", ".txt"}

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @functools.cached_property
    def _split(self) -> tuple[str, str]:
        """(code without comments, comments without code), both with the line breaks of the file."""
        if self.is_cpp or self.suffix in {".js", ".mjs", ".css"}:
            code, comments, end = [], [], 0
            for match in _CPP_TOKEN.finditer(self.text):
                between = self.text[end : match.start()]
                token = match.group()
                code.append(between)
                comments.append(_blank(between))
                if token.startswith(("//", "/*")):
                    code.append(_blank(token))
                    comments.append(token)
                else:
                    code.append(token)
                    comments.append(_blank(token))
                end = match.end()
            code.append(self.text[end:])
            comments.append(_blank(self.text[end:]))
            return "".join(code), "".join(comments)
        if self.suffix == ".md":
            return _blank(self.text), self.text
        code_lines, comment_lines = [], []
        for line in self.lines:
            # A '#' in a string is rare enough to be read as a comment only after whitespace.
            match = re.search(r"(^|\s)#(?!!)", line)
            cut = match.start() if match else len(line)
            code_lines.append(line[:cut])
            comment_lines.append(" " * cut + line[cut:])
        return "\n".join(code_lines), "\n".join(comment_lines)

    @property
    def code(self) -> str:
        """Code with strings, without comments."""
        return self._split[0]

    @property
    def comments(self) -> str:
        return self._split[1]

    @functools.cached_property
    def bare_code(self) -> str:
        """C++ code without comments and with empty strings. Include lines keep their names."""

        def strip(match: re.Match) -> str:
            token = match.group()
            if token.startswith("'"):
                return token
            return '"' + _blank(token[1:-1]) + '"'

        lines = _CPP_TOKEN.sub(strip, self.code).split("\n")
        for i, line in enumerate(self.code.split("\n")):
            if line.lstrip().startswith("#") and "include" in line:
                lines[i] = line
        return "\n".join(lines)


class SourceTree:
    def __init__(self, root: Path):
        self.root = root
        self.files: list[SourceFile] = []
        self.all_paths: set[str] = set()
        for path in sorted(self._list_paths()):
            self.all_paths.add(path)
            full = root / path
            if full.is_symlink() or not full.is_file() or path.startswith(DATA_FOLDERS):
                continue
            if full.suffix not in TEXT_SUFFIXES and not self._is_script(full):
                continue
            try:
                self.files.append(SourceFile(path, full.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
        self.folders = {str(parent) for path in self.all_paths for parent in Path(path).parents}

    @staticmethod
    def _is_script(full: Path) -> bool:
        if full.suffix:
            return False
        with full.open("rb") as file:
            return file.read(2) == b"#!"

    def _list_paths(self) -> list[str]:
        if (self.root / ".git").exists():
            known = self._git_files("-c")
            new = self._git_files("-o", "--exclude-standard")
            return known + [path for path in new if Path(path).suffix in SOURCE_SUFFIXES]
        paths = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in {"build", "__pycache__", ".venv"}]
            paths += [str((Path(folder) / name).relative_to(self.root)) for name in names]
        return paths

    def _git_files(self, *which: str) -> list[str]:
        output = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "-z", *which], check=True, capture_output=True
        ).stdout.decode()
        return [path for path in output.split("\0") if path]

    def cpp(self) -> list[SourceFile]:
        return [file for file in self.files if file.is_cpp]
