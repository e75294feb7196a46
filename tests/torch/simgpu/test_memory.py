"""Memory, streams and copies of the stand-in GPU as PyTorch's programs see them."""


def test_copies_are_true(memory):
    assert memory.fact("round_trips") == {
        "host": True,
        "device": True,
        "slice": True,
        "strided": True,
        "item": 7.0,
        "types": [[True] * 3, [1.0] * 3, [1] * 3],
    }


def test_memset_is_true(memory):
    assert memory.fact("memset_is_true") == 0


def test_a_kernels_output_is_zero_whatever_the_block_held(memory):
    assert memory.fact("kernels_have_no_effect_and_leave_no_stale_values") == 0


def test_no_kernel_shows_bytes_of_a_former_owner(memory):
    facts = memory.fact("no_kernel_shows_bytes_of_a_former_owner")
    assert facts["tried"] > 30 and facts["stale"] == {}


def test_kernels_that_only_move_bytes_are_true(memory):
    facts = memory.fact("kernels_that_only_move_bytes_are_true")
    assert facts["tried"] > 300 and facts["wrong"] == []


def test_small_results_that_decide_are_true(memory):
    assert memory.fact("small_results_that_decide_are_true") == {
        "left": [0, 1, 0],
        "finished": [False, True],
        "compared": [[True, False, True], [False, True, False], [True, False, True]],
        "reduced": [5, -2, 1],
        "any and all": [True, False, False],
        "inverted": [-6, 1, -6],
        "product": [0, 4, 0],
        "filled": [2.5, 2.5, 2.5],
        "computed": [0.0, 0.0, 0.0],
        "many": 0,
    }


def test_pinned_memory(memory):
    assert memory.fact("pinned_memory") == [True, False, True]


def test_data_loader_with_workers_and_pinned_batches(memory):
    assert memory.fact("data_loader_with_workers") is True


def test_an_event_is_done_when_the_modelled_work_is(memory):
    facts = memory.fact("events_are_not_done_at_once")
    assert facts["at_once"] is False and facts["after"] is True
    assert facts["ms"] > 20 * 3.5


def test_streams_order_by_events_alone(memory):
    assert memory.fact("streams_order_by_events") == {
        "independent": True,
        "dependent": False,
        "idle": False,
    }


def test_record_stream_keeps_a_block_until_the_other_stream_is_done(memory):
    facts = memory.fact("record_stream_keeps_the_block")
    assert facts == {"reused_while_busy": False, "reused_later": True}


def test_checkpoints_come_back_as_they_were_saved(memory):
    assert memory.fact("checkpoint_round_trip") == {"on_host": True, "on_device": True, "step": 3}


def test_activation_checkpointing(memory):
    assert memory.fact("activation_checkpointing") is True


def test_statistics_and_snapshot(memory):
    facts = memory.fact("statistics_and_snapshot")
    assert facts["taken"] == 64 << 20
    assert "alloc" in facts["traced"]
    assert facts["total"] == 24 << 30
    assert facts["used_is_reserved"]
    assert facts["keys"] > 100
