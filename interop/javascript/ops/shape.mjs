// Ops that move elements: docs/_generated/ops/shape.md.
import { Arr, axesWithin, build, concatenated, full, moved, offset, range, replaced, reshaped, sizeOf, stridesOf, transposed } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import { axisWithin, elementOf, oneDtype, operands, type } from './shared.mjs';

export const ops = {};

ops.broadcast_in_dim = {
  params: { broadcast_dimensions: 'ints', shape: 'ints' },
  infer: ([t, ...rest], { broadcast_dimensions: dims, shape }) => {
    operands(rest, 0);
    axesWithin('broadcast_dimensions', dims, shape.length);
    if (dims.length !== t.shape.length || dims.some((a, i) => i && a < dims[i - 1])) refuse('broadcast_dimensions must ascend, one per axis');
    if (t.shape.some((n, i) => n !== 1 && n !== shape[dims[i]])) refuse(`[${t.shape}] cannot become [${shape}]`);
    return [type(t.dtype, shape)];
  },
  run: ([x], { broadcast_dimensions: dims, shape }) => [moved(x, shape, at => dims.map((a, i) => (x.shape[i] === 1 ? 0 : at[a])))],
};

ops.concatenate = {
  params: { dimension: 'int' },
  infer: (types, { dimension }) => {
    if (!types.length) refuse('it takes operands');
    axisWithin(dimension, types[0].shape.length);
    for (const t of types) {
      if (t.shape.length !== types[0].shape.length || t.shape.some((n, a) => a !== dimension && n !== types[0].shape[a])) {
        refuse('operands must agree on every other axis');
      }
    }
    return [type(oneDtype(types), replaced(types[0].shape, dimension, types.reduce((n, t) => n + t.shape[dimension], 0)))];
  },
  run: (xs, { dimension }) => [concatenated(xs, dimension)],
};

const reshape = (infer, params) => ({ params, infer, run: ([x], given) => [reshaped(x, infer([x], given)[0].shape)] });
ops.expand_dims = reshape(([t, ...rest], { dimensions }) => {
  operands(rest, 0);
  const ndim = t.shape.length + dimensions.length, lengths = [...t.shape];
  axesWithin('dimensions', dimensions, ndim);
  return [type(t.dtype, range(ndim).map(a => (dimensions.includes(a) ? 1 : lengths.shift())))];
}, { dimensions: 'ints' });
ops.squeeze = reshape(([t, ...rest], { dimensions }) => {
  operands(rest, 0);
  axesWithin('dimensions', dimensions, t.shape.length);
  if (dimensions.some(a => t.shape[a] !== 1)) refuse('only axes of length 1 can be removed');
  return [type(t.dtype, t.shape.filter((_, a) => !dimensions.includes(a)))];
}, { dimensions: 'ints' });

ops.reshape = {
  params: { dimensions: 'ints?', new_sizes: 'ints' },
  infer: ([t, ...rest], { dimensions, new_sizes: sizes }) => {
    operands(rest, 0);
    if (sizes.some(n => n < 0) || sizeOf(sizes) !== sizeOf(t.shape)) refuse(`[${t.shape}] has not as many elements as [${sizes}]`);
    if (dimensions) axesWithin('dimensions', dimensions, t.shape.length);
    return [type(t.dtype, sizes)];
  },
  run: ([x], { dimensions, new_sizes: sizes }) => [reshaped(dimensions ? transposed(x, dimensions) : x, sizes)],
};

ops.transpose = {
  params: { permutation: 'ints' },
  infer: ([t, ...rest], { permutation }) => {
    operands(rest, 0);
    axesWithin('permutation', permutation, t.shape.length);
    if (permutation.length !== t.shape.length) refuse('the permutation must name each axis');
    return [type(t.dtype, permutation.map(a => t.shape[a]))];
  },
  run: ([x], { permutation }) => [transposed(x, permutation)],
};

ops.pad = {
  params: { padding_config: 'pairs' },
  infer: ([t, value, ...rest], { padding_config: config }) => {
    operands(rest, 0);
    if (oneDtype([t, value]) && value.shape.length) refuse('the padding value must have rank 0');
    if (config.length !== t.shape.length || config.some(c => c.length !== 3 || c[2] < 0)) refuse('padding_config must have (low, high, interior) per axis');
    const shape = t.shape.map((n, a) => config[a][0] + config[a][1] + n + (n ? config[a][2] * (n - 1) : 0));
    if (shape.some(n => n < 0)) refuse('no axis may get a negative length');
    return [type(t.dtype, shape)];
  },
  run: ([x, value], given) => {
    const [{ shape }] = ops.pad.infer([x, value], given);
    const made = full(x.dtype, shape, value.data[0]), strides = stridesOf(shape), mine = stridesOf(x.shape);
    build(x.dtype, x.shape, at => {
      const to = at.map((i, a) => given.padding_config[a][0] + i * (given.padding_config[a][2] + 1));
      if (to.every((i, a) => i >= 0 && i < shape[a])) made.data[offset(strides, to)] = x.data[offset(mine, at)];
    });
    return [made];
  },
};

ops.slice = {
  params: { limit_indices: 'ints', start_indices: 'ints', strides: 'ints?' },
  infer: ([t, ...rest], { limit_indices: limits, start_indices: starts, strides }) => {
    operands(rest, 0);
    const steps = strides ?? t.shape.map(() => 1);
    if ([limits, starts, steps].some(l => l.length !== t.shape.length)) refuse('one entry per axis');
    return [type(t.dtype, t.shape.map((n, a) => {
      if (!(starts[a] >= 0 && starts[a] <= limits[a] && limits[a] <= n && steps[a] > 0)) refuse('0 <= start <= limit <= length, stride > 0');
      return Math.ceil((limits[a] - starts[a]) / steps[a]);
    }))];
  },
  run: ([x], given) => {
    const steps = given.strides ?? x.shape.map(() => 1);
    return [moved(x, ops.slice.infer([x], given)[0].shape, at => at.map((i, a) => given.start_indices[a] + i * steps[a]))];
  },
};

ops.rev = {
  params: { dimensions: 'ints' },
  infer: ([t, ...rest], { dimensions }) => {
    operands(rest, 0);
    axesWithin('dimensions', dimensions, t.shape.length);
    return [t];
  },
  run: ([x], { dimensions }) => [moved(x, x.shape, at => at.map((i, a) => (dimensions.includes(a) ? x.shape[a] - 1 - i : i)))],
};

ops.iota = {
  params: { dimension: 'int', dtype: 'dtype', shape: 'ints' },
  infer: (types, { dimension, dtype: { dtype }, shape }) => {
    operands(types, 0);
    axisWithin(dimension, shape.length);
    if (!D.isNumber(dtype) || shape.some(n => n < 0)) refuse('a number dtype and lengths of at least 0');
    return [type(dtype, shape)];
  },
  run: (_, { dimension, dtype: { dtype }, shape }) => [build(dtype, shape, at => (
    D.isInteger(dtype) ? D.wrap(dtype, BigInt(at[dimension])) : elementOf(dtype, at[dimension])))],
};

