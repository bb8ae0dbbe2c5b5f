"""`numpy_dtype_promotion` set to "strict" or "safe_integers" refuses promotions in every function of two arrays.

JAX 0.10.2 refuses the same calls under "strict", except `dot_general`; it has no "safe_integers".
"""
import operator

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax

MASK = np.array([True, False, True, False])
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne", "matmul", "iadd",
             "and_", "or_", "xor", "lshift", "rshift")
# Functions of two arrays that are not ufuncs, and further places where two dtypes meet.
CALLS = {
    **{f"operator.{name}": getattr(operator, name) for name in OPERATORS}, "divmod": divmod,
    **{name: getattr(jnp, name) for name in (
        "dot", "vdot", "inner", "outer", "kron", "vecdot", "convolve", "correlate", "polyadd", "polysub", "polymul",
        "polydiv", "polyval", "append", "isclose", "allclose", "array_equal", "union1d", "intersect1d", "setdiff1d",
        "setxor1d", "isin", "searchsorted", "digitize", "cov", "corrcoef", "trapezoid", "result_type")},
    "where": lambda x, y: jnp.where(MASK, x, y), "select": lambda x, y: jnp.select([MASK], [x], y),
    "choose": lambda x, y: jnp.choose(np.array([0, 1, 0, 1]), [x, y]), "clip": lambda x, y: jnp.clip(x, y, y),
    **{name: lambda x, y, name=name: getattr(jnp, name)([x, y]) for name in (
        "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "block", "array")},
    "einsum": lambda x, y: jnp.einsum("i,i->i", x, y), "einsum of a sum": lambda x, y: jnp.einsum("i,i->", x, y),
    "tensordot": lambda x, y: jnp.tensordot(x, y, 1), "cross": lambda x, y: jnp.cross(x[:3], y[:3]),
    "add.outer": jnp.add.outer, "add.at": lambda x, y: jnp.add.at(x, np.arange(4), y, inplace=False),
    **{f"at.{verb}": lambda x, y, verb=verb: getattr(x.at[:], verb)(y) for verb in (
        "set", "add", "multiply", "min", "max")},
    "at of one": lambda x, y: x.at[0].set(y[0]),
    "put": lambda x, y: jnp.put(x, np.array([0]), y[:1], inplace=False),
    "place": lambda x, y: jnp.place(x, MASK, y, inplace=False),
    "put_along_axis": lambda x, y: jnp.put_along_axis(x, np.array([0]), y[:1], 0, inplace=False),
    "fill_diagonal": lambda x, y: jnp.fill_diagonal(x.reshape(2, 2), y[0], inplace=False),
    "linspace": lambda x, y: jnp.linspace(x, y, 3), "average": lambda x, y: jnp.average(x, weights=y),
    "diff": lambda x, y: jnp.diff(x, prepend=y), "linalg.solve": lambda x, y: jnp.linalg.solve(x.reshape(2, 2), y[:2]),
    "linalg.multi_dot": lambda x, y: jnp.linalg.multi_dot([x.reshape(2, 2), y.reshape(2, 2)]),
    "vectorize": lambda x, y: jnp.vectorize(lambda a, b: a + b)(x, y),
    "lax.add": lax.add, "lax.lt": lax.lt, "lax.dot": lax.dot, "lax.concatenate": lambda x, y: lax.concatenate([x, y], 0),
    "lax.select": lambda x, y: lax.select(jnp.asarray(MASK), x, y),
    "loop": lambda x, y: lax.fori_loop(0, 2, lambda i, c: c + y, x),
    "special.xlogy": lamina.scipy.special.xlogy, "special.betaln": lamina.scipy.special.betaln,
    "special.logsumexp": lambda x, y: lamina.scipy.special.logsumexp(x, b=y),
    "stats.norm.pdf": lamina.scipy.stats.norm.pdf, "signal.convolve": lamina.scipy.signal.convolve,
}
# The exponents of `ldexp` are not promoted.
UFUNCS = {name: f for name in jnp.__all__ if isinstance(f := getattr(jnp, name), jnp.ufunc) and f.nin == 2
          and name != "ldexp"}
OWN_ERRORS = ("lax.add", "lax.lt", "lax.concatenate", "lax.select")  # which never promote
INTEGERS = [("uint32", "int8"), ("int32", "uint32"), ("int8", "int32")]
FLOATS = [("int32", "float32"), ("float16", "float32")]


def arrays(dtypes):
    return [jnp.asarray(np.array([1, 1, 2, 3]), dtype) for dtype in dtypes]


@pytest.mark.parametrize("name", [*UFUNCS, *CALLS])
def test_strict_refuses_mixed_dtypes(name):
    function = UFUNCS.get(name) or CALLS[name]
    text = None if name in OWN_ERRORS else "strict dtype promotion refuses to mix"
    with lamina.numpy_dtype_promotion("strict"):
        for pair in INTEGERS + FLOATS:
            for dtypes in (pair, pair[::-1]):
                with pytest.raises(TypeError, match=text if pair in INTEGERS else None):
                    function(*arrays(dtypes))
        with pytest.raises(TypeError, match=text):
            lamina.jit(function)(*arrays(INTEGERS[0]))
        function(*arrays(("int32", "int32")))


WRAPPING = [("uint32", "int8"), ("int32", "uint32"), ("uint32", "int16")]
EXACT = [("uint8", "int8"), ("uint16", "int32"), ("int8", "int32"), ("uint32", "float32"), ("bool", "uint32"),
         ("float16", "int32")]


@pytest.mark.parametrize("name", [*UFUNCS, *CALLS])
def test_safe_integers_refuses_promotions_that_wrap(name):
    function = UFUNCS.get(name) or CALLS[name]
    with lamina.numpy_dtype_promotion("safe_integers"):
        for pair in WRAPPING:
            for dtypes in (pair, pair[::-1]):
                with pytest.raises(TypeError):
                    function(*arrays(dtypes))


@pytest.mark.parametrize("name", ["add", "less", "equal", "multiply", "true_divide", "where", "concatenate", "operator.lt"])
def test_safe_integers_accepts_exact_promotions(name):
    function = UFUNCS.get(name) or CALLS[name]
    for pair in EXACT:
        wanted = function(*arrays(pair))
        with lamina.numpy_dtype_promotion("safe_integers"):
            for f in (function, lamina.jit(function)):
                found = f(*arrays(pair))
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)


def test_standard_promotion_wraps_as_in_jax():
    x, y = jnp.array([2 ** 32 - 1, 1], "uint32"), jnp.array([-1, 1], "int8")
    total = x + y
    assert total.dtype == "int32" and total.tolist() == [-2, 2]
    assert (x == y).tolist() == [True, True] and (x > y).tolist() == [False, False]
    with lamina.numpy_dtype_promotion("safe_integers"), lamina.enable_x64():  # int64 holds all values of both
        assert (x + y).dtype == "int64" and (x == y).tolist() == [False, True] and (x > y).tolist() == [True, False]


def test_64_bit_integers_that_become_floats_are_refused():
    with lamina.enable_x64(), lamina.numpy_dtype_promotion("safe_integers"):
        x, y = arrays(("uint64", "int64"))
        with pytest.raises(TypeError, match="equal: safe_integers dtype promotion refuses to mix int64, uint64: float64 does"):
            x == y
        assert (x == y.astype("uint64")).all()


def test_errors_name_the_function_the_dtypes_and_the_cast():
    x, y = arrays(("uint32", "int8"))
    for mode in ("strict", "safe_integers"):
        text = f"{mode} dtype promotion refuses to mix int8, uint32: int32 does not hold all values of uint32; convert " \
               r"explicitly with x.astype\('int32'\), or set config.numpy_dtype_promotion to 'standard'"
        with lamina.numpy_dtype_promotion(mode):
            for name, call in (("add", lambda x, y: x + y), ("less", lambda x, y: x < y), ("matmul", lambda x, y: x @ y),
                               ("where", CALLS["where"]), ("concatenate", CALLS["concatenate"]), ("put", CALLS["put"]),
                               (r"x.at\[index\].set\(values\)", CALLS["at.set"])):
                with pytest.raises(TypeError, match=f"^{name}: {text}"):
                    call(x, y)
            with pytest.raises(TypeError, match=f"^(add|less): {text}"):
                lamina.jit(lambda x, y: x + y)(x, y)
            assert (x.astype("int32") + y.astype("int32")).dtype == "int32"


def test_updates_that_wrap_are_refused():
    x, y = arrays(("int8", "int32"))
    with lamina.numpy_dtype_promotion("safe_integers"):
        for name in ("at.set", "at.add", "put", "place", "put_along_axis", "fill_diagonal"):
            with pytest.raises(TypeError, match="refuses int32 values for an array of dtype int8"):
                CALLS[name](x, y)
            CALLS[name](y, x)
        x.at[0].set(3)


def test_settings_are_part_of_the_key_of_compiled_functions():
    f = lamina.jit(lambda x, y: x + y)
    x, y = arrays(("uint32", "int8"))
    for _ in range(2):
        assert f(x, y).dtype == "int32"
        with lamina.numpy_dtype_promotion("safe_integers"), pytest.raises(TypeError, match="safe_integers"):
            f(x, y)
