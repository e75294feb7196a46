// @ts-check
// The tables beneath the picture: emergencies with cause and cost, storms, steps, holders, phases, driver calls, advice.

import { countText, counted, durationText, momentText, shareText, sizeText, stepText } from "./format.js";

const MAX_ROWS = 500;

/** Builds an element; texts are always text, never markup. */
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

/** A table whose head sorts. `columns`: [title, value of a row, text of the value, isText]. */
function sortable(columns, rows, onRow) {
  let sortedBy = -1, down = true;
  const body = make("tbody", {});
  const fill = () => {
    body.replaceChildren();
    for (const row of rows.slice(0, MAX_ROWS)) {
      const tr = make("tr", onRow ? { class: "lv-link", tabindex: 0, title: "Show in the picture" } : {});
      for (const [, value, text, isText] of columns) {
        tr.append(make("td", { class: isText ? "lv-left" : "" }, text(value(row), row)));
      }
      if (onRow) {
        tr.addEventListener("click", () => onRow(row));
        tr.addEventListener("keydown", (event) => {
          if (event.key === "Enter") onRow(row);
        });
      }
      body.append(tr);
    }
  };
  const head = make("tr", {});
  columns.forEach(([title, value, , isText], i) => {
    head.append(make("th", {
      class: isText ? "lv-left" : "", scope: "col",
      onclick: () => {
        down = sortedBy === i ? !down : true;
        sortedBy = i;
        const order = (a, b) => {
          const x = value(a), y = value(b);
          return typeof x === "string" ? String(x).localeCompare(String(y)) : (x ?? -1) - (y ?? -1);
        };
        rows = [...rows].sort((a, b) => (down ? -order(a, b) : order(a, b)));
        fill();
      },
    }, title));
  });
  fill();
  const more = rows.length > MAX_ROWS
    ? make("p", { class: "lv-faint" }, `${counted(rows.length - MAX_ROWS, "more row is", "more rows are")} not shown.`) : null;
  return make("div", { class: "lv-scroll" },
    make("table", {}, make("thead", {}, head), body), more);
}

const at = (ns) => momentText(ns, 1e5);

function emergencies(report, show) {
  const items = report.emergencies.map((e) => {
    const span = make("button", { class: "lv-show", onclick: () => show(e.begin_ns, e.begin_ns + e.duration_ns) }, "Show");
    const list = make("ol", {}, ...e.text.rungs.map((rung) => make("li", {}, rung + ".")));
    return make("li", { class: e.outcome === "served" ? "lv-card" : "lv-card lv-bad", "data-emergency": "" },
      make("div", { class: "lv-card-head" }, make("strong", {}, e.text.headline), span),
      make("p", {}, e.text.cause), e.text.rungs.length ? list : null,
      make("p", {}, e.text.paid),
      e.stack ? make("details", {}, make("summary", {}, "Asked for at " + e.stack.split("\n")[0]),
        make("pre", {}, e.stack)) : null,
      make("p", { class: "lv-advice" }, "Advice: " + e.text.advice));
  });
  const rest = report.emergency_count - items.length;
  return make("div", {},
    make("p", { class: "lv-faint" }, `${countText(report.emergency_count)} in all, costing ${durationText(report.emergency_ns)}` +
      (report.emergencies_refused ? `; ${report.emergencies_refused} refused with out of memory` : "") + "."),
    make("ul", { class: "lv-cards" }, ...items.slice(0, MAX_ROWS)),
    rest > 0 ? make("p", { class: "lv-faint" }, `${countText(rest)} more are not listed.`) : null);
}

function storms(report, show) {
  return sortable([
    ["begin", (s) => s.begin_ns, at],
    ["steps", (s) => s.first_step, (v, s) => (v === null ? "–" : v === s.last_step ? String(v) : `${v} to ${s.last_step}`)],
    ["emergencies", (s) => s.emergencies, countText],
    ["given back", (s) => s.released_bytes, sizeText],
    ["taken again", (s) => s.reacquired_bytes, sizeText],
    ["driver calls", (s) => s.driver_calls, countText],
    ["time in them", (s) => s.driver_ns, durationText],
    ["program lost", (s) => s.stall_ns, durationText],
    ["reserved before → lowest", (s) => s.reserved_before_bytes - s.reserved_min_bytes,
      (_, s) => `${sizeText(s.reserved_before_bytes)} → ${sizeText(s.reserved_min_bytes)}`],
  ], report.storms, (s) => show(s.begin_ns, s.end_ns));
}

function steps(report, show, device) {
  const s = report.steps, peaks = s.devices[device];
  const rows = s.number.map((number, i) => ({ number, i }));
  return sortable([
    ["step", (r) => r.number, (_, r) => stepText(s, r.i)],
    ["begin", (r) => s.begin_ns[r.i], at],
    ["duration", (r) => s.duration_ns[r.i], durationText],
    ["peak reserved", (r) => peaks.peak_reserved_bytes[r.i], sizeText],
    ["peak allocated", (r) => peaks.peak_allocated_bytes[r.i], sizeText],
    ["allocations", (r) => s.allocations[r.i], countText],
    ["driver memory calls", (r) => s.memory_calls[r.i], countText],
    ["time in them", (r) => s.memory_ns[r.i], durationText],
    ["emergencies", (r) => s.emergencies[r.i], countText],
    ["time in them", (r) => s.emergency_ns[r.i], durationText],
  ], rows, (r) => show(s.begin_ns[r.i], s.begin_ns[r.i] + s.duration_ns[r.i]));
}

