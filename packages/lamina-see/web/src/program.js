// Pane: the program as a graph that folds by scope, repeated part and line.
import { bytes, count, empty, h, plural, replace, s, share, time } from "./dom.js";
import { indexOf, sourceText } from "./data.js";
import { layoutNode } from "./layout.js";
import { Tree } from "./tree.js";

function smooth(points) {
  const [first, ...rest] = points;
  let d = `M${first.x.toFixed(1)} ${first.y.toFixed(1)}`;
  for (let k = 0; k < rest.length - 1; k += 1) {
    const a = rest[k], b = rest[k + 1];
    const end = k === rest.length - 2 ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    d += `Q${a.x.toFixed(1)} ${a.y.toFixed(1)} ${end.x.toFixed(1)} ${end.y.toFixed(1)}`;
  }
  if (rest.length === 1) d += `L${rest[0].x.toFixed(1)} ${rest[0].y.toFixed(1)}`;
  return d;
}

export class ProgramPane {
  constructor(selection) {
    this.selection = selection;
    this.zoom = 1;
    this.view = h("div", { class: "graph", tabindex: -1 });
    this.about = h("p", { class: "about" });
    const button = (text, title, action) => h("button", { type: "button", title, "aria-label": title, onclick: action }, text);
    this.tools = h("span", { class: "tools" }, button("Show selection", "unfold to the selection (u)", () => this.reveal()), button("Fold all", "fold all (f)", () => this.fold()),
        button("−", "smaller", () => this.scale(1 / 1.25)), button("+", "larger", () => this.scale(1.25)), button("Fit", "fit the width", () => this.fit()));
    this.element = h("section", { class: "card", id: "program" }, h("header", {}, h("h2", {}, "Program"), this.tools), this.view, this.about);
    selection.listen((what) => { if (what === "function") this.showFunction(); else this.mark(); });
    this.showFunction();
  }

  showFunction() {
    const f = this.selection.f;
    this.boxes = [];
    if (!f || !f.equations.length) {
      this.tree = null;
      replace(this.view, empty("No equations are known for this function."));
      replace(this.about);
      this.view.classList.add("none");
      this.tools.hidden = true;
      return;
    }
    this.view.classList.remove("none");
    this.tools.hidden = false;
    this.tree = new Tree(f, (e) => sourceText(this.selection.report, e));
    this.tree.note = (node) => this.note(node);
    this.tree.producers = indexOf(f).producers;
    this.kept = new Map();
    this.open = this.tree.initial();
    this.totals = new Map();
    this.most = this.total(this.tree.root).heat || 1;
    this.render();
    requestAnimationFrame(() => this.fit());
  }

  total(node) {
    let found = this.totals.get(node.key);
    if (!found) {
      const phases = { forward: 0, backward: 0, recomputed: 0 };
      found = { time: null, flops: 0, bytes: 0, phase: "" };
      for (const k of node.equations) {
        const e = this.selection.f.equations[k];
        if (e.time !== null) found.time = (found.time || 0) + e.time;
        found.flops += e.flops;
        found.bytes += e.bytes;
        phases[e.phase] += 1;
      }
      const used = Object.keys(phases).filter((p) => phases[p]);
      found.phase = used.length === 1 ? used[0] : "mixed";
      found.heat = this.selection.f.step ? found.time || 0 : found.flops;
      this.totals.set(node.key, found);
    }
    return found;
  }

  note(node) {
    const { f } = this.selection, total = this.total(node), parts = [plural(node.equations.length, "eqn")];
    parts.push(total.time === null ? `${count(total.flops)} flop` : time(total.time));
    if (f.step && f.step.time) parts.push(share((total.time || 0) / f.step.time));
    return parts.join(" · ");
  }

