"""The stand-in NCCL by itself: ranks in processes, in threads and in one group, without PyTorch."""

import concurrent.futures
import glob
import json
import secrets
import sys

import pytest

from on_simgpu import FACTS, HERE, run_on_simgpu


def ranks_of(scenario, ranks):
    """Runs the ranks of a job side by side; what each one's check returned, by rank."""
    name = f"simgpu-nccl-test-{secrets.token_hex(8)}"
    unique_id = name.encode().ljust(128, b"\0").hex()

    def one(rank):
        command = [
            sys.executable,
            str(HERE / "programs" / "ranks.py"),
            scenario,
            str(rank),
            str(ranks),
            unique_id,
        ]
        done = run_on_simgpu(command, timeout=60)
        line = next((text for text in done.stdout.splitlines() if FACTS in text), None)
        assert line is not None, done.stdout
        found = json.loads(line.split(FACTS, 1)[1])["facts"]["result"]
        return found.get("value", found.get("error"))

    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        results = list(pool.map(one, range(ranks)))
    assert glob.glob(f"/dev/shm/{name}*") == [], "a name was left behind in /dev/shm"
    return results


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_byte_arrives(ranks):
    assert ranks_of("chunks", ranks) == ["ok"] * ranks


def test_a_split_orders_ranks_by_key():
    assert ranks_of("split", 4) == [[2, 1, 2], [2, 1, 4], [2, 0, 2], [2, 0, 4]]


@pytest.mark.parametrize("scenario", ["unequal_work", "unequal_senders"])
def test_ranks_of_unequal_work_do_not_drive_each_others_clocks_up(scenario):
    # In each of six steps the longer of the ranks works for half a second: that is all by which the
    # clock of any rank can get further ahead of the host's, however many collectives there are. The
    # rest is slack for what the calls and the collectives themselves are said to take. Less is right
    # too: a host that is slow spends some of that time itself.
    for ahead in ranks_of(scenario, 2):
        assert isinstance(ahead, list), ahead
        assert all(now < 0.5 * step + 0.3 for step, now in enumerate(ahead, 1)), ahead
        assert ahead[-1] > 0.3, ahead


def test_ranks_that_disagree_are_told_how():
    for code, text in ranks_of("disagree", 2):
        assert code == 5
        assert "ranks disagree" in text and "2 elements" in text and "3 elements" in text


def test_a_rank_that_has_ended_is_not_waited_for():
    first, last = ranks_of("gone", 2)
    assert last == "left"
    assert "gone: rank 1" in first


def test_an_abort_sets_a_waiting_rank_free():
    first, last = ranks_of("abort", 2)
    code, is_prompt = first
    assert code != 0 and is_prompt
    code, text = last
    assert code != 0 and "gone: rank 0" in text


def test_ranks_of_one_process():
    source = f"""
import ctypes, sys, threading
sys.path.insert(0, {str(HERE / "programs")!r})
sys.argv = sys.argv[:1]
import ranks
from checks import check

@check
def threads():
    made, results = ranks.unique_id(), [None] * 3
    def run(me):
        rank = ranks.Rank(me, 3, made)
        results[me] = [rank.all_reduce([me, 2]), rank.all_reduce([me, 2], ranks.MAX)]
    workers = [threading.Thread(target=run, args=(me,)) for me in range(3)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    return results

@check
def one_group():
    comms = (ctypes.c_void_p * 2)()
    ranks.call("ncclCommInitAll", comms, 2, None)
    values = [ranks.ints([1, 10]), ranks.ints([2, 20])]
    ranks.call("ncclGroupStart")
    for comm, value in zip(comms, values):
        ranks.call("ncclAllReduce", value, value, ranks.size(2), ranks.INT32, ranks.PROD, ctypes.c_void_p(comm), None)
    ranks.call("ncclGroupEnd")
    return [list(v) for v in values]

@check
def unknown_device():
    comms = (ctypes.c_void_p * 2)()
    devices = (ctypes.c_int * 2)(0, 9)
    code = ranks.LIBRARY.ncclCommInitAll(comms, 2, devices)
    return [code, ranks.last_error()]
"""
    done = run_on_simgpu([sys.executable, "-c", source], gpu="2GiB,count=2")
    line = next(text for text in done.stdout.splitlines() if FACTS in text)
    facts = json.loads(line.split(FACTS, 1)[1])["facts"]
    assert facts["threads"]["value"] == [[[3, 6], [2, 2]]] * 3
    assert facts["one_group"]["value"] == [[2, 200], [2, 200]]
    code, text = facts["unknown_device"]["value"]
    assert code != 0 and "no device 9" in text
