"""TensorBoard's tab "Levee": lists recordings under the log folder and serves their views.

Draws offline: every byte comes from the routes below. Runs are folders that `levee export --to tensorboard`
made (they hold ``levee_view/view.json``), and plain ``*.levee`` files, whose view is made when first asked for.
Files are found by looking a run's name up in the list of runs, never by joining a request's text to a path.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug import wrappers

STATIC = Path(__file__).resolve().parent.parent / "static"
_SCRIPTS = ("index.js", "view.js", "chart.js", "tables.js", "data.js", "format.js")
_RESCAN_SECONDS = 5.0
# No request of the view is larger; the chunks of a view are some tens of kilobytes.
_MAX_CHUNK = 64 << 20
_MAX_DEPTH = 8


class LeveePlugin(base_plugin.TBPlugin):
    """One instance a TensorBoard process; requests come from several threads."""

    plugin_name = "levee"

    def __init__(self, context: Any) -> None:
        self._logdir = Path(context.logdir) if context.logdir else None
        self._lock = threading.Lock()
        self._runs: dict[str, Path] = {}
        self._scanned = 0.0
        self._cache: tempfile.TemporaryDirectory[str] | None = None
        self._made: dict[tuple[str, float, int], Path] = {}
        self._making: dict[str, threading.Lock] = {}

    def get_plugin_apps(self) -> dict[str, Any]:
        apps: dict[str, Any] = {
            "/runs": _app(self.serve_runs),
            "/view": _app(self.serve_view),
            "/chunk": _app(self.serve_chunk),
            "/levee.css": self._static("levee.css", "text/css"),
        }
        for name in _SCRIPTS:
            apps[f"/{name}"] = self._static(name, "application/javascript")
        return apps

    def is_active(self) -> bool:
        return bool(self.runs())

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Levee")

    # Runs ------------------------------------------------------------------------------------------

    def runs(self) -> dict[str, Path]:
        """Names of runs and where their view or trace is. A scan of the log folder is kept for some seconds."""
        with self._lock:
            if time.monotonic() - self._scanned > _RESCAN_SECONDS or not self._scanned:
                self._runs = self._scan()
                self._scanned = time.monotonic()
            return self._runs

    def _scan(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        if self._logdir is None or not self._logdir.is_dir():
            return found
        root = self._logdir
        for folder, folders, files in os.walk(root):
            here = Path(folder)
            if len(here.relative_to(root).parts) >= _MAX_DEPTH:
                folders.clear()
            folders.sort()
            name = here.relative_to(root).as_posix()
            if "levee_view" in folders:
                folders.remove("levee_view")
                if (here / "levee_view" / "view.json").is_file():
                    found[name] = here / "levee_view"
            for file in sorted(files):
                if file.endswith(".levee"):
                    found[(here / file).relative_to(root).as_posix()] = here / file
        return found

    def _view_folder(self, run: str) -> Path | None:
        path = self.runs().get(run)
        if path is None or path.is_dir():
            return path
        with self._lock:
            making = self._making.setdefault(run, threading.Lock())
        with making:
            state = path.stat()
            key = (run, state.st_mtime, state.st_size)
            if key not in self._made:
                from levee import _recordings

                if self._cache is None:
                    self._cache = tempfile.TemporaryDirectory(prefix="levee-tensorboard-")
                folder = Path(self._cache.name) / str(len(self._made))
                _recordings.load(path).write_view(str(folder), run)
                # A recording that still grows: what was made of its shorter self is of no use any more.
                for old in [k for k in self._made if k[0] == run]:
                    shutil.rmtree(self._made.pop(old), ignore_errors=True)
                self._made[key] = folder
            return self._made[key]

    # Routes ----------------------------------------------------------------------------------------

    def _static(self, name: str, content_type: str) -> Any:
        return _app(
            lambda request: http_util.Respond(request, (STATIC / name).read_bytes(), content_type)
        )

    def serve_runs(self, request: wrappers.Request) -> wrappers.Response:
        return http_util.Respond(
            request, json.dumps({"runs": list(self.runs())}), "application/json"
        )

    def serve_view(self, request: wrappers.Request) -> wrappers.Response:
        from levee.errors import LeveeError

        try:
            folder = self._view_folder(request.args.get("run", ""))
            if folder is None:
                return _refuse(request, "there is no such run", 404)
            return http_util.Respond(
                request, (folder / "view.json").read_bytes(), "application/json"
            )
        except LeveeError as error:
            return _refuse(request, str(error), 500)
        except OSError as error:
            return _refuse(request, f"it cannot be read: {error.strerror}", 500)

    def serve_chunk(self, request: wrappers.Request) -> wrappers.Response:
        try:
            offset = int(request.args.get("offset", ""))
            length = int(request.args.get("length", ""))
        except ValueError:
            return _refuse(request, "offset and length must be numbers", 400)
        if offset < 0 or not 0 < length <= _MAX_CHUNK:
            return _refuse(request, "offset or length is out of range", 400)
        try:
            folder = self._view_folder(request.args.get("run", ""))
            if folder is None:
                return _refuse(request, "there is no such run", 404)
            with (folder / "view.bin").open("rb") as file:
                file.seek(offset)
                data = file.read(length)
        except OSError as error:
            return _refuse(request, f"it cannot be read: {error.strerror}", 500)
        if len(data) != length:
            return _refuse(request, "the view ends before that chunk", 400)
        return http_util.Respond(request, data, "application/octet-stream")


def _app(handler: Callable[[wrappers.Request], wrappers.Response]) -> Any:
    """A WSGI application of a function from request to response."""

    @wrappers.Request.application
    def serve(request: wrappers.Request) -> wrappers.Response:
        return handler(request)

    return serve


def _refuse(request: wrappers.Request, sentence: str, code: int) -> wrappers.Response:
    return http_util.Respond(request, sentence, "text/plain", code=code)
