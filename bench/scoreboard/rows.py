"""The rows of the scoreboard: what each says, its target, and how its value follows from results of the replay lab.

Owns: the definitions. Promises: a row's value is computed from results alone, so that the same results give the
same table; a target is
what the project set itself and is never derived from a result. A row is `met`, or not, or None where nothing was
measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable

Result = dict[str, Any]

# What PyTorch 2.14.1 itself reserved on the recorded jobs, GiB (bench/traces/README.md).
RECORDED_RESERVED_GIB = {
    "native": {
        "W1": 35.78,
        "W2": 23.36,
        "W3": 61.09,
        "W4": 36.27,
        "W5": 12.01,
        "W6": 10.54,
        "W7": 19.70,
    },
    "expandable": {
        "W1": 30.47,
        "W2": 18.41,
        "W3": 60.42,
        "W4": 36.25,
        "W5": 7.48,
        "W6": 8.66,
        "W7": 19.26,
    },
}
GIB = 1 << 30


@dataclass
class Row:
    """One line of the table. `value` and `target` are texts for people, `number` is what was compared."""

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
class Measured:
    """All results of one scoreboard run, by what they were replayed for."""

    named: list[Result]  # recorded, decoder and stream traces on an unlimited device
    adversarial: list[Result]
    limited: dict[float, list[Result]]  # factor of peak active -> recorded and decoder traces

    def of(
        self, policy: str, sets: tuple[str, ...] = ("recorded", "decoder", "streams")
    ) -> list[Result]:
        return [r for r in self.named if r["policy"] == policy and r["set"] in sets]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def worst(results: list[Result], key: str) -> Result:
    return max(results, key=lambda r: r[key])


def _named(r: Result) -> str:
    return f"{r['trace']}/{r['seed']}"


def s19(m: Measured) -> Row:
    row = Row(
        "S19",
        "replay models against what PyTorch reserved (recorded jobs)",
        "% off",
        "native ≤ 0.5, expandable ≤ 2",
    )
    off = {}
    for policy, known in RECORDED_RESERVED_GIB.items():
        results = [r for r in m.of(policy, ("recorded",)) if r["trace"] in known]
        errors = [abs(r["peak_reserved"] / GIB / known[r["trace"]] - 1) * 100 for r in results]
        off[policy] = max(errors)
    row.value = f"native {off['native']:.2f}, expandable {off['expandable']:.2f}"
    row.number = off["expandable"]
    row.met = off["native"] <= 0.5 and off["expandable"] <= 2
    return row


def s1(m: Measured) -> Row:
    row = Row(
        "S1",
        "peak reserved / peak live, every named trace",
        "ratio",
        "each ≤ 1.008, geometric mean ≤ 1.003",
    )
    sets = ("recorded", "decoder")

    def text(policy: str) -> tuple[float, float, str]:
        results = m.of(policy, sets)
        top = worst(results, "ratio")
        mean = geometric_mean([r["ratio"] for r in results])
        return top["ratio"], mean, f"max {top['ratio']:.4f} ({_named(top)}), mean {mean:.4f}"

    top, mean, row.value = text("levee")
    row.number = top
    row.met = top <= 1.008 and mean <= 1.003
    row.peers = {p: text(p)[2] for p in ("native", "expandable")}
    row.detail = {_named(r): r["ratio"] for r in m.of("levee", sets)}
    return row


def s2(m: Measured) -> Row:
    row = Row(
        "S2",
        "driver time after 20 steps, % of step time (pessimistic); steps with driver memory calls",
        "%",
        "mean ≤ 0.05, worst ≤ 0.5 (W5 ≤ 1.5), ≤ 0.1 % of steps",
    )
    sets = ("recorded", "decoder")

    def text(policy: str) -> tuple[float, Result, float, str]:
        results = [r for r in m.of(policy, sets) if r["warm_steps"]]
        mean = sum(r["driver_pct_warm"] for r in results) / len(results)
        top = worst([r for r in results if r["trace"] != "W5"], "driver_pct_warm")
        dirty = sum(r["dirty_steps"] for r in results)
        steps = sum(r["warm_steps"] for r in results)
        share = 100 * dirty / steps
        shown = (
            f"mean {mean:.3f}, worst {top['driver_pct_warm']:.3f} ({_named(top)}), "
            f"{dirty} of {steps} steps ({share:.2f} %)"
        )
        return mean, top, share, shown

    mean, top, share, row.value = text("levee")
    w5 = max(
        (r["driver_pct_warm"] for r in m.of("levee", ("recorded",)) if r["trace"] == "W5"),
        default=0.0,
    )
    row.value += f", W5 {w5:.2f}"
    row.number = mean
    row.met = mean <= 0.05 and top["driver_pct_warm"] <= 0.5 and w5 <= 1.5 and share <= 0.1
    row.peers = {p: text(p)[3] for p in ("expandable",)}
    row.detail = {
        _named(r): [r["driver_pct_warm"], r["driver_pct_warm_optimistic"]]
        for r in m.of("levee", sets)
    }
    return row


def s2b(m: Measured) -> Row:
    row = Row(
        "S2b",
        "driver time of the first 20 steps, creation included, against expandable's",
        "x",
        "≤ 2",
    )
    pairs = []
    for mine in m.of("levee", ("recorded", "decoder")):
        theirs = next(
            r
            for r in m.of("expandable")
            if r["trace"] == mine["trace"] and r["seed"] == mine["seed"]
        )
        if theirs["warm_up_driver_seconds"] > 0:
            pairs.append(
                (mine["warm_up_driver_seconds"] / theirs["warm_up_driver_seconds"], _named(mine))
            )
    top = max(pairs)
    row.value = f"worst {top[0]:.2f} ({top[1]}), mean {geometric_mean([p[0] for p in pairs]):.2f}"
    row.number = top[0]
    row.met = top[0] <= 2
    row.detail = {name: ratio for ratio, name in pairs}
    return row


def s3(m: Measured) -> Row:
    row = Row(
        "S3", "growth of reserved after 20 steps without a new maximum of live bytes", "traces", "0"
    )
    grew = []
    for r in m.of("levee", ("recorded", "decoder")):
        live = r["live_by_step"][:21]
        later = r["live_by_step"][21:]
        if later and max(later) <= max(live) and r["reserved_growth_warm"] > 0:
            grew.append((_named(r), r["reserved_growth_warm"] / (1 << 20)))
    row.value = f"{len(grew)}" + "".join(f" {name} +{mib:.0f} MiB" for name, mib in grew[:4])
    row.number = len(grew)
    row.met = not grew
    row.detail = {
        "note": "on traces of 60 to 230 steps; 10,000 fresh steps are a run of their own",
        **dict(grew),
    }
    return row


def s4(m: Measured) -> Row:
    row = Row(
        "S4", "emergencies and failures at 1.05, 1.02 and 1.01 times peak live", "count", "0 and 0"
    )

    def text(policy: str) -> tuple[int, str]:
        total, parts = 0, []
        for factor, results in sorted(m.limited.items(), reverse=True):
            own = [r for r in results if r["policy"] == policy]
            emergencies = sum(r["emergencies"] for r in own)
            failures = sum(r["failures"] for r in own)
            total += emergencies + failures
            parts.append(f"{factor:g}x: {emergencies} and {failures}")
        return total, ", ".join(parts)

    total, row.value = text("levee")
    row.number = total
    row.met = total == 0
    row.peers = {p: text(p)[1] for p in ("native", "expandable")}
    return row


def s11(m: Measured) -> Row:
    row = Row(
        "S11",
        "S1 and S2 with 1 to 16 side streams",
        "ratio; %",
        "ratio ≤ 1.008; ≤ 0.5 % (FSDP ≤ 1.2 %)",
    )
    results = m.of("levee", ("streams",))
    top = worst(results, "ratio")
    time = worst([r for r in results if "fsdp" not in r["trace"]], "driver_pct_warm")
    fsdp = worst([r for r in results if "fsdp" in r["trace"]], "driver_pct_warm")
    row.value = (
        f"max {top['ratio']:.4f} ({_named(top)}); worst {time['driver_pct_warm']:.2f} % ({_named(time)}), "
        f"FSDP {fsdp['driver_pct_warm']:.2f} %"
    )
    row.number = top["ratio"]
    row.met = (
        top["ratio"] <= 1.008 and time["driver_pct_warm"] <= 0.5 and fsdp["driver_pct_warm"] <= 1.2
    )
    row.peers = {
        p: f"max {worst(m.of(p, ('streams',)), 'ratio')['ratio']:.3f}"
        for p in ("native", "expandable")
    }
    row.detail = {_named(r): [r["ratio"], r["driver_pct_warm"]] for r in results}
    return row


def s10(m: Measured) -> Row:
    row = Row(
        "S10", "event records on traces of one stream, beyond those of emergencies", "count", "0"
    )
    single = [r for r in m.of("levee", ("decoder",))]
    records = sum(max(0, r["event_records"] - r["emergencies"]) for r in single)
    row.value = str(records)
    row.number = records
    row.met = records == 0
    return row


def s18(m: Measured) -> Row:
    row = Row("S18", "replay with the full policy, judge off", "million events/s a core", "≥ 3")
    results = m.of("levee", ("recorded", "decoder"))
    rate = sum(r["ops"] for r in results) / sum(r["wall_seconds"] for r in results) / 1e6
    row.value, row.number, row.met = f"{rate:.2f}", rate, rate >= 3
    return row


def s20(m: Measured) -> Row:
    row = Row("S20", "modelled step time after warm-up against expandable", "x", "≤ 1.005")
    ratios = []
    for mine in m.of("levee", ("recorded", "decoder")):
        theirs = next(
            r
            for r in m.of("expandable")
            if r["trace"] == mine["trace"] and r["seed"] == mine["seed"]
        )
        ratios.append(
            (
                (1 + mine["driver_pct_warm"] / 100) / (1 + theirs["driver_pct_warm"] / 100),
                _named(mine),
            )
        )
    top = max(ratios)
    row.value, row.number, row.met = f"worst {top[0]:.4f} ({top[1]})", top[0], top[0] <= 1.005
    return row


def s25(m: Measured) -> Row:
    row = Row("S25", "adversarial patterns: ratio never above expandable's", "patterns above", "0")
    above = []
    shown = {}
    for mine in (r for r in m.adversarial if r["policy"] == "levee"):
        theirs = next(
            r for r in m.adversarial if r["policy"] == "expandable" and r["trace"] == mine["trace"]
        )
        shown[mine["trace"]] = [
            round(mine["ratio"], 4),
            round(theirs["ratio"], 4),
            round(mine["driver_pct_warm"], 2),
        ]
        if mine["ratio"] > theirs["ratio"] + 0.0005:
            above.append(f"{mine['trace']} {mine['ratio']:.3f} > {theirs['ratio']:.3f}")
    row.value = f"{len(above)}" + (": " + ", ".join(above) if above else "")
    row.number = len(above)
    row.met = not above
    row.detail = shown
    return row


ROWS: list[Callable[[Measured], Row]] = [s19, s1, s2, s2b, s3, s4, s10, s11, s18, s20, s25]
