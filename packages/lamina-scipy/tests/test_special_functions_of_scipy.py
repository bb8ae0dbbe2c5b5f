"""Special functions that only tables of SciPy and mpmath know: at edges, of complex numbers, of several arguments."""
import math

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError, config
from lamina_scipy import special, stats
from lamina_tracing import eval_shape, jit

inf, nan = np.inf, np.nan


@pytest.mark.parametrize("name, args, want", [
    ("erfcinv", ([0.0, 1, 2, -1, 3, nan],), [inf, 0, -inf, nan, nan, nan]),
    ("erfcx", ([0.0, inf, -inf, 1e30, nan],), [1, 0, inf, 0.5641895835477563e-30, nan]),
    ("dawsn", ([0.0, inf, -inf, 1e30, nan],), [0, 0, 0, 5e-31, nan]),
    ("comb", ([5.0, 0, 0, -1, 5, -1, nan, inf], [2.0, 0, 1, 0, 6, -1, 1, 2]), [10, 1, 0, 0, 0, 0, nan, nan]),
    ("boxcox", ([0.0, 0, 0, -1, inf, inf, 2, 1], [1.0, 0, -1, 0.5, -1, 0.5, nan, 5]), [-1, -inf, -inf, nan, 1, inf, nan, 0]),
    ("boxcox1p", ([-1.0, -1, -1, -2, 1e-20, 0], [1.0, 0, -1, 0.5, 2, 0]), [-1, -inf, -inf, nan, 1e-20, 0]),
    ("owens_t", ([0.0, 1, inf, 2, -1, nan, 0, 3], [2.0, inf, 1, -3, -inf, 1, inf, 0]),
     [0.176208191, 0.079327627, 0, -0.011375066, -0.079327627, nan, 0.25, 0]),
    ("loggamma", ([0.0, -1.5, -1, inf, -inf, nan, 1, 2],), [inf, nan, nan, inf, nan, nan, 0, 0]),
    ("hyp2f1", ([1.0, 1, 1, -2, 1, 1, 0, 1, 0.5], [2.0, 2, 2, 2, -1, -1, 5, 2, 0.2], [3.0, 3, -1, 5, -1, -3, 2, 4, 0.3],
                [2.0, 1, 0.5, 30, 0.5, 0.5, 9, 1, 1]), [inf, inf, inf, 157, 1.5, 7 / 6, 1, 3, inf]),
])
def test_edges(name, args, want):
    got = np.asarray(getattr(special, name)(*[np.array(x, np.float32) for x in args]))
    np.testing.assert_allclose(got, want, 1e-5, 1e-36)


def test_edges_of_pairs_of_integrals():
    x = np.float32([0, inf, -inf, nan, -1, 1e30])
    sine, cosine = special.sici(x)
    np.testing.assert_allclose(sine, [0, np.pi / 2, -np.pi / 2, nan, -0.946083070, np.pi / 2], 1e-6)
    np.testing.assert_allclose(cosine[:5], [-inf, 0, nan, nan, nan])
    for part, last in zip(special.fresnel(x), (-0.4382591474, -0.7798934004)):
        np.testing.assert_allclose(part, [0, 0.5, -0.5, nan, last, 0.5], 1e-6)


