"""Exports as the programs they are for read them."""

from __future__ import annotations

import gzip
import json
import pickle
import pickletools

import pytest

pytestmark = pytest.mark.view

# Opcodes that torch's MemoryViz.js reads.
VIEWER_OPCODES = set(
    "PROTO FRAME MARK STOP EMPTY_LIST EMPTY_DICT EMPTY_TUPLE LIST DICT TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS "
    "SETITEM SETITEMS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINPUT "
    "LONG_BINPUT MEMOIZE BINGET LONG_BINGET".split()
)


class NoClasses(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"the pickle names {module}.{name}")


@pytest.fixture(scope="module")
def snapshot(traces, tmp_path_factory, levee):
    out = tmp_path_factory.mktemp("viz") / "s.pickle"
    code, _, err = levee("export", traces["storms"], "--to", "memory_viz", "-o", out)
    assert code == 0, err
    return out


def test_what_was_reserved_stands_beside_the_segments(traces, tmp_path, levee):
    from levee import _format

    out = tmp_path / "s.pickle"
    code, said, err = levee("export", traces["storms"], "--to", "memory_viz", "-o", out)
    assert code == 0 and said == f"{out}\n"
    (device,) = json.loads(levee("report", traces["storms"], "--json")[1])["devices"]
    peak = device["peak_reserved_bytes"]
    assert err.startswith("Its segments are the address ranges ever used") and err.count("\n") == 1
    assert f"{_format.size(peak)} at most" in err
    with out.open("rb") as file:
        assert NoClasses(file).load()["allocator_settings"]["levee_peak_reserved"] == [peak]
    (found,) = json.loads(levee("replay", out, "--policies", "bound", "--json", "-")[1])["inputs"]
    assert found["recorded_peak_reserved"] == peak and found["under_levee"]
    assert "the better input" in found["about"]


def test_snapshot_uses_only_what_the_viewer_reads(snapshot):
    used = {opcode.name for opcode, _, _ in pickletools.genops(snapshot.read_bytes())}
    assert used <= VIEWER_OPCODES, used - VIEWER_OPCODES


def test_snapshot_is_consistent(snapshot):
    with snapshot.open("rb") as file:
        content = NoClasses(file).load()
    assert set(content) >= {
        "segments",
        "device_traces",
        "allocator_settings",
        "external_annotations",
    }
    ranges = []
    for segment in content["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
            assert block["state"] in ("active_allocated", "active_pending_free", "inactive")
        assert at == segment["address"] + segment["total_size"]
        allocated = sum(b["size"] for b in segment["blocks"] if b["state"] == "active_allocated")
        assert segment["allocated_size"] == allocated
        ranges.append((segment["address"], at))
    live = set()
    for entry in content["device_traces"][0]:
        if entry["action"] == "oom":
            continue
        assert any(a <= entry["addr"] < b for a, b in ranges)
        if entry["action"] == "alloc":
            assert entry["addr"] not in live
            live.add(entry["addr"])
        elif entry["action"] == "free_completed":
            live.remove(entry["addr"])
    times = [e["time_us"] for e in content["device_traces"][0]]
    assert times == sorted(times)
    frames = next(e["frames"] for e in content["device_traces"][0] if e["frames"])
    assert frames[0] == {"filename": "model.py", "name": "__init__", "line": 30}


def test_torch_reads_the_snapshot(snapshot):
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="PyTorch is not installed")
    with snapshot.open("rb") as file:
        content = pickle.load(file)
    assert "MEM[" in viz.trace(content)
    assert viz.segsum(content)


@pytest.fixture(scope="module")
def chrome(traces, tmp_path_factory, levee):
    out = tmp_path_factory.mktemp("chrome") / "t.json.gz"
    code, text, err = levee("export", traces["storms"], "--to", "chrome", "-o", out)
    assert code == 0 and text.strip() == str(out), err
    return json.loads(gzip.decompress(out.read_bytes()))


