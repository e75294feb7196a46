#!/usr/bin/env python3
"""Misuse that the types prevent: each case file must fail to compile with the error that it names,
and must compile without its offending line, so that it cannot fail for another reason.

    must_not_compile.py COMPILER ROOT CASE.cc

A case begins with `// error: REGEX`, and has its offence between `#ifndef CONTROL` and `#endif`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def compile_case(
    compiler: str, root: Path, case: Path, *defines: str
) -> subprocess.CompletedProcess:
    warnings = ["-Wall", "-Wextra", "-Werror"]
    if "clang" in compiler:
        warnings.append("-Wthread-safety")
    command = [compiler, "-std=c++20", *warnings, "-fsyntax-only", "-DLEVEE_CHECKED=1", *defines]
    command += [f"-I{root}", f"-I{root}/allocator/include", str(case)]
    return subprocess.run(command, text=True, capture_output=True)


def main() -> int:
    compiler, root, case = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    match = re.match(r"// error: (.+)\n", case.read_text(encoding="utf-8"))
    if not match:
        print("the case does not say which error it expects")
        return 1
    control = compile_case(compiler, root, case, "-DCONTROL")
    if control.returncode != 0:
        print("does not compile without the offence either:\n" + control.stderr)
        return 1
    broken = compile_case(compiler, root, case)
    if broken.returncode == 0:
        print("compiles, although it must not")
        return 1
    if not re.search(match.group(1), broken.stderr):
        print(f"fails with another error than /{match.group(1)}/:\n{broken.stderr}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
