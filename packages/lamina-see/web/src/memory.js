// Pane: live bytes over the schedule; the values that are alive at the chosen instant, by line; computed savings.
import uPlot from "uplot";
import { bar, baseName, bytes, colour, empty, h, plural, replace, table } from "./dom.js";
import { lineKey, sourceText } from "./data.js";

const KINDS = ["argument", "constant", "result", "temporary"];
const PLURALS = { argument: "arguments", constant: "constants", result: "results", temporary: "temporary values" };
const MOST = 60;

export class MemoryPane {
  constructor(selection) {
    this.selection = selection;
    this.chart = h("div", { class: "chart" });
    this.legend = h("div", { class: "legend" });
    this.live = h("div", {});
    this.savings = h("div", {});
    this.at = h("h3", {});
    this.tools = h("span", { class: "tools" }, h("button", { type: "button", title: "select the peak (p)", onclick: () => this.peak() }, "Peak"));
    this.element = h("section", { class: "card", id: "memory" }, h("header", {}, h("h2", {}, "Memory"), this.tools), this.legend, this.chart, this.at, this.live, this.savings);
    selection.listen((what, current, origin) => { if (what === "function") this.showFunction(); else this.mark(origin); });
    new ResizeObserver(() => this.resize()).observe(this.chart);
    this.showFunction();
  }

  get memory() { const m = this.selection.f && this.selection.f.memory; return m && m.instructions.length ? m : null; }

  showFunction() {
    this.instant = this.memory ? this.memory.peak_at : null;
    if (this.plot) { this.plot.destroy(); this.plot = null; }
    this.tools.hidden = !this.memory;
    if (!this.memory) {
      replace(this.chart, empty("The schedule of this function is unknown, so its memory over time is unknown."));
      for (const element of [this.legend, this.at, this.live, this.savings]) replace(element);
      return;
    }
    replace(this.legend, KINDS.filter((k) => this.memory.buffers.some((b) => b.kind === k)).map((k) => h("span", {}, h("i", { class: k }), PLURALS[k])), h("span", {}, h("i", { class: "mark" }), "selection"),
      h("span", { class: "muted" }, `peak ${bytes(this.memory.peak)}${this.memory.xla_peak === null ? "" : `; XLA allocates ${bytes(this.memory.xla_peak)}`}`));
    this.build();
    this.list();
    this.showSavings();
  }

  // Bytes over the schedule of the buffers for which `wanted` holds.
  curve(wanted) {
    const n = this.memory.instructions.length, change = new Float64Array(n + 1);
    this.memory.buffers.forEach((b, k) => { if (wanted(b, k)) { change[b.first] += b.bytes; change[Math.min(n, b.last + 1)] -= b.bytes; } });
    for (let k = 1; k < n; k += 1) change[k] += change[k - 1];
    return change.subarray(0, n);
  }

