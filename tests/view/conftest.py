"""Recordings, a browser and a TensorBoard for the tests of views and exports.

What is missing on a machine (make_trace not built, no Chromium) skips the tests that need it and says so; pytest
counts them. Screenshots of each view are kept in the folder that LEVEE_SCREENSHOTS names, if it is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _make_trace_program() -> str | None:
    named = os.environ.get("LEVEE_MAKE_TRACE")
    if named:
        return named
    built = sorted(ROOT.glob("build/*/tests/view/make_trace")) + sorted(
        ROOT.glob("build/tests/view/make_trace")
    )
    return str(built[-1]) if built else None


@pytest.fixture(scope="session")
def make_trace():
    """make_trace(out, kind, number=None): writes a recording and returns its path."""
    program = _make_trace_program()
    if program is None:
        pytest.skip("make_trace is not built (cmake target make_trace; or set LEVEE_MAKE_TRACE)")

    def make(out: Path, kind: str, number: int | None = None) -> Path:
        line = [program, kind, str(out)] + ([] if number is None else [str(number)])
        subprocess.run(line, check=True, timeout=300)
        return out

    return make


@pytest.fixture(scope="session")
def traces(make_trace, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("traces")
    kinds = ("storms", "calm", "hooked", "cut", "pauses")
    return {kind: make_trace(folder / f"{kind}.levee", kind) for kind in kinds}


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium (Debian: apt install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class View:
    """A page with a view in it: what it shows is read from the data-* attributes of its root."""

    def __init__(self, page):
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        # How long a page takes is asked where it is the question; elsewhere a busy machine
        # (compilers beside the tests: more than 30 s were seen) must not decide.
        page.set_default_timeout(180_000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, url: str, timeout: int = 180_000) -> None:
        self.page.goto(url)
        self.page.wait_for_selector(
            "#levee[data-state=ready], #levee[data-state=failed]", timeout=timeout
        )

    def data(self) -> dict[str, str]:
        return self.page.evaluate("({...document.getElementById('levee').dataset})")

    def number(self, name: str) -> float:
        return float(self.data()[name])

    def settle(self) -> None:
        """Until what is shown is exact or does not get better."""
        self.page.wait_for_timeout(150)

    def plot(self) -> dict[str, float]:
        """Where the plot lies on the page; the margins are those of chart.js."""
        box = self.page.locator("canvas").first.bounding_box()
        return {"x": box["x"] + 106, "width": box["width"] - 120, "y": box["y"]}

    def select(self, begin: float, end: float) -> None:
        """Zooms by dragging with Shift over these shares of the plot."""
        plot = self.plot()
        mouse, y = self.page.mouse, plot["y"] + 150
        self.page.keyboard.down("Shift")
        mouse.move(plot["x"] + plot["width"] * begin, y)
        mouse.down()
        mouse.move(plot["x"] + plot["width"] * end, y, steps=4)
        mouse.up()
        self.page.keyboard.up("Shift")
        self.settle()

    def rows(self) -> list[list[str]]:
        """The cells of the table in the open tab."""
        script = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
        return self.page.locator(".lv-tab-body tbody tr").evaluate_all(script)

    def screenshot(self, name: str) -> None:
        folder = os.environ.get("LEVEE_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))


@pytest.fixture
def view(browser):
    page = browser.new_page(viewport={"width": 1380, "height": 1000})
    yield View(page)
    page.close()


@pytest.fixture
def dark_view(browser):
    page = browser.new_page(viewport={"width": 1380, "height": 1000}, color_scheme="dark")
    yield View(page)
    page.close()
