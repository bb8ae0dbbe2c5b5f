// Pane: the meshes, and which device holds which block of a value.
import { empty, h, plural, replace, s } from "./dom.js";
import { card } from "./tables.js";

const BLOCKS = 8;
const size = (devices) => Array.isArray(devices) ? [devices.length, ...size(devices[0])] : [];
const flat = (devices) => Array.isArray(devices) ? devices.flatMap(flat) : [devices];

export class MeshPane {
  constructor(selection) {
    this.selection = selection;
    this.body = h("div", {});
    this.element = card("mesh", "Devices and placements", this.body);
    this.chosen = 0;
    selection.listen((what, current, origin) => { if (what === "function") { this.chosen = 0; this.render(); } else if (origin !== "mesh") this.mark(); });
    this.render();
  }

  render() {
    const { f, report } = this.selection, placements = f ? f.placements : [];
    this.picture = h("div", { class: "placements" });
    const devices = report.devices.length;
    replace(this.body, !report.meshes.length && h("p", { class: "about" }, `${plural(devices, "device")}${report.processes > 1 ? ` in ${report.processes} processes` : ""}; no mesh was used.`));
    if (placements.length) {
      this.list = h("div", { class: "chips", role: "group", "aria-label": "values with a placement" }, placements.map((p, k) => h("button", { type: "button", class: k === this.chosen ? "chosen" : "", "aria-pressed": String(k === this.chosen), onclick: () => this.choose(k) }, p.name, h("small", {}, p.role))));
      this.body.append(this.list);
    } else this.body.append(empty("No placement is known for this function."));
    this.body.append(this.picture);
    this.draw();
  }

  choose(k) {
    this.chosen = k;
    [...this.list.children].forEach((b, i) => { b.classList.toggle("chosen", i === k); b.setAttribute("aria-pressed", String(i === k)); });
    this.draw();
    const p = this.selection.f.placements[k], value = p.value === null ? null : this.selection.f.values[p.value];
    if (value && value.source !== null) this.selection.line(value, "mesh");
  }

  // Show the placement of a value of the selected line.
  mark() {
    const { f, current } = this.selection;
    if (!f || !current.buffers.size) return;
    const values = new Set([...current.buffers].map((k) => f.memory.buffers[k].value));
    const k = f.placements.findIndex((p) => p.value !== null && values.has(p.value));
    if (k >= 0 && k !== this.chosen && current.kind === "buffer") {
      this.chosen = k;
      [...this.list.children].forEach((b, i) => b.classList.toggle("chosen", i === k));
      this.draw();
    }
  }

  draw() {
    const { f, report } = this.selection, p = f && f.placements[this.chosen];
    const blocks = new Map(); // slices as text -> {number, devices}
    for (const b of p ? p.blocks : []) {
      const key = JSON.stringify(b.slices);
      if (!blocks.has(key)) blocks.set(key, { number: blocks.size, slices: b.slices, devices: [] });
      blocks.get(key).devices.push(b.device);
    }
    const holder = new Map([...blocks.values()].flatMap((b) => b.devices.map((d) => [d, b])));
    const meshes = report.meshes.length || report.devices.length < 2 ? report.meshes : [{ axes: [], devices: report.devices.map((d) => d.id) }];
    replace(this.picture, meshes.map((mesh) => this.mesh(mesh, holder)), p && this.array(p, [...blocks.values()]));
  }

