"""Patterns that must not appear in some folders, one row each; and simple properties of a file."""

from __future__ import annotations

import dataclasses
import fnmatch
import re

from findings import Finding
from source_tree import SourceTree

_PRODUCT = ["allocator/*", "torch_plugin/*", "tools/simgpu/*", "bench/replay/*"]


@dataclasses.dataclass(frozen=True)
class Ban:
    rule: str
    pattern: str
    where: list[str]
    except_where: list[str]
    message: str


BANS = [
    Ban(
        "heap-in-core",
        # `::new (place)` constructs in memory that is there already.
        r"(?<!::)\bnew\b|(?<=::)new\b(?!\s*\()|(?<![\w.>])(malloc|calloc|realloc)\s*\(",
        ["allocator/core/*"],
        [],
        "core takes records from a RecordArena; no new or malloc",
    ),
    Ban(
        "printf",
        r"\b(v?f|v?sn?|v)?printf\s*\(",
        _PRODUCT,
        [],
        "text is made by fmt (cold folders) or FixedBuffer",
    ),
    Ban(
        "getenv",
        r"\b(secure_)?getenv\s*\(",
        ["allocator/*", "torch_plugin/*", "tools/*", "bench/*"],
        ["allocator/c_api/config_reader.*"],
        "the config reader alone reads the environment",
    ),
    Ban(
        "cout",
        r"\bstd::(cout|cerr|clog)\b",
        ["allocator/*", "torch_plugin/*", "tools/simgpu/*"],
        [],
        "a library does not print to the streams of its host",
    ),
    Ban(
        "fmt-outside-cold-code",
        r"\bfmt::",
        ["allocator/*", "torch_plugin/*"],
        [
            "allocator/analysis/*",
            "allocator/export/*",
            "allocator/c_api/*",
            "torch_plugin/bindings/*",
        ],
        "fmt formats in cold folders alone; use FixedBuffer",
    ),
    Ban(
        "void-pointer",
        r"\bvoid\s*(const\s*)?\*",
        ["allocator/core/*"],
        [],
        "device addresses are DeviceAddr in core",
    ),
    Ban(
        "catch-all",
        r"\bcatch\s*\(\s*\.\.\.\s*\)",
        ["*"],
        ["allocator/c_api/*", "torch_plugin/*", "tests/*"],
        "only the walls (c_api, torch_plugin) swallow every exception",
    ),
    Ban(
        "sleep-in-tests",
        r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(|(?<![\w.:])(::)?sleep\s*\(",
        ["tests/*"],
        [],
        "wait for a condition or move a simulated clock; a sleep is slow and proves nothing",
    ),
    Ban(
        "preprocessor",
        r"^\s*#\s*(if|ifdef|ifndef|elif)\b",
        [
            "allocator/core/*",
            "allocator/record/*",
            "allocator/analysis/*",
            "allocator/export/*",
            "torch_plugin/*",
        ],
        ["torch_plugin/torch_versions.h"],
        "decide with constexpr or at run time; version differences live in one header",
    ),
    Ban(
        "clock",
        r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday)\b",
        ["allocator/*", "torch_plugin/*"],
        ["allocator/base/clock.*"],
        "times come from levee::base::Clock",
    ),
    Ban(
        "cuda-name",
        r"\bcu(da)?[A-Z]\w+",
        [
            "allocator/core/*",
            "allocator/record/*",
            "allocator/analysis/*",
            "allocator/export/*",
            "allocator/base/*",
            "allocator/device/sim/*",
        ],
        [],
        "CUDA's names end at the device seam",
    ),
    Ban(
        "torch-name",
        r"\b(c10|at|torch)::",
        ["allocator/*", "tools/*", "bench/*"],
        [],
        "PyTorch ends at torch_plugin",
    ),
    Ban(
        "console-log-in-views",
        r"\bconsole\.(log|debug)\s*\(",
        ["allocator/*", "torch_plugin/*"],
        [],
        "views do not write to the console",
    ),
]

_MAX_LINES = 900


def check_patterns(tree: SourceTree) -> list[Finding]:
    findings = []
    for file in tree.files:
        if not file.is_cpp and file.suffix not in {".js", ".mjs"}:
            continue
        code_lines = file.bare_code.split("\n")
        for ban in BANS:
            if not any(fnmatch.fnmatch(file.path, glob) for glob in ban.where):
                continue
            if any(fnmatch.fnmatch(file.path, glob) for glob in ban.except_where):
                continue
            pattern = re.compile(ban.pattern)
            for number, line in enumerate(code_lines, 1):
                if pattern.search(line):
                    findings.append(
                        Finding(ban.rule, file.path, number, ban.message, file.lines[number - 1])
                    )
    return findings


def check_python_sleep(tree: SourceTree) -> list[Finding]:
    return [
        Finding("sleep-in-tests", file.path, number, "wait for a condition, not for a time", line)
        for file in tree.files
        if file.is_python and file.path.startswith("tests/")
        for number, line in enumerate(file.code.split("\n"), 1)
        if re.search(r"\btime\.sleep\(", line)
    ]


def check_files(tree: SourceTree) -> list[Finding]:
    """Guards, length, unfinished work, tabs and line ends."""
    findings = []
    for file in tree.files:
        if file.suffix in {".h", ".hpp"} and not re.search(
            r"^#pragma once|^#ifndef \w+_H_?$", file.code, re.MULTILINE
        ):
            findings.append(
                Finding(
                    "include-guard", file.path, 0, "header without #pragma once (or a guard, in C)"
                )
            )
        if file.suffix not in {".json", ".txt", ".map"} and len(file.lines) > _MAX_LINES:
            findings.append(
                Finding(
                    "file-length", file.path, 0, f"{len(file.lines)} lines; split at {_MAX_LINES}"
                )
            )
        for number, line in enumerate(file.lines, 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line) and not file.path.startswith(
                "tools/lint/"
            ):
                findings.append(
                    Finding("unfinished", file.path, number, "finish it or leave it out", line)
                )
            if line != line.rstrip() and file.suffix != ".md":
                findings.append(
                    Finding(
                        "trailing-space", file.path, number, "space at the end of the line", line
                    )
                )
        if file.text and not file.text.endswith("\n"):
            findings.append(
                Finding("trailing-space", file.path, 0, "no line feed at the end of the file")
            )
    return findings


def check_head_comment(tree: SourceTree) -> list[Finding]:
    """A C++ file of the library begins by saying what it owns and promises; a .cc may leave that to its header."""
    findings = []
    for file in tree.cpp():
        if not file.path.startswith(("allocator/", "torch_plugin/", "tools/simgpu/", "bench/")):
            continue
        if file.text.lstrip().startswith(("//", "/*")):
            continue
        sibling = re.sub(r"\.(cc|cpp|c)$", ".h", file.path)
        if sibling != file.path and sibling in tree.all_paths:
            continue
        findings.append(
            Finding("head-comment", file.path, 0, "begin with what this file owns and promises")
        )
    return findings
