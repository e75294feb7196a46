"""The single-file timeline in a real browser."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.view


@pytest.fixture(scope="module")
def report(traces, levee):
    code, out, err = levee("report", traces["storms"], "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def page_url(traces, tmp_path_factory, levee):
    out = tmp_path_factory.mktemp("page") / "storms.html"
    code, text, err = levee("timeline", traces["storms"], "-o", out)
    assert code == 0, err
    assert text.strip() == str(out)
    return out.as_uri()


def test_shows_what_the_report_says_and_asks_nobody(view, page_url, report):
    view.open(page_url)
    data = view.data()
    device = report["devices"][0]
    assert data["state"] == "ready"
    assert int(data["peakReserved"]) == device["peak_reserved_bytes"]
    assert int(data["peakAllocated"]) == device["peak_allocated_bytes"]
    assert int(data["emergencies"]) == report["emergency_count"] > 0
    assert int(data["storms"]) == len(report["storms"]) > 0
    assert int(data["steps"]) == report["steps"]["count"] == 40
    assert (
        float(data["high"]) == device["peak_reserved_bytes"]
    ), "the picture shows the peak at any zoom"
    assert view.errors == []
    assert [r for r in view.requests if r != page_url] == []
    view.screenshot("page")


def test_dark_colours_follow_the_system_and_the_button(dark_view, page_url):
    dark_view.open(page_url)
    dark = "getComputedStyle(document.getElementById('levee')).getPropertyValue('--lv-dark').trim()"
    assert dark_view.page.evaluate(dark) == "1"
    dark_view.screenshot("page-dark")
    dark_view.page.get_by_title("Light or dark").click()
    assert dark_view.page.evaluate(dark) == "0"


def test_zooming_ends_at_exact_samples(view, page_url):
    view.open(page_url)
    assert view.data()["exact"] == "false"
    view.select(0.30, 0.33)
    span = view.number("to") - view.number("from")
    assert 0 < span < 0.05 * 3e9
    view.page.wait_for_selector("#levee[data-exact=true]")
    view.screenshot("page-zoomed")
    view.page.keyboard.press("0")
    view.page.locator("canvas").dblclick(position={"x": 700, "y": 150})
    view.settle()
    assert view.number("from") == 0


def test_wheel_and_keys_move_the_range(view, page_url):
    view.open(page_url)
    plot = view.plot()
    view.page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + 150)
    view.page.mouse.wheel(0, -400)
    view.settle()
    zoomed = view.number("to") - view.number("from")
    assert zoomed < 0.8 * 2.9e9
    view.page.locator("canvas").focus()
    before = view.number("from")
    view.page.keyboard.press("ArrowRight")
    view.settle()
    assert view.number("from") > before
    assert view.number("to") - view.number("from") == pytest.approx(zoomed)
    view.page.keyboard.press("+")
    view.settle()
    assert view.number("to") - view.number("from") == pytest.approx(zoomed / 2)


def test_hovering_reads_the_curve(view, page_url, report):
    view.open(page_url)
    plot = view.plot()
    view.page.mouse.move(plot["x"] + plot["width"] * 0.9, plot["y"] + 150)
    view.settle()
    # After the last growth the reserved line is flat at the peak.
    assert view.number("hoverReserved") == report["devices"][0]["peak_reserved_bytes"]
    assert 0 < view.number("hoverAllocated") <= view.number("hoverReserved")
    assert "reserved" in view.page.locator(".lv-tooltip").inner_text()


def test_kernels_lie_on_the_same_axis(view, page_url):
    view.open(page_url)
    view.select(0.5, 0.505)
    view.page.wait_for_timeout(400)
    plot = view.plot()
    names = set()
    box = view.page.locator("canvas").bounding_box()
    for y in range(320, 480, 8):
        view.page.mouse.move(plot["x"] + plot["width"] * 0.37, box["y"] + y)
        view.page.wait_for_timeout(20)
        names.add(view.data().get("hoverSlice", ""))
    assert any("gemm" in n or "norm" in n or "softmax" in n for n in names), names
    assert "train step" in names


def test_emergencies_say_why_and_lead_to_their_place(view, page_url, report):
    view.open(page_url)
    cards = view.page.locator("[data-emergency]")
    assert cards.count() == report["emergency_count"]
    text = cards.first.inner_text()
    first = report["emergencies"][0]["text"]
    for part in (
        first["headline"],
        first["cause"],
        first["paid"],
        first["advice"],
        *first["rungs"],
    ):
        assert part.rstrip(".") in text
    cards.first.get_by_role("button", name="Show").click()
    view.settle()
    begin = report["emergencies"][0]["begin_ns"]
    assert view.number("from") < begin < view.number("to")
    assert view.number("to") - view.number("from") < 50e6


def test_each_tab_opens(view, page_url):
    view.open(page_url)
    tabs = view.page.get_by_role("tab")
    titles = [tabs.nth(i).inner_text() for i in range(tabs.count())]
    assert len(titles) == 8, titles
    for i in range(tabs.count()):
        tabs.nth(i).click()
        assert view.page.locator(".lv-tab-body").inner_text().strip()
    assert view.errors == []


def test_what_lies_between_live_blocks_is_listed_where_a_refusal_names_it(
    view, make_trace, tmp_path, levee
):
    make_trace(tmp_path / "split.levee", "split")
    page = tmp_path / "split.html"
    assert levee("timeline", tmp_path / "split.levee", "-o", page)[0] == 0
    view.open(page.as_uri())
    view.page.get_by_role("tab", name="Who holds memory").click()
    shown = view.page.locator(".lv-tab-body").inner_text()
    assert "Free bytes between live blocks (refused at " in shown
    assert ["cache", "4,096", "4.00 GiB", "4.00 GiB", "2.00 ms"] in view.rows()
    assert not view.errors


def test_the_reserved_line_is_red_and_the_allocated_one_blue(view, page_url):
    view.open(page_url)
    view.settle()
    counts = view.page.evaluate("""() => {
        const canvas = document.querySelector("canvas");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let red = 0, blue = 0;
        for (let i = 0; i < pixels.length; i += 4) {
            const [r, g, b, a] = pixels.slice(i, i + 4);
            if (a > 250 && r === 217 && g === 45 && b === 32) red++;
            if (a > 250 && r === 29 && g === 99 && b === 216) blue++;
        }
        return {red, blue};
    }""")
    assert counts["red"] > 1000 and counts["blue"] > 1000, counts


def test_every_view_counts_the_same_steps_and_calls(view, traces, tmp_path, levee):
    # Marks end steps here: what comes after the last one is none.
    report = json.loads(levee("report", traces["hooked"], "--json")[1])
    assert (report["steps"]["ended"], report["steps"]["count"]) == (40, 41)
    calls = report["driver"]["memory_calls"]
    text = levee("report", traces["hooked"])[1]
    assert "Steps: 40," in text and f"driver memory calls {calls:,} in all" in " ".join(
        text.split()
    )
    assert levee("timeline", traces["hooked"], "-o", tmp_path / "h.html")[0] == 0
    view.open((tmp_path / "h.html").as_uri())
    assert view.data()["steps"] == "40"
    view.page.get_by_role("tab", name="Steps").click()
    assert view.page.get_by_role("tab", name="Steps").locator(".lv-count").inner_text() == "40"
    names = [row[0] for row in view.rows()]
    assert sorted(names) == sorted([*map(str, range(40)), "after 39"])
    view.screenshot("steps")
    code, _, err = levee("export", traces["hooked"], "--to", "tensorboard", "-o", tmp_path / "tb")
    assert code == 0, err
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is missing"
    ).EventAccumulator(str(tmp_path / "tb"), size_guidance={"tensors": 0, "scalars": 0})
    reader.Reload()
    for tag in ("step/reserved", "step/driver_memory_calls"):
        points = reader.Scalars(tag) if tag in reader.Tags()["scalars"] else reader.Tensors(tag)
        assert [point.step for point in points] == list(range(40))


def test_the_tab_of_driver_calls_counts_what_the_tile_does(view, page_url, report, traces, levee):
    view.open(page_url)
    driver = report["driver"]
    assert driver["calls"] > driver["memory_calls"], "some calls only wait"
    tab = view.page.get_by_role("tab", name="Driver memory calls")
    assert tab.locator(".lv-count").inner_text() == f"{driver['memory_calls']:,}"
    tab.click()
    text = view.page.locator(".lv-tab-body p").first.inner_text()
    assert text.startswith(f"{driver['memory_calls']:,} calls that take, map or give back memory")
    assert f"{driver['calls'] - driver['memory_calls']:,} other" in text
    assert sum(int(row[1].replace(",", "")) for row in view.rows()) == driver["calls"]
    view.screenshot("driver-calls")


def test_names_cannot_break_out_of_the_page(view, tmp_path):
    samples = tmp_path / "x.samples.jsonl"
    bad = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    lines = [{"samples": 1, "label": bad, "program": bad}]
    lines += [{"t": i / 10, "step": i, "allocated": 5 << 20, "reserved": 8 << 20} for i in range(5)]
    samples.write_text("\n".join(map(json.dumps, lines)))
    import levee

    out = levee.timeline(samples, tmp_path / "x.html")
    view.open(out.as_uri())
    assert view.page.title().startswith("</script>")
    assert view.page.locator("img").count() == 0
    assert bad in view.page.locator("h1").inner_text()
    assert view.errors == []


def test_a_million_events_paint_at_once(view, make_trace, tmp_path):
    import levee

    trace = make_trace(tmp_path / "big.levee", "big", 1_000_000)
    out = levee.timeline(trace)
    view.open(out.as_uri())
    # Two seconds on an idle machine; tests share theirs.
    assert view.number("firstPaintMs") < 6000
    assert view.number("samples") > 900_000
    peak = view.number("peakReserved")
    assert view.number("high") == peak
    view.select(0.5, 0.505)
    view.select(0.5, 0.51)
    view.page.wait_for_selector("#levee[data-exact=true]")
    assert view.number("drawMs") < 500


# Where the last drawing of a canvas put its texts.
_KEEP_TEXTS = """
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const width = this.measureText(text).width;
  const left = x - { left: 0, start: 0, center: width / 2, right: width, end: width }[this.textAlign];
  window.texts = (window.texts ?? []).filter((t) => t.text !== text || t.y !== y);
  window.texts.push({ text, y, left, right: left + width });
  draw.call(this, text, x, y);
};
"""


def test_comparison_shows_every_run(view, traces, tmp_path):
    import levee

    samples = tmp_path / "native.samples.jsonl"
    lines = [{"samples": 1, "label": "native"}]
    lines += [
        {
            "t": i / 10,
            "step": i,
            "allocated": 3 << 30,
            "reserved": 24 << 30,
            "reserved_peak": 25 << 30,
        }
        for i in range(40)
    ]
    samples.write_text("\n".join(map(json.dumps, lines)))
    out = levee.compare_html(
        [samples, traces["calm"]], tmp_path / "c.html", ["decoder: native", "decoder: levee"]
    )
    view.page.add_init_script(_KEEP_TEXTS)
    view.open(out.as_uri())
    texts = view.page.evaluate("window.texts")
    edges = [(t["left"], t["right"]) for t in texts if t["y"] == max(t["y"] for t in texts)]
    assert len(edges) > 5
    for (_, right), (left, _) in zip(sorted(edges), sorted(edges)[1:]):
        assert right < left, "the name of the axis and its numbers do not overlap"
    assert view.data()["panels"] == "1"
    assert view.data()["runs"] == "2"
    text = view.page.locator("#levee").inner_text()
    assert "25.0 GiB" in text and "native" in text and "levee" in text
    assert [r for r in view.requests if r != out.as_uri()] == []
    view.screenshot("compare")


def test_runs_with_and_without_steps_are_compared_by_time(traces, tmp_path):
    from levee import compare

    samples = tmp_path / "native.samples.jsonl"
    lines = [{"samples": 1, "label": "native"}]
    lines += [{"t": i / 10, "allocated": 3 << 30, "reserved": 24 << 30} for i in range(20)]
    samples.write_text("\n".join(map(json.dumps, lines)))
    assert compare.read([("levee", traces["calm"])])[""][0].axis == "step"
    runs = compare.read([("native", samples), ("levee", traces["calm"])])[""]
    assert [run.axis for run in runs] == ["seconds", "seconds"]
    assert 1.8 < runs[0].x[-1] < 2.0
    assert 0 < runs[1].x[-1] < 30, "40 steps are no 40 seconds"
