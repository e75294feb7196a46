"""`levee replay` on recordings of real PyTorch, on every format, and on options that make no sense."""

from __future__ import annotations

import gzip
import json
import lzma
import pickle
from pathlib import Path
from typing import Any

import pytest

MIB = 1 << 20

# 40 MiB live at most: two blocks of 10 MiB and one of 20; the second free makes room for the last.
OPS = f"""a,1,{10 * MIB}
a,2,{10 * MIB}
f,1
a,3,{20 * MIB},1
a,4,{10 * MIB}
f,2
f,3
f,4
"""


def of(found: dict[str, Any], policy: str) -> dict[str, Any]:
    return next(r for r in found["results"] if r["policy"] == policy)


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    path = tmp_path / "ops.csv"
    path.write_text(OPS)
    return path


# ---- Recordings of PyTorch.


def test_a_snapshot_is_replayed_as_pytorch_ran_it(job: Path, replay: Any) -> None:
    facts = json.loads((job / "facts.json").read_text())
    (found,) = replay(job / "history.pickle")
    assert found["kind"] == "PyTorch snapshot"
    assert found["is_complete"] and found["streams"] == 2
    assert found["recorded_peak_reserved"] == facts["peak_reserved"]
    assert found["peak_active"] == pytest.approx(facts["peak_allocated"], rel=0.01)
    assert of(found, "native")["peak_reserved"] == facts["peak_reserved"]
    assert of(found, "levee")["peak_reserved"] < of(found, "native")["peak_reserved"]
    assert of(found, "bound")["peak_reserved"] <= of(found, "levee")["peak_reserved"]


def test_a_history_that_starts_in_mid_run_starts_from_what_was_live(job: Path, replay: Any) -> None:
    facts = json.loads((job / "facts.json").read_text())
    (found,) = replay(job / "late.pickle")
    assert not found["is_complete"]
    assert found["live_at_start"] == pytest.approx(facts["live_before_late"], rel=0.01)
    assert "begins in mid-run" in found["about"] and "begins in mid-run" in found["text"]


def test_a_ring_that_overflowed_is_told(job: Path, replay: Any) -> None:
    (late,) = replay(job / "late.pickle")
    (found,) = replay(job / "ring.pickle")
    assert not found["is_complete"]
    assert 0 < found["requests"] < late["requests"]
    # Blocks that the lost part allocated and the kept part frees are live at its beginning.
    assert found["live_at_start"] > late["live_at_start"]


def test_a_profiler_trace_knows_steps_and_what_was_live(job: Path, replay: Any) -> None:
    facts = json.loads((job / "facts.json").read_text())
    (found,) = replay(job / "trace.json.gz")
    assert found["kind"] == "profiler trace" and found["steps"] == 2
    assert found["live_at_start"] == facts["live_before_profile"]
    assert found["peak_live"] == facts["profile_peak_allocated"]
    assert found["recorded_peak_reserved"] == facts["profile_peak_reserved"]
    assert "names no streams" in found["about"]


# ---- Formats.


