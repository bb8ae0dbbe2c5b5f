// The facts of the page and indices between them: lines, equations, instructions and buffers of each function.
export async function readFacts() {
  if (typeof DecompressionStream === "undefined") throw new Error("This browser has no DecompressionStream; use one of 2023 or later.");
  const text = document.getElementById("facts").textContent.trim();
  const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return unpack(JSON.parse(await new Response(stream).text()));
}

function unpack(value) {
  if (Array.isArray(value)) return value.length && typeof value[0] === "number" ? value : value.map(unpack);
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value["#"]) && Array.isArray(value.c)) {
    const keys = value["#"], columns = value.c.map(unpack);
    return columns[0].map((_, row) => Object.fromEntries(keys.map((key, k) => [key, columns[k][row]])));
  }
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, unpack(v)]));
}

export const lineKey = (row) => row.source === null || row.source === undefined ? "" : `${row.source}:${row.line}`;

function multimap(rows, keys) {
  const found = new Map();
  rows.forEach((row, index) => {
    for (const key of keys(row)) {
      const at = found.get(key);
      if (at) at.push(index); else found.set(key, [index]);
    }
  });
  return found;
}

const cached = new WeakMap();

export function indexOf(f) {
  let found = cached.get(f);
  if (!found) {
    const memory = f.memory || { instructions: [], buffers: [] };
    found = {
      equationsByLine: multimap(f.equations, (e) => [lineKey(e)]),
      equationsByInstruction: multimap(f.equations, (e) => e.instruction),
      producers: new Map(f.equations.flatMap((e, k) => e.results.map((v) => [v, k]))),
      buffersByLine: multimap(memory.buffers, (b) => [lineKey(b)]),
      buffersByValue: multimap(memory.buffers, (b) => b.value === null ? [] : [b.value]),
      instructionsByLine: multimap(memory.instructions, (i) => [lineKey(i)]),
      instructionByName: new Map(memory.instructions.map((i, k) => [i.name, k])),
      lines: new Map(f.lines.map((row) => [lineKey(row), row])),
      peakByLine: new Map(),
    };
    for (const b of memory.buffers) {
      if (b.first > memory.peak_at || b.last < memory.peak_at) continue;
      found.peakByLine.set(lineKey(b), (found.peakByLine.get(lineKey(b)) || 0) + b.bytes);
    }
    cached.set(f, found);
  }
  return found;
}

export function sourceText(report, row) {
  const source = row.source === null ? null : report.sources[row.source];
  return (source && source.lines[row.line - source.first_line] || "").trim();
}
