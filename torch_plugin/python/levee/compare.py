"""The reserved lines of several runs in one picture: native, expandable segments and levee on the same work."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Sequence

from levee import _format as fmt
from levee import _recordings
from levee._writing import write_whole
from levee.errors import LeveeError

# (label, file); an empty label takes the recording's own.
Source = tuple[str, "str | Path"]
GIB = 1 << 30
# Points of a line: more than a wide screen has columns.
_MAX_POINTS = 3_000
_COLOURS = {"native": "#8a8f98", "expandable": "#b7791f", "levee": "#d92d20"}
_MORE_COLOURS = ("#6941c6", "#0e7090", "#3e4784", "#c11574", "#4f7a21")
_ALLOCATED = "#1d63d8"


@dataclass
class Run:
    """One line of a panel."""

    label: str
    panel: str
    colour: str
    x: list[float] = field(default_factory=list)
    reserved: list[float] = field(default_factory=list)
    allocated: list[float] = field(default_factory=list)
    # What x counts: "seconds", "step" or "request".
    axis: str = "seconds"
    peak_reserved: int = 0
    peak_allocated: int = 0
    emergencies: int | None = None


def _thin(
    x: list[float], reserved: list[float], allocated: list[float]
) -> tuple[list[float], list[float], list[float]]:
    """At most about _MAX_POINTS points: of each stretch the one with the most and the one with the least reserved."""
    width = (2 * len(x) + _MAX_POINTS - 1) // _MAX_POINTS
    if width <= 2:
        return x, reserved, allocated
    keep: list[int] = []
    for first in range(0, len(x), width):
        stretch = range(first, min(first + width, len(x)))
        keep += sorted(
            {min(stretch, key=reserved.__getitem__), max(stretch, key=reserved.__getitem__)}
        )
    if keep[-1] != len(x) - 1:
        keep.append(len(x) - 1)
    return [x[i] for i in keep], [reserved[i] for i in keep], [allocated[i] for i in keep]


def _read(label: str, path: str | Path, by_time: bool = False) -> Run:
    facts = _recordings.load(path, activity=False)
    report = _recordings.report_of(facts, max_emergencies=0)
    label = label or facts.label
    panel, colon, name = label.partition(": ")
    if not colon:
        panel, name = "", label
    run = Run(name, panel, "")
    device = max(
        range(len(report["devices"])), key=lambda i: report["devices"][i]["peak_reserved_bytes"]
    )
    run.peak_reserved = report["devices"][device]["peak_reserved_bytes"]
    run.peak_allocated = report["devices"][device]["peak_allocated_bytes"]
    if not facts.is_sampled:
        run.emergencies = report["emergency_count"]
    steps = report["steps"]
    # Without what came after the last step: it is none.
    ended = steps["ended"]
    if ended > 1 and not by_time:
        # By step: runs of different allocators take different times, the same step is the same work.
        peaks = steps["devices"][device]
        run.axis = "step"
        run.x = [float(n) for n in steps["number"][:ended]]
        run.reserved = [float(v) for v in peaks["peak_reserved_bytes"][:ended]]
        run.allocated = [float(v) for v in peaks["peak_allocated_bytes"][:ended]]
        # A step's value holds until the next step begins, the last one's too.
        run.x.append(run.x[-1] + 1)
        run.reserved.append(run.reserved[-1])
        run.allocated.append(run.allocated[-1])
    else:
        columns = facts.timeline(device)
        run.x = (columns["time_ns"] / 1e9).tolist()
        run.reserved = columns["reserved"].astype(float).tolist()
        run.allocated = columns["allocated"].astype(float).tolist()
        # Changes alone are kept, and the last one holds until the end.
        end = report["source"]["duration_ns"] / 1e9
        if run.x and run.x[-1] < end:
            run.x.append(end)
            run.reserved.append(run.reserved[-1])
            run.allocated.append(run.allocated[-1])
    run.x, run.reserved, run.allocated = _thin(run.x, run.reserved, run.allocated)
    return run


def read(sources: Sequence[Source]) -> dict[str, list[Run]]:
    """Runs by panel, in the order given."""
    if not sources:
        raise LeveeError("Nothing to compare: name at least one recording.")
    panels: dict[str, list[Run]] = {}
    places: dict[str, list[Source]] = {}
    for label, path in sources:
        run = _read(label, path)
        panels.setdefault(run.panel, []).append(run)
        places.setdefault(run.panel, []).append((label, path))
    for name, runs in panels.items():
        if len({run.axis for run in runs}) > 1:  # steps are marked in some of them only
            panels[name] = [_read(label, path, by_time=True) for label, path in places[name]]
    return ready(panels)


def ready(panels: dict[str, list[Run]]) -> dict[str, list[Run]]:
    """Gives every run of a panel its own colour. They have one axis already."""
    for runs in panels.values():
        more = iter(_MORE_COLOURS * (1 + len(runs) // len(_MORE_COLOURS)))
        taken: set[str] = set()
        for run in runs:
            known = next((c for name, c in _COLOURS.items() if run.label.startswith(name)), "")
            run.colour = known if known and known not in taken else next(more)
            taken.add(run.colour)
    return panels


def _summary(run: Run) -> str:
    ratio = run.peak_reserved / run.peak_allocated if run.peak_allocated else None
    return f"{fmt.size(run.peak_reserved)} for {fmt.size(run.peak_allocated)} ({fmt.ratio(ratio)})"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div class="lv-page"><main id="levee"></main></div>
<script type="application/json" id="levee-runs">{data}</script>
<script type="module">
{script}
</script>
</body>
</html>
"""


