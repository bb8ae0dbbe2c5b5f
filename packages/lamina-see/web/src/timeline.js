// Pane: what each device runs over one measured step. Drawn on a canvas; drag moves, + and - zoom.
import { colour, empty, h, plural, replace, time } from "./dom.js";
import { sourceText } from "./data.js";

const ROW = 18, AXIS = 22, GAP = 8, LABEL = 62;

// Rows of a device that overlap get lanes of their own.
function lanes(rows) {
  const ends = [];
  return rows.map((row) => {
    let lane = ends.findIndex((end) => end <= row.start);
    if (lane < 0) lane = ends.length < 6 ? ends.length : 5;
    ends[lane] = row.start + row.duration;
    return lane;
  });
}

export class TimelinePane {
  constructor(selection) {
    this.selection = selection;
    this.canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "time line of the devices" });
    this.note = h("p", { class: "about" });
    this.body = h("div", { class: "lanes" }, this.canvas);
    const button = (text, title, action) => h("button", { type: "button", title, "aria-label": title, onclick: action }, text);
    this.tools = h("span", { class: "tools" }, button("−", "see more time", () => this.scale(1.6)), button("+", "see less time", () => this.scale(1 / 1.6)), button("Fit", "the whole step", () => this.fit()));
    this.element = h("section", { class: "card", id: "timeline" }, h("header", {}, h("h2", {}, "Time line"), this.tools), this.body, this.note);
    selection.listen((what) => { if (what === "function") this.describe(); this.draw(); });
    const groups = new Map();
    for (const row of selection.report.timeline) {
      const key = `${row.process}/${row.device}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
    }
    const kinds = new Map(selection.report.devices.map((d) => [d.id, d.kind]));
    this.devices = [...groups.values()].map((rows) => {
      rows.sort((a, b) => a.start - b.start);
      const lane = lanes(rows);
      return { rows, lane, count: lane.reduce((a, b) => Math.max(a, b), 0) + 1, name: `${kinds.get(rows[0].device) || "device"}:${rows[0].device}`, process: rows[0].process, longest: rows.reduce((m, r) => Math.max(m, r.duration), 0) };
    }).sort((a, b) => a.process - b.process || (a.rows[0].device - b.rows[0].device));
    if (!this.devices.length) {
      this.tools.hidden = true;
      replace(this.body, empty("No time line was measured."));
      return;
    }
    const rows = selection.report.timeline;
    this.start = rows.reduce((m, r) => Math.min(m, r.start), Infinity);
    this.end = rows.reduce((m, r) => Math.max(m, r.start + r.duration), -Infinity);
    this.view = [this.start, Math.max(this.end, this.start + 1)];
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.body);
    this.describe();
  }

  describe() {
    if (!this.devices.length) return;
    replace(this.note, `${plural(this.selection.report.timeline.length, "event")} on ${plural(this.devices.length, "device")} in ${time(this.end - this.start)}. Colours tell source lines apart. Drag to move, double click to zoom.`);
  }

  listen() {
    let down = null;
    const c = this.canvas;
    c.addEventListener("pointerdown", (e) => { down = { x: e.clientX, view: [...this.view], moved: false }; if (e.pointerType === "mouse") c.setPointerCapture(e.pointerId); });
    c.addEventListener("pointermove", (e) => {
      if (down && Math.abs(e.clientX - down.x) > 3) down.moved = true;
      if (down && down.moved) {
        const by = (down.x - e.clientX) / (this.width - LABEL) * (down.view[1] - down.view[0]);
        this.show(down.view[0] + by, down.view[1] + by);
      } else this.hover(e);
    });
    c.addEventListener("pointercancel", () => { down = null; });
    c.addEventListener("pointerup", (e) => {
      const moved = down && down.moved;
      down = null;
      if (moved) return;
      const row = this.find(e);
      if (row) this.selection.event(row, "timeline");
    });
    c.addEventListener("dblclick", (e) => this.scale(1 / 3, this.timeAt(e)));
    c.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey) return; // the page scrolls
      e.preventDefault();
      this.scale(e.deltaY > 0 ? 1.25 : 0.8, this.timeAt(e));
    }, { passive: false });
    c.addEventListener("keydown", (e) => {
      const by = { ArrowLeft: -0.2, ArrowRight: 0.2 }[e.key];
      if (by) { e.preventDefault(); const d = by * (this.view[1] - this.view[0]); this.show(this.view[0] + d, this.view[1] + d); }
    });
  }

  timeAt(e) {
    const x = e.clientX - this.canvas.getBoundingClientRect().left - LABEL;
    return this.view[0] + x / (this.width - LABEL) * (this.view[1] - this.view[0]);
  }

  find(e) {
    const y = e.clientY - this.canvas.getBoundingClientRect().top, at = this.timeAt(e);
    const near = 2 / (this.width - LABEL) * (this.view[1] - this.view[0]);
    let top = AXIS, best = null;
    for (const device of this.devices) {
      const lane = Math.floor((y - top) / ROW);
      if (y >= top && lane < device.count) {
        device.rows.forEach((row, k) => {
          if (device.lane[k] !== lane) return;
          const distance = Math.max(row.start - at, at - row.start - row.duration, 0);
          if (distance <= near && (!best || distance < best.distance)) best = { row, distance };
        });
      }
      top += device.count * ROW + GAP;
    }
    return best && best.row;
  }

  hover(e) {
    const row = this.find(e);
    this.canvas.style.cursor = row ? "pointer" : "grab";
    this.canvas.title = row ? `${row.name}: ${time(row.duration)}${row.source === null ? "" : `\n${this.selection.name(row)}: ${sourceText(this.selection.report, row)}`}` : "";
  }

  show(from, to) {
    const span = Math.min(to - from, this.end - this.start || 1), low = Math.max(this.start, Math.min(from, this.end - span));
    this.view = [low, low + span];
    this.draw();
  }

  scale(by, at = (this.view[0] + this.view[1]) / 2) {
    if (!this.devices.length) return;
    const span = Math.max(20, (this.view[1] - this.view[0]) * by), part = (at - this.view[0]) / (this.view[1] - this.view[0]);
    this.show(at - part * span, at + (1 - part) * span);
  }

  fit() { this.show(this.start, this.end); }

  draw() {
    if (!this.devices || !this.devices.length || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const ratio = devicePixelRatio || 1;
    this.width = this.body.clientWidth;
    if (this.width < 50) return;
    const height = AXIS + this.devices.reduce((sum, d) => sum + d.count * ROW + GAP, 0);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${height}px`;
    const g = this.canvas.getContext("2d"), dark = document.documentElement.dataset.theme === "dark";
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    const [from, to] = this.view, scale = (this.width - LABEL) / (to - from), x = (t) => LABEL + (t - from) * scale;
    const muted = colour("--muted"), rule = colour("--rule"), text = colour("--text"), mark = colour("--mark");
    this.axis(g, x, height, muted, rule);
    let top = AXIS;
    for (const device of this.devices) {
      g.fillStyle = muted;
      g.fillText(this.selection.report.processes > 1 ? `${device.process} ${device.name}` : device.name, 2, top + ROW / 2, LABEL - 6);
      g.fillStyle = colour("--track");
      g.fillRect(LABEL, top, this.width - LABEL, device.count * ROW - 2);
      g.save();
      g.beginPath();
      g.rect(LABEL, top - 1, this.width - LABEL, device.count * ROW);
      g.clip();
      const chosen = [];
      device.rows.forEach((row, k) => {
        if (row.start > to || row.start + row.duration < from) return;
        const left = x(row.start), width = Math.max(0.7, row.duration * scale), y = top + device.lane[k] * ROW;
        const hit = this.selection.active && this.selection.hasEvent(row);
        if (hit) chosen.push([left, width, y]);
        g.globalAlpha = this.selection.active && !hit ? 0.3 : 1;
        g.fillStyle = row.source === null ? colour("--constant") : `hsl(${Math.round(row.line * 137.508 + row.source * 47) % 360} ${dark ? "38% 46%" : "52% 68%"})`;
        g.fillRect(left, y, Math.max(0.7, width > 3 ? width - 0.6 : width), ROW - 2);
        if (width > 46) { g.fillStyle = text; g.save(); g.beginPath(); g.rect(left, y, width - 4, ROW); g.clip(); g.fillText(row.name, Math.max(left, LABEL) + 4, y + ROW / 2 - 0.5); g.restore(); }
      });
      g.globalAlpha = 1;
      g.strokeStyle = mark;
      g.fillStyle = mark;
      g.lineWidth = 2;
      for (const [left, width, y] of chosen) {
        if (width > 5) g.strokeRect(left + 1, y + 1, width - 2, ROW - 4);
        else g.fillRect(left, y, Math.max(2, width), ROW - 2);
      }
      g.restore();
      top += device.count * ROW + GAP;
    }
  }

  axis(g, x, height, muted, rule) {
    const [from, to] = this.view, step = nice((to - from) / Math.max(2, (this.width - LABEL) / 110));
    for (let t = Math.ceil((from - this.start) / step) * step; t <= to - this.start; t += step) {
      const at = Math.round(x(t + this.start)) + 0.5;
      g.strokeStyle = rule;
      g.beginPath(); g.moveTo(at, 14); g.lineTo(at, height); g.stroke();
      g.fillStyle = muted;
      const label = t ? time(t) : "0";
      if (at + g.measureText(label).width < this.width) g.fillText(label, at + 3, 8);
    }
  }
}

function nice(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].find((v) => v * power >= x) * power;
}
