// Elementwise ops: docs/_generated/ops/elementwise.md and docs/_generated/ops/special.md.
import { Arr, broadcast } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import * as C from '../numbers/complex.mjs';
import * as S from '../numbers/special.mjs';
import { BOOL, elementOf, larger, needs, oneDtype, oneShape, operands, smaller, type } from './shared.mjs';

const FLOAT = [D.isFloat, 'floats'];
const INEXACT = [D.isInexact, 'float or complex numbers'];
const NUMBER = [D.isNumber, 'numbers'];
const ANY = [d => D.isNumber(d) || D.isBool(d), 'numbers or truth values'];
const BITS = [d => D.isInteger(d) || D.isBool(d), 'integers or truth values'];
const INTEGER = [D.isInteger, 'integers'];
const COMPLEX = [D.isComplex, 'complex numbers'];
const REAL = [d => D.isFloat(d) || D.isInteger(d), 'real numbers'];
const ORDERED = [d => REAL[0](d) || D.isBool(d), 'real numbers or truth values'];
const MOVED = [() => true, 'arrays'];

export const ops = {};

// Results element by element: f(elements..., dtype of the first operand, params), rounded to the result's dtype.
function elementwise(xs, dtype, f, params) {
  const shape = oneShape(xs);
  const whole = xs.map(x => broadcast(x, shape));
  return [new Arr(dtype, shape, whole[0].data.map((_, i) => D.rounded(dtype, f(...whole.map(x => x.data[i]), xs[0].dtype, params))))];
}

function define(name, count, [test, words], f, { result = d => d, params = {}, infer } = {}) {
  ops[name] = {
    params,
    infer: infer ?? (types => {
      operands(types, count);
      needs(types[0], test, words);
      return [type(result(oneDtype(types)), oneShape(types))];
    }),
    run: (xs, given) => elementwise(xs, result(xs[0].dtype, given), f, given),
  };
}

// --- one operand ----------------------------------------------------------------------------------------------------
const inexact = (real, complex) => (x, d) => (D.isComplex(d) ? complex(x) : real(x));
for (const [name, real, complex] of [
  ['exp', Math.exp, C.exp], ['exp2', x => 2 ** x, z => C.exp(C.scale(Math.LN2, z))], ['expm1', Math.expm1, C.expm1],
  ['log', Math.log, C.log], ['log1p', Math.log1p, C.log1p], ['sin', Math.sin, C.sin], ['cos', Math.cos, C.cos], ['tan', Math.tan, C.tan],
  ['asin', Math.asin, C.asin], ['acos', Math.acos, C.acos], ['atan', Math.atan, C.atan], ['sinh', Math.sinh, C.sinh],
  ['cosh', Math.cosh, C.cosh], ['tanh', Math.tanh, C.tanh], ['asinh', Math.asinh, C.asinh], ['acosh', Math.acosh, C.acosh],
  ['atanh', Math.atanh, C.atanh], ['sqrt', Math.sqrt, C.sqrt], ['rsqrt', x => 1 / Math.sqrt(x), z => C.div([1, 0], C.sqrt(z))],
  ['logistic', x => 1 / (1 + Math.exp(-x)), z => C.div([1, 0], C.add([1, 0], C.exp(C.neg(z))))]]) {
  define(name, 1, INEXACT, inexact(real, complex));
}
for (const [name, f] of [
  ['floor', Math.floor], ['ceil', Math.ceil], ['cbrt', Math.cbrt], ['erf', S.erf], ['erfc', S.erfc], ['erf_inv', S.erfInv],
  ['lgamma', S.lgamma], ['digamma', S.digamma], ['bessel_i0e', x => S.bessel(0, x)],
  ['bessel_i1e', x => Math.sign(x) * S.bessel(1, x)]]) {
  define(name, 1, FLOAT, f);
}
const minus = x => (Array.isArray(x) ? C.neg(x) : -x);
define('neg', 1, NUMBER, minus);
define('square', 1, NUMBER, x => (Array.isArray(x) ? C.mul(x, x) : x * x));
define('sign', 1, NUMBER, x => {
  if (Array.isArray(x)) return x[0] === 0 && x[1] === 0 ? [0, 0] : C.scale(1 / C.abs(x), x);
  return typeof x === 'bigint' ? (x > 0n ? 1n : x < 0n ? -1n : 0n) : Math.sign(x);
});
define('abs', 1, NUMBER, x => (Array.isArray(x) ? C.abs(x) : typeof x === 'bigint' ? (x < 0n ? -x : x) : Math.abs(x)), { result: D.partOf });
define('copy', 1, MOVED, x => x);
define('stop_gradient', 1, MOVED, x => x);
define('is_finite', 1, FLOAT, x => Number.isFinite(x), { result: () => BOOL });
define('real', 1, COMPLEX, z => z[0], { result: D.partOf });
define('imag', 1, COMPLEX, z => z[1], { result: D.partOf });
define('conj', 1, COMPLEX, C.conj);
define('not', 1, BITS, x => (typeof x === 'boolean' ? !x : ~x));
define('round', 1, FLOAT, (x, d, { rounding_method: even }) => {
  const low = Math.trunc(x), rest = Math.abs(x - low);
  const up = rest > 0.5 || (rest === 0.5 && (even ? low % 2 !== 0 : true));
  return up ? low + Math.sign(x) : low;
}, { params: { rounding_method: 'int' } });

