"""`combine_psums` merges independent sums over the same axes; equations that depend on a sum stay after it."""
import numpy as np
from lamina_ir import Eqn, Jaxpr, Literal, Var, dtypes, prims, shaped
from lamina_lowering import lower
from lamina_lowering._passes.combine_all_reduce import combine_psums

F32 = shaped((3,), np.dtype("float32"))


def psum(x, axes=("i",)):
    out = Var(F32)
    return Eqn(prims.psum_p, [x], [out], {"axes": axes, "axis_index_groups": None}), out


def neg(x):
    out = Var(F32)
    return Eqn(prims.neg_p, [x], [out], {}), out


def names(eqns):
    return [f"{e.primitive.name}{len(e.invars)}" for e in eqns]


def test_independent_sums_are_merged_after_independent_equations():
    a, b = Var(F32), Var(F32)
    (e1, s1), (e2, n1), (e3, _) = psum(a), neg(b), neg(b)
    e4, s2 = psum(n1)
    e5, _ = neg(s1)
    found = combine_psums([e1, e5, e2, e3, e4])
    assert names(found) == ["neg1", "neg1", "psum2", "neg1"]
    assert found[2].outvars == [s1, s2] and found[-1] is e5


def test_dependent_sums_and_other_axes_keep_their_order():
    a = Var(F32)
    e1, s1 = psum(a)
    e2, s2 = psum(s1)
    e3, s3 = psum(a, ("j",))
    e4, s4 = psum(a)
    assert names(combine_psums([e1, e2, e3, e4])) == ["psum2", "psum1", "psum1"]
    assert combine_psums([e1]) == [e1]


def test_long_chain_of_dependent_sums_is_unchanged():
    v, eqns = Var(F32), []
    for _ in range(300):
        e, v = psum(v)
        eqns.append(e)
    assert combine_psums(eqns) == eqns


def test_module_has_one_all_reduce():
    a, b = Var(F32), Var(F32)
    (e1, s1), (e2, s2) = psum(a), psum(b)
    half = Var(F32)
    e3 = Eqn(prims.mul_p, [s1, Literal(0.5, shaped((), dtypes.as_dtype("float32")))], [half], {})
    from lamina_ir import ClosedJaxpr
    program = ClosedJaxpr(Jaxpr([], [a, b], [e1, e3, e2], [half, s2]))
    text = lower(program, axis_env=[("i", 4)]).as_text()
    assert text.count("stablehlo.all_reduce") == 1
