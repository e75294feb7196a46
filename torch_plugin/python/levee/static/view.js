// @ts-check
// Puts the view of one recording together: head, figures, picture, tables; and moves it by mouse, wheel and keys.
// What it shows stands in data-* attributes of its root, and column by column in the root's `chart`, so that a test can read it.

import { Chart } from "./chart.js";
import { countText, counted, durationText, momentText, sizeText } from "./format.js";
import { make, tabsOf } from "./tables.js";

/** @param {any} report @param {number} index */
function tiles(report, index) {
  const device = report.devices[index];
  const warm = report.steps.after_warm_up;
  const stall = report.storms.reduce((sum, s) => sum + s.stall_ns, 0);
  const tile = (title, value, detail, kind) => make("div", { class: "lv-tile" + (kind ? " lv-" + kind : "") },
    make("div", { class: "lv-tile-title" }, title), make("div", { class: "lv-tile-value" }, value),
    make("div", { class: "lv-tile-detail" }, detail || " "));
  const out = [
    tile("Peak reserved", sizeText(device.peak_reserved_bytes), device.total_bytes ? `of ${sizeText(device.total_bytes)}` : "", "is-reserved"),
    tile("Peak allocated", sizeText(device.peak_allocated_bytes),
      device.peak_active_bytes > device.peak_allocated_bytes ? `${sizeText(device.peak_active_bytes)} with waiting blocks` : "", "is-allocated"),
    tile("Reserved / in use", device.ratio === null ? "–" : device.ratio.toFixed(3), "at their peaks; 1 is perfect"),
  ];
  if (!report.source.is_sampled) {
    out.push(tile("Emergencies", countText(report.emergency_count),
      report.emergency_count ? `${durationText(report.emergency_ns)} in all` : "no request had to wait",
      report.emergency_count ? "is-bad" : "is-good"));
    out.push(tile("Storms", countText(report.storms.length), report.storms.length ? `the program lost ${durationText(stall)}` : "",
      report.storms.length ? "is-bad" : "is-good"));
    if (warm.steps) {
      out.push(tile("Driver memory calls a step", (warm.memory_calls / warm.steps).toFixed(2), `after the first ${counted(report.steps.warm_up, "step", "steps")}`));
    } else {
      out.push(tile("Driver memory calls", countText(report.driver.memory_calls), durationText(report.driver.memory_ns)));
    }
  }
  if (report.source.is_sampled && report.steps.count) out.push(tile("Steps", countText(report.steps.ended), ""));
  return out;
}

