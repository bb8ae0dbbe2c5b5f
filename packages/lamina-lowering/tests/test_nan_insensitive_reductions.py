"""Max/min reductions of floats whose NaNs can be dropped, and those whose NaNs reach a result."""
import numpy as np
import pytest
from lamina_ir import evaluate, parse, prims
from lamina_lowering import lower
from lamina_lowering._passes.nan_insensitive_reductions import MAX_MIN_REDUCTIONS, find_nan_insensitive_reductions

HEAD = """
    m:f32[4] = reduce_max[axes=(1,)] a
    k:f32[4,1] = expand_dims[dimensions=(1,)] m
    w:f32[4,5] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(4, 5)] k
    h:f32[4,5] = sub a w
    e:f32[4,5] = exp h
"""
SUM = "s:f32[4] = reduce_sum[axes=(1,)] e"
WIDE = "b:f32[4,5] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(4, 5)]"


def program(lines, outs):
    return parse(f"{{ lambda ; a:f32[4,5]. let\n{lines}\n in ({outs},) }}")


NAN_INSENSITIVE = {
    "softmax": (f"{HEAD}{SUM}\n{WIDE} s\ny:f32[4,5] = div e b", "y"),
    "its logarithm": (f"{HEAD}{SUM}\nl:f32[4] = log s\n{WIDE} l\ny:f32[4,5] = sub h b", "y"),
    "logsumexp": (f"{HEAD}{SUM}\nl:f32[4] = log s\ny:f32[4] = add l m", "y"),
    "of a copy": (f"c:f32[4,5] = stop_gradient a{HEAD.replace('axes=(1,)] a', 'axes=(1,)] c')}{SUM}", "s"),
    "zero for infinities": (HEAD.replace("k:", "d:bool[4] = is_finite m\nn:f32[4] = select d m 0.0:f32[]\nk:").replace(
        "(1,)] m", "(1,)] n") + SUM + "\ny:f32[4] = add s n", "y"),
    "transposed": (f"{HEAD}t:f32[5,4] = transpose[permutation=(1, 0)] e\ns:f32[4] = reduce_sum[axes=(0,)] t", "s"),
}
NAN_SENSITIVE = {
    "the maximum itself": (HEAD + SUM, "s, m"),
    "the shifted operand": (HEAD, "h"),
    "summed over rows": (HEAD + "s:f32[5] = reduce_sum[axes=(0,)] e", "s"),
    "summed in part": (HEAD + "p:f32[4,5,1] = expand_dims[dimensions=(2,)] e\ns:f32[4,5] = reduce_sum[axes=(2,)] p", "s"),
    "shifted value is not NaN": (HEAD.replace("sub a w", "sub 1.0:f32[] w") + SUM, "s"),
    "masked": (HEAD + "q:bool[4,5] = gt a 0.0:f32[]\nx:f32[4,5] = select q e 0.0:f32[]\n"
               "s:f32[4] = reduce_sum[axes=(1,)] x", "s"),
    "read by an unknown primitive": (HEAD + SUM + "\nc:f32[4,5] = cumsum[axis=1 reverse=False] e", "s, c"),
    "rows are mixed": ("""
    z:f32[5,5] = slice[limit_indices=(5, 5) start_indices=(0, 0) strides=None] a
    m:f32[5] = reduce_max[axes=(1,)] z
    w:f32[5,5] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(5, 5)] m
    h:f32[5,5] = sub z w
    s:f32[5] = reduce_sum[axes=(1,)] h""", "s"),
}


@pytest.mark.parametrize("name", NAN_INSENSITIVE)
def test_max_of_summed_operand_may_drop_nans(name):
    closed = program(*NAN_INSENSITIVE[name])
    jaxpr = closed.jaxpr
    expected = {id(e) for e in jaxpr.eqns if e.primitive in MAX_MIN_REDUCTIONS}
    assert find_nan_insensitive_reductions(jaxpr.eqns, jaxpr.outvars) == expected
    for x in (np.arange(20, dtype=np.float32).reshape(4, 5), np.full((4, 5), np.nan, np.float32)):
        x[1, 3], x[2, 0], x[3, 4] = np.nan, np.inf, -np.inf
        made, wanted = lower(closed, platform="cpu").run([x]), evaluate(closed, x)
        np.testing.assert_allclose(made[0], wanted[0], rtol=1e-5, atol=1e-6)
        assert np.isnan(wanted[0]).any()


@pytest.mark.parametrize("name", NAN_SENSITIVE)
def test_max_that_reaches_a_result_keeps_nans(name):
    closed = program(*NAN_SENSITIVE[name]) if name != "rows are mixed" else parse(
        f"{{ lambda ; a:f32[5,5]. let\n{NAN_SENSITIVE[name][0]}\n in ({NAN_SENSITIVE[name][1]},) }}")
    assert not find_nan_insensitive_reductions(closed.jaxpr.eqns, closed.jaxpr.outvars)


def test_two_reductions_are_decided_separately():
    closed = program(HEAD + SUM + "\nn:f32[4] = reduce_min[axes=(1,)] a", "s, n")
    found = find_nan_insensitive_reductions(closed.jaxpr.eqns, closed.jaxpr.outvars)
    assert found == {id(e) for e in closed.jaxpr.eqns if e.primitive is prims.reduce_max_p}
