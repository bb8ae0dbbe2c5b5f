// Matrices as lists of rows of complex numbers; building blocks of the factorizations of docs/_generated/ops/factorizations.md.
import { range } from '../arrays.mjs';
import * as C from './complex.mjs';

export const zeros = (m, n) => range(m).map(() => range(n).map(() => [0, 0]));
export const eye = n => range(n).map(i => range(n).map(j => [i === j ? 1 : 0, 0]));
export const adjoint = (a, n = a[0]?.length ?? 0) => range(n).map(j => a.map(row => C.conj(row[j])));
export const copy = a => a.map(row => [...row]);
export const column = (a, j, from = 0) => a.slice(from).map(row => row[j]);
export const product = (a, b) => a.map(row => range(b[0]?.length ?? 0).map(j => row.reduce((s, x, k) => C.add(s, C.mul(x, b[k][j])), [0, 0])));
export const norm = v => Math.hypot(...v.flat());
export const inner = (v, w) => v.reduce((s, x, i) => C.add(s, C.mul(C.conj(x), w[i])), [0, 0]);
export const scaledColumns = (a, w) => a.map(row => row.map((x, j) => C.mul(x, w[j])));
const isZero = z => z[0] === 0 && z[1] === 0;

// (beta, tau, v) of a vector.
export function reflector(x) {
  const v = x.map((_, i) => [i ? 0 : 1, 0]);
  if (x.slice(1).every(isZero) && x[0][1] === 0) return { beta: x[0], tau: [0, 0], v };
  const beta = [-(Object.is(x[0][0], -0) || x[0][0] < 0 ? -1 : 1) * norm(x), 0];
  const below = C.sub(x[0], beta);
  return { beta, tau: C.div(C.sub(beta, x[0]), beta), v: v.map((e, i) => (i ? C.div(x[i], below) : e)) };
}

// a[rows, columns] -= tau v (v^H a[rows, columns])
export function reflectLeft(a, tau, v, row, firstColumn) {
  for (let j = firstColumn; j < (a[0]?.length ?? 0); j++) {
    const s = C.mul(tau, inner(v, column(a, j, row).slice(0, v.length)));
    v.forEach((x, i) => { a[row + i][j] = C.sub(a[row + i][j], C.mul(x, s)); });
  }
}

// a[:, columns] -= tau (a[:, columns] v) v^H
export function reflectRight(a, tau, v, firstColumn) {
  for (const row of a) {
    const s = C.mul(tau, v.reduce((t, x, i) => C.add(t, C.mul(row[firstColumn + i], x)), [0, 0]));
    v.forEach((x, i) => { row[firstColumn + i] = C.sub(row[firstColumn + i], C.mul(s, C.conj(x))); });
  }
}

export function geqrf(x) {
  const a = copy(x), taus = [];
  for (const k of range(Math.min(a.length, a[0]?.length ?? 0))) {
    const { beta, tau, v } = reflector(column(a, k, k));
    v.forEach((e, i) => { a[k + i][k] = i ? e : beta; });
    reflectLeft(a, C.conj(tau), v, k, k + 1);
    taus.push(tau);
  }
  return { a, taus };
}

export function householderProduct(a, taus, n) {
  const m = a.length, q = range(m).map(i => range(n).map(j => [i === j ? 1 : 0, 0]));
  for (const k of range(taus.length).reverse()) {
    const v = range(m - k).map(i => (i ? a[k + i][k] : [1, 0]));
    reflectLeft(q, taus[k], v, k, 0);
  }
  return q;
}

export function qr(x, columns) {
  const { a, taus } = geqrf(x);
  const n = a[0]?.length ?? 0;
  const tails = a.map(row => range(Math.max(columns, taus.length)).map(j => (j < n ? row[j] : [0, 0])));
  return { q: householderProduct(tails, taus, columns),
           r: range(columns).map(i => range(n).map(j => (j >= i ? a[i][j] : [0, 0]))) };
}

