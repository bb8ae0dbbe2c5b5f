// Matrix factorizations: docs/_generated/ops/factorizations.md. Each works on one matrix at a time, in complex numbers of double precision.
import { Arr, range, sameShape, sizeOf } from '../arrays.mjs';
import * as D from '../dtypes.mjs';
import { refuse } from '../errors.mjs';
import * as C from '../numbers/complex.mjs';
import * as L from '../numbers/linalg.mjs';
import { I32, needs, oneDtype, operands, type } from './shared.mjs';

export const ops = {};

const matrixDtype = d => ['f32', 'f64', 'c64', 'c128'].includes(d.name);

// (batch, rows, columns) of an operand of matrices.
function matrices(t, square = false) {
  needs(t, matrixDtype, 'f32, f64, c64 or c128');
  if (t.shape.length < 2) refuse('matrices must be in the last two axes');
  const [m, n] = t.shape.slice(-2);
  if (square && m !== n) refuse('square matrices');
  return { batch: t.shape.slice(0, -2), m, n };
}

const complexElement = x => (Array.isArray(x) ? x : [Number(x), 0]);

// The matrices (rank 2) or vectors (rank 1) of an array.
function parts(x, rank) {
  const inner = x.shape.slice(x.shape.length - rank), size = sizeOf(inner), count = sizeOf(x.shape.slice(0, x.shape.length - rank));
  return range(count).map(k => {
    const flat = x.data.slice(k * size, (k + 1) * size).map(complexElement);
    return rank === 1 ? flat : range(inner[0]).map(i => flat.slice(i * inner[1], (i + 1) * inner[1]));
  });
}

// An array of a type from the results for each matrix: nested lists of complex numbers; null gives NaN.
function gathered({ dtype, shape }, found) {
  const each = found.length ? sizeOf(shape) / found.length : 0;
  const data = found.flatMap(f => (f === null ? range(each).map(() => [NaN, 0]) : flat(f)));
  return new Arr(dtype, shape, data.map(z => (D.isInteger(dtype) ? BigInt(z[0]) : D.rounded(dtype, D.isComplex(dtype) ? z : z[0]))));
}
const flat = f => (f.length && Array.isArray(f[0]) && Array.isArray(f[0][0]) ? f.flat() : f.length && Array.isArray(f[0]) && !f[0].length ? [] : f);
const reals = list => list.map(C.real);

function define(name, ranks, params, infer, one) {
  ops[name] = {
    params,
    infer: (types, p) => {
      operands(types, ranks.length);
      return infer(types, p);
    },
    run: (xs, p) => {
      const each = xs.map((x, i) => parts(x, ranks[i]));
      const found = range(each[0].length).map(k => one(...each.map(e => e[k]), p, xs[0]));
      return infer(xs, p).map((t, i) => gathered(t, found.map(f => f[i])));
    },
  };
}

const real = t => D.partOf(t.dtype);
const triangle = (x, lower) => x.map((row, i) => row.map((z, j) => ((lower ? j <= i : j >= i) ? z : [0, 0])));
// The Hermitian matrix of one triangle.
const hermitian = (x, lower) => x.map((row, i) => row.map((z, j) => (
  i === j ? C.real(z[0]) : (lower ? j < i : j > i) ? z : C.conj(x[j][i]))));

define('cholesky', [2], {}, ([x]) => {
  matrices(x, true);
  return [x];
}, x => [L.cholesky(hermitian(x, true)) ?? x.map((row, i) => row.map((_, j) => [j <= i ? NaN : 0, 0]))]);

define('lu', [2], {}, ([x]) => {
  const { batch, m, n } = matrices(x);
  return [x, type(I32, [...batch, Math.min(m, n)]), type(I32, [...batch, m])];
}, x => {
  const { a, pivots, order } = L.lu(x);
  return [a, reals(pivots), reals(order)];
});

define('lu_pivots_to_permutation', [1], { permutation_size: 'int' }, ([x], { permutation_size: size }) => {
  needs(x, D.isInteger, 'integers');
  if (!x.shape.length || size < x.shape[x.shape.length - 1]) refuse('permutation_size is too small');
  return [type(I32, [...x.shape.slice(0, -1), size])];
}, (pivots, { permutation_size: size }) => {
  const order = range(size);
  pivots.forEach(([p], k) => { [order[k], order[p]] = [order[p], order[k]]; });
  return [reals(order)];
});

