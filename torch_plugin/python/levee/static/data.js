// @ts-check
// Access to a view's data: an index in JSON and chunks of columns that are fetched, inflated and decoded when they are
// needed. Layout: allocator/export/README.md.

/** Bytes of decoded columns that are kept; the oldest go first. */
const CACHE_BYTES = 96 << 20;

/** @param {Uint8Array} bytes one zlib stream @returns {Promise<Uint8Array>} */
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Columns of one chunk: absolute numbers.
 * @param {Uint8Array} raw inflated bytes
 * @param {any[]} chunk its entry in the index
 * @returns {Float64Array[]}
 */
export function decodeColumns(raw, chunk) {
  const [, , rows, coding, bases, units] = chunk;
  const columns = [];
  if (coding === "f8") {
    const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
    for (let c = 0; c < bases.length; c++) {
      const column = new Float64Array(rows);
      for (let i = 0; i < rows; i++) column[i] = view.getFloat64((c * rows + i) * 8, true);
      columns.push(column);
    }
    return columns;
  }
  for (let c = 0; c < bases.length; c++) {
    const column = new Float64Array(rows);
    const b0 = c * rows * 4, b1 = b0 + rows, b2 = b1 + rows, b3 = b2 + rows;
    const unit = units[c];
    let value = bases[c];
    for (let i = 0; i < rows; i++) {
      const zigzag = raw[b0 + i] | (raw[b1 + i] << 8) | (raw[b2 + i] << 16) | (raw[b3 + i] << 24);
      value += ((zigzag >>> 1) ^ -(zigzag & 1)) * unit;
      column[i] = value;
    }
    columns.push(column);
  }
  return columns;
}

/** Rows sorted by their first column, a time, cut into chunks. */
export class Table {
  /** @param {Bundle} bundle @param {{rows: number, chunks: any[]}} spec */
  constructor(bundle, spec) {
    this.bundle = bundle;
    this.rows = spec.rows;
    this.chunks = spec.chunks;
    /** @type {(Float64Array[] | null)[]} */
    this.loaded = new Array(spec.chunks.length).fill(null);
    /** @type {(Promise<void> | null)[]} */
    this.pending = new Array(spec.chunks.length).fill(null);
  }

  /** First and last chunk that may hold rows that matter in [from, to]. @returns {[number, number]} */
  span(from, to) {
    let low = 0, high = this.chunks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.chunks[middle][4][0] <= from) low = middle;
      else high = middle - 1;
    }
    let last = low;
    while (last + 1 < this.chunks.length && this.chunks[last + 1][4][0] <= to) last++;
    return [low, last];
  }

  /** About how many rows lie in [from, to]. */
  estimate(from, to) {
    if (!this.chunks.length) return 0;
    const [first, last] = this.span(from, to);
    let sum = 0;
    for (let i = first; i <= last; i++) {
      const [, , rows, , bases, , end] = this.chunks[i];
      const begin = bases[0];
      const length = Math.max(end - begin, 1);
      const overlap = Math.min(to, end) - Math.max(from, begin);
      sum += rows * Math.min(1, Math.max(overlap / length, 0)) + 1;
    }
    return sum;
  }

  has(from, to) {
    if (!this.chunks.length) return true;
    const [first, last] = this.span(from, to);
    for (let i = first; i <= last; i++) if (!this.loaded[i]) return false;
    return true;
  }

  /** Starts what is missing for [from, to]. @returns {Promise<any>} */
  request(from, to) {
    if (!this.chunks.length) return Promise.resolve();
    const [first, last] = this.span(from, to);
    const waits = [];
    for (let i = first; i <= last; i++) {
      if (!this.loaded[i]) waits.push(this.load(i));
    }
    return Promise.all(waits);
  }

  load(i) {
    if (!this.pending[i]) {
      const [offset, length] = this.chunks[i];
      this.pending[i] = this.bundle.fetchBytes(offset, length).then(inflate).then((raw) => {
        this.loaded[i] = decodeColumns(raw, this.chunks[i]);
        this.pending[i] = null;
        this.bundle.remember(this, i);
      });
    }
    return this.pending[i];
  }

  /** Chunk and place in it of a row. @returns {[number, number]} */
  place(row) {
    const size = this.chunks[0][2]; // of every chunk but the last
    return [Math.floor(row / size), row % size];
  }

  /** Time of a row; `end` behind the last one. */
  timeOf(row, end) {
    if (row >= this.rows) return end;
    const [chunk, i] = this.place(row);
    if (i === 0) return this.chunks[chunk][4][0];
    const columns = this.loaded[chunk];
    return columns ? columns[0][i] : end;
  }

  /**
   * Calls visit(columns, firstRow, lastRow, number of the chunk's first row) for the loaded rows that matter in
   * [from, to]: those in it and the one before.
   */
  visit(from, to, visit) {
    if (!this.chunks.length) return;
    const [first, last] = this.span(from, to);
    for (let i = first; i <= last; i++) {
      const columns = this.loaded[i];
      if (!columns) continue;
      const time = columns[0];
      let a = i === first ? Math.max(0, upperBound(time, from) - 1) : 0;
      const b = i === last ? upperBound(time, to) : time.length;
      if (a < b) visit(columns, a, b, i * this.chunks[0][2]);
    }
  }
}

