"""Special functions: values that SciPy 1.17 gives, frozen; values at edges and poles; derivatives and differences."""
import json
import math
from pathlib import Path

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, jacfwd, jvp
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError, config
from lamina_scipy import special
from lamina_scipy._special._binomial_deviance import compute_log1p
from lamina_tracing import eval_shape, jit

inf, nan = np.inf, np.nan
VALUES = json.loads((Path(__file__).parent / "special_values.json").read_text())
# what the ops below cost in float32, in units of the last place, where it is more than 60
LOOSE = {"betainc": 2000, "gammainc": 300, "gammaincc": 300, "ndtr": 200, "erfc": 200, "hyp1f1": 300}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    table = VALUES[name]
    want = np.array(table["is"])
    points = np.array(table["at"])
    got = getattr(special, name)(*points.astype(np.float32))
    assert got.dtype == np.float32
    fits = (np.abs(want) > 1e-37) & (np.abs(want) < 1e38)
    np.testing.assert_allclose(np.asarray(got, np.float64)[fits], want[fits], LOOSE.get(name, 60) * 1.2e-7, 1e-30)
    with config.enable_x64(True):
        got = getattr(special, name)(*points)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, 1e-9 if name == "betaln" else 1e-11, 1e-300)  # there SciPy loses digits


@pytest.mark.parametrize("name, args, want", [
    ("gamma", ([0.0, -0.0, -1.0, -inf, inf, 200.0],), [inf, -inf, nan, nan, inf, inf]),
    ("gammaln", ([0.0, -1.0, inf, 1.0, 2.0],), [inf, inf, inf, 0, 0]),
    ("gammasgn", ([0.0, -0.0, -1.0, nan],), [1, -1, nan, nan]),
    ("digamma", ([0.0, -0.0, -1.0],), [-inf, inf, nan]),
    ("polygamma", ([0, 1, 2, 1.5, -1], [0.0, -1.0, -2.0, 1.0, 1.0]), [-inf, inf, -inf, nan, nan]),
    ("zeta", ([1.0, 0.5, 2.0, 2.0, 2.5], [1.0, 1.0, 0.0, -3.0, -0.5]), [inf, nan, inf, inf, nan]),
    ("zeta", ([1.0, 0.0, -2.0, -1.0, inf],), [inf, -0.5, 0, -1 / 12, 1]),
    ("beta", ([0.0, 1.0, -2.5, inf], [1.0, -3.0, 1.5, 1.0]), [inf, -1 / 3, 0, 0]),
    ("betainc", ([0.0, 1, 0, inf, 1, 1, 1], [1.0, 0, 0, 1, inf, 1, 1], [0.5, 0.5, 0.5, 0.5, 0.5, 2, -1]),
     [1, 0, nan, 0, 1, nan, nan]),
    ("gammainc", ([0.0, 0, 1, -1, inf, 2], [0.0, 1, -1, 1, 1, inf]), [nan, 1, nan, nan, 0, 1]),
    ("gammaincc", ([0.0, 0, 1, -1, inf, 2], [0.0, 1, -1, 1, 1, inf]), [nan, 0, nan, nan, 1, 0]),
    ("poch", ([0.0, -3, -1, 0.5, -0.5], [1.0, 2, 3, -0.5, 0]), [0, 6, 0, inf, 1]),
    ("factorial", ([-1.0, 0, nan],), [0, 1, nan]),
    ("exp1", ([0.0, -1.0, inf],), [inf, nan, 0]),
    ("expi", ([0.0, -inf, inf],), [-inf, 0, inf]),
    ("expn", ([0, 1, 2, 1.5, -1, 2], [0.0, 0, 0, 1, 1, -1]), [inf, inf, 1, nan, nan, nan]),
    ("spence", ([-1.0, 0, 1, inf],), [nan, np.pi ** 2 / 6, 0, -inf]),
    ("entr", ([-1.0, 0, inf, nan],), [-inf, 0, -inf, nan]),
    ("rel_entr", ([0.0, 0, 1, -1, 1, nan], [0.0, -1, 0, 1, inf, 1]), [0, inf, inf, inf, -inf, nan]),
    ("kl_div", ([0.0, 0, 1, -1], [0.0, 3, 0, 1]), [0, 3, inf, inf]),
    ("xlogy", ([0.0, 0, 0, 1], [0.0, inf, nan, 0]), [0, 0, nan, -inf]),
    ("xlog1py", ([0.0, 1], [-1.0, -1]), [0, -inf]),
    ("logit", ([0.0, 0.5, 1, 2],), [-inf, 0, inf, nan]),
    ("ndtri", ([0.0, 0.5, 1, -1, 2],), [-inf, 0, inf, nan, nan]),
    ("log_ndtr", ([-inf, inf, nan],), [-inf, 0, nan]),
    ("hyp1f1", ([1.0, -1, 0, 1], [0.0, -2, 2, 1], [1.0, 1, 5, -inf]), [inf, 1.5, 1, None]),
    ("i0", ([inf, -inf],), [inf, inf]), ("i1", ([inf, -inf],), [inf, -inf]),
])
def test_edges_and_poles(name, args, want):
    got = np.asarray(getattr(special, name)(*[np.array(x, np.float32) for x in args]))
    known = [i for i, w in enumerate(want) if w is not None]
    np.testing.assert_allclose(got[known], [want[i] for i in known], 1e-5, 1e-6)


