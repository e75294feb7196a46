"""The command ``levee``: one parser, one module a subcommand."""

from __future__ import annotations

import argparse
import sys
from typing import Sequence

from levee.errors import LeveeError

_DESCRIPTION = """\
levee: a caching CUDA memory allocator for PyTorch.

  levee run train.py --epochs 3             train with levee, the script unchanged
  levee sim --gpu 24GiB -- python train.py  the same program on a simulated GPU
  levee report RUN.levee                    what happened to memory, and why
  levee replay SNAPSHOT.pickle              what the same job would have reserved under levee
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="levee", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")

    from levee import _cli_bench, _cli_env, _cli_replay, _cli_run, _cli_sim

    _cli_run.register(subparsers)
    _cli_sim.register(subparsers)
    _cli_bench.register(subparsers)
    _cli_replay.register(subparsers)
    _cli_env.register(subparsers)
    try:
        from levee import _seeing_cli
    except ImportError:
        pass  # a build without the readers of recordings
    else:
        _seeing_cli.register(subparsers)
    return parser


def _cli_bench_run(parsed: argparse.Namespace) -> int:
    from levee import _cli_bench

    return _cli_bench.run(parsed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["bench"]:  # argparse would take options before the first word for its own
        parsed = argparse.Namespace(command="bench", version=False, rest=list(arguments[1:]))
        parsed.run = _cli_bench_run
    else:
        parsed = parser.parse_args(arguments)
    if parsed.version:
        from levee import _cli_env

        print(_cli_env.version_line())
        return 0
    if parsed.command is None:
        parser.print_help()
        return 2
    try:
        return int(parsed.run(parsed) or 0)
    except LeveeError as error:
        print(f"levee: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `levee report … | head`
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.exit(main())