@pytest.mark.parametrize(
    "suffix, pack", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_csv_plain_and_packed(tmp_path: Path, replay: Any, suffix: str, pack: Any) -> None:
    path = tmp_path / f"ops.csv{suffix}"
    path.write_bytes(pack(OPS.encode()))
    (found,) = replay(path)
    assert found["kind"] == "CSV" and found["name"] == "ops"
    assert found["is_complete"] and found["requests"] == 4 and found["streams"] == 2
    assert found["peak_live"] == 40 * MIB
    assert of(found, "levee")["peak_reserved"] == of(found, "bound")["peak_reserved"] == 40 * MIB


def test_history_csv_starts_from_blocks_that_it_frees(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "history.csv"
    path.write_text(
        "time_us,action,block,bytes,stream\n"
        f"1,alloc,5,{4 * MIB},0\n2,free_requested,9,{6 * MIB},0\n3,free_completed,9,{6 * MIB},0\n"
        f"4,alloc,9,{MIB},0\n"
    )
    (found,) = replay(path)
    assert found["live_at_start"] == 6 * MIB and found["peak_live"] == 10 * MIB


def snapshot(actions: list[tuple[str, int, int]], **more: Any) -> dict[str, Any]:
    trace = [
        {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": i, "frames": []}
        for i, (action, addr, size) in enumerate(actions)
    ]
    return {"segments": [], "device_traces": [trace], **more}


@pytest.mark.parametrize("protocol", range(6))
def test_every_pickle_protocol(tmp_path: Path, replay: Any, protocol: int) -> None:
    path = tmp_path / "s.pickle"
    actions = [
        ("segment_alloc", 4096, 20 * MIB),
        ("alloc", 4096, 3 * MIB),
        ("free_requested", 4096, 3 * MIB),
        ("free_completed", 4096, 3 * MIB),
        ("segment_free", 4096, 20 * MIB),
    ]
    path.write_bytes(pickle.dumps(snapshot(actions), protocol=protocol))
    (found,) = replay(path)
    assert found["is_complete"] and found["peak_live"] == 3 * MIB
    assert found["recorded_peak_reserved"] == 20 * MIB


def test_a_block_that_others_still_used_stays_until_the_history_says_so(
    tmp_path: Path, replay: Any
) -> None:
    actions = [
        ("alloc", 1 << 20, 8 * MIB),
        ("free_requested", 1 << 20, 8 * MIB),
        ("alloc", 1 << 30, 8 * MIB),
        ("free_completed", 1 << 20, 8 * MIB),
    ]
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot(actions)))
    (found,) = replay(path)
    assert found["peak_live"] == 16 * MIB
    assert "came back later" in found["about"]


def test_profiler_steps_of_a_snapshot_become_steps(tmp_path: Path, replay: Any) -> None:
    actions = [("alloc", 4096 * i, 1000) for i in range(1, 5)]
    marks = [
        {"device": 0, "time_us": t, "name": f"ProfilerStep#{t}", "stage": "START"} for t in (1, 3)
    ]
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot(actions, external_annotations=marks)))
    (found,) = replay(path)
    assert found["steps"] == 2


# ---- Steps have one number in all reports of a run.


def failing_in(replay: Any, path: Path) -> tuple[int, str]:
    (found,) = replay(path, "--capacity", "64MiB", "--policies", "native,levee,bound")
    places = {(r["first_failure_step"], r["first_failure_where"]) for r in found["results"]}
    (place,) = places
    assert f"at 1 request, the first {place[1]}" in found["text"]
    return place


def test_the_step_of_a_failure_is_that_of_the_file(tmp_path: Path, replay: Any) -> None:
    sizes = {4: 1000, 5: 1000, 6: 200 * MIB, 7: 1000}
    ops = tmp_path / "ops.csv"
    ops.write_text("a,0,1000\n" + "".join(f"s,{n}\na,{n},{b}\n" for n, b in sizes.items()))
    assert failing_in(replay, ops) == (6, "in step 6")

    actions = [("alloc", 1 << 30 | n << 12, b) for n, b in sizes.items()]
    marks = [
        {"device": 0, "time_us": i, "name": f"ProfilerStep#{n}", "stage": "START"}
        for i, n in enumerate(sizes)
    ]
    of_pickle = tmp_path / "s.pickle"
    of_pickle.write_bytes(pickle.dumps(snapshot(actions, external_annotations=marks)))
    assert failing_in(replay, of_pickle) == (6, "in step 6")

    events: list[dict[str, Any]] = []
    for i, (number, size) in enumerate(sizes.items()):
        # The profiler writes each step for the host, and again for the GPU.
        events += [
            {"name": f"ProfilerStep#{number}", "ts": 10 * i},
            {"name": f"ProfilerStep#{number}", "ts": 10 * i + 2, "cat": "gpu_user_annotation"},
        ]
        args = {"Device Type": 1, "Device Id": 0, "Addr": 4096 * (i + 1), "Bytes": size}
        events.append({"name": "[memory]", "ts": 10 * i + 1, "args": args})
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    assert failing_in(replay, trace) == (6, "in step 6")
    assert replay(trace)[0]["steps"] == 4


