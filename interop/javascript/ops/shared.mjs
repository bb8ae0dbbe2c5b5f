// Shared functions of type rules. A type is {dtype, shape}.
import { sameShape } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';

export const type = (dtype, shape) => ({ dtype, shape });
export const I32 = D.dtypeNamed('i32');
export const U32 = D.dtypeNamed('u32');
export const BOOL = D.dtypeNamed('bool');

export function operands(types, count) {
  if (types.length !== count) refuse(`it takes ${count} operands; got ${types.length}`);
}

export function needs(type_, test, words) {
  if (!test(type_.dtype)) refuse(`expected ${words}; got ${type_.dtype.name}`);
}

export function oneDtype(types) {
  for (const t of types) if (t.dtype !== types[0].dtype) refuse(`operands need one dtype; got ${types.map(x => x.dtype.name).join(', ')}`);
  return types[0].dtype;
}

// The common shape of operands; those of rank 0 are broadcast.
export function oneShape(types) {
  let shape = [];
  for (const t of types) {
    if (t.shape.length && !sameShape(t.shape, shape)) {
      if (shape.length) refuse(`operands need one shape, or rank 0; got [${shape}] and [${t.shape}]`);
      shape = t.shape;
    }
  }
  return shape;
}

export function axisWithin(axis, ndim) {
  if (axis < 0 || axis >= ndim) refuse(`axis ${axis} is out of range for ${ndim} axes`);
}

// Check that a program takes operands of these types; return the types of its results.
export function takes(program, types, what) {
  const wanted = program.invars.map(v => v.type);
  if (wanted.length !== types.length || wanted.some((t, i) => t.dtype !== types[i].dtype || !sameShape(t.shape, types[i].shape))) {
    refuse(`${what} takes ${wanted.map(t => `${t.dtype.name}[${t.shape}]`)}; got ${types.map(t => `${t.dtype.name}[${t.shape}]`)}`);
  }
  return program.outvars.map(a => a.type);
}

export function alike(got, wanted, what) {
  if (got.length !== wanted.length || got.some((t, i) => t.dtype !== wanted[i].dtype || !sameShape(t.shape, wanted[i].shape))) {
    refuse(`${what} must give ${wanted.map(t => `${t.dtype.name}[${t.shape}]`)}; it gives ${got.map(t => `${t.dtype.name}[${t.shape}]`)}`);
  }
}

// Check that all have one shape.
export function sameTypes(types) {
  for (const t of types) if (!sameShape(t.shape, types[0].shape)) refuse(`one shape for all; got [${types[0].shape}] and [${t.shape}]`);
}

// Check that these are scalars with the dtypes of those.
export function scalars(types, wanted, what) {
  if (types.length !== wanted.length || types.some((t, i) => t.shape.length || t.dtype !== wanted[i].dtype)) {
    refuse(`${what} ${wanted.length} scalars of the arrays' dtypes`);
  }
}

// A JavaScript number as an element of a dtype, as `convert_element_type` would make it.
export function elementOf(dtype, x) {
  if (D.isBool(dtype)) return x !== 0 && x !== false;
  if (D.isInteger(dtype)) {
    if (typeof x === 'bigint') return D.wrap(dtype, x);
    if (Number.isNaN(x)) return 0n;
    if (x === Infinity) return D.highestInteger(dtype);
    if (x === -Infinity) return D.lowestInteger(dtype);
    const n = BigInt(Math.trunc(Number(x)));
    return n < D.lowestInteger(dtype) ? D.lowestInteger(dtype) : n > D.highestInteger(dtype) ? D.highestInteger(dtype) : n;
  }
  return D.isComplex(dtype) ? D.rounded(dtype, Array.isArray(x) ? x : [Number(x), 0]) : D.rounded(dtype, Number(x));
}

export function lowest(d) {
  if (D.isBool(d)) return false;
  if (D.isInteger(d)) return D.lowestInteger(d);
  if (D.isComplex(d)) return [-Infinity, -Infinity];
  return D.hasInfinity(d) ? -Infinity : -D.highest(d);
}

export function highest(d) {
  if (D.isBool(d)) return true;
  if (D.isInteger(d)) return D.highestInteger(d);
  if (D.isComplex(d)) return [Infinity, Infinity];
  return D.hasInfinity(d) ? Infinity : D.highest(d);
}

const isNaNElement = x => (Array.isArray(x) ? Number.isNaN(x[0]) || Number.isNaN(x[1]) : Number.isNaN(x));
const less = (x, y) => (Array.isArray(x) ? x[0] < y[0] || (x[0] === y[0] && x[1] < y[1]) : x < y);
export const nan = x => typeof x !== 'bigint' && typeof x !== 'boolean' && isNaNElement(x);

// The larger and the smaller of two; NaN if one is.
export const larger = (x, y) => (nan(x) ? x : nan(y) ? y : less(x, y) ? y : x);
export const smaller = (x, y) => (nan(x) ? x : nan(y) ? y : less(y, x) ? y : x);

// The order of `sort`: NaN after all numbers.
export function compare(x, y) {
  const a = nan(x), b = nan(y);
  if (a || b) {
    if (Array.isArray(x) && a && b) return compareWithNaN(x, y);
    return a === b ? 0 : a ? 1 : -1;
  }
  return less(x, y) ? -1 : less(y, x) ? 1 : 0;
}

function compareWithNaN(x, y) { // complex numbers with a NaN: by their parts, NaN last
  return compare(x[0], y[0]) || compare(x[1], y[1]);
}