/** Index of the first entry above `value`. @param {Float64Array} sorted */
export function upperBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Tables of the same rows at several resolutions, coarsest first; the last one is exact. */
export class Pyramid {
  /** @param {Bundle} bundle @param {{levels: any[], detail: any}} spec */
  constructor(bundle, spec) {
    this.levels = spec.levels.map((level) => new Table(bundle, level));
    this.detail = new Table(bundle, spec.detail);
    this.tables = spec.detail.rows ? [...this.levels, this.detail] : this.levels;
    /** Rows for pictures of the whole run, none wider than `widest_ns`; not one of the levels. */
    this.first = spec.first ? new Table(bundle, spec.first) : null;
    this.firstWidest = spec.first ? spec.first.widest_ns : 0;
  }

  /** The finest table with at most `rows` rows in the range. */
  wanted(from, to, rows) {
    for (let i = this.tables.length - 1; i > 0; i--) {
      if (this.tables[i].estimate(from, to) <= rows) return i;
    }
    return 0;
  }

  /**
   * The best table that is there now for a picture of that many rows with columns of `widest` (in time), and whether it is the
   * one wanted; if not, that one is asked for and `onLoaded` called once.
   * @returns {[Table | null, boolean]}
   */
  best(from, to, rows, widest, onLoaded) {
    if (!this.tables.length) return [null, true];
    const wanted = this.wanted(from, to, rows);
    const best = this.first && this.firstWidest <= widest ? this.first : this.tables[wanted];
    if (best.has(from, to)) return [best, true];
    best.request(from, to).then(onLoaded);
    for (let i = wanted - 1; i >= 0; i--) {
      if (this.tables[i].has(from, to)) return [this.tables[i], false];
    }
    return [this.first && this.first.has(from, to) ? this.first : null, false];
  }
}

/** Finer chunks that one picture may ask for: together they fit the cache, so that drawing comes to an end. */
const MOST_CHUNKS = 96;

/**
 * Rows of a pyramid for a picture: those of `table`, except that a row that is wider than `widest` (in time) is replaced by the
 * rows it stands for, and so on. Rows are cut by count, so a pause in the program makes one very wide: its minimum
 * and maximum are true, but for a moment and not for the pause. `extentOf(columns, i, next)` says how wide a row is;
 * `visit(columns, i, isDetail, openUntil)` gets the rows in order; `openUntil` is 0, or for a wide row whose finer ones are not
 * there the time of the row after it: until then it is not known what was when. What is missing is requested, and `onLoaded`
 * called when it is there. Returns how many chunks were asked for: 0 = this is the picture.
 */
export function visitFine(pyramid, table, from, to, widest, end, extentOf, visit, onLoaded) {
  const tables = pyramid.tables;
  const FACTOR = 8; // kLevelFactor of allocator/analysis/timeline.h
  const used = new Set();
  let missing = 0;
  const may = (level, chunk) => {
    const key = level * 1e7 + chunk;
    if (!used.has(key) && used.size >= MOST_CHUNKS) return false;
    used.add(key);
    return true;
  };
  const one = (level, row, columns, i) => {
    const here = level < 0 ? pyramid.first : tables[level];
    const finer = level < 0 ? null : tables[level + 1];
    const isDetail = here === pyramid.detail;
    const next = isDetail ? 0 : here.timeOf(row + 1, end);
    if (isDetail || extentOf(columns, i, next) <= widest) {
      visit(columns, i, isDetail, 0);
      return;
    }
    if (finer) {
      const first = row * FACTOR;
      const [chunk, place] = finer.place(first);
      const inside = finer.loaded[chunk];
      const isAllowed = may(level, chunk);
      if (inside && isAllowed) {
        const last = Math.min(FACTOR, finer.rows - first);
        for (let k = 0; k < last; k++) {
          // Of the rows inside, those beyond the range's edges do not count.
          const after = finer.timeOf(first + k + 1, end);
          if (inside[0][place + k] + extentOf(inside, place + k, after) < from) continue;
          if (inside[0][place + k] > to) break;
          one(level + 1, first + k, inside, place + k);
        }
        return;
      }
      if (isAllowed) {
        missing++;
        finer.load(chunk).then(onLoaded);
      }
    }
    visit(columns, i, false, next);
  };
  const level = tables.indexOf(table);
  table.visit(from, to, (columns, first, last, base) => {
    for (let i = first; i < last; i++) one(level, base + i, columns, i);
  });
  return missing;
}

export class Bundle {
  /**
   * @param {any} index content of view.json
   * @param {(offset: number, length: number) => Promise<Uint8Array>} fetchBytes reads view.bin
   */
  constructor(index, fetchBytes) {
    this.index = index;
    this.fetchBytes = fetchBytes;
    this.report = index.report;
    this.names = index.names;
    this.curves = index.curves.map((curve) => ({ ...curve, pyramid: new Pyramid(this, curve) }));
    this.lanes = index.lanes.map((lane) => ({ ...lane, pyramid: new Pyramid(this, lane) }));
    this.cache = [];
    this.cachedBytes = 0;
  }

  /** Keeps what was decoded within bounds. The coarsest tables are small and stay. */
  remember(table, i) {
    const bytes = table.loaded[i].reduce((sum, column) => sum + column.byteLength, 0);
    this.cache.push([table, i, bytes]);
    this.cachedBytes += bytes;
    while (this.cachedBytes > CACHE_BYTES && this.cache.length > 64) {
      const [old, k, size] = this.cache.shift();
      if (old.rows <= 4096) {
        this.cache.push([old, k, size]);
        continue;
      }
      old.loaded[k] = null;
      this.cachedBytes -= size;
    }
  }
}

/** Chunks embedded in the page: one element a chunk, base64. @param {any} index */
export function embeddedBundle(index) {
  return new Bundle(index, async (offset) => {
    const element = document.getElementById("levee-chunk-" + offset);
    if (!element) throw new Error("a part of this page is missing");
    const text = atob((element.textContent || "").trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  });
}
