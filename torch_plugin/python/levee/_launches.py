"""Which recordings belong together: the ranks of one launch; and a list of launches.

A launch is what one call of torchrun, mpirun or srun started, or one process that nobody launched. Ranks of one
launch share what the launcher told them (`launch` in the head of the recording); where a recording says nothing about
it, the command line and the number of ranks decide. A rank that comes twice under the same name (a default port, used
again) begins the next launch, by start time.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

from levee import _format as fmt
from levee import _recordings
from levee._tables import Grid
from levee.errors import LeveeError


@dataclass
class Launch:
    """Recordings of one launch, by rank."""

    paths: list[Path] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    start_unix_ns: int = 0
    problem: str = ""  # why it cannot be read

    @property
    def is_several(self) -> bool:
        return len(self.paths) > 1


def group(paths: Iterable[Path]) -> list[Launch]:
    """Launches, newest first."""
    launches: list[Launch] = []
    heads: list[tuple[int, dict[str, Any], Path]] = []
    for path in paths:
        if path.name.endswith(_recordings.SAMPLES_SUFFIXES):
            launches.append(Launch([path]))
            continue
        try:
            head = _recordings.core().trace_header(os.fsencode(path))
        except LeveeError as error:
            launches.append(Launch([path], problem=str(error)))
            continue
        heads.append((head["start_unix_ns"], head, path))
    open_launches: dict[tuple, Launch] = {}
    for start, head, path in sorted(heads, key=lambda item: (item[0], item[2])):
        rank, size = head["rank"], head["world_size"]
        key = (size, head["launch"] or head["program"])
        launch = open_launches.get(key)
        if size < 2 or rank < 0 or launch is None or rank in launch.ranks:
            launch = Launch(start_unix_ns=start)
            launches.append(launch)
            if size >= 2 and rank >= 0:
                open_launches[key] = launch
        launch.paths.append(path)
        launch.ranks.add(rank)
    return sorted(launches, key=lambda launch: -launch.start_unix_ns)


def listing(launches: list[Launch], folder: Path) -> list[Any]:
    """What rich prints for several launches: a line each, and how to see one of them whole."""
    grid = Grid("run", "began", "peak reserved", "/ in use", "emergencies")
    problems = []
    digits = len(str(len(launches)))
    for number, launch in enumerate(launches, 1):
        name = _name(launch, folder)
        try:
            if launch.problem:
                raise LeveeError(launch.problem)
            reserved, ratio, emergencies = _figures(launch)
        except LeveeError as error:
            problems.append(f"Run {number}: {error}")
            grid.add(f"{number:>{digits}}  {name}", _began(launch), "–", "–", "–")
            continue
        grid.add(
            f"{number:>{digits}}  {name}",
            _began(launch),
            fmt.size(reserved),
            fmt.ratio(ratio),
            "–" if emergencies is None else fmt.count(emergencies),
        )
    several = fmt.counted(len(launches), "run", "runs")
    hint = (
        f"Whole report of one of them: levee report {folder} --run 1, or by the name of its file."
    )
    return [f"{several} in {folder}, newest first:", grid, *problems, hint]


def _name(launch: Launch, folder: Path) -> str:
    path = launch.paths[0]
    name = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
    return f"{name} ({len(launch.paths)} ranks)" if launch.is_several else name


def _began(launch: Launch) -> str:
    if not launch.start_unix_ns:
        return "–"
    return datetime.datetime.fromtimestamp(launch.start_unix_ns / 1e9).strftime("%m-%d %H:%M:%S")


def _figures(launch: Launch) -> tuple[int, float | None, int | None]:
    """Largest reserved of any rank, the worst ratio, emergencies of all."""
    reserved, ratio, emergencies = 0, None, None
    for path in launch.paths:
        facts = _recordings.load(path, activity=False)
        report = _recordings.report_of(facts, max_emergencies=0)
        if not facts.is_sampled:
            emergencies = (emergencies or 0) + report["emergency_count"]
        for device in report["devices"]:
            reserved = max(reserved, device["peak_reserved_bytes"])
            if device["ratio"]:
                ratio = max(ratio or 0, device["ratio"])
    return reserved, ratio, emergencies
