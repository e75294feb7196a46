"""The commands: what they print, and what they say about bad input."""

from __future__ import annotations

import _thread
import io
import json
import os
import sys
import threading
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.view


def one_sentence(err: str) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert lines[0].startswith("levee: ") and lines[0].endswith((".", '"'))
    assert "Traceback" not in err
    return lines[0]


def test_report_of_several_ranks_names_the_one_that_stalls(make_trace, tmp_path, levee):
    for rank in range(4):
        make_trace(tmp_path / f"rank{rank}.levee", "rank", rank)
    code, out, err = levee("report", tmp_path, "--width", 120)
    assert code == 0, err
    assert out.startswith("rank 2 holds the others up")
    code, out, err = levee("report", tmp_path, "--json")
    merged = json.loads(out)["merged"]
    assert [r["label"] for r in merged["ranks"]] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert merged["ranks"][2]["cost_ns"] > 10e6 > merged["ranks"][1]["cost_ns"]


def test_a_long_list_of_runs_keeps_its_columns(make_trace, tmp_path, levee):
    for i in range(11):
        make_trace(tmp_path / f"run{i:02}.levee", "calm")
    code, out, err = levee("report", tmp_path, "--width", 120)
    assert code == 0, err
    rows = [line for line in out.splitlines() if line.split()[1:2] and ".levee" in line.split()[1]]
    assert [int(row.split()[0]) for row in rows] == list(range(1, 12))
    assert len({row.index("run") for row in rows}) == 1, out


def test_what_a_report_cannot_do_is_said_in_a_sentence(traces, levee):
    code, out, err = levee("report", traces["calm"], "--width", 3)
    assert code == 2 and not out
    assert one_sentence(err) == "levee: --width 3: a report needs at least 20 columns."
    assert levee("report", traces["calm"], "--width", 20)[0] == 0
    code, out, err = levee("report", traces["calm"], "--run", 1)
    assert code == 2 and not out
    assert "is one recording; --run goes with a folder" in one_sentence(err)


def test_the_columns_of_who_holds_memory_add_up(traces, levee):
    report = json.loads(levee("report", traces["storms"], "--json")[1])
    device = report["devices"][0]
    device["holders_by_phase"] = [
        {"origin": f"phase{i}", "bytes": 1 << 20, "blocks": 2} for i in range(7)
    ]
    device["peak_allocated_bytes"] = 10 << 20  # 3 MiB of which the record knows no block
    printed = _printed(report)
    assert "phase4" in printed and "phase5" not in printed
    others = next(line for line in printed.splitlines() if line.strip().startswith("others"))
    assert others.split() == ["others", "5.00", "MiB", "50.0", "%", "4"]


def test_what_the_advice_of_a_refusal_refers_to_is_shown_under_that_name(
    make_trace, tmp_path, levee
):
    """A refusal for where the free bytes lay: message, list and JSON say the same bytes."""
    path = tmp_path / "split.levee"
    make_trace(path, "split")
    report = json.loads(levee("report", path, "--json")[1])
    device = report["devices"][0]
    free = device["at_refusal"]["partial_page_bytes"]
    assert sum(row["pinned_bytes"] for row in device["between"]) == free == 4 << 30
    code, out, err = levee("report", path, "--width", 120)
    assert code == 0, err
    unwrapped = " ".join(out.split())
    assert "4.00 GiB were free, but not in one usable piece" in unwrapped
    assert 'lists under "Free bytes between live blocks"' in unwrapped
    assert "Free bytes between live blocks (refused at 3.00 ms)" in unwrapped
    rows = [line.split() for line in out.splitlines()]
    assert ["cache", "4,096", "4.00", "GiB", "4.00", "GiB"] in rows
    assert ["in", "all", "4.00", "GiB"] in rows
    assert "Recorded with --stacks, this list names lines of the program" in unwrapped


