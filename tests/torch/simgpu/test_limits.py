"""The capacity of a simulated card is enforced, so that PyTorch's real recovery runs, under both of its allocators."""

import pytest


@pytest.fixture(params=["native_limits", "expandable_limits"])
def limits(request):
    return request.getfixturevalue(request.param)


def pytest_generate_tests(metafunc):
    # The programs are started by name before the first test runs.
    metafunc.fixturenames += [
        n for n in ("native_limits", "expandable_limits") if n not in metafunc.fixturenames
    ]


def test_a_request_beyond_the_card_is_an_out_of_memory_error(limits):
    facts = limits.fact("a_request_beyond_the_card_fails")
    assert "Tried to allocate 4.00 GiB" in facts["text"]
    assert "total capacity of 2.00 GiB" in facts["text"]
    assert facts["ooms"] == 1
    assert facts["still_works"]


def test_the_cache_is_given_back_before_memory_runs_out(limits):
    facts = limits.fact("the_cache_is_given_back_before_memory_runs_out")
    assert facts["ooms"] == 0
    assert 1500 <= facts["used_mib"] < 2048


def test_the_native_ladder_counts_a_retry(native_limits):
    assert native_limits.fact("the_cache_is_given_back_before_memory_runs_out")["retries"] == 1


def test_capacity_is_enforced_to_the_last_block(limits):
    facts = limits.fact("capacity_is_enforced_to_the_last_block")
    # The context takes its share of the 2 GiB.
    assert 1024 <= facts["held_mib"] <= 2048
    assert facts["held_mib"] > 2048 - 640
    assert facts["reserved_after"] == 0


def test_expandable_segments_grow_where_native_starts_anew(native_limits, expandable_limits):
    native = native_limits.fact("growing_blocks")
    expandable = expandable_limits.fact("growing_blocks")
    assert native["allocated_mib"] == expandable["allocated_mib"]
    assert expandable["reserved_mib"] < native["reserved_mib"]


def test_expandable_segments_map_memory(expandable_limits):
    counts = expandable_limits.fact("mappings")
    assert counts["cuMemMap"] > 100
    assert counts["cuMemUnmap"] > 0
