#!/usr/bin/env python3
"""Makes the stand-in CUDA math libraries: C++ and a version script for each.

    generate.py --plan  --include DIR... [--torch DIR]
        one line per library: its name and SONAME, or why it is left out
    generate.py LIBRARY --include DIR... [--torch DIR] --out DIR [--compiler cc]

Reads the headers with the C preprocessor and the undefined symbols of the installed PyTorch's
libraries with their version nodes. Writes `<library>_<n>.cc` for each unit of headers,
`<library>_imports.cc` for what PyTorch imports without a header, and `<library>.map`. Same inputs,
same bytes; a file that would not change is left untouched.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean
sys.path.insert(0, str(Path(__file__).resolve().parent))

# pylint: disable=wrong-import-position
from c_declarations import Declarations, parse, preprocess  # noqa: E402
from elf_imports import imports  # noqa: E402
from emit import Emitter  # noqa: E402
from families import FAMILIES, Family, family  # noqa: E402


@dataclass
class TorchNeeds:
    """What PyTorch's libraries ask of one library."""

    soname: str = ""
    version_node: str = ""
    symbols: set[str] = field(default_factory=set)


def needs_of_torch(torch: Path | None, library: Family) -> TorchNeeds:
    found = TorchNeeds()
    if torch is None:
        return found
    soname = re.compile(rf"lib{library.name}\.so\.\d+")
    for path in sorted([*torch.glob("lib/*.so"), *torch.glob("*.so")]):
        wanted = imports(path)
        found.soname = next((n for n in wanted.needed if soname.fullmatch(n)), found.soname)
        for symbol in wanted.symbols:
            if soname.fullmatch(symbol.library):
                found.version_node = symbol.version
            elif symbol.library or not library.owns(symbol.name):
                continue
            found.symbols.add(symbol.name)
    return found


def soname_of(library: Family, needs: TorchNeeds) -> str:
    return needs.soname or f"lib{library.name}.so.{library.major}"


def missing_header(library: Family, include: list[Path]) -> str:
    for unit in library.headers:
        for header in unit:
            if not any((folder / header).exists() for folder in include):
                return header
    return ""


def plan(include: list[Path], torch: Path | None) -> list[str]:
    lines = []
    for library in FAMILIES:
        needs = needs_of_torch(torch, library)
        missing = missing_header(library, include)
        if missing:
            lines.append(f"skip {library.name} {missing} is in none of the include folders")
        elif not library.headers and not needs.symbols:
            lines.append(f"skip {library.name} the installed PyTorch imports nothing from it")
        else:
            lines.append(f"make {library.name} {soname_of(library, needs)} {len(library.headers)}")
    return lines


def version_script(node: str, names: set[str]) -> str:
    exported = "".join(f"    {name};\n" for name in sorted(names))
    scope = f"  global:\n{exported}" if names else ""
    return f"{node + ' ' if node else ''}{{\n{scope}  local: *;\n}};\n"


def generate(
    library: Family, include: list[Path], torch: Path | None, out: Path, compiler: str
) -> None:
    needs = needs_of_torch(torch, library)
    written: set[str] = set()
    for index, headers in enumerate(library.headers):
        declared = parse(preprocess(compiler, headers, include))
        own = [
            f
            for name, f in declared.functions.items()
            if library.owns(name) and name not in written
        ]
        _write(out / f"{library.name}_{index}.cc", Emitter(library, declared).unit(headers, own))
        written |= {f.name for f in own}
    undeclared = sorted(needs.symbols - written)
    _write(out / f"{library.name}_imports.cc", Emitter(library, Declarations()).untyped(undeclared))
    node = soname_of(library, needs) if library.version_node == "soname" else library.version_node
    _write(
        out / f"{library.name}.map",
        version_script(needs.version_node or node, written | needs.symbols),
    )


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", nargs="?", help="name of the library to make")
    parser.add_argument("--plan", action="store_true", help="only say which libraries can be made")
    parser.add_argument(
        "--include",
        type=Path,
        action="append",
        default=[],
        help="folder of headers; may be repeated",
    )
    parser.add_argument("--torch", type=Path, help="folder of the installed torch package")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the results")
    parser.add_argument(
        "--compiler", default="cc", help="C compiler whose preprocessor reads the headers"
    )
    options = parser.parse_args()
    try:
        if options.plan:
            print("\n".join(plan(options.include, options.torch)))
        elif options.library:
            generate(
                family(options.library),
                options.include,
                options.torch,
                options.out,
                options.compiler,
            )
        else:
            parser.error("name a library, or give --plan")
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        print(
            f"generate.py: {error.args[0] if isinstance(error, KeyError) else error}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
