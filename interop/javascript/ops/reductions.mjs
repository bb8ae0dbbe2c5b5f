// Reductions, cumulations and windows: docs/_generated/ops/reductions.md, docs/_generated/ops/windows.md.
import { Arr, along, axesWithin, build, full, indices, lines, offset, range, stridesOf } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import * as C from '../numbers/complex.mjs';
import { axisWithin, elementOf, highest, larger, lowest, needs, operands, sameTypes, scalars, smaller, type } from './shared.mjs';

export const ops = {};

const NUMBER = [D.isNumber, 'numbers'];
const BITS = [d => D.isInteger(d) || D.isBool(d), 'integers or truth values'];
const ANY = [() => true, 'arrays'];
const NOT_COMPLEX = [d => !D.isComplex(d), 'integers, floats or truth values'];

// How two elements are combined, and the initial value: {join(x, y, dtype), start(dtype)}.
const plus = (x, y) => (Array.isArray(x) ? C.add(x, y) : x + y);
const times = (x, y) => (Array.isArray(x) ? C.mul(x, y) : x * y);
const SUM = { join: plus, start: d => elementOf(d, 0) };
const PROD = { join: times, start: d => elementOf(d, 1) };
const MAX = { join: larger, start: lowest };
const MIN = { join: smaller, start: highest };
const bits = (bool, int) => (x, y) => (typeof x === 'boolean' ? bool(x, y) : int(x, y));
const AND = { join: bits((x, y) => x && y, (x, y) => x & y), start: d => (D.isBool(d) ? true : D.wrap(d, -1n)) };
const OR = { join: bits((x, y) => x || y, (x, y) => x | y), start: d => elementOf(d, 0) };
const XOR = { join: bits((x, y) => x !== y, (x, y) => x ^ y), start: d => elementOf(d, 0) };

export const joined = (elements, d, { join, start }) => D.rounded(d, elements.reduce(join, start(d)));
export const total = (elements, d) => joined(elements, d, SUM);

for (const [name, how, kinds] of [['reduce_sum', SUM, NUMBER], ['reduce_prod', PROD, NUMBER], ['reduce_max', MAX, ANY],
  ['reduce_min', MIN, ANY], ['reduce_and', AND, BITS], ['reduce_or', OR, BITS], ['reduce_xor', XOR, BITS]]) {
  ops[name] = {
    params: { axes: 'ints' },
    infer: ([t, ...rest], { axes }) => {
      operands(rest, 0);
      needs(t, ...kinds);
      axesWithin('axes', axes, t.shape.length);
      return [type(t.dtype, t.shape.filter((_, a) => !axes.includes(a)))];
    },
    run: ([x], { axes }) => [along(x, axes, x.dtype, elements => joined(elements, x.dtype, how))],
  };
}

for (const [name, better] of [['argmax', larger], ['argmin', smaller]]) {
  ops[name] = {
    params: { axes: 'ints', index_dtype: 'dtype' },
    infer: ([t, ...rest], { axes, index_dtype: { dtype } }) => {
      operands(rest, 0);
      if (axes.length !== 1 || !D.isInteger(dtype)) refuse('one axis, and an integer dtype');
      axisWithin(axes[0], t.shape.length);
      if (!t.shape[axes[0]]) refuse('there is no element to choose');
      return [type(dtype, t.shape.filter((_, a) => a !== axes[0]))];
    },
    run: ([x], { axes, index_dtype: { dtype } }) => [along(x, axes, dtype, elements => {
      const best = elements.reduce(better);
      return D.wrap(dtype, BigInt(elements.findIndex(e => equal(e, best))));
    })],
  };
}
const equal = (x, y) => (Array.isArray(x) ? x.every((v, i) => equal(v, y[i])) : x === y || (Number.isNaN(x) && Number.isNaN(y)));

