// Saved programs: bytes to programs, see docs/reference/saved-programs.md. Nothing is executed, and every index is checked.
import { createHash } from 'node:crypto';
import { Arr, sizeOf } from './arrays.mjs';
import { dtypeNamed, readElement } from './dtypes.mjs';
import { Refusal, refuse } from './errors.mjs';

const MAGIC = '\x89LAMINA\n';
const HEAD = 64;
const NEWEST_FORMAT = 2;

// A program: {constvars, consts, invars, eqns, outvars}; variables are {type} objects, literals {type, value}.
// An equation: {op, version, invars, outvars, params, source}. Params: null, booleans, numbers, texts, lists of these for tuples,
// lists and frozensets, and objects: {enum}, {record, fields}, {dtype}, {program}, {rule}, {axis}, {complex}, {bytes}, {dict}, Arr.

export function split(bytes) {
  if (bytes.length < 8 || Buffer.from(bytes.subarray(0, 8)).toString('latin1') !== MAGIC) refuse('this is no saved program');
  if (bytes.length < HEAD) refuse('the file is cut off');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const format = view.getUint32(8, true);
  if (format < 1 || format > NEWEST_FORMAT) refuse(`the file is of format ${format}; this reader knows 1 to ${NEWEST_FORMAT}`);
  const header = Number(view.getBigUint64(48, true)), buffers = Number(view.getBigUint64(56, true));
  if (view.getUint32(12, true) !== 0 || HEAD + header + buffers !== bytes.length) refuse('the file is cut off or damaged');
  const digest = createHash('sha256').update(bytes.subarray(HEAD)).digest();
  if (!digest.equals(bytes.subarray(16, 48))) refuse('the file is damaged: its checksum does not fit');
  return { header: bytes.subarray(HEAD, HEAD + header), buffers: bytes.subarray(HEAD + header) };
}

// The header as JSON, and the buffers.
export function partsOf(bytes) {
  const { header, buffers } = split(bytes);
  try {
    return { header: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(header)), buffers };
  } catch (e) {
    return refuse(`the header is malformed: ${e.message}`);
  }
}

export function readParts({ header, buffers }) {
  try {
    return new Reader(header, buffers).whole();
  } catch (e) {
    if (e instanceof Refusal) throw e;
    return refuse(`the header is malformed: ${e.message}`);
  }
}

export const read = bytes => readParts(partsOf(bytes));

function index(n, list, what) {
  if (!Number.isInteger(n) || n < 0 || n >= list.length) refuse(`${n} is the number of no ${what}`);
  return list[n];
}

function size(n) {
  if (!Number.isSafeInteger(n) || n < 0) refuse(`${n} is no size`);
  return n;
}

function list(x, what) {
  if (!Array.isArray(x)) refuse(`${what} must be a list`);
  return x;
}

function text(x) {
  if (typeof x !== 'string') refuse(`expected a text; got ${JSON.stringify(x)}`);
  return x;
}

function number(x) {
  if (typeof x === 'string' && /^[+-]?(inf|nan)$/.test(x)) return x.endsWith('nan') ? NaN : x[0] === '-' ? -Infinity : Infinity;
  const n = Number(text(x));
  if (Number.isNaN(n)) refuse(`${x} is no number`);
  return n;
}

function unhex(x) {
  if (text(x).length % 2 || /[^0-9a-f]/i.test(x)) refuse('expected bytes in hexadecimal');
  return Uint8Array.from(Buffer.from(x, 'hex'));
}

class Reader {
  constructor(header, buffers) {
    this.header = header;
    this.bytes = buffers;
    this.axes = new Map();
    this.programs = [];
    this.arrays = [];
    this.rules = (header.rules ?? []).map(([name]) => ({ rule: text(name), program: null }));
    this.sources = list(header.sources ?? [], 'sources');
    this.versions = new Map(Object.entries(header.ops ?? {}));
    for (const v of this.versions.values()) if (!Number.isInteger(v) || v < 1) refuse(`${v} is no version of an op`);
    this.types = list(header.avals, 'avals').map(a => this.type(a));
  }

  whole() {
    const { lines } = this.header;
    list(this.header.programs, 'programs').forEach((p, i) => this.programs.push(this.program(p, lines?.[i])));
    (this.header.rules ?? []).forEach(([, n], i) => {
      if (n !== null) this.rules[i].program = index(n, this.programs, 'program');
    });
    return { main: index(this.header.main, this.programs, 'program'), programs: this.programs, trees: this.header.trees ?? null,
             writer: this.header.writer };
  }

