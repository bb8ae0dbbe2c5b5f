// Gather, scatter, dynamic slices: docs/_generated/ops/indexing.md.
import { Arr, build, indices, moved, offset, range, sameShape, stridesOf } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import { elementOf, larger, needs, oneDtype, operands, smaller, type } from './shared.mjs';
import * as C from '../numbers/complex.mjs';

export const ops = {};

// --- dynamic slices -------------------------------------------------------------------------------------------------
function startsFit(t, starts) {
  operands(starts, t.shape.length);
  for (const s of starts) {
    needs(s, D.isInteger, 'integers');
    if (s.shape.length) refuse('starts have rank 0');
  }
}

const clipped = (n, length, size) => {
  const last = BigInt(length - size);
  return Number(n < 0n ? 0n : n > last ? last : n);
};
const firsts = (starts, shape, sizes) => starts.map((s, a) => clipped(s.data[0], shape[a], sizes[a]));

ops.dynamic_slice = {
  params: { slice_sizes: 'ints' },
  infer: ([t, ...starts], { slice_sizes: sizes }) => {
    startsFit(t, starts);
    if (sizes.length !== t.shape.length || sizes.some((n, a) => n < 0 || n > t.shape[a])) refuse('slice_sizes must fit');
    return [type(t.dtype, sizes)];
  },
  run: ([x, ...starts], { slice_sizes: sizes }) => {
    const first = firsts(starts, x.shape, sizes);
    return [moved(x, sizes, at => at.map((i, a) => first[a] + i))];
  },
};

ops.dynamic_update_slice = {
  params: {},
  infer: ([t, update, ...starts]) => {
    startsFit(t, starts);
    oneDtype([t, update]);
    if (update.shape.length !== t.shape.length || update.shape.some((n, a) => n > t.shape[a])) refuse('the update must fit');
    return [t];
  },
  run: ([x, update, ...starts]) => {
    const first = firsts(starts, x.shape, update.shape), made = x.with([...x.data]), strides = stridesOf(x.shape);
    let k = 0;
    for (const at of indices(update.shape)) made.data[offset(strides, at.map((i, a) => first[a] + i))] = update.data[k++];
    return [made];
  },
};

// --- windows --------------------------------------------------------------------------------------------------------
const distinct = (axes, ndim) => new Set(axes).size === axes.length && axes.every(a => Number.isInteger(a) && a >= 0 && a < ndim);
const ascending = axes => axes.every((a, i) => !i || axes[i - 1] < a);

function numbersOf({ record, fields }, name, keys) {
  if (record !== name) refuse(`dimension_numbers must be ${name}`);
  const [window, removed, map, batch = [], indexBatch = []] = keys.map(k => fields[k]);
  return { window, removed, map, batch, indexBatch };
}

const gatherNumbers = p => numbersOf(p.dimension_numbers, 'GatherDimensionNumbers',
                                     ['offset_dims', 'collapsed_slice_dims', 'start_index_map', 'operand_batching_dims', 'start_indices_batching_dims']);
const scatterNumbers = p => numbersOf(p.dimension_numbers, 'ScatterDimensionNumbers',
                                      ['update_window_dims', 'inserted_window_dims', 'scatter_dims_to_operand_dims', 'operand_batching_dims',
                                       'scatter_indices_batching_dims']);

function numbersFit(x, ix, n) {
  const ndim = x.shape.length;
  needs(ix, D.isInteger, 'integers as indices');
  if (!ix.shape.length || ix.shape[ix.shape.length - 1] !== n.map.length) refuse('the last axis of the indices holds index vectors');
  if (!(distinct([...n.removed, ...n.batch], ndim) && distinct([...n.map, ...n.batch], ndim) && ascending(n.removed))) refuse('axes of the operand must be distinct');
  if (n.batch.length !== n.indexBatch.length || !distinct(n.indexBatch, ix.shape.length - 1)
      || n.batch.some((a, i) => x.shape[a] !== ix.shape[n.indexBatch[i]])) refuse('batching axes go in pairs of equal length');
  if (n.window.length !== ndim - n.removed.length - n.batch.length || !ascending(n.window)
      || !distinct(n.window, n.window.length + ix.shape.length - 1)) refuse('window axes must ascend, one for each that remains');
}

// The first place of a window, and whether it had to be moved there.
function windowAt(shape, ix, at, sizes, n) {
  let inside = true;
  const base = offset(stridesOf(ix.shape), [...at, 0]);
  const start = shape.map((length, a) => {
    if (n.map.includes(a)) {
      const s = ix.data[base + n.map.indexOf(a)];
      if (s < 0n || s > BigInt(length - sizes[a])) inside = false;
      return clipped(s, length, sizes[a]);
    }
    return n.batch.includes(a) ? at[n.indexBatch[n.batch.indexOf(a)]] : 0;
  });
  return { start, inside };
}

