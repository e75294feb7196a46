// @ts-check
// Numbers as people read them; the same forms as allocator/analysis/text.h.

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function three(value) {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function sizeText(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  let value = bytes / 1024, unit = 0;
  while (value >= 1023.5 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit++;
  }
  return `${three(value)} ${UNITS[unit]}`;
}

export function durationText(ns) {
  if (!ns) return "0 s";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 999.5e3) return `${three(ns / 1e3)} µs`;
  if (ns < 999.5e6) return `${three(ns / 1e6)} ms`;
  const seconds = Math.round(ns / 1e9);
  if (seconds < 120) return `${three(ns / 1e9)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} min`;
}

/** A moment since the start, with as many digits as `resolution` (ns) can show. */
export function momentText(ns, resolution) {
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(resolution, 1) / 1e9))));
  const seconds = ns / 1e9;
  if (seconds < 120) return `${seconds.toFixed(digits)} s`;
  const minutes = Math.floor(seconds / 60);
  return `${minutes} min ${(seconds - minutes * 60).toFixed(digits)} s`;
}

export function countText(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** "1 event", "3 events". */
export function counted(number, one, many) {
  return `${countText(number)} ${Math.round(number) === 1 ? one : many}`;
}

export function shareText(part, whole) {
  if (!whole) return "–";
  const percent = (100 * part) / whole;
  if (part && percent < 0.01) return "<0.01 %";
  return `${percent.toFixed(percent < 10 ? 2 : 1)} %`;
}

/** Round numbers for about `count` ticks over [low, high]; `base` 2 for bytes. */
export function ticks(low, high, count, base) {
  const span = high - low;
  if (!(span > 0)) return [low];
  let step;
  if (base === 2) {
    step = 2 ** Math.ceil(Math.log2(span / count));
  } else {
    const rough = span / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || 10 * power;
  }
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) out.push(t);
  return out;
}

/** What step `i` of a report is called. Where marks end steps, the last entry is what came after the last of them. */
export function stepText(steps, i) {
  return i < steps.ended ? String(steps.number[i]) : `after ${steps.number[i] - 1}`;
}