for (const [name, how, kinds] of [['cumsum', SUM, NUMBER], ['cumprod', PROD, NUMBER], ['cummax', MAX, ANY], ['cummin', MIN, ANY]]) {
  ops[name] = {
    params: { axis: 'int', reverse: 'bool' },
    infer: ([t, ...rest], { axis }) => {
      operands(rest, 0);
      needs(t, ...kinds);
      axisWithin(axis, t.shape.length);
      return [t];
    },
    run: ([x], { axis, reverse }) => lines(x, axis, [{ dtype: x.dtype, length: x.shape[axis] }], places => {
      const order = reverse ? [...places].reverse() : places;
      let state;
      const made = order.map((p, k) => (state = k ? how.join(state, x.data[p]) : x.data[p]));
      const whole = made.map(v => D.rounded(x.dtype, v));
      return [reverse ? whole.reverse() : whole];
    }),
  };
}

// --- by a program ---------------------------------------------------------------------------------------------------
function monoid(types, { computation: { program } }) {
  const n = types.length / 2;
  if (!n || !Number.isInteger(n)) refuse('as many starts as arrays');
  const xs = types.slice(0, n), inits = types.slice(n);
  if (inits.some((t, i) => t.shape.length || t.dtype !== xs[i].dtype)) refuse('each start must be a scalar of its array\'s dtype');
  sameTypes(xs);
  scalars(program.invars.map(v => v.type), [...xs, ...xs], 'the computation takes');
  scalars(program.outvars.map(a => a.type), xs, 'the computation gives');
  return xs;
}

// The combined elements of several arrays: lists of elements, then the starts.
function fold(lists, inits, program, call) {
  let state = inits;
  for (const k of range(lists[0].length)) state = call(program, [...state, ...lists.map((l, i) => new Arr(inits[i].dtype, [], [l[k]]))]);
  return state.map(s => s.data[0]);
}

function byProgram(xs, params, axes, runProgram, fun) {
  const call = (program, args) => runProgram(program, args.map(a => [a]), axes.alone()).map(r => r[0]);
  const each = range(axes.size).map(d => fun(xs.map(x => x[d]), call));
  return each[0].map((_, i) => each.map(results => results[i]));
}

ops.reduce = {
  params: { computation: 'program', dimensions: 'ints' },
  infer: (types, params) => {
    const xs = monoid(types, params);
    axesWithin('dimensions', params.dimensions, xs[0].shape.length);
    const shape = xs[0].shape.filter((_, a) => !params.dimensions.includes(a));
    return xs.map(t => type(t.dtype, shape));
  },
  members: (operands_, params, axes, runProgram) => byProgram(operands_, params, axes, runProgram, (mine, call) => {
    const n = mine.length / 2, xs = mine.slice(0, n);
    const parts = xs.map(x => along(x, params.dimensions, x.dtype, elements => elements));
    const made = xs.map((x, i) => new Arr(x.dtype, parts[i].shape, []));
    parts[0].data.forEach((_, k) => {
      fold(parts.map(p => p.data[k]), mine.slice(n), params.computation.program, call).forEach((v, i) => made[i].data.push(v));
    });
    return made;
  }),
};

// --- windows --------------------------------------------------------------------------------------------------------
const dilated = (n, dilation) => (n ? (n - 1) * dilation + 1 : 0);

export function windowCount(n, { size, stride, low, high, base, dilation }) {
  const length = dilated(n, base) + low + high, extent = dilated(size, dilation);
  return length <= 0 || extent > length ? 0 : Math.floor((length - extent) / stride) + 1;
}

function windowsOf(shape, p) {
  const ones = shape.map(() => 1);
  const lists = [p.window_dimensions, p.window_strides, p.padding, p.base_dilation ?? ones, p.window_dilation ?? ones];
  if (lists.some(l => l.length !== shape.length)) refuse('one entry per axis');
  const made = shape.map((_, a) => ({ size: lists[0][a], stride: lists[1][a], low: lists[2][a][0], high: lists[2][a][1], base: lists[3][a],
                                      dilation: lists[4][a] }));
  for (const w of made) if (!(w.size >= 1 && w.stride >= 1 && w.base >= 1 && w.dilation >= 1)) refuse('sizes, strides and dilations are positive');
  return made;
}

const windowShape = (shape, p) => windowsOf(shape, p).map((w, a) => windowCount(shape[a], w));

