// Arrays in row-major order, and functions that move their elements.
import { refuse } from './errors.mjs';

// Copies of a list: with one entry changed; with some entries replaced by others.
export const replaced = (list, i, v) => list.map((x, k) => (k === i ? v : x));
export function spliced(list, at, count, ...items) {
  const made = [...list];
  made.splice(at, count, ...items);
  return made;
}

export const sizeOf = shape => shape.reduce((n, m) => n * m, 1);

export class Arr {
  constructor(dtype, shape, data) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  get type() {
    return `${this.dtype.name}[${this.shape}]`;
  }

  with(data, dtype = this.dtype) {
    return new Arr(dtype, this.shape, data);
  }
}

export const scalar = (dtype, x) => new Arr(dtype, [], [x]);
export const full = (dtype, shape, x) => new Arr(dtype, shape, new Array(sizeOf(shape)).fill(x));

export function stridesOf(shape) {
  const strides = new Array(shape.length);
  for (let a = shape.length - 1, n = 1; a >= 0; n *= shape[a--]) strides[a] = n;
  return strides;
}

// Every index of a shape, in row-major order. The same list is yielded each time.
export function* indices(shape) {
  if (shape.includes(0)) return;
  const at = shape.map(() => 0);
  for (;;) {
    yield at;
    let a = shape.length - 1;
    while (a >= 0 && ++at[a] === shape[a]) at[a--] = 0;
    if (a < 0) return;
  }
}

export function offset(strides, at) {
  let n = 0;
  for (let a = 0; a < at.length; a++) n += strides[a] * at[a];
  return n;
}

export const get = (x, at) => x.data[offset(stridesOf(x.shape), at)];

// An array of a shape whose element at an index is `f(index)`.
export function build(dtype, shape, f) {
  const data = [];
  for (const at of indices(shape)) data.push(f(at));
  return new Arr(dtype, shape, data);
}

// An array of a shape whose element at an index is that of x at `place(index)`.
export function moved(x, shape, place) {
  const strides = stridesOf(x.shape);
  return build(x.dtype, shape, at => x.data[offset(strides, place(at))]);
}

export const reshaped = (x, shape) => new Arr(x.dtype, shape, x.data);
export const range = n => Array.from({ length: n }, (_, i) => i);

export function transposed(x, permutation) {
  const back = [];
  permutation.forEach((a, i) => { back[a] = i; });
  return moved(x, permutation.map(a => x.shape[a]), at => back.map(i => at[i]));
}

export function broadcast(x, shape) {
  if (x.shape.length === shape.length) return x;
  return full(x.dtype, shape, x.data[0]);
}

export function concatenated(xs, axis) {
  const starts = [];
  let total = 0;
  for (const x of xs) {
    starts.push(total);
    total += x.shape[axis];
  }
  const shape = replaced(xs[0].shape, axis, total);
  const strides = xs.map(x => stridesOf(x.shape));
  return build(xs[0].dtype, shape, at => {
    let k = xs.length - 1;
    while (starts[k] > at[axis] || !xs[k].shape[axis]) k--;
    return xs[k].data[offset(strides[k], at) - starts[k] * strides[k][axis]];
  });
}

export const withAxis = (x, axis) => reshaped(x, spliced(x.shape, axis, 0, 1));
export const stacked = (xs, axis) => concatenated(xs.map(x => withAxis(x, axis)), axis);

// The part of x along an axis from `start`, of a length; and one slice, without the axis.
export function cut(x, axis, start, length) {
  return moved(x, replaced(x.shape, axis, length), at => replaced(at, axis, at[axis] + start));
}

export const slice = (x, axis, i) => {
  const part = cut(x, axis, i, 1);
  return reshaped(part, spliced(part.shape, axis, 1));
};

// For each index along the other axes, the elements of x along `axes` in row-major order: f(elements, index) gives an element.
export function along(x, axes, dtype, f) {
  const remaining = range(x.shape.length).filter(a => !axes.includes(a));
  const inner = axes.map(a => x.shape[a]);
  const strides = stridesOf(x.shape);
  return build(dtype, remaining.map(a => x.shape[a]), at => {
    let base = 0;
    remaining.forEach((a, i) => { base += strides[a] * at[i]; });
    const elements = [];
    for (const k of indices(inner)) {
      let n = base;
      axes.forEach((a, i) => { n += strides[a] * k[i]; });
      elements.push(x.data[n]);
    }
    return f(elements, at);
  });
}

// Apply f to each line along an axis; it returns a list of elements per result, of its `length`. Returns the arrays.
export function lines(x, axis, results, f) {
  const outer = spliced(x.shape, axis, 1);
  const made = results.map(({ dtype, length }) => full(dtype, replaced(x.shape, axis, length), null));
  const strides = stridesOf(x.shape), outs = made.map(m => stridesOf(m.shape));
  for (const at of indices(outer)) {
    const start = spliced(at, axis, 0, 0);
    const base = offset(strides, start);
    const found = f(range(x.shape[axis]).map(k => base + k * strides[axis]));
    found.forEach((list, i) => {
      const first = offset(outs[i], start);
      list.forEach((value, k) => { made[i].data[first + k * outs[i][axis]] = value; });
    });
  }
  return made;
}

export function sameShape(a, b) {
  return a.length === b.length && a.every((n, i) => n === b[i]);
}

export function axesWithin(what, axes, ndim) {
  if (new Set(axes).size !== axes.length || axes.some(a => !Number.isInteger(a) || a < 0 || a >= ndim)) {
    refuse(`${what}: axes [${axes}] must be different ones of ${ndim}`);
  }
}