const bitsOf = (x, d) => BigInt.asUintN(d.bits, x).toString(2).padStart(d.bits, '0');
define('population_count', 1, INTEGER, (x, d) => BigInt(bitsOf(x, d).replaceAll('0', '').length));
define('clz', 1, INTEGER, (x, d) => BigInt((`${bitsOf(x, d)}1`).indexOf('1')));

function integerPower(x, y, d) {
  if (y < 0n) return x === 1n ? 1n : x === -1n ? (y % 2n ? -1n : 1n) : 0n;
  let out = 1n;
  for (let base = x, n = y; n > 0n; n >>= 1n, base = D.wrap(d, base * base)) if (n & 1n) out = D.wrap(d, out * base);
  return out;
}
define('integer_pow', 1, NUMBER, (x, d, { y }) => (D.isInteger(d) ? integerPower(x, BigInt(y), d) : D.isComplex(d) ? C.power(x, y) : x ** y),
       { params: { y: 'int' } });

// --- change of dtype ------------------------------------------------------------------------------------------------
function converted(x, from, to) {
  if (D.isBool(to)) return Array.isArray(x) ? x[0] !== 0 || x[1] !== 0 : typeof x === 'bigint' ? x !== 0n : typeof x === 'boolean' ? x : x !== 0;
  if (Array.isArray(x) && !D.isComplex(to)) [x] = x;
  if (typeof x === 'boolean') x = x ? 1 : 0;
  if (D.isInteger(from) && D.isInteger(to)) return x;
  if (D.isInteger(from) && to.name === 'f32') return throughDouble(x);
  return elementOf(to, x);
}
// Number(bigint) is rounded to 53 bits; a second rounding to 24 could go wrong at a tie, so the lost bits are kept as a sticky one.
function throughDouble(x) {
  const a = x < 0n ? -x : x, extra = a.toString(2).length - 50;
  if (extra <= 0) return Number(x);
  const kept = a >> BigInt(extra), sticky = a & ((1n << BigInt(extra)) - 1n) ? 1n : 0n;
  return Number(kept * 2n + sticky) * 2 ** (extra - 1) * (x < 0n ? -1 : 1);
}
ops.convert_element_type = {
  params: { new_dtype: 'dtype', weak_type: 'bool' },
  infer: (types, { new_dtype: { dtype } }) => {
    operands(types, 1);
    if (types[0].dtype !== dtype && (D.isKey(types[0].dtype) || D.isKey(dtype))) refuse('keys are not numbers');
    return [type(dtype, types[0].shape)];
  },
  run: ([x], { new_dtype: { dtype } }) => [x.dtype === dtype ? x : x.with(x.data.map(v => D.rounded(dtype, converted(v, x.dtype, dtype))), dtype)],
};
define('reduce_precision', 1, FLOAT, (x, d, { exponent_bits: e, mantissa_bits: m }) => {
  if (!Number.isFinite(x) || x === 0) return x;
  if (m < d.mantissa) x = D.roundedTo(x, m, -2000);
  if (e >= d.exponent) return x;
  const top = 2 ** (e - 1) - 1, at = D.exponentOf(x);
  return at > top ? Math.sign(x) * Infinity : at < 1 - top ? Math.sign(x) * 0 : x;
}, { params: { exponent_bits: 'int', mantissa_bits: 'int' } });

function bitcastShape({ dtype, shape }, to) {
  if (dtype === to) return shape;
  for (const d of [dtype, to]) if (!D.isInteger(d) && !D.isFloat(d)) refuse('bits of integers and floats only');
  if (to.bytes === dtype.bytes) return shape;
  if (to.bytes < dtype.bytes) return [...shape, dtype.bytes / to.bytes];
  if (!shape.length || shape[shape.length - 1] !== to.bytes / dtype.bytes) refuse(`${to.bytes / dtype.bytes} elements must form the last axis`);
  return shape.slice(0, -1);
}
ops.bitcast_convert_type = {
  params: { new_dtype: 'dtype' },
  infer: ([t, ...rest], { new_dtype: { dtype } }) => {
    operands(rest, 0);
    return [type(dtype, bitcastShape(t, dtype))];
  },
  run: ([x], { new_dtype: { dtype } }) => {
    const view = new DataView(new ArrayBuffer(x.data.length * x.dtype.bytes));
    x.data.forEach((v, i) => D.writeElement(x.dtype, view, i * x.dtype.bytes, v));
    const count = view.byteLength / dtype.bytes;
    return [new Arr(dtype, bitcastShape(x, dtype), Array.from({ length: count }, (_, i) => D.readElement(dtype, view, i * dtype.bytes)))];
  },
};

