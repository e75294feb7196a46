"""What the scoreboard says follows from results alone: a target missed is missed, and what was not measured says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from scoreboard import program_rows, rows  # noqa: E402
from scoreboard.__main__ import summary  # noqa: E402
from scoreboard.lab import jobs_of  # noqa: E402
from scoreboard.measured import Measured, Program, Row  # noqa: E402


def result(trace: str, policy: str, **changes: Any) -> dict[str, Any]:
    values = {
        "trace": trace,
        "policy": policy,
        "set": "decoder",
        "seed": 1,
        "ratio": 1.001,
        "peak_reserved": 1 << 30,
        "driver_pct_warm": 0.0,
        "driver_pct_warm_optimistic": 0.0,
        "warm_steps": 100,
        "dirty_steps": 0,
        "steps": 120,
        "warm_up_driver_seconds": 1.0,
        "unexplained_growth": 0,
        "emergencies": 0,
        "failures": 0,
        "steady_allocations": 1000,
        "steady_memory_calls": 0,
        "steady_events_created": 0,
        "steady_synchronisations": 0,
        "event_records": 0,
        "stream_waits": 0,
        "side_allocations": 100,
        "side_early_waits": 0,
        "side_fresh": 0,
        "side_early_pct": 0.0,
        "main_early_waits": 0,
        "ops": 10,
        "cpu_seconds": 1e-6,
        "read_seconds": 1e-7,
    }
    return {**values, **changes}


def both(**changes: Any) -> list[dict[str, Any]]:
    """A trace under levee, with changes, and under its peers."""
    peers = [result("t", policy) for policy in ("native", "expandable")]
    return [result("t", "levee", **changes), *peers, result("W5", "levee", set="recorded")]


@pytest.mark.parametrize(
    "row, good, bad",
    [
        (rows.s1, {}, {"ratio": 1.0081}),
        (rows.s2, {}, {"driver_pct_warm": 0.51}),
        (rows.s2, {}, {"dirty_steps": 1}),
        (rows.s2b, {"warm_up_driver_seconds": 2.0}, {"warm_up_driver_seconds": 2.01}),
        (rows.s9, {}, {"steady_events_created": 1}),
        (rows.s10, {"event_records": 2, "emergencies": 2}, {"event_records": 1}),
        (rows.s20, {"driver_pct_warm": 0.5}, {"driver_pct_warm": 0.51}),
    ],
)
def test_a_target_is_met_or_missed_at_its_edge(row: Any, good: Any, bad: Any) -> None:
    assert row(Measured(named=both(**good))).met is True
    assert row(Measured(named=both(**bad))).met is False


@pytest.mark.parametrize(
    "changes, met",
    [
        ({}, True),
        ({"side_early_waits": 15, "side_early_pct": 15.0}, True),
        ({"side_early_waits": 16, "side_early_pct": 16.0}, False),
        ({"driver_pct_warm": 0.51}, False),
        ({"ratio": 1.0081}, False),
    ],
)
def test_side_streams_are_judged_by_their_worst_trace(changes: Any, met: bool) -> None:
    named = [
        result(trace, policy, set="streams", **(changes if trace == "a-multi4" else {}))
        for trace in ("a-multi4", "a-fsdp")
        for policy in ("native", "expandable", "levee")
    ]
    row = rows.s11(Measured(named=named))
    assert row.met is met
    assert set(row.detail) == {"multi4", "fsdp"}
    assert "multi4" in row.value


def test_reserved_may_grow_only_with_live() -> None:
    long_run = [result("fresh", "levee")]
    assert rows.s3(Measured(named=both(), long=long_run)).met is True
    grown = [result("fresh", "levee", unexplained_growth=2 << 20)]
    assert rows.s3(Measured(named=both(), long=grown)).met is False
    assert rows.s3(Measured(named=both())).met is None, "without the long run it is not the row"


def test_models_are_held_against_what_pytorch_reserved() -> None:
    def named(native: float, expandable: float) -> Measured:
        gib = 1 << 30
        return Measured(
            named=[
                result("W1", "native", set="recorded", peak_reserved=int(native * gib)),
                result("W1", "expandable", set="recorded", peak_reserved=int(expandable * gib)),
            ]
        )

    assert rows.s19(named(35.78, 30.47)).met is True
    assert rows.s19(named(35.78 * 1.006, 30.47)).met is False
    assert rows.s19(named(35.78, 30.47 * 0.97)).met is False
    assert rows.s19(Measured()).met is None


def test_the_worst_trace_decides_the_largest_batch() -> None:
    batch = [
        {"trace": "a", "policy": policy, "permille": 990, "bound_permille": 1000}
        for policy in ("native", "expandable", "levee")
    ]
    assert rows.s5(Measured(batch=batch)).met is True
    worse = {"trace": "b", "policy": "levee", "permille": 989, "bound_permille": 1000}
    row = rows.s5(Measured(batch=[*batch, worse]))
    assert row.met is False and "98.9 (b)" in row.value


def test_programs_that_are_not_built_leave_rows_unmeasured() -> None:
    for make in program_rows.ROWS:
        row = make(Measured())
        assert row.met is None and row.value.startswith("not measured: ")


def test_a_soak_that_finds_something_is_a_miss() -> None:
    said = "seeds 1 to 9: 9 programs, 10000000 operations (1 served, 2 refused), 3 s\n"
    found = program_rows.s17(Measured(programs={"soak": Program(1, said + "FOUND with seed 9", 3)}))
    assert (
        found.met is False
        and "FOUND" in found.value
        and "FOUND with seed 9" in found.detail["output"]
    )
    clean = program_rows.s17(Measured(programs={"soak": Program(0, said, 3)}))
    assert clean.value.startswith("0 in 10,000,000 fresh operations (seeds 1 to 9)")


def test_recorded_soaks_are_added_up() -> None:
    log = (
        "Soaks.\n\n| commit | seeds | operations | hazards |\n|---|---|---|---|\n"
        "| abc | 1796000765 | 600,000,000 | 0 |\n| def | 2 | 412345678 | 0 |\n\ntotal 9\n"
    )
    assert program_rows.cumulative_operations(log) == (1_012_345_678, "def | 2 | 412345678 | 0")
    assert program_rows.cumulative_operations("") == (0, "")


def test_test_programs_are_counted_by_what_they_say() -> None:
    out = "[  PASSED  ] 5 tests.\n[  SKIPPED ] 2 tests, listed below:\n"
    row = program_rows.s22(Measured(programs={"cases": Program(0, out, 1)}))
    assert row.met is True and row.value == "5 hold, 0 do not, 2 do not apply"
    out = "[  PASSED  ] 5 tests.\n[  FAILED  ] 1 test, listed below:\n"
    assert program_rows.s22(Measured(programs={"cases": Program(1, out, 1)})).met is False
    assert program_rows.s22(Measured(programs={"cases": Program(0, "", 1)})).met is False


def micro(**times: float) -> Measured:
    entries = [
        {
            "run_name": f"{name}/iterations:20000/repeats:25",
            "aggregate_name": "min",
            "real_time": times.get(words.replace(" ", "_").replace(",", ""), most),
            "p999_ns": 100.0,
        }
        for name, words, most in (
            *program_rows._S6,
            ("BM_hot_tail/recording:0/bytes:1024", "tail", 1),
            *(
                (f"BM_threads/recording:{r}/bytes:1024/threads:{n}", f"r{r} n{n}", 10)
                for r in (0, 1)
                for n in (1, 2)
            ),
            *((f"BM_bare_threads/threads:{n}", f"bare n{n}", 10) for n in (1, 2)),
        )
    ]
    return Measured(programs={"micro": Program(0, json.dumps({"benchmarks": entries}), 1)})


def test_speed_is_compared_row_by_row() -> None:
    assert program_rows.s6(micro()).met is True
    slow = program_rows.s6(micro(hot_small=20.5))
    assert slow.met is False and "above: hot small" in slow.value
    assert program_rows.s8(micro()).met is True, "both as fast as one: twice the throughput"
    assert program_rows.s8(micro(r1_n2=13.0)).met is False
    busy = program_rows.s8(micro(r0_n2=12.0, r1_n2=12.0, bare_n2=12.0))
    assert busy.met is True and busy.value.startswith("2.00"), "others slow all of them alike"
    assert program_rows.s8(micro(bare_n2=13.0)).met is None, "too busy to tell"


def test_large_churn_is_what_pairs_without_a_device_call_take() -> None:
    measured = micro(**{"churn_large_256_live": 9000.0})
    found = json.loads(measured.programs["micro"].out)
    for entry in found["benchmarks"]:
        if entry["run_name"].startswith("BM_churn_large"):
            entry.update(hit_ns=599.0, miss_share=0.25)
    measured.programs["micro"].out = json.dumps(found)
    row = program_rows.s6(measured)
    assert row.met is True and "599.0 (25 % called the device)" in row.value


def test_recording_is_measured_for_as_long_as_the_target_says() -> None:
    def row(**changes: Any) -> Row:
        found = {
            "ratio_clock": 0.7,
            "ratio_ticks": 1.3,
            "uses_counter": True,
            "lost": 0,
            "events_per_second": 5e5,
            "seconds": 60.0,
            "bytes_per_event": 8.0,
        }
        out = "one event\n" + json.dumps({**found, **changes}) + "\n"
        return program_rows.s12(Measured(programs={"record": Program(0, out, 1)}))

    assert row().met is True
    assert row(ratio_ticks=1.31).met is False
    assert row(ratio_ticks=1.31, uses_counter=False).met is True
    assert row(lost=1).met is False and row(bytes_per_event=8.1).met is False
    assert row(seconds=5.0).met is None, "shorter than the target asks"
    assert program_rows.s12(Measured()).met is None


def test_pytorch_is_compared_by_shares() -> None:
    def row(**shares: float):
        cases = {"raw_small": 0.2, "raw_large": 0.6, "raw_small_two_threads": 0.1}
        found = {
            case: {"native": 500.0, "levee": 1.0, "share": shares.get(case, most), "target": most}
            for case, most in cases.items()
        }
        return program_rows.s7(Measured(programs={"torch": Program(0, json.dumps(found), 1)}))

    assert row().met is True
    slow = row(raw_large=0.61)
    assert slow.met is False and slow.value.endswith("above: large")
    skipped = program_rows.s7(Measured(programs={"torch": Program(77, "skipped: no PyTorch\n", 1)}))
    assert skipped.met is None and skipped.value == "not measured: skipped: no PyTorch"


def test_quick_leaves_out_seeds_and_keeps_every_kind(tmp_path: Path) -> None:
    quick = jobs_of(tmp_path, ["mine.csv"], quick=True)
    full = jobs_of(tmp_path, [], quick=False)
    kinds = {job.kind for job in full}
    assert kinds <= {job.kind for job in quick}
    assert {job.seed for job in quick} == {1} and {job.seed for job in full} == {1, 2, 3}
    assert any("mine.csv" in job.arguments for job in quick)


def test_the_summary_names_what_is_missed() -> None:
    table = [
        Row("A", "", "", "1", met=True),
        Row("B", "", "", "1", met=False),
        Row("C", "", "", "1"),
        Row("D", "", "", "–"),
    ]
    assert summary(table) == "1 met, 1 missed (B), 1 not measured as the target asks (C)."
