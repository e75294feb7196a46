"""levee and more than one process: forked workers, launchers, ranks, ends in any order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from under_levee import LEVEE_RUN, launch

WORKERS = """
import json, os, sys, gc
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        try:
            torch.zeros(1, device="cuda")
            return -1
        except RuntimeError as error:
            # Tensors of the parent die here without effect.
            global parents
            parents = None
            gc.collect()
            return index if "fork" in str(error) else -2

parents = [torch.zeros(100_000, device="cuda") for _ in range(20)]
before = torch.cuda.memory_allocated()
loader = torch.utils.data.DataLoader(Data(), batch_size=5, num_workers=2)
seen = sorted(int(x) for epoch in range(2) for batch in loader for x in batch)
assert torch.cuda.memory_allocated() == before
assert float(parents[3].sum()) == 0
print(json.dumps(seen))
"""


def test_data_loader_workers_neither_write_nor_crash(run, tmp_path: Path) -> None:
    ran = run(WORKERS, python=LEVEE_RUN)
    assert ran.json() == sorted(list(range(40)) * 2), ran.err
    assert len(list(tmp_path.glob("*.levee"))) == 1, "workers leave no recordings"


FORKED = """
import json, os, sys
import levee
levee.install()
import torch
{parent}
child = os.fork()
if child == 0:
    {child}
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
x = torch.ones(1000, device="cuda")
print(json.dumps([torch.cuda.memory_allocated(), levee.trace_path()]))
"""


def test_a_child_forked_after_cuda_has_started_is_told_so(run, tmp_path: Path) -> None:
    child = """
    tensor = None
    assert levee.trace_path() is None
    with levee.phase("x"):
        levee.mark_step()
    try:
        torch.zeros(1, device="cuda"); os._exit(3)
    except RuntimeError as error:
        assert "fork" in str(error)
"""
    ran = run(FORKED.format(parent="tensor = torch.zeros(1 << 20, device='cuda')", child=child))
    assert ran.json()[0] >= 1000
    assert len(list(tmp_path.glob("*.levee"))) == 1


def test_a_child_forked_before_cuda_has_started_uses_levee_itself(run, tmp_path: Path) -> None:
    child = """
    y = torch.ones(5000, device="cuda")
    assert torch.cuda.get_allocator_backend() == "levee" and torch.cuda.memory_allocated() >= 20000
    levee.flush()
    assert levee.trace_path()
