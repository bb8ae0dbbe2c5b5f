// The program as a tree: scopes, repeated parts, equations of one line, and parts of long lists. Only what is unfolded is laid out.
const MOST = 40; // items that an unfolded node shows

export class Tree {
  constructor(f, text) {
    this.f = f;
    this.text = text; // of the source line of an equation
    this.kinds = new Map(); // text -> number, for comparing items
    this.children = f.scopes.map(() => []);
    this.own = f.scopes.map(() => []);
    f.scopes.forEach((scope, k) => { if (scope.parent !== null && scope.parent !== k) this.children[scope.parent].push(k); });
    f.equations.forEach((e, k) => this.own[this.own[e.scope] ? e.scope : 0]?.push(k));
    this.all = new Map();
    this.root = f.scopes.length ? this.scope(0, "0") : this.group("0", f.name, f.equations.map((_, k) => this.equation(k)));
  }

  kind(text) {
    if (!this.kinds.has(text)) this.kinds.set(text, this.kinds.size);
    return this.kinds.get(text);
  }

  equation(k) {
    const e = this.f.equations[k], result = this.f.values[e.results[0]];
    return { key: `e${k}`, type: "equation", title: e.primitive, note: result ? short(result.type) : "", equations: [k], sign: this.kind(`${e.primitive} ${result ? result.type : ""}`) };
  }

  scope(number, key) {
    const scope = this.f.scopes[number];
    const items = this.children[number].map((child) => this.scope(child, `${key}/${child}`)).filter((node) => node.equations.length);
    for (const k of this.own[number]) items.push(this.equation(k));
    items.sort((a, b) => a.equations[0] - b.equations[0]);
    const node = this.group(key, scope.name, items);
    node.type = "scope";
    node.repeated = scope.repeated;
    node.sign = this.kind(`${scope.name.replace(/\d+/g, "#")} ${scope.repeated} ${items.map((i) => i.sign).join(",")}`);
    return node;
  }

  group(key, title, items) {
    const equations = items.flatMap((item) => item.equations);
    if (items.length > 1) equations.sort((a, b) => a - b);
    const node = { key, type: "group", title, raw: items, equations, sign: this.kind(items.map((i) => i.sign).join(",")) };
    this.all.set(key, node);
    return node;
  }

  // The items that an unfolded node shows; made when it is first unfolded.
  items(node) {
    if (!node.items) {
      let items = node.type === "repeat" ? node.raw : this.repeats(node.raw, node.key);
      if (items.length > MOST && node.type !== "line") items = this.byLine(items, node.key);
      if (items.length > MOST) items = this.chunks(items, node.key);
      node.items = items;
    }
    return node.items;
  }

  // Replace three or more equal parts in a row by one node.
  repeats(items, key) {
    const found = [];
    for (let i = 0; i < items.length;) {
      let best = 0, period = 0;
      for (let p = 1; p <= 128 && i + 3 * p <= items.length; p += 1) {
        let n = p;
        while (i + n < items.length && items[i + n].sign === items[i + n - p].sign) n += 1;
        const times = Math.floor(n / p);
        if (times >= (p === 1 && items[i].type === "equation" ? 6 : 3) && times * p > best) { best = times * p; period = p; }
      }
      if (!best) { found.push(items[i]); i += 1; continue; }
      const name = `${key}/r${i}`;
      const parts = [];
      for (let k = 0; k < best / period; k += 1) {
        const part = items.slice(i + k * period, i + (k + 1) * period);
        parts.push(period === 1 ? part[0] : this.group(`${name}.${k}`, `part ${k + 1}`, part));
      }
      const title = period === 1 ? (parts[0].type === "scope" ? parts[0].title.replace(/\d+/g, "*") : parts[0].title.replace(/ \d+$/, "")) : part_title(items.slice(i, i + period));
      const node = this.group(name, title, parts);
      node.type = "repeat";
      node.repeated = parts.length;
      found.push(node);
      i += best;
    }
    return found;
  }

  byLine(items, key) {
    const found = [];
    for (let i = 0; i < items.length;) {
      let n = i + 1;
      const e = items[i].type === "equation" && this.f.equations[items[i].equations[0]];
      while (e && n < items.length && items[n].type === "equation" && same(e, this.f.equations[items[n].equations[0]])) n += 1;
      if (n - i < 2) found.push(items[i]);
      else {
        const node = this.group(`${key}/l${i}`, e.source === null ? "no line" : clip(`${e.line}  ${this.text(e)}`), items.slice(i, n));
        node.type = "line";
        found.push(node);
      }
      i = n;
    }
    return found;
  }

  chunks(items, key) {
    const size = Math.ceil(items.length / Math.min(MOST / 2, Math.ceil(items.length / (MOST / 2))));
    const found = [];
    for (let i = 0; i < items.length; i += size) {
      const part = items.slice(i, i + size), last = part[part.length - 1].equations;
      found.push(this.group(`${key}/c${i}`, `${part[0].equations[0] + 1} to ${last[last.length - 1] + 1}`, part));
    }
    return found;
  }

  // Unfold from the root, large nodes first, while few boxes are shown.
  initial(limit = 26) {
    const open = new Set([this.root.key]);
    let shown = this.items(this.root).length;
    const queue = [...this.items(this.root)];
    while (queue.length) {
      const node = queue.shift();
      if (!node.raw) continue;
      const n = this.items(node).length;
      if (shown + n > limit) continue;
      open.add(node.key);
      shown += n;
      queue.push(...this.items(node));
    }
    return open;
  }

  // The keys of the nodes that hold an equation, from the root.
  path(equation) {
    const keys = [];
    for (let node = this.root; node && node.raw;) {
      keys.push(node.key);
      node = this.items(node).find((item) => item.equations.includes(equation));
    }
    return keys;
  }
}

const clip = (text) => text.length > 34 ? `${text.slice(0, 33)}…` : text;
const same = (a, b) => a.line === b.line && a.source === b.source;
const part_title = (items) => {
  const names = [...new Set(items.filter((i) => i.type !== "equation").map((i) => i.title.replace(/\d+/g, "*")))];
  return names.length ? names.slice(0, 3).join(", ") : `${items.length} equations`;
};

const SHORT = [["bfloat16", "bf16"], ["float", "f"], ["complex", "c"], ["uint", "u"], ["int", "i"]];
export function short(type) {
  const found = SHORT.find(([name]) => type.startsWith(name));
  return found ? found[1] + type.slice(found[0].length) : type;
}
