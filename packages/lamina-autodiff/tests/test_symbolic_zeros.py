"""Rules with `symbolic_zeros=True` know the zero tangents and cotangents, also in staged programs."""
import pytest
from lamina_autodiff import SymbolicZero, checkpoint, custom_jvp, custom_vjp, grad, jvp, vjp
from lamina_tracing import jit, lax

STAGED = {"eager": lambda f: f, "jit": jit, "nested jit": lambda f: jit(lambda *xs: jit(f)(*xs)), "checkpoint": checkpoint,
          "scan": lambda f: lambda x, y: lax.scan(lambda c, _: (c, f(x, y)), 0.0, length=1)[1][0],
          "cond": lambda f: lambda x, y: lax.cond(x < 100, f, f, x, y)}


@pytest.fixture(params=STAGED)
def stage(request):
    return STAGED[request.param]


def is_zero(x):
    return type(x) is SymbolicZero


def product_vjp(seen):
    f = custom_vjp(lambda x, y: lax.mul(x, y))

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        # The residuals depend on the arguments that are differentiated.
        return x.value * y.value, (x.value if y.perturbed else None, y.value if x.perturbed else None)

    def bwd(residuals, ct):
        x, y = residuals
        return None if y is None else ct * y, None if x is None else ct * x

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


@pytest.mark.parametrize("argnums, flags, wanted", [((0,), (True, False), [3.0]), ((1,), (False, True), [2.0]),
                                                     ((0, 1), (True, True), [3.0, 2.0])])
def test_forward_rule_knows_the_differentiated_arguments(stage, argnums, flags, wanted):
    seen = []
    found = grad(stage(product_vjp(seen)), argnums)(2.0, 3.0)
    assert [float(x) for x in found] == wanted and set(seen) == {flags}


def test_jvp_rule_knows_the_differentiated_arguments(stage):
    seen = []
    f = custom_jvp(lambda x, y: lax.mul(x, y))

    def rule(primals, tangents):
        seen.append(tuple(map(is_zero, tangents)))
        (x, y), (dx, dy) = primals, tangents
        return x * y, (dx * y if is_zero(dy) else dx * y + x * dy)

    f.defjvp(rule, symbolic_zeros=True)
    out, tangent = jvp(lambda x: stage(f)(x, 3.0), (2.0,), (1.0,))
    assert (float(out), float(tangent)) == (6.0, 3.0) and set(seen) == {(False, True)}
    assert float(jvp(stage(f), (2.0, 3.0), (1.0, 1.0))[1]) == 5.0 and seen[-1] == (False, False)


@pytest.mark.parametrize("which, wanted", [(0, 1.0), (1, 2.0)])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_backward_rule_knows_the_zero_cotangents(wrap, which, wanted):
    seen = []
    f = custom_vjp(lambda x: (x, x * 2))

    def bwd(_, cts):
        seen.append(tuple(map(is_zero, cts)))
        one, two = cts
        return (0.0 if is_zero(one) else one) + (0.0 if is_zero(two) else 2 * two),

    f.defvjp(lambda x: ((x.value, x.value * 2), None), bwd, symbolic_zeros=True)
    assert float(grad(lambda x: wrap(f)(x)[which])(2.0)) == wanted
    assert seen[-1] == (which == 1, which == 0)
    assert float(vjp(wrap(f), 2.0)[1]((1.0, 1.0))[0]) == 3.0


def test_second_derivative_of_a_staged_function():
    f = jit(product_vjp([]))
    assert float(grad(grad(lambda x: f(x, x)))(2.0)) == 2.0
    assert float(grad(lambda x: grad(lambda y: f(x, y))(5.0))(2.0)) == 1.0
