"""The command ``levee``: one parser, one module a subcommand."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Sequence

from levee import _format as fmt
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
        if arguments[:1] == ["replay"]:
            from levee import _cli_replay

            arguments = _cli_replay.with_negative_values(arguments)
        parsed, unknown = parser.parse_known_args(arguments)
        if unknown:
            # The usage of the command that was meant, not that of levee.
            commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
            asked: argparse.ArgumentParser = commands.choices.get(parsed.command, parser)
            asked.error(f"there is no option {unknown[0]}; {asked.prog} --help lists them")
    if parsed.version:
        from levee import _cli_env

        print(_cli_env.version_line())
        return 0
    if parsed.command is None:
        parser.print_help()
        return 2
    if parsed.command != "run":
        _print_any_text()
    try:
        code = int(parsed.run(parsed) or 0)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except LeveeError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if parsed.command == "run":
            raise  # the program's own
        return _without_output(error)


def _without_output(error: OSError) -> int:
    """Nobody takes what is printed (`levee report … | head`), or there is no room for it."""
    # Python flushes at exit; what is left must not be complained about again there.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        _say(f"the output cannot be written: {error.strerror or error}.")
    return 1


def _say(sentence: str) -> None:
    if sys.stderr is not None:
        print(f"levee: {fmt.printable(sentence)}", file=sys.stderr)


def _print_any_text() -> None:
    """Names of files are bytes: what the terminal's encoding lacks must not end a report. Nor must a closed output."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
