// Ops across mapped axes, docs/_generated/ops/collectives.md; and calls of the host, docs/_generated/ops/callbacks.md.
import { Arr, along, axesWithin, concatenated, cut, full, indices, range, replaced, reshaped, slice, spliced, stacked } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import { I32, elementOf, larger, needs, operands, smaller, type } from './shared.mjs';
import { total } from './reductions.mjs';

export const ops = {};

const isPosition = a => typeof a === 'number';
const namesOf = axes => (Array.isArray(axes) ? axes : [axes]);

// Several arrays joined element by element.
const joinedArrays = (xs, f) => xs[0].with(xs[0].data.map((_, i) => f(xs.map(x => x.data[i]))));

for (const [name, join, test] of [['psum', total, D.isNumber], ['pmax', xs => xs.reduce(larger), d => !D.isComplex(d)],
  ['pmin', xs => xs.reduce(smaller), d => !D.isComplex(d)]]) {
  ops[name] = {
    params: { axes: 'list', axis_index_groups: 'any' },
    infer: (types, { axes }) => types.map(t => {
      const local = axes.filter(isPosition);
      needs(t, test, 'numbers that can be joined');
      axesWithin('axes', local, t.shape.length);
      return type(t.dtype, t.shape.filter((_, a) => !local.includes(a)));
    }),
    members: (xs, { axes: given, axis_index_groups: parts }, axes) => xs.map(members => {
      const local = given.filter(isPosition), names = given.filter(a => !isPosition(a));
      const made = local.length ? members.map(x => along(x, local, x.dtype, e => join(e, x.dtype))) : [...members];
      for (const group of names.length ? axes.groups(names, parts) : []) {
        const whole = joinedArrays(group.map(d => made[d]), e => join(e, made[0].dtype));
        for (const d of group) made[d] = whole;
      }
      return made;
    }),
  };
}

// The groups of an op, of the size that it says.
function groupsOf(p, axes) {
  const groups = axes.groups(namesOf(p.axis_name), p.axis_index_groups);
  if (groups.some(g => g.length !== p.axis_size)) refuse(`groups of ${p.axis_size} members`);
  return groups;
}

const GROUPED = { axis_index_groups: 'any', axis_name: 'any', axis_size: 'int', tiled: 'bool' };

function grouped(name, params, infer, each) {
  ops[name] = {
    params: { ...GROUPED, ...params },
    infer: ([t, ...rest], p) => {
      operands(rest, 0);
      return [infer(t, p)];
    },
    members: ([xs], p, axes) => {
      const made = [];
      for (const group of groupsOf(p, axes)) each(group.map(d => xs[d]), p).forEach((y, i) => { made[group[i]] = y; });
      return [made];
    },
  };
}

const divided = (t, axis, p) => {
  axesWithin('the axis', [axis], t.shape.length);
  if (p.tiled ? t.shape[axis] % p.axis_size : t.shape[axis] !== p.axis_size) refuse(`axis ${axis} must be one of ${p.axis_size} parts`);
};
// Part i of x along an axis: a block, or a slice without the axis.
const part = (x, axis, i, p) => (p.tiled ? cut(x, axis, i * x.shape[axis] / p.axis_size, x.shape[axis] / p.axis_size) : slice(x, axis, i));

grouped('all_gather', { all_gather_dimension: 'int' }, (t, p) => {
  const a = p.all_gather_dimension;
  axesWithin('the axis', [a], t.shape.length + !p.tiled);
  return type(t.dtype, p.tiled ? replaced(t.shape, a, t.shape[a] * p.axis_size) : spliced(t.shape, a, 0, p.axis_size));
}, (xs, p) => xs.map(() => (p.tiled ? concatenated : stacked)(xs, p.all_gather_dimension)));

grouped('psum_scatter', { scatter_dimension: 'int' }, (t, p) => {
  const a = p.scatter_dimension;
  needs(t, D.isNumber, 'numbers');
  divided(t, a, p);
  return type(t.dtype, p.tiled ? replaced(t.shape, a, t.shape[a] / p.axis_size) : spliced(t.shape, a, 1));
}, (xs, p) => {
  const whole = joinedArrays(xs, e => total(e, xs[0].dtype));
  return xs.map((_, i) => part(whole, p.scatter_dimension, i, p));
});

grouped('all_to_all', { concat_axis: 'int', split_axis: 'int' }, (t, p) => {
  divided(t, p.split_axis, p);
  axesWithin('concat_axis', [p.concat_axis], t.shape.length);
  if (!p.tiled) return type(t.dtype, spliced(spliced(t.shape, p.split_axis, 1), p.concat_axis, 0, p.axis_size));
  const shape = replaced(t.shape, p.split_axis, t.shape[p.split_axis] / p.axis_size);
  return type(t.dtype, replaced(shape, p.concat_axis, shape[p.concat_axis] * p.axis_size));
}, (xs, p) => xs.map((_, i) => (p.tiled ? concatenated : stacked)(xs.map(x => part(x, p.split_axis, i, p)), p.concat_axis)));

ops.ppermute = {
  params: { axis_name: 'any', perm: 'pairs' },
  infer: types => {
    operands(types, 1);
    return types;
  },
  members: ([xs], { axis_name: name, perm }, axes) => {
    const made = xs.map(x => full(x.dtype, x.shape, elementOf(x.dtype, 0)));
    for (const group of axes.groups(namesOf(name))) for (const [from, to] of perm) made[group[to]] = xs[group[from]];
    return [made];
  },
};

ops.axis_index = {
  params: { axis_name: 'any' },
  infer: types => {
    operands(types, 0);
    return [type(I32, [])];
  },
  members: (_, { axis_name: name }, axes) => [range(axes.size).map(d => new Arr(I32, [], [BigInt(axes.index(d, namesOf(name)))]))],
};

// --- the host -------------------------------------------------------------------------------------------------------
const results = p => (p.result_shapes ?? []).map((shape, i) => type(p.result_dtypes[i].dtype, [...p.batch, ...shape]));

function hostCall(name, params, defaults) {
  ops[name] = {
    params: { batch: 'ints', callback: 'any', mapped: 'list', ...params }, defaults: { batch: [], mapped: [], ...defaults },
    perMember: true, // each member calls the host
    infer: (types, p) => [...results(p), ...(p.threaded ? [type(I32, [])] : [])],
    run: (xs, p, host) => {
      const called = p.callback.fields?.name, f = host.get(called);
      if (!f) refuse(`${name}: this reader has no host function \`${called}\``);
      const args = p.threaded ? xs.slice(0, -1) : xs, made = results(p).map(t => new Arr(t.dtype, t.shape, []));
      for (const at of indices(p.batch)) {
        const mine = args.map((x, i) => at.reduce((y, k, a) => (p.mapped[i][a] ? slice(y, 0, k) : y), x));
        f(...mine).forEach((y, i) => made[i].data.push(...reshaped(y, y.shape).data));
      }
      return [...made, ...(p.threaded ? xs.slice(-1) : [])];
    },
  };
}

const SHAPES = { result_dtypes: 'list', result_shapes: 'list' };
hostCall('pure_callback', { ...SHAPES, vmap_method: 'any' }, { vmap_method: null });
hostCall('io_callback', { ...SHAPES, ordered: 'bool', threaded: 'bool' }, { ordered: false, threaded: false });
hostCall('debug_callback', { indexed: 'bool', ordered: 'bool', threaded: 'bool' }, { indexed: false, ordered: false, threaded: false });