export function lu(x) {
  const a = copy(x), m = a.length, n = a[0]?.length ?? 0, pivots = [], order = range(m);
  const size = z => Math.abs(z[0]) + Math.abs(z[1]);
  for (const k of range(Math.min(m, n))) {
    let p = k;
    for (let i = k; i < m; i++) if (size(a[i][k]) > size(a[p][k])) p = i;
    pivots.push(p);
    [a[k], a[p]] = [a[p], a[k]];
    [order[k], order[p]] = [order[p], order[k]];
    for (let i = k + 1; i < m; i++) {
      if (!isZero(a[k][k])) a[i][k] = C.div(a[i][k], a[k][k]);
      for (let j = k + 1; j < n; j++) a[i][j] = C.sub(a[i][j], C.mul(a[i][k], a[k][j]));
    }
  }
  return { a, pivots, order };
}

// y with t y = b, t triangular.
export function substitute(t, b, lower, unit) {
  const n = t.length, x = range(n).map(i => [...b[i] ?? []]); // b may be without columns
  for (const i of lower ? range(n) : range(n).reverse()) {
    x[i] = x[i].map((_, c) => {
      let s = x[i][c];
      for (const k of lower ? range(i) : range(n).slice(i + 1)) s = C.sub(s, C.mul(t[i][k], x[k][c]));
      return unit ? s : C.div(s, t[i][i]);
    });
  }
  return x;
}

export function solve(x, b) {
  const { a, order } = lu(x);
  return substitute(a, substitute(a, order.map(i => b[i]), true, true), false, false);
}

export function cholesky(x) {
  const n = x.length, l = zeros(n, n);
  for (const j of range(n)) {
    let d = x[j][j][0];
    for (const k of range(j)) d -= C.abs(l[j][k]) ** 2;
    if (!(d > 0)) return null;
    l[j][j] = [Math.sqrt(d), 0];
    for (const i of range(n).slice(j + 1)) {
      let s = x[i][j];
      for (const k of range(j)) s = C.sub(s, C.mul(l[i][k], C.conj(l[j][k])));
      l[i][j] = C.scale(1 / l[j][j][0], s);
    }
  }
  return l;
}