def test_the_refusal_that_the_advice_speaks_of_is_shown_however_short(traces, levee):
    report = json.loads(levee("report", traces["storms"], "--json")[1])
    first = report["emergencies"][0]
    short = {**first, "duration_ns": 1, "outcome": "out of memory"}
    short["text"] = {**first["text"], "headline": "The refused one."}
    report["emergencies"] += [first] * 5 + [short]
    report["emergency_count"] += 6
    assert "The refused one." in _printed(report)


def _printed(report) -> str:
    from rich.console import Console

    from levee import _report

    text = io.StringIO()
    _report.Printer(Console(file=text, width=120)).run(report)
    return text.getvalue()


def test_runs_that_have_nothing_to_do_with_each_other_are_listed_and_not_merged(
    make_trace, tmp_path, levee
):
    """Two launches of four ranks, a script of its own, and something unreadable: four runs."""
    for launch in (1, 2):
        for rank in range(4):
            make_trace(tmp_path / f"job{launch}-rank{rank}.levee", "rank", 10 * launch + rank)
    make_trace(tmp_path / "alone.levee", "calm")
    (tmp_path / "broken.levee").write_bytes(b"LEV")
    code, out, err = levee("report", tmp_path, "--width", 120)
    assert code == 0, err
    assert out.startswith("4 runs in ") and "holds the others up" not in out
    rows = [line.split() for line in out.splitlines() if ".levee" in line][:4]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert "job2-rank0.levee (4 ranks)" in " ".join(rows[0])  # the newest first
    assert "job1-rank0.levee (4 ranks)" in " ".join(rows[1])
    assert "alone.levee" in rows[2] and "broken.levee" in rows[3]
    unwrapped = " ".join(out.split())  # the folder's name may be long
    assert "Run 4: " in unwrapped and "--run 1" in unwrapped
    code, out, err = levee("report", tmp_path, "--run", 2, "--width", 120)
    assert code == 0 and out.startswith("rank 2 holds the others up")
    code, out, err = levee("report", tmp_path, "--run", 3, "--width", 120)
    assert code == 0 and out.startswith("alone")
    for number in (0, 5):
        code, out, err = levee("report", tmp_path, "--run", number)
        assert code == 2 and f"--run {number}: 4 runs are in" in one_sentence(err)
    code, out, err = levee("report", tmp_path, "--run", 4)
    assert code == 2 and "broken.levee" in one_sentence(err)


def test_one_unreadable_run_does_not_keep_the_others_out_of_the_json(make_trace, tmp_path, levee):
    for name in ("a", "b"):
        make_trace(tmp_path / f"{name}.levee", "calm")
    broken = tmp_path / "c\x1b[31m.levee"
    broken.write_bytes(b"LEV")
    code, out, err = levee("report", tmp_path, "--json")
    assert code == levee("report", tmp_path)[0] == 0
    runs = json.loads(out)["runs"]
    assert sorted(run["source"]["label"] for run in runs) == ["a", "b"]
    assert "Run 3: " in one_sentence(err) and "c\\x1b[31m.levee" in err
    (tmp_path / "b.levee").unlink()
    code, out, err = levee("report", tmp_path, "--json")
    assert code == 0 and one_sentence(err)
    assert [run["source"]["label"] for run in json.loads(out)["runs"]] == ["a"], "still a list"
    # What was asked for alone is the whole of the question.
    code, out, err = levee("report", tmp_path, "--json", "--run", 2)
    assert code == 2 and not out and one_sentence(err)


def test_a_port_that_is_used_again_is_another_launch(make_trace, tmp_path, levee):
    for again in (1, 2):
        for rank in range(4):
            make_trace(tmp_path / f"{again}-{rank}.levee", "rank", 10 + rank)
    code, out, err = levee("report", tmp_path, "--width", 120)
    assert code == 0 and out.startswith("2 runs in ") and out.count("(4 ranks)") == 2, out


