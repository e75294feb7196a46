// @ts-check
// The picture: memory over time, with steps above it and driver calls, kernels and phases beneath, all on one time axis.
// Draws on a canvas from whatever resolution is loaded; asks for more and draws again when it comes.

import { durationText, momentText, sizeText, stepText, ticks } from "./format.js";
import { upperBound, visitFine } from "./data.js";

const LEFT = 106, RIGHT = 14;
const RULER = 24, AXIS = 26, LANE = 18, LANE_GAP = 4, GROUP_GAP = 22, OVERVIEW = 46;
const MAX_LANES = 14;

/** Colours of kernels and phases: by name, so that the same kernel looks the same everywhere. */
const HUES = [212, 168, 262, 32, 340, 140, 190, 290, 48, 12, 100, 232];

function hueOf(text) {
  let hash = 7;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) | 0;
  return HUES[Math.abs(hash) % HUES.length];
}

/** Minimum and maximum of a curve for each pixel column. */
class ColumnRange {
  constructor(width) {
    this.low = new Float64Array(width);
    this.high = new Float64Array(width);
    /** Where what was when is not known (yet): the range is that of a longer time. */
    this.isOpen = new Uint8Array(width);
  }
}

export class Chart {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {any} bundle
   * @param {(state: any) => void} onDraw told after each drawing what is to be seen
   */
  constructor(canvas, bundle, onDraw) {
    this.canvas = canvas;
    this.bundle = bundle;
    this.onDraw = onDraw;
    this.device = 0;
    this.hover = null;
    this.selection = null;
    this.scheduled = false;
    this.end = Math.max(bundle.report.source.duration_ns, 1);
    this.from = 0;
    this.to = this.end;
    this.selectDevice(0);
  }

  selectDevice(index) {
    this.device = index;
    this.curve = this.bundle.curves[index];
    const id = this.curve.device;
    const lanes = this.bundle.lanes;
    const groups = [
      ["driver", lanes.filter((l) => l.kind === "driver" && l.device === id)],
      ["kernels", lanes.filter((l) => l.kind === "kernels" && l.device === id)],
      ["phases", lanes.filter((l) => l.kind === "phases")],
    ];
    let room = MAX_LANES;
    this.groups = [];
    for (const [kind, list] of groups) {
      const shown = list.slice(0, room);
      room -= shown.length;
      if (shown.length) this.groups.push({ kind, lanes: shown });
    }
    const device = this.bundle.report.devices[index];
    this.top = Math.max(device.peak_reserved_bytes, device.peak_active_bytes, 1) * 1.06;
    this.invalidate();
  }

  /** Heights of the parts, from the top. */
  layout() {
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    const lanes = this.groups.reduce(
      (sum, g) => sum + GROUP_GAP + g.lanes.length * (LANE + LANE_GAP), 0);
    const memory = this.memoryHeight || 300;
    const height = RULER + memory + lanes + AXIS + OVERVIEW + 10;
    if (this.canvas.style.height !== `${height}px`) this.canvas.style.height = `${height}px`;
    const pixelWidth = Math.round(width * ratio), pixelHeight = Math.round(height * ratio);
    if (this.canvas.width !== pixelWidth || this.canvas.height !== pixelHeight) {
      this.canvas.width = pixelWidth;
      this.canvas.height = pixelHeight;
    }
    this.plot = { x: LEFT, width: Math.max(50, width - LEFT - RIGHT), y: RULER, height: memory };
    this.lanesTop = RULER + memory;
    this.axisTop = this.lanesTop + lanes;
    this.overview = { y: this.axisTop + AXIS, height: OVERVIEW };
    this.size = { width, height };
    return ratio;
  }

  x(time) {
    return this.plot.x + ((time - this.from) / (this.to - this.from)) * this.plot.width;
  }
  time(x) {
    return this.from + ((x - this.plot.x) / this.plot.width) * (this.to - this.from);
  }
  y(bytes) {
    return this.plot.y + this.plot.height - (bytes / this.top) * this.plot.height;
  }

  setRange(from, to) {
    const least = 200; // ns: below that there is nothing to see
    let span = Math.min(Math.max(to - from, least), this.end);
    from = Math.min(Math.max(from, 0), this.end - span);
    this.from = from;
    this.to = from + span;
    this.invalidate();
  }
  zoom(factor, around) {
    const t = around === undefined ? (this.from + this.to) / 2 : around;
    this.setRange(t - (t - this.from) * factor, t + (this.to - t) * factor);
  }
  pan(delta) {
    this.setRange(this.from + delta, this.to + delta);
  }

