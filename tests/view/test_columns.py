"""What the timeline draws in each pixel column, compared with every sample of the recording."""

from __future__ import annotations

import numpy
import pytest

pytestmark = pytest.mark.view

# Where the window starts and ends, as shares of the run: all of it, and parts that need finer levels.
RANGES = ((0.0, 1.0), (0.2, 0.55), (0.613, 0.667), (0.731, 0.7325))

# The columns drawn, the solid pixels of both lines in them, and the colours in the middle of the driver calls' lane.
_COLUMNS = """
function columns() {
  const root = document.getElementById("levee"), chart = root.chart;
  const { plot } = chart, { reserved, allocated, width } = chart.shown;
  const canvas = document.querySelector("canvas");
  const image = canvas.getContext("2d").getImageData(plot.x, plot.y, width, plot.height).data;
  const count = (r, g, b) => {
    const columns = new Array(width).fill(0);
    for (let i = 0; i < image.length; i += 4) {
      if (image[i] === r && image[i + 1] === g && image[i + 2] === b) columns[(i / 4) % width]++;
    }
    return columns;
  };
  const { lane, y, height } = chart.laneAreas.find((a) => a.lane.kind === "driver");
  const row = canvas.getContext("2d").getImageData(plot.x, y + height / 2, width, 1).data;
  const colours = [];
  for (let x = 0; x < width; x++) colours.push(row.slice(4 * x, 4 * x + 4).join());
  const range = (r) => ({ low: [...r.low], high: [...r.high], open: r.isOpen.reduce((a, b) => a + b, 0) });
  return {
    from: chart.from, to: chart.to, width, top: chart.top, height: plot.height, covers: [...lane.shown], colours,
    reserved: range(reserved), allocated: range(allocated), red: count(217, 45, 32), blue: count(29, 99, 216),
  };
}
// The first picture that calls itself ready is looked at, not what it becomes later.
new MutationObserver((changes) => {
  const root = document.getElementById("levee");
  if (changes.some((change) => change.target === root) && root.dataset.state === "ready") window.drawn ??= columns();
}).observe(document, { subtree: true, attributeFilter: ["data-state"] });
"""


@pytest.fixture(scope="module")
def facts(traces):
    from levee import _recordings

    return _recordings.load(traces["pauses"])


@pytest.fixture(scope="module")
def page_url(facts, tmp_path_factory):
    from levee import _timeline

    out = tmp_path_factory.mktemp("columns") / "pauses.html"
    return _timeline.write_page(facts, out).as_uri()


def exact_columns(times, values, begin, end, width):
    """Lowest and highest value held in each column; a value holds until the next sample's time."""
    column = numpy.floor((times - begin) * (width / (end - begin)))
    low, high = numpy.empty(width), numpy.empty(width)
    for x in range(width):
        first, last = numpy.searchsorted(column, (x, x + 1))
        held = values[max(first - 1, 0) : last]
        low[x], high[x] = held.min(), held.max()
    return low, high


def neighbours(low, high):
    """The same over each column with the ones beside it."""
    low, high = numpy.pad(low, 1, mode="edge"), numpy.pad(high, 1, mode="edge")
    return (
        numpy.minimum(numpy.minimum(low[:-2], low[1:-1]), low[2:]),
        numpy.maximum(numpy.maximum(high[:-2], high[1:-1]), high[2:]),
    )


def check_curve(drawn, solid, columns, times, values):
    low, high = exact_columns(times, values, columns["from"], columns["to"], columns["width"])
    wide_low, wide_high = neighbours(low, high)
    assert drawn["open"] == 0, "all of the picture is known"
    assert (numpy.array(drawn["low"]) <= low).all(), "no dip is lost"
    assert (numpy.array(drawn["high"]) >= high).all(), "no peak is lost"
    # A row of a coarse level may lie in two columns; nothing reaches further.
    assert (numpy.array(drawn["low"]) >= wide_low).all()
    assert (numpy.array(drawn["high"]) <= wide_high).all()
    # As pixels: a line of 2 pixels, as high as its range, and joined to the column before.
    low, high = numpy.array(drawn["low"]), numpy.array(drawn["high"])
    joint = numpy.maximum(
        numpy.append(0, low[1:] - high[:-1]), numpy.append(0, low[:-1] - high[1:])
    )
    pixels = (high - low + numpy.maximum(joint, 0)) / columns["top"] * columns["height"]
    assert (numpy.array(solid) <= pixels + 3.5).all()
    flat = wide_high == wide_low
    return flat.sum(), numpy.array(solid)[flat].max(initial=0)


@pytest.mark.parametrize("width", (640, 1400, 2000, 3800))
def test_every_column_shows_what_happened_in_it(view, page_url, facts, width):
    samples = {k: v.astype(float) for k, v in facts.timeline(0).items()}
    assert len(samples["time_ns"]) > 8 * 2048, "the recording has several levels"
    calls = facts.table("driver_calls")
    view.page.set_viewport_size({"width": width, "height": 900})
    view.page.add_init_script(_COLUMNS)
    view.open(page_url)
    for begin, end in RANGES:
        if (begin, end) != RANGES[0]:
            view.page.evaluate(
                """([begin, end]) => {
                    const root = document.getElementById("levee"), { chart } = root;
                    window.drawn = undefined;
                    root.dataset.state = "loading";
                    chart.setRange(begin * chart.end, end * chart.end);
                }""",
                [begin, end],
            )
        view.page.wait_for_selector("#levee[data-state=ready]")
        columns = view.page.evaluate("window.drawn")
        view.screenshot(f"columns-{width}-{begin}")
        for name, colour in (("reserved", "red"), ("allocated", "blue")):
            flat, thick = check_curve(
                columns[name], columns[colour], columns, samples["time_ns"], samples[name]
            )
            assert flat > 50 and thick <= 2, "a value that holds is a line of two pixels"
        check_lane(columns, calls)


def check_lane(columns, calls):
    scale = columns["width"] / (columns["to"] - columns["from"])
    x0 = (calls["begin_ns"].astype(float) - columns["from"]) * scale
    x1 = x0 + calls["duration_ns"].astype(float) * scale
    touched = numpy.zeros(columns["width"], dtype=bool)
    for a, b in zip(x0, x1):
        first, last = int(numpy.floor(a)), max(int(numpy.ceil(b)) - 1, int(numpy.floor(a)))
        touched[max(first, 0) : max(last + 1, 0)] = True
    idle = {colour for colour, busy in zip(columns["colours"], touched) if not busy}
    assert len(idle) == 1, "columns without a driver call have the lane's own colour"
    tinted = numpy.array([colour not in idle for colour in columns["colours"]])
    assert (tinted == touched).all()
    assert ((numpy.array(columns["covers"]) > 0) <= touched).all()