// --- two and more ---------------------------------------------------------------------------------------------------
const kind = (complex, bool, other) => (x, y, d) => (D.isComplex(d) ? complex(x, y) : D.isBool(d) ? bool(x, y) : other(x, y));
define('add', 2, ANY, kind(C.add, (x, y) => x || y, (x, y) => x + y));
define('sub', 2, NUMBER, kind(C.sub, null, (x, y) => x - y));
define('mul', 2, ANY, kind(C.mul, (x, y) => x && y, (x, y) => x * y));
define('div', 2, NUMBER, (x, y, d) => (D.isComplex(d) ? C.div(x, y) : D.isInteger(d) && y === 0n ? -1n : x / y));
define('rem', 2, REAL, (x, y, d) => (D.isInteger(d) && y === 0n ? x : x % y));
define('max', 2, ANY, larger);
define('min', 2, ANY, smaller);
define('atan2', 2, FLOAT, Math.atan2);
define('polygamma', 2, FLOAT, S.polygamma);
define('zeta', 2, FLOAT, S.zeta);
define('complex', 2, [d => d.name === 'f32' || d.name === 'f64', 'f32 or f64'], (x, y) => [x, y], { result: D.complexOf });
define('pow', 2, NUMBER, (x, y, d) => {
  if (D.isInteger(d)) return integerPower(x, y, d);
  if (D.isComplex(d)) return Array.isArray(y) ? C.pow(x, y) : C.power(x, Number(y));
  return x === 1 || (x === -1 && !Number.isFinite(Number(y)) && !Number.isNaN(Number(y))) ? 1 : x ** Number(y);
}, {
  infer: types => {
    operands(types, 2);
    needs(types[0], ...NUMBER);
    if (!(D.isInexact(types[0].dtype) && D.isInteger(types[1].dtype))) oneDtype(types);
    return [type(types[0].dtype, oneShape(types))];
  },
});
define('nextafter', 2, FLOAT, (x, y, d) => {
  if (Number.isNaN(x) || Number.isNaN(y)) return NaN;
  if (x === y) return y;
  const up = y > x, view = new DataView(new ArrayBuffer(8));
  const unsigned = D.dtypeNamed(`u${8 * d.bytes}`);
  D.writeElement(d, view, 0, Math.abs(x));
  const code = D.readElement(unsigned, view, 0); // codes of positive floats ascend with them
  if (code === 0n) {
    D.writeElement(unsigned, view, 0, 1n);
    return (up ? 1 : -1) * D.readElement(d, view, 0);
  }
  D.writeElement(unsigned, view, 0, code + (up === x > 0 ? 1n : -1n));
  return Math.sign(x) * D.readElement(d, view, 0);
});
define('and', 2, BITS, (x, y) => (typeof x === 'boolean' ? x && y : x & y));
define('or', 2, BITS, (x, y) => (typeof x === 'boolean' ? x || y : x | y));
define('xor', 2, BITS, (x, y) => (typeof x === 'boolean' ? x !== y : x ^ y));
const allOut = (y, d) => y < 0n || y >= BigInt(d.bits);
define('shift_left', 2, INTEGER, (x, y, d) => (allOut(y, d) ? 0n : x << y));
define('shift_right_logical', 2, INTEGER, (x, y, d) => (allOut(y, d) ? 0n : BigInt.asUintN(d.bits, x) >> y));
define('shift_right_arithmetic', 2, INTEGER, (x, y, d) => BigInt.asIntN(d.bits, x) >> (allOut(y, d) ? BigInt(d.bits) : y));

const same = (x, y) => (Array.isArray(x) ? x.every((v, i) => v === y[i]) : x === y);
const truth = { result: () => BOOL };
define('eq', 2, MOVED, same, truth);
define('ne', 2, MOVED, (x, y) => !same(x, y), truth);
define('lt', 2, ORDERED, (x, y) => x < y, truth);
define('le', 2, ORDERED, (x, y) => x <= y, truth);
define('gt', 2, ORDERED, (x, y) => x > y, truth);
define('ge', 2, ORDERED, (x, y) => x >= y, truth);
define('clamp', 3, ORDERED, (lo, x, hi) => smaller(larger(x, lo), hi));
ops.select = {
  params: {},
  infer: types => {
    operands(types, 3);
    needs(types[0], D.isBool, 'bool');
    return [type(oneDtype(types.slice(1)), oneShape(types))];
  },
  run: xs => elementwise(xs, xs[1].dtype, (p, t, f) => (p ? t : f)),
};

// --- special --------------------------------------------------------------------------------------------------------
for (const [name, mode] of [['igamma', 'lower'], ['igammac', 'upper'], ['igamma_grad_a', 'derivative'], ['random_gamma_grad', 'sample']]) {
  define(name, 2, FLOAT, (a, x) => S.incompleteGamma(mode, a, x));
}
define('regularized_incomplete_beta', 3, FLOAT, (a, b, x) => S.incompleteBeta(a, b, x));
