"""140 public functions refuse invalid arguments with JAX's exception and their own name, without internal terms."""
import re

import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax, nn

A, V, M = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(6, dtype=np.float32), np.eye(3, dtype=np.float32)
INVALID = {"text": "a", "objects": np.array([None, 1]), "texts": np.array(["a"]), "None": None, "dict": {"a": 1}, "set": {1}}
ONE = """sin cos exp log sqrt abs negative sum mean prod max min std var median sort argsort cumsum argmax flip ravel squeeze
transpose isnan floor sign square conjugate round any all count_nonzero nonzero diff zeros_like ones_like diag tril
nan_to_num ptp
cumprod exp2 log1p tanh sinh reciprocal rint real imag logical_not nansum nanmax nanmean nanvar arccos cbrt deg2rad""".split()
TWO = """add subtract multiply power maximum minimum equal less logical_and arctan2 floor_divide dot matmul outer kron
cross inner
tensordot convolve hypot logaddexp copysign bitwise_and left_shift gcd remainder fmod heaviside vdot""".split()
WITH_AXIS = """sum mean prod max min std var median sort argsort cumsum argmax flip any all cumprod diff squeeze expand_dims
count_nonzero nansum nanprod nanmax nanmin nanmean nanstd nanvar average ptp argmin""".split()
CASES = {f"{name}({kind})": (name, lambda name=name, x=x: getattr(jnp, name)(x)) for name in ONE
          for kind, x in INVALID.items()}
CASES |= {f"{name}({kind} {at})": (name, lambda name=name, x=x, at=at: getattr(jnp, name)(*((x, V) if at == 1 else (V, x))))
          for name in TWO for kind, x in list(INVALID.items())[:4] for at in (1, 2)}
CASES |= {f"{name}(axis={axis!r})": (name, lambda name=name, axis=axis: getattr(jnp, name)(A, axis=axis))
          for name in WITH_AXIS for axis in (7, {}, {1})}
CASES |= {f"{name}({shape!r})": (name, lambda name=name, shape=shape: getattr(jnp, name)(shape))
          for name in ("zeros", "ones", "empty") for shape in (-1, "a", 1.5, (2, -3), (2, "a"), {1: 2})}
