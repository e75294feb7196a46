"""Rows from programs beside the lab: speed (S6 to S8), recording (S12), hazards (S17), faults (S21), cases (S22)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Callable

from .measured import Measured, Program, Row
from .programs import SOAK_OPERATIONS

SOAK_LOG = Path(__file__).resolve().parents[2] / "tests" / "model" / "SOAK.md"
CUMULATIVE = 1_000_000_000


def _missing(row: Row, what: str) -> Row:
    row.value = f"not measured: {what}"
    return row


def benchmark_ns(program: Program | None) -> dict[str, dict[str, float]]:
    """Least times (ns) and counters of a Google Benchmark run, by benchmark without its run options."""
    if program is None or program.returncode != 0:
        return {}
    found: dict[str, dict[str, float]] = {}
    for entry in json.loads(program.out).get("benchmarks", []):
        if entry.get("aggregate_name") != "min":
            continue
        name = re.sub(r"/(iterations|repeats):.*", "", entry["run_name"])
        found[name] = {
            key: value for key, value in entry.items() if isinstance(value, (int, float))
        }
    return found


# name of the benchmark, words, most ns
_S6 = (
    ("BM_hot/recording:0/bytes:1024", "hot small", 20),
    ("BM_hot/recording:1/bytes:1024", "hot small, recording", 45),
    ("BM_hot/recording:0/bytes:8388608", "hot large", 300),
    ("BM_churn/recording:0/live:256/from:512/to:1048576", "churn small, 256 live", 60),
    ("BM_churn/recording:0/live:2000/from:512/to:1048576", "churn small, 2,000 live", 60),
    ("BM_churn_large/live:256/from:2097152/to:67108864/stitch:1", "churn large, 256 live", 600),
    ("BM_churn_large/live:2000/from:2097152/to:67108864/stitch:1", "churn large, 2,000 live", 600),
)
_S6_TAIL = 250


def _pair_ns(entry: dict[str, float]) -> float:
    """Where pairs that call the device are told apart, the others: what those cost is in rows S2 and S25."""
    return entry.get("hit_ns", entry["real_time"])


def s6(m: Measured) -> Row:
    row = Row(
        "S6",
        "alloc+free pair at levee's own interface, one thread (absolute times on this machine)",
        "ns",
        "hot small ≤ 20 (45 recorded), large ≤ 300; churn ≤ 60, ≤ 600; p99.9 ≤ 250",
    )
    found = benchmark_ns(m.programs.get("micro"))
    if not found:
        return _missing(row, "bench/micro/alloc_bench is not built or failed")
    texts, missed, lacking = [], [], []
    for name, words, most in _S6:
        if name not in found:
            lacking.append(words)
            continue
        ns = _pair_ns(found[name])
        texts.append(f"{words} {ns:.1f}")
        if "miss_share" in found[name]:
            texts[-1] += f" ({100 * found[name]['miss_share']:.0f} % called the device)"
        row.detail[words] = [ns, most]
        if ns > most:
            missed.append(words)
    tail = found.get("BM_hot_tail/recording:0/bytes:1024", {}).get("p999_ns")
    if tail is not None:
        texts.append(f"p99.9 {tail:.0f}")
        row.detail["p99.9"] = [tail, _S6_TAIL]
        if tail > _S6_TAIL:
            missed.append("p99.9")
    else:
        lacking.append("p99.9")
    row.value = ", ".join(texts)
    if missed:
        row.value += f"; above: {', '.join(missed)}"
    if lacking:
        row.value += f"; not measured: {', '.join(lacking)}"
    hot = found.get(_S6[0][0])
    row.number = hot["real_time"] if hot else None
    row.met = False if missed else (None if lacking else True)
    for name, words in (
        ("BM_bare_pop_and_table", "least conceivable"),
        ("BM_bare_two_stamps", "two reads of the counter and stores"),
        ("BM_malloc/1024", "host malloc 1 KiB"),
        ("BM_churn_large/live:256/from:2097152/to:67108864/stitch:0", "churn large, never joining"),
    ):
        if name in found:
            row.peers[words] = f"{_pair_ns(found[name]):.1f} ns"
    return row


def s7(m: Measured) -> Row:
    row = Row(
        "S7",
        "the same through PyTorch's interface (raw_alloc, torch.empty), against native",
        "x",
        "≤ 0.2 small, ≤ 0.6 large; two threads ≤ 0.1; from Python ≤ 0.9",
    )
    program = m.programs.get("torch")
    if program is None or program.returncode != 0:
        why = "bench/micro/torch_cost.py did not run"
        if program is not None and program.returncode == 77:
            why = program.out.strip() or why
        return _missing(row, why)
    found = json.loads(program.out.splitlines()[-1])
    words = {
        "raw_small": "small",
        "raw_large": "large",
        "raw_small_two_threads": "two threads",
        "python_small": "Python small",
        "python_large": "Python large",
    }
    row.value = ", ".join(f"{words[case]} {at['share']:.2f}" for case, at in found.items())
    missed = [words[case] for case, at in found.items() if at["share"] > at["target"]]
    if missed:
        row.value += f"; above: {', '.join(missed)}"
    row.number = found["raw_small"]["share"]
    row.met = not missed
    row.peers = {"native": ", ".join(f"{at['native']:.0f}" for at in found.values()) + " ns"}
    row.detail = {case: [at["levee"], at["native"], at["target"]] for case, at in found.items()}
    return row


# Below it two threads of this machine do not run side by side, whatever they do.
_LEAST_BARE = 1.6


def s8(m: Measured) -> Row:
    row = Row(
        "S8",
        "two threads on different streams against one, small, where two bare loops give 2.0",
        "x throughput",
        "≥ 1.8, ≥ 1.6 with recording",
    )
    found = benchmark_ns(m.programs.get("micro"))

    def throughput(stem: str) -> float | None:
        one, two = (
            next((v for k, v in found.items() if k.startswith(f"{stem}threads:{n}")), None)
            for n in (1, 2)
        )
        return 2 * one["real_time"] / two["real_time"] if one and two else None

    bare = throughput("BM_bare_threads/")
    plain, recorded = (throughput(f"BM_threads/recording:{r}/bytes:1024/") for r in (0, 1))
    if bare is None or plain is None or recorded is None:
        return _missing(row, "bench/micro/alloc_bench is not built or failed")
    # What others take of the machine they take of all three.
    scale = 2 / bare
    row.value = (
        f"{plain * scale:.2f}, {recorded * scale:.2f} with recording "
        f"(as timed {plain:.2f}, {recorded:.2f}; bare loops {bare:.2f})"
    )
    row.number = plain * scale
    row.detail = {"as timed": [plain, recorded], "bare loops": bare}
    if bare < _LEAST_BARE:
        row.value += "; the machine is too busy to tell"
    else:
        row.met = plain * scale >= 1.8 and recorded * scale >= 1.6
    return row


_S12_SECONDS = 60


def s12(m: Measured) -> Row:
    row = Row(
        "S12",
        "recording: an event against a bare loop of clock read and 32-byte store; 500,000 events/s; size",
        "x; lost; bytes",
        f"≤ 1.3; none lost in {_S12_SECONDS} s; ≤ 8",
    )
    program = m.programs.get("record")
    if program is None:
        return _missing(row, "bench/micro/record_cost is not built")
    lines = [line for line in program.out.splitlines() if line.startswith("{")]
    if not lines:
        return _missing(row, f"record_cost ended with {program.returncode} and said no figures")
    found = json.loads(lines[-1])
    # The bare loop reads what the recorder reads.
    ratio = found["ratio_ticks"] if found["uses_counter"] else found["ratio_clock"]
    row.value = (
        f"{ratio:.2f} ({found['ratio_clock']:.2f} of Clock::now); {found['lost']} lost at "
        f"{found['events_per_second']:,.0f}/s for {found['seconds']:.0f} s; {found['bytes_per_event']:.2f}"
    )
    row.number = ratio
    row.detail = found
    holds = ratio <= 1.3 and found["lost"] == 0 and found["bytes_per_event"] <= 8
    enough = found["seconds"] >= _S12_SECONDS and found["events_per_second"] >= 450_000
    row.met = False if not holds else (True if enough else None)
    if holds and not enough:
        row.value += "; shorter or slower than the target asks"
    return row


def cumulative_operations(text: str) -> tuple[int, str]:
    """Sum of the column "operations" of the tables in a text, and the latest row."""
    total, last = 0, ""
    column: int | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            column = None
            continue
        cells = [cell.strip().lower() for cell in line.strip("|").split("|")]
        if column is None:
            column = next((i for i, cell in enumerate(cells) if "operations" in cell), len(cells))
        elif column < len(cells) and (number := re.match(r"[\d,]+", cells[column])):
            total += int(number[0].replace(",", "") or 0)
            last = line.strip("| ")
    return total, last


def s17(m: Measured) -> Row:
    row = Row(
        "S17",
        "hazards over modelled operations, 1 to 16 streams, graphs, pools, aliases, faults",
        "count",
        "0 over 10⁷ fresh ones and over a recorded cumulative 10⁹",
    )
    soak = m.programs.get("soak")
    if soak is None:
        return _missing(row, "tests/model/model_soak is not built")
    said = re.findall(r"seeds (\d+) to (\d+): (\d+) programs, (\d+) operations", soak.out)
    if not said:
        return _missing(row, f"model_soak ended with {soak.returncode} and said no sums")
    first, last, programs, operations = said[-1]
    total, where = cumulative_operations(SOAK_LOG.read_text() if SOAK_LOG.exists() else "")
    row.number = 0 if soak.returncode == 0 else 1
    hazards = "0" if soak.returncode == 0 else "FOUND (see detail)"
    row.value = (
        f"{hazards} in {int(operations):,} fresh operations (seeds {first} to {last}); "
        f"recorded so far: {total:,}"
    )
    row.detail = {"programs": int(programs), "latest recorded": where}
    if soak.returncode != 0:
        row.detail["output"] = soak.out[-8000:]
    enough = int(operations) >= SOAK_OPERATIONS * 0.98 and total >= CUMULATIVE
    row.met = False if soak.returncode != 0 or total < CUMULATIVE else (True if enough else None)
    return row


def gtest_counts(program: Program) -> tuple[int, int, int]:
    """Tests that passed, failed and were skipped, as GoogleTest says at the end."""

    def last(pattern: str) -> int:
        found = re.findall(pattern, program.out)
        return int(found[-1]) if found else 0

    return (
        last(r"\[  PASSED  \] (\d+) tests?"),
        last(r"\[  FAILED  \] (\d+) tests?"),
        last(r"\[  SKIPPED \] (\d+) tests?"),
    )


def _tests(row: Row, program: Program | None, where: str) -> Row:
    if program is None:
        return _missing(row, f"{where} is not built")
    passed, failed, skipped = gtest_counts(program)
    row.value = f"{passed} hold, {failed} do not, {skipped} do not apply"
    row.number = failed
    row.met = program.returncode == 0 and failed == 0 and passed > 0
    if not row.met:
        row.detail["output"] = program.out[-8000:]
    return row


def s21(m: Measured) -> Row:
    row = Row(
        "S21",
        "scenarios in which every driver call fails once at every position",
        "scenarios",
        "state equal to before or after; the process goes on",
    )
    return _tests(row, m.programs.get("faults"), "core_allocator_test")


def s22(m: Measured) -> Row:
    row = Row("S22", "public cases that behave as their check says", "cases", "all")
    return _tests(row, m.programs.get("cases"), "tests/cases/cases_test")


ROWS: list[Callable[[Measured], Row]] = [s6, s7, s8, s12, s17, s21, s22]
