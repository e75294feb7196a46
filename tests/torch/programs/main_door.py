"""What PyTorch offers on its allocator, through levee's main door."""

import contextlib
import gc
import io
import json
import pickle
import tempfile
import time
import warnings

import levee

DOOR = levee.install()

import torch  # noqa: E402
from checks import raises, run_all  # noqa: E402

MiB = 1 << 20
GiB = 1 << 30


def live() -> int:
    return torch.cuda.memory_allocated()


def fresh() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()


def check_it_took_the_main_door():
    assert DOOR == "torch" and levee.door() == "torch" and levee.is_installed()
    assert torch.cuda.get_allocator_backend() == "levee"
    assert levee.install() == "torch", "a second call is harmless"


def check_tensors_are_counted_and_given_back():
    fresh()
    before = live()
    tensor = torch.empty(10 * MiB, dtype=torch.uint8, device="cuda")
    assert live() - before == 10 * MiB
    assert torch.cuda.memory_reserved() >= live()
    del tensor
    assert live() == before


def check_a_request_of_no_bytes_takes_nothing():
    before = live()
    empty = torch.empty(0, device="cuda")
    assert empty.data_ptr() == 0
    assert live() == before
    assert torch.empty((0, 5), device="cuda").sum().item() == 0


def check_requested_bytes_are_exact_and_allocated_ones_rounded():
    fresh()
    start = torch.cuda.memory_stats()
    sizes = [1, 511, 512, 513, 4097, 100_003, MiB - 1, MiB, MiB + 1, 7_340_033, 50_000_001]
    tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    stats = torch.cuda.memory_stats()
    delta = {key: stats[key] - start[key] for key in stats if isinstance(stats[key], int)}
    assert delta["requested_bytes.all.current"] == sum(sizes)
    assert delta["allocation.all.current"] == len(sizes)
    assert delta["allocation.all.allocated"] == len(sizes)
    assert sum(sizes) <= delta["allocated_bytes.all.current"] <= 1.2 * sum(sizes)
    small = [size for size in sizes if size <= MiB]
    assert delta["requested_bytes.small_pool.current"] == sum(small)
    assert delta["allocation.large_pool.current"] == len(sizes) - len(small)
    del tensors


def check_peaks_and_accumulated_values_can_be_reset():
    fresh()
    base = live()
    tensor = torch.empty(64 * MiB, dtype=torch.uint8, device="cuda")
    del tensor
    assert torch.cuda.max_memory_allocated() - base == 64 * MiB
    assert torch.cuda.max_memory_reserved() >= 64 * MiB
    assert torch.cuda.memory_stats()["allocated_bytes.all.allocated"] >= 64 * MiB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == live()
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 0 == stats["allocated_bytes.all.freed"]
    assert "Allocated memory" in torch.cuda.memory_summary()


def check_the_numbers_add_up():
    tensors = [torch.empty(n * 100_000, dtype=torch.uint8, device="cuda") for n in range(1, 60)]
    del tensors[::3]
    stats = torch.cuda.memory_stats()
    for kind in ("all", "small_pool", "large_pool"):
        allocated = stats[f"allocated_bytes.{kind}.current"]
        assert stats[f"requested_bytes.{kind}.current"] <= allocated
        assert allocated <= stats[f"active_bytes.{kind}.current"]
    assert stats["active_bytes.all.current"] <= stats["reserved_bytes.all.current"]
    own = levee.stats()
    for key in ("allocated_bytes.all.current", "reserved_bytes.all.peak", "num_device_alloc"):
        assert own[key] == stats[key], key


def check_the_cache_is_emptied_on_request():
    fresh()
    tensor = torch.empty(512 * MiB, dtype=torch.uint8, device="cuda")
    free_with = torch.cuda.mem_get_info()[0]
    del tensor
    kept = torch.cuda.memory_reserved()
    assert kept >= 512 * MiB
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= kept - 500 * MiB
    assert torch.cuda.mem_get_info()[0] >= free_with + 500 * MiB


