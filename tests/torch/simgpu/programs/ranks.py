"""One rank of a job that uses the stand-in NCCL directly, without PyTorch.

ranks.py SCENARIO RANK RANKS UNIQUE_ID_HEX
"""

import ctypes
import os
import sys
import threading
import time

from checks import check

LIBRARY = ctypes.CDLL(os.environ["SIMGPU_LIB"] + "/libnccl.so.2")
LIBRARY.ncclGetLastError.restype = ctypes.c_char_p
SIMGPU = ctypes.CDLL(os.environ["SIMGPU_LIB"] + "/libsimgpu.so")
SIMGPU.simgpu_now_ns.restype = ctypes.c_int64
SIMGPU.simgpu_launch_for.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
INT32, FLOAT32, SUM, PROD, MAX = 2, 7, 0, 1, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def last_error():
    return LIBRARY.ncclGetLastError(None).decode()


def call(name, *arguments):
    code = getattr(LIBRARY, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: {code}: {last_error()}")


def ints(values):
    return (ctypes.c_int32 * len(values))(*values)


def size(count):
    return ctypes.c_size_t(count)


class Rank:
    def __init__(self, rank, ranks, unique_id):
        self.rank, self.ranks, self.comm = rank, ranks, ctypes.c_void_p()
        LIBRARY.ncclCommInitRank.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_int,
            UniqueId,
            ctypes.c_int,
        ]
        call("ncclCommInitRank", ctypes.byref(self.comm), ranks, unique_id, rank)

    def all_reduce(self, values, op=SUM):
        send, receive = ints(values), ints([0] * len(values))
        call("ncclAllReduce", send, receive, size(len(values)), INT32, op, self.comm, None)
        return list(receive)


def clock_ahead_of_host():
    """Seconds of modelled time that the host did not spend itself."""
    return (SIMGPU.simgpu_now_ns() - time.monotonic_ns()) * 1e-9


def unique_id():
    made = UniqueId()
    call("ncclGetUniqueId", ctypes.byref(made))
    return made


def run_scenario(name, rank):
    me, ranks = rank.rank, rank.ranks
    if name == "chunks":
        # Several chunks of 256 KiB: every value must arrive, at its place.
        count = 200_000
        mine = [me + i % 7 for i in range(count)]
        assert rank.all_reduce(mine) == [sum(range(ranks)) + ranks * (i % 7) for i in range(count)]
        gathered = ints([0] * (count // 2 * ranks))
        call(
            "ncclAllGather",
            ints([me * 1000 + i % 1000 for i in range(count // 2)]),
            gathered,
            size(count // 2),
            INT32,
            rank.comm,
            None,
        )
        assert list(gathered) == [
            r * 1000 + i % 1000 for r in range(ranks) for i in range(count // 2)
        ]
        piece = ints([0] * 50_000)
        call(
            "ncclReduceScatter",
            ints(range(50_000 * ranks)),
            piece,
            size(50_000),
            INT32,
            SUM,
            rank.comm,
            None,
        )
        assert list(piece) == [ranks * (me * 50_000 + i) for i in range(50_000)]
        swapped = ints([0] * (40_000 * ranks))
        call(
            "ncclAlltoAll",
            ints([me * 10 + i // 40_000 for i in range(40_000 * ranks)]),
            swapped,
            size(40_000),
            INT32,
            rank.comm,
            None,
        )
        assert list(swapped) == [r * 10 + me for r in range(ranks) for _ in range(40_000)]
        # What a group sends is read at its end.
        sent = ints([me] * 100_000)
        received = ints([0] * 100_000)
        call("ncclGroupStart")
        call(
            "ncclSend",
            sent,
            size(100_000),
            INT32,
            (me + 1) % ranks,
            rank.comm,
            None,
        )
        call("ncclRecv", received, size(100_000), INT32, (me - 1) % ranks, rank.comm, None)
        call("ncclGroupEnd")
        assert set(received) == {(me - 1) % ranks}
        return "ok"
    if name == "split":
        part, count, place = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        call("ncclCommSplit", rank.comm, me % 2, -me, ctypes.byref(part), None)
        call("ncclCommCount", part, ctypes.byref(count))
        call("ncclCommUserRank", part, ctypes.byref(place))
        total = ints([0])
        call("ncclAllReduce", ints([me]), total, size(1), INT32, SUM, part, None)
        return [count.value, place.value, total[0]]
    if name == "unequal_work":
        # One rank works ten times as long as the other, in turns; then several collectives without
        # a wait of the host between them, as the buckets of data parallel training.
        ahead = []
        for step in range(6):
            work_ns = 500_000_000 if (step + me) % 2 else 50_000_000
            assert SIMGPU.simgpu_launch_for(None, b"work", work_ns) == 0
            for _ in range(5):
                rank.all_reduce([1])
            assert SIMGPU.simgpu_synchronize(None) == 0
            ahead.append(clock_ahead_of_host())
        return ahead
    if name == "unequal_senders":
        # Messages go round while the ranks' work differs: a receiver waits for its sender, once.
        ahead = []
        for step in range(6):
            work_ns = 500_000_000 if (step + me) % 2 else 50_000_000
            assert SIMGPU.simgpu_launch_for(None, b"work", work_ns) == 0
            for _ in range(5):
                value = ints([me])
                call("ncclGroupStart")
                call("ncclSend", value, size(1), INT32, (me + 1) % ranks, rank.comm, None)
                call("ncclRecv", ints([0]), size(1), INT32, (me - 1) % ranks, rank.comm, None)
                call("ncclGroupEnd")
            assert SIMGPU.simgpu_synchronize(None) == 0
            ahead.append(clock_ahead_of_host())
        return ahead
    if name == "disagree":
        values = ints([1, 2, 3])
        code = LIBRARY.ncclAllReduce(values, values, size(2 + me % 2), INT32, SUM, rank.comm, None)
        return [code, last_error()]
    if name == "gone":
        assert rank.all_reduce([1]) == [ranks]
        if me == ranks - 1:
            return "left"
        try:
            rank.all_reduce([1])
        except RuntimeError as error:
            return str(error)
    if name == "abort":
        # A rank that waits for one that never comes is set free by an abort from another thread.
        if me == ranks - 1:
            # Comes back when rank 0 has left.
            code = LIBRARY.ncclRecv(ints([0]), size(1), INT32, 0, rank.comm, None)
            return [code, last_error()]
        threading.Timer(0.3, lambda: LIBRARY.ncclCommAbort(rank.comm)).start()
        values = ints([1])
        begin = time.monotonic()
        code = LIBRARY.ncclAllReduce(values, values, size(1), INT32, SUM, rank.comm, None)
        return [code, time.monotonic() - begin < 1.5]
    raise ValueError(name)


if len(sys.argv) > 1:
    SCENARIO = sys.argv[1]
    RANK = Rank(
        int(sys.argv[2]), int(sys.argv[3]), UniqueId.from_buffer_copy(bytes.fromhex(sys.argv[4]))
    )

    @check
    def result():
        return run_scenario(SCENARIO, RANK)
