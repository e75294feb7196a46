"""What PyTorch can do with an allocator of two C functions, through levee's plain door."""

import levee

DOOR = levee.install(door="plain")

import torch  # noqa: E402
from checks import raises, run_all  # noqa: E402

MiB = 1 << 20


def check_it_took_the_plain_door():
    assert DOOR == "plain" and levee.door() == "plain"
    assert torch.cuda.get_allocator_backend() == "pluggable"


def check_memory_is_levees():
    torch.zeros(1, device="cuda")
    before = levee.stats()["allocated_bytes.all.current"]
    tensor = torch.empty(10 * MiB, dtype=torch.uint8, device="cuda")
    assert levee.stats()["allocated_bytes.all.current"] - before == 10 * MiB
    del tensor
    assert levee.stats()["allocated_bytes.all.current"] == before


def check_a_request_of_no_bytes_takes_nothing():
    before = levee.stats()["allocation.all.current"]
    assert torch.empty(0, device="cuda").data_ptr() == 0
    assert levee.stats()["allocation.all.current"] == before


def check_training():
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        model(torch.randn(8 + step, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def check_out_of_memory_is_typed_and_leaves_nothing_behind():
    total = torch.cuda.mem_get_info()[1]
    error = raises(
        torch.OutOfMemoryError, lambda: torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    )
    assert str(error).startswith("CUDA out of memory. Tried to allocate "), error
    torch.zeros(5, device="cuda").add_(1)
    torch.cuda.synchronize()
    assert levee.stats()["num_ooms"] >= 1


def check_side_streams_are_waited_for():
    side = torch.cuda.Stream()
    for _ in range(10):
        tensor = torch.full((MiB,), 1.0, device="cuda")
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.default_stream())
            tensor * 2
        tensor.record_stream(side)
        del tensor
    torch.empty(0, device="cuda").record_stream(side)
    torch.cuda.synchronize()
    tensor = torch.empty(64 * MiB, dtype=torch.uint8, device="cuda")
    allocated = levee.stats()["allocated_bytes.all.current"]
    with torch.cuda.stream(side):
        torch.cuda._sleep(2_000_000_000)
    tensor.record_stream(side)
    del tensor
    stats = levee.stats()
    assert stats["allocated_bytes.all.current"] == allocated - 64 * MiB
    assert stats["active_bytes.all.current"] >= allocated
    torch.cuda.synchronize()


def check_the_cache_is_emptied():
    tensor = torch.empty(256 * MiB, dtype=torch.uint8, device="cuda")
    del tensor
    reserved = levee.stats()["reserved_bytes.all.current"]
    torch.cuda.empty_cache()
    assert levee.stats()["reserved_bytes.all.current"] <= reserved - 250 * MiB


def check_what_levee_refuses_is_an_error_of_pytorch():
    device = torch.cuda.current_device()
    calls = [
        lambda: torch._C._cuda_setMemoryFraction(1.5, device),
        lambda: torch._C._cuda_beginAllocateCurrentThreadToPool(device, (0, 0)),
        lambda: torch._C._cuda_endAllocateToPool(device, (0, 987654)),
        lambda: torch._C._cuda_releasePool(device, (0, 987654)),
    ]
    for call in calls:
        assert "levee: " in str(raises(RuntimeError, call))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.zeros(1000, device="cuda") + 1
        assert "levee: " in str(raises(RuntimeError, torch.cuda.empty_cache))
    graph.replay()
    torch.cuda.synchronize()
    del graph, out


def check_the_memory_fraction_holds():
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        raises(
            torch.OutOfMemoryError,
            lambda: torch.empty(total // 2, dtype=torch.uint8, device="cuda"),
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    torch.empty(total // 2, dtype=torch.uint8, device="cuda")


def check_graphs_are_captured_and_replayed():
    static = torch.randn(64, 64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        static @ static
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static @ static
        scratch = torch.empty(5 * MiB, dtype=torch.uint8, device="cuda")
        del scratch
    inside = out.data_ptr()
    outside = [torch.empty(n * 100_000, device="cuda") for n in range(1, 20)]
    for tensor in outside:
        start, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        assert not start <= inside < end, "memory of a graph was lent while it lives"
    graph.replay()
    torch.cuda.synchronize()
    del graph, out


def check_the_base_of_an_allocation():
    tensor = torch.empty(1000, device="cuda")
    # Pages cannot be shared; PyTorch's pluggable class refuses by itself.
    raises(RuntimeError, lambda: tensor.untyped_storage()._share_cuda_())


def check_marks_and_recording():
    steps = levee.stats()["num_steps"]
    with levee.phase("a phase"):
        levee.mark_step()
    assert levee.stats()["num_steps"] == steps + 1
    levee.flush()
    assert levee.trace_path()


if __name__ == "__main__":
    run_all(globals())
