"""What one scoreboard run measured, and one line of its table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Result = dict[str, Any]
LIMITS = (1.05, 1.02, 1.01)  # factors of peak active


@dataclass
class Row:
    """One line of the table. `value` and `target` are texts for people, `number` is what was compared.

    `met` is None where nothing was measured, or where what was measured is not what the target asks for; `value` then
    says so.
    """

    id: str
    what: str
    unit: str
    target: str
    value: str = "not measured"
    number: float | None = None
    met: bool | None = None
    peers: dict[str, str] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class Program:
    """What became of a program that is not the lab."""

    returncode: int
    out: str
    seconds: float


@dataclass
class Measured:
    """All results of one scoreboard run, by what they were replayed for."""

    named: list[Result] = field(
        default_factory=list
    )  # recorded, decoder and stream traces, no limit
    own: list[Result] = field(
        default_factory=list
    )  # recordings of the repository's workloads, and given ones
    modes: list[Result] = field(default_factory=list)  # levee-move and levee-none on named traces
    adversarial: list[Result] = field(default_factory=list)
    long: list[Result] = field(default_factory=list)
    batch: list[Result] = field(default_factory=list)  # largest batches
    limited: dict[float, list[Result]] = field(default_factory=lambda: {f: [] for f in LIMITS})
    programs: dict[str, Program] = field(default_factory=dict)  # by name; missing: not built

    def add(self, kind: str, results: list[Result]) -> None:
        if hasattr(self, kind):
            getattr(self, kind).extend(results)
        else:
            self.limited[float(kind)].extend(results)

    def of(
        self, policy: str, sets: tuple[str, ...] = ("recorded", "decoder", "streams")
    ) -> list[Result]:
        return [r for r in self.named if r["policy"] == policy and r["set"] in sets]

    def policies(self, sets: tuple[str, ...]) -> list[str]:
        """Those that replayed anything of the sets, in the order they came."""
        return list(dict.fromkeys(r["policy"] for r in self.named if r["set"] in sets))

    def twin(self, mine: Result, policy: str) -> Result | None:
        """The same trace under another policy."""
        return next(
            (
                r
                for r in self.of(policy)
                if r["trace"] == mine["trace"] and r["seed"] == mine["seed"]
            ),
            None,
        )