CASES |= {f"{name} {i}": (name.split(".")[-1], call) for i, (name, call) in enumerate([
    ("full", lambda: jnp.full((-1,), 0.0)), ("eye", lambda: jnp.eye(-1)), ("eye", lambda: jnp.eye("a")),
    ("arange", lambda: jnp.arange(0, 5, 0)), ("arange", lambda: jnp.arange("a")), ("linspace", lambda: jnp.linspace(0, 1, -2)),
    ("linspace", lambda: jnp.linspace(0, 1, 2.5)), ("reshape", lambda: jnp.reshape(V, (4,))),
    ("reshape", lambda: jnp.reshape(V, (-1, -1))), ("reshape", lambda: jnp.reshape(V, "a")),
    ("max", lambda: jnp.max(np.zeros(0))), ("argmax", lambda: jnp.argmax(np.zeros(0))),
    ("concatenate", lambda: jnp.concatenate([])), ("concatenate", lambda: jnp.concatenate([A, M])),
    ("stack", lambda: jnp.stack([V, M])), ("split", lambda: jnp.split(V, 4)), ("split", lambda: jnp.split(V, "a")),
    ("transpose", lambda: jnp.transpose(A, (0, 0, 1))), ("transpose", lambda: jnp.transpose(A, (0, 1))),
    ("swapaxes", lambda: jnp.swapaxes(A, 0, 9)), ("moveaxis", lambda: jnp.moveaxis(A, 0, 9)),
    ("tile", lambda: jnp.tile(V, "a")),
    ("repeat", lambda: jnp.repeat(V, -1)), ("roll", lambda: jnp.roll(V, "a")), ("pad", lambda: jnp.pad(V, "a")),
    ("pad", lambda: jnp.pad(V, 1, "nope")), ("pad", lambda: jnp.pad(V, -1)),
    ("broadcast_to", lambda: jnp.broadcast_to(V, (5,))),
    ("take", lambda: jnp.take(V, 1.5)), ("take", lambda: jnp.take(V, [0], axis=3)),
    ("take_along_axis", lambda: jnp.take_along_axis(A, np.zeros(2, int), 0)), ("where", lambda: jnp.where(V > 1, V)),
    ("where", lambda: jnp.where(V > 1, np.ones(3), 0)), ("einsum", lambda: jnp.einsum("ij,jk", M)),
    ("einsum", lambda: jnp.einsum("i!", V)), ("einsum", lambda: jnp.einsum("ij,jk", M, np.ones((4, 2)))),
    ("einsum", lambda: jnp.einsum("i", "a")), ("clip", lambda: jnp.clip(V, "a", 1)), ("interp", lambda: jnp.interp(V, V, M)),
    ("histogram", lambda: jnp.histogram(V, bins=-1)), ("bincount", lambda: jnp.bincount(V)),
    ("digitize", lambda: jnp.digitize(V, M)), ("searchsorted", lambda: jnp.searchsorted(M, 1)),
    ("searchsorted", lambda: jnp.searchsorted(V, 1, side="up")), ("quantile", lambda: jnp.quantile(V, 0.5, method="x")),
    ("linalg.inv", lambda: jnp.linalg.inv(np.ones((2, 3)))), ("linalg.inv", lambda: jnp.linalg.inv(V)),
    ("linalg.solve", lambda: jnp.linalg.solve(M, np.ones(4))), ("linalg.norm", lambda: jnp.linalg.norm(M, "x")),
    ("linalg.cholesky", lambda: jnp.linalg.cholesky(V)), ("linalg.svd", lambda: jnp.linalg.svd(V)),
    ("linalg.eigh", lambda: jnp.linalg.eigh(np.ones((2, 3)))), ("linalg.det", lambda: jnp.linalg.det(np.ones((2, 3)))),
    ("linalg.matrix_power", lambda: jnp.linalg.matrix_power(M, 1.5)), ("linalg.qr", lambda: jnp.linalg.qr(M, "x")),
    ("fft.fft", lambda: jnp.fft.fft(1.0)), ("fft.fft", lambda: jnp.fft.fft(V, -1)),
    ("fft.fft", lambda: jnp.fft.fft(V, norm="x")),
    ("fft.fft2", lambda: jnp.fft.fft2(V)), ("fft.rfft", lambda: jnp.fft.rfft(V * 1j)), ("fft.fft", lambda: jnp.fft.fft("a")),
    ("nn.relu", lambda: nn.relu("a")), ("nn.softmax", lambda: nn.softmax("a")), ("nn.softmax", lambda: nn.softmax(M, axis=5)),
    ("nn.one_hot", lambda: nn.one_hot(V, -1)), ("nn.one_hot", lambda: nn.one_hot("a", 3)), ("nn.glu", lambda: nn.glu(M)),
    ("lax.add", lambda: lax.add(V, M)), ("lax.add", lambda: lax.add(V, "a")), ("lax.sin", lambda: lax.sin(3)),
    ("lax.dot", lambda: lax.dot(M, np.ones((4, 4)))), ("lax.scan", lambda: lax.scan(lambda c, x: (c, x), 0, None)),
    ("lax.cond", lambda: lax.cond(True, lambda: 1, lambda: 1.5)),
    ("lax.while_loop", lambda: lax.while_loop(lambda c: 1, abs, 0)),
    ("lax.fori_loop", lambda: lax.fori_loop("a", 3, lambda i, c: c, 0)), ("lax.reshape", lambda: lax.reshape(V, (4,))),
    ("lax.dynamic_slice", lambda: lax.dynamic_slice(V, (0,), (9,))), ("lax.concatenate", lambda: lax.concatenate([V, V], 3)),
    ("lax.pad", lambda: lax.pad(V, 0.0, [(1, 1)])), ("lax.top_k", lambda: lax.top_k(V, 9)), ("lax.sort", lambda: lax.sort("a")),
    ("lax.reduce", lambda: lax.reduce(V, "a", lax.add, (0,))), ("lax.select", lambda: lax.select(V, V, V)),
    ("lax.broadcast_in_dim", lambda: lax.broadcast_in_dim(V, (3,), (0,)))])}
INTERNAL = re.compile(r"jit of|static_arg|Pjit|jaxlib|INVALID|XLA|unsupported operand|not supported between|"
                      "cannot be interpreted|has no attribute|must be real number|unhashable")


@pytest.mark.parametrize("case", CASES)
def test_error_names_the_function(case):
    name, call = CASES[case]
    with pytest.raises((TypeError, ValueError, IndexError)) as caught, np.errstate(all="ignore"):
        call()
    message = str(caught.value)
    assert re.search(rf"(?<![A-Za-z]){name}(_\w+)?\b", message) and len(message) > 20 and not INTERNAL.search(message), message
