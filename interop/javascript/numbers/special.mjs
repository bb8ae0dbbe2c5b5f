// Functions of real numbers that JavaScript lacks, in double precision.
// Sources: DLMF 5.5, 5.11 (gamma), 7.6, 7.9 (erf), 8.7 - 8.9, 8.17 (incomplete ones), 10.25, 10.40 (Bessel), 25.11 (zeta).

const BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330];
const LOG_2PI = Math.log(2 * Math.PI);

export function lgamma(x) {
  if (!Number.isFinite(x)) return Math.abs(x);
  if (x <= 0 && Number.isInteger(x)) return Infinity;
  if (x < 0.5) { // reflection
    const part = x - Math.round(x);
    return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * part))) - lgamma(1 - x);
  }
  let z = x, product = 1;
  for (; z < 15; z++) product *= z;
  let series = 0;
  for (let k = BERNOULLI.length; k >= 1; k--) series += BERNOULLI[k - 1] / (2 * k * (2 * k - 1) * z ** (2 * k - 1));
  return (z - 0.5) * Math.log(z) - z + LOG_2PI / 2 + series - Math.log(product);
}

export function digamma(x) {
  if (x <= 0 && Number.isInteger(x)) return NaN;
  if (x === -Infinity) return NaN;
  if (x < 0.5) return digamma(1 - x) - Math.PI / Math.tan(Math.PI * (x - Math.round(x)));
  let z = x, shift = 0;
  for (; z < 15; z++) shift -= 1 / z;
  let series = 0;
  for (let k = BERNOULLI.length; k >= 1; k--) series += BERNOULLI[k - 1] / (2 * k * z ** (2 * k));
  return shift + Math.log(z) - 0.5 / z - series;
}

