// Primitives with nested programs: docs/_generated/ops/calls.md, maps.md, control.md, custom.md, solves.md; and identities.
import { Arr, build, full, offset, range, reshaped, slice, spliced, stacked, stridesOf, replaced } from '../arrays.mjs';
import { refuse } from '../errors.mjs';
import { key } from '../file.mjs';
import { BOOL, I32, alike, elementOf, operands, takes, type } from './shared.mjs';

export const ops = {};

// --- calls ----------------------------------------------------------------------------------------------------------
const call = (name, params, { defaults = {}, program = 'call_jaxpr' } = {}) => {
  ops[name] = {
    params: { [program]: 'program', ...params }, defaults,
    infer: (types, p) => takes(p[program].program, types, `the param ${program}`),
    members: (xs, p, axes, run) => run(p[program].program, xs),
  };
};

call('xla_call', { name: 'str', donated_invars: 'list', inline: 'bool', device: 'any', backend: 'any' },
     { defaults: { donated_invars: [], inline: false, device: null, backend: null } });
call('custom_jvp_call', { jvp: 'rule', name: 'str', num_consts: 'int' }, { defaults: { num_consts: 0 } });
call('custom_vjp_call', { bwd: 'rule', fwd: 'rule', name: 'str', num_consts: 'int' }, { defaults: { num_consts: 0 } });
call('custom_vmap_call', { name: 'str', num_consts: 'int', rule: 'rule' }, { defaults: { num_consts: 0 } });
call('remat', { differentiated: 'bool', name: 'str', policy: 'any', prevent_cse: 'bool' }, { defaults: { policy: null } });
call('linear_solve', { matvec: 'program', num_aux: 'int', num_consts: 'int', transpose_solve: 'program?' }, { program: 'solve' });

for (const [name, params] of [['name', { name: 'str' }], ['to_memory', { memory_kind: 'str' }],
  ['sharding_constraint', { sharding: 'str', unspecified_dims: 'ints' }]]) {
  ops[name] = {
    params,
    infer: types => {
      operands(types, 1);
      return types;
    },
    run: xs => xs,
  };
}
ops.optimization_barrier = { params: {}, infer: types => types, run: xs => xs };

ops.transposed_call = {
  params: { forward: 'rule', num_held: 'int', transpose_jaxpr: 'program' },
  infer: (types, { num_held: held, transpose_jaxpr: { program } }) => {
    const ins = program.invars.map(v => v.type);
    alike(types, [...ins.slice(0, held), ...program.outvars.map(a => a.type)], 'the operands');
    return ins.slice(held);
  },
  // The map itself if the file contains it; else its matrix, by transposing one basis vector at a time.
  members: (xs, { forward, num_held: held, transpose_jaxpr: { program } }, axes, run) => {
    if (forward.program) return run(forward.program, xs);
    if (axes.size > 1) refuse('transposed_call: on mapped axes it is known only where its `forward` is saved');
    const ins = program.invars.slice(held).map(v => v.type), given = xs.slice(held).map(x => x[0]);
    const zero = t => full(t.dtype, t.shape, elementOf(t.dtype, 0));
    return ins.map((t, i) => [zero(t).with(zero(t).data.map((_, k) => {
      const basis = ins.map((u, j) => (j === i ? u : zero(u))).map((u, j) => (j === i ? zero(t).with(replaced(zero(t).data, k, elementOf(t.dtype, 1))) : u));
      const back = run(program, [...xs.slice(0, held), ...basis.map(b => [b])]).map(r => r[0]);
      return elementOf(t.dtype, back.reduce((s, b, j) => s + b.data.reduce((u, v, n) => u + v * given[j].data[n], 0), 0));
    }))]);
  },
};

// --- branches and loops ---------------------------------------------------------------------------------------------
// Members with the same choice run together; others separately, which is impossible for a program that refers to axes.
function together(decisions, axes, run, xs, programOf) {
  if (decisions.every(d => d === decisions[0])) return run(programOf(decisions[0]), xs);
  const each = range(axes.size).map(d => run(programOf(decisions[d]), xs.map(x => [x[d]]), axes.alone()).map(r => r[0]));
  return each[0].map((_, i) => each.map(r => r[i]));
}

ops.cond = {
  params: { branches: 'programs' },
  infer: ([index, ...types], { branches }) => {
    if (index.dtype !== I32 || index.shape.length) refuse('the index must be i32[]');
    if (!branches.length) refuse('there must be a branch');
    const outs = branches.map(b => takes(b.program, types, 'a branch'));
    for (const o of outs) alike(o, outs[0], 'each branch');
    return outs[0];
  },
  members: ([index, ...xs], { branches }, axes, run) => {
    const chosen = index.map(i => (i.data[0] >= 0n && i.data[0] < BigInt(branches.length) ? Number(i.data[0]) : branches.length - 1));
    return together(chosen, axes, run, xs, i => branches[i].program);
  },
};