/** @param {HTMLElement} root @param {any} bundle @param {{title?: string}} [options] */
export function mountView(root, bundle, options = {}) {
  const opened = performance.now();
  const report = bundle.report;
  const source = report.source;
  root.classList.add("lv-view");
  root.dataset.state = "loading";

  const facts = [`${durationText(source.duration_ns)} recorded`, counted(source.events, "event", "events")];
  if (source.rank >= 0) facts.push(`rank ${source.rank} of ${source.world_size}`);
  if (source.host) facts.push(`${source.host}, pid ${source.pid}`);
  const canvas = /** @type {HTMLCanvasElement} */ (make("canvas", { class: "lv-canvas", tabindex: 0, role: "img",
    "aria-label": "Reserved and allocated memory over time" }));
  const tooltip = make("div", { class: "lv-tooltip", hidden: "" });
  const button = (label, title, onclick) => make("button", { title, onclick, type: "button" }, label);
  const rangeText = make("span", { class: "lv-range" });
  const figures = make("div", { class: "lv-tiles" });
  const tabBar = make("div", { class: "lv-tabs", role: "tablist" });
  const tabBody = make("div", { class: "lv-tab-body" });
  const chooser = report.devices.length > 1 ? make("select", { "aria-label": "Device" },
    ...report.devices.map((d, i) => make("option", { value: i }, `Device ${d.id} ${d.name}`))) : null;

  const chart = new Chart(canvas, bundle, (state) => {
    rangeText.textContent = `${momentText(state.from, (state.to - state.from) / 1000)} to ${momentText(state.to, (state.to - state.from) / 1000)}`
      + ` (${durationText(state.to - state.from)})`;
    root.dataset.from = String(state.from);
    root.dataset.to = String(state.to);
    root.dataset.rows = String(state.rows);
    root.dataset.exact = String(state.isExact);
    root.dataset.low = String(state.low);
    root.dataset.high = String(state.high);
    root.dataset.drawMs = state.ms.toFixed(1);
    if (state.isReady && root.dataset.state !== "ready") {
      root.dataset.firstPaintMs = (performance.now() - opened).toFixed(1);
      root.dataset.sinceStartMs = performance.now().toFixed(1);
      root.dataset.state = "ready";
    }
  });
  /** @type {any} */ (root).chart = chart;
  const device = () => chart.device;
  const show = (begin, end) => {
    const margin = Math.max((end - begin) * 0.6, 1e5);
    chart.setRange(begin - margin, end + margin);
    canvas.scrollIntoView({ block: "nearest", behavior: "smooth" });
  };
  const fillDevice = () => {
    figures.replaceChildren(...tiles(report, device()));
    const d = report.devices[device()];
    Object.assign(root.dataset, {
      device: d.id, peakReserved: d.peak_reserved_bytes, peakAllocated: d.peak_allocated_bytes,
      emergencies: report.emergency_count, storms: report.storms.length, steps: report.steps.ended,
      samples: chart.curve.samples, lanes: bundle.lanes.length,
    });
    const tabs = tabsOf(report, device(), show);
    tabBar.replaceChildren();
    const open = (i) => {
      tabBody.replaceChildren(tabs[i][2]());
      [...tabBar.children].forEach((b, k) => b.setAttribute("aria-selected", String(k === i)));
      root.dataset.tab = tabs[i][0];
    };
    tabs.forEach(([title, number], i) => {
      tabBar.append(make("button", { role: "tab", type: "button", onclick: () => open(i) }, title,
        number === null ? null : make("span", { class: "lv-count" }, countText(number))));
    });
    open(0);
  };
  if (chooser) {
    chooser.addEventListener("change", () => {
      chart.selectDevice(Number(/** @type {HTMLSelectElement} */ (chooser).value));
      fillDevice();
    });
  }

  const legend = (style, text) => make("span", { class: "lv-key" }, make("i", { class: style }), text);
  root.replaceChildren(
    make("header", { class: "lv-head" },
      make("div", {}, make("h1", {}, options.title || bundle.index.title || source.label || source.path),
        make("p", { class: "lv-faint", title: source.program },
          [source.program.length > 110 ? source.program.slice(0, 109) + "…" : source.program, ...facts].filter(Boolean).join(" · ")),
        source.is_modelled ? make("p", { class: "lv-remark" }, "Simulated GPU: times are modelled.") : null,
        ...report.completeness.remarks.map((text) => make("p", { class: "lv-remark" }, text))),
      make("div", { class: "lv-head-side" }, chooser,
        button("◐", "Light or dark", () => {
          const page = document.documentElement;
          const dark = getComputedStyle(root).getPropertyValue("--lv-dark").trim() === "1";
          page.dataset.theme = dark ? "light" : "dark";
          chart.invalidate();
        }))),
    figures,
    make("div", { class: "lv-panel" },
      make("div", { class: "lv-bar" },
        legend("lv-k-reserved", "reserved"), legend("lv-k-allocated", "allocated"),
        bundle.curves.some((c) => c.has_active) ? legend("lv-k-active", "active") : null,
        legend("lv-k-idle", "reserved but idle"),
        report.storms.length ? legend("lv-k-storm", "storm, ▼ emergency") : null,
        make("span", { class: "lv-space" }), rangeText,
        button("−", "Zoom out (minus key)", () => chart.zoom(2)), button("+", "Zoom in (plus key)", () => chart.zoom(0.5)),
        button("Whole run", "Show everything (0 key, double click)", () => chart.setRange(0, chart.end))),
      make("div", { class: "lv-canvas-box" }, canvas, tooltip),
      make("p", { class: "lv-faint lv-help" }, "Wheel zooms, dragging moves, dragging with Shift selects; arrow keys, + and − work too.")),
    tabBar, tabBody);

  hoverAndDrag(root, canvas, tooltip, chart);
  fillDevice();
  new ResizeObserver(() => chart.invalidate()).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.invalidate());
  // The coarsest level of everything first: then a first picture never waits for detail.
  const waits = bundle.curves.map((c) => c.pyramid.coarsest?.request(0, chart.end));
  Promise.all(waits).then(() => chart.invalidate()).catch((error) => {
    root.dataset.state = "failed";
    root.prepend(make("p", { class: "lv-remark" }, `The data of this view cannot be read: ${error.message}.`));
  });
  return chart;
}