define('solve', [2, 2], {}, ([a, b]) => {
  const { batch, n } = matrices(a, true), { batch: other, m } = matrices(b);
  oneDtype([a, b]);
  if (!sameShape(batch, other) || n !== m) refuse('a [..., n, n] and b [..., n, k]');
  return [b];
}, (a, b) => [L.solve(a, b)]);

define('slogdet', [2], {}, ([x]) => {
  const { batch } = matrices(x, true);
  return [type(x.dtype, batch), type(real(x), batch)];
}, x => {
  const { a, pivots } = L.lu(x), moved = pivots.filter((p, k) => p !== k).length;
  let sign = [moved % 2 ? -1 : 1, 0], size = 0;
  a.forEach((row, i) => {
    const r = C.abs(row[i]);
    sign = r === 0 ? [0, 0] : C.mul(sign, C.scale(1 / r, row[i]));
    size += Math.log(r);
  });
  return [[sign], [C.real(size)]];
});

define('geqrf', [2], {}, ([x]) => {
  const { batch, m, n } = matrices(x);
  return [x, type(x.dtype, [...batch, Math.min(m, n)])];
}, x => {
  const { a, taus } = L.geqrf(x);
  return [a, taus];
});

define('householder_product', [2, 1], {}, ([a, taus]) => {
  const { batch, m, n } = matrices(a);
  oneDtype([a, taus]);
  if (m < n || taus.shape[taus.shape.length - 1] > n || !sameShape(batch, taus.shape.slice(0, -1))) refuse('a [..., m, n], m >= n, and taus [..., k], k <= n');
  return [a];
}, (a, taus, p, whole) => [L.householderProduct(a, taus, whole.shape[whole.shape.length - 1])]);

define('qr', [2], { full_matrices: 'bool', pivoting: 'bool' }, ([x], { full_matrices: full, pivoting }) => {
  const { batch, m, n } = matrices(x), k = full ? m : Math.min(m, n);
  return [type(x.dtype, [...batch, m, k]), type(x.dtype, [...batch, k, n]), ...(pivoting ? [type(I32, [...batch, n])] : [])];
}, (x, { full_matrices: full, pivoting }, whole) => {
  const [m, n] = whole.shape.slice(-2), k = full ? m : Math.min(m, n), order = range(n);
  if (pivoting) {
    const left = L.copy(x);
    for (const i of range(Math.min(m, n))) {
      let p = i;
      for (const j of range(n).slice(i)) if (L.norm(L.column(left, j, i)) > L.norm(L.column(left, p, i)) * (1 + 1e-15)) p = j;
      for (const row of left) [row[i], row[p]] = [row[p], row[i]];
      [order[i], order[p]] = [order[p], order[i]];
      const { tau, v } = L.reflector(L.column(left, i, i));
      L.reflectLeft(left, C.conj(tau), v, i, i);
    }
  }
  const { q, r } = L.qr(x.map(row => order.map(j => row[j])), k);
  return [q, r, reals(order)];
});

define('eigh', [2], { lower: 'bool' }, ([x]) => {
  const { batch, n } = matrices(x, true);
  return [x, type(real(x), [...batch, n])];
}, (x, { lower }) => {
  const { w, v } = L.eigh(hermitian(x, lower));
  return [v, reals(w)];
});

define('eig', [2], { compute_left_eigenvectors: 'bool', compute_right_eigenvectors: 'bool' }, ([x], p) => {
  const { batch, n } = matrices(x, true), d = D.complexOf(x.dtype);
  const count = p.compute_left_eigenvectors + p.compute_right_eigenvectors;
  return [type(d, [...batch, n]), ...range(count).map(() => type(d, [...batch, n, n]))];
}, (x, p) => {
  const { w, v } = L.eig(x), made = [w];
  if (p.compute_left_eigenvectors) {
    const u = L.adjoint(L.solve(v, L.eye(x.length)), x.length), sizes = range(x.length).map(j => L.norm(L.column(u, j)));
    made.push(u.map(row => row.map((z, j) => C.scale(1 / sizes[j], z))));
  }
  return p.compute_right_eigenvectors ? [...made, v] : made;
});

define('svd', [2], { compute_uv: 'bool', full_matrices: 'bool' }, ([x], { compute_uv: uv, full_matrices: full }) => {
  const { batch, m, n } = matrices(x), k = Math.min(m, n), s = type(real(x), [...batch, k]);
  return uv ? [s, type(x.dtype, [...batch, m, full ? m : k]), type(x.dtype, [...batch, full ? n : k, n])] : [s];
}, (x, { full_matrices: full }, whole) => {
  const [m, n] = whole.shape.slice(-2), { s, u, v } = L.svd(x);
  const columns = a => range(a[0]?.length ?? 0).map(j => L.column(a, j)).slice(0, s.length);
  const wide = L.completed(columns(u), m, full ? m : s.length), right = L.completed(columns(v), n, full ? n : s.length);
  return [reals(s), wide, L.adjoint(right, full ? n : s.length)];
});

