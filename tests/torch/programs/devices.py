"""levee on two devices in one process."""

import levee

levee.install()

import torch  # noqa: E402
from checks import Skip, raises, run_all  # noqa: E402

MiB = 1 << 20


def check_questions_make_no_context_on_an_unused_device():
    torch.zeros(1, device="cuda:0")
    if torch._C._cuda_hasPrimaryContext(1):
        raise Skip("the device has a context before anything was asked of it")
    assert torch.cuda.memory_allocated(1) == 0 == torch.cuda.memory_reserved(1)
    assert levee.stats(1)["reserved_bytes.all.current"] == 0
    torch.cuda.reset_peak_memory_stats(1)
    torch.cuda.reset_accumulated_memory_stats(1)
    torch.cuda.set_per_process_memory_fraction(0.5, 1)
    assert torch.cuda.get_per_process_memory_fraction(1) == 0.5
    torch.cuda.set_per_process_memory_fraction(1.0, 1)
    torch.cuda.empty_cache()
    torch.cuda.memory_snapshot()
    assert not torch._C._cuda_hasPrimaryContext(1)


def check_each_device_has_its_own_memory():
    assert torch.cuda.device_count() == 2
    first = torch.empty(3 * MiB, dtype=torch.uint8, device="cuda:0")
    assert torch.cuda.memory_allocated(0) >= 3 * MiB and torch.cuda.memory_allocated(1) == 0
    second = torch.empty(5 * MiB, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == 5 * MiB
    del first
    assert torch.cuda.memory_allocated(0) == 0 and torch.cuda.memory_allocated(1) == 5 * MiB
    del second


def check_copies_between_devices():
    source = torch.arange(100_000, dtype=torch.float32).to("cuda:0")
    there = source.to("cuda:1", non_blocking=True)
    back = there.cpu()
    assert torch.equal(back, torch.arange(100_000, dtype=torch.float32))
    # By a kernel that writes to the other device.
    strided = source.view(100, 1000)[:, ::2].to("cuda:1")
    assert strided.shape == (100, 500)
    # Memory that came after PyTorch had asked for peer access.
    later = torch.empty(40 << 20, dtype=torch.uint8, device="cuda:1")
    later[::3].copy_(torch.empty(40 << 20, dtype=torch.uint8, device="cuda:0")[::3])


def check_a_default_stream_of_another_device_is_waited_for():
    # Default streams of all devices have the same handle, 0. The copy gives device 1 access to device 0, without which
    # nothing there could use the tensor.
    torch.empty(1, device="cuda:0").to("cuda:1")
    allocated = torch.cuda.memory_allocated(0)
    read_there = torch.empty(64 * MiB, dtype=torch.uint8, device="cuda:0")
    with torch.cuda.device(1):
        torch.cuda._sleep(2_000_000_000)
    read_there.record_stream(torch.cuda.default_stream(1))
    read_there.record_stream(torch.cuda.default_stream(0))
    del read_there
    stats = torch.cuda.memory_stats(0)
    assert stats["allocated_bytes.all.current"] == allocated
    assert stats["active_bytes.all.current"] == allocated + 64 * MiB
    torch.cuda.synchronize(1)
    for _ in range(300):
        torch.empty(2 * MiB, dtype=torch.uint8, device="cuda:0")
    assert torch.cuda.memory_stats(0)["active_bytes.all.current"] == allocated


def check_limits_are_of_one_device():
    torch.cuda.set_per_process_memory_fraction(0.1, device=1)
    try:
        total = torch.cuda.mem_get_info(1)[1]
        error = raises(
            torch.OutOfMemoryError,
            lambda: torch.empty(total // 4, dtype=torch.uint8, device="cuda:1"),
        )
        assert "GPU 1" in str(error), error
        torch.empty(total // 4, dtype=torch.uint8, device="cuda:0")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device=1)


def check_tensors_die_on_any_device():
    for device in (0, 1):
        with torch.cuda.device(device):
            mixed = [torch.empty(n * 1000, device=f"cuda:{n % 2}") for n in range(1, 50)]
        with torch.cuda.device(1 - device):
            del mixed
    assert torch.cuda.memory_allocated(0) == 0 == torch.cuda.memory_allocated(1)


def check_snapshots_hold_both():
    keep = [torch.empty(1000, device="cuda:0"), torch.empty(1000, device="cuda:1")]
    assert {segment["device"] for segment in torch.cuda.memory_snapshot()} == {0, 1}
    del keep


if __name__ == "__main__":
    run_all(globals())