function rangeOf([low, high]) {
  return low === high ? sizeText(high) : `${sizeText(low)} to ${sizeText(high)}`;
}

function hoverAndDrag(root, canvas, tooltip, chart) {
  let drag = null;
  const local = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const tell = (point) => {
    const info = chart.at(point.x, point.y);
    tooltip.hidden = !info;
    if (!info) return;
    const resolution = (chart.to - chart.from) / chart.plot.width;
    const row = (name, value) => make("div", {}, make("span", { class: "lv-faint" }, name), " ", value);
    tooltip.replaceChildren(...[
      row("time", momentText(info.time, resolution)),
      info.step !== null ? row("step", info.step) : null,
      row("reserved", rangeOf(info.reserved)), row("allocated", rangeOf(info.allocated)),
      info.active ? row("active", rangeOf(info.active)) : null,
      info.slice ? make("div", { class: "lv-slice" }, `${info.slice.name}, ${durationText(info.slice.duration)}`) : null,
      info.emergency ? make("div", { class: "lv-bad-text" }, info.emergency.text.headline) : null,
      !info.emergency && info.storm ? make("div", { class: "lv-bad-text" }, info.storm.text) : null,
    ].filter(Boolean));
    const left = point.x + 16 + tooltip.offsetWidth > chart.size.width ? point.x - 16 - tooltip.offsetWidth : point.x + 16;
    tooltip.style.left = `${Math.max(left, 0)}px`;
    tooltip.style.top = `${Math.min(point.y + 12, chart.size.height - tooltip.offsetHeight)}px`;
    Object.assign(root.dataset, { hoverTime: info.time, hoverReserved: info.reserved[1], hoverAllocated: info.allocated[1],
      hoverSlice: info.slice ? info.slice.name : "" });
  };
  canvas.addEventListener("pointermove", (event) => {
    const point = local(event);
    if (drag) {
      const dx = point.x - drag.x;
      if (drag.kind === "pan") chart.setRange(drag.from - (dx / chart.plot.width) * drag.span, drag.from - (dx / chart.plot.width) * drag.span + drag.span);
      else if (drag.kind === "select") chart.selection = [drag.x, point.x];
      else overviewTo(point.x);
      chart.invalidate();
      return;
    }
    chart.hover = point;
    tell(point);
    chart.invalidate();
  });
  const overviewTo = (x) => {
    const middle = ((x - chart.plot.x) / chart.plot.width) * chart.end;
    const half = (chart.to - chart.from) / 2;
    chart.setRange(middle - half, middle + half);
  };
  canvas.addEventListener("pointerdown", (event) => {
    const point = local(event);
    canvas.setPointerCapture(event.pointerId);
    const onOverview = point.y >= chart.overview.y;
    drag = { x: point.x, from: chart.from, span: chart.to - chart.from, kind: onOverview ? "overview" : event.shiftKey ? "select" : "pan" };
    if (onOverview) overviewTo(point.x);
    tooltip.hidden = true;
  });
  canvas.addEventListener("pointerup", (event) => {
    const point = local(event);
    if (drag && drag.kind === "select" && Math.abs(point.x - drag.x) > 4) {
      const [a, b] = [chart.time(drag.x), chart.time(point.x)];
      chart.selection = null;
      chart.setRange(Math.min(a, b), Math.max(a, b));
    }
    chart.selection = null;
    drag = null;
    chart.invalidate();
  });
  canvas.addEventListener("pointerleave", () => {
    chart.hover = null;
    tooltip.hidden = true;
    chart.invalidate();
  });
  canvas.addEventListener("dblclick", () => chart.setRange(0, chart.end));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const point = local(event);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      chart.pan((event.deltaX / chart.plot.width) * (chart.to - chart.from));
    } else {
      chart.zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) * 0.0022), chart.time(Math.max(point.x, chart.plot.x)));
    }
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const span = chart.to - chart.from;
    const actions = {
      "+": () => chart.zoom(0.5), "=": () => chart.zoom(0.5), "-": () => chart.zoom(2), "0": () => chart.setRange(0, chart.end),
      ArrowLeft: () => chart.pan(-span / 5), ArrowRight: () => chart.pan(span / 5),
    };
    if (actions[event.key]) {
      actions[event.key]();
      event.preventDefault();
    }
  });
}
