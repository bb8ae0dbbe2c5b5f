// Exported functions: bytes to a function of flat arrays, see docs/how-to/exported-functions.md.
import { createHash } from 'node:crypto';
import { checkAll, sameType, typeText } from './check.mjs';
import { dtypeNamed, rounded, writeElement } from './dtypes.mjs';
import { Refusal, refuse } from './errors.mjs';
import { evaluate } from './evaluate.mjs';
import { partsOf, readParts } from './file.mjs';
import { constraintOfText, sizeOfText, solveSizes } from './sizes.mjs';

const MAGIC = '\x89LAMEXP\n';
const HEAD = 64;
const MAX_DEPTH = 64; // of derivatives of derivatives, and of nested treedefs
const FORMS = { number: n => n, inverse: n => 1 / n, root: n => Math.sqrt(n), 'inverse root': n => 1 / Math.sqrt(n) };

function split(bytes) {
  if (bytes.length < 8 || Buffer.from(bytes.subarray(0, 8)).toString('latin1') !== MAGIC) refuse('this is no exported function');
  if (bytes.length < HEAD) refuse('the file is cut off');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(8, true) !== 1) refuse(`the file is of format ${view.getUint32(8, true)}; this reader knows 1`);
  const header = Number(view.getBigUint64(48, true)), program = Number(view.getBigUint64(56, true)), at = HEAD + header;
  if (view.getUint32(12, true) !== 0 || at + program > bytes.length) refuse('the file is cut off or damaged');
  const digest = createHash('sha256').update(bytes.subarray(HEAD)).digest();
  if (!digest.equals(bytes.subarray(16, 48))) refuse('the file is damaged: its checksum does not fit');
  return [bytes.subarray(HEAD, at), bytes.subarray(at, at + program), bytes.subarray(at + program)];
}

function list(x, what) {
  return Array.isArray(x) ? x : refuse(`${what} must be a list`);
}

function leaves(tree, depth = 0) {
  if (depth > MAX_DEPTH) refuse('a structure is too deep for this reader');
  if (tree === null) return 0;
  if (tree === 0) return 1;
  const [kind, data, children] = list(tree, 'a structure');
  if (typeof kind !== 'string' || !/^(list|tuple|dict|OrderedDict|node .*)$/s.test(kind)) refuse(`${JSON.stringify(kind)} is no kind of node`);
  if (kind.endsWith('ict') && list(data, 'keys').length !== list(children, 'children').length) refuse('there must be a child for each key');
  return list(children, 'children').reduce((n, child) => n + leaves(child, depth + 1), 0);
}

function type([dtype, shape, weak]) {
  return { dtype: dtypeNamed(dtype), shape: list(shape, 'a shape').map(sizeOfText), weak: Boolean(weak) };
}

// {name, trees: [arguments, result], ins, outs, names, constraints, replacements, parts, derivative}
export function readExported(bytes, depth = 0) {
  if (depth > MAX_DEPTH) refuse('there are too many derivatives for this reader');
  const [head, program, rest] = split(bytes);
  try {
    const h = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(head));
    const [ins, outs] = [h.ins, h.outs].map(types => list(types, 'types').map(type));
    const replacements = list(h.holes, 'holes').map(([path, form, n]) => ({ path: list(path, 'a path'), form: String(form), size: sizeOfText(n) }));
    const names = list(h.names, 'names').map(String), constraints = list(h.constraints, 'constraints').map(constraintOfText);
    const used = [...ins, ...outs].flatMap(t => t.shape).concat(replacements.map(r => r.size), constraints).flatMap(x => [...x.names]);
    if (!used.every(name => names.includes(name))) refuse('there are sizes without a name');
    if (leaves(h.in_tree) !== ins.length || leaves(h.out_tree) !== outs.length) refuse('structures and types do not fit');
    const made = { name: String(h.name), trees: [h.in_tree, h.out_tree], ins, outs, names, constraints, replacements,
                   parts: partsOf(program), derivative: rest.length ? readExported(rest, depth + 1) : null };
    if (!names.length) programAt(made, new Map()); // check the program now
    return made;
  } catch (e) {
    if (e instanceof Refusal) throw e;
    return refuse(`the header is malformed: ${e.message}`);
  }
}

// The value of a replacement: an integer, a float, a string, or the bytes of a literal, in `place`.
function replacementValue(form, n, place, header) {
  if (form === 'size') return Number.isSafeInteger(Number(n)) ? Number(n) : refuse(`this reader has no size ${n}`);
  const [, kind, name] = /^(literal|float|text) (.*)$/s.exec(form) ?? refuse(`the form ${form} of a replacement is not known`);
  if (!Object.hasOwn(FORMS, name)) refuse(`the form ${form} of a replacement is not known`);
  const value = FORMS[name](Number(n));
  if (kind !== 'literal') return kind === 'float' ? value : String(value);
  const dtype = dtypeNamed(header.avals[place[0]][0]), bytes = new Uint8Array(dtype.bytes);
  if (dtype.kind === 'int' && name !== 'number') refuse('an integer literal cannot have this form');
  const element = dtype.kind === 'int' ? n : dtype.kind === 'complex' ? [value, 0] : value;
  writeElement(dtype, new DataView(bytes.buffer), 0, rounded(dtype, element));
  return Buffer.from(bytes).toString('hex');
}

// The program at these sizes, checked, with the operand and result types of the function.
export function programAt(exported, sizes) {
  const header = structuredClone(exported.parts.header);
  for (const { path, form, size } of exported.replacements) {
    let place = header;
    for (const k of path.slice(0, -1)) place = Object.hasOwn(Object(place), k) ? place[k] : refuse('a path leads to nothing');
    const last = path.at(-1);
    if (Object(place) !== place || !Object.hasOwn(place, last)) refuse('a path leads to nothing');
    place[last] = replacementValue(form, size.at(sizes), place, header);
  }
  const found = readParts({ ...exported.parts, header });
  checkAll(found.programs);
  for (const [what, atoms, types] of [['operand', found.main.invars, exported.ins], ['result', found.main.outvars, exported.outs]]) {
    const expected = types.filter(t => t.dtype.name !== 'float0').map(t => ({ dtype: t.dtype, shape: t.shape.map(n => Number(n.at(sizes))) }));
    if (atoms.length !== expected.length) refuse(`the program has ${atoms.length} ${what}s, and the function ${expected.length}`);
    atoms.forEach((a, i) => {
      if (!sameType(a.type, expected[i])) refuse(`${what} ${i} of the program is ${typeText(a.type)}, and the function's ${typeText(expected[i])}`);
    });
  }
  return found.main;
}

// The results of a call with flat arrays, without those of dtype float0.
export function call(exported, args, host) {
  const ins = exported.ins.filter(t => t.dtype.name !== 'float0');
  if (ins.length !== args.length) refuse(`${exported.name}: ${ins.length} arrays are expected; got ${args.length}`);
  const pairs = args.flatMap((x, i) => {
    if (x.dtype !== ins[i].dtype || x.shape.length !== ins[i].shape.length) refuse(`${exported.name}: operand ${i} is ${x.type}`);
    return ins[i].shape.map((size, d) => [size, x.shape[d]]);
  });
  return evaluate(programAt(exported, solveSizes(exported.names, pairs, exported.constraints)), args, undefined, host);
}