@pytest.mark.parametrize("width", [40, 60, 72, 80])
def test_no_word_is_broken_in_a_narrow_terminal(traces, tmp_path, levee, width):
    code, out, err = levee("report", traces["storms"], "--width", width)
    assert code == 0, err
    assert max(len(line) for line in out.splitlines()) <= width
    words = set(out.replace(":", " ").split())
    for title in ("emergencies", "reserved", "allocated", "memory", "duration", "blocks"):
        assert title in words, title
    wide = levee("report", traces["storms"], "--width", 200)[1]
    lines = wide.splitlines()
    titles = {
        word for line, below in zip(lines, lines[1:]) if "───" in below for word in line.split()
    }
    assert len(titles) > 10 and titles <= words, titles - words
    figures = {word for word in wide.replace(":", " ").split() if word.replace(".", "").isdigit()}
    assert figures <= words, figures - words


# Colour, the title of the window, a control of eight bits, a line of its own, letters turned around, markup of rich's.
HOSTILE = "a\x1b[31m\x1b]0;title\x07\x9b2J\r\n\u202eb\u2028\u2029[/bold]"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain text, 100 %", "plain text, 100 %"),
        ("caf\u00e9 \u4e2d\u6587 \U0001f600", "caf\u00e9 \u4e2d\u6587 \U0001f600"),
        ("bytes that are no text \udcff", "bytes that are no text \udcff"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\tb\r\nc", "a\\tb\\r\\nc"),
        ("\x7f\x9b\xa0", "\\x7f\\x9b\xa0"),
        ("\u200b\u202e\u2066\ufeff", "\\u200b\\u202e\\u2066\\ufeff"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text, shown):
    from levee import _format

    assert _format.printable(text) == shown


def test_a_line_about_levee_commands_no_terminal(capsys, monkeypatch):
    from levee import errors

    monkeypatch.setattr(errors, "_said", set())
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    errors.say(HOSTILE)
    err = capsys.readouterr().err
    assert err.startswith("levee: a\\x1b[31m") and err.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    "part", ["name", "about", "paragraph", "title of a table", "cell", "models"]
)
def test_names_in_a_replayed_recording_reach_no_terminal_as_commands(monkeypatch, part):
    from rich.console import Console

    from levee import _cli_replay, _replay_lab
    from levee._tables import Grid

    def words(name):
        return HOSTILE if name == part else "words"

    grid = Grid("column", "other", title=words("title of a table"))
    grid.add(words("cell"), "1")
    monkeypatch.setattr(_replay_lab, "about", lambda _: words("about"))
    monkeypatch.setattr(_replay_lab, "paragraph", lambda _: words("paragraph"))
    monkeypatch.setattr(_replay_lab, "table", lambda _: grid)
    monkeypatch.setattr(_replay_lab, "left_out", lambda _: words("models"))
    replayed = types.SimpleNamespace(recording=types.SimpleNamespace(name=words("name")))
    for width in (300, 20):
        text = io.StringIO()
        _cli_replay._print(Console(file=text, width=width), replayed)
        printed = text.getvalue().replace("\n", "")
        assert printed.isprintable(), [c for c in printed if not c.isprintable()]
        assert "\\x1b[31m" in printed


@pytest.mark.parametrize("kind", ["calm", "hooked"])
def test_replay_and_report_name_the_same_step(traces, levee, kind):
    """Marks that begin steps, and marks that end them: what has no room is in the step of the report's peak."""
    steps = json.loads(levee("report", traces[kind], "--json")[1])["steps"]
    peaks = steps["devices"][0]["peak_allocated_bytes"]
    number = steps["number"][peaks.index(max(peaks))]
    asked = ("--policies", "bound", "--capacity", max(peaks) - 1, "--json", "-")
    (found,) = json.loads(levee("replay", traces[kind], *asked)[1])["inputs"]
    (result,) = found["results"]
    assert number > 1 and result["first_failure_step"] == number
    assert result["first_failure_where"] == f"in step {number}"


