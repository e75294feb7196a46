"""What a recorded job would have reserved under other allocators: the work behind ``levee replay``.

Owns: which replays are run for an input, and the words about them. Figures come from the lab (levee._replay): levee
itself is the code of this installation over a model of a GPU, PyTorch's allocators are models. *Live* is what the
program held, each request rounded up to 512 bytes. *In use* adds blocks that were freed while other streams still used
them. Ratios, limits and the bound of one input have one base: in use where it is more than live, else live.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Sequence

from levee import _format as fmt
from levee import _packed, compare
from levee._tables import Grid
from levee._writing import write_whole
from levee.errors import LeveeError

GIB = 1 << 30
DEFAULT_POLICIES = ("native", "expandable", "levee", "bound")
PATTERN_PREFIX = "pattern:"
# How the names of models begin; everything else is the real code.
_MODELS = ("native", "expandable", "cudaMallocAsync")

# Memory of cards as they are sold, and what a process can have of it, GiB: the driver keeps a part, and CUDA's context
# and libraries take about 0.5 GiB of every process.
_CARDS = (
    ("8 GB", 7.1),
    ("12 GB", 11.1),
    ("16 GB", 15.1),
    ("24 GB", 23.0),
    ("32 GB", 30.8),
    ("40 GB", 38.9),
    ("48 GB", 46.8),
    ("80 GB", 78.6),
    ("96 GB", 94.4),
    ("141 GB", 139.2),
    ("192 GB", 177.5),
    ("288 GB", 267.5),
)

Progress = Callable[[str, float], None]


def lab() -> Any:
    """levee._replay, or one sentence about why not."""
    try:
        from levee import _replay
    except ImportError as error:
        raise LeveeError(
            f"This installation has no replay lab ({error}); reinstall levee with pip."
        ) from None
    return _replay


def size_of(text: str, what: str) -> int:
    """Bytes of "24GiB", "24 GB", "512MiB" or a plain number."""
    units = {"": 1, "b": 1, "k": 10, "m": 20, "g": 30, "t": 40}
    lowered = text.strip().lower().replace(" ", "")
    number = lowered.rstrip("bikmgt")
    unit = lowered[len(number) :].removesuffix("b").removesuffix("i")
    try:
        value = float(number)
        factor = units[unit]
    except (ValueError, KeyError):
        raise LeveeError(f'{what}: "{text}" is no size; write 24GiB, 512MiB or bytes.') from None
    count = value * (1 if factor == 1 else 2**factor)
    if not 2**20 <= count < 2**48:
        raise LeveeError(
            f'{what}: "{text}" is no size of a GPU; a capacity is the memory that the device has for the job, from '
            "1MiB on: write 24GiB or 512MiB."
        )
    return int(count)


def factor_of(text: str) -> float | None:
    """1.05 of "1.05x"; None if the text is no factor."""
    if not text.lower().endswith("x"):
        return None
    try:
        factor = float(text[:-1])
    except ValueError:
        return None
    return factor if 0.01 <= factor <= 1000 else None


def card_for(reserved: int) -> str | None:
    """The smallest card that this fits, as its maker calls it."""
    return next((name for name, usable in _CARDS if reserved <= usable * GIB), None)


@dataclass
class Replayed:
    """One input under all policies."""

    recording: Any
    capacity: int
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def base(self) -> int:
        """What every ratio and limit is over."""
        return self.recording.peak_active

    @property
    def base_name(self) -> str:
        return "live" if self.recording.peak_active == self.recording.peak_live else "in use"

    def of(self, policy: str) -> dict[str, Any] | None:
        return next((r for r in self.results if r["policy"] == policy), None)


def open_input(text: str, *, device: int = -1, seed: int = 1, mflop_per_byte: float = 0.0) -> Any:
    """The recording, or generated pattern, that an argument names."""
    if text.startswith(PATTERN_PREFIX):
        lengths = Path(__file__).with_name("workloads") / "data"
        return lab().generate(text[len(PATTERN_PREFIX) :], seed, str(lengths))
    name = Path(text).name
    for suffix in (".gz", ".xz"):
        name = name.removesuffix(suffix)
    stem = Path(name).stem.removesuffix(".pt.trace")
    try:
        return lab().read(_packed.contents(text), stem, device, mflop_per_byte)
    except LeveeError as error:
        sentence = str(error)
        if sentence.startswith("line 1 is no op") and not name.endswith(".csv"):
            # What is nothing else is taken for a CSV trace; this is not one either.
            raise LeveeError(
                f"{text} is no recording that can be replayed (a .levee file, a memory snapshot, a profiler trace or "
                "a CSV of requests); levee replay --help describes each."
            ) from None
        known = sentence.startswith((text, "There is no file", "This installation"))
        raise error if known else LeveeError(f"{text}: {sentence.rstrip('.')}.") from None


def save(recording: Any, out: str | Path) -> Path:
    """The requests of a recording as CSV, packed if the name ends in .xz."""
    content = recording.to_csv()
    if str(out).endswith(".xz"):
        content = lzma.compress(content, preset=6)
    return write_whole(out, content)


def capacity_for(recording: Any, capacity: int, limit: str) -> int:
    """Bytes that the device gives; 0 = as many as asked for."""
    if not limit:
        return capacity
    factor = factor_of(limit)
    if factor is None:
        return size_of(limit, "--limit")
    page = 2 << 20
    return -(-int(factor * recording.peak_active) // page) * page


def replay(
    recording: Any,
    policies: Sequence[str],
    capacity: int = 0,
    *,
    marks: bool = True,
    threads: str = "one",
    progress: Progress | None = None,
) -> Replayed:
    """Replays one recording under each policy in turn."""
    as_recorded = threads == "as-recorded"
    if as_recorded and recording.threads == 0:
        raise LeveeError(
            f"{recording.name} does not say which thread made which request; --threads as-recorded needs a recording "
            "of levee, or a CSV whose fifth field is the thread."
        )
    replayed = Replayed(recording, capacity)
    for policy in policies:
        tell = None if progress is None else (lambda share, name=policy: progress(name, share))
        text = lab().run(recording, policy, capacity, marks, False, as_recorded, tell)
        replayed.results.append(json.loads(text)[0])
    return replayed


def _short_of(result: dict[str, Any]) -> str:
    failed = fmt.counted(result["failures"], "request", "requests")
    where = result["first_failure_where"]
    return f"runs out of memory at {failed}" + (f", the first {where}" if where else "")


def paragraph(replayed: Replayed) -> str:
    """What a person wants to know about one input, in a few sentences."""
    recording = replayed.recording
    out = _what_it_held(replayed)
    if replayed.capacity:
        return " ".join([*out, _at_capacity(replayed)])
    levee = replayed.of("levee")
    if levee is None:
        return " ".join(out)
    if recording.is_levees_own and recording.starts_at_beginning:
        return " ".join(out + _saved_already(replayed, levee["peak_reserved"]))
    recorded, base = recording.recorded_peak_reserved, replayed.base
    peak = levee["peak_reserved"]
    others = [
        f"{fmt.size(other)} under {words}" for other, words in _by_the_models(replayed).values()
    ]
    would = f"Under levee it would have been {fmt.size(peak)} ({fmt.ratio(peak / base)})"
    out.append(would + (f"; {' and '.join(others)} by the models." if others else "."))
    if recorded and not recording.starts_at_beginning:
        out.append(
            "The recording begins in mid-run: what your run reserved includes what came before, the other figures are "
            "for the recorded part alone."
        )
        return " ".join(out)
    reference = recorded or (replayed.of("native") or {}).get("peak_reserved", 0)
    if reference:
        out.append(_about_cards(reference, peak, bool(recorded)))
    return " ".join(out)


def _what_it_held(replayed: Replayed) -> list[str]:
    recording, base = replayed.recording, replayed.base
    held = f"{fmt.size(base)} {replayed.base_name}"
    recorded = recording.recorded_peak_reserved
    if recorded:
        whose = "Your run, under levee," if recording.is_levees_own else "Your run"
        out = [f"{whose} reserved {fmt.size(recorded)} for {held} ({fmt.ratio(recorded / base)})."]
    else:
        whose = "This pattern has" if recording.kind == "pattern" else "Your run had"
        rest = "" if recording.kind == "pattern" else "; what it reserved is not recorded"
        out = [f"{whose} {held} at most{rest}."]
    if replayed.base_name != "live":
        out.append(
            "In use counts blocks that were freed while other streams still used them; "
            f"{fmt.size(recording.peak_live)} were live at most."
        )
    return out


def _by_the_models(replayed: Replayed) -> dict[str, tuple[int, str]]:
    """Peak and words of PyTorch's own allocators, as far as they were replayed."""
    return {
        name: (result["peak_reserved"], words)
        for name, words in (
            ("native", "PyTorch's defaults"),
            ("expandable", "expandable segments"),
        )
        if (result := replayed.of(name)) is not None
    }


