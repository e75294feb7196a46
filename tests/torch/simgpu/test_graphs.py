"""CUDA graphs on the stand-in GPU."""

import pytest


def test_capture_and_replay(graphs):
    assert graphs.fact("capture_and_replay") == [1024]


def test_a_replay_takes_the_time_of_its_nodes(graphs):
    times = graphs.fact("a_replay_takes_the_time_of_its_nodes")
    assert times["replayed"] == pytest.approx(times["eager"], rel=0.1)


def test_copies_of_a_graph_happen_at_every_replay(graphs):
    assert graphs.fact("copies_of_a_graph_happen_at_every_replay") == [1.0, 2.0]


def test_graphed_callables(graphs):
    assert graphs.fact("graphed_callable") is True


def test_memory_of_a_graph_is_not_handed_out(graphs):
    assert graphs.fact("memory_of_a_graph_is_its_own") == {"taken": False, "grown": True}


def test_cudagraph_trees(graphs):
    assert graphs.fact("cudagraph_trees") == [4, 4]


def test_a_forbidden_call_breaks_the_capture_and_nothing_else(graphs):
    facts = graphs.fact("capture_of_a_forbidden_call_is_refused")
    assert facts == {"refused": True, "alive": True}
