"""The names that `levee` itself offers for looking at recordings."""

from __future__ import annotations

from levee.compare import compare_html, compare_png
from levee._export import export
from levee._report import report
from levee._timeline import timeline

__all__ = ["compare_html", "compare_png", "export", "report", "timeline"]
