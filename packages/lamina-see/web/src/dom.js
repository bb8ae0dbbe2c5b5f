// Elements and numbers as text. Text is always set as text, never as HTML.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export function replace(element, ...children) {
  element.textContent = "";
  add(element, children);
  return element;
}

const trim = (x, digits) => {
  const text = x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(Math.min(1, digits)) : x.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};

function scaled(value, base, units) {
  let x = Math.abs(value), k = 0;
  while (x >= base * 0.9995 && k < units.length - 1) { x /= base; k += 1; }
  return `${value < 0 ? "-" : ""}${trim(x, k ? 2 : 0)} ${units[k]}`.trim();
}

export const NONE = "–";
export const time = (ns) => ns === null || ns === undefined ? NONE : scaled(ns, 1000, ["ns", "µs", "ms", "s"]);
export const bytes = (n) => n === null || n === undefined ? NONE : scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const count = (n) => n === null || n === undefined ? NONE : scaled(n, 1000, ["", "k", "M", "G", "T", "P"]);
export const share = (x) => x === null || x === undefined ? NONE : `${trim(100 * x, 1)} %`;
export const plural = (n, noun, nouns) => `${n.toLocaleString("en")} ${n === 1 ? noun : nouns || `${noun}s`}`;
export const baseName = (file) => file.replace(/\\/g, "/").split("/").pop();

// The names of functions; programs of one function have the types of the arguments in which they differ from its first one.
export function functionLabels(rows) {
  const first = new Map();
  return rows.map(({ name, kind, signature }) => {
    const key = `${name} ${kind}`, other = first.get(key);
    if (!other) first.set(key, signature);
    const changed = other && signature.filter((type, k) => type !== other[k]).slice(0, 3).join(", ");
    return `${name} (${kind})${changed ? ` ${changed}` : ""}`;
  });
}

// A table whose rows are buttons: click or Enter runs `action`.
export function table(heads, rows, options = {}) {
  const body = h("tbody", {}, rows.map((row) => {
    const action = row.action;
    return h("tr", {
      class: [action ? "action" : "", row.class || ""].join(" ").trim(), tabindex: action ? 0 : null, data: row.data,
      onclick: action, onkeydown: action && ((e) => { if (e.key === "Enter") { e.stopPropagation(); action(e); } }),
    }, row.cells.map((cell, k) => h("td", { class: heads[k].class, "data-head": heads[k].text || null }, cell)));
  }));
  const head = h("thead", {}, h("tr", {}, heads.map((x) => h("th", { class: x.class, scope: "col" }, x.text))));
  return h("div", { class: `scroll ${options.class || ""}` }, h("table", {}, head, body));
}

// A horizontal bar of parts, each {value, class, title}; `total` is its full length.
export function bar(parts, total) {
  return h("span", { class: "bar", "aria-hidden": "true" }, parts.filter((p) => p.value > 0).map((p) =>
    h("i", { class: p.class, title: p.title, style: { width: `${Math.min(100, 100 * p.value / (total || 1))}%` } })));
}

export const empty = (text) => h("p", { class: "empty" }, text);
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
