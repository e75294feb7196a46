"""levee with memory that other processes may map: backing=segments."""

import json
import sys

import levee

levee.install(backing="segments")

import torch  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402


def receive(queue, answers):
    import levee

    levee.install(backing="segments")
    tensor = queue.get()
    answers.put([float(tensor.sum()), list(tensor.shape), torch.cuda.get_allocator_backend()])
    del tensor


def main() -> None:
    segments = torch.cuda.memory_snapshot
    tensor = torch.arange(1000, dtype=torch.float32).to("cuda")
    assert not any(segment["is_expandable"] for segment in segments())
    handle = tensor.untyped_storage()._share_cuda_()
    said = {"handle": len(handle[1]) > 0, "offset": handle[3]}
    if sys.argv[1:] == ["processes"]:
        context = mp.get_context("spawn")
        queue, answers = context.Queue(), context.Queue()
        child = context.Process(target=receive, args=(queue, answers))
        child.start()
        queue.put(tensor)
        said["answer"] = answers.get(timeout=120)
        child.join()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