def _saved_already(replayed: Replayed, peak: int) -> list[str]:
    """Of a run under levee: what the others would have taken, and so what levee saves."""
    others = _by_the_models(replayed)
    if not others:
        return []
    recorded = replayed.recording.recorded_peak_reserved
    own = recorded or peak
    would = [
        f"{fmt.size(other)} under {words} ({fmt.ratio(other / replayed.base)})"
        for other, words in others.values()
    ]
    saved = [
        (
            f"{fmt.size(other - own)} against {words}"
            if other > own * 1.02
            else f"nothing against {words}"
        )
        for other, words in others.values()
    ]
    out = [f"By the models it would have been {' and '.join(would)}."]
    if all(other <= own * 1.02 for other, _ in others.values()):
        return [*out, "At its peak levee saves nothing on this job."]
    who = "levee" if recorded else f"levee (replayed: {fmt.size(peak)})"
    out.append(f"At its peak {who} already saves {' and '.join(saved)}.")
    native = others.get("native", (0, ""))[0]
    now, then = card_for(own), card_for(native)
    if native > own and now is not None and now != then:
        needed = f"one of {then}" if then else "more than any has"
        out.append(f"It fits a card of {now}, where PyTorch's defaults would need {needed}.")
    return out


def _about_cards(reference: int, peak: int, is_recorded: bool) -> str:
    now, then = card_for(reference), card_for(peak)
    if then is not None and then != now:
        needed = f"where it needed one of {now}" if now else "where it fitted none"
        whose = "" if is_recorded else " under PyTorch's defaults"
        return f"At this batch size it would have fitted a card of {then}, {needed}{whose}."
    if reference > peak * 1.02:
        return (
            f"That leaves {fmt.size(reference - peak)} more for a larger batch on the same card "
            f"({100 * (reference - peak) / peak:.0f} % of what it needs)."
        )
    if peak > reference * 1.02:
        return "This job has nothing to gain in peak memory."
    return "At its peak this job has little to gain; see the driver calls and emergencies below."


