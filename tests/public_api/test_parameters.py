"""Parameters of public functions keep their names, kinds and order, as recorded in `parameters.txt`, a line per
function.

A new parameter may be appended or be keyword-only. `python tests/public_api/test_parameters.py` rewrites the table.
"""
import enum
import importlib
import inspect
import typing
from pathlib import Path

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest

TABLE = Path(__file__).with_name("parameters.txt")
MODULES = ("", "numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "nn.initializers", "random", "tree_util",
           "dtypes", "dlpack", "custom_batching", "scipy.special", "sharding", "stages", "test_util")
MARKS = {inspect.Parameter.POSITIONAL_ONLY: "/", inspect.Parameter.VAR_POSITIONAL: "*args",
         inspect.Parameter.KEYWORD_ONLY: "*", inspect.Parameter.VAR_KEYWORD: "**kwargs"}


def parameters(fun):
    """Return (name, mark, whether it is optional) of each parameter."""
    return [(p.name, MARKS.get(p.kind, ""), p.default is not p.empty) for p in inspect.signature(fun).parameters.values()]


def public():
    """Return dotted name -> parameters of each public function."""
    found = {}
    for path in MODULES:
        module = importlib.import_module(f"lamina.{path}" if path else "lamina")
        for name in sorted(module.__all__):
            value = getattr(module, name)
            # the signatures of enums and unions depend on the Python version
            if callable(value) and not isinstance(value, enum.EnumMeta) and typing.get_origin(value) is None:
                try:
                    found[f"{path}.{name}".lstrip(".")] = parameters(value)
                except (TypeError, ValueError):
                    continue
    return found


def line(name, found):
    return " ".join([name, *(f"{n}{'=' if optional else ''}{mark}" for n, mark, optional in found)])


def test_parameters_are_unchanged():
    now = public()
    for text in TABLE.read_text().splitlines():
        name, *was = text.split()
        assert name in now, f"{name} is missing"
        is_now = line(name, now[name]).split()[1:]
        by_position = [w for w in was if not w.endswith(("*", "**kwargs"))]
        assert is_now[:len(by_position)] == by_position, f"{name}: {is_now}, formerly {was}"
        assert set(was) <= set(is_now), f"{name}: {is_now}, formerly {was}"
        added = [w for w in is_now if w not in was]
        assert all("=" in w or w.endswith(("args", "kwargs")) for w in added), f"{name}: {added} must have defaults"


X = np.array([1.0, 2.0, 2.0, 5.0], np.float32)
CALLS = [
    (lambda: jnp.clip(a=np.arange(4), a_min=1, a_max=2), [1, 1, 2, 2]),
    (lambda: jnp.clip(np.arange(4), 1, a_max=2), [1, 1, 2, 2]),
    (lambda: jnp.quantile(X, 0.5, interpolation="lower"), 2), (lambda: jnp.nanquantile(X, 0.9, interpolation="lower"), 2),
    (lambda: jnp.percentile(X, 90, interpolation="higher"), 5), (lambda: jnp.nanpercentile(X, 0, interpolation="lower"), 1),
    (lambda: jnp.reshape(X, newshape=(2, 2)), [[1, 2], [2, 5]]), (lambda: jnp.modf(X, None)[1], X),
    (lambda: jnp.roots(np.array([0.0, 1.0, 2.0]), strip_zeros=False)[0], -2), (lambda: jnp.empty_like(prototype=X), X * 0),
    (lambda: jnp.roots(np.array([0.0, 1.0, 2.0]), strip_zeros=False).shape, (2,)),
    (lambda: np.sort(lamina.jit(lambda p: jnp.roots(p, strip_zeros=False))(np.array([1.0, 3.0, 2.0])).real), [-2, -1]),
    (lambda: jnp.polyfit(np.arange(4.0), X, 1, cov="unscaled")[1], [[0.2, -0.3], [-0.3, 0.7]]),
    (lambda: jnp.polyfit(np.arange(4.0), X, 1, None, False, np.ones(4), True)[1], [[0.18, -0.27], [-0.27, 0.63]]),
    (lambda: lamina.jit(lambda x: jnp.polyfit(np.arange(4.0), x, 1, cov=True)[1])(X), [[0.18, -0.27], [-0.27, 0.63]]),
    (lambda: jnp.polyfit(np.arange(4.0), X, 1, full=True)[1], [1.8]),
    (lambda: lamina.jit(lambda x: jnp.polyfit(np.arange(4.0), x, 1, full=True)[2])(X), 2),
    (lambda: jnp.delete(np.arange(5), np.array([1, -1]), assume_unique_indices=True), [0, 2, 3]),
    (lambda: lamina.jit(lambda o: jnp.delete(np.arange(5), o, assume_unique_indices=True))(np.array([1, -1])), [0, 2, 3]),
    (lambda: jnp.fmax(x1=1.0, x2=np.nan), 1), (lambda: jnp.fmin(x1=1.0, x2=2.0), 1), (lambda: jnp.gcd(x1=4, x2=6), 2),
    (lambda: jnp.lcm(x1=4, x2=6), 12), (lambda: jnp.trunc(x=1.5), 1), (lambda: jnp.i0(x=0.0), 1),
    (lambda: jnp.issubdtype(arg1="float32", arg2=np.floating), True), (lambda: jnp.iinfo(int_type="int8").max, 127),
    (lambda: lamina.dtypes.canonicalize_dtype(dtype="float64", allow_extended_dtype=True) == np.float32, True),
    (lambda: lamina.lax.full_like(X, 1.0, None, (2,), None), [1, 1]), (lambda: jnp.asarray(X).copy("K"), X),
    (lambda: lamina.ShapeDtypeStruct((2,), "float32", {"a": 2}, None).named_shape["a"], 2),
    (lambda: lamina.dlpack.from_dlpack(external_array=X, copy=True), X),
    (lambda: lamina.custom_batching.sequential_vmap(f=lambda x: x * 2)(X), X * 2),
    (lambda: len(lamina.make_jaxpr(lambda x: x, (), None, False, None)(X).out_avals), 1),
    (lambda: lamina.jit(lambda x: x).trace(X).lower(("cpu",)).compile()(X), X)]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_jax_parameter_names_are_accepted(number):
    call, expected = CALLS[number]
    np.testing.assert_allclose(np.asarray(call()), np.asarray(expected), rtol=1e-5, atol=1e-5)


def test_unsupported_jax_parameters_are_refused():
    with pytest.raises(ValueError, match="reshape: newshape is an older name of shape"):
        jnp.reshape(X, (4, 1), newshape=(2, 2))
    with pytest.raises(NotImplementedError, match="copy: order must be None or 'K'"):
        jnp.asarray(X).copy(order="F")
    with pytest.raises(NotImplementedError, match="make_jaxpr: abstracted_axes"):
        lamina.make_jaxpr(lambda x: x, abstracted_axes="n")
    with pytest.raises(BufferError, match="from_dlpack: copy=False"):
        lamina.dlpack.from_dlpack(X[::2], copy=False)
    with pytest.raises(ValueError, match="polyfit: 4 points are too few to scale"):
        lamina.jit(lambda x: jnp.polyfit(np.arange(4.0), x, 3, cov=True))(X)


if __name__ == "__main__":
    TABLE.write_text("".join(line(name, found) + "\n" for name, found in public().items()))
