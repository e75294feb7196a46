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
    print(json.dumps(said))


if __name__ == "__main__":
    main()
