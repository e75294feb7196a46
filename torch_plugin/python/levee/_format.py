"""Numbers as people read them; the same forms as allocator/analysis/text.h."""

from __future__ import annotations

import unicodedata

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def size(count: float | None) -> str:
    if count is None:
        return "–"
    if count < 1024:
        return f"{int(count)} B"
    value = count / 1024
    unit = 0
    while value >= 1023.5 and unit + 1 < len(_UNITS):
        value /= 1024
        unit += 1
    return f"{_three(value)} {_UNITS[unit]}"


def limit(count: int) -> str:
    """A size that somebody set, to the last digit: two that differ never read the same."""
    for power, unit in zip(range(len(_UNITS), 0, -1), reversed(_UNITS)):
        if count >= 1024**power and count % 1024**power == 0:
            return f"{count // 1024**power:,} {unit}"
    return f"{count:,} B"


def duration(ns: float | None) -> str:
    if ns is None:
        return "–"
    if ns == 0:
        return "0 s"
    if ns < 1_000:
        return f"{ns:.0f} ns"
    if ns < 999.5e3:
        return f"{_three(ns / 1e3)} us"
    if ns < 999.5e6:
        return f"{_three(ns / 1e6)} ms"
    seconds = round(ns / 1e9)
    if seconds < 120:
        return f"{_three(ns / 1e9)} s"
    if seconds < 7200:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def share(part: float, whole: float) -> str:
    if not whole:
        return "–"
    percent = 100 * part / whole
    if part and percent < 0.01:
        return "<0.01 %"
    return f"{percent:.2f} %" if percent < 10 else f"{percent:.1f} %"


def printable(text: str) -> str:
    """The text on one line, with what a terminal would obey instead of show written as an escape.

    Names of files, phases and threads come from whoever made the recording: escape sequences, line breaks, and marks
    that turn the order of letters around. Bytes that are no text (surrogates) stay, so that the name can be used.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        (
            character.encode("unicode_escape").decode("ascii")
            if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
            else character
        )
        for character in text
    )


def ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
