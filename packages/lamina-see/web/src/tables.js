// Panes that are mostly tables: overview, compilations, collectives, precision, problems.
import { bar, baseName, bytes, count, empty, h, NONE, plural, replace, share, table, time } from "./dom.js";
import { lineKey, sourceText } from "./data.js";

export const card = (id, title, ...children) => h("section", { class: "card", id }, h("header", {}, h("h2", {}, title)), children);

export function place(report, row) {
  if (row.source === null || row.source === undefined) return h("span", { class: "muted" }, "no line");
  return [h("span", { class: "place" }, `${baseName(report.sources[row.source].file)}:${row.line}`), h("code", {}, sourceText(report, row))];
}

const rate = (n, unit) => { const text = count(n); return /\d$/.test(text) ? `${text} ${unit}` : text + unit; };

// Keep `chosen` on the rows of the selected lines.
function follow(selection, element) {
  selection.listen(() => {
    for (const row of element.querySelectorAll("tr[data-line]")) row.classList.toggle("chosen", !!row.dataset.line && selection.current.lines.has(row.dataset.line));
  });
  return element;
}

export function overviewPane(selection) {
  const body = h("div", {});
  const stat = (name, value, note) => h("div", { class: "stat" }, h("span", {}, name), h("b", {}, value), note && h("small", {}, note));
  const render = () => {
    const { f, report } = selection;
    if (!f) { replace(body, empty("The program compiled no function.")); return; }
    const sum = (key) => f.lines.reduce((n, row) => n + (row[key] || 0), 0);
    const flops = sum("flops"), step = f.step;
    const compiled = report.compilations.filter((c) => c.function === f.name);
    const misses = compiled.filter((c) => c.memory_cache === "miss");
    const stats = [
      stat("time of a step", step ? time(step.time) : "not measured", step && `median of ${plural(step.runs, "run")}`),
      stat("peak of memory", f.memory ? bytes(f.memory.peak) : "unknown", f.memory && f.memory.xla_peak !== null && `XLA allocates ${bytes(f.memory.xla_peak)}`),
      stat("operations", rate(flops, "flop"), step && step.time ? rate(flops / (step.time / 1e9), "flop/s") : `${bytes(sum("bytes"))} moved`),
      stat("equations", f.equations.length.toLocaleString("en"), `${plural(f.scopes.length, "scope")}`),
      stat("compilations", String(misses.length), misses.length > 1 ? "see the reasons below" : compiled.length ? time(misses.reduce((n, c) => n + (c.trace || 0) + (c.lower || 0) + (c.xla || 0), 0)) : ""),
    ];
    const parts = [];
    if (step) {
      for (const p of ["forward", "backward", "recomputed"]) parts.push({ name: p, value: sum(`time_${p}`), class: p });
      for (const row of step.rest) parts.push({ name: row.name, value: row.time, class: row.name });
    }
    const total = Math.max(1, parts.reduce((n, p) => n + p.value, 0));
    replace(body, h("p", { class: "signature" }, h("b", {}, f.name), h("span", { class: "muted" }, ` ${f.kind}`), h("code", {}, `(${f.signature.length > 6 ? `${f.signature.slice(0, 6).join(", ")}, … ${f.signature.length - 6} more` : f.signature.join(", ")})`)),
      h("div", { class: "stats" }, stats),
      step && [h("h3", {}, `Where the step's time goes: ${share(step.attributed)} is in source lines`),
        h("div", { class: "wide" }, bar(parts.map((p) => ({ ...p, title: `${p.name} ${time(p.value)}` })), total)),
        h("div", { class: "legend" }, parts.filter((p) => p.value).map((p) => h("span", {}, h("i", { class: p.class }), `${p.name} ${time(p.value)}, ${share(p.value / total)}`)))],
      report.nonfinite && nonfinite(selection));
  };
  selection.listen((what) => { if (what === "function") render(); });
  render();
  return h("section", { class: "card", id: "overview" }, h("header", {}, h("h2", {}, "Overview")), body);
}

