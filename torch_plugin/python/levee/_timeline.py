"""The interactive timeline of a recording as one HTML file that needs nothing else, no network and no server."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from levee import _recordings
from levee._writing import write_whole
from levee.errors import LeveeError

_STATIC = Path(__file__).parent / "static"
# Modules of the view, each after those it imports.
_MODULES = ("format.js", "data.js", "chart.js", "tables.js", "view.js")
# Above this many samples a curve goes into the page without its finest level, unless asked for: a file of 40 MB opens
# at once, one of 400 MB does not.
MAX_DETAIL_SAMPLES = 12_000_000

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div class="lv-page"><main id="levee"></main></div>
{data}
<script type="module">
{script}
</script>
{chunks}
</body>
</html>
"""


def script(*names: str) -> str:
    """The view's modules as one: imports between them are dropped, since everything is in one scope."""
    parts = []
    for name in names:
        text = (_STATIC / name).read_text(encoding="utf-8")
        text = re.sub(r"^import [^;]*;\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"^export \{[^}]*\};\n", "", text, flags=re.MULTILINE)
        parts.append(re.sub(r"^export ", "", text, flags=re.MULTILINE))
    return "\n".join(parts)


def style() -> str:
    return (_STATIC / "levee.css").read_text(encoding="utf-8")


def _chunk_specs(index: dict[str, Any]) -> list[tuple[int, int, bool]]:
    """(offset, bytes, is coarse) of every chunk of an index."""
    out = []
    for track in (*index["curves"], *index["lanes"]):
        first = [track["first"]] if "first" in track else []
        tables = [*first, *track["levels"], track["detail"]]
        for i, table in enumerate(t for t in tables if t["rows"]):
            out += [(chunk[0], chunk[1], i == 0) for chunk in table["chunks"]]
    return out


def page(index: dict[str, Any], data: bytes, title: str) -> bytes:
    """One HTML document of a view's index and data."""

    def element(spec: tuple[int, int, bool]) -> str:
        text = base64.b64encode(data[spec[0] : spec[0] + spec[1]]).decode("ascii")
        return f'<script type="application/octet-stream" id="levee-chunk-{spec[0]}">{text}</script>'

    specs = _chunk_specs(index)
    # What the first picture needs comes before the script that draws it; the rest is parsed after the first paint.
    first = "\n".join(element(s) for s in specs if s[2])
    rest = "\n".join(element(s) for s in specs if not s[2])
    # The writer of the index escapes "<", so the text cannot end the element; json.dumps would not.
    text = json.dumps(index, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    head = f'<script type="application/json" id="levee-index">{text}</script>\n{first}'
    return _PAGE.format(
        title=html.escape(title),
        style=style(),
        data=head,
        script=script(*_MODULES, "page.js"),
        chunks=rest,
    ).encode("utf-8")


def write_page(facts: Any, out: str | Path, title: str = "", detail: bool = False) -> Path:
    """Writes the timeline of `facts` to `out`."""
    out = Path(out)
    if out.is_dir():
        raise LeveeError(f"Cannot write {out}: it is a folder.")
    with tempfile.TemporaryDirectory(prefix="levee-view-") as folder:
        facts.write_view(
            os.fsencode(folder), title or facts.label, 0 if detail else MAX_DETAIL_SAMPLES
        )
        index = json.loads((Path(folder) / "view.json").read_text(encoding="utf-8"))
        data = (Path(folder) / "view.bin").read_bytes()
    return write_whole(out, page(index, data, f"{title or facts.label} – levee"))


def timeline(
    recording: str | Path, out: str | Path | None = None, *, title: str = "", detail: bool = False
) -> Path:
    """Writes the interactive timeline of a recording as one HTML file and returns its path.

    `out` is by default the recording's name with .html. `detail` keeps every sample however many there are.
    """
    recording = Path(recording)
    facts = _recordings.load(recording)
    if out is None:
        name = recording.name
        for suffix in (*_recordings.SAMPLES_SUFFIXES, _recordings.TRACE_SUFFIX):
            name = name[: -len(suffix)] if name.endswith(suffix) else name
        out = recording.with_name(name + ".html")
    return write_page(facts, out, title, detail)
