// Check that a program is well formed: variables are bound before they are read, params are those of the primitive, and the types of
// results are those of the type rules.
import { sameShape } from './arrays.mjs';
import { Refusal, refuse } from './errors.mjs';
import { opNamed } from './ops/index.mjs';

export const typeText = t => `${t.dtype.name}[${t.shape}]`;
export const sameType = (a, b) => a.dtype === b.dtype && sameShape(a.shape, b.shape);

const isInt = v => Number.isInteger(v);
const ints = v => Array.isArray(v) && v.every(isInt);
const KINDS = {
  bool: v => typeof v === 'boolean', int: isInt, 'int?': v => v === null || isInt(v), ints, 'ints?': v => v === null || ints(v),
  pairs: v => Array.isArray(v) && v.every(ints), dtype: v => Boolean(v?.dtype), 'dtype?': v => v === null || Boolean(v?.dtype),
  program: v => Boolean(v?.program), programs: v => Array.isArray(v) && v.every(p => p?.program), str: v => typeof v === 'string',
  'program?': v => v === null || Boolean(v?.program), rule: v => typeof v?.rule === 'string', list: Array.isArray, any: () => true,
};

// The params of an equation, with the defaults of those that the file omits.
export function wholeParams(eqn, op) {
  const params = new Map([...Object.entries(op.defaults ?? {}), ...eqn.params]);
  const names = Object.keys(op.params);
  for (const name of names) {
    if (!params.has(name)) refuse(`${eqn.op}: the param ${name} is missing`);
    if (!KINDS[op.params[name]](params.get(name))) refuse(`${eqn.op}: its param ${name} must be of the kind ${op.params[name]}`);
  }
  for (const name of params.keys()) if (!(name in op.params)) refuse(`${eqn.op}: unexpected param ${name}`);
  return Object.fromEntries(params);
}

export function checkAll(programs) {
  const done = new Set();
  programs.forEach((p, i) => check(p, `program ${i}`, done));
}

export function check(program, where, done = new Set()) {
  if (done.has(program)) return;
  done.add(program);
  if (program.consts.length !== program.constvars.length) refuse(`${where}: ${program.constvars.length} constvars, ${program.consts.length} consts`);
  program.consts.forEach((c, i) => {
    if (!sameType(c, program.constvars[i].type)) refuse(`${where}: constant ${i} is ${typeText(c)}, not ${typeText(program.constvars[i].type)}`);
  });
  const bound = new Set([...program.constvars, ...program.invars]);
  const read = (a, what) => {
    if (!a.value && !bound.has(a)) refuse(`${what} is not bound before it is read`);
  };
  program.eqns.forEach((eqn, n) => {
    const here = `${where}, equation ${n} (${eqn.op})`;
    const op = opNamed(eqn.op, eqn.version);
    eqn.invars.forEach((a, i) => read(a, `${here}: operand ${i}`));
    try {
      eqn.whole = wholeParams(eqn, op);
      for (const [name, v] of Object.entries(eqn.whole)) {
        for (const p of Array.isArray(v) ? v : [v]) if (p?.program && !p.rule) check(p.program, `${here}, ${name}`, done);
      }
      const types = op.infer(eqn.invars.map(a => a.type), eqn.whole);
      if (types.length !== eqn.outvars.length) refuse(`${eqn.outvars.length} results; the op gives ${types.length}`);
      types.forEach((t, i) => {
        if (!sameType(t, eqn.outvars[i].type)) refuse(`result ${i} is ${typeText(eqn.outvars[i].type)}; the op gives ${typeText(t)}`);
      });
    } catch (e) {
      if (e instanceof Refusal) refuse(`${here}: ${e.message}`);
      if (e instanceof TypeError || e instanceof RangeError) refuse(`${here}: its params do not fit the op: ${e.message}`);
      throw e;
    }
    eqn.outvars.forEach(v => bound.add(v));
  });
  program.outvars.forEach((a, i) => read(a, `${where}: result ${i}`));
}
