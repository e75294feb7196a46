// @ts-check
// Several runs in one picture: a panel for each workload, reserved lines by allocator over what is allocated.

import { countText, sizeText, ticks } from "./format.js";
import { make } from "./tables.js";

class Panel {
  constructor(canvas, tooltip, panel) {
    this.canvas = canvas;
    this.panel = panel;
    this.hidden = new Set();
    this.hover = null;
    const xs = panel.runs.flatMap((r) => [r.x[0], r.x[r.x.length - 1]]);
    this.low = Math.min(...xs);
    this.high = Math.max(...xs, this.low + 1e-9);
    this.top = Math.max(...panel.runs.map((r) => r.peak_reserved)) * 1.07;
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      this.hover = event.clientX - box.left;
      this.tell(tooltip);
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      tooltip.hidden = true;
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  area() {
    return { x: 74, y: 10, width: this.canvas.clientWidth - 90, height: 268 };
  }
  xOf(value) {
    const a = this.area();
    return a.x + ((value - this.low) / (this.high - this.low)) * a.width;
  }
  valueAt(run, key, x) {
    let low = 0, high = run.x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (run.x[middle] <= x) low = middle + 1;
      else high = middle;
    }
    return low ? run[key][low - 1] : null;
  }

  tell(tooltip) {
    const a = this.area();
    const x = this.low + ((this.hover - a.x) / a.width) * (this.high - this.low);
    tooltip.hidden = x < this.low || x > this.high;
    if (tooltip.hidden) return;
    tooltip.replaceChildren(
      make("div", {}, this.panel.x === "seconds" ? `${x.toFixed(3)} s` : `${this.panel.x} ${Math.floor(x)}`),
      ...this.panel.runs.map((run) => {
        const value = this.valueAt(run, "reserved", x);
        return make("div", {}, make("span", { style: `color:${run.colour}` }, "■ "), `${run.label} `,
          value === null ? "–" : sizeText(value));
      }));
    const left = this.hover + 16 + tooltip.offsetWidth > this.canvas.clientWidth ? this.hover - 16 - tooltip.offsetWidth : this.hover + 16;
    tooltip.style.left = `${Math.max(0, left)}px`;
    tooltip.style.top = "24px";
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = 310;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const g = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const a = this.area();
    const y = (bytes) => a.y + a.height - (bytes / this.top) * a.height;
    for (const value of ticks(0, this.top, 5, 2)) {
      const line = Math.round(y(value)) + 0.5;
      g.fillStyle = colour("--lv-grid");
      g.fillRect(a.x, line, a.width, 1);
      g.fillStyle = colour("--lv-faint");
      g.textAlign = "right";
      g.fillText(sizeText(value), a.x - 9, line);
    }
    g.textAlign = "right";
    g.fillText(this.panel.x, a.x + a.width, a.y + a.height + 13);
    const room = a.x + a.width - g.measureText(this.panel.x).width - 10;
    g.textAlign = "center";
    for (const value of ticks(this.low, this.high, Math.max(2, a.width / 80), 10)) {
      if (this.panel.x !== "seconds" && value !== Math.round(value)) continue;
      const text = countText(value);
      if (this.xOf(value) + g.measureText(text).width / 2 > room) continue;
      g.fillText(text, this.xOf(value), a.y + a.height + 13);
    }
    const shown = this.panel.runs.filter((run) => !this.hidden.has(run.label));
    const reference = shown.reduce((best, run) => (run.x.length > (best ? best.x.length : 0) ? run : best), null);
    if (reference) {
      this.path(g, reference, "allocated", y);
      g.lineTo(this.xOf(this.high), a.y + a.height);
      g.lineTo(this.xOf(reference.x[0]), a.y + a.height);
      g.fillStyle = colour("--lv-allocated-fill");
      g.fill();
      this.path(g, reference, "allocated", y);
      g.strokeStyle = colour("--lv-allocated");
      g.lineWidth = 1;
      g.stroke();
    }
    for (const run of shown) {
      this.path(g, run, "reserved", y);
      g.strokeStyle = run.colour;
      g.lineWidth = run.label.startsWith("levee") ? 2.5 : 2;
      g.stroke();
    }
    if (this.hover !== null && this.hover > a.x) {
      g.fillStyle = colour("--lv-faint");
      g.fillRect(Math.round(this.hover), a.y, 1, a.height);
    }
  }

  path(g, run, key, y) {
    g.beginPath();
    run.x.forEach((x, i) => {
      if (i) g.lineTo(this.xOf(x), y(run[key][i - 1]));
      g.lineTo(this.xOf(x), y(run[key][i]));
    });
    if (run.x[run.x.length - 1] < this.high) return;
    g.lineTo(this.xOf(this.high), y(run[key][run.x.length - 1]));
  }
}

function mount(root, content) {
  root.classList.add("lv-view");
  const panels = content.panels.map((panel) => {
    const canvas = /** @type {HTMLCanvasElement} */ (make("canvas", { class: "lv-canvas" }));
    const tooltip = make("div", { class: "lv-tooltip", hidden: "" });
    const drawn = new Panel(canvas, tooltip, panel);
    const rows = panel.runs.map((run) => make("tr", {},
      make("td", { class: "lv-left" }, make("span", { style: `color:${run.colour}` }, "■ "), run.label),
      make("td", {}, sizeText(run.peak_reserved)), make("td", {}, sizeText(run.peak_allocated)),
      make("td", {}, run.peak_allocated ? (run.peak_reserved / run.peak_allocated).toFixed(3) : "–"),
      make("td", {}, run.emergencies === null ? "–" : String(run.emergencies))));
    const table = make("table", {}, make("thead", {}, make("tr", {},
      ...["", "peak reserved", "peak allocated", "ratio", "emergencies"].map((t, i) => make("th", { class: i ? "" : "lv-left" }, t)))),
      make("tbody", {}, ...rows));
    return make("section", { class: "lv-panel", style: "margin-top:16px" },
      panel.title ? make("h3", { style: "margin:2px 0 8px" }, panel.title) : null,
      make("div", { class: "lv-canvas-box" }, canvas, tooltip), table);
  });
  const bySteps = content.panels.every((panel) => panel.x === "step");
  root.replaceChildren(
    make("header", { class: "lv-head" }, make("div", {}, make("h1", {}, content.title),
      make("p", { class: "lv-faint" }, `Lines: memory reserved from the device${bySteps ? ", peak within each step" : ""}. Blue: what the program had allocated.`)),
      make("div", { class: "lv-head-side" }, make("button", {
        type: "button", title: "Light or dark", onclick: () => {
          const dark = getComputedStyle(root).getPropertyValue("--lv-dark").trim() === "1";
          document.documentElement.dataset.theme = dark ? "light" : "dark";
          window.dispatchEvent(new Event("resize"));
          root.querySelectorAll("canvas").forEach((c) => (c.style.width = c.style.width === "100%" ? "" : "100%"));
        },
      }, "◐"))),
    ...panels);
  Object.assign(root.dataset, { state: "ready", panels: content.panels.length,
    runs: content.panels.reduce((sum, p) => sum + p.runs.length, 0) });
}

mount(document.getElementById("levee"), JSON.parse(document.getElementById("levee-runs")?.textContent || "{}"));