def _at_capacity(replayed: Replayed) -> str:
    parts = []
    for result in replayed.results:
        if result["policy"] == "bound":
            continue
        if result["failures"]:
            parts.append(f"{result['policy']} {_short_of(result)}")
        elif result["emergencies"]:
            times = fmt.counted(result["emergencies"], "emergency", "emergencies")
            parts.append(f"{result['policy']} finishes with {times}")
        else:
            parts.append(f"{result['policy']} finishes without an emergency")
    share = fmt.ratio(replayed.capacity / replayed.base)
    listed = "; ".join(parts)
    return f"In {fmt.limit(replayed.capacity)} ({share} times what was {replayed.base_name}): {listed}."


def about(recording: Any) -> str:
    """What the input is, and what is missing from it."""
    parts = [fmt.counted(recording.requests, "request", "requests")]
    if recording.steps:
        parts.append(fmt.counted(recording.steps, "step", "steps"))
    if recording.streams > 1:
        parts.append(fmt.counted(recording.streams, "stream", "streams"))
    complete = "complete" if recording.is_complete else "incomplete"
    line = f"{recording.kind}, {', '.join(parts)}, {complete}."
    return f"{line} {recording.about}".rstrip()


def left_out(replayed: Replayed) -> str:
    """What of this job the models of PyTorch's allocators do not have; empty if nothing."""
    modelled = [r for r in replayed.results if r["policy"].startswith(_MODELS)]
    recording = replayed.recording
    parts = []
    if recording.private_requests:
        asked = fmt.counted(recording.private_requests, "request", "requests")
        parts.append(f"leave out private pools ({asked} here)")
    if recording.recorded_uses:
        parts.append(
            f"take a block that another stream used ({fmt.count(recording.recorded_uses)} here) back 300 requests "
            "after its free"
        )
    if not modelled or not parts:
        return ""
    return f"The models of PyTorch's allocators {', and '.join(parts)}."


