"""The Levee tab in a running TensorBoard, offline, and the scalars beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.view
pytest.importorskip("tensorboard", reason="tensorboard is not installed")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.read()


@contextlib.contextmanager
def serving(folder):
    """The address of a TensorBoard over a folder of logs."""
    import importlib.metadata

    names = {e.name for e in importlib.metadata.entry_points(group="tensorboard_plugins")}
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    # Where levee is a folder on PYTHONPATH and not installed, its entry point is not known: the same class by hand.
    program = ["-m", "tensorboard.main"] if "levee" in names else ["-c", _SERVE]
    process = subprocess.Popen(
        [sys.executable, *program, "--logdir", str(folder), "--port", str(port)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://localhost:{port}"
    try:
        for _ in range(240):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                _get(address + "/data/plugin/levee/runs")
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.25)
                pytest.fail("TensorBoard ended")
        else:
            pytest.fail("TensorBoard does not answer")
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture(scope="module")
def board(traces, tmp_path_factory, levee):
    """(address, folder) of a TensorBoard over one exported run and one bare trace."""
    folder = tmp_path_factory.mktemp("board")
    code, _, err = levee("export", traces["storms"], "--to", "tensorboard", "-o", folder / "storms")
    assert code == 0, err
    shutil.copy(traces["calm"], folder / "calm.levee")
    with serving(folder) as address:
        yield address, folder


_SERVE = """
import sys
from tensorboard import default, program
from levee.tb.plugin import LeveePlugin
from tensorboard.plugins import base_plugin
class Loader(base_plugin.TBLoader):
    def load(self, context): return LeveePlugin(context)
board = program.TensorBoard(plugins=default.get_plugins() + [LeveePlugin])
board.configure(argv=["tensorboard"] + sys.argv[1:])
sys.exit(board.main())
"""


def test_lists_exported_folders_and_bare_traces(board):
    runs = json.loads(_get(board[0] + "/data/plugin/levee/runs"))["runs"]
    assert runs == ["calm.levee", "storms"]


def test_refuses_what_is_no_run(board):
    for query in (
        "view?run=../../etc",
        "view?run=",
        "chunk?run=storms&offset=-1&length=5",
        "chunk?run=storms&offset=0&length=99999999999",
        "chunk?run=storms&offset=x&length=5",
        "chunk?run=storms&offset=999999999&length=5",
        "chunk?run=nobody&offset=0&length=5",
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            _get(f"{board[0]}/data/plugin/levee/{query}")
        assert refused.value.code in (400, 404), query


def test_tab_draws_without_any_outside_request(view, board):
    address, _ = board
    view.open(address + "/data/plugin_entry.html?name=levee")
    data = view.data()
    assert data["run"] == "calm.levee" and data["state"] == "ready" and data["emergencies"] == "0"
    view.page.locator(".lv-runs select").select_option("storms")
    view.page.wait_for_selector(
        "#levee[data-run=storms][data-state=ready]:not([data-emergencies='0'])"
    )
    view.select(0.4, 0.42)
    view.page.wait_for_selector("#levee[data-exact=true]")
    view.screenshot("tensorboard")
    assert view.errors == []
    assert [r for r in view.requests if not r.startswith(address)] == []


def test_a_run_in_the_log_folder_itself_has_its_own_name(view, traces, tmp_path, levee):
    code, _, err = levee("export", traces["calm"], "--to", "tensorboard", "-o", tmp_path)
    assert code == 0, err
    with serving(tmp_path) as address:
        view.open(address + "/data/plugin_entry.html?name=levee")
        assert view.data()["run"] == "."
        assert view.page.locator("h1").inner_text() == traces["calm"].stem


def test_scalars_have_their_tags_and_keep_extremes(board, traces, levee):
    tags = json.loads(_get(board[0] + "/data/plugin/scalars/tags"))["storms"]
    wanted = {"memory/reserved", "memory/allocated", "memory/fragmentation", "memory/retries"}
    wanted |= {"step/reserved", "step/allocated", "step/fragmentation", "step/retries"}
    assert wanted <= set(tags)
    report = json.loads(levee("report", traces["storms"], "--json")[1])
    points = json.loads(
        _get(board[0] + "/data/plugin/scalars/scalars?run=storms&tag=memory/reserved")
    )
    values = [value for _, _, value in points]
    assert len(points) <= 1000
    peak = report["devices"][0]["peak_reserved_bytes"] / (1 << 30)
    assert max(values) == pytest.approx(peak, rel=1e-6)
    # By step: one point each, exact.
    points = json.loads(
        _get(board[0] + "/data/plugin/scalars/scalars?run=storms&tag=step/allocated")
    )
    expected = report["steps"]["devices"][0]["peak_allocated_bytes"]
    assert [step for _, step, _ in points] == list(range(40))
    assert [v for _, _, v in points] == pytest.approx([b / (1 << 30) for b in expected], rel=1e-6)


def test_a_second_export_replaces_the_first(board, traces, levee):
    folder = board[1] / "storms"
    levee("export", traces["storms"], "--to", "tensorboard", "-o", folder)
    assert len(list(folder.glob("events.out.tfevents.*"))) == 1


def test_margin_chart_gets_the_same_steps_for_both_lines(board):
    def steps(tag: str) -> list[int]:
        url = f"{board[0]}/data/plugin/scalars/scalars?run=storms&tag={tag}"
        return [step for _, step, _ in json.loads(_get(url))]

    assert steps("memory/reserved") == steps("memory/allocated")