  render() {
    const box = layoutNode(this.tree, this.tree.root, this.open, this.kept);
    this.first = box.boxes && box.boxes[0];
    this.size = { width: box.width + 4, height: box.height + 4 };
    this.boxes = [];
    this.edges = [];
    const layer = s("g", { transform: "translate(2,2)" });
    this.draw({ ...box, x: 0, y: 0 }, layer, 0);
    this.svg = s("svg", { role: "group", "aria-label": "graph of the program", viewBox: `0 0 ${this.size.width} ${this.size.height}` },
      s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 6 6", refX: 5.5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" }, s("path", { d: "M0 0L6 3L0 6z", class: "tip" }))), layer);
    replace(this.view, this.svg);
    this.resize();
    const shown = this.boxes.length;
    replace(this.about, `${plural(this.selection.f.equations.length, "equation")} in ${plural(this.selection.f.scopes.length, "scope")}; ${plural(shown, "box", "boxes")} shown. Click selects, + unfolds. Long edges that others imply show when an end is selected.`);
    this.mark();
  }

  draw(box, layer, depth) {
    const { node } = box, total = this.total(node);
    const heat = Math.round(100 * Math.sqrt(Math.min(1, total.heat / this.most)));
    const label = `${node.title}, ${plural(node.equations.length, "equation")}, ${time(total.time)}`;
    const group = s("g", {
      class: `box ${node.type} ${total.phase} ${box.boxes ? "open" : ""}`, tabindex: 0, role: "button", "aria-label": label, transform: `translate(${box.x.toFixed(1)},${box.y.toFixed(1)})`,
      onclick: (e) => { e.stopPropagation(); this.choose(node); },
      ondblclick: (e) => { e.stopPropagation(); if (node.raw) this.toggle(node); },
      onkeydown: (e) => {
        if (e.target !== group) return;
        if (e.key === "Enter") { e.stopPropagation(); this.choose(node); }
        if (e.key === " " && node.raw) { e.preventDefault(); e.stopPropagation(); this.toggle(node); }
      },
    }, s("title", {}, this.tip(node, total)),
    s("rect", { width: box.width, height: box.height, rx: 5, class: "back" }),
    !box.boxes && s("rect", { width: box.width, height: box.height, rx: 5, class: "heat", style: { opacity: (heat / 180).toFixed(3) } }),
    !box.boxes && s("rect", { width: 4, height: box.height, rx: 2, class: "stripe" }));
    if (node.raw) {
      group.append(s("g", { class: "fold", onclick: (e) => { e.stopPropagation(); this.toggle(node); } },
        s("rect", { x: 5, y: 3, width: 24, height: box.boxes ? 22 : box.height - 6, class: "hit" }),
        s("text", { x: 17, y: box.boxes ? 18 : box.height / 2 + 5, "text-anchor": "middle", class: "sign" }, box.boxes ? "−" : "+")));
    }
    const times = node.repeated > 1 ? `  ×${node.repeated}` : "";
    if (node.type === "equation") {
      group.append(s("text", { x: 12, y: 16 }, node.title, s("tspan", { class: "note", dx: 6 }, node.note)));
    } else {
      group.append(s("text", { x: 32, y: 18, class: "name" }, node.title + times));
      const note = this.note(node);
      if (!box.boxes) group.append(s("text", { x: 32, y: 34, class: "note" }, note));
      else if (box.width > (node.title.length + times.length) * 7 + note.length * 6 + 60) group.append(s("text", { x: box.width - 10, y: 18, "text-anchor": "end", class: "note" }, note));
    }
    layer.append(group);
    this.boxes.push({ node, group });
    if (box.boxes) {
      for (const edge of box.edges) {
        const path = s("path", { d: smooth(edge.points), class: "edge", "marker-end": "url(#tip)" });
        group.append(path);
        this.edges.push({ path, from: box.boxes[edge.from].node, to: box.boxes[edge.to].node });
      }
      for (const { from, to } of box.far) {
        const a = box.boxes[from], b = box.boxes[to];
        const x0 = a.x + a.width / 2, y0 = a.y + a.height, x1 = b.x + b.width / 2, bend = Math.max(20, (b.y - y0) / 3);
        const path = s("path", { d: `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${b.y - bend} ${x1} ${b.y}`, class: "edge far", "marker-end": "url(#tip)" });
        group.append(path);
        this.edges.push({ path, from: a.node, to: b.node });
      }
      for (const inner of box.boxes) this.draw(inner, group, depth + 1);
    }
  }

  tip(node, total) {
    const lines = [`${node.title}${node.note ? ` ${node.note}` : ""}`, `${plural(node.equations.length, "equation")}, ${count(total.flops)} operations, ${bytes(total.bytes)} moved`];
    if (total.time !== null) lines.push(`measured ${time(total.time)}`);
    if (node.type === "equation") {
      const e = this.selection.f.equations[node.equations[0]];
      if (e.count > 1) lines.push(`runs ${e.count} times in a step`);
      if (e.parameters) lines.push(e.parameters);
    }
    return lines.join("\n");
  }

  choose(node) {
    const label = node.type === "equation" ? `equation ${node.equations[0] + 1}, ${node.title} ${node.note}` : `${node.title}${node.repeated > 1 ? ` ×${node.repeated}` : ""}`;
    this.selection.equations(node.equations, label, "program");
  }

  toggle(node) {
    const at = this.boxes.find((b) => b.node === node)?.group.getBoundingClientRect();
    if (this.open.has(node.key)) this.open.delete(node.key); else this.open.add(node.key);
    this.render();
    const now = this.boxes.find((b) => b.node === node)?.group;
    if (at && now) { // the box stays where it was
      const moved = now.getBoundingClientRect();
      this.view.scrollLeft += moved.left - at.left;
      this.view.scrollTop += moved.top - at.top;
      now.focus({ preventScroll: true });
    }
  }

  fold() {
    if (!this.tree) return;
    this.open = new Set([this.tree.root.key]);
    this.render();
    this.fit();
  }

  reveal() {
    const [first] = this.selection.current.equations;
    if (!this.tree || first === undefined) return;
    for (const key of this.tree.path(first)) this.open.add(key);
    this.render();
    const found = this.boxes.find(({ node }) => node.type === "equation" && node.equations[0] === first);
    if (found) {
      const at = found.group.getBoundingClientRect(), view = this.view.getBoundingClientRect();
      this.view.scrollTop += at.top - view.top - view.height / 2;
      this.view.scrollLeft += at.left - view.left - view.width / 2;
    }
  }

  mark() {
    const { equations } = this.selection.current;
    for (const { node, group } of this.boxes) {
      const n = equations.size ? node.equations.reduce((sum, e) => sum + (equations.has(e) ? 1 : 0), 0) : 0;
      group.classList.toggle("chosen", n > 0 && n === node.equations.length);
      group.classList.toggle("part", n > 0 && n < node.equations.length);
    }
    for (const { path, from, to } of this.edges || []) {
      path.classList.toggle("chosen", equations.size > 0 && (from.equations.every((e) => equations.has(e)) || to.equations.every((e) => equations.has(e))));
    }
  }

  fit() {
    if (!this.tree) return;
    this.zoom = Math.max(0.65, Math.min(1, (this.view.clientWidth - 4) / this.size.width));
    this.resize();
    const first = this.first; // the first box inside the root, in the middle
    this.view.scrollLeft = first ? (first.x + first.width / 2) * this.zoom - this.view.clientWidth / 2 : 0;
    this.view.scrollTop = 0;
  }

  scale(by) {
    if (!this.tree) return;
    this.zoom = Math.max(0.1, Math.min(3, this.zoom * by));
    this.resize();
  }

  resize() {
    this.svg.setAttribute("width", Math.round(this.size.width * this.zoom));
    this.svg.setAttribute("height", Math.round(this.size.height * this.zoom));
  }
}
