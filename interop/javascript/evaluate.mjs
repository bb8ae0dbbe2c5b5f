// Evaluation of programs on arrays: on one device, or on all members of mapped axes in lockstep.
//
// If axes are mapped, every value is a list with one array per member. Members are numbered in row-major order, outermost axis first.
import { range } from './arrays.mjs';
import { refuse } from './errors.mjs';
import { key } from './file.mjs';
import { opNamed } from './ops/index.mjs';
import { wholeParams } from './check.mjs';

export class Axes {
  constructor(axes = []) {
    this.axes = axes; // [name, size] pairs, outermost first
    this.size = axes.reduce((n, [, s]) => n * s, 1);
  }

  extend(axes) {
    return new Axes([...this.axes, ...axes]);
  }

  alone() {
    return new Axes();
  }

  position(name) {
    for (let i = this.axes.length - 1; i >= 0; i--) if (key(this.axes[i][0]) === key(name)) return i;
    return refuse(`the axis ${key(name)} is not mapped here`);
  }

  // The position of member d on each axis.
  place(d) {
    const place = [];
    for (let i = this.axes.length - 1; i >= 0; i--) {
      place[i] = d % this.axes[i][1];
      d = Math.floor(d / this.axes[i][1]);
    }
    return place;
  }

  // The index of member d along the named axes; the first varies slowest.
  index(d, names) {
    const place = this.place(d);
    return names.reduce((n, name) => n * this.axes[this.position(name)][1] + place[this.position(name)], 0);
  }

  // Groups of members that differ along these axes only, in order; split by lists of indices if given.
  groups(names, parts) {
    const inside = new Set(names.map(name => this.position(name)));
    const found = new Map();
    for (const d of range(this.size)) {
      const group = key(this.place(d).filter((_, i) => !inside.has(i)));
      if (!found.has(group)) found.set(group, []);
      found.get(group)[this.index(d, names)] = d;
    }
    const all = [...found.values()];
    if (parts === null || parts === undefined) return all;
    if (key(parts.flat().sort((a, b) => a - b)) !== key(range(all[0].length))) refuse(`the groups ${key(parts)} do not split the axis`);
    return all.flatMap(group => parts.map(part => part.map(i => group[i])));
  }
}

// The results of a program, each a list with an array per member, of operands of that form.
export function run(program, operands, axes, host) {
  const env = new Map();
  const everywhere = x => range(axes.size).map(() => x);
  program.constvars.forEach((v, i) => env.set(v, everywhere(program.consts[i])));
  program.invars.forEach((v, i) => env.set(v, operands[i]));
  const value = a => (a.value ? everywhere(a.value) : env.get(a));
  for (const eqn of program.eqns) {
    const op = opNamed(eqn.op, eqn.version);
    const params = eqn.whole ?? wholeParams(eqn, op);
    const results = apply(op, eqn.invars.map(value), params, axes, host);
    eqn.outvars.forEach((v, i) => env.set(v, results[i]));
  }
  return program.outvars.map(value);
}

function apply(op, operands, params, axes, host) {
  if (op.members) return op.members(operands, params, axes, (program, xs, inside = axes) => run(program, xs, inside, host), host);
  const made = new Map(); // members with identical operands have the same results
  const each = range(axes.size).map(d => {
    const mine = operands.map(xs => xs[d]);
    const first = range(d).find(k => made.has(k) && made.get(k).mine.every((x, i) => x === mine[i]) && !op.perMember);
    const results = first === undefined ? op.run(mine, params, host) : made.get(first).results;
    made.set(d, { mine, results });
    return results;
  });
  return each[0].map((_, i) => each.map(results => results[i]));
}

// The results of a program on one device, or member 0's of those on the axes.
export function evaluate(program, args = [], axes = new Axes(), host = new Map()) {
  return run(program, args.map(x => range(axes.size).map(() => x)), axes, host).map(xs => xs[0]);
}
