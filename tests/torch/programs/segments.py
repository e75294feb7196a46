"""levee with memory that other processes may map: backing=segments."""

import json

import levee

levee.install(backing="segments")

import torch  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402


def receive(queue, answers):
    import levee

    levee.install(backing="segments")
    tensor = queue.get()
    last = float(tensor[-1])
    tensor.copy_(torch.arange(1000, dtype=torch.float32).flip(0))
    backend = torch.cuda.get_allocator_backend()
    answers.put([float(tensor.sum()), last, list(tensor.shape), backend])
    queue.get()  # the owner has looked at it
    del tensor


def frees_of_a_callback() -> list[bool]:
    """Whether the trace has a stack for what is freed on behalf of a request that finds no memory.

    Asking for one there would wait for the GIL with the history's lock held, for which a thread that
    gives a tensor back may wait with the GIL.
    """
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    shared = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
    handle = shared.untyped_storage()._share_cuda_()
    address = shared.data_ptr()
    del shared  # stays: another process may still read it
    torch.UntypedStorage._release_ipc_counter_cuda(handle[4], handle[5])  # it is done
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    entries = [
        e for e in trace if e.get("addr") == address and e["action"] in ("alloc", "free_completed")
    ]
    return ["frames" in e for e in entries]


def main() -> None:
    segments = torch.cuda.memory_snapshot
    tensor = torch.arange(1000, dtype=torch.float32).to("cuda")
    assert not any(segment["is_expandable"] for segment in segments())
    handle = tensor.untyped_storage()._share_cuda_()
    said = {"handle": len(handle[1]) > 0, "offset": handle[3]}
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    child = context.Process(target=receive, args=(queue, answers))
    child.start()
    queue.put(tensor)
    said["answer"] = answers.get(timeout=120)
    assert float(tensor[0]) == 999.0
    queue.put(None)
    child.join()
    assert child.exitcode == 0
    said["has_stack"] = frees_of_a_callback()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