def check_memory_of_the_device_is_told():
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert total == torch.cuda.get_device_properties(0).total_memory


def check_the_memory_fraction_holds():
    fresh()
    assert torch.cuda.get_per_process_memory_fraction() == 1.0
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == 0.25
        error = raises(
            torch.OutOfMemoryError,
            lambda: torch.empty(total // 2, dtype=torch.uint8, device="cuda"),
        )
        assert "limit" in str(error), error
        keep = torch.empty(total // 8, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() <= total // 4
        del keep
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    raises(ValueError, lambda: torch.cuda.set_per_process_memory_fraction(1.5))
    for fraction in (-0.5, 1.5):
        error = raises(RuntimeError, lambda: torch._C._cuda_setMemoryFraction(fraction, 0))
        assert "invalid fraction" in str(error), error
    torch.empty(total // 2, dtype=torch.uint8, device="cuda")


def check_out_of_memory_is_pytorchs_error_with_levees_reason():
    fresh()
    total = torch.cuda.mem_get_info()[1]
    ooms = torch.cuda.memory_stats()["num_ooms"]
    error = raises(
        torch.OutOfMemoryError, lambda: torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    )
    assert isinstance(error, torch.cuda.OutOfMemoryError) and isinstance(error, RuntimeError)
    text = str(error)
    assert text.startswith("CUDA out of memory. Tried to allocate "), text
    assert "GPU 0 has a total capacity of" in text and "Advice" in text and "levee" in text, text
    assert torch.cuda.memory_stats()["num_ooms"] == ooms + 1
    # Nothing of it stays behind.
    torch.zeros(5, device="cuda").add_(1)
    torch.cuda.synchronize()
    huge = raises(
        torch.OutOfMemoryError, lambda: torch.empty(1 << 60, dtype=torch.uint8, device="cuda")
    )
    assert str(huge).startswith("CUDA out of memory. Tried to allocate more than 1EB"), huge


def check_memory_is_found_again_after_an_out_of_memory():
    fresh()
    total = torch.cuda.mem_get_info()[1]
    held = []
    with contextlib.suppress(torch.OutOfMemoryError):
        while True:
            held.append(torch.empty(total // 16, dtype=torch.uint8, device="cuda"))
    assert len(held) >= 14
    del held[::2]
    big = [torch.empty(total // 8 + 5, dtype=torch.uint8, device="cuda") for _ in range(3)]
    assert len(big) == 3


def check_out_of_memory_observers_are_told():
    fresh()
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
    total = torch.cuda.mem_get_info()[1]
    raises(torch.OutOfMemoryError, lambda: torch.empty(2 * total, dtype=torch.uint8, device="cuda"))
    assert len(seen) == 1, seen
    device, requested, device_total, device_free = seen[0]
    assert (device, requested, device_total) == (0, 2 * total, total)
    assert 0 < device_free <= total


def check_tensors_used_on_a_side_stream_are_kept_until_it_is_done():
    side = torch.cuda.Stream()
    for _ in range(20):
        tensor = torch.full((MiB,), 1.0, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            tensor * 2
        tensor.record_stream(side)
        del tensor
        torch.full((MiB,), 2.0, device="cuda")
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    assert stats["active_bytes.all.current"] >= stats["allocated_bytes.all.current"]
    # Views, empty tensors and memory that is not levee's.
    torch.empty(0, device="cuda").record_stream(side)
    torch.empty(100, device="cuda")[10:].record_stream(side)


def check_memory_moves_between_streams():
    streams = [torch.cuda.Stream() for _ in range(4)]
    fresh()
    for round_number in range(8):
        with torch.cuda.stream(streams[round_number % 4]):
            tensor = torch.empty(256 * MiB, dtype=torch.uint8, device="cuda")
            tensor.fill_(1)
            del tensor
    # One block is enough for all of them.
    assert torch.cuda.max_memory_reserved() < 1 * GiB, torch.cuda.max_memory_reserved()


def check_raw_memory_as_extensions_ask_for_it():
    before = live()
    pointer = torch.cuda.caching_allocator_alloc(5 * MiB)
    assert pointer and live() - before >= 5 * MiB
    torch.cuda.caching_allocator_delete(pointer)
    assert live() == before
    stream = torch.cuda.Stream()
    pointer = torch.cuda.caching_allocator_alloc(MiB, stream=stream)
    torch.cuda.caching_allocator_delete(pointer)
    error = raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(12345 << 20))
    assert "levee" in str(error) and "pointer" in str(error), error


def check_raw_memory_of_no_bytes_is_none():
    before = live()
    assert torch.cuda.caching_allocator_alloc(0) == 0
    torch.cuda.caching_allocator_delete(0)
    assert live() == before


def check_devices_that_are_not_there_are_refused_as_pytorch_does():
    for device in (-1, 7):
        for call in (
            lambda device=device: torch._C._cuda_memoryStats(device),
            lambda device=device: torch._C._cuda_getCheckpointState(device, (0, 1)),
        ):
            text = str(raises(RuntimeError, call))
            assert f"Allocator not initialized for device {device}" in text, text


def check_accelerator_calls_reach_levee():
    tensor = torch.empty(8 * MiB, dtype=torch.uint8, device="cuda")
    assert torch.accelerator.memory_allocated() == live() >= 8 * MiB
    assert torch.accelerator.memory_reserved() == torch.cuda.memory_reserved()
    assert torch.accelerator.max_memory_allocated() == torch.cuda.max_memory_allocated()
    assert torch.accelerator.memory_stats()["allocation.all.current"] >= 1
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    del tensor
    torch.accelerator.empty_cache()


def tiles(segments) -> None:
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at, (segment["address"], block)
            at += block["size"]
        assert at == segment["address"] + segment["total_size"], segment["address"]


def check_a_snapshot_tiles_its_segments_and_agrees_with_the_counters():
    side = torch.cuda.Stream()
    tensors = [torch.empty(n * 50_000, dtype=torch.uint8, device="cuda") for n in range(1, 40)]
    with torch.cuda.stream(side):
        tensors += [torch.empty(n * MiB, dtype=torch.uint8, device="cuda") for n in range(1, 9)]
    del tensors[::2]
    segments = torch.cuda.memory_snapshot()
    tiles(segments)
    stats = torch.cuda.memory_stats()

    def total(key):
        return sum(segment[key] for segment in segments)

    assert total("total_size") == stats["reserved_bytes.all.current"]
    assert total("allocated_size") == stats["allocated_bytes.all.current"]
    assert total("active_size") == stats["active_bytes.all.current"]
    assert total("requested_size") == stats["requested_bytes.all.current"]
    addresses = {
        block["address"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    assert all(tensor.untyped_storage().data_ptr() in addresses for tensor in tensors)


def check_memory_history_is_recorded_in_pytorchs_format():
    from torch.cuda import _memory_viz

    fresh()
    torch.cuda.memory._record_memory_history(max_entries=10_000)
    try:
        tensors = [torch.empty(n * 300_000, dtype=torch.uint8, device="cuda") for n in range(1, 30)]
        sizes = [tensor.numel() for tensor in tensors]
        del tensors[::2]
        torch.empty(700 * MiB, dtype=torch.uint8, device="cuda")
        with contextlib.suppress(torch.OutOfMemoryError):
            torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        snapshot = torch.cuda.memory._snapshot()
        with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
            torch.cuda.memory._dump_snapshot(file.name)
            snapshot = pickle.load(open(file.name, "rb"))
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    tiles(snapshot["segments"])
    trace = snapshot["device_traces"][0]
    actions = [entry["action"] for entry in trace]
    assert actions.count("alloc") == len(sizes) + 1
    assert actions.count("free_requested") == actions.count("free_completed")
    assert [entry["size"] for entry in trace if entry["action"] == "alloc"][:-1] == sizes
    assert "oom" in actions
    now = time.time() * 1e6
    times = [entry["time_us"] for entry in trace]
    assert times == sorted(times) and now - 120e6 < times[0] <= times[-1] <= now + 1e6, times[:3]
    frames = next(entry["frames"] for entry in trace if entry["action"] == "alloc")
    assert any("main_door.py" in frame["filename"] for frame in frames), frames
    replay(snapshot)
    assert "MiB" in _memory_viz.segsum(snapshot)
    assert " free completed for " in _memory_viz.trace(snapshot)
    assert "<html" in _memory_viz.trace_plot(snapshot).lower()
    del tensors


def replay(snapshot) -> None:
    """Backwards from the segments, as PyTorch's viewer does: each live block lies in mapped memory."""
    ranges = [(s["address"], s["address"] + s["total_size"]) for s in snapshot["segments"]]
    alive = {
        block["address"]: block["size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }

    def subtract(low, high):
        kept = []
        for start, end in ranges:
            if end <= low or start >= high:
                kept.append((start, end))
                continue
            if start < low:
                kept.append((start, low))
            if end > high:
                kept.append((high, end))
        return kept

    def covered(low, high):
        at = low
        for start, end in sorted(ranges):
            if start <= at < end:
                at = end
        return at >= high

    for entry in reversed(snapshot["device_traces"][0]):
        address, size = entry.get("addr"), entry["size"]
        if entry["action"] in ("segment_map", "segment_alloc"):
            assert covered(address, address + size), entry
            ranges = subtract(address, address + size)
        elif entry["action"] in ("segment_unmap", "segment_free"):
            ranges.append((address, address + size))
        elif entry["action"] == "free_completed":
            alive[address] = size
        elif entry["action"] == "alloc":
            alive.pop(address, None)
        for start, length in alive.items():
            assert covered(start, start + length), (entry, hex(start), length)


def check_the_history_takes_the_stacks_that_were_asked_for():
    def is_told(entry):
        return any(
            "check_the_history_takes" in frame["name"] for frame in entry.get("frames") or []
        )

    for context, live, alloc, free in (
        ("all", True, True, True),
        ("alloc", True, True, False),
        ("state", True, False, False),
        (None, False, False, False),
    ):
        torch.cuda.memory._record_memory_history(context=context, max_entries=1000)
        try:
            kept = torch.empty(3 * MiB, dtype=torch.uint8, device="cuda")
            gone = torch.empty(5 * MiB, dtype=torch.uint8, device="cuda")
            del gone
            raises(RuntimeError, lambda: torch.cuda.caching_allocator_delete(12345 << 20))
            snapshot = torch.cuda.memory._snapshot()
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        (block,) = (
            block
            for segment in snapshot["segments"]
            for block in segment["blocks"]
            if block["address"] == kept.data_ptr()
        )
        by_action = {}
        for entry in snapshot["device_traces"][0]:
            by_action.setdefault(entry["action"], []).append(entry)
        assert is_told(block) == live, context
        assert [is_told(entry) for entry in by_action["alloc"]] == [alloc] * 2, context
        assert [is_told(entry) for entry in by_action["free_requested"]] == [free], context
        assert len(by_action["free_completed"]) == 1, context
        del kept


def check_metadata_and_annotations_reach_the_history():
    assert torch._C._cuda_memoryMetadataSupported()
    torch.cuda.memory._record_memory_history(max_entries=1000)
    try:
        torch._C._cuda_setMemoryMetadata("embedding")
        tensor = torch.empty(3 * MiB, dtype=torch.uint8, device="cuda")
        torch._C._cuda_setMemoryMetadata("")
        with torch.profiler.record_function("a region"):
            pass
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    marked = [e for e in snapshot["device_traces"][0] if e.get("user_metadata") == "embedding"]
    assert [entry["size"] for entry in marked if entry["action"] == "alloc"] == [3 * MiB]
    del tensor


def check_the_profiler_sees_memory():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        tensor = torch.empty(11 * MiB, dtype=torch.uint8, device="cuda")
        del tensor
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        trace = json.load(open(file.name))
    events = [
        event["args"]
        for event in trace["traceEvents"]
        if event.get("name") == "[memory]" and event["args"]["Device Type"] == 1
    ]
    assert [event["Bytes"] for event in events] == [11 * MiB, -11 * MiB], events
    assert events[0]["Addr"] == events[1]["Addr"]
    assert events[0]["Total Allocated"] - events[1]["Total Allocated"] == 11 * MiB
    assert events[0]["Total Reserved"] >= events[0]["Total Allocated"]


def check_convolutions_choose_a_workspace():
    torch.backends.cudnn.benchmark = True
    try:
        layer = torch.nn.Conv2d(3, 8, 3, padding=1).cuda()
        layer(torch.randn(2, 3, 32, 32, device="cuda")).sum().backward()
    finally:
        torch.backends.cudnn.benchmark = False


def check_training_with_everything_that_people_use():
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), num_layers=2
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(6):
        data = torch.randn(2, 16 + 7 * step, 64).pin_memory().to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(data).float().pow(2).mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    assert levee.stats()["num_steps"] >= 1


def check_pinned_memory_stays_pytorchs():
    tensor = torch.empty(1000, pin_memory=True)
    assert tensor.is_pinned()
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] > 0


def check_pools_of_their_own():
    fresh()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(30 * MiB, dtype=torch.uint8, device="cuda")
    outside = torch.empty(30 * MiB, dtype=torch.uint8, device="cuda")
    segments = pool.snapshot()
    tiles(segments)
    assert {tuple(segment["segment_pool_id"]) for segment in segments} == {tuple(pool.id)}
    assert sum(segment["allocated_size"] for segment in segments) >= 30 * MiB
    blocks = {b["address"] for s in segments for b in s["blocks"] if b["state"] != "inactive"}
    assert inside.data_ptr() in blocks and outside.data_ptr() not in blocks
    assert pool.use_count() >= 1
    by_pool = torch.cuda.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"]
    assert any(value["all"]["current"] >= 30 * MiB for value in by_pool.values()), by_pool
    reserved = torch.cuda.memory_reserved()
    name = tuple(pool.id)
    del inside, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 28 * MiB
    del outside
    # As PyTorch does, statistics keep a pool that is gone.
    by_pool = torch.cuda.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"]
    gone = by_pool[name]["all"]
    assert gone["current"] == 0 and gone["freed"] == gone["allocated"] >= gone["peak"], gone
    assert gone["peak"] >= 30 * MiB
    torch.cuda.reset_peak_memory_stats()
    by_pool = torch.cuda.memory_stats_as_nested_dict()["reserved_bytes_by_private_pools"]
    assert by_pool[name]["all"]["peak"] == 0


def check_a_pool_lends_when_memory_runs_out_if_asked_to():
    fresh()
    total = torch.cuda.mem_get_info()[1]
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(total // 2, dtype=torch.uint8, device="cuda")
    del inside
    outside = torch.empty(total * 3 // 4, dtype=torch.uint8, device="cuda")
    del outside, pool


def check_a_pool_with_an_allocator_of_its_own_is_refused_by_name():
    error = raises(
        RuntimeError, lambda: torch.cuda.MemPool(torch._C._cuda_customAllocator(1 << 20, 1 << 20))
    )
    assert "createOrIncrefPool" in str(error) and "levee" in str(error), error


def check_graphs_are_captured_and_replayed():
    fresh()
    layer = torch.nn.Linear(512, 512).cuda()
    static = torch.randn(64, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            layer(static).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    layer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(static)
        scratch = [torch.empty(n * 200_000, device="cuda") for n in range(1, 6)]
        del scratch
        loss = out.sum()
    held = {
        block["address"]
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment["segment_pool_id"]) != (0, 0)
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    assert out.data_ptr() in held
    for _ in range(5):
        graph.replay()
        torch.empty(5 * MiB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    assert loss.item() == loss.item()
    # A second graph may share the pool.
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        again = layer(static) + 1
    second.replay()
    del graph, second, out, again, loss
    gc.collect()
    torch.cuda.empty_cache()


def check_graphed_callables():
    layer = torch.nn.Linear(64, 64).cuda()
    graphed = torch.cuda.make_graphed_callables(layer, (torch.randn(8, 64, device="cuda"),))
    for _ in range(3):
        graphed(torch.randn(8, 64, device="cuda", requires_grad=True)).sum().backward()


def check_graph_trees():
    @torch.compile(backend="cudagraphs", dynamic=False)
    def compute(x):
        return (x * 2 + 1).relu().sum(dim=1)

    @torch.compile(backend="cudagraphs", dynamic=False)
    def follow(x):
        return x.exp() * 3

    for step in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        width = 128 if step % 3 else 256
        first = compute(torch.randn(32, width, device="cuda"))
        second = follow(first)
        del first
        second.sum().item()
        del second
    torch._dynamo.reset()


def check_checkpoints_of_a_pool():
    device = torch.cuda.current_device()
    pool = torch.cuda.graph_pool_handle()
    torch._C._cuda_beginAllocateCurrentThreadToPool(device, pool)
    kept = torch.empty(4 * MiB, dtype=torch.uint8, device="cuda")
    dropped = torch.empty(6 * MiB, dtype=torch.uint8, device="cuda")
    torch._C._cuda_endAllocateToPool(device, pool)
    state = torch._C._cuda_getCheckpointState(device, pool)
    addresses = {kept.data_ptr(), dropped.data_ptr()}
    assert torch._C._cuda_checkPoolLiveAllocations(device, pool, addresses)
    assert not torch._C._cuda_checkPoolLiveAllocations(device, pool, {kept.data_ptr()})
    weak = dropped.untyped_storage()._weak_ref()
    assert weak
    before = live()
    del dropped
    assert live() == before - 6 * MiB
    torch._C._cuda_setCheckpointPoolState(device, state, [], [])
    assert live() == before
    assert torch._C._cuda_checkPoolLiveAllocations(device, pool, addresses)
    # Nobody owns the restored block any more: it goes back by its address, as graph trees do it.
    (other,) = addresses - {kept.data_ptr()}
    torch._C._cuda_cudaCachingAllocator_raw_delete(other)
    assert live() == before - 6 * MiB
    del kept
    torch._C._cuda_releasePool(device, pool)


def check_checkpoints_of_a_pool_that_is_none_or_gone_are_refused():
    device = torch.cuda.current_device()
    error = raises(RuntimeError, lambda: torch._C._cuda_getCheckpointState(device, (0, 123456)))
    assert "getCheckpointState" in str(error), error
    pool = torch.cuda.graph_pool_handle()
    torch._C._cuda_beginAllocateCurrentThreadToPool(device, pool)
    kept = torch.empty(4 * MiB, dtype=torch.uint8, device="cuda")
    torch._C._cuda_endAllocateToPool(device, pool)
    state = torch._C._cuda_getCheckpointState(device, pool)
    torch._C._cuda_releasePool(device, pool)
    before = live()
    error = raises(
        RuntimeError, lambda: torch._C._cuda_setCheckpointPoolState(device, state, [], [])
    )
    assert "setCheckpointPoolState" in str(error), error
    assert live() == before, "nothing was changed"
    del kept


def check_memory_of_pages_is_not_shared_by_ipc_and_says_so():
    tensor = torch.empty(1000, device="cuda")
    error = raises(RuntimeError, lambda: tensor.untyped_storage()._share_cuda_())
    assert "LEVEE_BACKING=segments" in str(error), error
    torch._C._cuda_cudaCachingAllocator_enable(False)
    try:
        foreign = torch.empty(1000, device="cuda")
    finally:
        torch._C._cuda_cudaCachingAllocator_enable(True)
    error = raises(RuntimeError, lambda: foreign.untyped_storage()._share_cuda_())
    assert "is no memory that levee handed out" in str(error), error
    given_back = torch.empty(5 * MiB, dtype=torch.uint8, device="cuda")
    torch.cuda.caching_allocator_delete(given_back.data_ptr())
    error = raises(RuntimeError, lambda: given_back.untyped_storage()._share_cuda_())
    assert "is in no live block" in str(error), error
    error = raises(RuntimeError, lambda: given_back.record_stream(torch.cuda.Stream()))
    assert "record_stream" in str(error), error


def check_ipc_handles_of_others_and_broken_ones_are_refused():
    def opened(handle):
        return torch.UntypedStorage._new_shared_cuda(0, handle, 100, 0, b"", 0, b"", False)

    error = raises(RuntimeError, lambda: opened(b"x" * 76))
    assert "was not made by levee" in str(error), error
    error = raises(RuntimeError, lambda: opened(b"levee-ipc-1:" + b"x" * 64))
    assert "CUDA error" in str(error), error
    torch.zeros(5, device="cuda").add_(1)


def check_pool_calls_that_name_no_pool_are_refused():
    device = torch.cuda.current_device()
    for name, call in (
        (
            "beginAllocateToPool",
            lambda: torch._C._cuda_beginAllocateCurrentThreadToPool(device, (0, 0)),
        ),
        ("endAllocateToPool", lambda: torch._C._cuda_endAllocateToPool(device, (0, 987654))),
        ("releasePool", lambda: torch._C._cuda_releasePool(device, (0, 987654))),
    ):
        assert name in str(raises(RuntimeError, call))


def check_caching_can_be_switched_off_and_on():
    torch._C._cuda_cudaCachingAllocator_enable(False)
    try:
        before, free = live(), torch.cuda.mem_get_info()[0]
        tensor = torch.empty(20 * MiB, dtype=torch.uint8, device="cuda")
        assert live() == before, "uncached memory is not levee's"
        assert torch.cuda.mem_get_info()[0] <= free - 20 * MiB
        del tensor
        assert torch.cuda.mem_get_info()[0] == free
    finally:
        torch._C._cuda_cudaCachingAllocator_enable(True)


def check_marks_are_taken():
    steps = levee.stats()["num_steps"]
    with levee.phase("outer"), levee.phase("inner"):
        torch.empty(10, device="cuda")

    @levee.phase("decorated")
    def work():
        return levee.mark_step()

    work()
    assert levee.stats()["num_steps"] == steps + 1
    # From the first mark by hand on, optimizers do not count.
    parameter = torch.nn.Parameter(torch.zeros(3, device="cuda"))
    parameter.grad = torch.zeros_like(parameter)
    torch.optim.SGD([parameter], lr=0.1).step()
    assert levee.stats()["num_steps"] == steps + 1


def check_recording_is_on_and_says_where():
    levee.flush()
    assert levee.trace_path(), "nothing is recorded"


def check_options_come_too_late():
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        levee.install(page_size="64MiB")
    assert "page_size cannot be changed any more" in text.getvalue()
    raises(levee.LeveeError, lambda: levee.install(page_siez="64MiB"))


def check_threads():
    import threading

    errors = []

    def work(seed):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for n in range(300):
                    keep = torch.empty((seed * 7919 + n * 104729) % (4 * MiB) + 1, device="cuda")
                    if n % 3 == 0:
                        keep.record_stream(torch.cuda.default_stream())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def check_no_warnings_about_what_people_use_without_need():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.reset_max_memory_allocated()
        torch.cuda.list_gpu_processes
    assert not [w for w in caught if "levee" in str(w.message)], [str(w.message) for w in caught]


if __name__ == "__main__":
    run_all(globals())