// For each window f(places): the places in x's data of its elements, in row-major order.
export function eachWindow(x, p, f) {
  const windows = windowsOf(x.shape, p), strides = stridesOf(x.shape);
  for (const at of indices(windowShape(x.shape, p))) {
    const places = [];
    for (const k of indices(windows.map(w => w.size))) {
      const where = k.map((j, a) => (at[a] * windows[a].stride + j * windows[a].dilation - windows[a].low) / windows[a].base);
      if (where.every((i, a) => Number.isInteger(i) && i >= 0 && i < x.shape[a])) places.push(offset(strides, where));
    }
    f(places);
  }
}

const WINDOW = { base_dilation: 'ints', padding: 'pairs', window_dilation: 'ints', window_dimensions: 'ints', window_strides: 'ints' };

for (const [name, how, kinds] of [['reduce_window_sum', SUM, NUMBER], ['reduce_window_prod', PROD, NUMBER],
  ['reduce_window_max', MAX, NOT_COMPLEX], ['reduce_window_min', MIN, NOT_COMPLEX]]) {
  ops[name] = {
    params: WINDOW,
    infer: ([t, ...rest], p) => {
      operands(rest, 0);
      needs(t, ...kinds);
      return [type(t.dtype, windowShape(t.shape, p))];
    },
    run: ([x], p) => {
      const data = [];
      eachWindow(x, p, places => data.push(joined(places.map(k => x.data[k]), x.dtype, how)));
      return [new Arr(x.dtype, windowShape(x.shape, p), data)];
    },
  };
}

ops.reduce_window = {
  params: { ...WINDOW, computation: 'program' },
  infer: (types, p) => monoid(types, p).map(t => type(t.dtype, windowShape(t.shape, p))),
  members: (operands_, p, axes, runProgram) => byProgram(operands_, p, axes, runProgram, (mine, call) => {
    const n = mine.length / 2, xs = mine.slice(0, n);
    const made = xs.map(x => new Arr(x.dtype, windowShape(x.shape, p), []));
    eachWindow(xs[0], p, places => {
      const lists = xs.map(x => places.map(k => x.data[k]));
      fold(lists, mine.slice(n), p.computation.program, call).forEach((v, i) => made[i].data.push(v));
    });
    return made;
  }),
};

// The place of the chosen element of a window: the largest or smallest, the first of equals.
function chosen(x, places, select) {
  const [better, worst] = select === 'ge' ? [larger, lowest(x.dtype)] : [smaller, highest(x.dtype)];
  const others = places.filter(k => x.data[k] !== worst);
  if (!others.length) return places[0];
  const best = others.map(k => x.data[k]).reduce(better);
  return others.find(k => equal(x.data[k], best));
}

ops.select_and_gather_add = {
  params: { ...WINDOW, select: 'str' },
  infer: ([t, x, ...rest], p) => {
    operands(rest, 0);
    sameTypes([t, x]);
    needs(x, ...NOT_COMPLEX);
    return [type(t.dtype, windowShape(x.shape, p))];
  },
  run: ([t, x], p) => {
    const data = [];
    eachWindow(x, p, places => data.push(places.length ? t.data[chosen(x, places, p.select)] : elementOf(t.dtype, 0)));
    return [new Arr(t.dtype, windowShape(x.shape, p), data)];
  },
};

ops.select_and_scatter_add = {
  params: { padding: 'pairs', select: 'str', window_dimensions: 'ints', window_strides: 'ints' },
  infer: ([source, x, ...rest], p) => {
    operands(rest, 0);
    needs(x, ...NOT_COMPLEX);
    sameTypes([source, type(source.dtype, windowShape(x.shape, p))]);
    return [type(source.dtype, x.shape)];
  },
  run: ([source, x], p) => {
    const made = full(source.dtype, x.shape, elementOf(source.dtype, 0));
    let k = 0;
    eachWindow(x, p, places => {
      const v = source.data[k++];
      if (places.length) {
        const at = chosen(x, places, p.select);
        made.data[at] = plus(made.data[at], v);
      }
    });
    return [made.with(made.data.map(v => D.rounded(source.dtype, v)))];
  },
};