"""
    ran = run(FORKED.format(parent="levee.mark_step()", child=child))
    assert ran.json()[0] >= 1000
    assert len(list(tmp_path.glob("*.levee"))) == 2, "each of the two records by itself"


RANK = """
import json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
x = torch.ones((rank + 1) * 1000, device="cuda")
print(json.dumps([rank, torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated(rank) > 0]), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def test_each_rank_of_torchrun_writes_its_own_file(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    folder = tmp_path / "records"
    folder.mkdir()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    endpoint = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    ran = launch(
        [*launcher, *endpoint, "-m", "levee", "run", str(script)],
        gpu="4GiB,count=2",
        env={"LEVEE_TRACE": f"{folder}/", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
    ).ok()
    assert '[0, "levee", true]' in ran.out and '[1, "levee", true]' in ran.out
    assert len(list(folder.glob("*.levee"))) == 2, list(folder.iterdir())
    assert len([line for line in ran.err.splitlines() if "serves the CUDA memory" in line]) == 1


SPAWN = """
import json
import torch
import torch.multiprocessing as mp

def work(index):
    torch.zeros(1000, device="cuda")
    assert torch.cuda.get_allocator_backend() == "levee"

if __name__ == "__main__":
    torch.zeros(1000, device="cuda")
    mp.spawn(work, nprocs=2)
    print(json.dumps("done"))
"""


def start_up_hook_is_installed() -> bool:
    return any((Path(folder) / "levee.pth").exists() for folder in sys.path if folder)


def test_spawned_processes_of_a_run_use_levee(run, tmp_path: Path) -> None:
    if not start_up_hook_is_installed():
        pytest.skip("the start-up hook comes with an installed wheel; this is a build tree")
    assert run(SPAWN, python=LEVEE_RUN).json() == "done"
    assert len(list(tmp_path.glob("*.levee"))) == 3


@pytest.mark.parametrize(
    "body",
    [
        "import builtins; builtins.keep = torch.zeros(1000, device='cuda')",
        "class Late:\n    def __del__(self): self.x.record_stream(torch.cuda.default_stream())\n"
        "late = Late(); late.x = torch.zeros(1000, device='cuda'); late.self = late",
        "import atexit; atexit.register(lambda: torch.zeros(50, device='cuda'))",
        # Not here: a daemon thread inside PyTorch at the end. Under any allocator PyTorch ends such a
        # process with SIGABRT.
        "import threading\nt = threading.Thread(target=lambda: [torch.zeros(10, device='cuda') "
        "for _ in range(2000)]); t.start()",
        "g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    y = torch.zeros(9, device='cuda')",
        "pool = torch.cuda.MemPool()\nwith torch.cuda.use_mem_pool(pool):\n"
        "    y = torch.zeros(9, device='cuda')",
        "import os; x = torch.zeros(9, device='cuda'); levee.flush(); os._exit(0)",
        "import sys, threading\nt = threading.Thread(target=lambda: (torch.zeros(9, device='cuda'), sys.exit(3)))\n"
        "t.start(); t.join()",
        "import threading\nheld = [torch.zeros(1 << 20, device='cuda')]\n"
        "def late():\n    threading.main_thread().join(); held.clear()\n"
        "    held.append(torch.zeros(3 << 20, device='cuda'))\n"
        "threading.Thread(target=late).start()",
        "import sys\nfor name in [n for n in sys.modules if n.startswith('levee')]: del sys.modules[name]\n"
        "del levee\nx = torch.zeros(1 << 22, device='cuda'); del x; torch.cuda.empty_cache()",
        "import ctypes\nx = torch.zeros(1 << 20, device='cuda')\n"
        "ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))",
        "import atexit; atexit.register(torch.cuda.empty_cache); atexit.register(torch.cuda.synchronize)",
        "import gc, os, sys\nx = torch.zeros(1 << 20, device='cuda')\nchild = os.fork()\n"
        "if child == 0:\n    del x; gc.collect(); sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0; torch.zeros(9, device='cuda')",
    ],
    ids=[
        *("static", "finalizer", "atexit", "thread", "graph", "pool", "hard-exit"),
        *(
            "exit-in-a-thread",
            "thread-after-main",
            "package-gone",
            "never-freed",
            "emptied-at-exit",
        ),
        "child-that-exits",
    ],
)
def test_processes_end_in_any_order(run, tmp_path: Path, body: str) -> None:
    ran = run(
        f"import levee; levee.install()\nimport torch\ntorch.zeros(1, device='cuda')\n{body}\n"
    ).ok()
    for line in ran.err.splitlines():
        assert "rror" not in line and "never handed out" not in line, ran.err
    assert len(list(tmp_path.glob("*.levee"))) == 1


# Small enough that the recording fills it within the steps of the program; a page of it is not even
# enough for the head of a file.
@pytest.mark.parametrize("disk", ["128k", "4k"])
def test_a_full_disk_ends_the_recording_and_nothing_else(run, tmp_path: Path, disk: str) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={disk}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        (folder / "others").write_bytes(bytes(4096))
        program = """
import random, torch
for step in range(4000):
    kept = [torch.empty(random.randrange(1, 99999), device="cuda") for _ in range(8)]
    if step % 20 == 0: torch.cuda.synchronize()
import levee
print([step, levee.stats()["allocation.all.allocated"]])
"""
        ran = run(program, python=LEVEE_RUN, env={"LEVEE_TRACE": str(folder / "run.levee")})
        assert ran.json()[0] == 3999 and ran.json()[1] >= 32000
        said = [line for line in ran.levee_lines() if "main door" not in line]
        assert len(said) == 1, ran.err
        assert said[0].startswith("recording is off: ")
        assert "No space left on device" in said[0] and "The program goes on" in said[0]
        if disk != "4k":
            report = launch(
                [sys.executable, "-m", "levee", "report", str(folder / "run.levee")], gpu=None
            )
            assert "recorded" in report.ok().out and "has no end mark" in report.out
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_an_exception_ends_with_a_readable_recording(run, tmp_path: Path) -> None:
    ran = run(
        "import torch\nx = torch.zeros(9, device='cuda')\nraise KeyError('x')", python=LEVEE_RUN
    )
    assert ran.returncode == 1
    assert len(list(tmp_path.glob("*.levee"))) == 1
