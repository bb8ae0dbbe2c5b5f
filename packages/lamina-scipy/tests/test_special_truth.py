"""Values, derivatives and second derivatives of special functions at points of each of their regimes, compared
with `special_truth.json`.

`python test_special_truth.py`, in an environment with mpmath, writes that table; truth.py says what is in it.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import truth  # noqa: E402

FILE = Path(__file__).parent / "special_truth.json"
NEAR, FAR = (0.25, 0.75, 1.5, 2.5, 4.0), (1e-6, 0.01, 10.0, 30.0, 80.0)
SIGNED = (-20.0, -4.5, -1.5, -0.25, 1e-4, 0.25, 1.5, 4.5, 20.0)
SHARES = (1e-20, 1e-5, 0.1, 0.4375, 0.5625, 0.9, 0.9990234375)
PAIRS = ((0.5, 0.25), (0.5, 3.0), (2.5, 0.01), (2.5, 2.25), (2.5, 30.0), (30.0, 10.0), (30.0, 31.0), (300.0, 280.0),
         (1e-3, 1e-3), (1e-3, 2.0), (3.0, 3.5), (500.0, 500.0), (20.0, 1e-3))
RATIOS = ((0.25, 0.75), (1.0, 1.0009765625), (30.0, 1e-3), (1e-20, 2.0), (0.5, 1e-25), (1e-25, 1e12), (1e-20, 1e-20))
# name -> the points
POINTS = {
    "bessel_jn": [(x,) for x in (*SIGNED, 80.0)], "factorial": [(x,) for x in (*NEAR, 1e-6, 20.0)],
    "multigammaln": [(x,) for x in (1.0009765625, 1.5, 2.5, 80.0, 1e6)],
    "gamma": [(x,) for x in (*NEAR, 1e-6, 10.0, 30.0, -0.25, -3.5, -20.25)],
    "gammaln": [(x,) for x in (*NEAR, *FAR, 1e6, 1e20, 0.9990234375, 2.0009765625, -0.25, -3.5)],
    "digamma": [(x,) for x in (*NEAR, *FAR, 1.4609375, 1e6, -0.25, -3.5, -3.00390625)],
    "polygamma": [(n, x) for n in (1.0, 2.0, 5.0, 20.0) for x in (0.01, 0.75, 2.5, 11.0, 30.0, 1e4)] + [
        (20.0, 100.0), (34.0, 11.0), (60.0, 100.0), (171.0, 100.0), (200.0, 60.0)],
    "zeta": [(x, q) for x in (1.0625, 2.5, 7.0, 30.0) for q in (0.25, 1.0, 3.5, 11.0, 40.0)],
    "beta": [(0.25, 0.5), (1.5, 2.5), (3.0, 40.0), (1e-3, 1e-3), (20.0, 25.0), (1e-4, 0.5), (3.0, 1e-5), (-0.25, -2.5),
             (-0.25, 1e-6), (1e-3, -1.5), (2.5, -4.5), (40.5, -40.5), (-3.5, 0.5000152587890625)],
    "betaln": [(0.25, 0.5), (1.5, 2.5), (3.0, 4e6), (1e-3, 1e-3), (2000.0, 2500.0), (1e8, 1e8)],
    "gammainc": PAIRS, "gammaincc": PAIRS,
    "betainc": [(a, b, x) for a, b in (
        (0.5, 0.5), (2.5, 1.5), (0.25, 8.0), (40.0, 30.0), (3.0, 1e-4), (1e-4, 2.0), (1e-3, 1e-2), (200.0, 100.0))
        for x in (0.01, 0.375, 0.5625, 0.9)],
    "poch": [(1.5, 2.5), (0.25, 0.01), (30.0, 0.5), (2.5, -1.25), (100.0, 10.0), (1e-4, 2.0), (-0.001, 1.25),
             (-2.25, -1.5), (-2.0, 1.75), (-0.9999847412109375, 2.5)],
    "exp1": [(x,) for x in (*NEAR, *FAR)], "expi": [(x,) for x in (*SIGNED, 0.375, 80.0)],
    "expn": [(n, x) for n in (0.0, 1.0, 2.0, 7.0, 40.0) for x in (0.01, 0.75, 2.5, 30.0)],
    "spence": [(x,) for x in (1e-6, 0.25, 0.75, 0.9990234375, 1.0009765625, 1.5, 2.5, 30.0, 1e6)],
    "hyp1f1": [(a, b, x) for a, b in ((1.25, 2.5), (-2.25, 0.75), (3.0, 20.0)) for x in (-8.0, -0.5, 0.25, 12.0)] + [
        (0.0, 1.5, -20.0), (-1.0, 0.5, -20.0), (-3.0, 2.0, 25.0), (2.5, 2.5, -12.0), (-9.75, 24.0, 25.0), (4.0, 2.0, 1e-3)],
    "i0": [(x,) for x in SIGNED], "i1": [(x,) for x in SIGNED], "i0e": [(x,) for x in (*SIGNED, 8.0, 12.0, 28.0, 500.0)],
    "i1e": [(x,) for x in (*SIGNED, 8.0, 12.0, 28.0, 500.0)],
    "entr": [(x,) for x in (1e-20, 0.25, 0.375, 1.0009765625, 30.0)],
    "kl_div": RATIOS, "rel_entr": RATIOS,
    "xlogy": [(0.25, 0.75), (-3.0, 1e-20), (2.0, 1.0009765625)], "xlog1py": [(0.25, -0.75), (-3.0, 1e-20), (2.0, 30.0)],
    "logit": [(x,) for x in SHARES], "expit": [(x,) for x in (*SIGNED, -80.0, 80.0)],
    "ndtr": [(x,) for x in (-12.0, *SIGNED[1:-1])], "ndtri": [(x,) for x in SHARES],
    "log_ndtr": [(x,) for x in (-1e4, -30.0, *SIGNED[1:-1])],
    "erf": [(x,) for x in SIGNED[1:-1]], "erfc": [(x,) for x in (*SIGNED[1:-1], 9.0)],
    "erfinv": [(x,) for x in (-0.9990234375, -0.5, 1e-6, 0.375, 0.875, 0.99993896484375)]}
POINTS.update({
    "erfcinv": [(x,) for x in (1e-20, 0.01, 0.5, 0.9990234375, 1.0009765625, 1.5, 1.9990234375)],
    "erfcx": [(x,) for x in (-8.0, -1.5, -1e-4, 1e-4, 0.25, 1.5, 6.0, 80.0, 1e6)],
    "dawsn": [(x,) for x in (*SIGNED, 6.0, 9.0, 80.0, 1e6)],
    "sici sine": [(x,) for x in (*SIGNED, 3.5, 6.0, 80.0)],
    "sici cosine": [(x,) for x in (1e-4, 0.25, 0.6171875, 1.5, 3.390625, 6.0, 80.0)],
    "fresnel sine": [(x,) for x in (*SIGNED, 0.9375, 6.0)], "fresnel cosine": [(x,) for x in (*SIGNED, 0.9375, 6.0)],
    "loggamma": [(x,) for x in (1e-4, 0.25, 0.9990234375, 1.5, 2.0009765625, 4.5, 80.0)],
    "boxcox": [(x, p) for x in (1e-3, 0.75, 1.0009765625, 30.0) for p in (-2.5, 1e-3, 0.25, 3.0)],
    "boxcox1p": [(x, p) for x in (-0.875, 1e-4, 0.75, 30.0) for p in (-2.5, 1e-3, 0.25, 3.0)],
    "comb": [(5.0, 2.0), (40.0, 17.0), (2.5, 0.75), (100.0, 3.5), (7.0, 0.25), (70.0, 33.0)]})
STILL = {"polygamma", "expn"}  # have no derivative in their first argument


def meanings(mp):
    """name -> the function, with mpmath."""
    gammainc = lambda a, x: mp.gammainc(a, 0, x, regularized=True)
    integral = lambda n, x: mp.exp(-x) / x if n == 0 else mp.expint(n, x)
    entr = lambda x: -x * mp.log(x)

    def zeta(x, q):
        with mp.workdps(mp.mp.dps + 60):  # whose sum has digits behind the point
            return mp.zeta(x, q)

    def power_of(x, p):
        return (x ** p - 1) / p

    return {
        "erfcinv": lambda x: mp.erfinv(1 - x), "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x), "boxcox": power_of,
        "boxcox1p": lambda x, p: power_of(1 + x, p), "comb": mp.binomial,
        "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), "loggamma": mp.loggamma, "sici sine": mp.si,
        "sici cosine": mp.ci, "fresnel sine": mp.fresnels, "fresnel cosine": mp.fresnelc,
        "bessel_jn": lambda x: mp.besselj(3, x), "factorial": lambda x: mp.gamma(x + 1),
        "multigammaln": lambda x: 3 * mp.log(mp.pi) / 2 + sum(mp.loggamma(x - mp.mpf(j) / 2) for j in range(3)),
        "gamma": mp.gamma, "gammaln": lambda x: mp.log(abs(mp.gamma(x))), "digamma": mp.digamma, "polygamma": mp.polygamma,
        "zeta": zeta, "beta": mp.beta, "betaln": lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
        "gammainc": gammainc, "gammaincc": lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True),
        "betainc": lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), "poch": mp.rf, "exp1": mp.e1,
        "expi": lambda x: mp.re(mp.ei(x)), "expn": integral, "spence": lambda x: mp.re(mp.polylog(2, 1 - x)),
        "hyp1f1": mp.hyp1f1, "i0": lambda x: mp.besseli(0, x), "i1": lambda x: mp.besseli(1, x),
        "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
        "entr": entr, "rel_entr": lambda p, q: p * mp.log(p / q), "kl_div": lambda p, q: p * mp.log(p / q) - p + q,
        "xlogy": lambda x, y: x * mp.log(y), "xlog1py": lambda x, y: x * mp.log(1 + y),
        "logit": lambda x: mp.log(x / (1 - x)), "expit": lambda x: 1 / (1 + mp.exp(-x)), "ndtr": mp.ncdf,
        "ndtri": lambda p: mp.findroot(lambda y: mp.log(mp.ncdf(y)) - mp.log(p), _start(mp, p)),
        "log_ndtr": lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), "erf": mp.erf, "erfc": mp.erfc, "erfinv": mp.erfinv}


def _start(mp, p):
    return float(mp.sqrt(2) * mp.erfinv(2 * min(max(float(p), 1e-15), 1 - 1e-15) - 1)) if p > 1e-15 else -9.2


def still(name):
    return (0,) if name in STILL else ()


def list_pairs(name):
    return truth.pairs(len(POINTS[name][0]), still(name))


if __name__ == "__main__":
    import mpmath
    truth.write(FILE, mpmath, meanings(mpmath), POINTS, still, list_pairs)
    sys.exit()

import pytest  # noqa: E402
from lamina_ir import config  # noqa: E402
from lamina_scipy import special  # noqa: E402

TABLE = json.loads(FILE.read_text())
FORMS = {"sici sine": lambda x: special.sici(x)[0], "sici cosine": lambda x: special.sici(x)[1],
         "fresnel sine": lambda x: special.fresnel(x)[0], "fresnel cosine": lambda x: special.fresnel(x)[1],
         "bessel_jn": lambda x: special.bessel_jn(x, v=3)[3],
         "multigammaln": lambda x: special.multigammaln(x, 3)}
MORE = {("i1e", False): 120, ("i1e", True): 120}  # eps that second derivatives may be off by, where it is more than 60: at 4.5


def test_every_point_is_in_the_table():
    assert {n: len(rows) for n, rows in TABLE.items()} == {n: len(points) for n, points in POINTS.items()}


@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_special(name, wide):
    with config.enable_x64(wide):
        truth.compare(FORMS.get(name) or getattr(special, name), TABLE[name], still(name), list_pairs(name), wide, 60,
                      MORE.get((name, wide), 60))
