"""Two ranks under torchrun: collectives, data parallel training, and an orderly end."""

import pytest


def test_the_job_ends_well(distributed):
    assert distributed.returncode == 0, distributed.output[-3000:]
    for rank in (0, 1):
        assert distributed.fact("after_the_end", rank) is True


def test_reductions(distributed):
    for rank in (0, 1):
        facts = distributed.fact("reductions", rank)
        assert facts["SUM"] == [3, 7]
        assert facts["PRODUCT"] == [2, 12]
        assert facts["MAX"] == [2, 4]
        assert facts["MIN"] == [1, 3]
        assert facts["AVG"] == [1.5, 3.5]
    assert distributed.fact("reductions", 0)["reduce"] == 7


def test_every_type(distributed):
    facts = distributed.fact("types", 1)
    assert len(facts) == 7
    assert all(values == [3, 200] for values in facts.values()), facts


def test_gathers_and_scatters(distributed):
    for rank in (0, 1):
        facts = distributed.fact("gathers_and_scatters", rank)
        assert facts["gathered"] == [[0, 10], [1, 11]]
        assert facts["flat"] == [0, -1, 1, -1]
        assert facts["given"] == 7 + rank
        assert facts["swapped"] == [rank, 10 + rank]
        assert facts["objects"] == [{"rank": 0}, {"rank": 1}]


def test_reduce_scatter(distributed):
    assert distributed.fact("reduce_scatter_of_true_bytes", 0) == [2, 4]
    assert distributed.fact("reduce_scatter_of_true_bytes", 1) == [6, 8]


def test_broadcast_and_pairs(distributed):
    for rank in (0, 1):
        facts = distributed.fact("broadcast_and_pairs", rank)
        assert facts["broadcast"] == [5, 6]
        assert facts["swapped"] == 1.5 - rank
    assert distributed.fact("broadcast_and_pairs", 1)["received"] == [1, 2, 3]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_large_collective_takes_its_time(distributed, rank):
    # 256 MiB over links of some 100 GB/s.
    assert 0.5 < distributed.fact("large_collectives_keep_ranks_in_step", rank) < 100


def test_groups(distributed):
    for rank in (0, 1):
        assert distributed.fact("groups", rank) == [1, 2]
        assert distributed.fact("split_group", rank) == 2 + rank


def test_data_parallel_training_keeps_ranks_equal(distributed):
    for rank in (0, 1):
        assert distributed.fact("data_parallel_training", rank) is True


def test_ranks_of_unequal_batches_do_not_slow_each_other_down_more_and_more(distributed):
    # The work of a step takes some 50 ms. A rank that was held up by its machine may have to catch
    # up once; clocks that drive each other up come to minutes within these six steps.
    for rank in (0, 1):
        beyond = distributed.fact("data_parallel_training_of_unequal_batches", rank)
        assert len(beyond) == 6 and sum(beyond) < 3, beyond


def test_data_parallel_refuses_ranks_with_other_shapes(distributed):
    assert "appears not to match sizes" in distributed.fact("data_parallel_refuses_other_shapes", 1)
    # Rank 0 finds nothing wrong and goes on to a broadcast that rank 1 never enters.
    text = distributed.fact("data_parallel_refuses_other_shapes", 0)
    assert "ranks disagree" in text or "gone: rank 1" in text


def test_sharded_training(distributed):
    for rank in (0, 1):
        assert distributed.fact("sharded_training", rank) == [16 * 16, 16, 2 * 32, 2]