export function erf(x) {
  if (Number.isNaN(x)) return NaN;
  const a = Math.abs(x);
  if (a > 2) return Math.sign(x) * (1 - erfc(a));
  let term = x, sum = x;
  for (let n = 1; n < 100 && Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= 2 * x * x / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

export function erfc(x) {
  if (Number.isNaN(x)) return NaN;
  if (x < 2) return 1 - erf(x);
  if (x > 27.5) return 0;
  let f = x; // continued fraction, from its end
  for (let n = 120; n >= 1; n--) f = x + n / 2 / f;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / f;
}

export function erfInv(y) {
  if (Math.abs(y) === 1) return y * Infinity;
  if (!(Math.abs(y) < 1)) return NaN;
  const t = Math.abs(y), log = Math.log1p(-t * t), b = 2 / (Math.PI * 0.147) + log / 2;
  let x = Math.sqrt(Math.max(Math.sqrt(b * b - log / 0.147) - b, 0));
  for (let i = 0; i < 5; i++) { // Newton, on log erfc where 1 - erf cancels
    const derivative = (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x);
    if (t < 0.9) x -= (erf(x) - t) / derivative;
    else {
      const tail = erfc(x);
      x += Math.log(tail / (1 - t)) * tail / derivative;
    }
  }
  return Object.is(y, -0) || y < 0 ? -x : x;
}

export function zeta(s, q) {
  if (Number.isNaN(s) || Number.isNaN(q)) return NaN;
  if (s === 1) return Infinity;
  if (q <= 0 && Math.floor(q) === q) return s % 2 === 0 ? Infinity : NaN;
  if (s < 1 || (q <= 0 && s !== Math.floor(s))) return NaN; // Infinity counts as an integer
  if (q === Infinity) return 0;
  if (q < -1e6) return NaN; // too many terms for this reader
  let total = 0, a = q;
  for (; a < 12 || a < s; a++) { // beyond both the tail's series has converged
    const term = a === 1 ? 1 : a ** -s; // 1 ** Infinity is NaN here
    total += term;
    if (a > 0 && term <= 1e-20 * total) return total;
  }
  let tail = a ** (1 - s) / (s - 1) + 0.5 * a ** -s, factor = s * a ** (-s - 1), factorial = 2;
  BERNOULLI.forEach((b, i) => {
    const k = i + 1;
    tail += b / factorial * factor;
    factor *= (s + 2 * k - 1) * (s + 2 * k) / (a * a);
    factorial *= (2 * k + 1) * (2 * k + 2);
  });
  return total + tail;
}

export function polygamma(n, x) {
  if (n < 0 || !Number.isInteger(n)) return NaN;
  return n === 0 ? digamma(x) : (n % 2 ? 1 : -1) * Math.exp(lgamma(n + 1)) * zeta(n + 1, x);
}

// exp(-|x|) I_order(|x|)
export function bessel(order, x) {
  const a = Math.abs(x);
  let sum = 0;
  if (a <= 30) {
    let term = (a / 2) ** order;
    for (let k = 1; k < 120; k++) {
      sum += term;
      term *= (a / 2) ** 2 / (k * (k + order));
    }
    return sum * Math.exp(-a);
  }
  let term = 1;
  for (let k = 1; k < 25; k++) {
    sum += term;
    term *= -(4 * order ** 2 - (2 * k - 1) ** 2) / (8 * k * a);
  }
  return sum / Math.sqrt(2 * Math.PI * a);
}

// --- incomplete gamma functions -------------------------------------------------------------------------------------
const density = (a, x) => Math.exp(a * Math.log(x) - x - lgamma(a)); // x^a e^-x / gamma(a)

// The sum of x^n / ((a + 1) ... (a + n)) and its derivative by a: P = density / a times it.
function series(a, x) {
  let term = 1, derivative = 0, total = 1, moved = 0;
  for (let n = 1; n < 20000; n++) {
    derivative = (derivative - term / (a + n)) * x / (a + n);
    term *= x / (a + n);
    total += term;
    moved += derivative;
    if (term < 1e-17 * total && Math.abs(derivative) < 1e-17 * Math.abs(moved)) break;
  }
  return [total, moved];
}

// H and its derivative by a: Q = density H, for x > a. The continued fraction from its end, with derivatives carried along.
function fraction(a, x) {
  let h = 0, dh = 0; // the rest of the fraction: top / (b + ...)
  for (let n = 4000; n >= 1; n--) {
    const top = n * (a - n), b = x + 2 * n + 1 - a + h, db = -1 + dh;
    h = top / b;
    dh = n / b - top * db / (b * b);
  }
  const b = x + 1 - a + h, db = -1 + dh;
  return [1 / b, -db / (b * b)];
}

export function incompleteGamma(mode, a, x) {
  if (Number.isNaN(a) || Number.isNaN(x) || a < 0 || x < 0 || (a === 0 && x === 0)) return NaN;
  const [atZero, atEnd] = { lower: [0, 1], upper: [1, 0], derivative: [0, 0], sample: [0, Infinity] }[mode];
  if (x === Infinity) return atEnd;
  if (a === Infinity) return NaN;
  if (x === 0) return atZero;
  if (a === 0) return atEnd;
  const f = density(a, x), low = x <= 1 || x <= a;
  if (low) {
    const [s, ds] = series(a, x);
    const derivative = (s * (Math.log(x) - digamma(a + 1)) + ds) / a; // of P, over the density
    return { lower: f / a * s, upper: 1 - f / a * s, derivative: f * derivative, sample: -x * derivative }[mode];
  }
  const [h, dh] = fraction(a, x);
  const derivative = -(h * (Math.log(x) - digamma(a)) + dh);
  return { lower: 1 - f * h, upper: f * h, derivative: f * derivative, sample: -x * derivative }[mode];
}

export function incompleteBeta(a, b, x) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1)) return NaN;
  if (x === 0 || x === 1) return x;
  if (x >= (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, 1 - x);
  let f = 1; // DLMF 8.17.22, from its end
  for (let n = 600; n >= 1; n--) {
    const m = Math.floor(n / 2);
    const d = n % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)) : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    f = 1 + d / f;
  }
  return Math.exp(a * Math.log(x) + b * Math.log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b)) / a / f;
}
