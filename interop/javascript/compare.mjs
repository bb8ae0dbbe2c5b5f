// Comparison of results: docs/reference/op-conventions.md defines the tolerances, docs/_generated/ops/factorizations.md the part of a result
// that is determined.
import { range, sameShape } from './arrays.mjs';
import * as D from './dtypes.mjs';
import * as C from './numbers/complex.mjs';
import * as L from './numbers/linalg.mjs';

const TOLERANCE = { f64: 1e-11, c128: 1e-11, f32: 2e-5, c64: 4e-5, f16: 2e-3, bf16: 2e-2 };
export const tolerance = d => (D.isInexact(d) ? TOLERANCE[d.name] ?? 0.13 : 0);

function near(x, y, tol) {
  if (Array.isArray(x)) {
    if (tol === 0) return x.every((v, i) => v === y[i]);
    if ([...x, ...y].every(Number.isFinite)) return Math.hypot(x[0] - y[0], x[1] - y[1]) <= tol + tol * Math.hypot(...y);
    return x.every((v, i) => near(v, y[i], tol));
  }
  if (x === y || (Number.isNaN(x) && Number.isNaN(y))) return true;
  return typeof x === 'number' && Math.abs(x - y) <= tol + tol * Math.abs(y) && Number.isFinite(y);
}

// A description of the first difference, or null.
export function difference(got, expected) {
  if (got.dtype !== expected.dtype || !sameShape(got.shape, expected.shape)) return `${got.type} for ${expected.type}`;
  const at = got.data.findIndex((x, i) => !near(x, expected.data[i], tolerance(got.dtype)));
  return at < 0 ? null : `element ${at}: ${String(got.data[at])} for ${String(expected.data[at])}`;
}

// --- determined parts of results ------------------------------------------------------------------------------------
function each(x, rank, f) {
  const inner = x.shape.slice(x.shape.length - rank), size = inner.reduce((n, m) => n * m, 1);
  const count = x.shape.slice(0, x.shape.length - rank).reduce((n, m) => n * m, 1);
  return range(count).map(k => {
    const flat = x.data.slice(k * size, (k + 1) * size).map(z => (Array.isArray(z) ? z : [z, 0]));
    return f(rank === 1 ? flat : range(inner[0]).map(i => flat.slice(i * inner[1], (i + 1) * inner[1])), k);
  });
}

const weighted = (v, w) => L.product(L.scaledColumns(v, w.map(C.real)), L.adjoint(v));
const counted = (n, k = n) => range(n).map(j => Math.min(j, k) + 1);
const matrix = (x, f) => each(x, 2, f).flat(Infinity);
const flat = x => x.data.flat(Infinity);

const DETERMINED = {
  eigh: ([v, w]) => [flat(w), matrix(v, a => weighted(a, counted(a.length)))],
  eig: ([w, ...vectors]) => {
    const values = each(w, 1, row => row);
    const sums = values.map(row => row.reduce(C.add, [0, 0])), squares = values.map(row => row.map(z => C.mul(z, z)).reduce(C.add, [0, 0]));
    return [sums.flat(), squares.flat(), ...vectors.map(v => matrix(v, (a, k) => L.product(L.scaledColumns(a, values[k]), L.adjoint(a))))];
  },
  svd: ([s, u, vh]) => {
    if (!u) return [flat(s)];
    const k = s.shape[s.shape.length - 1], rows = each(vh, 2, a => a);
    const head = (a, i) => L.product(L.scaledColumns(a.map(row => row.slice(0, k)), counted(k).map(C.real)), rows[i].slice(0, k));
    return [flat(s), matrix(u, a => weighted(a, counted(a[0]?.length ?? 0, k))), matrix(u, head),
            matrix(vh, a => weighted(L.adjoint(a), counted(a.length, k)))];
  },
  qr: ([q, r, ...order]) => {
    const n = r.shape[r.shape.length - 1], wide = q.shape[q.shape.length - 1] > n;
    if (!wide) return [flat(q), flat(r), ...order.map(flat)];
    return [matrix(q, a => a.map(row => row.slice(0, n))), matrix(q, a => L.product(a, L.adjoint(a))), flat(r), ...order.map(flat)];
  },
  schur: ([t, q]) => {
    const matrices = each(t, 2, a => a), depth = D.isComplex(t.dtype) ? 1 : 2;
    const trace = a => a.reduce((sum, row, i) => C.add(sum, row[i]), [0, 0]);
    const found = [matrices.map(trace).flat(), matrices.map(a => trace(L.product(a, a))).flat(),
                   matrices.map(a => a.map((row, i) => row.filter((_, j) => j <= i - depth))).flat(Infinity)];
    if (!q) return found;
    return [...found, matrix(q, (a, k) => L.product(L.product(a, matrices[k]), L.adjoint(a))), matrix(q, a => L.product(a, L.adjoint(a)))];
  },
};

export function typesDifference(got, expected) {
  const found = got.map((x, i) => (x.dtype === expected[i].dtype && sameShape(x.shape, expected[i].shape) ? null : `${x.type} for ${expected[i].type}`));
  return found.find(t => t) ?? null;
}

// A description of the first difference in all results of a primitive, or null.
export function differenceOf(op, got, expected) {
  const types = typesDifference(got, expected);
  if (types) return types;
  const fun = DETERMINED[op];
  if (!fun) return got.map((x, i) => difference(x, expected[i])).find(d => d) ?? null;
  const tol = Math.max(...got.map(x => tolerance(x.dtype))), [mine, theirs] = [fun(got), fun(expected)];
  for (const [i, list] of mine.entries()) {
    const at = list.findIndex((x, k) => !near(x, theirs[i][k], tol));
    if (at >= 0) return `determined part ${i}, ${at}: ${list[at]} for ${theirs[i][at]}`;
  }
  return null;
}