# a, b, c, x and the value, with mpmath
HYP2F1 = [
    (0.6775237917900085, 0.9516429901123047, 3.088890790939331, 0.9999611973762512, 1.4432988673035234),
    (2.823741912841797, 1.9546535015106201, 4.284112453460693, 0.7978650331497192, 6.151613053313068),
    (1.7040961980819702, -3.0674734115600586, 4.564231872558594, 0.997123658657074, 0.3169414228463556),
    (-4.709638595581055, 1.7006202936172485, 3.5273561477661133, -135.21755981445312, 1291147168.2091744),
    (4.011128902435303, 4.767591953277588, -0.3128536641597748, -0.7595409750938416, 0.00966184847557773),
    (-2.624565362930298, 0.32441672682762146, -0.671471118927002, -0.9950392842292786, -5.7129058262708),
    (-0.3871533274650574, -3.686523199081421, 4.726761817932129, 0.9916822910308838, 1.2621212471199066),
    (-1.3913414478302002, -3.619133234024048, -2.842855215072632, 0.3098236322402954, 0.5012396286383053),
    (-2.6510629653930664, 3.1598215103149414, -0.40637579560279846, 0.99996018409729, 19999.032236700325),
    (-4.504820346832275, -0.1664259284734726, -2.9329559803009033, 0.9998840689659119, 2.692392868579843),
    (2.3176193237304688, -1.7351394891738892, -3.7075552940368652, 0.4214203953742981, 1.7529331628510467),
    (0.66315758228302, -2.8154633045196533, -1.0079340934753418, 0.8028538823127747, 82.42942791554432),
    (3.432905912399292, 3.1067562103271484, 4.384857654571533, 0.9972251653671265, 503656.41132033855),
    (-2.985050678253174, 2.327341079711914, -2.4887032508850098, 0.9999122619628906, 1789686.1281093194),
    (-3.5466551780700684, 4.486057281494141, 4.065598487854004, 0.9999879598617554, -0.0017238819093482),
    (0.17066296935081482, 1.530484914779663, 4.539541244506836, 0.5039442777633667, 1.0339292716495116),
    (-0.4612692892551422, 2.5837342739105225, 1.3881529569625854, -0.8290784358978271, 1.5565576232550966),
    (0.5559611916542053, -2.2854838371276855, 3.796511650085449, -0.8715711236000061, 1.3465153954331193),
    (-0.19136889278888702, 0.8548288345336914, -3.7609610557556152, 0.4079347550868988, 0.9567577968550258),
    (-0.25619304180145264, -2.188258171081543, -0.3394520878791809, -152290.203125, 188544315629.7204),
    (-0.8351472616195679, 4.556689739227295, -3.8994510173797607, -236155.78125, 21866.80844944096),
    (-2.291003704071045, 1.6694821119308472, -3.726553201675415, -74.4339599609375, 12284.632233152613),
    (2.0226058959960938, -0.26625266671180725, -0.22792544960975647, -0.5610353946685791, 0.28210042491888004),
    (-1.8564670085906982, 4.960024833679199, 4.842523574829102, 0.9999932050704956, -0.00457507912306911),
    (1.0157023668289185, 4.810306072235107, 3.9047720432281494, 0.9953305125236511, 8764.497992005901),
    (0.0510525293648243, 2.2534403800964355, 0.34993013739585876, -2.0077168941497803, 0.8121862100055796),
    (-2.0605363845825195, -0.5650712251663208, -2.3856143951416016, -30.2334041595459, -60.81725206996204),
    (-0.00295236008241773, 1.3091871738433838, -1.1410034894943237, 0.3448546528816223, 0.9915963512962297),
    (-3.392845869064331, 0.6518192887306213, -3.9586570262908936, -108494.3515625, -1.6642096167924333e+17),
    (1.9222227334976196, 1.353868007659912, -1.2348747253417969, 0.5970466732978821, 1043.6173797874053),
    (0.6726810932159424, -4.117568492889404, -4.537946701049805, 0.8139349818229675, 2.2782370549190327),
    (3.2478151321411133, -1.6077566146850586, 4.477480411529541, 0.9911584854125977, 0.15817444058770233),
    (-3.3375468254089355, 2.478057384490967, 2.221486806869507, 0.38882380723953247, 0.13681200268621055),
    (-0.7456964254379272, -0.40964165329933167, -0.12385325133800507, 0.9995007514953613, -1.9009054482154997),
    (-3.8154115676879883, -3.199603796005249, -4.597160816192627, -97.53548431396484, 1559122.510433063),
    (-1.7613868713378906, 4.87597131729126, 2.9951939582824707, -694020.3125, 42771172900.08929),
    (2.0, 3.0, 13.0, -0.6186285614967346, 0.7740000805355115),
    (-8.0, -8.0, 1.0, -3.5, 15092.75390625),
    (-4.0, 10.0, 11.0, -3.5, 314.08784965034965),
    (-7.0, -7.0, 1.0, -0.5989214777946472, -7.462609780180807),
    (-10.0, -5.0, 8.0, 1.0, 33.25),
    (-7.0, 7.0, 10.0, 1.0, 0.00314685314685315),
    (-6.0, -7.0, 7.0, -3.5, 6.361860795454546),
    (-4.0, 3.0, 1.0, -3.5, 4449.9375),
    (4.0, -3.0, 7.0, -3.5, 30.333333333333332),
    (1.0, -2.0, 4.0, 1.0, 0.6)]