// The index in an array with window axes: its parts in the batch, and in a window of the operand's rank.
function parted(at, n, ndim) {
  const window = [], batch = [];
  at.forEach((i, a) => (n.window.includes(a) ? window : batch).push(i));
  const gone = [...n.removed, ...n.batch];
  return { batch, window: range(ndim).map(a => (gone.includes(a) ? 0 : window.shift())) };
}

const PARAMS = { dimension_numbers: 'any', indices_are_sorted: 'bool', mode: 'any', unique_indices: 'bool' };
const readsAll = (mode, inside) => inside || mode.member !== 'FILL_OR_DROP';

function fillValue(d, v) {
  if (v !== null) return elementOf(d, v?.complex ?? (v instanceof Arr ? v.data[0] : v));
  if (D.isInexact(d)) return elementOf(d, NaN);
  return D.isBool(d) ? true : d.signed ? D.lowestInteger(d) : D.highestInteger(d);
}

ops.gather = {
  params: { ...PARAMS, fill_value: 'any', slice_sizes: 'ints' },
  infer: ([x, ix, ...rest], p) => {
    operands(rest, 0);
    const n = gatherNumbers(p), sizes = p.slice_sizes, gone = [...n.removed, ...n.batch];
    numbersFit(x, ix, n);
    if (sizes.length !== x.shape.length || sizes.some((s, a) => s < 0 || s > x.shape[a])) refuse('slice_sizes must fit');
    if (n.removed.some(a => sizes[a] !== 1) || n.batch.some(a => sizes[a] > 1)) refuse('removed axes must have slice size 1');
    const window = sizes.filter((_, a) => !gone.includes(a)), batch = ix.shape.slice(0, -1);
    return [type(x.dtype, range(window.length + batch.length).map(a => (n.window.includes(a) ? window.shift() : batch.shift())))];
  },
  run: ([x, ix], p) => {
    const n = gatherNumbers(p), strides = stridesOf(x.shape), fill = x.dtype.kind === 'key' ? null : fillValue(x.dtype, p.fill_value);
    return [build(x.dtype, ops.gather.infer([x, ix], p)[0].shape, at => {
      const { batch, window } = parted(at, n, x.shape.length);
      const { start, inside } = windowAt(x.shape, ix, batch, p.slice_sizes, n);
      return readsAll(p.mode, inside) ? x.data[offset(strides, start.map((s, a) => s + window[a]))] : fill;
    })];
  },
};

for (const [name, join] of [['scatter', (x, y) => y], ['scatter_add', (x, y) => (Array.isArray(x) ? C.add(x, y) : typeof x === 'boolean' ? x || y : x + y)],
  ['scatter_mul', (x, y) => (Array.isArray(x) ? C.mul(x, y) : typeof x === 'boolean' ? x && y : x * y)],
  ['scatter_min', smaller], ['scatter_max', larger]]) {
  const sizesOf = (x, updates, n) => {
    const lengths = n.window.map(a => updates.shape[a]), gone = [...n.removed, ...n.batch];
    return x.shape.map((_, a) => (gone.includes(a) ? 1 : lengths.shift()));
  };
  ops[name] = {
    params: PARAMS,
    infer: ([x, ix, updates, ...rest], p) => {
      operands(rest, 0);
      const n = scatterNumbers(p);
      numbersFit(x, ix, n);
      oneDtype([x, updates]);
      if (updates.shape.length !== n.window.length + ix.shape.length - 1
          || !sameShape(updates.shape.filter((_, a) => !n.window.includes(a)), ix.shape.slice(0, -1))) refuse('other axes of the updates are the batch');
      if (x.shape.length && sizesOf(x, updates, n).some((s, a) => s > x.shape[a] && ![...n.removed, ...n.batch].includes(a))) refuse('a window must fit');
      return [x];
    },
    run: ([x, ix, updates], p) => {
      const n = scatterNumbers(p), strides = stridesOf(x.shape), sizes = sizesOf(x, updates, n), made = x.with([...x.data]);
      if (!x.data.length) return [made];
      // Row by row over the batch, and in each window: where windows overlap the last one counts.
      const batch = ix.shape.slice(0, -1), mine = stridesOf(updates.shape), inner = sizes;
      for (const at of indices(batch)) {
        const { start, inside } = windowAt(x.shape, ix, at, sizes, n);
        if (!readsAll(p.mode, inside)) continue;
        for (const w of indices(inner)) {
          const b = [...at], kept = w.filter((_, a) => !n.removed.includes(a) && !n.batch.includes(a));
          const from = range(updates.shape.length).map(a => (n.window.includes(a) ? kept.shift() : b.shift()));
          const to = offset(strides, start.map((s, a) => s + w[a]));
          made.data[to] = D.rounded(x.dtype, join(made.data[to], updates.data[offset(mine, from)]));
        }
      }
      return [made];
    },
  };
}
