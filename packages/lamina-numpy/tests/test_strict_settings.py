"""The library's own steps never need the promotions that the user has forbidden: operands that agree give results."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_ir import config
from lamina_tracing import jit

R = np.random.RandomState(0)
x = R.rand(4, 3).astype(np.float32)
v = R.rand(4).astype(np.float32)
i = np.arange(4, dtype=np.int32)
b = np.array([True, False, True, True])
s = (R.rand(3, 3) + 3 * np.eye(3)).astype(np.float32)
CALLS = {
    "where": lambda: jnp.where(b, v, v), "sum": lambda: jnp.sum(x, where=x > 0), "mean": lambda: jnp.mean(x, 0, where=x > 0),
    "var": lambda: jnp.var(x, 0, where=x > 0), "std": lambda: jnp.std(x), "average": lambda: jnp.average(x, 0, weights=v),
    "nanvar": lambda: jnp.nanvar(x, 0), "nanargmax": lambda: jnp.nanargmax(x, 0), "cov": lambda: jnp.cov(x, aweights=v[:3]),
    "corrcoef": lambda: jnp.corrcoef(x), "quantile": lambda: jnp.quantile(x, np.float32([0.3, 0.5]), axis=0),
    "nanquantile": lambda: jnp.nanquantile(x, 0.3, axis=0), "median": lambda: jnp.median(x, axis=0),
    "percentile": lambda: jnp.percentile(x, 30.0, axis=0, method="nearest"), "outer": lambda: jnp.outer(v, v),
    "kron": lambda: jnp.kron(s, s), "cross": lambda: jnp.cross(x, x), "vecdot": lambda: jnp.vecdot(x, x),
    "einsum": lambda: jnp.einsum("ij,jk,i->k", x, s, v), "einsum_diagonal": lambda: jnp.einsum("ii->i", s),
    "interp": lambda: jnp.interp(x, np.sort(v), v), "gradient": lambda: jnp.gradient(x, v, axis=0),
    "trapezoid": lambda: jnp.trapezoid(x, v, axis=0), "unwrap": lambda: jnp.unwrap(x, axis=0),
    "convolve": lambda: jnp.convolve(v, v), "histogram2d": lambda: jnp.histogram2d(v, v),
    "digitize": lambda: jnp.digitize(x, v),
    "bincount": lambda: jnp.bincount(i, weights=v), "unique": lambda: jnp.unique(v, size=3), "isin": lambda: jnp.isin(i, i),
    "tril": lambda: jnp.tril(s), "fill_diagonal": lambda: jnp.fill_diagonal(s, v[:3], inplace=False),
    "nonzero": lambda: jnp.nonzero(x > 0, size=3), "put": lambda: jnp.put(v, i, v, mode="wrap", inplace=False),
    "select": lambda: jnp.select([b], [v], 0.0), "choose": lambda: jnp.choose(i % 2, [i, i], mode="wrap"),
    "piecewise": lambda: jnp.piecewise(v, [v > 0.5], [lambda z: z, 0.0]),
    "compress": lambda: jnp.compress(b, x, axis=0, size=2), "place": lambda: jnp.place(v, b, v, inplace=False),
    "unravel_index": lambda: jnp.unravel_index(i, (2, 2)), "pad_mean": lambda: jnp.pad(x, 1, mode="mean"),
    "pad_odd": lambda: jnp.pad(x, 1, mode="reflect", reflect_type="odd"), "linspace": lambda: jnp.linspace(0.0, v, 5),
    "pad_median": lambda: jnp.pad(x, 1, mode="median"), "roll": lambda: jnp.roll(x, i[:1], 0),
    "insert": lambda: jnp.insert(v, 2, 1.0),
    "poly": lambda: jnp.poly(v), "polyval": lambda: jnp.polyval(v, x), "polydiv": lambda: jnp.polydiv(v, v[:2]),
    "polyfit": lambda: jit(lambda v: jnp.polyfit(v, v * v, 1, cov=True))(v),
    "polyfit_rows": lambda: jit(lambda v, x: jnp.polyfit(v, x, 1, cov=True))(v, x),
    "vander": lambda: jnp.vander(v), "sinc": lambda: jnp.sinc(x), "i0": lambda: jnp.i0(x), "frexp": lambda: jnp.frexp(x),
    "isclose": lambda: jnp.isclose(x, x), "power": lambda: jnp.power(i, i), "divmod": lambda: jnp.divmod(x, x),
    "norm": lambda: jnp.linalg.norm(x, 3, axis=0), "det": lambda: jnp.linalg.det(s), "inv": lambda: jnp.linalg.inv(s),
    "solve": lambda: jnp.linalg.solve(s, v[:3]), "pinv": lambda: jnp.linalg.pinv(x), "lstsq": lambda: jnp.linalg.lstsq(x, v),
    "matrix_rank": lambda: jnp.linalg.matrix_rank(x), "irfft": lambda: jnp.fft.irfft(v + 0j * v),
    "fftfreq": lambda: jnp.fft.fftfreq(4),
    "geomspace": lambda: jnp.geomspace(v, v + 1, 5), "logspace": lambda: jnp.logspace(i, i, 3),
    "percentile_of_integers": lambda: jnp.percentile(i, i), "unwrap_integers": lambda: jnp.unwrap(i),
    "vander_of_booleans": lambda: jnp.vander(b),
    "packbits": lambda: jnp.packbits(b), "vectorize": lambda: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, x)}


@pytest.mark.parametrize("name", CALLS)
def test_calls_pass_under_strict_settings(name):
    with config.numpy_rank_promotion("raise"), config.numpy_dtype_promotion("strict"):
        CALLS[name]()


def test_the_users_own_promotions_are_refused():
    with config.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank promotion"):
        jnp.add(x, v[:3])
    with config.numpy_dtype_promotion("strict"), pytest.raises(TypeError, match="strict dtype promotion"):
        jnp.add(v, i)
