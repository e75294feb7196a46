"""Each source file has a test, and nothing is written twice."""

from __future__ import annotations

import collections
import re

from findings import Finding
from rules_includes import included
from source_tree import SourceFile, SourceTree

TESTED_FOLDERS = ("allocator/", "torch_plugin/", "bench/replay/", "tools/simgpu/")
DUPLICATE_LINES = 12


def check_every_source_has_a_test(tree: SourceTree) -> list[Finding]:
    """`x.cc` is tested by `x_test.cc`, `x_<aspect>_test.cc` or `test_x*.py` somewhere in tests/, or by
    a test of another name that includes its header."""
    tests = {path.rpartition("/")[2] for path in tree.all_paths if path.startswith("tests/")}
    tested_headers = {
        name
        for file in tree.cpp()
        if file.path.startswith("tests/") and file.name.endswith("_test.cc")
        for _, _, name in included(file)
    }
    findings = []
    for path in sorted(tree.all_paths):
        if not path.startswith(TESTED_FOLDERS) or not path.endswith((".cc", ".cpp")):
            continue
        stem = path.rpartition("/")[2].rsplit(".", 1)[0]
        if stem == "main" or stem.endswith("_main"):
            continue
        pattern = re.compile(
            rf"({re.escape(stem)}(_\w+)?_test\.cc|test_{re.escape(stem)}(_\w+)?\.py)$"
        )
        has_test = any(pattern.match(name) for name in tests)
        if not has_test and path.rsplit(".", 1)[0] + ".h" not in tested_headers:
            findings.append(
                Finding(
                    "untested",
                    path,
                    0,
                    f"no {stem}_test.cc in tests; add it, or a line in tools/lint/exemptions.txt",
                )
            )
    return findings


def _significant_lines(file: SourceFile) -> list[tuple[int, str]]:
    """(line number, text) of the lines whose repetition would matter."""
    result = []
    for number, line in enumerate(file.code.split("\n"), 1):
        text = " ".join(line.split())
        # Each implementation of an interface repeats its declarations.
        if (
            len(text) <= 2
            or text.endswith("override;")
            or text.startswith(
                ("#include", "#pragma", "import ", "from ", "using ", "namespace ", "} // ")
            )
        ):
            continue
        result.append((number, text))
    return result


def check_duplicates(tree: SourceTree) -> list[Finding]:
    """Blocks of DUPLICATE_LINES or more equal lines, each reported once, at its second place."""
    files = [
        f
        for f in tree.files
        if f.is_cpp or f.is_python or f.is_cmake or f.is_shell or f.suffix in {".js", ".css"}
    ]
    significant = [_significant_lines(file) for file in files]
    first_seen: dict[int, tuple[int, int]] = {}
    findings = []
    for file_index, lines in enumerate(significant):
        covered_until = -1
        hashes = [hash(text) for _, text in lines]
        window = collections.deque(maxlen=DUPLICATE_LINES)
        for i, value in enumerate(hashes):
            window.append(value)
            start = i - DUPLICATE_LINES + 1
            if start < 0:
                continue
            key = hash(tuple(window))
            if key not in first_seen:
                first_seen[key] = (file_index, start)
                continue
            other_file, other_start = first_seen[key]
            overlaps_itself = other_file == file_index and other_start + DUPLICATE_LINES > start
            if start <= covered_until or overlaps_itself:
                if not overlaps_itself:
                    covered_until = i
                continue
            covered_until = i
            findings.append(
                Finding(
                    "duplicate-lines",
                    files[file_index].path,
                    lines[start][0],
                    f"{DUPLICATE_LINES} or more lines equal those at "
                    f"{files[other_file].path}:{significant[other_file][other_start][0]}",
                    lines[start][1],
                )
            )
    return findings
