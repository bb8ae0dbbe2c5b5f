"""Strict settings apply to user code, not to the implementation of library functions."""
from contextlib import ExitStack

import lamina
import lamina.experimental.ode
import lamina.nn as nn
import lamina.numpy as jnp
import lamina.scipy.spatial.transform
import numpy as np
import pytest
from lamina import config, lax, random
from lamina_ir import trees

STRICT = {"numpy_rank_promotion": "raise", "numpy_dtype_promotion": "strict", "check_tracer_leaks": True, "debug_nans": True,
          "transfer_guard": "disallow", "enable_checks": True}
LEAKING = ("transformations", "lax", "rows")  # checking for leaks collects all garbage, which is slow
M = jnp.asarray(np.array([[2.5, 0.7, 0.2], [0.5, 2.9, 0.1], [0.4, 0.6, 2.8]], np.float32))
V, I, B = M[0], jnp.asarray(np.array([1, 2, 0], np.int32)), jnp.asarray(np.array([True, False, True]))
KEY = random.PRNGKey(0)
S, C, sp = M @ M.T, M + 1j * M.T, lamina.scipy


def rotations(m):
    rotation = sp.spatial.transform.Rotation.from_rotvec(m)
    return sp.spatial.transform.Slerp.init(m[0].sort(), rotation)(m[0]).as_quat(), rotation.mean().as_quat()


CALLS = {
    "arithmetic": lambda: (M + 1, 2.0 * M, -M, M / 3, M ** 2, M > 0.5, M @ M, abs(M), I % 2, ~B),
    "indexing": lambda: (M[0], M[:, 1:], M[-1, 0], V[I], V[V > 0.5], M.at[0].set(1.0), M.at[I].add(1.0), M[None], V[::-1]),
    "made": lambda: (jnp.ones(3), jnp.zeros((2, 3)), jnp.full(3, 2.0), jnp.arange(5), jnp.eye(3), jnp.linspace(0.0, 1.0, 5),
                     jnp.tri(3), jnp.array([1, 2]), jnp.asarray([1.0, 2.0]), jnp.indices((2, 2)), jnp.zeros_like(M)),
    "selection": lambda: (jnp.where(B, V, 0.0), jnp.select([B], [V], 0.0), jnp.clip(V, 0.0, 1.0), jnp.compress(B, M, axis=0),
                          jnp.extract(B, V), jnp.nonzero(B), jnp.take(V, 1), jnp.choose(I, [V, V, V])),
    "places": lambda: (jnp.delete(V, 1), jnp.insert(V, 1, 0.5), jnp.repeat(V, 2), jnp.tile(V, 2), jnp.roll(V, 1), jnp.pad(V, 1),
                       jnp.searchsorted(jnp.sort(V), V), jnp.unique(I), jnp.isin(I, I), jnp.flip(M, 0)),
    "reductions": lambda: (M.sum(), M.mean(0), jnp.std(M, 0), jnp.median(M, 1), jnp.quantile(M, 0.3), jnp.cumsum(V),
                           jnp.argmax(M, 1), jnp.bincount(I), jnp.percentile(I, 30.0)),
    "polynomials": lambda: (jnp.polyval(V, V), jnp.polymul(V, V), jnp.vander(V), jnp.convolve(V, V),
                            jnp.interp(V, jnp.sort(V), V), jnp.unwrap(V), jnp.logspace(0, 2, 3), jnp.geomspace(1, 8, 4)),
    "linear": lambda: (jnp.linalg.inv(M), jnp.linalg.solve(M, V), jnp.linalg.norm(M), jnp.outer(V, V),
                       jnp.einsum("ij,j->i", M, V), jnp.linalg.qr(M)),
    "fft": lambda: (jnp.fft.fft(V), jnp.fft.irfft(jnp.fft.rfft(V), 3), jnp.fft.fftfreq(4), jnp.fft.fftshift(V)),
    "random": lambda: (random.PRNGKey(1), random.split(KEY), random.normal(KEY, (3,)), random.randint(KEY, (3,), 0, 9),
                       random.uniform(KEY, (3,), np.float32, 0.0, 2.0), random.permutation(KEY, 5),
                       random.fold_in(KEY, 3), random.bernoulli(KEY, 0.5, (3,))),
    "nn": lambda: (nn.relu(M), nn.gelu(M), nn.softmax(M), nn.log_softmax(M), nn.one_hot(I, 3), nn.swish(V),
                   nn.initializers.lecun_normal()(KEY, (3, 3)), nn.logsumexp(M)),
    "lax": lambda: (lax.fori_loop(0, 3, lambda i, c: c + 1, V), lax.scan(lambda c, x: (c + x, c * 2), V, M), lax.cond(
        True, jnp.sin, jnp.cos, V), lax.dynamic_slice(V, (0,), (2,)), lax.full((2,), 1.0), lax.select(B, V, V), lax.top_k(V, 2),
        lax.while_loop(lambda c: c[0] < 3.0, lambda c: c + 1.0, V), lax.switch(1, [jnp.sin, jnp.cos], V)),
    "transformations": lambda: (lamina.grad(lambda x: (x * 2).sum())(V), lamina.vmap(lambda x: x + 1)(M), lamina.hessian(
        lambda x: (x ** 3).sum())(V), lamina.jit(lambda x: jnp.sin(x) * 2)(V), lamina.jvp(jnp.tanh, (V,), (V,)),
        lamina.jacfwd(jnp.sin)(V), lamina.pmap(lambda x: x * 2)(M[:1]), lamina.checkpoint(lambda x: x * 2)(V)),
    "rows": lambda: [row * 2 for row in M],
    "scipy fft": lambda: (sp.fft.dct(M), sp.fft.idctn(M), sp.fft.dct(M, norm="ortho")),
    "scipy signal": lambda: (sp.signal.detrend(M), sp.signal.csd(M, M, nperseg=2), sp.signal.welch(M, nperseg=2),
                             sp.signal.istft(sp.signal.stft(M, nperseg=2)[2], nperseg=2), sp.signal.convolve(V, V)),
    "scipy linalg": lambda: (sp.linalg.cholesky(S), sp.linalg.lu(jnp.stack([M, M])), sp.linalg.expm(jnp.stack([M, M])),
                             sp.linalg.funm(M, jnp.exp), sp.linalg.hilbert(3), sp.linalg.schur(M, "complex"),
                             sp.linalg.eigh_tridiagonal(V, V[1:], eigvals_only=True)),
    "scipy places": lambda: (sp.cluster.vq.vq(M, M), sp.ndimage.map_coordinates(M, [V, V], 1), rotations(M),
                             sp.interpolate.RegularGridInterpolator((V.sort(), V.sort()), M, "nearest")(M[:, :2] * 0 + V[0])),
    "scipy stats": lambda: (sp.stats.rankdata(M), sp.stats.multivariate_normal.logpdf(M, V, S), sp.stats.binom.pmf(I, 4, 0.5),
                            sp.stats.multinomial.pmf(I, 3, V / 4), sp.stats.gaussian_kde(jnp.concatenate([M, M * M], 1))(M)),
    "scipy special": lambda: (sp.special.multigammaln(V + 2, 2), sp.special.lpmn(2, 2, V / 4),
                              sp.special.sph_harm(I[:1], I[1:2], V[:1], V[:1], n_max=3)),
    "scipy derivatives": lambda: (lamina.grad(lambda x: sp.special.betainc(2.0, 3.0, x).sum())(V / 4),
                             lamina.grad(lambda a: random.gamma(KEY, a).sum())(V)),
    "more": lambda: (nn.initializers.orthogonal()(KEY, (3, 4)), nn.standardize(C), lamina.image.resize(M, (2, 5), "cubic"),
                     lamina.experimental.ode.odeint(lambda y, t: -y, V, V.sort()))}


