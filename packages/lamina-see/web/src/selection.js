// The one selection of the page. It names lines, equations, instructions and buffers of the shown function.
import { indexOf, lineKey } from "./data.js";

const NOTHING = { kind: "none", label: "", lines: new Set(), equations: new Set(), instructions: new Set(), buffers: new Set(), instant: null };

export class Selection {
  constructor(report) {
    this.report = report;
    this.number = 0;
    this.listeners = [];
    this.current = NOTHING;
  }

  get f() { return this.report.functions[this.number] || null; }
  get active() { return this.current.kind !== "none"; }

  listen(listener) { this.listeners.push(listener); }

  showFunction(number) {
    this.number = number;
    this.current = NOTHING;
    for (const listener of this.listeners) listener("function", this.current, null);
  }

  set(kind, label, facts, origin) {
    this.current = { ...NOTHING, kind, label, ...facts };
    for (const listener of this.listeners) listener("selection", this.current, origin);
  }

  clear() { this.set("none", "", {}, null); }

  name(row) {
    if (row.source === null || row.source === undefined) return "a line that is unknown";
    return `line ${row.line} of ${this.report.sources[row.source].file.replace(/\\/g, "/").split("/").pop()}`;
  }

  line(row, origin) {
    const key = lineKey(row), x = this.f && indexOf(this.f);
    if (!key || !x) return;
    const equations = x.equationsByLine.get(key) || [];
    const instructions = new Set(x.instructionsByLine.get(key) || []);
    for (const e of equations) for (const i of this.f.equations[e].instruction) instructions.add(i);
    this.set("line", this.name(row), {
      lines: new Set([key]), equations: new Set(equations), instructions, buffers: new Set(x.buffersByLine.get(key) || []),
    }, origin);
  }

  equations(numbers, label, origin) {
    const x = indexOf(this.f), lines = new Set(), instructions = new Set(), buffers = new Set();
    for (const n of numbers) {
      const e = this.f.equations[n];
      if (lineKey(e)) lines.add(lineKey(e));
      for (const i of e.instruction) instructions.add(i);
      for (const v of e.results) for (const b of x.buffersByValue.get(v) || []) buffers.add(b);
    }
    this.set("equations", label, { lines, equations: new Set(numbers), instructions, buffers }, origin);
  }

  instruction(i, origin, kind = "instant") {
    const x = indexOf(this.f), memory = this.f.memory, row = memory.instructions[i];
    const buffers = new Set(memory.buffers.flatMap((b, k) => b.first === i && b.kind === "temporary" ? [k] : []));
    this.set(kind, `instruction ${i + 1} of ${memory.instructions.length}, ${row.name}`, {
      lines: new Set(lineKey(row) ? [lineKey(row)] : []), equations: new Set(x.equationsByInstruction.get(i) || []),
      instructions: new Set([i]), buffers, instant: i,
    }, origin);
  }

  buffer(k, origin) {
    const x = indexOf(this.f), b = this.f.memory.buffers[k];
    const producer = b.value === null ? undefined : x.producers.get(b.value);
    this.set("buffer", `${b.name} ${b.type}`, {
      lines: new Set(lineKey(b) ? [lineKey(b)] : []), equations: new Set(producer === undefined ? [] : [producer]),
      instructions: new Set([b.first]), buffers: new Set([k]), instant: this.current.instant,
    }, origin);
  }

  event(row, origin) {
    if (row.function !== null && row.function !== this.number && this.report.functions[row.function]) this.showFunction(row.function);
    const i = this.f && indexOf(this.f).instructionByName.get(row.name);
    if (row.function === this.number && i !== undefined) this.instruction(i, origin, "event");
    else if (lineKey(row)) this.line(row, origin);
  }

  // Whether a row of the time line belongs to the selection.
  hasEvent(row) {
    if (row.function !== null && row.function !== this.number) return false;
    const c = this.current;
    const i = indexOf(this.f).instructionByName.get(row.name);
    if (i !== undefined && c.instructions.size) return c.instructions.has(i);
    return c.lines.has(lineKey(row));
  }
}