ops.platform_index = {
  params: { has_default: 'bool', platforms: 'list' },
  infer: types => {
    operands(types, 0);
    return [type(I32, [])];
  },
  run: (_, { has_default: other, platforms }) => {
    const found = platforms.findIndex(names => names.includes('cpu'));
    if (found < 0 && !other) refuse('platform_index: there is no branch for cpu');
    return [new Arr(I32, [], [BigInt(found < 0 ? platforms.length : found)])];
  },
};

ops.while = {
  params: { body_jaxpr: 'program', body_nconsts: 'int', cond_jaxpr: 'program', cond_nconsts: 'int', max_iters: 'int?' },
  defaults: { max_iters: null },
  infer: (types, p) => {
    const c = p.cond_nconsts, n = c + p.body_nconsts, carry = types.slice(n);
    alike(takes(p.cond_jaxpr.program, [...types.slice(0, c), ...carry], 'the test'), [type(BOOL, [])], 'the test');
    alike(takes(p.body_jaxpr.program, types.slice(c), 'the body'), carry, 'the body');
    return carry;
  },
  members: (xs, p, axes, run) => {
    const c = p.cond_nconsts, n = c + p.body_nconsts;
    const loop = (carry, testConsts, bodyConsts, inside) => {
      for (let turns = 0; turns !== p.max_iters; turns++) {
        const going = run(p.cond_jaxpr.program, [...testConsts, ...carry], inside)[0].map(t => t.data[0]);
        if (going.some(g => g !== going[0])) return null; // members diverge
        if (!going[0]) break;
        carry = run(p.body_jaxpr.program, [...bodyConsts, ...carry], inside);
      }
      return carry;
    };
    const whole = loop(xs.slice(n), xs.slice(0, c), xs.slice(c, n), axes);
    if (whole) return whole;
    const each = range(axes.size).map(d => {
      const mine = xs.map(x => [x[d]]);
      return loop(mine.slice(n), mine.slice(0, c), mine.slice(c, n), axes.alone()).map(r => r[0]);
    });
    return each[0].map((_, i) => each.map(r => r[i]));
  },
};

ops.scan = {
  params: { jaxpr: 'program', length: 'int', num_carry: 'int', num_consts: 'int', reverse: 'bool', unroll: 'int' },
  infer: (types, p) => {
    const c = p.num_consts, n = c + p.num_carry;
    const slices = types.slice(n).map(t => {
      if (t.shape[0] !== p.length) refuse(`what is scanned over must have a first axis of length ${p.length}`);
      return type(t.dtype, t.shape.slice(1));
    });
    const outs = takes(p.jaxpr.program, [...types.slice(0, n), ...slices], 'the body');
    alike(outs.slice(0, p.num_carry), types.slice(c, n), 'the body\'s carry');
    return [...types.slice(c, n), ...outs.slice(p.num_carry).map(t => type(t.dtype, [p.length, ...t.shape]))];
  },
  members: (xs, p, axes, run) => {
    const c = p.num_consts, n = c + p.num_carry, rows = [];
    let carry = xs.slice(c, n);
    for (const i of p.reverse ? range(p.length).reverse() : range(p.length)) {
      const outs = run(p.jaxpr.program, [...xs.slice(0, c), ...carry, ...xs.slice(n).map(x => x.map(a => slice(a, 0, i)))]);
      carry = outs.slice(0, p.num_carry);
      rows[i] = outs.slice(p.num_carry);
    }
    const types = p.jaxpr.program.outvars.slice(p.num_carry).map(a => a.type);
    const ys = types.map((t, k) => range(axes.size).map(d => (
      rows.length ? stacked(rows.map(r => r[k][d]), 0) : new Arr(t.dtype, [0, ...t.shape], []))));
    return [...carry, ...ys];
  },
};

// --- maps -----------------------------------------------------------------------------------------------------------
ops.xla_pmap = {
  params: { axis_name: 'any', axis_size: 'int', backend: 'any', call_jaxpr: 'program', devices: 'any', donated_invars: 'list',
            global_arg_shapes: 'any', global_axis_size: 'int?', in_axes: 'list', name: 'str', out_axes: 'list' },
  infer: (types, p) => {
    if (p.in_axes.length !== types.length) refuse('in_axes must have an entry per operand');
    const mine = types.map((t, i) => {
      const a = p.in_axes[i];
      if (a === null) return t;
      if (t.shape[a] !== p.axis_size) refuse(`operand ${i} must have the length ${p.axis_size} along axis ${a}`);
      return type(t.dtype, spliced(t.shape, a, 1));
    });
    const outs = takes(p.call_jaxpr.program, mine, 'the program');
    if (p.out_axes.length !== outs.length) refuse('out_axes must have an entry per result');
    return outs.map((t, i) => (p.out_axes[i] === null ? t : type(t.dtype, spliced(t.shape, p.out_axes[i], 0, p.axis_size))));
  },
  members: (xs, p, axes, run) => {
    if (p.global_axis_size !== null && p.global_axis_size !== p.axis_size) refuse('xla_pmap: other processes have a part of this map');
    const size = p.axis_size;
    const mine = xs.map((x, i) => x.flatMap(a => range(size).map(k => (p.in_axes[i] === null ? a : slice(a, p.in_axes[i], k)))));
    const outs = run(p.call_jaxpr.program, mine, axes.extend([[p.axis_name, size]]));
    return outs.map((values, i) => range(axes.size).map(d => (
      p.out_axes[i] === null ? values[d * size] : stacked(values.slice(d * size, (d + 1) * size), p.out_axes[i]))));
  },
};

