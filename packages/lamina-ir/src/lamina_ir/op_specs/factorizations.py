"""Specs of the matrix factorizations."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Matrices are the last two axes, vectors the last one; the axes before them are batch axes. Dtypes are f32, f64, c64, c128.
`^H` is the conjugate transpose. If a matrix has no result (not positive definite, no convergence), the result is NaN.

A reflector maps a vector x to beta e_1: if x[1:] is 0 and x[0] is real, beta = x[0], tau = 0, v = e_1. Else beta =
-sign(Re x[0]) |x| (the sign of +0 is +), tau = (beta - x[0]) / beta, v = (1, x[1:] / (x[0] - beta)), and H = I - tau v v^H,
H^H x = beta e_1.

**Uniqueness.** Signs and phases of eigenvectors and singular vectors are free, and so are the bases of the spaces of equal
values. Two implementations are compared by quantities that do not depend on these choices:

- `eigh`: the eigenvalues, and V diag(1, 2, 3, ...) V^H.
- `eig`: the sums of the eigenvalues and of their squares, and V diag(w) V^H for each matrix of vectors.
- `svd`: the singular values s; with k of them, c = (1, 2, ..., k, k + 1, k + 1, ...): U diag(c) U^H, U[:, :k] diag(1, ..., k)
  Vh[:k, :] and Vh^H diag(c) Vh.
- `qr`: if Q has more columns than the matrix, its first n columns, Q Q^H, and R.
- `schur`: the traces of T and T T, the entries below its diagonal (real T: below the first subdiagonal), Q T Q^H and Q Q^H.
"""

SPECS = [
    op("cholesky", "x", "like x",
       """The lower triangular L, with a real positive diagonal, with x = L L^H. Only the lower triangle of x and the real
       part of its diagonal are read. L is 0 above the diagonal."""),
    op("eig", "x", "complex w [..., n], then for each of the two flags a complex [..., n, n]",
       "The eigenvalues; then vectors of norm one in columns: u^H x = w u^H (left), x v = w v (right).",
       compute_left_eigenvectors="whether the left ones are returned",
       compute_right_eigenvectors="whether the right ones are returned, after the left ones"),
    op("eigh", "x", "v like x; real w [..., n]",
       "Of the Hermitian matrix given by one triangle of x: eigenvectors of norm one in columns; eigenvalues, ascending."),
    op("geqrf", "x", "like x [..., m, n]; taus [..., min(m, n)]",
       """For k = 0, 1, ...: the reflector (beta, tau, v) of x[k:, k]; x[k, k] = beta, x[k+1:, k] = v[1:], taus[k] = tau,
       and from the columns to the right, x[k:, k+1:], conj(tau) v (v^H x[k:, k+1:]) is subtracted."""),
    op("hessenberg", "x", "like x [..., n, n]; taus [..., n - 1]",
       """For k = 0, 1, ..., n - 2: the reflector (beta, tau, v) of x[k+1:, k]; x[k+1, k] = beta, x[k+2:, k] = v[1:],
       taus[k] = tau; then x[:, k+1:] -= tau (x[:, k+1:] v) v^H; then x[k+1:, k+1:] -= conj(tau) v (v^H x[k+1:, k+1:])."""),
    op("householder_product", "a taus", "like a [..., m, n]",
       """The first n columns of H_0 H_1 ... H_(k-1), where v of H_j is 0 above row j, 1 in row j, and a[j+1:, j] below,
       and tau is taus[..., j]."""),
    op("lu", "x", "like x [..., m, n]; pivots i32 [..., min(m, n)]; permutation i32 [..., m]",
       """Elimination with row exchanges: for k = 0, 1, ... the pivot is the row p >= k with the largest |Re| + |Im| of
       x[p, k], the first of equals; rows k and p are exchanged; then x[k+1:, k] /= x[k, k], if that is not 0, and x[k+1:,
       k+1:] -= x[k+1:, k] x[k, k+1:]. The results are x after these steps, the p, and the row numbers in their new order."""),
    op("lu_pivots_to_permutation", "pivots", "i32 [..., permutation_size]",
       "Of integers: 0, 1, 2, ..., in which entries k and pivots[k] are exchanged for k = 0, 1, ...",
       permutation_size="the length of the result"),
    op("qr", "x", "q [..., m, k], r [..., k, n], k = min(m, n) or m; with pivoting a permutation i32 [..., n]",
       """x = q r, or x[:, permutation] = q r: r is the upper triangle of the result of `geqrf`, q the product of its
       reflectors (`householder_product`, with zeros in further columns). With pivoting, for k = 0, 1, ...: before reflector
       k is applied, column k is exchanged with the column from k on that has the largest norm of rows k and below, the first
       of equals.""", full_matrices="whether k is m, else min(m, n)", pivoting="whether columns are exchanged"),
    op("schur", "x", "t like x; q like x, if requested",
       """x = q t q^H, q unitary, t upper triangular; for real x both are real, and t has 2 by 2 blocks on the diagonal for
       pairs of complex eigenvalues.""", compute_schur_vectors="whether q is returned"),
    op("slogdet", "x", "sign [...]; real logarithm [...]",
       """The determinant divided by its absolute value, and the logarithm of its absolute value; 0 and -inf if the
       determinant is 0."""),
    op("solve", "a b", "like b [..., n, k]", "y with a y = b. If a is singular, the elements of y are infinite or NaN."),
    op("svd", "x", "real s [..., k], k = min(m, n); then u and vh, if requested",
       """x = u diag(s) vh: singular values descending; u [..., m, k] has orthonormal columns, vh [..., k, n] orthonormal
       rows. full_matrices: u [..., m, m] and vh [..., n, n], unitary.""", compute_uv="whether u and vh are returned",
       full_matrices="whether they are square"),
    op("triangular_solve", "a b", "like b",
       "y with op(a) y = b, or y op(a) = b; op is the transpose, the conjugate, both or neither.",
       left_side="whether op(a) is on the left", transpose_a="whether the transpose of a is used",
       unit_diagonal="whether the diagonal is assumed to be 1; then it is not read",
       lower="whether a is lower triangular, else upper; the other triangle is not read"),
    op("tridiagonal", "x", "like x [..., n, n]; real d [..., n]; real e [..., n - 1]; taus [..., n - 1]",
       """T = Q^H x Q, for the Hermitian matrix given by one triangle of x and the real part of its diagonal. lower: for k = 0,
       1, ..., n - 2 the reflector (beta, tau, v) of x[k+1:, k]; H = I - tau v v^H; x[k+1:, k+1:] = H^H x[k+1:, k+1:] H;
       e[k] = Re beta, taus[k] = tau; the first result has (beta, v[1:]) in column k below its diagonal. Else from the other
       end: for k = 0, 1, ..., n - 2 with c = n - 1 - k, the rows c - 1, c - 2, ..., 0 in this order of column c: e[c - 1] =
       Re beta, taus[c - 1] = tau, and the first result has (beta, v[1:]) in these rows of column c. d is the diagonal of the
       resulting matrix, and that of the first result, whose other triangle is that of x."""),
    op("tridiagonal_solve", "dl d du b", "like b [..., n, k]",
       "y with T y = b; T has d on its diagonal, T[i, i-1] = dl[i] and T[i, i+1] = du[i]; dl[0] and du[n-1] are not read."),
]