  build() {
    const n = this.memory.instructions.length;
    const x = Float64Array.from({ length: n }, (_, k) => k + 1);
    const sums = [];
    let below = new Float64Array(n);
    for (const kind of KINDS) {
      const own = this.curve((b) => b.kind === kind);
      below = below.map((v, k) => v + own[k]);
      sums.push(below);
    }
    this.base = [x, Float64Array.from(this.memory.instructions, (i) => i.live), ...sums.reverse()];
    const stepped = n <= 400 ? uPlot.paths.stepped({ align: 1 }) : undefined;
    const band = (kind) => ({ label: kind, fill: () => colour(`--${kind}`), stroke: () => colour("--panel"), width: 0.5, points: { show: false }, paths: stepped });
    const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--rule"), width: 1 }, ticks: { stroke: () => colour("--rule"), width: 1 }, font: "11px system-ui, sans-serif" };
    replace(this.chart);
    this.plot = new uPlot({
      width: Math.max(200, this.chart.clientWidth || 600), height: 190, legend: { show: false },
      cursor: { drag: { x: true, y: false }, y: false, points: { show: false } }, scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.06] } },
      axes: [{ ...axis, space: 70, values: (_, ticks) => ticks.map((t) => Number.isInteger(t) ? t : ""), label: "instruction", labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 30 },
        { ...axis, size: 72, values: (_, ticks) => ticks.map((t) => t ? bytes(t) : "0"), splits: (u, _, low, high) => niceBytes(high) }],
      series: [{}, { label: "live", stroke: () => colour("--text"), width: 1, points: { show: false }, paths: stepped }, ...[...KINDS].reverse().map(band),
        { label: "selection", fill: () => colour("--mark-fill"), stroke: () => colour("--mark"), width: 1.5, points: { show: false }, paths: stepped }],
      hooks: { draw: [(u) => this.cursorLine(u)], ready: [(u) => this.listen(u)] },
    }, [...this.base, null], this.chart);
    this.overlay();
  }

  listen(u) {
    let down = null;
    u.over.setAttribute("aria-label", "memory over the schedule; click an instant");
    u.over.addEventListener("mousedown", (e) => { down = e.clientX; });
    u.over.addEventListener("click", (e) => {
      if (down !== null && Math.abs(e.clientX - down) > 4) return; // a drag zooms
      const k = Math.round(u.posToVal(e.clientX - u.over.getBoundingClientRect().left, "x")) - 1;
      this.selection.instruction(Math.max(0, Math.min(this.memory.instructions.length - 1, k)), "memory");
    });
  }

  cursorLine(u) {
    if (this.instant === null) return;
    const ratio = devicePixelRatio || 1, x = Math.round(u.valToPos(this.instant + 1, "x", true)) + 0.5;
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
    u.ctx.save();
    u.ctx.strokeStyle = colour("--accent");
    u.ctx.lineWidth = 1.5 * ratio;
    u.ctx.setLineDash([4 * ratio, 3 * ratio]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  }

  resize() {
    const width = this.chart.clientWidth;
    if (this.plot && width > 50 && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: 190 });
  }

  overlay() {
    const { buffers } = this.selection.current;
    const chosen = buffers.size ? Array.from(this.curve((_, k) => buffers.has(k)), (v) => v || null) : this.base[0].length ? new Array(this.base[0].length).fill(null) : [];
    this.plot.setData([...this.base, chosen], false);
    this.plot.redraw(false);
  }

  mark(origin) {
    if (!this.memory) return;
    const { current } = this.selection;
    if (current.instant !== null) this.instant = current.instant;
    this.overlay();
    this.list(origin);
  }

  peak() { if (this.memory) this.selection.instruction(this.memory.peak_at, "memory"); }

  step(by) {
    if (!this.memory) return;
    this.selection.instruction(Math.max(0, Math.min(this.memory.instructions.length - 1, this.instant + by)), "memory");
  }

  list() {
    const { report, current } = this.selection, m = this.memory, i = this.instant;
    const groups = new Map();
    let total = 0;
    m.buffers.forEach((b, k) => {
      if (b.first > i || b.last < i || !b.bytes) return;
      const key = lineKey(b), at = groups.get(key) || { row: b, bytes: 0, buffers: [] };
      at.bytes += b.bytes;
      at.buffers.push(k);
      total += b.bytes;
      groups.set(key, at);
    });
    const sorted = [...groups.entries()].sort((a, b) => b[1].bytes - a[1].bytes);
    replace(this.at, `${bytes(m.instructions[i].live)} alive at instruction ${i + 1} of ${m.instructions.length}`, h("code", {}, m.instructions[i].name), i === m.peak_at && h("b", { class: "tag" }, "peak"));
    const rows = [];
    for (const [key, group] of sorted) {
      if (rows.length >= MOST) break;
      const chosen = key && current.lines.has(key);
      rows.push({
        class: chosen ? "group chosen" : "group", data: { line: key }, action: key ? () => this.selection.line(group.row, "memory") : null,
        cells: [bytes(group.bytes), bar([{ value: group.bytes, class: "plain" }], sorted[0][1].bytes),
          key ? [h("span", { class: "place" }, `${baseName(report.sources[group.row.source].file)}:${group.row.line}`), h("code", {}, sourceText(report, group.row))] : h("span", { class: "muted" }, "no line"),
          plural(group.buffers.length, "value")],
      });
      group.buffers.sort((a, b) => m.buffers[b].bytes - m.buffers[a].bytes);
      for (const k of group.buffers.slice(0, chosen || sorted.length === 1 ? 24 : 2)) {
        const b = m.buffers[k], value = b.value === null ? null : this.selection.f.values[b.value];
        rows.push({
          class: current.buffers.has(k) ? "inner chosen" : "inner", action: () => this.selection.buffer(k, "memory"),
          cells: [bytes(b.bytes), h("i", { class: `dot ${b.kind}`, title: b.kind }), [h("code", {}, value ? value.name : b.name), h("span", { class: "muted" }, ` ${b.type} ${b.kind}`)], ""],
        });
      }
    }
    replace(this.live, rows.length ? table([{ text: "bytes", class: "n" }, { text: "", class: "w" }, { text: "values alive, by line" }, { text: "", class: "n last" }], rows, { class: "tall" }) : empty("No value is alive at this instant."));
  }

  showSavings() {
    const { report } = this.selection;
    replace(this.savings, h("h3", {}, "What would lower the peak"), this.memory.savings.length
      ? table([{ text: "saves", class: "n" }, { text: "change" }, { text: "of" }, { text: "how" }], this.memory.savings.map((row) => ({
        action: row.source === null ? null : () => this.selection.line(row, "savings"),
        cells: [bytes(row.bytes), row.kind, [h("code", {}, row.what), row.source === null ? "" : h("span", { class: "place" }, ` ${baseName(report.sources[row.source].file)}:${row.line}`)], h("code", {}, row.how)],
      })), { class: "stack" })
      : empty(report.command ? "A report on a program does not try changes: lamina.see(f)(*args) in Python does." : "No donation, checkpoint or chunk that was tried lowers the peak."));
  }
}

export function niceBytes(high) {
  let unit = 1;
  while (unit * 1024 <= high) unit *= 1024;
  const most = high / unit;
  const step = [0.25, 0.5, 1, 2, 5, 10, 25, 50, 100, 200, 250].find((v) => most / v <= 5) || 512;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, k) => k * step * unit);
}
