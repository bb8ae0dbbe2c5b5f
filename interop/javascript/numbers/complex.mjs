// Complex numbers as [re, im], with the branch cuts that docs/_generated/ops/elementwise.md names.

const I = [0, 1];
export const add = ([a, b], [c, d]) => [a + c, b + d];
export const sub = ([a, b], [c, d]) => [a - c, b - d];
export const mul = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c];
export const neg = ([a, b]) => [-a, -b];
export const conj = ([a, b]) => [a, -b];
export const abs = ([a, b]) => Math.hypot(a, b);
export const scale = (k, [a, b]) => [k * a, k * b];
export const arg = ([a, b]) => Math.atan2(b, a);
export const real = x => [x, 0];

export function div([a, b], [c, d]) {
  if (Math.abs(c) >= Math.abs(d)) { // by the larger part first, so that nothing overflows on the way
    if (c === 0 && d === 0) return [a / Math.abs(c), b / Math.abs(c)];
    const r = d / c, n = c + d * r;
    return [(a + b * r) / n, (b - a * r) / n];
  }
  const r = c / d, n = c * r + d;
  return [(a * r + b) / n, (b * r - a) / n];
}

export const exp = ([a, b]) => (b === 0 ? [Math.exp(a), b] : [Math.exp(a) * Math.cos(b), Math.exp(a) * Math.sin(b)]);
export const log = z => [Math.log(abs(z)), arg(z)];

export function sqrt([a, b]) {
  if (a === 0 && b === 0) return [0, b];
  if (!Number.isFinite(b) && !Number.isNaN(b)) return [Infinity, b];
  const r = Math.sqrt((Math.abs(a) + Math.hypot(a, b)) / 2);
  return a >= 0 ? [r, b / (2 * r)] : [Math.abs(b) / (2 * r), Object.is(b, -0) || b < 0 ? -r : r];
}

export const expm1 = ([a, b]) => {
  const s = Math.sin(b / 2);
  return [Math.expm1(a) * Math.cos(b) - 2 * s * s, Math.exp(a) * Math.sin(b)];
};

export const log1p = ([a, b]) => [Math.log1p(a * 2 + a * a + b * b) / 2, Math.atan2(b, 1 + a)];
export const sin = ([a, b]) => [Math.sin(a) * Math.cosh(b), Math.cos(a) * Math.sinh(b)];
export const cos = ([a, b]) => [Math.cos(a) * Math.cosh(b), -Math.sin(a) * Math.sinh(b)];
export const sinh = ([a, b]) => [Math.sinh(a) * Math.cos(b), Math.cosh(a) * Math.sin(b)];
export const cosh = ([a, b]) => [Math.cosh(a) * Math.cos(b), Math.sinh(a) * Math.sin(b)];

export function tanh([a, b]) {
  if (Math.abs(a) > 20) return [Math.sign(a), 4 * Math.sin(b) * Math.cos(b) * Math.exp(-2 * Math.abs(a))];
  const t = Math.tan(b), s = Math.sinh(a), c = Math.cosh(a);
  const n = 1 + t * t * (s / c) * (s / c);
  return [(s / c) * (1 + t * t) / n, t / (c * c) / n];
}

const turned = ([a, b]) => [-b, a]; // i z
const back = ([a, b]) => [b, -a]; // z / i
export const tan = z => back(tanh(turned(z)));
export const asinh = z => {
  const w = log(add(z, sqrt(add(mul(z, z), [1, 0]))));
  return z[0] < 0 ? neg(log(add(neg(z), sqrt(add(mul(z, z), [1, 0]))))) : w;
};
export const asin = z => back(asinh(turned(z)));
export const acos = z => sub([Math.PI / 2, 0], asin(z));
export const atanh = z => scale(0.5, sub(log1p(z), log1p(neg(z))));
export const atan = z => back(atanh(turned(z)));
export const acosh = z => log(add(z, mul(sqrt(add(z, [1, 0])), sqrt(sub(z, [1, 0])))));
export const pow = (z, w) => {
  if (w[0] === 0 && w[1] === 0) return [1, 0];
  if (z[0] === 0 && z[1] === 0) return w[0] > 0 && w[1] === 0 ? [0, 0] : [NaN, NaN];
  return exp(mul(w, log(z)));
};

export function power(z, n) { // a whole n
  if (n < 0) return div([1, 0], power(z, -n));
  let out = [1, 0];
  for (let base = z; n > 0; n = Math.floor(n / 2), base = mul(base, base)) if (n % 2) out = mul(out, base);
  return out;
}

export { I };
