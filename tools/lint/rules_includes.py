"""The include law: which folder may include which, and where other libraries may appear.

The law is the table below; allocator/README.md draws it. A folder that the table does not know may
include nothing of levee, so a new folder needs a line here.
"""

from __future__ import annotations

import fnmatch
import re

from findings import Finding
from source_tree import SourceFile, SourceTree

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Folder -> what of the repository it may include (path prefixes or globs). `levee/` is
# include/levee. The first row that fits the path decides, so exceptions come before what they are
# exceptions from. "*" is everything.
LAW: list[tuple[str, list[str]]] = [
    ("allocator/include/levee/*", ["levee/"]),
    ("allocator/base/*", ["levee/", "allocator/base/"]),
    ("allocator/device/*", ["levee/", "allocator/base/", "allocator/device/"]),
    ("allocator/record/*", ["levee/", "allocator/base/", "allocator/record/"]),
    (
        "allocator/activity/*",
        ["levee/", "allocator/base/", "allocator/record/", "allocator/activity/"],
    ),
    (
        "allocator/core/*",
        [
            "levee/",
            "allocator/base/",
            "allocator/device/device.h",
            "allocator/record/recorder.h",
            "allocator/core/",
        ],
    ),
    (
        "allocator/analysis/*",
        ["levee/", "allocator/base/", "allocator/record/", "allocator/analysis/"],
    ),
    (
        "allocator/export/*",
        [
            "levee/",
            "allocator/base/",
            "allocator/record/",
            "allocator/analysis/",
            "allocator/export/",
        ],
    ),
    ("allocator/c_api/*", ["levee/", "allocator/"]),
    (
        "torch_plugin/bindings/*",
        [
            "levee/",
            "allocator/c_api/levee.h",
            "allocator/record/",
            "allocator/analysis/",
            "allocator/export/",
            "bench/replay/",
            "torch_plugin/",
        ],
    ),
    ("torch_plugin/*", ["levee/", "allocator/c_api/levee.h", "torch_plugin/"]),
    ("tools/simgpu/*", ["levee/", "allocator/base/", "allocator/device/", "tools/simgpu/"]),
    ("bench/*", ["*"]),
    ("tests/*", ["*"]),
]

# Headers from outside -> where they may appear.
LIBRARIES: list[tuple[str, str, list[str]]] = [
    (
        "CUDA",
        r"(cuda|cupti|nvtx|nvToolsExt|nvml|cub/|thrust/|cuda/|driver_types|vector_types|generated_cuda|crt/)",
        [
            "allocator/device/cuda_*",
            "allocator/activity/*",
            "torch_plugin/*",
            "tools/simgpu/*",
            "bench/replay/peers/*",
            "bench/replay/*peer*",
            "tests/*",
        ],
    ),
    ("PyTorch", r"(torch/|c10/|ATen/|caffe2/)", ["torch_plugin/*", "tests/*"]),
    ("Python", r"(Python\.h|pybind11/|nanobind/|structmember\.h)", ["torch_plugin/bindings/*"]),
    (
        "fmt",
        r"fmt/",
        [
            "allocator/analysis/*",
            "allocator/export/*",
            "allocator/c_api/*",
            "torch_plugin/bindings/*",
            "tools/*",
            "bench/*",
            "tests/*",
        ],
    ),
    (
        "zstd",
        r"z(std|dict)(_errors)?\.h",
        ["allocator/record/*", "allocator/export/*", "tests/*", "bench/*"],
    ),
    ("GoogleTest", r"(gtest|gmock)/", ["tests/*"]),
    ("Google Benchmark", r"benchmark/", ["bench/*"]),
]

# Vocabulary headers are for consumers: the C++ library alone.
_STD_HEADER = re.compile(r"^[a-z_0-9]+$")


def included(file: SourceFile) -> list[tuple[int, str, str]]:
    """(line, '<' or '"', name) of each include directive."""
    result = []
    for number, line in enumerate(file.code.split("\n"), 1):
        match = _INCLUDE.match(line)
        if match:
            result.append((number, match.group(1), match.group(2)))
    return result


def _allowed_inside(path: str) -> list[str]:
    for glob, allowed in LAW:
        if fnmatch.fnmatch(path, glob):
            return allowed
    return []


def _is_levee_public(tree: SourceTree, name: str) -> bool:
    return name.startswith("levee/") and f"allocator/include/{name}" in tree.all_paths


def check_includes(tree: SourceTree) -> list[Finding]:
    findings = []
    for file in tree.cpp():
        for line, kind, name in included(file):
            message = _judge(tree, file, kind, name)
            if message:
                findings.append(Finding("include-law", file.path, line, message, name))
    return findings


def _judge(tree: SourceTree, file: SourceFile, kind: str, name: str) -> str | None:
    inside = name in tree.all_paths
    if kind == '"' and not inside:
        return f'"{name}" is not a file of the repository; write quoted includes from its root'
    if kind == "<" and inside:
        return f'<{name}> is a private header; write "{name}"'
    if inside or _is_levee_public(tree, name):
        for allowed in _allowed_inside(file.path):
            if (
                allowed == "*"
                or name == allowed
                or (allowed.endswith("/") and name.startswith(allowed))
            ):
                return None
        return f"this folder may not include {name}"
    if name == "levee/levee.h" and file.path.startswith("tests/install/"):
        return None  # the C header, as an installation places it
    if name.startswith("levee/"):
        return f"<{name}> does not exist in allocator/include"
    for library, pattern, places in LIBRARIES:
        if re.match(pattern, name):
            if not any(fnmatch.fnmatch(file.path, place) for place in places):
                return f"{library} headers may not appear here: {name}"
            return None
    if file.path.startswith("allocator/include/") and not _STD_HEADER.match(name):
        return f"public headers include the C++ library alone, not {name}"
    return None


def check_public_headers_listed(tree: SourceTree) -> list[Finding]:
    """The list in allocator/CMakeLists.txt decides what is installed and checked to be self-contained."""
    lists = [file for file in tree.files if file.path == "allocator/CMakeLists.txt"]
    listed = lists[0].code if lists else ""
    return [
        Finding(
            "public-headers", path, 0, "public header that allocator/CMakeLists.txt does not list"
        )
        for path in sorted(tree.all_paths)
        if path.startswith("allocator/include/")
        and path[len("allocator/") :] not in listed.split()
        and path[len("allocator/") :] + ")" not in listed.split()
    ]
