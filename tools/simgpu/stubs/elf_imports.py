"""Which symbols a shared library takes from others, as its dynamic section says. Reads 64-bit little-endian ELF files.

Owns `imports`. Promises: reads only the tables that it needs, so that a library of a gigabyte costs
milliseconds; a file that is no such ELF file raises ValueError with its path.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path

_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
_SHT_GNU_VERNEED, _SHT_GNU_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF
_DT_NEEDED = 1
_STB_WEAK = 2


@dataclass(frozen=True)
class Import:
    name: str
    version: str = ""  # the version node it was linked against
    library: str = ""  # the SONAME that has the node; empty for symbols without a version


@dataclass
class Imports:
    needed: list[str] = field(default_factory=list)
    symbols: set[Import] = field(default_factory=set)


@dataclass(frozen=True)
class _Section:
    type: int
    offset: int
    size: int
    link: int
    info: int


def imports(path: Path) -> Imports:
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise ValueError(f"{path} is empty") from error
        with data:
            if data[:6] != b"\x7fELF\x02\x01":
                raise ValueError(f"{path} is not a 64-bit ELF file")
            return _read(data)


def _read(data: mmap.mmap) -> Imports:
    found = Imports()
    sections = _sections(data)
    versions = _needed_versions(data, sections)
    versym = next((s for s in sections if s.type == _SHT_GNU_VERSYM), None)
    for section in sections:
        if section.type == _SHT_DYNAMIC:
            strings = sections[section.link]
            for tag, value in struct.iter_unpack(
                "<QQ", data[section.offset : section.offset + section.size]
            ):
                if tag == _DT_NEEDED:
                    found.needed.append(_text(data, strings.offset + value))
        elif section.type == _SHT_DYNSYM:
            strings = sections[section.link]
            table = data[section.offset : section.offset + section.size]
            for index, (name, kind, _, defined_in, _, _) in enumerate(
                struct.iter_unpack("<IBBHQQ", table)
            ):
                if index == 0 or defined_in != 0 or kind >> 4 == _STB_WEAK:  # weak: may be absent
                    continue
                number = 0
                if versym is not None:
                    number = struct.unpack_from("<H", data, versym.offset + 2 * index)[0] & 0x7FFF
                version, library = versions.get(number, ("", ""))
                found.symbols.add(Import(_text(data, strings.offset + name), version, library))
    return found


def _sections(data: mmap.mmap) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = []
    for index in range(count):
        _, kind, _, _, offset, size, link, info, _, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, start + index * entry_size
        )
        sections.append(_Section(kind, offset, size, link, info))
    return sections


def _needed_versions(data: mmap.mmap, sections: list[_Section]) -> dict[int, tuple[str, str]]:
    """Version number as the symbol table uses it -> (node, SONAME)."""
    found: dict[int, tuple[str, str]] = {}
    for section in sections:
        if section.type != _SHT_GNU_VERNEED:
            continue
        strings = sections[section.link].offset
        position = section.offset
        for _ in range(section.info):
            _, count, file, first, following = struct.unpack_from("<HHIII", data, position)
            library = _text(data, strings + file)
            node = position + first
            for _ in range(count):
                _, _, number, name, next_node = struct.unpack_from("<IHHII", data, node)
                found[number & 0x7FFF] = (_text(data, strings + name), library)
                node += next_node
            position += following
    return found


def _text(data: mmap.mmap, offset: int) -> str:
    return data[offset : data.find(b"\0", offset)].decode()
