"""What happened to memory in a recording, and why: for a terminal, or as Python values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levee import _format as fmt
from levee import _recordings
from levee._launches import Launch, listing
from levee._tables import Grid
from levee.errors import LeveeError

# Rows of the longer tables; the rest is counted in a last line.
_MAX_ROWS = 12
_MAX_HOLDERS = 5


def report(path: str | Path) -> dict[str, Any]:
    """The report of one recording as Python values; schema in allocator/export/README.md."""
    return _recordings.report_of(_recordings.load(path))


def merge(paths: list[Path]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The reports of several ranks, and who held up whom."""
    runs = [_recordings.load(path) for path in paths]
    runs.sort(key=lambda facts: (facts.rank, facts.label))
    merged = _recordings.core().merge_ranks(runs)
    return [_recordings.report_of(facts) for facts in runs], merged


def of_launch(launch: Launch) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The reports of its recordings; if there are several ranks, also who held up whom."""
    if launch.problem:
        raise LeveeError(launch.problem)
    if launch.is_several:
        return merge(launch.paths)
    return [report(launch.paths[0])], None


def _with_others(
    rows: list[dict[str, Any]], columns: tuple[str, ...], totals: dict[str, int]
) -> list[dict[str, Any]]:
    """The first rows and, so that each column adds up, one for the rest: of `totals` where those are known."""
    shown = rows[:_MAX_HOLDERS]
    others = {name: sum(row[name] for row in rows[_MAX_HOLDERS:]) for name in columns}
    for name, total in totals.items():
        others[name] = max(others[name], total - sum(row[name] for row in shown))
    if not any(others.values()):
        return shown
    return [*shown, {"origin": "others", **others}]


class Printer:
    """Lays reports out with rich. `console` decides about width and colour."""

    def __init__(self, console: Any):
        self.console = console

    @staticmethod
    def _styled(markup: str) -> Any:
        from rich.text import Text

        return Text.from_markup(markup)

    def _line(self, text: str = "", style: str | None = None) -> None:
        if not text:
            return self.console.print()
        from rich.padding import Padding
        from rich.text import Text

        # Texts hold paths and names of the user's: no markup, and nothing that a terminal obeys. Wrapped lines keep the
        # indentation of the first.
        indent = len(text) - len(text.lstrip())
        body = Text(fmt.printable(text.strip()), style=style or "")
        self.console.print(Padding(body, (0, 0, 0, indent), expand=False))

    # One recording -------------------------------------------------------------------------------

    def run(self, report: dict[str, Any], full: bool = False) -> None:
        self._source(report)
        if not report["completeness"]["has_memory"]:
            self._line("No device memory was used in what was recorded.", "bold")
            return
        for device in report["devices"]:
            if device["peak_reserved_bytes"] or len(report["devices"]) == 1:
                self._device(report, device)
        self._steps(report)
        self._emergencies(report, full)
        self._storms(report)
        for device in report["devices"]:
            self._holders(device)
        self._driver(report)
        self._phases(report)
        self._advice(report)

    def _source(self, report: dict[str, Any]) -> None:
        source = report["source"]
        name = source["label"] or source["path"]
        self._line(f"{name}  {source['program']}".rstrip(), "bold")
        parts = [
            f"{fmt.duration(source['duration_ns'])} recorded",
            fmt.counted(source["events"], "event", "events"),
        ]
        if source["host"]:
            parts.append(f"{source['host']}, pid {source['pid']}")
        if source["rank"] >= 0:
            parts.append(f"rank {source['rank']} of {source['world_size']}")
        if source["is_modelled"]:
            parts.append("simulated GPU: times are modelled")
        self._line(", ".join(parts))
        for remark in report["completeness"]["remarks"]:
            self._line(f"! {remark}", "yellow")

    def _device(self, report: dict[str, Any], device: dict[str, Any]) -> None:
        title = f"Device {device['id']}"
        if device["name"]:
            title += f": {device['name']}"
        if device["total_bytes"]:
            title += f", {fmt.size(device['total_bytes'])}"
        table = Grid("memory", "peak", "at the end*", title=title)
        table.add(
            self._styled("[red]reserved[/red] from the device"),
            fmt.size(device["peak_reserved_bytes"]),
            fmt.size(device["end_reserved_bytes"]),
        )
        table.add(
            self._styled("[blue]allocated[/blue] by the program"),
            fmt.size(device["peak_allocated_bytes"]),
            fmt.size(device["end_allocated_bytes"]),
        )
        if device["peak_active_bytes"] != device["peak_allocated_bytes"]:
            table.add("active (waiting included)", fmt.size(device["peak_active_bytes"]), "")
        table.add(
            self._styled("[bold]reserved / in use, at the peaks[/bold]"),
            fmt.ratio(device["ratio"]),
            "",
        )
        self.console.print(table)
        self._line(
            "  * The last moment recorded. Where that is the program's exit, most of its tensors are gone already."
        )
        if report["source"]["is_sampled"]:
            return
        moment = device["at_reserved_peak"]
        if moment["free_bytes"]:
            partial = moment["partial_page_bytes"]
            where = "all" if partial == moment["free_bytes"] else fmt.size(partial)
            self._line(
                f"  As reserved reached its peak, {fmt.size(moment['free_bytes'])} of it were free (the request that "
                f"it grew for had not been served yet), {where} on pages that also held live blocks."
            )
        slack = device["at_largest_slack"]
        self._line(
            f"  {fmt.counted(device['allocations'], 'allocation', 'allocations')} "
            f"({fmt.share(device['small_allocations'], device['allocations'])} small), "
            f"{fmt.counted(device['stitches'], 'stitch', 'stitches')}, "
            f"{fmt.counted(device['rebases'], 'rebase', 'rebases')}, "
            f"{fmt.counted(device['waits'], 'stream wait', 'stream waits')}; "
            f"most slack {fmt.size(slack['free_bytes'])} at {fmt.duration(slack['time_ns'])}."
        )

    def _steps(self, report: dict[str, Any]) -> None:
        steps = report["steps"]
        if not steps["count"]:
            return
        complete = [i for i, ok in enumerate(steps["is_complete"]) if ok]
        done = complete or list(range(max(1, steps["ended"])))
        durations = sorted(steps["duration_ns"][i] for i in done)
        median = durations[len(durations) // 2]
        line = f"Steps: {steps['ended']}, median {fmt.duration(median)}, slowest {fmt.duration(durations[-1])}"
        if not report["source"]["is_sampled"]:
            warm = steps["after_warm_up"]
            # Of the whole recording, as in the views: set-up before the first step is part of it.
            line += f"; driver memory calls {fmt.count(report['driver']['memory_calls'])} in all"
            if warm["steps"]:
                line += (
                    f", after the first {fmt.counted(steps['warm_up'], 'step', 'steps')} "
                    f"{warm['memory_calls'] / warm['steps']:.2f} a step "
                    f"({fmt.share(warm['memory_ns'], warm['total_ns'])} of their time)"
                )
        self._line()
        self._line(line + ".", "bold")
        if report["source"]["is_sampled"]:
            return
        worst = sorted(
            (
                i
                for i in range(steps["count"])
                if steps["memory_calls"][i] or steps["emergencies"][i]
            ),
            key=lambda i: -(steps["emergency_ns"][i] + steps["memory_ns"][i]),
        )[:5]
        if not worst:
            return
        table = Grid(
            "costliest steps",
            "duration",
            "driver memory calls",
            "time in them",
            "emergencies",
            "peak reserved",
        )
        peaks = [device["peak_reserved_bytes"] for device in steps["devices"]]
        for i in worst:
            table.add(
                # Where marks end steps, the last entry is what came after the last of them.
                (
                    f"step {steps['number'][i]}"
                    if i < steps["ended"]
                    else f"after step {steps['number'][i] - 1}"
                ),
                fmt.duration(steps["duration_ns"][i]),
                fmt.count(steps["memory_calls"][i]),
                fmt.duration(steps["memory_ns"][i]),
                str(steps["emergencies"][i]),
                fmt.size(max(peak[i] for peak in peaks)),
            )
        self.console.print(table)

    def _emergencies(self, report: dict[str, Any], full: bool) -> None:
        total = report["emergency_count"]
        if report["source"]["is_sampled"]:
            return
        self._line()
        if not total:
            self._line("No emergency: no request had to wait for memory to be given back.", "green")
            return
        refused = report["emergencies_refused"]
        self._line(
            f"{fmt.counted(total, 'emergency', 'emergencies')}, {fmt.duration(report['emergency_ns'])} in all"
            + (f", {refused} refused (out of memory)" if refused else "")
            + ".",
            "bold red",
        )
        self._line(
            "  An emergency is a request that what was held could not serve: "
            "what was then tried, in order, are its rungs."
        )
        listed = report["emergencies"]
        shown = listed if full else sorted(listed, key=lambda e: -e["duration_ns"])[:3]
        # The advice at the end refers to it.
        last_refused = [e for e in listed if e["outcome"] == "out of memory"][-1:]
        shown = shown + [e for e in last_refused if e not in shown]
        for emergency in sorted(shown, key=lambda e: e["begin_ns"]):
            text = emergency["text"]
            self._line()
            self._line(f"  {text['headline']}", "red")
            self._line(f"    {text['cause']}")
            for i, rung in enumerate(text["rungs"], 1):
                self._line(f"    Rung {i}: {rung}.")
            self._line(f"    {text['paid']}")
            if emergency["stack"]:
                self._line("    Asked for at: " + emergency["place"])
            self._line(f"    Advice: {text['advice']}", "italic")
        if total > len(shown):
            self._line(f"  … and {total - len(shown)} more; --full lists them.")

    def _storms(self, report: dict[str, Any]) -> None:
        storms = report["storms"]
        if not storms:
            return
        self._line()
        counted = fmt.counted(len(storms), "storm", "storms")
        self._line(f"{counted} (emergencies close together, and the memory taken anew):", "bold")
        for storm in sorted(storms, key=lambda s: -s["stall_ns"])[:_MAX_ROWS]:
            self._line(f"  {storm['text']}")
        if len(storms) > _MAX_ROWS:
            self._line(f"  … and {len(storms) - _MAX_ROWS} cheaper ones.")

    def _holders(self, device: dict[str, Any]) -> None:
        peak = device["peak_allocated_bytes"]
        for name, key in (
            ("phase", "holders_by_phase"),
            ("place in the program", "holders_by_stack"),
        ):
            rows = device[key]
            # One row that says "unknown" tells nothing.
            if not rows or (
                len(rows) == 1 and rows[0]["origin"].startswith(("no stack", "outside"))
            ):
                continue
            table = Grid(f"held at the allocated peak, by {name}", "bytes", "share", "blocks")
            for row in _with_others(rows, ("bytes", "blocks"), {"bytes": peak}):
                table.add(
                    row["origin"],
                    fmt.size(row["bytes"]),
                    fmt.share(row["bytes"], peak),
                    fmt.count(row["blocks"]),
                )
            self.console.print(table)
        if device["between"]:
            self._between(device)
        if device["pins"] and device["pins"][0]["pinned_bytes"] >= 16 << 20:
            slack = device["at_largest_slack"]
            table = Grid(
                "long-lived blocks on otherwise empty pages, when most memory lay idle "
                f"({fmt.duration(slack['time_ns'])})",
                "blocks",
                "bytes",
                "pages kept",
            )
            for pin in device["pins"][:5]:
                table.add(
                    pin["origin"],
                    fmt.count(pin["blocks"]),
                    fmt.size(pin["block_bytes"]),
                    fmt.size(pin["pinned_bytes"]),
                )
            self.console.print(table)

    def _between(self, device: dict[str, Any]) -> None:
        """What the advice at a refusal refers to, by this title (`kBetweenHeading`)."""
        moment = device["at_refusal"]
        table = Grid(
            "what lives on their pages",
            "blocks",
            "bytes",
            "free beside it",
            title=f"Free bytes between live blocks (refused at {fmt.duration(moment['time_ns'])})",
        )
        free = moment["partial_page_bytes"]
        columns = ("blocks", "block_bytes", "pinned_bytes")
        for row in _with_others(device["between"], columns, {}):
            table.add(
                row["origin"],
                fmt.count(row["blocks"]),
                fmt.size(row["block_bytes"]),
                fmt.size(row["pinned_bytes"]),
            )
        table.add("in all", "", "", fmt.size(free), style="bold")
        self.console.print(table)
        if any(row["origin"].startswith("no stack") for row in device["holders_by_stack"]):
            self._line("  Recorded with --stacks, this list names lines of the program throughout.")

    def _driver(self, report: dict[str, Any]) -> None:
        calls = report["driver"]["by_call"]
        if not calls:
            return
        table = Grid("driver call", "calls", "time", "mean")
        for row in sorted(calls, key=lambda r: -r["ns"])[:_MAX_ROWS]:
            table.add(
                row["call"],
                fmt.count(row["calls"]),
                fmt.duration(row["ns"]),
                fmt.duration(row["ns"] // row["calls"]),
            )
        self.console.print(table)
        for device in report["devices"]:
            idle = device["idle"]
            if idle["kernel_ns"]:
                span = idle["kernel_ns"] + idle["idle_ns"]
                self._line(
                    f"  Device {device['id']} was busy {fmt.share(idle['kernel_ns'], span)} of {fmt.duration(span)}; "
                    f"{fmt.duration(idle['allocator_ns'])} of its idle time the allocator was in the driver."
                )

    def _phases(self, report: dict[str, Any]) -> None:
        rows = [row for row in report["phases"] if row["allocations"] or row["peak_rise_bytes"]]
        if not rows:
            return
        table = Grid("phase", "entered", "time", "peak", "rise within", "driver", "emergencies")
        for row in rows[:_MAX_ROWS]:
            table.add(
                row["path"],
                fmt.count(row["entries"]),
                fmt.duration(row["total_ns"]),
                fmt.size(row["peak_bytes"]),
                fmt.size(row["peak_rise_bytes"]),
                fmt.duration(row["driver_ns"]),
                str(row["emergencies"]),
            )
        self.console.print(table)

    def _advice(self, report: dict[str, Any]) -> None:
        if report["source"]["is_sampled"]:
            return
        self._line("What to do", "bold")
        for sentence in report["advice"]:
            self._line(f"  - {sentence}")
        for note in report["notes"][:_MAX_ROWS]:
            self._line(f"  note at {fmt.duration(note['time_ns'])}: {note['text']}")

    # Several runs --------------------------------------------------------------------------------

    def launches(self, launches: list[Launch], folder: Path) -> None:
        for item in listing(launches, folder):
            if isinstance(item, str):
                self._line(item)
            else:
                self.console.print(item)

    # Several ranks -------------------------------------------------------------------------------

    def ranks(self, merged: dict[str, Any]) -> None:
        self._line(merged["verdict"], "bold")
        table = Grid(
            "rank",
            "peak reserved",
            "peak allocated",
            "emergencies",
            "allocator time",
            "steps stalled",
            "cost to all",
        )
        for rank in merged["ranks"]:
            table.add(
                rank["label"],
                fmt.size(rank["peak_reserved_bytes"]),
                fmt.size(rank["peak_allocated_bytes"]),
                fmt.count(rank["emergencies"]),
                fmt.duration(rank["allocator_ns"]),
                fmt.count(rank["stalled_steps"]),
                fmt.duration(rank["cost_ns"]),
            )
        self.console.print(table)
        steps = merged["worst_steps"][:5]
        if steps:
            table = Grid("costliest shared steps", "waited for", "its allocator", "next slowest")
            for step in steps:
                table.add(
                    f"step {step['step']}",
                    # Growth that all ranks have alike is nobody's stall.
                    (
                        "all alike"
                        if step["allocator_ns"] < 1.05 * step["others_ns"]
                        else step["slowest"]
                    ),
                    fmt.duration(step["allocator_ns"]),
                    fmt.duration(step["others_ns"]),
                )
            self.console.print(table)
