"""Several simulated GPUs in one process."""


def test_every_device_is_there(several_gpus):
    count, names = several_gpus.fact("devices")
    assert count == 3
    assert all("simgpu" in name for name in names)


def test_each_has_its_own_memory(several_gpus):
    assert several_gpus.fact("each_has_its_own_memory") == [True, True, True]


def test_copies_between_devices_are_true(several_gpus):
    assert several_gpus.fact("copies_between_devices") == [2, True, True]


def test_collectives_of_one_process_are_true(several_gpus):
    assert several_gpus.fact("collectives_of_one_process") == {
        "reduced": [[6.0] * 5] * 3,
        "broadcast": [0.0, 1.0, 2.0, 3.0],
        "gathered": [0, 0, 1, 1, 2, 2],
    }


def test_broadcast_and_gather(several_gpus):
    copies, whole = several_gpus.fact("broadcast_and_gather_of_comm")
    assert copies == [[0.0, 1.0, 2.0]] * 3
    assert whole == [0.0, 1.0, 2.0] * 3


def test_data_parallel(several_gpus):
    assert several_gpus.fact("data_parallel") == [[9, 4], True]


def test_a_model_split_over_devices(several_gpus):
    assert several_gpus.fact("model_split_over_devices") == [1, 0, 1]