function nonfinite(selection) {
  const { report } = selection, x = report.nonfinite;
  return h("div", { class: "alarm" }, h("b", {}, `First ${x.kind === "nan" ? "NaN" : "infinity"}: `), h("button", { type: "button", class: "link", onclick: () => selection.line(x, "overview") }, place(report, x)),
    x.before.length > 0 && table([{ text: "computed before" }, { text: "type" }, { text: "line" }, { text: "content" }], x.before.map((b) => ({
      data: { line: lineKey(b) }, action: () => selection.line(b, "overview"), cells: [h("code", {}, b.name), b.type, place(report, b), b.summary] })), { class: "stack" }));
}

export function compilationsPane(selection) {
  const { report } = selection, rows = report.compilations;
  if (!rows.length) return card("compilations", "Compilations", empty("Nothing was compiled while the program was watched."));
  const total = (c) => (c.trace || 0) + (c.lower || 0) + (c.xla || 0), most = Math.max(...rows.map(total), 1);
  const misses = rows.filter((c) => c.memory_cache === "miss").length;
  const parts = (c) => ["trace", "lower", "xla"].map((p) => ({ value: c[p] || 0, class: p, title: `${p} ${time(c[p])}` }));
  const badge = (c) => c.memory_cache === "hit" ? h("span", { class: "badge good" }, "in memory") : c.disk_cache === "hit" ? h("span", { class: "badge good" }, "on disk") : h("span", { class: "badge bad" }, "compiled");
  return follow(selection, card("compilations", "Compilations", h("p", { class: "about" }, `${plural(misses, "compilation")} in ${time(rows.reduce((n, c) => n + total(c), 0))}.`),
    h("div", { class: "legend" }, ["trace", "lower", "xla"].map((p) => h("span", {}, h("i", { class: p }), p))),
    table([{ text: "", class: "n" }, { text: "function and call" }, { text: "time", class: "n" }, { text: "", class: "w" }, { text: "found" }, { text: "reason of the miss" }], rows.map((c, k) => ({
      data: { line: lineKey(c) }, action: lineKey(c) ? () => selection.line(c, "compilations") : null,
      cells: [k + 1, [h("b", {}, c.function), h("span", { class: "muted" }, ` ${c.kind} `), place(report, c), h("div", { class: "types", title: c.signature }, c.signature)], time(total(c) || null), bar(parts(c), most), badge(c), c.reason || h("span", { class: "muted" }, c.memory_cache === "hit" ? "" : "first call")],
    })), { class: "stack" })));
}

export function collectivesPane(selection) {
  const body = h("div", {});
  const render = () => {
    const { f, report } = selection;
    replace(body, f && f.collectives.length ? table([{ text: "kind", class: "keep" }, { text: "axis", class: "keep" }, { text: "bytes", class: "n" }, { text: "devices", class: "n" }, { text: "count", class: "n" }, { text: "time", class: "n" }, { text: "line" }],
      f.collectives.map((c) => ({ data: { line: lineKey(c) }, action: lineKey(c) ? () => selection.line(c, "collectives") : null, cells: [c.kind, c.axis ? h("code", {}, c.axis) : NONE, bytes(c.bytes), c.devices, c.count, time(c.time), place(report, c)] })), { class: "stack" })
      : empty("This function exchanges no data between devices."));
  };
  selection.listen((what) => { if (what === "function") render(); });
  render();
  return follow(selection, card("collectives", "Collectives", body));
}

export function precisionPane(selection) {
  const { report } = selection;
  if (!report.precision) return null;
  const rows = [...report.precision].sort((a, b) => (b.born || 0) - (a.born || 0)).slice(0, 100);
  const number = (x) => x === null ? "–" : x.toExponential(1);
  return follow(selection, card("precision", "Precision", rows.length ? table([{ text: "error born here", class: "n" }, { text: "relative error", class: "n" }, { text: "digits lost", class: "n" }, { text: "" }, { text: "line" }],
    rows.map((r) => ({ data: { line: lineKey(r) }, action: () => { if (r.function !== selection.number) selection.showFunction(r.function); selection.line(r, "precision"); }, cells: [number(r.born), number(r.relative_error), r.digits_lost === null ? "–" : r.digits_lost.toFixed(1), r.overflow ? h("span", { class: "badge bad" }, "overflow") : "", place(report, r)] })), { class: "stack" })
    : empty("No equation loses precision.")));
}

export function problemsPane(selection) {
  const { problems } = selection.report;
  return card("problems", "Problems", problems.length ? h("ul", { class: "problems" }, problems.map((p) => h("li", {}, p))) : empty("Everything was measured."));
}