def test_chrome_trace_agrees_with_the_report(chrome, traces, levee):
    report = json.loads(levee("report", traces["storms"], "--json")[1])
    events = chrome["traceEvents"]
    assert all(event["name"] for event in events)
    memory = [e for e in events if e["name"] == "[memory]"]
    device = report["devices"][0]
    assert len(memory) == device["allocations"] + device["frees"]
    assert max(e["args"]["Total Allocated"] for e in memory) == device["peak_allocated_bytes"]
    assert max(e["args"]["Total Reserved"] for e in memory) == device["peak_reserved_bytes"]
    assert sum(e["args"]["Bytes"] for e in memory) == 0
    assert all(isinstance(e["tid"], int) for e in memory)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert kernels and all(isinstance(e["args"]["device"], int) for e in kernels)
    assert len([e for e in events if e["name"].startswith("ProfilerStep#")]) == 40
    emergencies = [e for e in events if e["name"].startswith("emergency")]
    assert len(emergencies) == report["emergency_count"]
    assert emergencies[0]["args"]["advice"] == report["emergencies"][0]["text"]["advice"]
    counters = [e for e in events if e["ph"] == "C"]
    assert max(e["args"]["reserved"] for e in counters) == device["peak_reserved_bytes"]
    times = [e["ts"] for e in memory]
    assert times == sorted(times)


def test_profiler_file_has_the_name_its_viewer_looks_for(traces, tmp_path, levee):
    out = tmp_path / "tb"
    code, _, err = levee("export", traces["storms"], "--to", "tensorboard", "--profiler", "-o", out)
    assert code == 0, err
    (file,) = out.glob("*.pt.trace.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    assert not [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    assert 100 < len([e for e in events if e["name"] == "[memory]"]) < 11_000


def test_parquet_tables_keep_their_schema(traces, tmp_path, levee):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    out = tmp_path / "run.parquet"
    code, _, err = levee("export", traces["storms"], "--to", "parquet", "-o", out)
    assert code == 0, err
    schema = {
        name: [f"{f.name}: {f.type}" for f in parquet.read_schema(out / f"{name}.parquet")]
        for name in sorted(p.stem for p in out.glob("*.parquet"))
    }
    golden = json.loads(
        (__import__("pathlib").Path(__file__).parent / "parquet_schema.json").read_text()
    )
    assert (
        schema == golden
    ), "a changed schema needs a new version and a line in allocator/export/README.md"
    blocks = parquet.read_table(out / "blocks.parquet")
    report = json.loads(levee("report", traces["storms"], "--json")[1])
    assert blocks.num_rows == report["devices"][0]["allocations"]
    assert parquet.read_table(out / "events.parquet").num_rows == report["source"]["events"]
    assert parquet.read_schema(out / "steps.parquet").metadata[b"levee.version"] == b"1"


def test_perfetto_trace_is_well_formed(traces, tmp_path, levee):
    proto = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2",
        reason="the perfetto package is not installed",
    )
    out = tmp_path / "t.pftrace"
    code, _, err = levee("export", traces["storms"], "--to", "perfetto", "-o", out)
    assert code == 0, err
    trace = proto.Trace()
    trace.ParseFromString(out.read_bytes())
    report = json.loads(levee("report", traces["storms"], "--json")[1])
    names, last, depth, peak, slices = {}, 0, {}, 0, set()
    event = proto.TrackEvent
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        if not packet.HasField("track_event"):
            continue
        assert packet.timestamp >= last
        last = packet.timestamp
        uuid = packet.track_event.track_uuid
        if packet.track_event.type == event.TYPE_SLICE_BEGIN:
            depth[uuid] = depth.get(uuid, 0) + 1
            slices.add(names[packet.track_event.name_iid])
        elif packet.track_event.type == event.TYPE_SLICE_END:
            depth[uuid] -= 1
            assert depth[uuid] >= 0
        else:
            peak = max(peak, packet.track_event.counter_value)
    assert set(depth.values()) == {0}
    assert peak == report["devices"][0]["peak_reserved_bytes"]
    assert {"step 0", "storm", "forward", "cuMemCreate", "emergency: device full"} <= slices