DERIVATIVE_POINTS = {
    "gamma": [(4.25,), (-1.4,)], "gammaln": [(1.1,), (-1.4,)], "polygamma": [(1.0, 2.3)], "zeta": [(2.5, 1.2), (4.0, 7.3)],
    "beta": [(1.2, 3.4)], "betaln": [(20.0, 30.0)], "gammainc": [(1.2, 0.7)], "gammaincc": [(0.3, 0.4)],
    "betainc": [(1.2, 2.3, 0.3), (3.0, 0.7, 0.9)], "poch": [(1.2, 2.2), (-2.0, 2.0)], "exp1": [(0.4,)],
    "expi": [(2.0,), (50.0,)],
    "expn": [(0.0, 0.4), (3.0, 2.4)], "spence": [(1.0,), (4.0,)], "hyp1f1": [(1.2, 2.3, -3.0), (1.1, 0.6, 80.0)],
    "i0": [(0.0,)], "i1": [(0.0,), (2.0,)], "entr": [(0.4,)], "kl_div": [(0.4, 1.2)], "rel_entr": [(0.4, 1.2)],
    "xlogy": [(0.0, 1.2)], "xlog1py": [(0.0, 0.5)], "logit": [(0.5,)], "ndtri": [(0.2,)], "log_ndtr": [(-30.0,), (2.0,)]}
WITHOUT = {("polygamma", 0), ("expn", 0)}


@pytest.mark.parametrize("name", DERIVATIVE_POINTS)
def test_derivatives_agree_with_differences(name):
    h = 1e-4
    with config.enable_x64(True):
        for point in DERIVATIVE_POINTS[name]:
            for i, x in enumerate(point):
                if (name, i) in WITHOUT:
                    with pytest.raises(NotImplementedError, match=f"{name}: no derivative in `n`"):
                        grad(getattr(special, name), i)(*point)
                    continue
                if name == "poch" and point[0] == -2.0 and i == 1:
                    continue  # a pole: infinite

                def f(v, i=i, point=point):
                    return getattr(special, name)(*point[:i], v, *point[i + 1:])
                steps = f(np.array([x + h, x - h, x + 2 * h, x - 2 * h]))
                want = (8 * (steps[0] - steps[1]) - (steps[2] - steps[3])) / (12 * h)
                np.testing.assert_allclose(grad(f)(x), want, 1e-6, 1e-9, err_msg=f"{point} {i}")


@pytest.mark.parametrize("low, high, most", [(1e-30, 0.7, 3), (0.7, 1.3, 3), (1.3, 2.5, 5), (2.5, 4, 9), (4, 1e6, 4),
                                             (1e6, 1e36, 4)])