define('triangular_solve', [2, 2], { conjugate_a: 'bool', left_side: 'bool', lower: 'bool', transpose_a: 'bool', unit_diagonal: 'bool' }, ([a, b], p) => {
  const { batch, n } = matrices(a, true), { batch: other, m: rows, n: columns } = matrices(b);
  oneDtype([a, b]);
  if (!sameShape(batch, other) || n !== (p.left_side ? rows : columns)) refuse('a [..., n, n] and b [..., n, k], or [..., k, n]');
  return [b];
}, (a, b, p) => {
  const n = a.length, flip = x => (x.length ? x[0].map((_, j) => x.map(row => row[j])) : x);
  let t = triangle(a, p.lower), { lower } = p;
  if (p.conjugate_a) t = t.map(row => row.map(C.conj));
  if (p.transpose_a === p.left_side) { // op(a) y = b, or a^T y^T = b^T
    t = flip(t);
    lower = !lower;
  }
  const found = L.substitute(t, p.left_side ? b : flip(b), lower, p.unit_diagonal);
  return [n === 0 ? b : p.left_side ? found : flip(found)];
});

define('tridiagonal_solve', [1, 1, 1, 2], {}, ([dl, d, du, b]) => {
  const { batch, m } = matrices(b);
  oneDtype([dl, d, du, b]);
  for (const x of [dl, d, du]) if (!sameShape(x.shape, [...batch, m])) refuse('dl, d, du [..., n] and b [..., n, k]');
  return [b];
}, (dl, d, du, b) => [L.solve(d.map((_, i) => d.map((_x, j) => (i === j ? d[i] : j === i - 1 ? dl[i] : j === i + 1 ? du[i] : [0, 0]))), b)]);

define('hessenberg', [2], {}, ([x]) => {
  const { batch, n } = matrices(x, true);
  return [x, type(x.dtype, [...batch, Math.max(n - 1, 0)])];
}, x => {
  const a = L.copy(x), taus = [];
  for (const k of range(Math.max(a.length - 1, 0))) {
    const { beta, tau, v } = L.reflector(L.column(a, k, k + 1));
    v.forEach((e, i) => { a[k + 1 + i][k] = i ? e : beta; });
    taus.push(tau);
    L.reflectRight(a, tau, v, k + 1);
    L.reflectLeft(a, C.conj(tau), v, k + 1, k + 1);
  }
  return [a, taus];
});

define('tridiagonal', [2], { lower: 'bool' }, ([x]) => {
  const { batch, n } = matrices(x, true), k = Math.max(n - 1, 0);
  return [x, type(real(x), [...batch, n]), type(real(x), [...batch, k]), type(x.dtype, [...batch, k])];
}, (x, { lower }) => {
  const n = x.length, out = L.copy(x), off = [], taus = [];
  let a = hermitian(x, lower);
  for (const k of range(Math.max(n - 1, 0))) {
    const c = n - 1 - k, rest = lower ? range(n).slice(k + 1) : range(c).reverse(), at = lower ? k : c - 1, col = lower ? k : c;
    const { beta, tau, v } = L.reflector(rest.map(i => a[i][col]));
    const h = L.eye(n);
    rest.forEach((i, p) => rest.forEach((j, q) => { h[i][j] = C.sub(h[i][j], C.mul(tau, C.mul(v[p], C.conj(v[q])))); }));
    a = L.product(L.product(L.adjoint(h), a), h);
    off[at] = C.real(beta[0]);
    taus[at] = tau;
    rest.forEach((i, p) => { out[i][col] = p ? v[p] : beta; });
  }
  const diagonal = a.map((row, i) => C.real(row[i][0]));
  diagonal.forEach((z, i) => { out[i][i] = z; });
  return [out, diagonal, off, taus];
});

define('schur', [2], { compute_schur_vectors: 'bool' }, ([x], { compute_schur_vectors: vectors }) => {
  matrices(x, true);
  return vectors ? [x, x] : [x];
}, (x, p, whole) => {
  const { t, q } = D.isComplex(whole.dtype) ? L.schur(x) : L.realSchur(x);
  return [t, q];
});

