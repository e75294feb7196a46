"""torch.cuda.memory_stats() under levee against PyTorch's own allocator, for the same program.

Requests and bytes asked for are equal exactly. So are handed-out bytes of small requests; those of large
ones are less by what PyTorch does not split off a larger block, up to 1 MiB each.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from under_levee import PROGRAMS, run_file

KINDS = ("all", "small_pool", "large_pool")
FIELDS = ("current", "allocated", "freed")


@pytest.fixture(scope="module")
def stats(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    folder: Path = tmp_path_factory.mktemp("parity")
    return {
        which: run_file(PROGRAMS / "parity.py", which, tmp_path=folder).json()
        for which in ("native", "torch")
    }


def test_the_same_statistics_are_there(stats: dict) -> None:
    assert set(stats["native"]) == set(stats["torch"])


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("counter", ["allocation", "requested_bytes"])
def test_counts_and_requested_bytes_are_exact(stats: dict, counter: str, field: str) -> None:
    key = f"{counter}.all.{field}"
    assert stats["torch"][key] == stats["native"][key]
    assert stats["native"][f"{counter}.all.allocated"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_peaks_of_requested_bytes_are_those_of_pytorch(stats: dict, kind: str) -> None:
    key = f"requested_bytes.{kind}.peak"
    native = stats["native"][key]
    # When an event is seen to be complete is up to the allocator, so a peak may differ by what waited.
    assert abs(stats["torch"][key] - native) <= 0.02 * native


def test_a_block_that_waits_for_a_stream_counts_as_pytorch_counts_it(stats: dict) -> None:
    native, own = stats["native"], stats["torch"]
    for counter in ("requested_bytes", "allocation", "active"):
        assert own[f"waiting.{counter}"] == native[f"waiting.{counter}"], counter
    assert native["waiting.active"] > native["waiting.allocation"]


@pytest.mark.parametrize("field", FIELDS)
def test_allocated_bytes_differ_by_what_pytorch_does_not_split(stats: dict, field: str) -> None:
    native, own = stats["native"], stats["torch"]
    key = f"allocated_bytes.small_pool.{field}"
    assert own[key] == native[key]
    key = f"allocated_bytes.large_pool.{field}"
    blocks = native[f"allocation.large_pool.{field}"]
    assert native[key] - blocks * (1 << 20) <= own[key] <= native[key]


def test_less_is_reserved_than_by_pytorch(stats: dict) -> None:
    key = "reserved_bytes.all.peak"
    assert stats["torch"][key] <= stats["native"][key]


def test_nothing_was_retried_or_refused(stats: dict) -> None:
    for key in ("num_ooms", "num_alloc_retries", "num_oom_rejections"):
        assert stats["torch"][key] == 0 == stats["native"][key]
