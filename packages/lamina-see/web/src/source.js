// Pane: the source text, with bars of time (or another metric) by line.
import { bar, baseName, bytes, count, empty, h, plural, replace, share, time } from "./dom.js";
import { indexOf, lineKey } from "./data.js";

export const METRICS = ["time", "memory at the peak", "operations", "bytes moved"];
const TOKEN = /(#.*)|("""|'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b|(@[\w.]+)|\b(\d[\w.]*)/g;

// Highlight Python by line; `state.open` is the quote of a text that goes on to the next line.
function coloured(text, state) {
  const out = [];
  let at = 0;
  const push = (part, kind) => { if (part) out.push(kind ? h("span", { class: kind }, part) : part); };
  while (at < text.length) {
    if (state.open) {
      const end = text.indexOf(state.open, at);
      push(text.slice(at, end < 0 ? text.length : end + 3), "str");
      if (end < 0) return out;
      at = end + 3;
      state.open = null;
      continue;
    }
    TOKEN.lastIndex = at;
    const m = TOKEN.exec(text);
    if (!m) { push(text.slice(at)); break; }
    push(text.slice(at, m.index));
    if (m[2] === '"""' || m[2] === "'''") {
      state.open = m[2];
      push(m[2], "str");
    } else push(m[0], m[1] ? "com" : m[2] ? "str" : m[3] ? "key" : m[4] ? "dec" : "num");
    at = m.index + m[0].length;
  }
  return out;
}

export class SourcePane {
  constructor(selection) {
    this.selection = selection;
    this.metric = 0;
    this.file = 0;
    this.rows = new Map();
    this.files = h("select", { "aria-label": "file", onchange: () => { this.file = Number(this.files.value); this.render(); this.mark(null); } });
    this.metrics = h("select", { "aria-label": "metric of the bars", onchange: () => { this.metric = Number(this.metrics.value); this.render(); this.mark(null); } },
      METRICS.map((name, k) => h("option", { value: k }, name)));
    this.legend = h("div", { class: "legend" });
    this.body = h("div", { class: "code", tabindex: -1 });
    this.element = h("section", { class: "card source", id: "source" },
      h("header", {}, h("h2", {}, "Source"), this.files, this.metrics), this.legend, this.body);
    selection.listen((what, current, origin) => {
      if (what === "function") this.showFunction();
      else this.mark(origin);
    });
    this.showFunction();
  }

  showFunction() {
    const { f, report } = this.selection;
    const used = f ? [...new Set([...f.lines.map((r) => r.source), f.defined_at && f.defined_at.source, f.called_from && f.called_from.source])]
      .filter((k) => k !== null && k !== undefined && report.sources[k]) : report.sources.map((_, k) => k);
    const weight = (k) => f ? f.lines.filter((r) => r.source === k).reduce((sum, r) => sum + this.value(r).total + 1e-9 * r.equations, 0) : 0;
    const weights = new Map(used.map((k) => [k, weight(k)]));
    used.sort((a, b) => weights.get(b) - weights.get(a));
    report.sources.forEach((_, k) => { if (!used.includes(k)) used.push(k); }); // of other functions, last
    replace(this.files, used.map((k) => h("option", { value: k, title: report.sources[k].file }, baseName(report.sources[k].file))));
    if (f && !f.step && this.metric === 0) this.metric = f.memory ? 1 : 2;
    this.metrics.value = String(this.metric);
    this.file = used.length ? used[0] : -1;
    this.render();
  }

  value(row) {
    if (this.metric === 0) {
      const parts = ["forward", "backward", "recomputed"].map((p) => ({ value: row[`time_${p}`] || 0, class: p, title: `${p} ${time(row[`time_${p}`])}` }));
      return { parts, total: parts.reduce((sum, p) => sum + p.value, 0), text: time };
    }
    const f = this.selection.f;
    const value = this.metric === 1 ? indexOf(f).peakByLine.get(lineKey(row)) || 0 : this.metric === 2 ? row.flops : row.bytes;
    const text = this.metric === 2 ? count : bytes;
    return { parts: [{ value, class: "plain", title: text(value) }], total: value, text };
  }

  render() {
    const { f, report } = this.selection;
    this.rows.clear();
    const source = report.sources[this.file];
    this.files.hidden = this.metrics.hidden = !source;
    if (!source) {
      replace(this.legend);
      replace(this.body, empty("No source line is known for this function."));
      return;
    }
    this.files.value = String(this.file);
    const found = f ? indexOf(f).lines : new Map();
    const facts = (row) => {
      const key = lineKey(row);
      return found.get(key) || (this.metric === 1 && f && indexOf(f).peakByLine.has(key) ? { ...row, equations: 0, flops: 0, bytes: 0 } : null);
    };
    let most = 0;
    for (let k = 0; k < source.lines.length; k += 1) {
      const row = facts({ source: this.file, line: source.first_line + k });
      if (row) most = Math.max(most, this.value(row).total);
    }
    replace(this.legend, this.metric === 0 ? ["forward", "backward", "recomputed"].map((p) => h("span", {}, h("i", { class: p }), p)) : h("span", {}, h("i", { class: "plain" }), METRICS[this.metric]),
      h("span", { class: "muted" }, source.file));
    const state = { open: null };
    const width = `${String(source.first_line + source.lines.length).length}ch`;
    replace(this.body, source.lines.map((text, k) => {
      const line = { source: this.file, line: source.first_line + k }, row = facts(line);
      const v = row && this.value(row);
      const element = h("div", {
        class: row ? "line has" : "line", tabindex: row ? 0 : null, data: { line: line.line },
        title: row && row.share !== undefined ? `${plural(row.equations, "equation")}, ${count(row.flops)} operations, ${bytes(row.bytes)} moved${row.share === null ? "" : `, ${share(row.share)} of the step`}` : null,
        onclick: row && (() => this.selection.line(line, "source")),
        onkeydown: row && ((e) => { if (e.key === "Enter") this.selection.line(line, "source"); }),
      }, h("span", { class: "no", style: { width } }, line.line), v ? bar(v.parts, most) : h("span", { class: "bar" }),
      h("span", { class: "of" }, v && v.total ? v.text(v.total) : ""), h("span", { class: "text" }, coloured(text, state)));
      this.rows.set(lineKey(line), element);
      return element;
    }));
  }

  mark(origin) {
    const { lines } = this.selection.current;
    if (lines.size && origin && origin !== "source" && ![...lines].some((key) => this.rows.has(key))) {
      const other = [...lines].map((key) => Number(key.split(":")[0])).find((k) => [...this.files.options].some((o) => Number(o.value) === k));
      if (other !== undefined && other !== this.file) { this.file = other; this.render(); }
    }
    let first = null;
    for (const [key, element] of this.rows) {
      const chosen = lines.has(key);
      element.classList.toggle("chosen", chosen);
      if (chosen) element.setAttribute("aria-current", "true"); else element.removeAttribute("aria-current");
      if (chosen && !first) first = element;
    }
    if (first && origin !== "source") this.show(first);
  }

  show(element) {
    const top = element.offsetTop - this.body.offsetTop;
    if (top < this.body.scrollTop || top + element.offsetHeight > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = top - this.body.clientHeight / 3;
  }

  // Select the next line with facts (or the one before).
  step(by) {
    const keys = [...this.rows].filter(([, element]) => element.classList.contains("has")).map(([key]) => key);
    if (!keys.length) return;
    const at = keys.findIndex((key) => this.selection.current.lines.has(key));
    const next = keys[at < 0 ? (by > 0 ? 0 : keys.length - 1) : Math.max(0, Math.min(keys.length - 1, at + by))];
    const [source, line] = next.split(":").map(Number);
    this.selection.line({ source, line }, "keyboard");
  }

  cycle() {
    this.metric = (this.metric + 1) % METRICS.length;
    this.metrics.value = String(this.metric);
    this.render();
    this.mark(null);
  }
}