def test_gauss_hypergeometric_function(x64):
    *args, want = np.array(HYP2F1).T
    np.testing.assert_allclose(jit(special.hyp2f1)(*args), want, 1e-9)
    single = np.asarray(special.hyp2f1(*[x.astype(np.float32) for x in args]), np.float64)
    known = ~np.isnan(single)
    assert known.sum() > 40
    np.testing.assert_allclose(single[known], want[known], 2e-3)


@pytest.mark.parametrize("point", [(1.2, 2.3, 3.1, 0.4), (1.2, 2.3, 3.1, 0.95), (-2.0, 1.3, 2.0, 0.3), (2.0, 1.3, 2.7, -5.0),
                                   (0.5, 0.5, 1.5, -0.3)])
def test_derivatives_of_the_gauss_hypergeometric_function(point, x64):
    h = 1e-4
    for i, x in enumerate(point):
        def f(v, i=i):
            return special.hyp2f1(*point[:i], v, *point[i + 1:])
        steps = f(np.array([x + h, x - h, x + 2 * h, x - 2 * h]))
        want = (8 * (steps[0] - steps[1]) - (steps[2] - steps[3])) / (12 * h)
        np.testing.assert_allclose(grad(f)(x), want, 1e-7)
        first = vmap(grad(f))(np.array([x + h, x - h]))
        np.testing.assert_allclose(grad(grad(f))(x), (first[0] - first[1]) / (2 * h), 1e-4, 1e-7)


def test_polynomials_beyond_the_circle_of_convergence(x64):
    """F(-n, n + 1; 1; (1 - x) / 2) are Legendre's polynomials."""
    x = np.array([-3.0, 0.5, 4.0])
    np.testing.assert_allclose(special.hyp2f1(-3.0, 4.0, 1.0, (1 - x) / 2), (5 * x ** 3 - 3 * x) / 2, 1e-13)
    np.testing.assert_allclose(grad(special.hyp2f1, 2)(3.0, -2.0, 1.0, 1.7), -15.81, 1e-10)


# z and w(z), with mpmath
FADDEEVA = [
    (1.5 + 1j, 0.21183658596851057 + 0.23317097740444245j), (-6.086971833496787 + 0.10294686443409806j,
     0.0016352904722043207 - 0.09396439015035334j), (-0.0006063451620484722 + 0.0007423746577126032j,
     0.9991625036755248 - 0.0006832875646375566j), (7.7722243982393024 + 0.06935880938069183j,
     0.000664529432693116 + 0.07320082020138079j), (30 - 1j, -0.0006272253836101256 + 0.01879584239989071j)]


def test_faddeeva_function(x64):
    z, want = np.array(FADDEEVA).T
    np.testing.assert_allclose(jit(special.wofz)(z).real, want.real, 3e-15)
    np.testing.assert_allclose(special.wofz(z).imag, want.imag, 3e-15)
    np.testing.assert_allclose(special.wofz(z.astype(np.complex64)), want, 2e-6)
    x = np.linspace(-9, 9, 19)  # on the real axis, where both parts have all digits
    np.testing.assert_allclose(special.wofz(x).real, np.exp(-x * x), 1e-14)
    np.testing.assert_allclose(special.wofz(x).imag, 2 / np.sqrt(np.pi) * special.dawsn(x), 1e-14)
    np.testing.assert_allclose(special.wofz(1j * x[9:]).real, special.erfcx(x[9:]), 1e-14)


def test_derivatives_of_the_faddeeva_function(x64):
    """w' = 2i / sqrt(pi) - 2 z w, and w'' = -2 w - 2 z w'."""
    first = grad(special.wofz, holomorphic=True)
    second = grad(first, holomorphic=True)
    for z in (1 + 1j, -2 + 0.5j, -1 - 1j, 2 - 1.5j):
        derivative = 2j / np.sqrt(np.pi) - 2 * z * special.wofz(z)
        np.testing.assert_allclose(first(z), derivative, 1e-13)
        np.testing.assert_allclose(second(z), -2 * special.wofz(z) - 2 * z * derivative, 1e-12)
    np.testing.assert_allclose(second(1e5 + 3j), 1.0155412478471082e-19 + 1.128379161340779e-15j, 1e-14)