def test_a_recording_with_a_hostile_name_is_replayed_under_it(tmp_path, levee):
    path = tmp_path / (HOSTILE.replace("/", "") + ".csv")
    path.write_text("a,1,4096\nf,1\n")
    code, out, err = levee("replay", path, "--policies", "bound")
    assert code == 0, err
    printed = (out + err).replace("\n", "")
    assert printed.isprintable() and "\\x1b[31m" in printed


def test_names_in_a_recording_reach_no_terminal_as_commands(traces):
    """Whoever made a recording chose its names; who reads the report did not."""
    from rich.console import Console

    from levee import _report

    report = _report.report(traces["storms"])
    report["source"].update(program=HOSTILE, host=HOSTILE)
    for device in report["devices"]:
        device["name"] = HOSTILE
        device["holders_by_phase"] = [{"origin": HOSTILE, "bytes": 1, "blocks": 1}] * 2
    report["phases"] = [dict(row, path=HOSTILE) for row in report["phases"]]
    report["notes"] = [{"time_ns": 0, "text": HOSTILE}]
    for emergency in report["emergencies"]:
        emergency["stack"] = HOSTILE
        emergency["text"]["headline"] = HOSTILE
    for width in (300, 40):
        text = io.StringIO()
        _report.Printer(Console(file=text, width=width)).run(report, full=True)
        printed = text.getvalue().replace("\n", "")
        assert printed.isprintable(), [c for c in printed if not c.isprintable()]
        assert "\\x1b[31m" in printed and "[/bold]" in printed


def test_a_name_of_a_file_cannot_break_the_sentence_about_it(tmp_path, levee):
    broken = tmp_path / ("[bold]\x1b[31m\nlevee: all is well\u202e.levee")
    broken.write_bytes(b"LEV")
    for command in ("report", "dump", "timeline", "replay"):
        code, out, err = levee(command, broken)
        assert code == 2 and not out
        assert one_sentence(err).isprintable()
    (tmp_path / "other.levee").write_bytes(b"LEV")
    code, out, err = levee("report", tmp_path, "--width", 300)
    assert code == 0 and "[bold]" in out and "\x1b" not in out + err


def test_a_bar_of_progress_takes_names_as_they_are(monkeypatch):
    from rich.console import Console

    from levee import _cli_replay

    text = io.StringIO()
    # A terminal that can move its cursor, whatever the tests are run on.
    able = Console(file=text, force_terminal=True, width=200, _environ={"TERM": "xterm"})
    monkeypatch.setattr("rich.console.Console", lambda **_: able)
    with _cli_replay._Progress(1) as progress:
        progress.name("reading [/bold]\x1b]0;title\x07")
        progress._bar.refresh()
    assert "[/bold]" in text.getvalue() and "\x1b]" not in text.getvalue()


def test_what_came_after_the_last_step_is_none(traces):
    """One optimizer step, then a long validation, of which no end is marked."""
    from rich.console import Console

    from levee import _report

    report = _report.report(traces["calm"])
    columns = {"number": [1, 2], "duration_ns": [5_000_000, 90_000_000_000]}
    none = {name: [0, 0] for name in ("memory_calls", "memory_ns", "emergencies", "emergency_ns")}
    report["steps"].update(columns, **none, count=2, ended=1, is_complete=[False, False])
    text = io.StringIO()
    _report.Printer(Console(file=text, width=100))._steps(report)
    assert "Steps: 1, median 5.00 ms, slowest 5.00 ms" in text.getvalue()


def test_a_recording_without_memory_gets_no_advice(traces, tmp_path, levee):
    """The head of a file alone: the program was killed before anything was written."""
    short = tmp_path / "short.levee"
    short.write_bytes(traces["calm"].read_bytes()[:4096])
    code, out, err = levee("report", short, "--width", 100)
    assert code == 0, err
    assert "No device memory was used in what was recorded." in out
    assert "0 B" not in out and "What to do" not in out
    assert json.loads(levee("report", short, "--json")[1])["advice"] == []


