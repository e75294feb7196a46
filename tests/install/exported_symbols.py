#!/usr/bin/env python3
"""Reads the dynamic symbols of liblevee.so: exactly the functions that levee.h declares are exported, nothing else.

exported_symbols.py LIBRARY HEADER
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def exported(library: str) -> set[str]:
    output = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, text=True, capture_output=True
    ).stdout
    names = set()
    for line in output.splitlines():
        _, kind, name = line.split()
        if kind != "A":  # the names of symbol versions
            names.add(name.split("@")[0])
    return names


def declared(header: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", Path(header).read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"LEVEE_API\s[^;{]*?\b(levee_\w+)\s*\(", text))


def needed(library: str) -> set[str]:
    output = subprocess.run(
        ["readelf", "-d", library], check=True, text=True, capture_output=True
    ).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output))


def main() -> int:
    library, header = sys.argv[1:]
    problems = []
    have, want = exported(library), declared(header)
    if not want:
        problems.append(f"{header} declares no function")
    problems += [f"exported by accident: {name}" for name in sorted(have - want)]
    problems += [f"declared and not exported: {name}" for name in sorted(want - have)]
    problems += [
        f"links {name}: the library must load on a machine without CUDA"
        for name in sorted(needed(library))
        if re.match(r"lib(cu|nv|torch|c10|python)", name)
    ]
    print(
        "\n".join(problems) or f"{len(have)} symbols, all of them declared in {Path(header).name}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