def write_html(sources: Sequence[Source], out: str | Path, title: str = "Reserved memory") -> Path:
    """One page with a panel for each group of runs; needs no network."""
    return page_of(read(sources), out, title)


def page_of(runs_by_panel: dict[str, list[Run]], out: str | Path, title: str) -> Path:
    """The page of runs that `ready` has prepared."""
    from levee import _timeline

    panels = [
        {
            "title": name,
            "x": runs[0].axis,
            "runs": [
                {
                    "label": run.label,
                    "colour": run.colour,
                    "x": run.x,
                    "reserved": run.reserved,
                    "allocated": run.allocated,
                    "peak_reserved": run.peak_reserved,
                    "peak_allocated": run.peak_allocated,
                    "emergencies": run.emergencies,
                }
                for run in runs
            ],
        }
        for name, runs in runs_by_panel.items()
    ]
    data = json.dumps({"title": title, "panels": panels}, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    page = _PAGE.format(
        title=html.escape(title),
        style=_timeline.style(),
        data=data,
        script=_timeline.script("format.js", "tables.js", "compare.js"),
    )
    return write_whole(out, page.encode("utf-8"))


def write_png(sources: Sequence[Source], out: str | Path, title: str = "") -> Path:
    """The same picture as PNG; needs matplotlib."""
    return png_of(read(sources), out, title)


def png_of(panels: dict[str, list[Run]], out: str | Path, title: str) -> Path:
    """The picture of runs that `ready` has prepared; needs matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise LeveeError(
            "A PNG needs matplotlib: pip install matplotlib; or write .html."
        ) from None
    import io

    count = len(panels)
    columns = min(count, 3)
    rows = (count + columns - 1) // columns
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(max(6.4, 4.8 * columns), 4.1 * rows), squeeze=False
    )
    for axis in axes.flat[count:]:
        axis.remove()
    for axis, (name, runs) in zip(axes.flat, panels.items()):
        reference = max(runs, key=lambda run: len(run.x))
        axis.fill_between(
            reference.x,
            [v / GIB for v in reference.allocated],
            color=_ALLOCATED,
            alpha=0.14,
            lw=0,
            step="post",
        )
        axis.step(
            reference.x,
            [v / GIB for v in reference.allocated],
            where="post",
            color=_ALLOCATED,
            lw=0.9,
            label="allocated",
        )
        for run in runs:
            ratio = run.peak_reserved / run.peak_allocated if run.peak_allocated else None
            axis.step(
                run.x,
                [v / GIB for v in run.reserved],
                where="post",
                color=run.colour,
                lw=2.0 if run.label.startswith("levee") else 1.5,
                label=f"{run.label} {fmt.ratio(ratio)}",
            )
        axis.set_title(
            name or title or "Reserved memory", fontsize=11, loc="left", fontweight="bold"
        )
        axis.set_xlabel(runs[0].axis, fontsize=9)
        axis.set_ylabel("GiB", fontsize=9)
        axis.set_ylim(bottom=0)
        axis.margins(x=0.01)
        axis.xaxis.set_major_locator(MaxNLocator(integer=runs[0].axis != "seconds", nbins=7))
        axis.grid(alpha=0.22, lw=0.6)
        axis.tick_params(labelsize=8.5)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        # Below the axes: no place inside of them is free of lines for every job.
        axis.legend(
            fontsize=8.5,
            frameon=False,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.17),
            ncols=2,
            title="reserved / allocated, peaks",
            title_fontsize=8,
        )
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight", pad_inches=0.15)
    pyplot.close(figure)
    return write_whole(out, buffer.getvalue())


def compare_html(
    files: Sequence[str | Path], out: str | Path, labels: Sequence[str] | None = None
) -> Path:
    """`levee.compare_html(files, out, labels)`: the page of `write_html`."""
    return write_html(_paired(files, labels), out)


def compare_png(
    files: Sequence[str | Path], out: str | Path, labels: Sequence[str] | None = None
) -> Path:
    """`levee.compare_png(files, out, labels)`: the picture of `write_png`."""
    return write_png(_paired(files, labels), out)


def _paired(files: Sequence[str | Path], labels: Sequence[str] | None) -> list[Source]:
    if labels is not None and len(labels) != len(files):
        raise LeveeError(
            f"There must be as many labels as recordings: {fmt.counted(len(labels), 'label', 'labels')} for "
            f"{fmt.counted(len(files), 'recording', 'recordings')}."
        )
    return [(labels[i] if labels else "", path) for i, path in enumerate(files)]