  type([dtype, shape, weak, over]) {
    return { dtype: dtypeNamed(text(dtype)), shape: list(shape, 'a shape').map(size), weak: Boolean(weak),
             over: (over ?? []).map(name => this.value(name)) };
  }

  array(n) {
    const [name, shape, start, length] = index(n, list(this.header.buffers, 'buffers'), 'buffer');
    if (!this.arrays[n]) {
      const dtype = dtypeNamed(name), count = sizeOf(list(shape, 'a shape').map(size));
      if (length !== count * dtype.bytes || size(start) % 16 || start + length > this.bytes.length) {
        refuse('the bytes of a constant do not fit its type');
      }
      if (dtype.bytes === 0 && count > this.bytes.length + 1e6) refuse('a constant without bytes is too long for this reader');
      const view = new DataView(this.bytes.buffer, this.bytes.byteOffset + start, length);
      this.arrays[n] = new Arr(dtype, shape, Array.from({ length: count }, (_, i) => readElement(dtype, view, i * dtype.bytes)));
    }
    return this.arrays[n];
  }

  program(p, lines) {
    if (lines && lines.length !== p.eqns.length) refuse('there must be a line for each equation');
    const variable = n => ({ type: index(n, this.types, 'type') });
    const constvars = list(p.constvars, 'constvars').map(variable);
    const invars = list(p.invars, 'invars').map(variable);
    const scope = [...constvars, ...invars];
    const eqns = list(p.eqns, 'eqns').map(([op, ins, outs, params], k) => {
      const eqn = { op: text(op), version: this.versions.get(op) ?? 1, invars: list(ins, 'operands').map(a => this.atom(a, scope)) };
      eqn.params = new Map(Object.entries(params).map(([name, v]) => [name, this.value(v)]));
      eqn.outvars = list(outs, 'results').map(n => (n >= 0 ? variable(n) : { ...variable(-1 - n), dropped: true }));
      eqn.source = lines && lines[k] !== -1 ? index(lines[k], this.sources, 'source') : null;
      scope.push(...eqn.outvars.filter(v => !v.dropped));
      return eqn;
    });
    return { constvars, consts: list(p.consts, 'consts').map(n => this.array(n)), invars, eqns,
             outvars: list(p.outvars, 'outvars').map(a => this.atom(a, scope)) };
  }

  atom(a, scope) {
    if (!Array.isArray(a)) return index(a, scope, 'variable');
    const type = index(a[0], this.types, 'type'), bytes = unhex(a[1]);
    if (type.shape.length || bytes.length !== type.dtype.bytes) refuse('a literal must be one element of its type');
    return { type, value: new Arr(type.dtype, [], [readElement(type.dtype, new DataView(bytes.buffer), 0)]) };
  }

  value(v) {
    if (v === null || typeof v !== 'object') {
      if (typeof v === 'number' && Number.isInteger(v) && !Number.isSafeInteger(v)) refuse(`this reader has no integer ${v} in params`);
      return v;
    }
    if (Array.isArray(v) || Object.keys(v).length !== 1) refuse('a param has an invalid form');
    const [[kind, x]] = Object.entries(v);
    switch (kind) {
      case 'tuple': case 'list': case 'frozenset': return list(x, kind).map(y => this.value(y));
      case 'dict': return { dict: x.map(([a, b]) => [this.value(a), this.value(b)]) };
      case 'float': return number(x);
      case 'complex': return { complex: [number(x[0]), number(x[1])] };
      case 'bytes': return { bytes: unhex(x) };
      case 'ellipsis': return { ellipsis: null };
      case 'dtype': return { dtype: dtypeNamed(x) };
      case 'program': return { program: index(x, this.programs, 'earlier program') };
      case 'array': return this.array(x);
      case 'rule': return index(x, this.rules, 'rule');
      case 'axis':
        if (!this.axes.has(x[0])) this.axes.set(x[0], { axis: x[0], label: String(x[1]) });
        return this.axes.get(x[0]);
      case 'enum': return { enum: text(x[0]), member: text(x[1]) };
      case 'record': return { record: text(x[0]), fields: Object.fromEntries(Object.entries(x[1]).map(([n, y]) => [n, this.value(y)])) };
      default: return refuse(`params of kind ${kind} are not known to this reader`);
    }
  }
}

// A string by which names of axes, and other params, are compared.
export function key(v) {
  return JSON.stringify(v, (_, x) => (typeof x === 'bigint' ? `${x}n` : x));
}