def test_single_gammaln_is_off_by_a_few_units(low, high, most):
    x = np.exp(np.linspace(np.log(low), np.log(high), 4000)).astype(np.float32)
    want = np.array([math.lgamma(float(v)) for v in x])
    off = np.abs(np.asarray(special.gammaln(x), np.float64) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert off.max() <= most


def test_single_gammaln_left_of_zero():
    x = -np.exp(np.linspace(np.log(1e-6), np.log(300), 4000)).astype(np.float32)
    x = x[np.abs(x - np.round(x)) > 1e-7]
    want = np.array([math.lgamma(float(v)) for v in x])
    np.testing.assert_allclose(special.gammaln(x), want, 4e-7, 1e-6)
    far = np.float32([-8388609, -1e30, -inf, inf, nan, 0.0, -0.0, 3e38])
    np.testing.assert_array_equal(special.gammaln(far), [inf, inf, inf, inf, nan, inf, inf, inf])


def test_derivatives_where_simple_rules_fail():
    with config.enable_x64(True):
        assert [float(t) for t in grad(special.xlogy, (0, 1))(0.0, 0.0)] == [-inf, 0.0]
        for f, want in ((special.rel_entr, [0, 0]), (special.kl_div, [-1, 1])):
            assert [float(t) for t in grad(f, (0, 1))(0.0, 0.0)] == want
            assert grad(f)(0.0, 2.0) == -inf
        assert grad(special.entr)(0.0) == inf and grad(special.rel_entr, 1)(0.0, 2.0) == 0
        np.testing.assert_allclose(grad(special.log_ndtr)(-1e4), 1e4, 1e-7)
        np.testing.assert_allclose(grad(grad(special.log_ndtr))(-1e4), -1, 1e-7)  # x + derivative would leave nothing
        np.testing.assert_allclose([grad(grad(special.i0))(0.0), grad(grad(special.i1))(0.0)], [0.5, 0], atol=1e-12)
        np.testing.assert_allclose(grad(grad(special.spence))(1.0), 0.5, 1e-6)
        np.testing.assert_allclose(grad(lambda x: grad(special.betainc, 0)(1.2, 2.3, x))(0.3),
                                   grad(lambda a: grad(special.betainc, 2)(a, 2.3, 0.3))(1.2), 1e-9)
        assert grad(special.gammasgn)(-1.5) == 0
        for f, args in ((special.betainc, (1.2, 2.3, 0.3)), (special.gammainc, (2.5, 3.0)), (special.hyp1f1, (1.5, 2.5, -0.5))):
            third = grad(grad(grad(f)))(*args)
            h = 1e-4
            two = [float(grad(grad(f))(args[0] + s, *args[1:])) for s in (-h, h)]
            np.testing.assert_allclose(third, (two[1] - two[0]) / (2 * h), 1e-6)


@pytest.mark.parametrize("call, at, want", [
    # where the sum is a pole of gamma the derivative of what divides by it: gamma(a) gamma(b) (-1)^n n!
    ("beta", (0.5, -0.5), [-2 * np.pi, -2 * np.pi]), ("beta", (-2.5, 0.5), [-16 * np.pi / 15] * 2),
    # z (z + 1) ... where m is whole; an isolated point has no derivative in m
    ("poch", (-2.0, 2.0), [-3, nan]), ("poch", (-3.0, 4.0), [-6, 0]), ("poch", (-3.0, -2.0), [0.0225, nan]),
    ("poch", (0.0, 0.0), [0, nan]), ("poch", (0.0, 2.0), [1, 0]), ("poch", (2.0, -2.0), [nan, nan]),
    ("poch", (0.5, -1.5), [nan, nan])])
def test_derivatives_at_poles(call, at, want):
    with config.enable_x64(True):
        np.testing.assert_allclose(grad(getattr(special, call), (0, 1))(*at), want, 1e-13, 1e-300)


@pytest.mark.parametrize("at, want", [
    ((-2.0, 2.0), 2), ((-3.0, 3.0), -12), ((0.0, 2.0), 2), ((1e-5, 1.0), 0), ((-3.0, 4.0), 22)])
def test_second_derivatives_of_poch_at_poles(at, want):
    with config.enable_x64(True):
        np.testing.assert_allclose(grad(grad(special.poch))(*at), want, 1e-13, 1e-15)


def test_second_derivatives_of_poch_in_both_arguments_at_its_poles_are_alike():
    with config.enable_x64(True):
        for z, m, want in ((0.0, 2.0, 0.4227843350984671), (-3.0, 4.0, 3.463293989409203)):
            np.testing.assert_allclose(grad(lambda m: grad(special.poch)(z, m))(m), want, 1e-13)
            np.testing.assert_allclose(grad(lambda z: grad(special.poch, 1)(z, m))(z), want, 1e-13)


def test_log1p_of_float64_on_both_sides_of_its_switch():
    x = np.array([-1.0, -0.5, -0.375, -0.3125, -0.25, -0.25 - 2.0 ** -50, -1e-20, 0.0, 3.0, inf, -2.0, nan])
    with config.enable_x64(True):
        np.testing.assert_allclose(jit(compute_log1p)(x), [
            -inf, -0.6931471805599453, -0.4700036292457356, -0.3746934494414107, -0.2876820724517809, -0.2876820724517821,
            -1e-20, 0, 1.3862943611198906, inf, nan, nan], 3e-16)
        np.testing.assert_allclose([grad(compute_log1p)(t) for t in (-1.0, -0.5, 0.0, 3.0)], [inf, 2, 1, 0.25])


def test_zeta_of_high_orders():
    with config.enable_x64(True):
        np.testing.assert_allclose(special.zeta(np.array([137.0, 50.0]), np.array([11.75, 12.0])),
                                   [2.5399096836003852e-147, 1.1194415577850897e-54], 1e-13)
        np.testing.assert_allclose(special.polygamma(30, 11.0), -1.4837298830137115, 1e-13)


def test_bessel_functions_of_all_orders():
    # SciPy's jv
    want = {0: [0.99750156, 0.22389078, -0.24593576, 0.01998585], 3: [2.0820316e-05, 0.12894325, 0.05837938, 0.07628420]}
    z = np.array([0.1, 2.0, 10.0, 100.0], np.float32)
    got = special.bessel_jn(z, v=3)
    assert got.shape == (4, 4)
    for order, row in want.items():
        np.testing.assert_allclose(got[order], row, 2e-5, 2e-7)
    np.testing.assert_allclose(special.bessel_jn(-z, v=3), got * np.array([1, -1, 1, -1])[:, None])
    derivative = vmap(jacfwd(lambda x: special.bessel_jn(x, v=3)))(z)
    np.testing.assert_allclose(derivative[:, 1], got[0] - got[1] / z, 1e-4, 1e-6)
    assert special.bessel_jn(0.0, v=2).tolist() == [1, 0, 0]
    with pytest.raises(TypeError, match="`v` must be a whole number"):
        special.bessel_jn(1.0, v=1.5)


def test_legendre_functions_and_harmonics():
    with config.enable_x64(True):
        z = np.array([-1.0, -0.3, 0.6])
        values, derivatives = special.lpmn(2, 3, z)
        assert values.shape == (3, 4, 3)
        root = np.sqrt(1 - z * z)
        np.testing.assert_allclose(values[1, 2], -3 * z * root, 1e-12, 1e-14)
        np.testing.assert_allclose(values[2, 3], 15 * z * (1 - z * z), 1e-12, 1e-14)
        np.testing.assert_allclose(derivatives[2, 3], 15 - 45 * z * z, 1e-12)
        np.testing.assert_allclose(derivatives[0, 3], (15 * z * z - 3) / 2, 1e-12)
        normal = special.lpmn_values(2, 3, z, True)
        np.testing.assert_allclose(normal[2, 3], np.sqrt(7 / (4 * np.pi) / 120) * values[2, 3], 1e-12, 1e-14)
        y = special.sph_harm(np.array([1, -1, 3]), np.array([2, 2, 2]), 0.3, 0.4)
        np.testing.assert_allclose(y, [-0.2647200645994 - 0.08188751197959j, 0.2647200645994 - 0.08188751197959j, 0], 1e-8)
        derivative = grad(lambda t: special.sph_harm(1, 2, t, 0.4, n_max=2).imag)(0.3)
        np.testing.assert_allclose(derivative, -0.2647200645994, 1e-8)
    with pytest.raises(TypeError, match="give n_max="):
        jit(lambda n: special.sph_harm(0, n, 0.1, 0.2))(2)


def test_numbers_of_bernoulli_and_several_dimensions():
    np.testing.assert_allclose(special.bernoulli(8), [1, -0.5, 1 / 6, 0, -1 / 30, 0, 1 / 42, 0, -1 / 30], 1e-6)
    assert special.bernoulli(0).tolist() == [1] and special.bernoulli(66)[-1] == inf
    with pytest.raises(ValueError, match="`n` must not be negative"):
        special.bernoulli(-1)
    np.testing.assert_allclose(special.multigammaln(np.float32(3.3), 4), 5.02109660947594, 1e-5)
    assert np.isnan(special.multigammaln(0.5, 2))
    assert special.multigammaln(3.3, 4.0) == special.multigammaln(3.3, 4)
    with pytest.raises(NotImplementedError, match=r"math\.factorial"):
        special.factorial(3, exact=True)


def test_types_shapes_and_maps():
    for name, count in (("gamma", 1), ("entr", 1), ("ndtr", 1), ("spence", 1), ("betaln", 2), ("betainc", 3), ("log_ndtr", 1)):
        f = getattr(special, name)
        for given in (np.int8, np.bool_, np.float16, lnp.bfloat16):
            want = given if given in (np.float16, lnp.bfloat16) else np.float32
            assert eval_shape(f, *[lnp.ones(2, given)] * count).dtype == want, name
    assert eval_shape(special.betaln, np.ones((3, 1), np.float32), np.ones(4, np.float32)).shape == (3, 4)
    x = np.linspace(0.1, 3, 5, dtype=np.float32)
    np.testing.assert_allclose(vmap(special.betainc, (None, 0, None))(2.0, x, 0.3), special.betainc(2.0, x, 0.3), 1e-6)
    np.testing.assert_allclose(special.xlogy(1j, 2.0), 1j * np.log(2), 1e-6)
    for wrong, error, words in ((lambda: special.gamma(1j), DTypeError, "gamma: expected real numbers"),
                                (lambda: special.gamma("a"), TypeError, "gamma"),
                                (lambda: special.beta(x, np.ones(4)), ShapeError, "beta: incompatible shapes")):
        with pytest.raises(error, match=words):
            wrong()


def test_large_and_tiny_shapes_keep_the_digits_of_float32():
    """Numbers of SciPy in float64."""
    f = np.float32
    a, b = f([1.5, 1e6, 1e5, 3e5, 1e-3, 0.3, 50.0]), f([1e6, 1e6, 2e5, 40.0, 1e-10, 1e-10, 1e-3])
    x = f([1e-6, 0.5, 0.333, 0.9999, 0.5, 0.9, 0.99])
    want = [0.4275936181, 0.5, 0.3494050182, 0.9535900552, 9.9999904e-08, 5.154726420e-10, 0.0005630995887]
    np.testing.assert_allclose(special.betainc(a, b, x), want, 1e-4)
    got = special.betaln(f([-0.5, -2.5, -0.5, -12.5]), f([1e6, 1e6, 20.0, 20.5]))
    np.testing.assert_allclose(got, [8.17326703, 34.4825283, 2.7443098, 12.19099334], 1e-6)
    np.testing.assert_allclose(special.zeta(1.0, f([-0.5, -1.0])), np.inf)


def test_incomplete_functions_of_large_shapes():
    """Numbers of SciPy in float64, at these arguments in float32."""
    a, b = np.float32([2.148633, 545117.3, 1e6, 3., 1e6]), np.float32([526237.75, 197.6646, 1e6, 2e6, 5])
    x = np.float32([6.2557e-6, .999571, .4996, 2e-6, .999993])
    share = np.array([0.814420970149, 0.00694084024563, 0.128945480658, 0.761897572117, 0.175396868749])
    derivative = np.array([71707.8102786, 671.09455227, 594.97307901, 293050.077173, 92255.260372])
    np.testing.assert_allclose(special.betainc(a, b, x), share, 3e-5)
    np.testing.assert_allclose(grad(lambda x: special.betainc(a, b, x).sum())(x), derivative, 5e-5)
    with config.enable_x64(True):
        wide = [v.astype(np.float64) for v in (a, b, x)]
        np.testing.assert_allclose(special.betainc(*wide), share, 1e-10)
        np.testing.assert_allclose(grad(lambda x: special.betainc(*wide[:2], x).sum())(wide[2]), derivative, 1e-10)
    a, x = np.float32([1e6, 1e6, 1e6, 135065.9, 428537.9]), np.float32([1e6, 997000, 1004000, 137205.86, 426257.72])
    below = [0.500132980761, 0.00133810416731, 0.999967654553, 0.999999996548, 0.000242535471416]
    above = [0.499867019239, 0.998661895833, 3.23454473135e-05, 3.45229696828e-09, 0.999757464529]
    np.testing.assert_allclose(special.gammainc(a, x), below, 3e-5)
    np.testing.assert_allclose(special.gammaincc(a, x), above, 3e-5)


def test_zeta_far_out_and_its_derivatives():
    x = np.float32([-185.4, -158.6, -1e30, -4, 60, 1e30, inf])
    np.testing.assert_array_equal(special.zeta(x), [-inf, inf, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(special.zeta(np.float32(inf), np.float32([0.2, 1, 2])), [inf, 1, 0])
    derivative = [float(grad(special.zeta)(np.float32(v))) for v in (-4, -2, -1, 0, 70)]  # DLMF 25.6.12 to 25.6.15 and 25.2.1
    np.testing.assert_allclose(derivative, [0.0079838115, -0.0304484571, -0.1654211437, -0.9189385332, -5.8711744e-22], 5e-6)
    np.testing.assert_allclose(grad(special.zeta)(np.float32(100), np.float32(0.9)), -0.9 ** -100 * np.log(0.9), 1e-5)


def test_poch_near_its_poles():
    z, m = np.float32([1e-30, 1e-30, -4, -4, 3, -3]), np.float32([-2, -3, -2e-8, 2, -5, 3])
    np.testing.assert_allclose(special.poch(z, m), [0.5, -1 / 6, 0, 12, inf, -6], 1e-6)
    np.testing.assert_allclose(grad(special.poch)(np.float32(1e-20), np.float32(-2)), 0.75, 1e-6)


# a, b, x, the function, its derivatives in a, b and x: by mpmath with 60 digits, at these arguments in float32. The
# terms of the
# power series cancel in all of them.
KUMMER = [
    [25.5, 3.5, -20.0, 8.23155747e-09, 2.24217877e-09, -2.1841133e-08, 1.87887464e-09],
    [-22.2999992, 4.5, 12.0, -0.0225605258, 0.013912927, 0.0585211941, -0.0371557873],
    [9.30000019, 1.10000002, -50.0, -1.67732778e-11, -5.33409785e-11, 1.21125985e-10, -4.22036924e-12],
    [-7.5, 30.2000008, 25.0, 0.000127439186, 0.000177894511, 3.52767691e-05, -5.73246381e-05],
    [45.5, 26.0, -64.0, 7.93808594e-33, -1.47921284e-31, 1.97171242e-31, 4.914091e-32],
    [-97.5999985, 0.00300000003, 22.5, 79064609.77908, -29183490.79893, -26784261200.0, 161362694.0],
    [12.25, -3.5, -6.0, 52.4729356, 19.137825, -85.6795133, -16.6060116],
    [-43.9500008, 26.0, -114.199997, 5.16244142e+25, -5.78628941e+25, -3.977021e+25, -1.34135306e+25],
    [-25.0, 3.5, 60.0, -148345645.0, -607627308.0, 140074114.0, 84932824.62816],
]


def test_hyp1f1_where_terms_cancel():
    *args, value, in_a, in_b, in_x = np.array(KUMMER, np.float64).T
    narrow = [v.astype(np.float32) for v in args]
    np.testing.assert_allclose(special.hyp1f1(*narrow), value, 2e-5)
    got = grad(lambda *v: special.hyp1f1(*v).sum(), (0, 1, 2))(*narrow)
    for derivative, want in zip(got, (in_a, in_b, in_x)):
        np.testing.assert_allclose(derivative, want, 1e-4)
    with config.enable_x64(True):
        np.testing.assert_allclose(special.hyp1f1(*[v.astype(np.float64) for v in narrow]), value, 1e-8)


def test_hyp1f1_returns_nan_where_it_is_inaccurate():
    hard = [np.float32(v) for v in ([28, -53.8624, -39], [-18.900997, -15.476473, -6.53416], [-17.27625, -52.6985, 4.87943])]
    got = np.asarray(special.hyp1f1(*hard), np.float64)
    want = np.array([14884304.275, 8.3163416e46, -628463.31])  # of these only an order of size is known in float32
    assert (np.isnan(got) | (np.abs(got / want - 1) < 0.05)).all() and np.isnan(got).any()
    ends = special.hyp1f1(*[np.float32(v) for v in ([0, -2, -3, -3, 3], [2, 3, 2.5, 2.5, 1], [-inf, inf, inf, -inf, -inf])])
    np.testing.assert_array_equal(ends, [1, inf, -inf, inf, 0])
    assert np.isnan(grad(special.hyp1f1, (0, 1))(np.float32(1.5), np.float32(-2), np.float32(1))).all()


def test_derivatives_of_small_differences():
    """Where a rule is the difference of two near numbers its digits stay: mpmath's, at these arguments in float32."""
    a = np.float32([68.888031, 1039.96106, 8030.64746, 1.5, 1e-3])
    b = np.float32([6.22256266e-6, 3.20788729e-8, 3.66469787e-4, 1e-6, 20])
    in_a, in_b = grad(lambda a, b: special.betaln(a, b).sum(), (0, 1))(a, b)
    np.testing.assert_allclose(in_a, [-9.09874348e-08, -3.08610603e-11, -4.56367433e-08, -9.34801784e-07, -1003.5461], 1e-6)
    np.testing.assert_allclose(in_b, [-160710.295, -31173172.6, -2738.30548, -1000000.62, -5.12695114e-05], 2e-6)
    x = np.float32([20, -20, 61.67, 0.5])
    assert special.expit(np.float16(-11.55)) == np.float16(9.64e-6)  # exp(11.55) is beyond float16
    small = np.exp(-np.abs(x))
    np.testing.assert_allclose(grad(lambda x: special.expit(x).sum())(x), small / (1 + small) ** 2, 1e-5)
    x = np.float32([1e4, -1e4, 41, 1e20])
    want = [-1.99478621e-07, 1.99478621e-07, -0.000766923057, -1.99471134e-31]
    np.testing.assert_allclose(grad(lambda x: special.i0e(x).sum())(x), want, 2e-6)
    want = [-1.99448699e-07, -1.99448699e-07, -0.000738687204, -1.99471134e-31]
    np.testing.assert_allclose(grad(lambda x: special.i1e(x).sum())(x), want, 2e-6)
    a, b, x = [np.float32(v) for v in ([1301.50427, 5.20834875], [0.258453876, 0.0011406648], [0.999936521, 0.988153577])]
    got = grad(lambda a: special.betainc(a, b, x).sum())(a)
    np.testing.assert_allclose(got, [-1.0611350e-4, -2.2752121e-4], 3e-4)


def test_derivatives_at_the_ends_of_what_is_represented():
    assert grad(special.i1)(np.float32(98.24)) == inf and grad(special.digamma)(np.float32(1e-20)) == inf
    assert grad(special.zeta)(np.float32(1)) == -inf
    got = special.zeta(np.float32([1.86558235, 2.5]), np.float32([3e38, 2e4]))
    np.testing.assert_allclose(got, [5.72235359826811e-34, 2.35711099414423e-7], 2e-6)
    z, m = np.float32([-6, -4, -4, -2]), np.float32([7.0314854e-8, -9.0381e-12, 2, 0.3293714])
    want = [14221747.9, -110642722000, -7, 4.84233184]
    np.testing.assert_allclose(grad(lambda z: special.poch(z, m).sum())(z), want, 2e-6)
    np.testing.assert_allclose(grad(special.zeta)(np.float32(1.86558235), np.float32(3e38)), -5.13593466e-32, 1e-5)
    z = np.float32([-1, 1])
    np.testing.assert_allclose(vmap(grad(lambda z: special.lpmn_values(2, 3, z, False)[0, 3]))(z), [6, 6], 1e-6)
    assert np.isinf(special.lpmn(2, 3, z)[1][1, 1:]).all() and np.isfinite(special.lpmn(2, 3, z)[1][2]).all()


def test_second_derivatives_left_of_zero_and_near_it():
    with config.enable_x64(True):
        x = np.array([-9.30944796, -34.1844356, 3.0])
        np.testing.assert_allclose(vmap(grad(grad(special.gammaln)))(x), [14.360191631293727, 32.8917953775713,
                                                                          np.pi ** 2 / 6 - 1.25], rtol=1e-6)
        small = np.array([2e-9, -9e-8])
        np.testing.assert_allclose(vmap(grad(grad(special.expit)))(small), -small / 8, rtol=1e-12)
        mixed = grad(lambda a, b: grad(special.betaln)(a, b), 1)(1e-38, 0.186486041)
        np.testing.assert_allclose(mixed, -special.polygamma(1., 0.186486041), rtol=1e-12)


SECOND = [  # function, place, derivative of the derivative there
    ("i1", 2.0 ** -10, 3.6621098600638612e-4), ("i1", 2.5, 2.0061297861610327), ("i1e", 2.0 ** -10, -0.99817061322438843),
    ("i1e", 30.0, 5.6806124652776637e-5), ("i0e", 30.0, 6.2020747224559955e-5), ("log_ndtr", -17.5, -0.99679698308330788),
    ("log_ndtr", -4.5, -0.96118590071522447), ("spence", 1 - 2.0 ** -13, 0.50008139138565961)]


@pytest.mark.parametrize("name, x, want", SECOND)
def test_second_derivatives_of_what_all_but_cancels(name, x, want):
    fun = getattr(special, name)
    for wide, rtol in ((False, 1e-5), (True, 1e-13)):
        with config.enable_x64(wide):
            np.testing.assert_allclose(grad(grad(fun))(x), want, rtol=rtol)
            np.testing.assert_allclose(jvp(lambda y: jvp(fun, (y,), (1.0,))[1], (x,), (1.0,))[1], want, rtol=rtol)


def test_erfinv_near_its_ends():
    np.testing.assert_allclose(special.erfinv(np.float32(2.0 ** -13 - 1)), -2.7166552405670822, rtol=2e-7)
    with config.enable_x64(True):
        np.testing.assert_allclose(special.erfinv(1 - 2.0 ** -28), 4.1690670869016257, rtol=4e-16)
        np.testing.assert_array_equal(special.erfinv(np.array([-1, 0, 1, 2, nan])), [-inf, 0, inf, nan, nan])


@pytest.mark.parametrize("at, want", [  # derivatives in a and b, by 40 digits
    ((2.0 ** 20, 0.125, 1 - 2.0 ** -17), (-5.506768152831e-11, 6.942898225447e-5)),
    ((2.0 ** 20, 0.5, 1 - 2.0 ** -19), (-1.029795102301e-7, 0.135619078528)),
    ((8192.0, 0.5, 1 - 2.0 ** -13), (-2.533653749281e-5, 0.3898121579774)),
    ((0.125, 16384.0, 2.0 ** -12), (-0.006072030964723, 1.763958880007e-7)),
    ((4096.0, 4096.0, 0.515625), (-7.934352525472e-5, 8.186273192013e-5)),
    ((3.0, 0.25, 0.96875), (-0.05141035065732, 1.320498062209)),
])
def test_derivatives_of_betainc_where_its_series_is_long(at, want):
    for wide, rtol in ((False, 2e-5), (True, 2e-12)):
        with config.enable_x64(wide):
            found = grad(special.betainc, (0, 1))(*np.asarray(at, np.float64 if wide else np.float32))
            np.testing.assert_allclose([float(v) for v in found], want, rtol)


def test_the_derivative_of_poch_by_a_tiny_step_keeps_its_digits():
    z, m = [3.5, 1024.0, -2.5, -0.375, 0.25], [2.0 ** -33, -2.0 ** -30, 2.0 ** -33, -2.0 ** -26, 2.0 ** -10]
    want = [3.845870449864e-11, -9.099389296698e-13, 1.110514468305e-9, -1.566453855857e-7, 0.01666403573279]  # by 40 digits
    for wide, rtol in ((False, 2e-6), (True, 1e-12)):
        with config.enable_x64(wide):
            at = [np.array(v, np.float64 if wide else np.float32) for v in (z, m)]
            np.testing.assert_allclose(grad(lambda z: special.poch(z, at[1]).sum())(at[0]), want, rtol)


@pytest.mark.parametrize("name, x, want", [("logit", 0.0, -inf), ("logit", 1.0, inf), ("exp1", 0.0, inf), ("expi", 0.0, -inf),
                                           ("expi", -inf, 0.0), ("expi", inf, inf)])
def test_second_derivatives_at_ends_are_the_same_in_both_modes(name, x, want):
    fun = getattr(special, name)
    assert grad(grad(fun))(x) == want and jvp(grad(fun), (x,), (1.0,))[1] == want
    assert grad(lambda y: jvp(fun, (y,), (1.0,))[1])(x) == want


def test_the_derivative_of_expi_next_to_where_it_overflows():
    np.testing.assert_allclose(grad(special.expi)(np.float32(92)), 9.801770e37, 2e-5)