def values(results):
    return [np.asarray(x) for x in trees.tree_leaves(results)]


@pytest.mark.usefixtures("small_heap")
@pytest.mark.slow  # checking for leaks collects all garbage after each call
@pytest.mark.parametrize("name", CALLS)
def test_library_functions_under_all_strict_settings(name):
    wanted = values(CALLS[name]())
    with ExitStack() as blocks:
        for setting, value in STRICT.items():
            if setting != "check_tracer_leaks" or name in LEAKING:
                blocks.enter_context(getattr(lamina, setting)(value))
        for _ in range(2):  # the second call uses the fast path
            found = CALLS[name]()
    assert [x.dtype for x in values(found)] == [x.dtype for x in wanted]
    for a, b in zip(values(found), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("call", [lambda: V + np.ones(3, np.float32), lambda: jnp.sum(np.ones(3, np.float32)),
                                  lambda: jnp.add(V, np.ones(3, np.float32)), lambda: V[np.array([0, 1])],
                                  lambda: TWICE(np.ones(3, np.float32)), lambda: TWICE(1.0)])
def test_transfers_by_user_code_are_refused(call):
    call()
    with lamina.transfer_guard("disallow"):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Disallowed host-to-device"):
                call()
    call()


TWICE = lamina.jit(lambda x: x * 2)


def test_promotions_by_user_code_are_refused():
    with config.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank promotion"):
        M + V
    with config.numpy_dtype_promotion("strict"), pytest.raises(TypeError, match="strict dtype promotion"):
        V + I
