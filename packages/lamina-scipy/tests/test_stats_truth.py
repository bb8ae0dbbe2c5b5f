"""Values, derivatives and second derivatives of distributions, in the place and in every parameter, compared with
`stats_truth.json`.

`python test_stats_truth.py`, in an environment with mpmath, writes that table; truth.py says what is in it.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import truth  # noqa: E402

FILE = Path(__file__).parent / "stats_truth.json"
MOVED = (0.5, 2.0)  # location and scale
LINE = [(x, *MOVED) for x in (-20.0, -2.5, 0.25, 0.75, 3.0, 30.0)]
QUANTILES = [(q, *MOVED) for q in (1e-10, 0.01, 0.375, 0.75, 0.9990234375)]
GAMMA = [(x, a, *MOVED) for a in (0.5, 3.0, 40.0) for x in (0.53125, 2.0, 30.0, 90.0, 400.0)]
SMALL = [(x, 1e-3, *MOVED) for x in (0.53125, 2.0, 30.0)]
BETA = [(x, a, b, *MOVED) for a, b in ((0.5, 2.0), (3.0, 2.5), (60.0, 40.0)) for x in (0.51953125, 1.0, 1.75, 2.4375)]
CUT = [(x, a, b, *MOVED) for a, b in ((-1.0, 2.0), (1.5, 3.0), (-8.0, -5.0)) for x in [0.5 + 2 * (a + t * (b - a)) for t in (
    0.0625, 0.5, 0.875)]]
PARETO = [(x, b, *MOVED) for b in (0.5, 3.0) for x in (2.5625, 4.0, 60.0)]
# law -> the kinds it has, and the points
LAWS = {
    "beta": ("pdf logpdf cdf sf logcdf logsf", BETA), "cauchy": ("pdf logpdf cdf sf logcdf logsf", LINE),
    "chi2": ("pdf logpdf cdf sf logcdf logsf", GAMMA),
    "expon": ("pdf logpdf cdf sf logcdf logsf", [p for p in LINE if p[0] > 0.5]),
    "gamma": ("pdf logpdf cdf sf logcdf logsf", GAMMA),
    "gennorm": ("pdf logpdf cdf", [(x, b) for b in (0.75, 2.0, 5.5) for x in (-3.0, -0.25, 0.5, 2.0)]),
    "gumbel_l": ("pdf logpdf cdf sf logcdf logsf", [p for p in LINE if p[0] < 9]),
    "gumbel_r": ("pdf logpdf cdf sf logcdf logsf", [p for p in LINE if p[0] > -9]), "laplace": ("pdf logpdf cdf", LINE),
    "logistic": ("pdf logpdf cdf sf", LINE), "norm": ("pdf logpdf cdf sf logcdf logsf", LINE),
    "pareto": ("pdf logpdf cdf sf logcdf logsf", PARETO),
    "t": ("pdf logpdf", [(x, v, *MOVED) for v in (0.75, 4.0, 300.0) for x in (-20.0, 0.25, 3.0)]),
    "truncnorm": ("pdf logpdf cdf sf logcdf logsf", CUT),
    "vonmises": ("pdf logpdf", [(x, k) for k in (0.5, 9.0) for x in (-2.0, 0.25, 1.5)]),
    "wrapcauchy": ("pdf logpdf", [(x, c) for c in (0.25, 0.875) for x in (0.25, 1.5, 4.0)]),
    # of counts, which have no derivative themselves
    "bernoulli": ("logpmf", [(0.0, 0.25), (1.0, 0.25)]),
    "betabinom": ("logpmf", [(k, 9.0, a, b) for a, b in ((0.5, 2.5), (30.0, 4.0)) for k in (0.0, 3.0, 9.0)]),
    "binom": ("logpmf", [(k, 9.0, p) for p in (0.01, 0.625) for k in (0.0, 3.0, 9.0)]),
    "geom": ("logpmf", [(k, p) for p in (0.01, 0.625) for k in (1.0, 2.0, 30.0)]),
    "nbinom": ("logpmf", [(k, n, p) for n in (0.75, 12.0) for p in (0.0625, 0.875) for k in (0.0, 3.0, 40.0)]),
    "poisson": ("logpmf cdf", [(k, m) for m in (0.25, 12.0) for k in (0.0, 3.0, 40.0)])}
KINDS = {f"{law}.{kind}": points for law, (kinds, points) in LAWS.items() for kind in kinds.split()}
KINDS |= {f"{law}.ppf": QUANTILES for law in ("cauchy", "expon", "gumbel_l", "gumbel_r", "logistic", "norm")}
KINDS |= {f"{law}.{kind}": GAMMA + SMALL for law in ("chi2", "gamma") for kind in ("logcdf", "logsf")}
KINDS["pareto.ppf"] = [(q, 3.0, *MOVED) for q, *_ in QUANTILES]
COUNTS = {"bernoulli": (0,), "betabinom": (0, 1), "binom": (0, 1), "geom": (0,), "nbinom": (0,), "poisson": (0,)}


def still(name):
    """Places of arguments without derivative."""
    return COUNTS.get(name.split(".")[0], ())


def list_pairs(name):
    """The pairs of places that second derivatives are in: that of a place, of an only parameter, where there are
    shares of the gamma
    and beta integrals those of the shapes too."""
    law = name.split(".")[0]
    last = len(KINDS[name][0]) - 1
    return [(last, last)] if still(name) else truth.pairs(3 if law == "beta" else 2) if law in ("beta", "gamma") else [(0, 0)]


def meanings(mp):
    """name -> the function, with mpmath."""
    log, exp, gamma, pi = mp.log, mp.exp, mp.loggamma, mp.pi
    betaln = lambda a, b: gamma(a) + gamma(b) - gamma(a + b)
    choose = lambda n, k: gamma(n + 1) - gamma(k + 1) - gamma(n - k + 1)
    below, above = mp.ncdf, lambda y: mp.ncdf(-y)
    share = lambda a, low, high: mp.gammainc(a, low, high, regularized=True)
    # law -> (log density or mass, share below, share above, quantile) in the standard place, as far as there are
    forms = {
        "beta": (lambda y, a, b: (a - 1) * log(y) + (b - 1) * mp.log1p(-y) - betaln(a, b),
                 lambda y, a, b: mp.betainc(a, b, 0, y, regularized=True),
                 lambda y, a, b: mp.betainc(b, a, 0, 1 - y, regularized=True)),
        "cauchy": (lambda y: -log(pi * (1 + y * y)), lambda y: mp.atan2(1, -y) / pi, lambda y: mp.atan2(1, y) / pi,
                   lambda q: -mp.cot(pi * q)),
        "chi2": (lambda y, k: (k / 2 - 1) * log(y) - y / 2 - gamma(k / 2) - k / 2 * log(2), lambda y, k: share(k / 2, 0, y / 2),
                 lambda y, k: share(k / 2, y / 2, mp.inf)),
        "expon": (lambda y: -y, lambda y: -mp.expm1(-y), lambda y: exp(-y), lambda q: -mp.log1p(-q)),
        "gamma": (lambda y, a: (a - 1) * log(y) - y - gamma(a), lambda y, a: share(a, 0, y), lambda y, a: share(a, y, mp.inf)),
        "gennorm": (lambda y, b: log(b / 2) - gamma(1 / b) - abs(y) ** b,
                    lambda y, b: share(1 / b, abs(y) ** b, mp.inf) / 2 if y < 0 else 1 - share(1 / b, y ** b, mp.inf) / 2),
        "gumbel_l": (lambda y: y - exp(y), lambda y: -mp.expm1(-exp(y)), lambda y: exp(-exp(y)), lambda q: log(-mp.log1p(-q))),
        "gumbel_r": (lambda y: -y - exp(-y), lambda y: exp(-exp(-y)), lambda y: -mp.expm1(-exp(-y)), lambda q: -log(-log(q))),
        "laplace": (lambda y: -abs(y) - log(2), lambda y: exp(y) / 2 if y < 0 else 1 - exp(-y) / 2),
        "logistic": (lambda y: -y - 2 * mp.log1p(exp(-y)), lambda y: 1 / (1 + exp(-y)), lambda y: 1 / (1 + exp(y)),
                     lambda q: log(q / (1 - q))),
        "norm": (lambda y: -y * y / 2 - log(2 * pi) / 2, below, above, lambda q: mp.sqrt(2) * mp.erfinv(2 * q - 1)),
        "pareto": (lambda y, b: log(b) - (b + 1) * log(y), lambda y, b: 1 - y ** -b, lambda y, b: y ** -b,
                   lambda q, b: (1 - q) ** (-1 / b)),
        "t": (lambda y, v: gamma((v + 1) / 2) - gamma(v / 2) - log(v * pi) / 2 - (v + 1) / 2 * mp.log1p(y * y / v),),
        "truncnorm": (lambda y, a, b: -y * y / 2 - log(2 * pi) / 2 - log(below(b) - below(a)),
                      lambda y, a, b: (below(y) - below(a)) / (below(b) - below(a)),
                      lambda y, a, b: (below(b) - below(y)) / (below(b) - below(a))),
        "vonmises": (lambda y, k: k * mp.cos(y) - log(2 * pi * mp.besseli(0, k)),),
        "wrapcauchy": (lambda y, c: log((1 - c * c) / (2 * pi * (1 + c * c - 2 * c * mp.cos(y)))),),
        "bernoulli": (lambda k, p: k * log(p) + (1 - k) * mp.log1p(-p),),
        "betabinom": (lambda k, n, a, b: choose(n, k) + betaln(k + a, n - k + b) - betaln(a, b),),
        "binom": (lambda k, n, p: choose(n, k) + k * log(p) + (n - k) * mp.log1p(-p),),
        "geom": (lambda k, p: log(p) + (k - 1) * mp.log1p(-p),),
        "nbinom": (lambda k, n, p: choose(k + n - 1, k) + n * log(p) + k * mp.log1p(-p),),
        "poisson": (lambda k, m: k * log(m) - m - gamma(k + 1), lambda k, m: share(k + 1, m, mp.inf))}
    found = {}
    for name, points in KINDS.items():
        law, kind = name.split(".")
        moved = points[0][-2:] == MOVED
        density, *shares = forms[law]

        def f(x, *rest, kind=kind, moved=moved, density=density, shares=shares):
            shapes, loc, scale = (rest[:-2], *rest[-2:]) if moved else (rest, 0, 1)
            if kind == "ppf":
                return loc + scale * shares[2](x, *shapes)
            y = (x - loc) / scale
            if kind in ("pdf", "logpdf", "pmf", "logpmf"):
                value = density(y, *shapes) - log(scale)
                return value if kind.startswith("log") else exp(value)
            value = shares[kind.endswith("sf")](y, *shapes)
            if not kind.startswith("log"):
                return value
            return log(value) if value < 0.5 else mp.log1p(-shares[kind.endswith("cdf")](y, *shapes))
        found[name] = f
    return found


if __name__ == "__main__":
    import mpmath
    truth.write(FILE, mpmath, meanings(mpmath), KINDS, still, list_pairs)
    sys.exit()

import pytest  # noqa: E402
from lamina_ir import config  # noqa: E402
from lamina_scipy import stats  # noqa: E402

TABLE = json.loads(FILE.read_text())

def test_every_point_is_in_the_table():
    assert {n: len(rows) for n, rows in TABLE.items()} == {n: len(points) for n, points in KINDS.items()}


@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_stats(name, wide):
    law, kind = name.split(".")
    with config.enable_x64(wide):
        truth.compare(getattr(getattr(stats, law), kind), TABLE[name], still(name), list_pairs(name), wide, 60, 60)
