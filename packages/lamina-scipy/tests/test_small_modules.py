"""`fft`, `ndimage`, `interpolate`, `cluster`, `integrate`, `optimize`, `sparse.linalg`: by definitions and SciPy's numbers."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import DTypeError, LaminaError, ShapeError
from lamina_scipy import cluster, fft, integrate, interpolate, ndimage, optimize, sparse
from lamina_tracing import jit

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)
solvers = sparse.linalg


def close(got, wanted, atol=1e-10):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-9)


def cosines(kind, n, ortho):
    """The matrix of a transform, from its definition."""
    k, j = np.arange(n)[:, None], np.arange(n)
    if kind == 1:
        m = 2 * np.cos(np.pi * k * j / (n - 1))
        m[:, [0, -1]] /= 2
        scale, ends = 2 * (n - 1), [0, -1]
    else:
        angle = {2: k * (2 * j + 1) * 2, 3: (2 * k + 1) * j * 2, 4: (2 * k + 1) * (2 * j + 1)}[kind]
        m = 2 * np.cos(np.pi * angle / (4 * n))
        if kind == 3:
            m[:, 0] /= 2
        scale, ends = 2 * n, [0] if kind != 4 else []
    if ortho:
        m /= np.sqrt(scale)
        if kind in (1, 2):
            m[ends] *= 0.5 ** 0.5
        if kind in (1, 3):
            m[:, ends] *= 2 ** 0.5
    return m, scale


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [5, 6])
def test_cosine_transforms(kind, n):
    x = RNG.normal(size=(3, n))
    m, scale = cosines(kind, n, False)
    close(fft.dct(x, kind), x @ m.T)
    close(fft.dct(x, kind, norm="forward"), x @ m.T / scale)
    close(fft.idct(x, kind), x @ np.linalg.inv(m).T)
    close(fft.idct(x, kind, norm="forward"), x @ np.linalg.inv(m).T * scale)
    m, _ = cosines(kind, n, True)
    close(m @ m.T, np.eye(n))
    close(fft.dct(x, kind, norm="ortho"), x @ m.T)
    close(fft.idct(x.T, kind, axis=0, norm="ortho"), m.T @ x.T)
    close(fft.dct(x + 2j * x, kind, norm="ortho"), (x + 2j * x) @ m.T)
    close(fft.dct(x, kind, n + 2), fft.dct(np.pad(x, [(0, 0), (0, 2)]), kind))
    close(fft.dct(x, kind, n - 1), fft.dct(x[:, :-1], kind))
    check_grads(lambda x: fft.dct(x, kind), (x[0],), 1)


def test_cosine_transforms_along_several_axes():
    x = RNG.normal(size=(4, 3, 5))
    close(fft.dctn(x), fft.dct(fft.dct(fft.dct(x, axis=0), axis=1), axis=2))
    close(fft.idctn(fft.dctn(x, axes=[0, 2], norm="ortho"), axes=(0, 2), norm="ortho"), x)
    assert fft.dctn(x, s=[2, 6]).shape == (4, 2, 6) and fft.dct(np.float32(x)).dtype == np.float32
    close(vmap(fft.dct)(x), fft.dct(x))


def test_map_coordinates():
    x, c = np.array([1.0, 2, 4, 8]), np.array([-2.3, -1, -0.5, 0, 0.5, 1.5, 2.5, 3, 3.2, 3.5, 4, 4.6])
    wanted = {  # SciPy 1.13; "constant" and "wrap" are its "grid-constant" and "grid-wrap"
        "constant": [-1, -1, 0, 1, 1.5, 3, 6, 8, 6.2, 3.5, -1, -1], "nearest": [1, 1, 1, 1, 1.5, 3, 6, 8, 8, 8, 8, 8],
        "wrap": [3.4, 8, 4.5, 1, 1.5, 3, 6, 8, 6.6, 4.5, 1, 1.6], "mirror": [5.2, 2, 1.5, 1, 1.5, 3, 6, 8, 7.2, 6, 4, 2.8],
        "reflect": [2.6, 1, 1, 1, 1.5, 3, 6, 8, 8, 8, 8, 5.6]}
    for mode, numbers in wanted.items():
        close(ndimage.map_coordinates(x, [c], 1, mode, -1), numbers)
    close(ndimage.map_coordinates(x, [c], 0, "nearest"), [1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8, 8])
    close(ndimage.map_coordinates(x, [c], 0, "reflect"), [2, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8, 4])
    middle = np.float32([0.5, 1.5, 2.5, -0.5])
    close(ndimage.map_coordinates(np.float32([1, 2, 4, 8]), [middle], 0, "wrap"), [2, 4, 8, 8])  # halves: away from 0
    assert ndimage.map_coordinates(np.array([0, 3, -4, 7]), [middle], 1, "nearest").tolist() == [2, -1, 2, 0]
    assert ndimage.map_coordinates(np.arange(4), [c], 1).tolist() == [0, 0, 0, 0, 1, 2, 3, 3, 2, 2, 0, 0]
    assert ndimage.map_coordinates(x[:1], [c], 1, "mirror").tolist() == [1.0] * 12
    image, places = RNG.normal(size=(4, 5)), [RNG.uniform(0, 3, 6), RNG.uniform(0, 4, 6)]
    check_grads(lambda x, a, b: ndimage.map_coordinates(x, [a, b], 1, "nearest"), (image, *places), 1)


def test_grids():
    points, values = (np.array([0.0, 1, 3]), np.array([0.0, 2, 3, 4])), RNG.normal(size=(3, 4, 2))
    f = interpolate.RegularGridInterpolator(points, values)
    close(f(np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])), values[[1, 2, 0], [1, 3, 0]])
    close(f(np.array([2.0, 1.0])), values[1:, :2].mean((0, 1)))
    close(f((np.array([0.5, 1.0]), 2.0)), np.stack([values[:2, 1].mean(0), values[1, 1]]))
    assert np.isnan(f(np.array([[3.5, 1.0], [1.0, np.nan]]))).all()
    near = interpolate.RegularGridInterpolator(points, values, "nearest", fill_value=None)
    close(near(np.array([[0.5, 1.1], [0.6, 0.9], [9.0, -1.0]])), values[[0, 1, 2], [1, 0, 0]])
    line = interpolate.RegularGridInterpolator([np.arange(3.0)], 2 * np.arange(3.0), fill_value=None)
    close(line(np.array([[-1.0], [5.0]])), [-2.0, 10.0])
    close(jit(lambda v, x: interpolate.RegularGridInterpolator(points, v)(x))(values, np.ones((3, 2))), f(np.ones((3, 2))))
    check_grads(lambda v, x: interpolate.RegularGridInterpolator(points, v)(x), (values, np.array([[0.3, 2.2]])), 1)


def test_nearest_points_and_areas():
    x, book = RNG.normal(size=(7, 3)), RNG.normal(size=(4, 3))
    code, far = cluster.vq.vq(x, book)
    table = np.linalg.norm(x[:, None] - book, axis=-1)
    assert code.dtype == np.int32 and code.tolist() == table.argmin(1).tolist()
    close(far, table.min(1))
    close(grad(lambda x: cluster.vq.vq(x, x)[1].sum())(x), np.zeros_like(x))
    close(cluster.vq.vq(x[:, 0], book[:, 0])[1], np.abs(x[:, :1] - book[:, 0]).min(1))
    close(integrate.trapezoid(np.array([1.0, 2, 4]), dx=0.5), 2.25)


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_minima():
    found = optimize.minimize(rosenbrock, np.array([1.3, 0.7, 0.8, 1.9]), method="BFGS")
    assert found.success and found.status == 0 and found.nit < 80 and found.nfev < 150
    close(found.x, np.ones(4), atol=1e-5)
    assert float(abs(found.jac).max()) <= 1e-5 and found.hess_inv.shape == (4, 4)
    few = optimize.minimize(rosenbrock, np.array([-1.2, 1.0]), method="bfgs", options={"maxiter": 3})
    assert not few.success and few.status == 1 and few.nit == 3
    bowl = optimize.minimize(lambda x, a: ((x - a) ** 2 + (x - a) ** 4).sum(), np.zeros(2), (np.array([1.0, 3.0]),),
                             method="BFGS", tol=1e-9)
    close(bowl.x, [1.0, 3.0], atol=1e-8)
    down = optimize.minimize(lambda x: -x.sum(), np.zeros(2), method="BFGS", options={"maxiter": 20})
    assert not down.success
    bad = optimize.minimize(lambda x: lnp.log(x).sum(), -np.ones(2), method="BFGS")
    assert not bad.success and bad.status == 3
    bounded = optimize.minimize(lambda x: (x - lnp.log(x)).sum(), np.array([30.0]), method="BFGS")
    assert bounded.success, "NaN outside the domain is no descent"
    starts = np.array([[-1.2, 1.0], [0.0, 0.5]])
    close(vmap(lambda x: optimize.minimize(rosenbrock, x, method="BFGS").x)(starts), np.ones((2, 2)), atol=1e-5)
    close(jit(lambda x: optimize.minimize(rosenbrock, x, method="BFGS").x)(starts[0]), np.ones(2), atol=1e-5)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
@pytest.mark.parametrize("kind", ["float", "complex"])
def test_iterations(name, kind):
    solve = getattr(solvers, name)
    a = RNG.normal(size=(6, 6)) + (1j * RNG.normal(size=(6, 6)) if kind == "complex" else 0)
    a = a @ a.conj().T + 3 * np.eye(6) if name == "cg" else a + 6 * np.eye(6)
    b = a @ np.arange(1, 7) + (2j if kind == "complex" else 0)
    x, info = solve(a, b, tol=1e-12)
    close(x, np.linalg.solve(a, b))
    assert int(info) == 0
    tree = {"p": b[:2], "q": b[2:].reshape(2, 2)}

    def apply(t):
        v = lnp.matmul(a, lnp.concatenate([t["p"], t["q"].ravel()]))
        return {"p": v[:2], "q": v[2:].reshape(2, 2)}

    x, _ = solve(apply, tree, tol=1e-12, x0=tree)
    close(x["q"], np.linalg.solve(a, b)[2:].reshape(2, 2))
    near = np.diag(1 / np.diag(a))
    close(solve(a, b, tol=1e-12, M=near)[0], np.linalg.solve(a, b))
    close(solve(a, 0 * b)[0], 0 * b)
    assert int(solve(a, b, tol=1e-12, maxiter=1, **({"restart": 2} if name == "gmres" else {}))[1]) == 1
    if kind == "float":
        def f(a, b):
            return solve((a + a.T) / 2 if name == "cg" else a, b, tol=1e-13, M=near if name != "cg" else None)[0]
        check_grads(f, (a, b), 1)
        check_grads(lambda s: solve(lambda x: s * lnp.matmul(a, x), b, tol=1e-13)[0], (1.5,), 2)
        many = np.stack([b, b[::-1]])
        close(vmap(lambda b: solve(a, b, tol=1e-12)[0])(many), np.linalg.solve(a, many.T).T)
        close(jit(lambda b: solve(a, b, tol=1e-12)[0])(b), np.linalg.solve(a, b))


def test_iterations_that_do_not_end():
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    x, info = solvers.gmres(turn, np.array([1.0, 0.0]), restart=1)
    assert int(info) > 0 and np.isfinite(x).all()
    x, info = solvers.gmres(turn, np.array([1.0, 0.0]))
    close(x, [0.0, 1.0])
    singular = np.diag([1.0, 0.0])
    for name in ("bicgstab", "gmres"):
        assert int(getattr(solvers, name)(singular, np.ones(2))[1]) > 0


@pytest.mark.parametrize("call, error, words", [
    (lambda: fft.dct(np.ones(3), 5), ValueError, "type must be.*5"),
    (lambda: fft.dct(np.ones(3), norm="x"), ValueError, "norm must be.*'x'"),
    (lambda: fft.dct(np.ones(1), 1), ShapeError, "needs 2 elements"),
    (lambda: fft.dct(np.ones(3), n=0), ShapeError, "n must be a positive integer; got 0"),
    (lambda: fft.dctn(np.ones((3, 2)), axes=(0, 0)), ShapeError, "occurs twice"),
    (lambda: fft.dctn(np.ones((3, 2)), s=(2,), axes=(0, 1)), ShapeError, "as many lengths"),
    (lambda: ndimage.map_coordinates(np.ones(3), [np.ones(2)], 2), NotImplementedError, "order must be 0 or 1; got 2"),
    (lambda: ndimage.map_coordinates(np.ones(3), [np.ones(2)], 1, "foo"), NotImplementedError, "mode must be.*'foo'"),
    (lambda: ndimage.map_coordinates(np.ones(3), [np.ones(2)] * 2, 1), ShapeError, "a coordinate for each axis.*got 2"),
    (lambda: interpolate.RegularGridInterpolator((np.arange(2.0),), np.ones(3)), ShapeError, "expected points"),
    (lambda: interpolate.RegularGridInterpolator((np.zeros(3),), np.ones(3)), ValueError,
     "ascend strictly, or descend; those of axis 0"),
    (lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3), "cubic"), ValueError, "'cubic'"),
    (lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3), bounds_error=True), NotImplementedError,
     "fill_value"),
    (lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3))(np.ones((2, 2))), ShapeError, r"\[..., 1\]"),
    (lambda: cluster.vq.vq(np.ones((2, 3)), np.ones((2, 2))), ShapeError, r"vq: expected obs.*\[2,3\].*\[2,2\]"),
    (lambda: cluster.vq.vq(1j * np.ones((2, 3)), np.ones((2, 3))), DTypeError, "real numbers"),
    (lambda: optimize.minimize(rosenbrock, np.ones(2), method="cobyla"), ValueError, "method must be 'BFGS'; got 'cobyla'"),
    (lambda: optimize.minimize(rosenbrock, np.ones(2), method="BFGS", options={"foo": 1}), ValueError, "options.*got foo"),
    (lambda: optimize.minimize(rosenbrock, np.ones((2, 2)), method="BFGS"), ShapeError, "x0 must be a vector"),
    (lambda: optimize.minimize(lambda x: x, np.ones(2), method="BFGS"), ShapeError, "single number"),
    (lambda: optimize.minimize(lambda x, a: x.sum(), np.ones(2), 1.0, method="BFGS"), TypeError, "args must be a tuple"),
    (lambda: grad(lambda x: optimize.minimize(rosenbrock, x, method="BFGS").fun)(np.zeros(2)), LaminaError, "reverse"),
    (lambda: solvers.cg(np.ones((2, 3)), np.ones(2)), ShapeError, r"A as a matrix is \[n, n\].*\[2,3\]"),
    (lambda: solvers.cg(lambda x: x[:1], np.ones(2)), ShapeError, "what A gives must be a tree like b"),
    (lambda: solvers.gmres(lambda x: x, np.ones(2), x0=np.ones(3)), ShapeError, "x0 must be a tree like b"),
    (lambda: solvers.gmres(lambda x: x, np.ones(2), solve_method="x"), ValueError, "solve_method must be.*'x'")])
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_forward_derivative_of_a_minimum():
    def lowest(a):
        return optimize.minimize(lambda x: ((x - a) ** 2).sum(), np.zeros(1), method="BFGS").x[0]
    close(jvp(lowest, (2.0,), (1.0,))[1], 1.0, atol=1e-6)


def test_nan_among_places_and_observations_stays_nan():
    grid, values = (np.array([0.0, 1.0, 3.0]),), np.array([1.0, 2.0, 5.0])
    for method in ("linear", "nearest"):
        f = interpolate.RegularGridInterpolator(grid, values, method, bounds_error=False, fill_value=7.0)
        np.testing.assert_array_equal(f(np.array([[np.nan], [4.0], [1.0]])), [np.nan, 7, 2])
    _, far = cluster.vq.vq(np.array([[np.nan, 0.0], [3.0, 4.0], [0.0, 0.0]]), np.zeros((2, 2)))
    np.testing.assert_array_equal(far, [np.nan, 5, 0])


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_descending_grids_are_those_turned_round(method):
    up, y, values = np.array([0.0, 1, 3, 4]), np.array([1.0, 2, 5]), np.arange(12.0).reshape(4, 3) ** 1.5
    at = np.array([[0.4, 1.2], [3.9, 4.0], [5.0, 1.0], [2.0, 5.0], [4.0, 2.2]])
    want = interpolate.RegularGridInterpolator((up, y), values, method)(at)
    np.testing.assert_array_equal(interpolate.RegularGridInterpolator((up[::-1], y), values[::-1], method)(at), want)
    np.testing.assert_array_equal(interpolate.RegularGridInterpolator((up, y[::-1]), values[:, ::-1], method)(at), want)
