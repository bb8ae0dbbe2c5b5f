// The page of a report, or of a comparison of two.
import { comparePage } from "./compare.js";
import { readFacts } from "./data.js";
import { functionLabels, h, replace } from "./dom.js";
import { installKeys, showHelp } from "./keys.js";
import { MemoryPane } from "./memory.js";
import { MeshPane } from "./mesh.js";
import { ProgramPane } from "./program.js";
import { Selection } from "./selection.js";
import { SourcePane } from "./source.js";
import { collectivesPane, compilationsPane, overviewPane, precisionPane, problemsPane } from "./tables.js";
import { TimelinePane } from "./timeline.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
let redraw = [];

function applyTheme(theme) {
  root.dataset.theme = theme;
  root.style.colorScheme = theme;
  for (const action of redraw) action();
}

function storedTheme() {
  try { return localStorage.getItem("lamina-theme"); } catch { return null; } // a frame of a notebook has no storage
}

function toggleTheme() {
  const theme = root.dataset.theme === "dark" ? "light" : "dark";
  try {
    if (theme === (system.matches ? "dark" : "light")) localStorage.removeItem("lamina-theme"); else localStorage.setItem("lamina-theme", theme);
  } catch { /* the choice ends with the page */ }
  applyTheme(theme);
}

function top(title, about, ...middle) {
  return h("div", { class: "top" }, h("h1", {}, title), middle, h("span", { class: "about" }, about), h("span", { class: "tools" },
    h("button", { type: "button", title: "dark or light (t)", onclick: toggleTheme }, "◐"), h("button", { type: "button", title: "keys and panes (?)", onclick: showHelp }, "?")));
}

function comparison(x) {
  const main = h("main", {});
  document.body.append(h("div", { class: "head" }, top("Two reports", "")), main);
  redraw.push(comparePage(x, main));
  installKeys({ theme: toggleTheme });
}

function reportPage(report) {
  const selection = new Selection(report);
  const source = new SourcePane(selection), program = new ProgramPane(selection), memory = new MemoryPane(selection), timeline = new TimelinePane(selection), mesh = new MeshPane(selection);
  const panes = [overviewPane(selection), source.element, program.element, memory.element, timeline.element, compilationsPane(selection), mesh.element, collectivesPane(selection), precisionPane(selection), problemsPane(selection)].filter(Boolean);
  const pick = h("select", { "aria-label": "function", id: "pick", onchange: () => selection.showFunction(Number(pick.value)) }, functionLabels(report.functions).map((text, k) => h("option", { value: k }, text)));
  const links = panes.map((pane, k) => h("a", { href: `#${pane.id}`, onclick: (e) => { e.preventDefault(); jump(k); } }, h("kbd", {}, (k + 1) % 10), pane.querySelector("h2").textContent,
    pane.id === "problems" && report.problems.length > 0 && h("b", { class: "tag" }, report.problems.length)));
  const said = h("span", { class: "said", role: "status" });
  const clear = h("button", { type: "button", hidden: true, title: "clear the selection (Esc)", onclick: () => selection.clear() }, "Clear");
  const about = `${report.created.replace("T", " ").slice(0, 16)} UTC · ${report.platform} · lamina ${report.versions.lamina}`;
  const head = h("div", { class: "head" }, top(report.command || (report.functions[0] ? report.functions[0].name : "lamina"), about, report.functions.length > 1 && pick), h("nav", { "aria-label": "panes" }, links), h("div", { class: "selected" }, said, clear));
  document.body.append(head, h("main", { class: "panes" }, source.element, h("div", { class: "others" }, panes.filter((p) => p !== source.element))));

  const jump = (k) => {
    const pane = panes[k];
    if (!pane) return;
    const offset = pane.getBoundingClientRect().top + scrollY - head.offsetHeight - 8;
    scrollTo({ top: Math.max(0, offset), behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    pane.tabIndex = -1;
    (pane.querySelector("canvas[tabindex]") || pane).focus({ preventScroll: true });
  };
  const say = () => {
    const c = selection.current, parts = [];
    if (c.kind !== "none") {
      if (c.lines.size && c.kind !== "line") parts.push(c.lines.size === 1 ? selection.name(split([...c.lines][0])) : `${c.lines.size} lines`);
      if (c.equations.size) parts.push(`${c.equations.size} ${c.equations.size === 1 ? "equation" : "equations"}`);
      if (c.buffers.size) parts.push(`${c.buffers.size} ${c.buffers.size === 1 ? "value" : "values"} in memory`);
      if (c.instructions.size) parts.push(`${c.instructions.size} ${c.instructions.size === 1 ? "instruction" : "instructions"}`);
    }
    replace(said, c.kind === "none" ? h("span", { class: "muted" }, "Click a line, an equation, an instant or an event: all panes show what belongs to it.") : [h("b", {}, c.label), parts.length ? `: ${parts.join(", ")}` : ""]);
    clear.hidden = c.kind === "none";
    pick.value = String(selection.number);
  };
  const split = (key) => { const [a, b] = key.split(":").map(Number); return { source: a, line: b }; };
  selection.listen(say);
  say();
  const stack = () => root.style.setProperty("--head", `${head.offsetHeight}px`);
  new ResizeObserver(stack).observe(head);
  stack();
  redraw.push(() => { timeline.draw(); if (memory.plot) memory.plot.redraw(true); });
  installKeys({
    theme: toggleTheme, jump, clear: () => selection.clear(), line: (by) => source.step(by), metric: () => source.cycle(), peak: () => memory.peak(),
    instant: (by) => memory.step(by), fold: () => program.fold(), reveal: () => program.reveal(), next: (by) => {
      const n = report.functions.length;
      if (n > 1) selection.showFunction((selection.number + by + n) % n);
    },
    zoom: (by) => { const pane = document.activeElement.closest("section"); if (pane && pane.id === "timeline") timeline.scale(1 / by); else program.scale(by); },
  });
}

applyTheme(storedTheme() || (system.matches ? "dark" : "light"));
system.addEventListener("change", () => { if (!storedTheme()) applyTheme(system.matches ? "dark" : "light"); });
readFacts().then((facts) => {
  if (facts.kind === "comparison") comparison(facts.comparison); else reportPage(facts.report);
  requestAnimationFrame(() => requestAnimationFrame(() => { performance.mark("painted"); root.dataset.ready = "true"; }));
}).catch((error) => {
  document.body.append(h("p", { class: "failed", role: "alert" }, `The report cannot be shown: ${error.message}`));
  root.dataset.ready = "failed";
  throw error;
});