def test_a_killed_run_is_readable_and_says_that_it_was(traces, levee):
    code, out, err = levee("report", traces["cut"], "--width", 120)
    assert code == 0, err
    said = " ".join(out.split())
    assert "the program was killed, its disk was full, it is still running," in said
    assert "or the file was cut while it was copied" in said


def test_missing_and_foreign_files(traces, tmp_path, levee):
    foreign = tmp_path / "x.levee"
    foreign.write_bytes(b"PK\x03\x04" + bytes(5000))
    empty = tmp_path / "e.levee"
    empty.write_bytes(b"")
    folder = tmp_path / "folder"
    folder.mkdir()
    commands = (["report"], ["timeline"], ["dump"], ["export", "--to", "chrome"])
    for command in commands:
        for bad in (tmp_path / "none.levee", foreign, empty, folder):
            code, out, err = levee(*command, bad)
            assert code != 0, (command, bad)
            one_sentence(err)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.levee", "folder", "x.levee"]


@pytest.mark.parametrize("name", ["pipe.levee", "pipe.samples.jsonl"])
def test_a_pipe_is_told_and_not_waited_for(tmp_path, levee, name):
    pipe = tmp_path / name
    os.mkfifo(pipe)
    out = tmp_path / "out.png"
    for command in (
        ("report", pipe),
        ("report", "--json", pipe),
        ("timeline", pipe),
        ("dump", pipe),
        ("export", "--to", "chrome", pipe),
        ("compare", pipe, "-o", out),
        ("replay", pipe),
    ):
        code, printed, err = levee(*command, timeout=60)
        assert code == 2 and not printed, command
        assert "is no file but a pipe or a device" in one_sentence(err), command
    assert [p.name for p in tmp_path.iterdir()] == [name]
    code, _, err = levee("report", tmp_path)
    assert code == 2 and "There is no recording" in one_sentence(err)


def test_a_device_is_no_recording(levee):
    for command in ("report", "dump", "replay"):
        code, out, err = levee(command, "/dev/zero", timeout=60)
        assert code == 2 and not out
        assert "/dev/zero is no file but a pipe or a device" in one_sentence(err)


def test_every_truncation_is_survived(traces, tmp_path, levee):
    whole = traces["storms"].read_bytes()
    for share in (0.01, 0.2, 0.5, 0.8, 0.999):
        cut = tmp_path / "cut.levee"
        cut.write_bytes(whole[: int(len(whole) * share)])
        code, out, err = levee("report", cut, "--json")
        if code == 0:
            report = json.loads(out)
            assert report["completeness"]["remarks"]
        else:
            one_sentence(err)


def test_flipped_bytes_are_survived(traces, tmp_path, levee):
    import random

    from levee import LeveeError, _recordings

    whole = traces["storms"].read_bytes()
    rng = random.Random(4)
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 8, 200))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path = tmp_path / "damaged.levee"
        path.write_bytes(damaged)
        try:
            facts = _recordings.load(path, keep_blocks=True)
            _recordings.report_of(facts)
            facts.write_view(str(tmp_path / "view"))
            facts.write_memory_viz(str(tmp_path / "viz.pickle"))
            facts.write_perfetto(str(tmp_path / "t.pftrace"))
        except LeveeError as error:
            assert str(error).endswith(".")


def test_an_export_replaces_exports_alone(traces, tmp_path, levee):
    script = tmp_path / "train.py"
    for to, name in (
        ("chrome", "a.json"),
        ("html", "a.html"),
        ("perfetto", "a.pftrace"),
        ("memory_viz", "a.pickle"),
    ):
        script.write_text("import torch")
        code, _, err = levee("export", traces["calm"], "--to", to, "-o", script)
        assert code != 0 and "no earlier export" in one_sentence(err)
        assert script.read_text() == "import torch"
        for _ in range(2):
            code, _, err = levee("export", traces["calm"], "--to", to, "-o", tmp_path / name)
            assert code == 0, err