// The length of a dimension inside of the map (null: it is removed), or outside.
const countOf = (entry, sizes) => (entry === null ? 1 : entry.fields.names.reduce((n, name) => n * sizes.get(key(name)), 1));
const isIndexed = entry => entry?.record === 'Indexed';

function inside(entries, shape, sizes) {
  if (!Array.isArray(entries) || entries.length !== shape.length) refuse('an entry per dimension');
  return shape.flatMap((n, a) => {
    const count = countOf(entries[a], sizes);
    if (isIndexed(entries[a]) ? n !== count : n % count) refuse(`a dimension of length ${n} cannot be given to ${count} members`);
    return isIndexed(entries[a]) ? [] : [n / count];
  });
}

function outside(entries, shape, sizes) {
  const lengths = [...shape];
  if (entries.filter(e => !isIndexed(e)).length !== shape.length) refuse('an entry per dimension');
  return entries.map(e => (isIndexed(e) ? countOf(e, sizes) : countOf(e, sizes) * lengths.shift()));
}

// The index in the global array of an index in a member's part.
function placeOf(entries, at, partShape, place, sizes) {
  const own = [...at], lengths = [...partShape];
  return entries.map(e => {
    const k = e === null ? 0 : e.fields.names.reduce((n, name) => n * sizes.get(key(name)) + place.get(key(name)), 0);
    return isIndexed(e) ? k : k * lengths.shift() + own.shift();
  });
}

function manyAxes(name, ins, outs, params, defaults, axesOf) {
  ops[name] = {
    params: { ...params, call_jaxpr: 'program', donated_invars: 'list', here: 'list', [ins]: 'list', [outs]: 'list', name: 'str' }, defaults,
    infer: (types, p) => {
      const sizes = new Map(axesOf(p).map(([n, s]) => [key(n), s]));
      if (p[ins].length !== types.length) refuse(`${ins} must have an entry per operand`);
      const found = takes(p.call_jaxpr.program, types.map((t, i) => type(t.dtype, inside(p[ins][i], t.shape, sizes))), 'the program');
      if (p[outs].length !== found.length) refuse(`${outs} must have an entry per result`);
      return found.map((t, i) => type(t.dtype, outside(p[outs][i], t.shape, sizes)));
    },
    members: (xs, p, axes, run) => {
      if (p.here.length) refuse(`${name}: other processes have a part of this map`);
      const mine = axesOf(p), sizes = new Map(mine.map(([n, s]) => [key(n), s])), inner = axes.extend(mine), count = inner.size / axes.size;
      const places = range(count).map(d => new Map(inner.place(d).slice(axes.axes.length).map((k, i) => [key(mine[i][0]), k])));
      const parts = xs.map((x, i) => x.flatMap(a => places.map(place => {
        const shape = inside(p[ins][i], a.shape, sizes), strides = stridesOf(a.shape);
        return build(a.dtype, shape, at => a.data[offset(strides, placeOf(p[ins][i], at, shape, place, sizes))]);
      })));
      const found = run(p.call_jaxpr.program, parts, inner);
      return found.map((values, i) => range(axes.size).map(d => {
        const shape = outside(p[outs][i], values[0].shape, sizes), strides = stridesOf(shape), whole = full(values[0].dtype, shape, null);
        for (const k of range(count).reverse()) { // of members with the same place the first is used
          const v = values[d * count + k], own = stridesOf(v.shape);
          build(v.dtype, v.shape, at => { whole.data[offset(strides, placeOf(p[outs][i], at, v.shape, places[k], sizes))] = v.data[offset(own, at)]; });
        }
        return whole;
      }));
    },
  };
}

manyAxes('xmap', 'in_axes', 'out_axes', { axis_resources: 'list', axis_sizes: 'list', backend: 'any', loops: 'list', mesh: 'any' },
         { axis_resources: [], backend: null, donated_invars: [], here: [], loops: [], mesh: null }, p => p.axis_sizes);
manyAxes('shard_map', 'in_specs', 'out_specs', { auto: 'list', mesh: 'list' }, { auto: [], donated_invars: [], here: [] }, p => {
  const auto = new Set(p.auto.map(key));
  return p.mesh[0].map((n, i) => [n, p.mesh[1][i]]).filter(([n]) => !auto.has(key(n)));
});