def test_edges_of_the_faddeeva_function():
    got = np.asarray(special.wofz(np.array([inf, -inf, complex(0, inf), complex(inf, 1), nan, -40j], np.complex64)))
    np.testing.assert_array_equal(got[:4], np.zeros(4))
    assert np.isnan(got[4]) and got[5] == complex(inf, 0)
    assert special.wofz(3).dtype == np.complex64
    assert eval_shape(special.wofz, np.ones(2, np.float16)).dtype == np.complex64


def test_logarithm_of_gamma_of_complex_numbers(x64):
    z = np.array([1 + 1j, -2.5 + 0.3j, 1.2 - 0.1j, 30 + 2j, -20.3 - 7j])  # mpmath
    want = [-0.6509231993018564 - 0.3016403204675332j, -0.43208889261320194 - 9.093345421289742j,
            -0.09169751241265475 + 0.028658497320683367j, 71.18930065802638 + 6.77040584626085j,
            -62.24083227705463 + 43.97197877163458j]
    np.testing.assert_allclose(jit(special.loggamma)(z), want, 1e-13)
    np.testing.assert_allclose(special.loggamma(z.astype(np.complex64)), want, 1e-5)
    above, below = special.loggamma(np.array([complex(-1.5, 0.0), complex(-1.5, -0.0)]))
    np.testing.assert_allclose([above, below], [0.8600470153764812 - 2j * np.pi, 0.8600470153764812 + 2j * np.pi], 1e-14)
    assert np.isnan(special.loggamma(np.complex128(-2)))
    h = 1e-5
    for p in z:
        difference = (special.loggamma(p + h) - special.loggamma(p - h)) / (2 * h)
        np.testing.assert_allclose(grad(special.loggamma, holomorphic=True)(p), difference, 1e-8)