  mesh(mesh, holder) {
    const ids = flat(mesh.devices), shape = size(mesh.devices), axes = mesh.axes;
    const columns = shape.length > 1 ? shape[shape.length - 1] : axes.length ? shape[0] || 1 : Math.min(8, shape[0] || 1), rows = Math.ceil(ids.length / columns), w = 46, top = axes.length ? 24 : 4, left = shape.length > 1 ? 26 : 4;
    const shown = Math.min(rows, 32), across = Math.min(columns, 32);
    const parts = [];
    for (let r = 0; r < shown; r += 1) for (let c = 0; c < across; c += 1) {
      const id = ids[r * columns + c], block = holder.get(id);
      if (id === undefined) continue;
      parts.push(s("g", { transform: `translate(${left + c * w},${top + r * w})` }, s("title", {}, block ? `device ${id} holds ${slices(block.slices)}` : `device ${id}`), s("rect", { width: w - 4, height: w - 4, rx: 5, class: block ? `block k${block.number % BLOCKS}` : "block none" }), s("text", { x: (w - 4) / 2, y: w / 2 + 2, "text-anchor": "middle" }, id)));
    }
    const label = (axis) => `${axis.name} ${axis.size}`;
    const last = axes[axes.length - 1], others = axes.slice(0, -1);
    const height = top + shown * w + 2, width = Math.max(left + across * w + 2, 130);
    return h("figure", {}, h("figcaption", {}, `${axes.length ? "mesh of " : ""}${plural(ids.length, "device")}`, shown < rows || across < columns ? `; the first ${shown * across} are shown` : ""),
      s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `mesh ${axes.map(label).join(", ")}` }, last && s("text", { x: left, y: 14, class: "note" }, `${label(last)} →`),
        others.length > 0 && s("text", { x: 14, y: top + 4, class: "note", transform: `rotate(90 14 ${top + 4})` }, `${others.map(label).join(", ")} →`), parts));
  }

  array(p, blocks) {
    const rank = Math.max(0, ...blocks.map((b) => b.slices.length));
    const extent = Array.from({ length: rank }, (_, d) => Math.max(...blocks.map((b) => b.slices[d][1])));
    // The picture shows the two last dimensions that are cut, else the last two.
    const cut = extent.map((_, d) => d).filter((d) => new Set(blocks.map((b) => b.slices[d].join())).size > 1);
    const axes = (cut.length ? cut : extent.map((_, d) => d)).slice(-2);
    const [dy, dx] = axes.length === 2 ? axes : axes.length === 1 ? [null, axes[0]] : [null, null];
    const W = 220, H = dy === null ? 46 : 170, names = [];
    const shapes = blocks.slice(0, 256).map((b) => {
      const [x0, x1] = dx === null ? [0, W] : b.slices[dx].map((v) => v / extent[dx] * W), [y0, y1] = dy === null ? [0, H] : b.slices[dy].map((v) => v / extent[dy] * H);
      if (x1 - x0 > 16 && y1 - y0 > 14) names.push(s("text", { x: (x0 + x1) / 2 + 1, y: (y0 + y1) / 2 + 5, "text-anchor": "middle" }, shorten(b.devices, (x1 - x0) / 7)));
      return s("rect", { x: x0 + 1, y: y0 + 1, width: Math.max(1, x1 - x0 - 1), height: Math.max(1, y1 - y0 - 1), class: `block k${b.number % BLOCKS}` }, s("title", {}, `${slices(b.slices)} on ${plural(b.devices.length, "device")}: ${b.devices.join(", ")}`));
    });
    const value = p.value === null ? null : this.selection.f.values[p.value];
    const axis = (d) => d === null ? "" : `dimension ${d}, ${extent[d]}`;
    return h("figure", {}, h("figcaption", {}, h("b", {}, p.name), ` ${value ? value.type : extent.length ? `[${extent}]` : ""} `, h("code", {}, p.sharding)),
      s("svg", { width: W + 2, height: H + 2, viewBox: `0 0 ${W + 2} ${H + 2}`, role: "img", "aria-label": `blocks of ${p.name}` }, shapes, names),
      h("p", { class: "about" }, blocks.length === 1 ? `Each of ${plural(blocks[0].devices.length, "device")} holds the whole value.` : `${plural(blocks.length, "block")}, each on ${plural(blocks[0].devices.length, "device")}; ${dy === null ? "" : `down: ${axis(dy)}; `}across: ${axis(dx)}. Equal colours are equal blocks.`));
  }
}

const slices = (x) => x.length ? `[${x.map(([a, b]) => `${a}:${b}`).join(", ")}]` : "the whole value";
const shorten = (ids, room) => { const text = ids.join(","); return text.length <= room ? text : `${ids[0]},…`; };