def test_a_failure_before_the_first_step_says_so(tmp_path: Path, replay: Any) -> None:
    ops = tmp_path / "ops.csv"
    ops.write_text(f"a,0,{200 * MIB}\ns,1\na,1,1000\n")
    assert failing_in(replay, ops) == (-1, "before the first step")


def test_saved_requests_keep_the_numbers_of_steps(tmp_path: Path, replay: Any) -> None:
    ops, saved = tmp_path / "ops.csv", tmp_path / "saved.csv"
    ops.write_text(f"e,1\na,0,1000\ns,2\na,1,{200 * MIB}\ns,3\n")
    replay(ops, "--save", saved)
    assert failing_in(replay, saved) == failing_in(replay, ops) == (2, "in step 2")


def test_saved_requests_of_a_run_under_levee_say_so(tmp_path: Path, replay: Any) -> None:
    path, saved = tmp_path / "s.pickle", tmp_path / "saved.csv"
    path.write_bytes(pickle.dumps(levees_own(60 * MIB)))
    (first,) = replay(path, "--save", saved)
    (again,) = replay(saved)
    assert again["under_levee"] and again["text"] == first["text"]


# ---- One base for all ratios.


def test_where_streams_share_blocks_everything_is_over_what_is_in_use(
    tmp_path: Path, levee: Any, replay: Any
) -> None:
    path = tmp_path / "ops.csv"
    path.write_text(f"a,1,{20 * MIB}\nr,1,,5\nf,1\na,2,{20 * MIB}\nf,2\n")
    (found,) = replay(path)
    assert (found["peak_live"], found["peak_active"]) == (20 * MIB, 40 * MIB)
    assert found["base"] == "active"
    assert of(found, "bound")["peak_reserved"] == 40 * MIB
    assert of(found, "bound")["ratio"] == 1
    assert "40.0 MiB in use at most" in found["text"] and "20.0 MiB were live" in found["text"]
    assert "(1 here) back 300 requests after its free" in found["models_leave_out"]
    _, out, _ = levee("replay", path, "--width", 150)
    assert "/ in use" in out and "/ live" not in out and found["models_leave_out"] in out
    assert "The models" not in levee("replay", path, "--policies", "levee,bound")[1]
    path.write_text(f"a,1,{20 * MIB}\nf,1\n")
    (plain,) = replay(path)
    assert plain["base"] == "live" and plain["models_leave_out"] == ""
    assert "/ live" in levee("replay", path, "--width", 150)[1]


# ---- Threads.


def by_two_threads() -> str:
    """A forward pass that allocates on one thread, a backward pass that frees on another, for thirty steps."""
    lines = []
    block = 0
    for step in range(30):
        lines.append(f"s,{step},,,4")
        ids = range(block, block + 300)
        lines += [f"a,{i},{(i % 7 + 1) * 3000 if i % 9 else 5 * MIB},,4" for i in ids]
        lines += [f"f,{i},,,11" for i in reversed(ids)]
        block += 300
    return "\n".join(lines) + "\n"


def measured(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if not key.endswith("_seconds")}


