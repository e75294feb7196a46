"""Tables for a terminal of any width.

Owns `Grid`: a first column of names and further ones of short figures. Promises: no word and no figure is ever
broken: where the columns fit, it is a table, with titles of several lines if need be and long names folded; where they
do not, each row becomes a block of lines "title  figure". Cells and the title are text, not markup, and nothing in them
that a terminal would obey reaches it.
"""

from __future__ import annotations

from typing import Any, Iterator

from levee import _format as fmt

# A first column narrower than this would fold names beyond recognition.
_LEAST_NAME = 14


def _longest(words: list[str]) -> int:
    return max((len(word) for word in words), default=0)


def _between(figures: int) -> int:
    """Columns that no cell has: a space on each side within the table, the box's own, and its edges."""
    return 3 * figures + 2


class Grid:
    """Rows of cells (str or rich.text.Text) under titles; printed by rich."""

    def __init__(self, *titles: str, title: str = ""):
        self._titles = titles
        self._title = fmt.printable(title)
        self._rows: list[tuple[tuple[Any, ...], str]] = []

    def add(self, *cells: Any, style: str = "") -> None:
        from rich.text import Text

        row = tuple(Text(fmt.printable(cell)) if isinstance(cell, str) else cell for cell in cells)
        self._rows.append((row, style))

    def _widths(self) -> tuple[int, list[int]]:
        """Of the names, unfolded, and of each column of figures."""
        widest = [
            max([_longest(title.split())] + [row[i].cell_len for row, _ in self._rows])
            for i, title in enumerate(self._titles)
        ]
        return widest[0], widest[1:]

    def fits(self, width: int) -> bool:
        """True if it is a table, and not blocks of lines, in a terminal of `width` columns."""
        name, figures = self._widths()
        return min(name, _LEAST_NAME) + sum(figures) + _between(len(figures)) <= width

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        if self.fits(options.max_width):
            yield self._table(options.max_width, *self._widths())
        else:
            yield from self._blocks()

    def _table(self, width: int, name: int, figures: list[int]) -> Any:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        whole = [max(f, len(title)) for f, title in zip(figures, self._titles[1:])]
        fits = max(name, len(self._titles[0])) + sum(whole) + _between(len(whole)) <= width
        table = Table(
            box=box.SIMPLE_HEAD,
            title=Text(self._title) if self._title else None,
            title_justify="left",
            title_style="bold",
            pad_edge=False,
        )
        table.add_column(self._titles[0], overflow="fold", min_width=min(name, _LEAST_NAME))
        for i, title in enumerate(self._titles[1:]):
            table.add_column(
                title if fits else _lines(title, figures[i]), justify="right", no_wrap=True
            )
        for row, style in self._rows:
            table.add_row(*row, style=style)
        return table

    def _blocks(self) -> Iterator[Any]:
        from rich.padding import Padding
        from rich.text import Text

        if self._title:
            yield Text(self._title, style="bold")
        yield Text(f"{self._titles[0]}:")
        width = _longest(list(self._titles[1:]))
        for row, style in self._rows:
            yield Text.assemble(row[0], style=style or "bold")
            for title, cell in zip(self._titles[1:], row[1:]):
                if cell.plain:
                    yield Padding(Text.assemble(f"{title:<{width}}  ", cell), (0, 0, 0, 2))
        yield Text("")


def _lines(title: str, width: int) -> str:
    """The title in lines of at most `width` columns; its longest word decides how wide that is at least."""
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)