  invalidate() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  colours() {
    const style = getComputedStyle(this.canvas);
    const read = (name) => style.getPropertyValue(name).trim();
    return {
      text: read("--lv-text"), faint: read("--lv-faint"), grid: read("--lv-grid"),
      panel: read("--lv-panel"), reserved: read("--lv-reserved"), allocated: read("--lv-allocated"),
      allocatedFill: read("--lv-allocated-fill"), idleFill: read("--lv-idle-fill"),
      active: read("--lv-active"), storm: read("--lv-storm"), stormEdge: read("--lv-storm-edge"),
      step: read("--lv-step"), brush: read("--lv-brush"), dark: read("--lv-dark") === "1",
    };
  }

  draw() {
    const began = performance.now();
    const ratio = this.layout();
    const g = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const c = this.colours();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.size.width, this.size.height);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    this.drawSteps(g, c);
    this.drawGrid(g, c);
    this.drawStorms(g, c);
    const drawn = this.drawMemory(g, c, this.from, this.to, this.plot);
    this.drawLimits(g, c);
    this.drawMarks(g, c);
    const isWaiting = this.drawLanes(g, c);
    this.drawAxis(g, c);
    this.drawOverview(g, c);
    this.drawSelection(g, c);
    this.drawHover(g, c);
    this.onDraw({
      from: this.from, to: this.to, isExact: drawn.isExact, rows: drawn.rows, isReady: drawn.isEmpty || (drawn.rows > 0 && drawn.isWhole && !isWaiting),
      low: drawn.low, high: drawn.high, ms: performance.now() - began,
    });
  }

  // Steps: bands above and faintly behind everything. ------------------------------------------------

  drawSteps(g, c) {
    const steps = this.bundle.report.steps;
    if (!steps.count) return;
    const begin = steps.begin_ns;
    const first = Math.max(0, upperBound(begin, this.from) - 1);
    const last = Math.min(steps.count, upperBound(begin, this.to));
    const perPixel = (last - first) / this.plot.width;
    const every = Math.max(1, Math.ceil(((last - first) * 46) / this.plot.width));
    g.save();
    g.beginPath();
    g.rect(this.plot.x, 0, this.plot.width, this.axisTop);
    g.clip();
    let labelled = -Infinity; // where the last label ends: steps differ in length
    for (let i = first; i < last; i++) {
      const x0 = this.x(begin[i]), x1 = this.x(begin[i] + steps.duration_ns[i]);
      if (perPixel < 0.2 && i % 2 === 0) {
        g.fillStyle = c.step;
        g.fillRect(x0, RULER, x1 - x0, this.axisTop - RULER);
      }
      if (perPixel < 0.25) {
        g.fillStyle = c.grid;
        g.fillRect(Math.round(x0), 4, 1, RULER - 4);
      }
      if (x0 >= labelled && (steps.number[i] % every === 0 || last - first < 4)) {
        const name = stepText(steps, i);
        const label = last - first < 14 && i < steps.ended ? `step ${name}` : name;
        g.fillStyle = c.faint;
        g.textAlign = "left";
        g.fillText(label, x0 + 4, RULER / 2);
        labelled = x0 + 10 + g.measureText(label).width;
      }
    }
    g.restore();
    g.fillStyle = c.faint;
    g.textAlign = "right";
    g.fillText("step", this.plot.x - 10, RULER / 2);
  }

  drawGrid(g, c) {
    g.textAlign = "right";
    for (const value of ticks(0, this.top, 6, 2)) {
      const y = Math.round(this.y(value)) + 0.5;
      g.strokeStyle = c.grid;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(this.plot.x, y);
      g.lineTo(this.plot.x + this.plot.width, y);
      g.stroke();
      g.fillStyle = c.faint;
      g.fillText(sizeText(value), this.plot.x - 10, y);
    }
  }

  drawLimits(g, c) {
    const device = this.bundle.report.devices[this.device];
    for (const [bytes, label] of [[device.limit_bytes, "limit"], [device.total_bytes, "device"]]) {
      if (!bytes || bytes > this.top) continue;
      const y = Math.round(this.y(bytes)) + 0.5;
      g.setLineDash([6, 5]);
      g.strokeStyle = c.faint;
      g.beginPath();
      g.moveTo(this.plot.x, y);
      g.lineTo(this.plot.x + this.plot.width, y);
      g.stroke();
      g.setLineDash([]);
      g.fillStyle = c.faint;
      g.textAlign = "right";
      g.fillText(`${label} ${sizeText(bytes)}`, this.plot.x + this.plot.width - 4, y - 9);
    }
  }

  // Curves --------------------------------------------------------------------------------------------

  /** Ranges for each pixel column from a table's rows; columns of the table: time, then (low, high) or one value a curve. */
  columnRanges(table, curves, from, to, width) {
    const scale = width / (to - from);
    const ranges = curves.map(() => new ColumnRange(width));
    const previousLow = curves.map(() => NaN);
    const previousHigh = curves.map(() => NaN);
    for (const r of ranges) {
      r.low.fill(Infinity);
      r.high.fill(-Infinity);
    }
    let column = -1, rows = 0, isExact = true;
    const widen = (k, x, low, high) => {
      if (low < ranges[k].low[x]) ranges[k].low[x] = low;
      if (high > ranges[k].high[x]) ranges[k].high[x] = high;
    };
    const fillTo = (next) => {
      // Columns without a row of their own: what held before goes on.
      for (let x = Math.max(column + 1, 0); x < Math.min(next, width); x++) {
        for (let k = 0; k < curves.length; k++) {
          if (!Number.isNaN(previousHigh[k])) widen(k, x, previousLow[k], previousHigh[k]);
        }
      }
    };
    // A row of at most a column's time lies in that column or the one after.
    const missing = visitFine(this.curve.pyramid, table, from, to, 1 / scale, this.curve.end_ns,
      (columns, i, next) => next - columns[0][i],
      (columns, i, isDetail, openUntil) => {
        rows++;
        if (!isDetail) isExact = false;
        const x = Math.floor((columns[0][i] - from) * scale);
        if (x > column) {
          fillTo(x);
          column = x;
          if (x >= 0 && x < width) {
            // The old value also held in this column, up to the row.
            for (let k = 0; k < curves.length; k++) {
              if (!Number.isNaN(previousHigh[k])) widen(k, x, previousLow[k], previousHigh[k]);
            }
          }
        }
        for (let k = 0; k < curves.length; k++) {
          const at = curves[k];
          const low = isDetail ? columns[at][i] : columns[at * 2 - 1][i];
          const high = isDetail ? low : columns[at * 2][i];
          if (x >= 0 && x < width) widen(k, x, low, high);
          previousLow[k] = low;
          previousHigh[k] = high;
          if (openUntil && low < high) {
            const last = Math.min(Math.floor((openUntil - from) * scale), width - 1);
            ranges[k].isOpen.fill(1, Math.max(x, 0), Math.max(last + 1, 0));
          }
        }
      }, () => this.invalidate());
    fillTo(width);
    return { ranges, rows, isExact, missing };
  }

  drawMemory(g, c, from, to, area, isOverview) {
    const pyramid = this.curve.pyramid;
    const width = Math.floor(area.width);
    const [table, isBest] = pyramid.best(from, to, width * 4, (to - from) / width, () => this.invalidate());
    const none = { rows: 0, isWhole: false, isExact: false, low: 0, high: 0, isEmpty: !pyramid.tables.length || !this.curve.samples };
    if (!table) return none;
    const curves = this.curve.has_active ? [1, 2, 3] : [1, 2];
    const { ranges, rows, isExact, missing } = this.columnRanges(table, curves, from, to, width);
    const [reserved, allocated, active] = ranges;
    const top = this.top;
    const y = (bytes) => area.y + area.height - (bytes / top) * area.height;
    const bottom = area.y + area.height;
    g.save();
    g.beginPath();
    g.rect(area.x, area.y - 2, area.width, area.height + 2);
    g.clip();
    const area_under = (range, base, style) => {
      g.fillStyle = style;
      for (let x = 0; x < width; x++) {
        if (range.high[x] < 0) continue;
        const y0 = y(range.high[x]);
        const y1 = base ? y(Math.max(base.high[x], 0)) : bottom;
        if (y1 > y0) g.fillRect(area.x + x, y0, 1, y1 - y0);
      }
    };
    area_under(reserved, active || allocated, c.idleFill);
    area_under(allocated, null, c.allocatedFill);
    // Lines on whole pixels: a flat one-pixel line at a fractional height would be half transparent.
    const line = (range, style, thick) => {
      g.fillStyle = style;
      let highBefore = NaN, lowBefore = NaN;
      for (let x = 0; x < width; x++) {
        if (range.high[x] < 0) continue;
        let high = Math.round(y(range.high[x])), low = Math.round(y(range.low[x]));
        const highHere = high, lowHere = low;
        // Joined to the nearer end of the column before, so that a step is a line and not two dots.
        if (high > lowBefore) high = lowBefore;
        if (low < highBefore) low = highBefore;
        // A band and not a line where it is not known what was when.
        g.globalAlpha = range.isOpen[x] ? 0.16 : 1;
        g.fillRect(area.x + x, high - (thick - 1), 1, low - high + thick);
        highBefore = highHere;
        lowBefore = lowHere;
      }
      g.globalAlpha = 1;
    };
    if (active && !isOverview) line(active, c.active, 1);
    line(allocated, c.allocated, isOverview ? 1 : 2);
    line(reserved, c.reserved, isOverview ? 1 : 2);
    g.restore();
    if (!isOverview) this.shown = { reserved, allocated, active, width };
    let low = Infinity, high = 0;
    for (let x = 0; x < width; x++) {
      if (reserved.high[x] < 0) continue;
      low = Math.min(low, reserved.low[x]);
      high = Math.max(high, reserved.high[x]);
    }
    return { rows, isExact, isWhole: isBest && missing === 0, low: high ? low : 0, high, isEmpty: false };
  }

  // Storms and emergencies ------------------------------------------------------------------------------

  drawStorms(g, c) {
    const id = this.curve.device;
    for (const storm of this.bundle.report.storms) {
      if (storm.device !== id || storm.end_ns < this.from || storm.begin_ns > this.to) continue;
      const x0 = Math.max(this.x(storm.begin_ns), this.plot.x);
      const x1 = Math.min(Math.max(this.x(storm.end_ns), x0 + 3), this.plot.x + this.plot.width);
      g.fillStyle = c.storm;
      g.fillRect(x0, this.plot.y, x1 - x0, this.axisTop - this.plot.y);
      g.fillStyle = c.stormEdge;
      g.fillRect(Math.round(x0), this.plot.y, 1, this.axisTop - this.plot.y);
      g.fillRect(x0, this.plot.y, x1 - x0, 3);
    }
  }

  drawMarks(g, c) {
    const id = this.curve.device;
    const report = this.bundle.report;
    const inside = (t) => t >= this.from && t <= this.to;
    g.fillStyle = c.stormEdge;
    let previous = -100;
    for (const e of report.emergencies) {
      if (e.device !== id || !inside(e.begin_ns)) continue;
      const x = this.x(e.begin_ns);
      if (x - previous < 2) continue;
      previous = x;
      g.beginPath();
      g.moveTo(x - 5, this.plot.y + 4);
      g.lineTo(x + 5, this.plot.y + 4);
      g.lineTo(x, this.plot.y + 13);
      g.fill();
    }
    g.strokeStyle = c.reserved;
    g.lineWidth = 2;
    for (const oom of report.out_of_memory) {
      if (oom.device !== id || !inside(oom.time_ns)) continue;
      const x = this.x(oom.time_ns), y = this.plot.y + 22;
      g.beginPath();
      g.moveTo(x - 5, y - 5);
      g.lineTo(x + 5, y + 5);
      g.moveTo(x + 5, y - 5);
      g.lineTo(x - 5, y + 5);
      g.stroke();
    }
  }

  // Lanes ------------------------------------------------------------------------------------------------

  drawLanes(g, c) {
    const titles = { driver: "Driver calls", kernels: "GPU: kernels and copies", phases: "Phases of the program" };
    let y = this.lanesTop;
    this.laneAreas = [];
    let isWaiting = false;
    for (const group of this.groups) {
      y += GROUP_GAP;
      g.fillStyle = c.faint;
      g.textAlign = "left";
      g.font = "11px system-ui, sans-serif";
      g.fillText(titles[group.kind], this.plot.x, y - GROUP_GAP / 2 + 2);
      let before = group.kind === "driver" ? "driver calls" : "";
      for (const lane of group.lanes) {
        this.laneAreas.push({ lane, y, height: LANE });
        g.fillStyle = c.faint;
        g.textAlign = "right";
        // Deeper phases of one thread stand under its name.
        if (lane.label !== before) g.fillText(short(lane.label, 14), this.plot.x - 10, y + LANE / 2);
        before = lane.label;
        g.fillStyle = c.step;
        g.fillRect(this.plot.x, y, this.plot.width, LANE);
        if (!this.drawLane(g, c, lane, y)) isWaiting = true;
        y += LANE + LANE_GAP;
      }
      g.font = "12px system-ui, sans-serif";
    }
    return isWaiting;
  }

  /** False if parts of the lane are still to come. */
  drawLane(g, c, lane, y) {
    const width = Math.floor(this.plot.width);
    const [table, isBest] = lane.pyramid.best(this.from, this.to, width * 4, (this.to - this.from) / width, () => this.invalidate());
    if (!table) return false;
    const scale = width / (this.to - this.from);
    const cover = new Float64Array(width);
    const lightness = c.dark ? 62 : 52;
    g.save();
    g.beginPath();
    g.rect(this.plot.x, y, this.plot.width, LANE);
    g.clip();
    // Marks the columns of [x0, x0 + w], each with the share of it in which something ran.
    const mark = (x0, w, share) => {
      const from = Math.max(Math.floor(x0), 0);
      const to = Math.min(Math.max(Math.ceil(x0 + w) - 1, Math.floor(x0)), width - 1);
      for (let x = from; x <= to; x++) {
        const part = Math.min(x0 + w, x + 1) - Math.max(x0, x);
        cover[x] += Math.max(part * share, 0.02);
      }
    };
    // A row of at most a column's time touches two columns: its first span begins in one, its last ends in the other.
    const missing = visitFine(lane.pyramid, table, this.from, this.to, 1 / scale, this.end,
      (columns, i) => columns[1][i],
      (columns, i, isDetail, openUntil) => {
        const [begin, extent, third, named] = columns;
        const x0 = (begin[i] - this.from) * scale;
        const w = extent[i] * scale;
        if (x0 + w < 0) return;
        const name = isDetail ? third[i] : named ? named[i] - 1 : -1;
        if (name >= 0 && w >= 2) {
          this.drawSlice(g, c, lane, y, x0, w, width, this.bundle.names[name]);
        } else if (openUntil) {
          // All that is known: something began here and something ended there.
          mark(x0, 0, 0);
          mark(x0 + w, 0, 0);
        } else {
          mark(x0, w, isDetail ? 1 : Math.min(1, third[i] / Math.max(extent[i], 1)));
        }
      }, () => this.invalidate());
    lane.shown = cover;
    const colour = lane.kind === "driver" ? c.stormEdge
      : `hsl(${lane.kind === "kernels" ? 212 : 168} 50% ${lightness}%)`;
    g.fillStyle = colour;
    for (let x = 0; x < width; x++) {
      if (cover[x] <= 0) continue;
      g.globalAlpha = Math.min(1, 0.25 + 0.75 * cover[x]);
      g.fillRect(this.plot.x + x, y, 1, LANE);
    }
    g.globalAlpha = 1;
    g.restore();
    return isBest && missing === 0;
  }

  drawSlice(g, c, lane, y, x0, w, width, name) {
    const hue = hueOf(name);
    g.fillStyle = lane.kind === "driver" ? c.stormEdge
      : lane.kind === "phases" ? `hsl(${hue} 34% ${c.dark ? 58 : 66}%)` : `hsl(${hue} 52% ${c.dark ? 62 : 52}%)`;
    const left = Math.max(x0, 0);
    const room = Math.min(x0 + w, width) - left;
    g.fillRect(this.plot.x + left, y, Math.max(room - (w > 4 ? 1 : 0), 1), LANE);
    if (room <= 46) return;
    g.fillStyle = c.dark || lane.kind === "phases" ? "#101418" : "#fff";
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "left";
    g.fillText(short(name, Math.floor((room - 8) / 6)), this.plot.x + left + 4, y + LANE / 2 + 0.5);
  }

  drawAxis(g, c) {
    const y = this.axisTop;
    const span = this.to - this.from;
    g.strokeStyle = c.grid;
    g.beginPath();
    g.moveTo(this.plot.x, y + 0.5);
    g.lineTo(this.plot.x + this.plot.width, y + 0.5);
    g.stroke();
    g.fillStyle = c.faint;
    const marks = ticks(this.from, this.to, Math.max(2, Math.floor(this.plot.width / 130)), 10);
    const step = marks.length > 1 ? marks[1] - marks[0] : span;
    for (const t of marks) {
      const x = this.x(t);
      g.fillRect(Math.round(x), y, 1, 5);
      g.textAlign = x > this.plot.x + this.plot.width - 50 ? "right" : "left";
      g.fillText(momentText(t, step), x + (g.textAlign === "left" ? 4 : -4), y + 14);
    }
  }

  drawOverview(g, c) {
    const { y, height } = this.overview;
    const area = { x: this.plot.x, width: this.plot.width, y: y + 3, height: height - 6 };
    g.fillStyle = c.step;
    g.fillRect(area.x, y, area.width, height);
    this.drawMemory(g, c, 0, this.end, area, true);
    const at = (t) => area.x + (t / this.end) * area.width;
    g.fillStyle = c.stormEdge;
    for (const storm of this.bundle.report.storms) {
      if (storm.device === this.curve.device) g.fillRect(at(storm.begin_ns) - 1, y, 3, 5);
    }
    if (this.from > 0 || this.to < this.end) {
      const x0 = at(this.from), x1 = Math.max(at(this.to), x0 + 3);
      g.fillStyle = c.brush;
      g.fillRect(area.x, y, x0 - area.x, height);
      g.fillRect(x1, y, area.x + area.width - x1, height);
      g.strokeStyle = c.faint;
      g.lineWidth = 1;
      g.strokeRect(Math.round(x0) + 0.5, y + 0.5, Math.max(2, Math.round(x1 - x0) - 1), height - 1);
    }
    g.fillStyle = c.faint;
    g.textAlign = "right";
    g.font = "11px system-ui, sans-serif";
    g.fillText("whole run", this.plot.x - 10, y + height / 2);
    g.font = "12px system-ui, sans-serif";
  }

  drawSelection(g, c) {
    if (!this.selection) return;
    const [a, b] = this.selection;
    g.fillStyle = c.brush;
    g.fillRect(Math.min(a, b), this.plot.y, Math.abs(b - a), this.axisTop - this.plot.y);
  }

  drawHover(g, c) {
    if (this.hover === null) return;
    const { x } = this.hover;
    if (x < this.plot.x || x > this.plot.x + this.plot.width) return;
    g.fillStyle = c.faint;
    g.fillRect(Math.round(x), this.plot.y, 1, this.axisTop - this.plot.y);
  }

  // Questions ----------------------------------------------------------------------------------------------

  /** What lies under a point: time, step, values, and the slice of the lane there. */
  at(x, y) {
    const time = this.time(x);
    if (time < this.from || time > this.to || !this.shown) return null;
    const column = Math.min(Math.max(Math.floor(x - this.plot.x), 0), this.shown.width - 1);
    const steps = this.bundle.report.steps;
    const index = steps.count ? upperBound(steps.begin_ns, time) - 1 : -1;
    const out = {
      time, step: index >= 0 ? stepText(steps, index) : null,
      reserved: [this.shown.reserved.low[column], this.shown.reserved.high[column]],
      allocated: [this.shown.allocated.low[column], this.shown.allocated.high[column]],
      active: this.shown.active ? [this.shown.active.low[column], this.shown.active.high[column]] : null,
      slice: null, storm: null, emergency: null,
    };
    if (out.reserved[1] < 0) return null;
    const near = ((this.to - this.from) / this.plot.width) * 6;
    const report = this.bundle.report;
    out.storm = report.storms.find(
      (s) => s.device === this.curve.device && time >= s.begin_ns - near && time <= s.end_ns + near) || null;
    out.emergency = report.emergencies.find(
      (e) => e.device === this.curve.device && time >= e.begin_ns - near && time <= e.begin_ns + e.duration_ns + near) || null;
    const area = (this.laneAreas || []).find((a) => y >= a.y && y < a.y + a.height);
    if (area) out.slice = this.sliceAt(area.lane, time);
    return out;
  }

  sliceAt(lane, time) {
    const table = lane.pyramid.detail;
    const slack = (this.to - this.from) / this.plot.width;
    if (!table.has(time, time)) return null;
    let found = null;
    table.visit(time - slack * 2, time + slack, ([begin, extent, name], first, last) => {
      for (let i = first; i < last; i++) {
        if (begin[i] - slack <= time && time <= begin[i] + extent[i] + slack) {
          found = { name: this.bundle.names[name[i]], begin: begin[i], duration: extent[i] };
        }
      }
    });
    return found;
  }
}

function short(text, characters) {
  if (text.length <= characters) return text;
  return characters < 2 ? "" : text.slice(0, characters - 1) + "…";
}

export { durationText };
