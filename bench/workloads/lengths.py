"""Sequence lengths that real services saw, drawn in a seeded order.

Owns: reading data/*.csv and drawing from it. Promises: the same (source, seed) gives the same lengths on every
machine, since
only Python's own generator is used; lengths are clipped into the stated bounds, never dropped, so that short and long
ones keep
their share.
"""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

SOURCES = ("conv", "code")


@dataclass(frozen=True)
class Request:
    """One request of a service, in tokens."""

    context: int
    generated: int


def load(source: str) -> list[Request]:
    """All requests of `source` ("conv" or "code") in the order of their arrival."""
    if source not in SOURCES:
        raise ValueError(f"no lengths called {source!r}: choose one of {', '.join(SOURCES)}")
    path = Path(__file__).parent / "data" / f"azure_{source}.csv"
    with path.open(newline="") as file:
        return [
            Request(int(row["context_tokens"]), int(row["generated_tokens"]))
            for row in csv.DictReader(file)
        ]


class Lengths:
    """An endless seeded stream of requests, each drawn independently from `source`."""

    def __init__(self, source: str, seed: int, shortest: int, longest: int):
        self._requests = load(source)
        self._random = random.Random(seed)
        self._shortest = shortest
        self._longest = longest

    def request(self) -> Request:
        drawn = self._random.choice(self._requests)
        return Request(self._clip(drawn.context), max(1, drawn.generated))

    def batch(self, size: int) -> list[int]:
        """Context lengths of `size` requests."""
        return [self.request().context for _ in range(size)]

    def _clip(self, length: int) -> int:
        return min(self._longest, max(self._shortest, length))
