"""Nothing that a file says is executed, crashes the reader or costs memory beyond it: one sentence, exit code 2."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import pickle
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MEMORY_LIMIT = 1 << 30  # bytes of address space on top of what the command needs anyway


class Evil:
    def __init__(self, command: str):
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def refused(levee: Any, path: Path, *sentences: str) -> str:
    code, out, err = levee("replay", path)
    assert code == 2, (code, out, err)
    assert out == ""
    assert err.startswith(f"levee: {path}") and err.count("\n") == 1, err
    for sentence in sentences:
        assert sentence in err
    return err


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_something_is_refused_and_nothing_runs(
    tmp_path: Path, levee: Any, protocol: int
) -> None:
    mark = tmp_path / "ran"
    path = tmp_path / "evil.pickle"
    content = {"segments": [], "device_traces": [[Evil(f"touch {mark}")]]}
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    refused(levee, path, "asks for the Python object posix.system", "nothing of it was run")
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x80\x02c__builtin__\neval\n(X\x03\x00\x00\x001+1tR.", id="global"),
        pytest.param(b"\x80\x02(cos\nsystem\no.", id="obj"),
        pytest.param(b"\x80\x02(ios\nsystem\n.", id="inst"),
        pytest.param(b"\x80\x02\x82\x01.", id="extension"),
        pytest.param(b"\x80\x02X\x01\x00\x00\x00aQ.", id="persistent"),
        pytest.param(b"\x80\x05\x97.", id="out-of-band buffer"),
        pytest.param(b"\x80\x02]b.", id="build"),
        pytest.param(b"\x80\x02))\x81.", id="newobj"),
        pytest.param(b"\x80\x02)R.", id="reduce"),
    ],
)
def test_every_way_to_a_class_is_refused(tmp_path: Path, levee: Any, content: bytes) -> None:
    path = tmp_path / "evil.pickle"
    path.write_bytes(content)
    refused(levee, path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.", id="length of bytes"),
        pytest.param(b"\x80\x04\x8d" + struct.pack("<Q", 2**64 - 1) + b"x.", id="length of text"),
        pytest.param(
            b"\x80\x04\x8b" + struct.pack("<I", 0xFFFFFFFF) + b"x.", id="length of number"
        ),
        pytest.param(b"\x80\x04Nr" + struct.pack("<I", 0xFFFFFFFF) + b".", id="memo index"),
        pytest.param(b"\x80\x04Np99999999999999999999\n.", id="memo index in text"),
        pytest.param(b"\x80\x04" + b"(" * 100_000 + b".", id="marks"),
        pytest.param(b"\x80\x04" + b"]" * 500_000 + b".", id="lists"),
        pytest.param(b"\x80\x04]" + b"\x94h\x00a" * 10_000 + b".", id="a list in itself"),
        pytest.param(b"\x80\x04aaaa.", id="nothing to append"),
        pytest.param(b"\x80\x04.", id="no value"),
        pytest.param(b"\x80\x04t.", id="no mark"),
        pytest.param(b"\x80\x04h\x07.", id="unknown memo"),
        pytest.param(b"\x80\x04Lnot a number\n.", id="bad number"),
        pytest.param(b"\x80", id="cut in the first instruction"),
    ],
)
def test_pickles_that_claim_what_they_do_not_hold(
    tmp_path: Path, levee: Any, content: bytes
) -> None:
    path = tmp_path / "claims.pickle"
    path.write_bytes(content)
    refused(levee, path)


def bomb_of_shared_lists() -> bytes:
    """A list of a million references to one list of a million references, in two megabytes."""
    out = io.BytesIO()
    out.write(b"\x80\x04}\x8c\x08segments](" + b"N" * 10 + b"e")
    out.write(b"\x8c\x0ddevice_traces](")
    out.write(b"]\x94(" + b"}" * 1000 + b"e" + b"h\x00" * 500_000)
    out.write(b"eu.")
    return out.getvalue().replace(b"}\x8c\x08segments", b"}(\x8c\x08segments", 1)


def test_a_shared_list_is_not_walked_again_and_again(tmp_path: Path, levee: Any) -> None:
    path = tmp_path / "bomb.pickle"
    path.write_bytes(bomb_of_shared_lists())
    refused(levee, path)


def test_a_snapshot_cut_anywhere_is_one_sentence(tmp_path: Path, levee: Any) -> None:
    whole = pickle.dumps(
        {
            "segments": [],
            "device_traces": [[{"action": "alloc", "addr": 1, "size": 2, "stream": 0}] * 20],
        }
    )
    path = tmp_path / "cut.pickle"
    for length in (1, 2, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(levee, path)


@pytest.mark.parametrize(
    "entry, sentence",
    [
        ({"action": "alloc", "addr": "0x7f", "size": 10}, "has no size or address"),
        ({"action": "alloc", "addr": 10, "size": -10}, "has no size or address"),
        ({"action": "alloc", "addr": 10, "size": 10**30}, "has no size or address"),
        ({"action": "alloc", "addr": 10, "size": 1.5}, "has no size or address"),
        ({"action": "alloc", "addr": 10, "size": 2**60}, "no allocation"),
        ({"action": 7, "addr": 10, "size": 10}, "no allocation"),
        (["alloc", 10, 10], "no allocation"),
    ],
)
def test_entries_of_wrong_types(tmp_path: Path, levee: Any, entry: Any, sentence: str) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[entry]]}))
    refused(levee, path, sentence)


@pytest.mark.parametrize(
    "content, sentence",
    [
        ({"a": 1}, "is no memory snapshot"),
        ([1, 2], "is no memory snapshot"),
        ({"segments": [], "device_traces": [[]]}, "_record_memory_history"),
        ({"segments": 7, "device_traces": {"x": "y"}}, "holds no history"),
    ],
)
def test_pickles_that_are_no_history(
    tmp_path: Path, levee: Any, content: Any, sentence: str
) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(content))
    refused(levee, path, sentence)


def memory_event(**changes: Any) -> dict[str, Any]:
    args = {"Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": 10, "Total Allocated": 10}
    return {"name": "[memory]", "ts": 1, "args": {**args, **changes}}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("{", "no trace of PyTorch's profiler"),
        ('{"traceEvents": [', "malformed or cut off"),
        ('{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"By', "malformed or cut off"),
        ('{"traceEvents": []}', "no [memory] events"),
        ('{"traceEvents": {}}', "malformed"),
        ('{"other": 1}', "has no traceEvents"),
        ("[" * 100_000, "malformed"),
        ('{"traceEvents": [' + '{"a":' * 100_000, "malformed"),
        (json.dumps({"traceEvents": [memory_event(Bytes=2**62)]}), "no [memory] events"),
        (json.dumps({"traceEvents": [memory_event(Bytes=10**40)]}), "no [memory] events"),
        (json.dumps({"traceEvents": [memory_event(**{"Device Id": 2**40})]}), "no [memory] events"),
        (json.dumps({"traceEvents": [memory_event(Bytes="ten")]}), "no [memory] events"),
        (json.dumps({"traceEvents": [memory_event(**{"Device Type": 0})]}), "no [memory] events"),
    ],
)
def test_profiler_traces_that_are_none(
    tmp_path: Path, levee: Any, text: str, sentence: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    refused(levee, path, sentence)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("a,1\n", "line 1 is no op"),
        ("a,1,10\na,x,10\n", "line 2 is no op"),
        ("a,1,99999999999999999999999\n", "line 1 is no op"),
        ("a,1,-5\n", "line 1 is no op"),
        ("z,1,5\n", "line 1 is no op"),
        ("# nothing\n", "no allocation"),
        ("time_us,action,block,bytes,stream\n1,alloc,1,ten,0\n", "line 2 is no op"),
        ("\0\0\0\0", "no recording that levee knows"),
    ],
)
def test_csv_that_is_none(tmp_path: Path, levee: Any, text: str, sentence: str) -> None:
    path = tmp_path / "o.csv"
    path.write_text(text)
    refused(levee, path, sentence)


def test_more_memory_than_exists_is_left_out_and_told(tmp_path: Path, levee: Any) -> None:
    path = tmp_path / "o.csv"
    path.write_text("".join(f"a,{i},{1 << 44},{i}\n" for i in range(5000)))
    code, out, err = levee("replay", path, "--policies", "native,levee,bound")
    assert code == 0, err
    assert "requests of impossible size are left out" in " ".join(out.split())


def test_files_that_are_not_there_or_no_files(tmp_path: Path, levee: Any) -> None:
    code, _, err = levee("replay", tmp_path / "none.pickle")
    assert code == 2 and "There is no file" in err
    refused(levee, tmp_path, "is a folder")
    (tmp_path / "empty").write_bytes(b"")
    refused(levee, tmp_path / "empty", "is empty")


@pytest.mark.parametrize("pack, suffix", [(gzip.compress, "gz"), (lzma.compress, "xz")])
def test_packed_files_that_are_cut_off_or_damaged(
    tmp_path: Path, levee: Any, pack: Any, suffix: str
) -> None:
    packed = pack(b"".join(b"a,%d,4096\n" % i for i in range(20_000)))
    path = tmp_path / f"o.csv.{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    refused(levee, path, "is cut off")
    path.write_bytes(packed[:1000] + b"\xff" * 100 + packed[1100:])
    refused(levee, path, "damaged")


@pytest.mark.parametrize("pack, suffix", [(gzip.compress, "gz"), (lzma.compress, "xz")])
def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(
    tmp_path: Path, levee: Any, pack: Any, suffix: str
) -> None:
    path = tmp_path / f"bomb.{suffix}"
    path.write_bytes(pack(b"\0" * (300 << 20)))
    refused(levee, path, "unpacks to more than")


def test_memory_stays_within_a_constant_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lists.pickle"
    path.write_bytes(b"\x80\x04" + b"]" * 4_000_000 + b".")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 * MEMORY_LIMIT, 3 * MEMORY_LIMIT))

    done = subprocess.run(
        [sys.executable, "-m", "levee", "replay", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
    )
    assert done.returncode == 2 and "is no memory snapshot" in done.stderr, done.stderr


def test_what_is_no_recording_at_all_is_told_so(tmp_path: Path, levee: Any) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    refused(levee, path, "is no recording that can be replayed", "levee replay --help")
