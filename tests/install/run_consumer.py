#!/usr/bin/env python3
"""Builds the consumer project against levee and runs its programs.

run_consumer.py find_package BUILD_FOLDER WORK_FOLDER [CMAKE ARGUMENTS]
run_consumer.py add_subdirectory SOURCE_FOLDER WORK_FOLDER [CMAKE ARGUMENTS]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def run(*command: object) -> str:
    print("+", *command, flush=True)
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    print(result.stdout + result.stderr, flush=True)
    if result.returncode != 0:
        sys.exit(f"exit code {result.returncode}")
    return result.stdout


def main() -> None:
    way, levee, work = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    arguments = sys.argv[4:]
    consumer = Path(__file__).resolve().parent / "consumer"
    build = work / "build"
    if way == "find_package":
        # From nothing each time, so that a header or library that is no longer installed is missed.
        shutil.rmtree(work, ignore_errors=True)
        prefix = work / "prefix"
        run("cmake", "--install", levee, "--prefix", prefix, "--component", "library")
        strangers = [
            path
            for path in prefix.rglob("*")
            if path.is_file() and path.suffix in {".a", ".cc", ".py"}
        ]
        if strangers:
            sys.exit(f"the installation holds what no consumer needs: {strangers}")
        arguments.append(f"-DCMAKE_PREFIX_PATH={prefix}")
    else:
        arguments.append(f"-DCONSUMER_LEVEE_SOURCE={levee}")
    run(
        "cmake",
        "-S",
        consumer,
        "-B",
        build,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        *arguments,
    )
    run("cmake", "--build", build, "--target", "consumer_c", "consumer_cpp")
    text = run(build / "consumer_c") + run(build / "consumer_cpp")
    for expected in ("C: ", "C++: 0.1.0, 4096 granules"):
        if expected not in text:
            sys.exit(f'the programs did not print "{expected}"')


if __name__ == "__main__":
    main()
