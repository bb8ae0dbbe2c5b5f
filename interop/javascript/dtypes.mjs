// Element types: their bytes (docs/reference/op-conventions.md), rounding, and kinds.
//
// An element is one JavaScript value: bool a boolean, integers BigInt, floats a number, complex [re, im], a key the list of its
// uint32 numbers, float0 null.
import { refuse } from './errors.mjs';

const table = new Map();

function define(name, kind, bytes, facts) {
  table.set(name, { name, kind, bytes, ...facts });
}

// Floats: exponent and mantissa bits, bias, and the codes that are not numbers. "ieee": infinities and NaN at the highest exponent;
// "fn": the highest code alone is NaN; "fnuz": the code of -0 is NaN; "finite": all are numbers.
for (const [name, bits, exponent, mantissa, bias, form] of [
  ['f64', 64, 11, 52, 1023, 'ieee'], ['f32', 32, 8, 23, 127, 'ieee'], ['f16', 16, 5, 10, 15, 'ieee'],
  ['bf16', 16, 8, 7, 127, 'ieee'], ['f8_e5m2', 8, 5, 2, 15, 'ieee'], ['f8_e3m4', 8, 3, 4, 3, 'ieee'],
  ['f8_e4m3', 8, 4, 3, 7, 'ieee'], ['f8_e4m3fn', 8, 4, 3, 7, 'fn'], ['f8_e4m3fnuz', 8, 4, 3, 8, 'fnuz'],
  ['f8_e5m2fnuz', 8, 5, 2, 16, 'fnuz'], ['f8_e4m3b11fnuz', 8, 4, 3, 11, 'fnuz'], ['f4_e2m1fn', 4, 2, 1, 1, 'finite'],
  ['f6_e2m3fn', 6, 2, 3, 1, 'finite'], ['f6_e3m2fn', 6, 3, 2, 3, 'finite'], ['f8_e8m0fnu', 8, 8, 0, 127, 'power']]) {
  define(name, 'float', Math.ceil(bits / 8), { bits, exponent, mantissa, bias, form });
}
for (const bits of [2, 4, 8, 16, 32, 64]) {
  define(`i${bits}`, 'int', Math.ceil(bits / 8), { bits, signed: true });
  define(`u${bits}`, 'int', Math.ceil(bits / 8), { bits, signed: false });
}
define('c64', 'complex', 8, { part: 'f32' });
define('c128', 'complex', 16, { part: 'f64' });
define('bool', 'bool', 1, {});
define('float0', 'float0', 0, {});
for (const [tag, words] of [['fry', 2], ['rbg', 4], ['urbg', 4]]) define(`key<${tag}>`, 'key', 4 * words, { words, tag });

export function dtypeNamed(name) {
  return table.get(name) ?? refuse(`no element type is named ${JSON.stringify(name)} here`);
}

export const isFloat = d => d.kind === 'float';
export const isInteger = d => d.kind === 'int';
export const isComplex = d => d.kind === 'complex';
export const isInexact = d => isFloat(d) || isComplex(d);
export const isNumber = d => isInexact(d) || isInteger(d);
export const isBool = d => d.kind === 'bool';
export const isKey = d => d.kind === 'key';
export const partOf = d => (isComplex(d) ? dtypeNamed(d.part) : d);
export const complexOf = d => dtypeNamed(d.name === 'f64' || d.name === 'c128' ? 'c128' : 'c64');

// --- floats ---------------------------------------------------------------------------------------------------------
const scratch = new DataView(new ArrayBuffer(8));

// The value of a code of a small float.
function decoded(d, code) {
  if (d.form === 'power') return code === 255 ? NaN : 2 ** (code - 127);
  const sign = code >> (d.bits - 1) ? -1 : 1;
  const e = (code >> d.mantissa) & (2 ** d.exponent - 1);
  const m = code & (2 ** d.mantissa - 1);
  const top = e === 2 ** d.exponent - 1;
  if (d.form === 'ieee' && top) return m ? NaN : sign * Infinity;
  if (d.form === 'fn' && top && m === 2 ** d.mantissa - 1) return NaN;
  if (d.form === 'fnuz' && sign < 0 && !e && !m) return NaN;
  const lead = e ? 1 : 0;
  return sign * (lead + m / 2 ** d.mantissa) * 2 ** (Math.max(e, 1) - d.bias);
}

export function highest(d) {
  if (d.name === 'f64') return Number.MAX_VALUE;
  if (d.form === 'power') return 2 ** 127;
  const reach = 2 ** d.exponent - 1 - (d.form === 'ieee' ? 1 : 0) - d.bias;
  const last = d.form === 'fn' ? 2 ** d.mantissa - 2 : 2 ** d.mantissa - 1;
  return (1 + last / 2 ** d.mantissa) * 2 ** reach;
}

export const hasInfinity = d => d.form === 'ieee';

// floor(log2 |x|) of a finite x that is not 0
export function exponentOf(x) {
  scratch.setFloat64(0, x);
  const e = (scratch.getUint32(0) >>> 20) & 0x7ff;
  return e ? e - 1023 : exponentOf(x * 2 ** 64) - 64;
}