def test_unwritable_output_leaves_nothing(traces, tmp_path, levee):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for to in ("html", "chrome", "perfetto", "memory_viz", "parquet", "tensorboard"):
        code, _, err = levee("export", traces["calm"], "--to", to, "-o", blocked / "below")
        assert code != 0, to
        one_sentence(err)
    code, _, err = levee("timeline", traces["calm"], "-o", tmp_path)
    assert code != 0 and "is a folder" in one_sentence(err)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert blocked.read_text() == "in the way"


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "holds no samples"),
        ("not json", "line 1: this is not a JSON object"),
        ("[" * 100_000, "line 1: this is not a JSON object"),
        ('{"t": 1}', "the header"),
        ('{"samples": 1}\n', "holds no samples"),
        ('{"samples": 1}\n{"t": "x", "allocated": 1, "reserved": 1}', '"t" is not a time'),
        ('{"samples": 1}\n{"t": 1e99, "allocated": 1, "reserved": 1}', '"t" is not a time'),
        ('{"samples": 1}\n{"t": 1, "reserved": 1}', '"allocated" is not a number of bytes'),
        ('{"samples": 1}\n{"t": 1, "allocated": -1, "reserved": 1}', "out of range"),
        ('{"samples": 1}\n{"t": 1, "allocated": NaN, "reserved": 1}', "out of range"),
        (
            '{"samples": 1}\n{"t": 2, "allocated": 1, "reserved": 1}\n{"t": 1, "allocated": 1, "reserved": 1}',
            "line 3: time runs backwards",
        ),
        ('{"samples": 1, "x": "' + "y" * (1 << 21) + '"}', "a line is longer"),
    ],
)
def test_bad_samples_are_named_by_line(tmp_path, levee, text, complaint):
    path = tmp_path / "bad.samples.jsonl"
    path.write_text(text)
    code, _, err = levee("report", path)
    assert code != 0
    assert complaint in one_sentence(err)


def test_samples_have_reports_and_timelines_but_no_events(tmp_path, levee):
    path = tmp_path / "native.samples.jsonl"
    lines = [{"samples": 1, "label": "native", "workload": "decoder", "allocator": "native"}]
    lines += [{"t": i / 4, "step": i, "allocated": 1 << 30, "reserved": 2 << 30} for i in range(9)]
    path.write_text("\n".join(map(json.dumps, lines)))
    code, out, err = levee("report", path, "--json")
    assert code == 0, err
    assert json.loads(out)["devices"][0]["ratio"] == 2.0
    assert levee("timeline", path)[0] == 0
    code, _, err = levee("export", path, "--to", "chrome")
    assert code != 0 and "holds samples, not events" in one_sentence(err)


def test_dump_stops_where_told_and_survives_a_closed_pipe(traces, levee):
    code, out, _ = levee("dump", traces["calm"], "-n", 5, "--no-header")
    assert code == 0 and len(out.splitlines()) == 5
    import subprocess
    import sys

    line = f"{sys.executable} -m levee dump {traces['calm']} | head -3"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    assert len(done.stdout.splitlines()) == 3 and "Traceback" not in done.stderr


def test_unknown_options_are_refused(traces, levee):
    code, _, err = levee("export", traces["calm"], "--to", "excel")
    assert code == 2 and "excel" in err
    code, _, err = levee("export", traces["calm"], "--to", "html", "--profiler")
    assert code == 2 and "--profiler goes with --to tensorboard" in err
    code, _, err = levee("compare", traces["calm"], "-o", "x.pdf")
    assert code == 2 and ".html or .png" in err


