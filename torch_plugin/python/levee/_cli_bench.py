"""``levee bench``: variable-length workloads under several allocators, side by side.

The workloads are a package of their own (bench/workloads in the repository, ``levee.workloads`` when installed), which
needs torch, transformers and peft; nothing of it is imported before the command runs.
"""

from __future__ import annotations

import argparse
from typing import Any


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="train the same models under native, expandable and levee, side by side",
        add_help=False,
        description="All arguments go to the benchmark; `levee bench --help` lists them.",
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from levee.errors import LeveeError

    try:
        from levee.workloads import compare
    except ImportError as error:
        raise LeveeError(
            f"this installation has no workloads ({error}); install levee from its repository with the extra [dev]."
        ) from None
    return compare.main(parsed.rest)