function roundedToEven(x) {
  const low = Math.floor(x), rest = x - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
}

// x rounded to a number of bits after the leading one, ties to even, at and above an exponent; below it in steps of that exponent.
export function roundedTo(x, mantissa, lowest) {
  if (!Number.isFinite(x) || x === 0) return x;
  const step = Math.max(exponentOf(x), lowest) - mantissa;
  const down = step < -1000 ? 2 ** 1000 : 1; // 2 ** step alone might be too small to be a number
  const scaled = Math.abs(x) * down / 2 ** step / down;
  return Math.sign(x) * roundedToEven(scaled) * 2 ** step;
}

function roundedFloat(d, x) {
  if (d.name === 'f64') return x;
  if (d.name === 'f32') return Math.fround(x);
  if (d.form === 'power') {
    if (x <= 0 || !Number.isFinite(x)) return NaN;
    const made = Math.max(roundedTo(x, 0, -2000), 2 ** -127);
    return made > 2 ** 127 ? NaN : made;
  }
  if (Number.isNaN(x)) return d.form === 'finite' ? -0 : NaN;
  const made = roundedTo(x, d.mantissa, 1 - d.bias);
  if (Math.abs(made) > highest(d)) {
    return d.form === 'ieee' ? Math.sign(x) * Infinity : d.form === 'finite' ? Math.sign(x) * highest(d) : NaN;
  }
  return d.form === 'fnuz' && made === 0 ? 0 : made;
}

function encoded(d, x) {
  if (d.form === 'power') return Number.isNaN(x) ? 255 : exponentOf(x) + 127;
  const top = 2 ** d.exponent - 1, all = 2 ** d.mantissa;
  if (Number.isNaN(x)) return d.form === 'fnuz' ? 1 << (d.bits - 1) : d.form === 'fn' ? top * all + all - 1 : top * all + all / 2;
  const sign = x < 0 || Object.is(x, -0) ? 2 ** (d.bits - 1) : 0;
  const a = Math.abs(x);
  if (a === Infinity) return sign + top * all;
  if (a === 0) return sign;
  const e = Math.max(exponentOf(a), 1 - d.bias);
  const m = a / 2 ** (e - d.mantissa); // with the leading one
  return sign + (m < all ? m : (e + d.bias) * all + m - all);
}

// --- every dtype ----------------------------------------------------------------------------------------------------
export const wrap = (d, n) => (d.signed ? BigInt.asIntN(d.bits, n) : BigInt.asUintN(d.bits, n));
export const lowestInteger = d => (d.signed ? -(1n << BigInt(d.bits - 1)) : 0n);
export const highestInteger = d => (1n << BigInt(d.signed ? d.bits - 1 : d.bits)) - 1n;

// A JavaScript value as an element: floats rounded, integers modulo two to their bits.
export function rounded(d, x) {
  if (isFloat(d)) return roundedFloat(d, x);
  if (isInteger(d)) return wrap(d, x);
  if (isComplex(d)) return d.name === 'c128' ? x : [Math.fround(x[0]), Math.fround(x[1])];
  return x;
}

// The element in bytes, little-endian, at an offset of a DataView.
export function readElement(d, view, at) {
  switch (d.kind) {
    case 'bool': return view.getUint8(at) !== 0;
    case 'float0': return null;
    case 'complex': {
      const part = dtypeNamed(d.part);
      return [readElement(part, view, at), readElement(part, view, at + part.bytes)];
    }
    case 'key': return Array.from({ length: d.words }, (_, i) => BigInt(view.getUint32(at + 4 * i, true)));
    case 'int': {
      let n = 0n;
      for (let i = d.bytes - 1; i >= 0; i--) n = n << 8n | BigInt(view.getUint8(at + i));
      return wrap(d, n);
    }
    default:
      if (d.name === 'f64') return view.getFloat64(at, true);
      if (d.name === 'f32') return view.getFloat32(at, true);
      return decoded(d, (d.bytes === 2 ? view.getUint16(at, true) : view.getUint8(at)) & (2 ** d.bits - 1));
  }
}

export function writeElement(d, view, at, x) {
  switch (d.kind) {
    case 'bool': return view.setUint8(at, x ? 1 : 0);
    case 'float0': return undefined;
    case 'complex': {
      const part = dtypeNamed(d.part);
      writeElement(part, view, at, x[0]);
      return writeElement(part, view, at + part.bytes, x[1]);
    }
    case 'key': return x.forEach((word, i) => view.setUint32(at + 4 * i, Number(word), true));
    case 'int': {
      let n = BigInt.asUintN(d.bits, x);
      for (let i = 0; i < d.bytes; i++, n >>= 8n) view.setUint8(at + i, Number(n & 255n));
      return undefined;
    }
    default:
      if (d.name === 'f64') return view.setFloat64(at, x, true);
      if (d.name === 'f32') return view.setFloat32(at, x, true);
      return d.bytes === 2 ? view.setUint16(at, encoded(d, x), true) : view.setUint8(at, encoded(d, x));
  }
}
