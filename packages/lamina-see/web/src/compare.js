// The page of two reports: totals, lines, memory and compilations side by side.
import uPlot from "uplot";
import { baseName, bytes, colour, count, empty, functionLabels, h, plural, replace, table, time } from "./dom.js";
import { niceBytes } from "./memory.js";
import { card } from "./tables.js";

const UNITS = { ns: time, B: bytes, flop: count, "": (n) => n === null ? "–" : n.toLocaleString("en") };

// The change as text with its colour: less is better.
function change([a, b], text) {
  if (a === null || b === null) return h("span", { class: "muted" }, a === b ? "" : a === null ? "new" : "gone");
  const d = b - a;
  if (!d) return h("span", { class: "muted" }, "equal");
  const part = a ? ` (${d > 0 ? "+" : "−"}${Math.abs(100 * d / a) >= 1000 ? `×${(b / a).toFixed(0)}` : `${Math.abs(100 * d / a).toFixed(Math.abs(d / a) < 0.1 ? 1 : 0)} %`})` : "";
  return h("span", { class: Math.abs(d) > 0.02 * Math.abs(a) ? (d > 0 ? "worse" : "better") : "muted" }, `${d > 0 ? "+" : "−"}${text(Math.abs(d))}${part}`);
}

export function comparePage(x, main) {
  const body = h("div", { class: "compared" });
  const pick = h("select", { "aria-label": "function", onchange: () => show(Number(pick.value)) }, functionLabels(x.functions.map((f) => ({ ...f, signature: f.signatures[0] || f.signatures[1] }))).map((text, k) => h("option", { value: k }, text)));
  const about = x.about.map((r, k) => h("div", { class: "stat" }, h("span", {}, k ? "B, later" : "A, earlier"), h("b", {}, r.command || "lamina.see"), h("small", {}, `${r.created.replace("T", " ").slice(0, 16)} · ${r.platform} · lamina ${r.versions.lamina}`)));
  const totals = card("totals", "Totals", h("div", { class: "stats" }, about), table([{ text: "" }, { text: "A", class: "n" }, { text: "B", class: "n" }, { text: "change", class: "n" }], x.totals.map((row) => {
    const text = UNITS[row.unit];
    return { cells: [row.name, text(row.values[0]), text(row.values[1]), change(row.values, text)] };
  })));
  const compiled = card("compilations", "Compilations", x.compilations.length ? table([{ text: "function" }, { text: "A", class: "n" }, { text: "B", class: "n" }, { text: "change", class: "n" }, { text: "time A", class: "n" }, { text: "time B", class: "n" }, { text: "reasons in B" }], x.compilations.map((row) => ({
    cells: [h("b", {}, row.function), row.count[0], row.count[1], change(row.count, String), time(row.time[0]), time(row.time[1]), row.reasons[1].length ? row.reasons[1].join("; ") : h("span", { class: "muted" }, "–")] })), { class: "stack" }) : empty("Neither report has compilations."));
  const problems = x.about.flatMap((r, k) => r.problems.map((p) => `${"AB"[k]}: ${p}`));
  let plot = null;
  function show(number) {
    const f = x.functions[number];
    pick.value = String(number);
    if (!f) { replace(body, empty("Neither report has a function.")); return; }
    const facts = [["time of a step", f.time, time], ["peak of memory", f.peak, bytes], ["equations", f.equations, UNITS[""]]];
    const chart = h("div", { class: "chart" });
    const lines = f.lines.slice(0, 400), timed = lines.some((r) => r.time.some((t) => t !== null));
    const rows = lines.map((r) => ({ cells: [
      [h("span", { class: "place" }, `${baseName(r.file) || "no line"}${r.line[0] || r.line[1] ? `:${r.line[0] === r.line[1] || r.line[1] === null ? r.line[0] : r.line[0] === null ? r.line[1] : `${r.line[0]}→${r.line[1]}`}` : ""}`),
        r.text[0] !== null && r.text[1] !== null && r.text[0] !== r.text[1] ? [h("code", { class: "old" }, r.text[0].trim()), h("code", { class: "new" }, r.text[1].trim())] : h("code", { class: r.text[0] === null ? "new" : r.text[1] === null ? "old" : "" }, (r.text[1] ?? r.text[0] ?? "").trim())],
      timed ? time(r.time[0]) : count(r.flops[0]), timed ? time(r.time[1]) : count(r.flops[1]), timed ? change(r.time, time) : change(r.flops, count), change(r.at_peak, bytes)] }));
    replace(body, card("function", f.name, h("p", { class: "signature" }, h("code", {}, f.signatures.map((s2) => s2 ? `(${s2.slice(0, 6).join(", ")}${s2.length > 6 ? ", …" : ""})` : "absent").filter((t, k, all) => k === 0 || t !== all[0]).join("  →  "))),
      table([{ text: "" }, { text: "A", class: "n" }, { text: "B", class: "n" }, { text: "change", class: "n" }], facts.map(([name, pair, text]) => ({ cells: [name, text(pair[0]), text(pair[1]), change(pair, text)] })))),
    card("memory", "Memory over the schedule", f.memory.some((m) => m) ? [h("div", { class: "legend" }, h("span", {}, h("i", { class: "argument" }), "A"), h("span", {}, h("i", { class: "result" }), "B"), h("span", { class: "muted" }, "each schedule from its start to its end")), chart] : empty("The memory of this function is unknown.")),
    card("lines", "Source lines", rows.length ? [h("p", { class: "about" }, `${plural(f.lines.length, "line")}, the largest change first${f.lines.length > 400 ? "; 400 are shown" : ""}.`), table([{ text: "line" }, { text: timed ? "time A" : "flop A", class: "n" }, { text: timed ? "time B" : "flop B", class: "n" }, { text: "change", class: "n" }, { text: "at the peak", class: "n" }], rows, { class: "tall stack" })] : empty("No line has facts.")));
    if (plot) plot.destroy();
    plot = f.memory.some((m) => m) ? curves(f.memory, chart) : null;
  }
  replace(main, h("div", { class: "compare" }, totals, compiled, x.functions.length > 1 && h("p", { class: "pick" }, "Function ", pick), body, problems.length > 0 && card("problems", "Problems", h("ul", { class: "problems" }, problems.map((p) => h("li", {}, p))))));
  show(0);
  return () => plot && plot.redraw(false);
}

function curves(memory, chart) {
  const points = 401, xs = Array.from({ length: points }, (_, k) => k / 4);
  const sample = (m) => xs.map((x) => m ? m.live[Math.min(m.live.length - 1, Math.floor(x / 100 * m.live.length))] : null);
  const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--rule"), width: 1 }, ticks: { stroke: () => colour("--rule"), width: 1 }, font: "11px system-ui, sans-serif" };
  const line = (name) => ({ stroke: () => colour(name), width: 2, points: { show: false } });
  const plot = new uPlot({ width: Math.max(200, chart.clientWidth), height: 190, legend: { show: false }, cursor: { y: false, drag: { x: true, y: false } }, scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.06] } },
    axes: [{ ...axis, values: (_, t) => t.map((v) => `${v} %`), space: 60, size: 30 }, { ...axis, size: 72, values: (_, t) => t.map((v) => v ? bytes(v) : "0"), splits: (u, _, low, high) => niceBytes(high) }], series: [{}, line("--argument"), line("--result")] }, [xs, sample(memory[0]), sample(memory[1])], chart);
  new ResizeObserver(() => { if (chart.isConnected && chart.clientWidth > 50) plot.setSize({ width: chart.clientWidth, height: 190 }); }).observe(chart);
  return plot;
}
