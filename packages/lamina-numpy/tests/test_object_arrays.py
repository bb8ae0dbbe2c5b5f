"""Arrays of Python objects that NumPy makes of lists with traced numbers, under every transformation."""
import subprocess
import sys

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacfwd, jacrev, jvp, value_and_grad
from lamina_batching import vmap
from lamina_tracing import jit

X = np.float32([0.5, 1.5, 2.5])
TRANSFORMED = {
    "jit": jit, "jacfwd": jacfwd, "jacrev": jacrev, "hessian": hessian, "jit of jacrev": lambda f: jit(jacrev(f)),
    "jacfwd of jit": lambda f: jacfwd(jit(f)), "jvp": lambda f: lambda x: jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: vmap(f)(np.stack([x, 2 * x])),
    "vmap of jacfwd": lambda f: lambda x: vmap(jacfwd(f))(np.stack([x, 2 * x]))}


NO_METHODS = (  # functions of integers, or which need a truth value or Python number of each item
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift", "bitwise_count", "gcd", "lcm", "ceil",
    "floor", "trunc", "logical_and", "logical_not", "logical_or", "maximum", "minimum", "fmax", "fmin", "sign")


def test_every_ufunc_of_object_arrays_finds_its_method():
    for ufunc in {u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None and u.nout == 1}:
        operands = "O" * ufunc.nin
        if operands + "->O" not in ufunc.types or operands + "->?" in ufunc.types or ufunc.__name__ in NO_METHODS:
            continue
        call = lambda x: ufunc(*[np.array([x[0], x[1]])] * ufunc.nin)  # noqa: B023
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(jit(call)(X), ufunc(*[X[:2]] * ufunc.nin), rtol=1e-5, err_msg=ufunc.__name__)


@pytest.mark.parametrize("transform", TRANSFORMED.values(), ids=TRANSFORMED)
def test_results_that_are_object_arrays(transform):
    f = lambda x: np.array([[x[0] * x[1], np.sin(x[0])], [1.0, x[2]]])
    same = lambda x: lnp.array([[x[0] * x[1], np.sin(x[0])], [1.0, x[2]]])
    for got, wanted in zip(transform(f)(X), transform(same)(X), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


USES = {
    "sum": lambda a, x: lnp.sum(lnp.sin(a)), "product": lambda a, x: lnp.sum(a * x[:2]),
    "flipped": lambda a, x: np.sum(x[:2] * a),
    "add": lambda a, x: lnp.sum(lnp.add(x[:2], a)), "dot": lambda a, x: lnp.dot(a, a), "norm": lambda a, x: lnp.linalg.norm(a),
    "NumPy's norm": lambda a, x: np.linalg.norm(a), "set": lambda a, x: lnp.asarray(x).at[:2].set(a).sum(),
    "array": lambda a, x: lnp.array(a).mean(), "matmul": lambda a, x: x[:2] @ a, "known matrix": lambda a, x: np.ones(2) @ a,
    "power": lambda a, x: (a ** 2).sum(), "map": lambda a, x: vmap(lambda b: b * b)(a).sum(),
    "inner gradient": lambda a, x: grad(lambda b: (b * b).sum())(a).sum(), "exp": lambda a, x: np.exp(a).sum(),
    "einsum": lambda a, x: np.einsum("i,i->", a, x[:2]), "difference": lambda a, x: np.diff(a).sum(),
    "mean": lambda a, x: lnp.mean(a), "vectorize": lambda a, x: np.sum(np.vectorize(lambda t: t * t)(x)) * a[0],
    "extremes": lambda a, x: lnp.maximum(a, 0.9).sum()}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_derivatives_of_uses_of_object_arrays(use):
    f = lambda x: use(np.array([x[0] * x[1], np.sin(x[0])]), x)
    same = lambda x: use(lnp.stack([x[0] * x[1], np.sin(x[0])]), x)
    for transform in (grad, lambda f: jit(grad(f)), hessian):
        np.testing.assert_allclose(transform(f)(X), transform(same)(X), rtol=1e-5, atol=1e-6)


def test_known_conditions_choose_a_branch():
    f = np.vectorize(lambda t: t * t if t > 1 else 3 * t)
    value, gradient = value_and_grad(lambda x: np.sum(f(x)))(X)
    np.testing.assert_allclose(value, 1.5 + 2.25 + 6.25)
    np.testing.assert_allclose(gradient, [3, 3, 5])
    np.testing.assert_allclose(grad(lambda x: np.max([x[0], x[2], x[1]]))(X), [0, 0, 1])


FIRST_JACOBIAN = """
import sys
import numpy as np
from lamina_autodiff import hessian, jacrev
assert "lamina_batching" not in sys.modules
np.testing.assert_allclose(hessian(lambda x: np.sum(x ** 3))(np.float32([1, 2])), [[6, 0], [0, 12]])
assert "lamina_batching" in sys.modules and "jaxlib" not in sys.modules
from lamina_tracing import hooks
hooks.set_basis_map(None)
np.testing.assert_allclose(jacrev(lambda x: x ** 2)(np.float32([1, 2])), [[2, 0], [0, 4]])
assert hooks.find_basis_map() is None
"""


def test_first_jacobian_imports_the_batching_package():
    subprocess.run([sys.executable, "-c", FIRST_JACOBIAN], check=True)