def test_each_request_by_the_thread_that_made_it(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "ops.csv"
    path.write_text(by_two_threads())
    asked = ("--policies", "levee", "--threads", "as-recorded")
    runs = [replay(path, *asked)[0] for _ in range(2)]
    assert runs[0]["threads"] == 2 and of(runs[0], "levee")["threads"] == 2
    assert measured(of(runs[0], "levee")) == measured(of(runs[1], "levee"))
    (one,) = replay(path, "--policies", "levee")
    assert one["threads"] == 2 and of(one, "levee")["threads"] == 1


def test_saved_requests_keep_their_threads(tmp_path: Path, replay: Any) -> None:
    path, saved = tmp_path / "ops.csv", tmp_path / "saved.csv.xz"
    path.write_text(by_two_threads())
    asked = ("--policies", "levee", "--threads", "as-recorded")
    (first,) = replay(path, *asked, "--save", saved)
    (again,) = replay(saved, *asked)
    assert again["threads"] == 2
    assert measured(of(again, "levee")) | {"trace": "ops"} == measured(of(first, "levee"))


def test_threads_that_nobody_recorded_are_not_made_up(ops: Path, levee: Any, replay: Any) -> None:
    code, out, err = levee("replay", ops, "--threads", "as-recorded")
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "ops does not say which thread made which request" in err
    assert replay(ops)[0]["threads"] is None


# ---- What comes out.


@pytest.mark.parametrize("suffix", ["csv", "csv.xz"])
def test_saved_requests_replay_the_same(
    job: Path, levee: Any, replay: Any, tmp_path: Path, suffix: str
) -> None:
    saved = tmp_path / f"ops.{suffix}"
    (first,) = replay(job / "late.pickle", "--save", saved)
    (again,) = replay(saved)
    for key in ("requests", "streams", "peak_active", "recorded_peak_reserved", "live_at_start"):
        assert again[key] == first[key]
    assert [r["peak_reserved"] for r in again["results"]] == [
        r["peak_reserved"] for r in first["results"]
    ]
    code, _, err = levee("replay", saved, saved, "--save", tmp_path / "x.csv")
    assert code == 2 and "--save takes one INPUT" in err


def test_the_text_names_reserved_live_and_card(levee: Any, tmp_path: Path) -> None:
    gib = 1 << 30
    actions = [
        ("segment_alloc", 1 << 40, 30 * gib),
        ("alloc", 1 << 40, 10 * gib),
        ("free_requested", 1 << 40, 10 * gib),
        ("free_completed", 1 << 40, 10 * gib),
        ("segment_free", 1 << 40, 30 * gib),
    ]
    path = tmp_path / "mine.pickle"
    path.write_bytes(pickle.dumps(snapshot(actions)))
    code, out, err = levee("replay", path, "--width", 100)
    assert code == 0 and err == ""
    text = " ".join(out.split())
    assert "Your run reserved 30.0 GiB for 10.0 GiB live (3.000)." in text
    assert "Under levee it would have been 10.0 GiB (1.000)" in text
    assert "it would have fitted a card of 12 GB, where it needed one of 32 GB" in text


def test_under_a_limit_it_says_who_finishes(tmp_path: Path, levee: Any, replay: Any) -> None:
    # One segment of 600 MiB, then every other piece of it free: native has no 200 MiB in one piece and cannot give
    # the segment back.
    lines = [f"a,0,{600 * MIB}", "f,0", *(f"a,{i},{30 * MIB}" for i in range(1, 21))]
    lines += [*(f"f,{i}" for i in range(1, 21, 2)), f"a,30,{200 * MIB}", ""]
    path = tmp_path / "ops.csv"
    path.write_text("\n".join(lines))
    (found,) = replay(path, "--limit", "1.02x", "--policies", "native,levee")
    assert found["capacity"] == 612 * MIB
    native, own = of(found, "native"), of(found, "levee")
    assert native["failures"] == 1 and own["failures"] == own["emergencies"] == 0
    assert "native runs out of memory at 1 request;" in found["text"]
    assert "levee finishes without an emergency" in found["text"]


def test_limits_that_differ_are_told_apart(ops: Path, replay: Any) -> None:
    said = [
        replay(ops, "--capacity", size, "--policies", "levee")[0]["text"]
        for size in ("1600MiB", "1640MiB", "2GiB", "1638400KiB")
    ]
    for text, size in zip(said, ("1,600 MiB", "1,640 MiB", "2 GiB", "1,600 MiB")):
        assert f"In {size} (" in text


def levees_own(peak: int) -> dict[str, Any]:
    actions = [("alloc", 1 << 40, 40 * MIB), ("free_requested", 1 << 40, 40 * MIB)]
    actions += [("free_completed", 1 << 40, 40 * MIB), ("alloc", 1 << 41, 60 * MIB)]
    return snapshot(actions, allocator_settings={"levee": "1.0", "levee_peak_reserved": [peak]})


def test_a_run_under_levee_is_told_what_levee_saves(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(levees_own(60 * MIB)))
    (found,) = replay(path)
    assert found["under_levee"] and found["recorded_peak_reserved"] == 60 * MIB
    text = found["text"]
    assert "Your run, under levee, reserved 60.0 MiB for 60.0 MiB live (1.000)." in text
    native = of(found, "native")["peak_reserved"]
    assert native == 100 * MIB and "100 MiB under PyTorch's defaults (1.667)" in text
    assert "levee already saves 40.0 MiB against PyTorch's defaults" in text
    assert "little to gain" not in text and "larger batch" not in text
    assert "The .levee recording that it was made from is the better input" in found["about"]


def test_where_levee_saves_nothing_it_says_that(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "s.pickle"
    settings = {"levee": "1.0", "levee_peak_reserved": [40 * MIB]}
    actions = [("alloc", 1 << 40, 40 * MIB)]
    path.write_bytes(pickle.dumps(snapshot(actions, allocator_settings=settings)))
    assert "At its peak levee saves nothing on this job." in replay(path)[0]["text"]


def test_a_seed_gives_the_same_pattern_again(replay: Any) -> None:
    peaks = [
        replay("pattern:random-large", "--policies", "native", "--seed", seed)[0]["peak_live"]
        for seed in (3, 3, 4)
    ]
    assert peaks[0] == peaks[1] != peaks[2]


@pytest.mark.parametrize("suffix", ["html", "png"])
def test_pictures_of_all_reserved_lines(ops: Path, levee: Any, tmp_path: Path, suffix: str) -> None:
    if suffix == "png":
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / f"lines.{suffix}"
    code, said, err = levee("replay", ops, "--picture", out)
    assert code == 0, err
    assert said.rstrip().endswith(str(out))
    content = out.read_bytes()
    if suffix == "png":
        assert content.startswith(b"\x89PNG")
    else:
        page = content.decode()
        for name in ("native", "expandable", "levee"):
            assert f'"label":"{name}"' in page
        assert '"x":"request"' in page


def test_json_goes_to_a_file_beside_the_text(ops: Path, levee: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    code, said, _ = levee("replay", ops, "--json", out)
    assert code == 0 and "allocator" in said
    found = json.loads(out.read_text())["inputs"][0]
    assert [r["policy"] for r in found["results"]] == ["native", "expandable", "levee", "bound"]
    assert max(of(found, "levee")["reserved_series"]) == of(found, "levee")["peak_reserved"]


def test_the_list_names_policies_and_patterns(levee: Any) -> None:
    code, out, _ = levee("replay", "--list", "--width", 200)
    assert code == 0
    for name in ("native", "expandable", "levee-move", "bound", "pattern:robson"):
        assert name in out


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([], "name a recording to replay"),
        (["--policies", "best"], 'there is no policy "best"'),
        (["--policies", ","], "--policies names none"),
        (["--limit", "fast"], '"fast" is no size'),
        (["--limit", "nanx"], '"nanx" is no size'),
        (["--capacity=-4GiB"], "a capacity is the memory that the device has"),
        (["--capacity", "-4GiB"], '"-4GiB" is no size of a GPU'),
        (["--limit", "-1x"], '"-1x" is no size'),
        (["--capacity", "99999999TiB"], "no size of a GPU"),
        (["--capacity", "8GiB", "--limit", "1.05x"], "give one of them"),
        (["--seed", "-1"], "--seed takes a number"),
        (["--picture", "lines.gif"], "must end in .html or .png"),
        (["--device", "5"], "no events of device 5"),
    ],
)
def test_options_that_make_no_sense_get_one_sentence(
    ops: Path, levee: Any, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    inputs = [ops] if arguments else []
    if "--device" in arguments:
        inputs = [tmp_path / "s.pickle"]
        inputs[0].write_bytes(pickle.dumps(snapshot([("alloc", 4096, 1000)])))
    code, out, err = levee("replay", *inputs, *arguments)
    assert code == 2 and out == ""
    assert err.startswith("levee: ") and err.count("\n") == 1
    assert sentence in err
