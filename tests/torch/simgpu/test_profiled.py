"""torch.profiler finds the modelled kernels through CUPTI."""


def test_kernels_have_names_durations_and_launches(profiled):
    facts = profiled.fact("kernels_and_memory")
    assert facts["kernels"] > 5
    assert facts["durations"]
    assert facts["launched"] == facts["kernels"]
    assert facts["elementwise"] and facts["gemm"]
    assert facts["annotated"]
    assert "simgpu" in facts["device"]


def test_cudnn_plans_are_named_after_what_they_do(profiled):
    assert profiled.fact("kernels_and_memory")["cudnn"] == [
        "cudnn_convolution_backward_filter",
        "cudnn_convolution_forward",
    ]


def test_copies_and_memory_events_are_recorded(profiled):
    facts = profiled.fact("kernels_and_memory")
    assert facts["copies"] >= 1
    assert facts["memory"] > 10


def test_kernels_of_one_stream_do_not_overlap(profiled):
    assert profiled.fact("kernels_and_memory")["overlaps"] == 0


def test_the_table_adds_up_modelled_time(profiled):
    count, microseconds = profiled.fact("kernel_table")
    assert count == 3
    # 2 * 4096^3 operations are 440 us at the data sheet's peak.
    assert 3 * 440 < microseconds < 3 * 440 * 3


def test_a_schedule_records_its_active_steps(profiled):
    assert profiled.fact("scheduled") > 4


def test_the_nodes_of_a_replayed_graph_are_kernels(profiled):
    assert profiled.fact("graph_replays_are_seen") == 5