def test_comparison_as_a_picture(traces, tmp_path, levee):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / "c.png"
    code, text, err = levee(
        "compare", f"levee={traces['calm']}", f"other={traces['storms']}", "-o", out
    )
    assert code == 0, err
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size < 200_000


def test_the_legend_of_the_picture_covers_no_line(traces, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from levee import compare
    from matplotlib import pyplot

    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    sources = [
        (f"{job}: {name}", traces["calm"]) for job in ("a", "b") for name in ("native", "levee")
    ]
    compare.write_png(sources, tmp_path / "c.png")
    for axis in figures[0].axes:
        assert not axis.get_window_extent().overlaps(axis.get_legend().get_window_extent())


def test_the_benchmark_counts_in_words_and_makes_one_folder_for_tensorboard(
    traces, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare

    result = {
        "finished": True,
        "peak_allocated": 1 << 30,
        "peak_reserved": 1 << 30,
        "ratio": 1.0,
        "emergencies": 1,
        "retries": 0,
        "memory_calls_per_step": 0.0,
    }
    runs = [compare.Run(name, "levee", result=dict(result)) for name in ("decoder", "lora")]
    assert compare.row(*runs)[-1] == "finishes, 1 emergency, 0.0 calls a step"
    runs[1].result["emergencies"] = 3
    assert "3 emergencies" in compare.row(*runs)[-1]
    for run in runs:
        run.files["trace"] = traces["calm"]
    compare.export_tensorboard(runs, tmp_path / "logs")
    assert capfd.readouterr() == ("", "")
    assert sorted(f.name for f in (tmp_path / "logs").iterdir()) == ["decoder-levee", "lora-levee"]
    assert all((tmp_path / "logs" / run.name / "levee_view").is_dir() for run in runs)


def bench_run(workload, allocator, **changes):
    from bench.workloads import compare

    result = {"finished": True, "steps": 40, "peak_allocated": 29 << 30, "peak_reserved": 31 << 30}
    result |= {"ratio": 1.0704, "emergencies": 0, "retries": 0, "memory_calls_per_step": 39.7}
    return compare.Run(workload, allocator, result=result | changes)


def test_the_benchmark_stays_a_table_in_eighty_columns(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare
    from rich.console import Console

    died = bench_run("encoder", "native", finished=False, steps=23)
    pairs = [
        (bench_run("decoder", "expandable"), bench_run("decoder", "expandable", emergencies=12)),
        (bench_run("decoder", "levee"), bench_run("decoder", "levee")),
        (died, died),
    ]
    rows = [compare.row(*pair) for pair in pairs]
    assert rows[0][-1].startswith("finishes, 12 emergencies")
    for width in (80, 200):

        def terminal(wanted=width, *, width=None):
            return Console(width=width or wanted, force_terminal=True, color_system=None)

        monkeypatch.setattr("rich.console.Console", terminal)
        compare.show_table(rows, compare.head(1.05), tmp_path, 1.05)
        lines = [line.rstrip() for line in capfd.readouterr().out.splitlines()]
        assert max(map(len, lines)) <= width
        of_levee = [line for line in lines if "decoder levee" in line]
        assert len(of_levee) == 1 and "1.0704" in of_levee[0] and "39.7" in of_levee[0]
        if width == 80:
            assert of_levee[0].split() == "decoder levee 29.00 31.00 1.0704 0 39.7 ok".split()
            assert any(line.endswith("ok, 12 em.") for line in lines)
            assert any(line.endswith("OOM 23") and " OOM 23 " in line for line in lines)
        else:
            assert "29.00 GiB" in of_levee[0]
    # The file has every column in full words, whatever the terminal.
    assert "| DIES: out of memory in step 23 |" in (tmp_path / "table.md").read_text()


def test_the_picture_of_a_benchmark_counts_emergencies_as_its_table_does(
    traces, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare

    options = compare.parser().parse_args(["--out", str(tmp_path)])
    runs = [bench_run("lora", "native", emergencies=3), bench_run("lora", "levee")]
    for run in runs:
        run.files["samples"] = tmp_path / f"{run.allocator}.samples.jsonl"
        lines = [{"samples": 1, "label": run.allocator}]
        lines += [{"t": i, "step": i, "allocated": 5 << 20, "reserved": 8 << 20} for i in range(5)]
        run.files["samples"].write_text("\n".join(map(json.dumps, lines)))
    page = compare.pictures(runs, options)[0].read_text()
    data = page.split('id="levee-runs">', 1)[1].split("</script>", 1)[0]
    lines = json.loads(data)["panels"][0]["runs"]
    assert [(line["label"], line["emergencies"]) for line in lines] == [("native", 3), ("levee", 0)]


def test_the_benchmark_says_how_long_each_run_took(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare

    options = compare.parser().parse_args(["--out", str(tmp_path), "--jobs", "1", "--steps", "2"])
    clock = [1000.0]

    def execute(run, options, simulated, advance):
        clock[0] += {"native": 200, "levee": 30}[run.allocator]
        run.result = {"finished": True}

    monkeypatch.setattr(compare, "execute", execute)
    monkeypatch.setattr(compare, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    runs = [compare.Run("lora", "native"), compare.Run("lora", "levee")]
    compare.run_all(runs, options, True, "whole GPU")
    out = capfd.readouterr().out
    assert "lora-native: finished, took 200 s" in out and "lora-levee: finished, took 30 s" in out


def test_a_second_benchmark_shows_its_own_recordings(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare

    options = compare.parser().parse_args(["--out", str(tmp_path)])
    run = compare.Run("decoder", "levee")
    (tmp_path / "decoder-levee.levee").write_text("of an earlier one")
    script = "import os, pathlib; pathlib.Path(os.environ['LEVEE_TRACE']).touch(exist_ok=False)"
    plan = compare.command

    def command(run, options, simulated):
        plan(run, options, simulated)
        return [sys.executable, "-c", script]

    monkeypatch.setattr(compare, "command", command)
    compare.execute(run, options, True, lambda n: None)
    assert (tmp_path / "decoder-levee.levee").read_text() == "", run.error


def test_an_interrupted_benchmark_starts_no_further_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare

    options = compare.parser().parse_args(["--out", str(tmp_path), "--jobs", "1"])
    runs = [compare.Run("decoder", name) for name in ("native", "expandable", "levee")]
    started = []
    taken_back = threading.Event()
    shutdown = compare.ThreadPoolExecutor.shutdown

    def note_shutdown(pool, *arguments, **options):
        # The one after the interruption does not wait, the one at the end of the block does.
        shutdown(pool, *arguments, **options)
        taken_back.set()

    monkeypatch.setattr(compare.ThreadPoolExecutor, "shutdown", note_shutdown)

    def execute(run, options, simulated, advance):
        started.append(run.allocator)
        run.error = "interrupted"
        _thread.interrupt_main()
        assert taken_back.wait(60)

    monkeypatch.setattr(compare, "execute", execute)
    with pytest.raises(KeyboardInterrupt):
        compare.run_all(runs, options, True, "whole GPU")
    assert started == ["native"]


def test_the_benchmark_says_each_place_once(traces, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from bench.workloads import compare

    options = compare.parser().parse_args(
        ["--out", str(tmp_path), "--tensorboard", str(tmp_path / "t b")]
    )
    run = compare.Run("lora", "levee", result={})
    run.files["trace"] = traces["calm"]
    compare.show_places(options, [tmp_path / "reserved.html", tmp_path / "reserved.png"], [run])
    out = capfd.readouterr().out
    for word in ("results.json", "reserved.html", "reserved.png", "--logdir", " report "):
        assert out.count(word) == 1, (word, out)
    assert f"--logdir '{tmp_path / 't b'}'" in out