function holders(report, device) {
  const d = report.devices[device];
  const table = (title, rows) => make("div", {}, make("h3", {}, title), sortable([
    ["origin", (r) => r.origin, (v) => v, true],
    ["bytes", (r) => r.bytes, sizeText],
    ["share", (r) => r.bytes, (v) => shareText(v, d.at_allocated_peak.allocated_bytes)],
    ["blocks", (r) => r.blocks, countText],
  ], rows));
  const m = d.at_largest_slack;
  const part = (label, bytes) => make("tr", {}, make("td", { class: "lv-left" }, label),
    make("td", {}, sizeText(bytes)), make("td", {}, shareText(bytes, m.reserved_bytes)));
  return make("div", {},
    table("Held at the allocated peak, by phase", d.holders_by_phase),
    table("Held at the allocated peak, by place in the program", d.holders_by_stack),
    make("h3", {}, `Where reserved memory was when most of it lay idle (${at(m.time_ns)})`),
    make("table", { class: "lv-narrow" }, make("tbody", {},
      part("reserved", m.reserved_bytes), part("allocated", m.allocated_bytes),
      part("… of it rounding", m.rounding_bytes), part("waiting for other streams", m.waiting_bytes),
      part("free", m.free_bytes), part("… of it on pages with live blocks", m.partial_page_bytes))),
    d.between?.length ? make("div", {}, make("h3", {}, `Free bytes between live blocks (refused at ${at(d.at_refusal.time_ns)})`), sortable([
      ["what lives on their pages", (r) => r.origin, (v) => v, true],
      ["blocks", (r) => r.blocks, countText],
      ["bytes", (r) => r.block_bytes, sizeText],
      ["free beside it", (r) => r.pinned_bytes, sizeText],
      ["age of the oldest", (r) => r.oldest_ns, durationText],
    ], d.between)) : null,
    d.pins.length ? make("div", {}, make("h3", {}, "Long-lived blocks that kept nearly empty pages then"), sortable([
      ["origin", (r) => r.origin, (v) => v, true],
      ["blocks", (r) => r.blocks, countText],
      ["bytes", (r) => r.block_bytes, sizeText],
      ["pages kept", (r) => r.pinned_bytes, sizeText],
      ["age of the oldest", (r) => r.oldest_ns, durationText],
    ], d.pins)) : null);
}

function phases(report) {
  return sortable([
    ["phase", (r) => r.path, (v) => v, true],
    ["entered", (r) => r.entries, countText],
    ["time", (r) => r.total_ns, durationText],
    ["peak allocated", (r) => r.peak_bytes, sizeText],
    ["rise within", (r) => r.peak_rise_bytes, sizeText],
    ["allocations", (r) => r.allocations, countText],
    ["driver time", (r) => r.driver_ns, durationText],
    ["emergencies", (r) => r.emergencies, countText],
  ], report.phases);
}

function driver(report) {
  const d = report.driver, others = d.calls - d.memory_calls;
  const rest = others ? `; and ${counted(others, "other", "others")}, which ask or wait (${durationText(d.ns - d.memory_ns)})` : "";
  return make("div", {},
    make("p", { class: "lv-faint" },
      `${counted(d.memory_calls, "call", "calls")} that take, map or give back memory (${durationText(d.memory_ns)})${rest}.`),
    sortable([
    ["call", (r) => r.call, (v) => v, true],
    ["calls", (r) => r.calls, countText],
    ["time", (r) => r.ns, durationText],
    ["mean", (r) => r.ns / r.calls, durationText],
    ["kind", (r) => (r.is_memory ? "memory" : "other"), (v) => v, true],
  ], report.driver.by_call));
}

function idle(report, show) {
  return make("div", {},
    make("p", { class: "lv-faint" }, "Times when no kernel, copy or memset ran while the allocator was in the driver or in its recovery ladder."),
    sortable([
      ["begin", (g) => g.begin_ns, at],
      ["step", (g) => g.step, (v) => (v === null ? "–" : String(v))],
      ["idle", (g) => g.end_ns - g.begin_ns, durationText],
      ["of it allocator", (g) => g.allocator_ns, durationText],
    ], report.idle_gaps, (g) => show(g.begin_ns, g.end_ns)));
}

function advice(report) {
  return make("div", {},
    make("ul", { class: "lv-list" }, ...report.advice.map((text) => make("li", {}, text))),
    ...report.completeness.remarks.map((text) => make("p", { class: "lv-remark" }, text)),
    ...report.notes.map((note) => make("p", { class: "lv-faint" }, `${at(note.time_ns)}: ${note.text}`)));
}

/** Tabs: [title, number beside it, content]. */
export function tabsOf(report, device, show) {
  const tabs = [];
  if (report.emergency_count) tabs.push(["Emergencies", report.emergency_count, () => emergencies(report, show)]);
  if (report.storms.length) tabs.push(["Storms", report.storms.length, () => storms(report, show)]);
  tabs.push(["Advice", null, () => advice(report)]);
  if (report.steps.count) tabs.push(["Steps", report.steps.ended, () => steps(report, show, device)]);
  if (report.devices[device].holders_by_phase.length) tabs.push(["Who holds memory", null, () => holders(report, device)]);
  if (report.phases.length) tabs.push(["Phases", report.phases.length, () => phases(report)]);
  if (report.driver.by_call.length) tabs.push(["Driver memory calls", report.driver.memory_calls, () => driver(report)]);
  if (report.idle_gaps.length) tabs.push(["Idle GPU", report.idle_gaps.length, () => idle(report, show)]);
  return tabs;
}