def as_json(replayed: Replayed) -> dict[str, Any]:
    """One input of `--json`; bytes and seconds are numbers."""
    recording = replayed.recording
    return {
        "name": recording.name,
        "kind": recording.kind,
        "requests": recording.requests,
        "steps": recording.steps,
        "streams": recording.streams,
        "threads": recording.threads or None,
        "is_complete": recording.is_complete,
        "live_at_start": recording.live_at_start,
        "about": recording.about,
        "peak_live": recording.peak_live,
        "peak_active": recording.peak_active,
        "base": "active" if replayed.base_name == "in use" else "live",
        "under_levee": recording.is_levees_own,
        "private_requests": recording.private_requests,
        "recorded_peak_reserved": recording.recorded_peak_reserved or None,
        "capacity": replayed.capacity or None,
        "text": paragraph(replayed),
        "models_leave_out": left_out(replayed),
        "results": replayed.results,
    }


def table(replayed: Replayed) -> Any:
    """A table over the policies, for rich."""
    columns = Grid(
        "allocator",
        "peak reserved",
        f"/ {replayed.base_name}",
        "driver calls",
        "driver time",
        "emergencies",
        "failed",
    )
    for result in replayed.results:
        seconds = result["driver_seconds"] + result["creation_seconds"]
        is_bound = result["policy"] == "bound"
        columns.add(
            result["policy"],
            fmt.size(result["peak_reserved"]),
            f"{result['peak_reserved'] / replayed.base:.4f}",
            "–" if is_bound else fmt.count(result["memory_calls"]),
            "–" if is_bound else fmt.duration(seconds * 1e9),
            "–" if is_bound else fmt.count(result["emergencies"]),
            fmt.count(result["failures"]),
            style="bold" if result["policy"] == "levee" else "",
        )
    return columns


def _runs(replayed: Replayed) -> list[compare.Run]:
    runs = []
    for result in replayed.results:
        if result["policy"] == "bound":
            continue
        reserved, live = result["reserved_series"], result["live_series"]
        stride = max(1, result["ops"] // max(1, len(reserved)))
        run = compare.Run(result["policy"], replayed.recording.name, "", axis="request")
        run.x = [float(i * stride) for i in range(len(reserved))]
        run.reserved = [float(v) for v in reserved]
        run.allocated = [float(v) for v in live]
        run.peak_reserved = result["peak_reserved"]
        run.peak_allocated = replayed.base
        run.emergencies = result["emergencies"]
        runs.append(run)
    return runs


def picture(all_replayed: Sequence[Replayed], out: str | Path) -> Path:
    """Reserved lines of every policy, a panel an input, as .png or .html."""
    check_picture(out)
    panels: dict[str, list[compare.Run]] = {}
    for replayed in all_replayed:
        name = replayed.recording.name
        while name in panels:
            name += "'"
        panels[name] = _runs(replayed)
    compare.ready(panels)
    if str(out).endswith(".png"):
        return compare.png_of(panels, out, "")
    return compare.page_of(panels, out, "Reserved memory")


def check_picture(out: str | Path) -> None:
    """Raises before any work if a picture of this name cannot be made."""
    text = str(out)
    if text.endswith(".png"):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise LeveeError(
                "A PNG needs matplotlib: pip install matplotlib; or write .html."
            ) from None
    elif not text.endswith((".html", ".htm")):
        raise LeveeError(f"{text}: the picture's name must end in .html or .png.")