// Singular values descending, with vectors: columns of x are rotated pairwise until they are orthogonal (Jacobi).
export function svd(x) {
  const m = x.length, n = x[0]?.length ?? 0;
  if (m < n) {
    const { s, u, v } = svd(adjoint(x, n));
    return { s, u: v, v: u };
  }
  const a = copy(x), v = eye(n);
  for (let sweep = 0, off = 1; sweep < 60 && off > 1e-15; sweep++) {
    off = 0;
    for (const p of range(n)) for (const q of range(n).slice(p + 1)) {
      const cp = column(a, p), cq = column(a, q), g = inner(cp, cq), size = C.abs(g), alpha = norm(cp) ** 2, beta = norm(cq) ** 2;
      if (size === 0 || size <= 1e-17 * Math.sqrt(alpha * beta)) continue;
      off = Math.max(off, size / Math.sqrt(alpha * beta));
      const zeta = (beta - alpha) / (2 * size), t = (zeta >= 0 ? 1 : -1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
      const c = 1 / Math.sqrt(1 + t * t), s = c * t, phase = C.scale(1 / size, g);
      for (const y of [a, v]) for (const row of y) {
        const f = row[p], h = C.mul(row[q], C.conj(phase));
        row[p] = C.sub(C.scale(c, f), C.scale(s, h));
        row[q] = C.add(C.scale(s, f), C.scale(c, h));
      }
    }
  }
  const sizes = range(n).map(j => norm(column(a, j)));
  const order = range(n).sort((i, j) => sizes[j] - sizes[i]);
  const u = completed(order.map(j => (sizes[j] > 0 ? column(a, j).map(z => C.scale(1 / sizes[j], z)) : null)), m, n);
  return { s: order.map(j => sizes[j]), u, v: v.map(row => order.map(j => row[j])) };
}

// A matrix of orthonormal columns of length m, the given ones first; null means an unspecified one.
export function completed(columns, m, count) {
  const made = [...columns];
  while (made.length < count) made.push(null);
  const have = made.filter(c => c);
  made.forEach((c, k) => {
    if (c) return;
    let best = null;
    for (const e of range(m)) {
      let w = range(m).map(i => [i === e ? 1 : 0, 0]);
      for (let twice = 0; twice < 2; twice++) for (const h of have) {
        const s = inner(h, w);
        w = w.map((z, i) => C.sub(z, C.mul(h[i], s)));
      }
      if (!best || norm(w) > norm(best)) best = w;
    }
    made[k] = best.map(z => C.scale(1 / norm(best), z));
    have.push(made[k]);
  });
  return range(m).map(i => made.map(c => c[i]));
}

// Eigenvalues ascending and eigenvectors of a Hermitian matrix, by Jacobi's rotations.
export function eigh(x) {
  const n = x.length, a = copy(x), v = eye(n);
  for (let sweep = 0, off = 1; sweep < 60 && off > 0; sweep++) {
    off = 0;
    for (const p of range(n)) for (const q of range(n).slice(p + 1)) {
      const g = a[p][q], size = C.abs(g);
      if (size === 0 || size < 1e-18 * (Math.abs(a[p][p][0]) + Math.abs(a[q][q][0]))) continue;
      off = size;
      const zeta = (a[q][q][0] - a[p][p][0]) / (2 * size), t = (zeta >= 0 ? 1 : -1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
      const c = 1 / Math.sqrt(1 + t * t), s = c * t, phase = C.scale(1 / size, g);
      for (const y of [a, v]) for (const row of y) { // from the right
        const f = row[p], h = C.mul(row[q], C.conj(phase));
        row[p] = C.sub(C.scale(c, f), C.scale(s, h));
        row[q] = C.add(C.scale(s, f), C.scale(c, h));
      }
      const rp = [...a[p]], rq = a[q].map(z => C.mul(z, phase)); // from the left
      a[p] = rp.map((z, j) => C.sub(C.scale(c, z), C.scale(s, rq[j])));
      a[q] = rp.map((z, j) => C.add(C.scale(s, z), C.scale(c, rq[j])));
    }
  }
  const order = range(n).sort((i, j) => a[i][i][0] - a[j][j][0]);
  return { w: order.map(i => a[i][i][0]), v: v.map(row => order.map(j => row[j])) };
}

// x = q t q^H with t upper triangular, by shifted QR steps.
export function schur(x) {
  const n = x.length, t = copy(x), q = eye(n);
  for (let k = 0; k < n - 2; k++) { // to Hessenberg form
    const { tau, v } = reflector(column(t, k, k + 1));
    reflectLeft(t, C.conj(tau), v, k + 1, 0);
    reflectRight(t, tau, v, k + 1);
    reflectRight(q, tau, v, k + 1);
  }
  let high = n - 1;
  for (let step = 0; high > 0 && step < 300 * n; step++) {
    let low = high;
    while (low > 0 && C.abs(t[low][low - 1]) > 1e-16 * (C.abs(t[low][low]) + C.abs(t[low - 1][low - 1]))) low--;
    if (low > 0) t[low][low - 1] = [0, 0];
    if (low === high) {
      high--;
      continue;
    }
    const shift = step % 11 === 10 ? C.add(t[high][high], C.real(C.abs(t[high][high - 1]))) : wilkinson(t, high);
    for (let i = 0; i < n; i++) t[i][i] = C.sub(t[i][i], shift);
    const rotations = [];
    for (let k = low; k < high; k++) {
      const a = t[k][k], b = t[k + 1][k], r = Math.hypot(...a, ...b);
      const c = r ? C.scale(1 / r, a) : [1, 0], s = r ? C.scale(1 / r, b) : [0, 0];
      for (let j = k; j < n; j++) {
        const f = t[k][j], g = t[k + 1][j];
        t[k][j] = C.add(C.mul(C.conj(c), f), C.mul(C.conj(s), g));
        t[k + 1][j] = C.sub(C.mul(c, g), C.mul(s, f));
      }
      rotations.push([k, c, s]);
    }
    for (const [k, c, s] of rotations) for (const y of [t, q]) for (const [i, row] of y.entries()) {
      if (y === t && i > Math.min(k + 1, high)) continue;
      const f = row[k], g = row[k + 1];
      row[k] = C.add(C.mul(f, c), C.mul(g, s));
      row[k + 1] = C.sub(C.mul(g, C.conj(c)), C.mul(f, C.conj(s)));
    }
    for (let i = 0; i < n; i++) t[i][i] = C.add(t[i][i], shift);
  }
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) t[i][j] = [0, 0];
  return { t, q };
}

// The eigenvalue of the last block of two that is nearer to its last entry.
function wilkinson(t, k) {
  const [a, b, c, d] = [t[k - 1][k - 1], t[k - 1][k], t[k][k - 1], t[k][k]];
  const half = C.scale(0.5, C.sub(a, d)), root = C.sqrt(C.add(C.mul(half, half), C.mul(b, c)));
  const mean = C.scale(0.5, C.add(a, d)), [one, two] = [C.add(mean, root), C.sub(mean, root)];
  return C.abs(C.sub(one, d)) < C.abs(C.sub(two, d)) ? one : two;
}

// Eigenvalues, and eigenvectors of length one in columns.
export function eig(x) {
  const n = x.length, { t, q } = schur(x), size = Math.max(norm(t.flat()), 1e-300), columns = [];
  for (const k of range(n)) {
    const v = range(n).map(i => [i === k ? 1 : 0, 0]);
    for (let i = k - 1; i >= 0; i--) {
      let s = [0, 0];
      for (let j = i + 1; j <= k; j++) s = C.add(s, C.mul(t[i][j], v[j]));
      const gap = C.sub(t[k][k], t[i][i]);
      v[i] = C.div(s, C.abs(gap) > 1e-16 * size ? gap : [1e-16 * size, 0]);
    }
    const whole = product(q, v.map(z => [z])).map(([z]) => z);
    columns.push(whole.map(z => C.scale(1 / norm(whole), z)));
  }
  return { w: range(n).map(k => t[k][k]), v: range(n).map(i => columns.map(c => c[i])) };
}

// The real form: invariant subspaces of one or two dimensions are split off one after the other.
export function realSchur(x) {
  const n = x.length;
  let t = copy(x), q = eye(n);
  for (let k = 0; k < n;) {
    const sub = t.slice(k).map(row => row.slice(k)), { w, v } = eig(sub), size = norm(sub.flat());
    const at = range(w.length).reduce((a, b) => (Math.abs(w[b][1]) < Math.abs(w[a][1]) ? b : a));
    const vector = column(v, at), big = vector.reduce((a, b) => (C.abs(b) > C.abs(a) ? b : a));
    const even = vector.map(z => C.div(z, big)); // its largest entry is 1
    const pair = Math.abs(w[at][1]) > 1e-10 * size && w.length > 1;
    const space = even.map(z => (pair ? [C.real(z[0]), C.real(z[1])] : [C.real(z[0])]));
    const turn = eye(n), basis = qr(space, w.length).q;
    basis.forEach((row, i) => row.forEach((z, j) => { turn[k + i][k + j] = z; }));
    t = product(product(adjoint(turn), t), turn);
    q = product(q, turn);
    const step = pair ? 2 : 1;
    for (let i = k + step; i < n; i++) for (let j = k; j < k + step; j++) t[i][j] = [0, 0];
    k += step;
  }
  return { t: t.map(row => row.map(z => C.real(z[0]))), q: q.map(row => row.map(z => C.real(z[0]))) };
}