def test_owens_t_and_its_derivatives(x64):
    h, a = np.array([0.3, -1.5, 6.0, 30.0]), np.array([1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(special.owens_t(h, a), special.ndtr(h) * special.ndtr(-h) / 2, 1e-13)
    np.testing.assert_allclose(special.owens_t(0.0, np.array([0.5, 3.0])), np.arctan([0.5, 3.0]) / (2 * np.pi), 1e-14)
    for h, a in ((0.7, 0.4), (-1.1, 2.5), (2.0, -0.999), (2.0, 1.001)):
        e = 1e-5
        by_h = (special.owens_t(h + e, a) - special.owens_t(h - e, a)) / (2 * e)
        by_a = (special.owens_t(h, a + e) - special.owens_t(h, a - e)) / (2 * e)
        np.testing.assert_allclose(grad(special.owens_t, (0, 1))(h, a), [by_h, by_a], 1e-8)
        mixed = [grad(lambda x: grad(special.owens_t, 0)(h, x))(a), grad(lambda x: grad(special.owens_t, 1)(x, a))(h)]
        np.testing.assert_allclose(*mixed, 1e-12)
    assert [float(t) for t in grad(special.owens_t, (0, 1))(1.0, inf)][1] == 0


def test_numbers_of_combinations():
    n, k = np.arange(31)[:, None], np.arange(31)
    want = np.array([[math.comb(i, j) for j in range(31)] for i in range(31)], np.float64)
    exact = want < 2 ** 17
    got = special.comb(n, k)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(got)[exact], want[exact])
    np.testing.assert_allclose(got, want, 1e-6)
    np.testing.assert_array_equal(special.comb(5, np.array([2, 6, 0]), repetition=True), [15, 210, 1])
    assert special.comb(0, 0, repetition=True) == 1
    with config.enable_x64(True):
        np.testing.assert_array_equal(special.comb(n, k), want)
        np.testing.assert_allclose(special.comb(1000.0, 500.0), float(math.comb(1000, 500)), 1e-12)
        np.testing.assert_allclose(special.comb(2.5, 1.5), 2.5, 1e-14)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_softmax(axis, x64):
    x = np.array([[1.0, 2, -800], [0.5, 3, 1000]])
    e = np.exp(x - x.max(axis, keepdims=True))
    np.testing.assert_allclose(special.softmax(x, axis=axis), e / e.sum(axis, keepdims=True), 1e-14)
    log = special.log_softmax(x, axis=axis)
    np.testing.assert_allclose(log, x - special.logsumexp(x, axis=axis, keepdims=True), 1e-14, 1e-14)
    y, t = jvp(lambda x: special.softmax(x, axis=axis), (x,), (x / 100,))
    np.testing.assert_allclose(t, y * (x / 100 - np.sum(y * x / 100, axis, keepdims=True)), 1e-13, 1e-16)
    np.testing.assert_allclose(jvp(lambda x: special.log_softmax(x, axis=axis), (x,), (x / 100,))[1],
                               x / 100 - np.sum(y * x / 100, axis, keepdims=True), 1e-12, 1e-13)


def test_spherical_harmonics_with_the_arguments_of_scipy():
    n, m = np.arange(4)[:, None], np.arange(-3, 4)
    np.testing.assert_array_equal(special.sph_harm_y(n, m, 0.3, 0.4), special.sph_harm(m, n, 0.4, 0.3))
    np.testing.assert_allclose(special.sph_harm_y(2, 1, 0.3, 0.4), -0.20088968520084055 - 0.08493479661735943j, 1e-6)
    with pytest.raises(NotImplementedError, match="sph_harm_y: diff_n must be None; got 1"):
        special.sph_harm_y(2, 1, 0.3, 0.4, diff_n=1)
    with pytest.raises(TypeError, match="sph_harm_y: the highest degree is not known"):
        jit(lambda n: special.sph_harm_y(n, 0, 0.1, 0.2))(2)


def test_entropy_of_poisson():
    mu = np.float32([0.0, 0.5, 3.0, 11.9, 12.1, 1e5, -1, nan])
    want = [0, 0.92763747, 1.9314702, 2.6498713, 2.6583324, 7.17540043, nan, nan]  # sums of -p log(p)
    np.testing.assert_allclose(stats.poisson.entropy(mu), want, 2e-6)
    with config.enable_x64(True):
        near = stats.poisson.entropy(np.array([59.9, 60.1]))
        np.testing.assert_allclose(near, [3.463873710663806, 3.4655450882442724], 1e-13)
        np.testing.assert_allclose(grad(stats.poisson.entropy)(3.0), 0.18243085, 1e-6)
        np.testing.assert_allclose(grad(stats.poisson.entropy)(300.0), 1 / 600 + 1 / (12 * 9e4) + 1 / (12 * 27e6), 1e-6)


def test_types_and_errors():
    pairs = {"comb": 2, "boxcox": 2, "boxcox1p": 2, "owens_t": 2, "hyp2f1": 4, "erfcx": 1, "dawsn": 1, "erfcinv": 1,
             "loggamma": 1}
    for name, count in pairs.items():
        f = getattr(special, name)
        for given in (np.int8, np.bool_, np.float16, lnp.bfloat16):
            want = given if given in (np.float16, lnp.bfloat16) else np.float32
            assert eval_shape(f, *[lnp.ones(2, given)] * count).dtype == want, name
    x = np.linspace(0.1, 0.9, 5, dtype=np.float32)
    mapped = vmap(special.hyp2f1, (None, None, None, 0))(1.0, 2.0, 3.0, x)
    np.testing.assert_allclose(mapped, special.hyp2f1(1.0, 2.0, 3.0, x), 1e-6)
    for wrong, error, words in ((lambda: special.erfcx(1j), DTypeError, "erfcx: expected real numbers"),
                                (lambda: special.sici("a"), TypeError, "sici"),
                                (lambda: special.softmax(x * 1j), DTypeError, "softmax: expected real numbers"),
                                (lambda: special.owens_t(x, np.ones(4)), ShapeError, "owens_t: incompatible shapes")):
        with pytest.raises(error, match=words):
            wrong()
