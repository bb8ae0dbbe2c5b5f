"""Loops over another axis than the first read and write slices of arrays as they are."""
import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, aval_of, evaluate, parse, prims
from lamina_lowering import lower
from lamina_lowering.testing import run_lowered

X = np.arange(3 * 5 * 64, dtype=np.float32).reshape(3, 5, 64)
STEP = "{ lambda ; c:f32[] x:f32[3,64]. let d:f32[] = add c 1.0:f32[] y:f32[3,64] = mul x d in (d, y) }"


def program(width=64, reverse=False, unroll=1, before="(1, 0, 2)", after="(1, 0, 2)"):
    shapes = {"(1, 0, 2)": f"3,5,{width}", "(1, 2, 0)": f"3,{width},5", "(0, 2, 1)": f"5,{width},3"}
    given, back = {"(1, 0, 2)": f"3,5,{width}", "(2, 0, 1)": f"3,{width},5", "(0, 2, 1)": f"5,{width},3"}[before], shapes[after]
    step = STEP.replace("64", str(width))
    return parse(f"""{{ lambda ; a:f32[{given}]. let
        b:f32[5,3,{width}] = transpose[permutation={before}] a
        c:f32[] e:f32[5,3,{width}] = scan[
          jaxpr={step} length=5 num_carry=1 num_consts=0 reverse={reverse} unroll={unroll}] 0.0:f32[] b
        f:f32[{back}] = transpose[permutation={after}] e
      in (c, f) }}""")


def close(closed, *args):
    lowered = lower(closed)
    for a, b in zip(run_lowered(lowered, *args), evaluate(closed, *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return lowered.as_text()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 5])
def test_a_middle_axis_is_not_turned(reverse, unroll):
    text = close(program(reverse=reverse, unroll=unroll), X)
    assert "stablehlo.transpose" not in text


def test_of_short_pieces_the_array_is_turned():
    text = close(program(width=32), X[..., :32])
    assert text.count("stablehlo.transpose") == 2


def test_what_lies_in_a_slice_is_turned_turn_by_turn():
    text = close(program(before="(0, 2, 1)", after="(0, 2, 1)"), X.transpose(1, 2, 0))
    assert text.count("stablehlo.transpose") == 2
    assert all("tensor<5x" not in line for line in text.splitlines() if "stablehlo.transpose" in line)


def test_a_stack_that_is_read_twice_stays_one():
    closed = parse(f"""{{ lambda ; a:f32[5,3,64]. let
        c:f32[] e:f32[5,3,64] = scan[jaxpr={STEP} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] a
        f:f32[3,5,64] = transpose[permutation=(1, 0, 2)] e
        g:f32[5,3,64] = mul e e
      in (f, g) }}""")
    assert close(closed, X.transpose(1, 0, 2)).count("stablehlo.transpose") == 1


def test_one_loop_writes_what_the_next_one_reads():
    step = STEP.replace("[3,64]", "[64]")
    closed = parse(f"""{{ lambda ; a:f32[3,5,64]. let
        b:f32[5,3,64] = transpose[permutation=(1, 0, 2)] a
        c:f32[] e:f32[5,3,64] = scan[jaxpr={STEP} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] b
        f:f32[3,5,64] = transpose[permutation=(1, 0, 2)] e
        g:f32[5,3,64] = transpose[permutation=(1, 0, 2)] f
        h:f32[] i:f32[5,3,64] = scan[jaxpr={STEP} length=5 num_carry=1 num_consts=0 reverse=True unroll=1] c g
        j:f32[15,64] = reshape[dimensions=None new_sizes=(15, 64)] i
        k:f32[] l:f32[15,64] = scan[jaxpr={step} length=15 num_carry=1 num_consts=0 reverse=True unroll=1] h j
      in (f, k, l) }}""")
    close(closed, X)


@pytest.mark.parametrize("unroll", [1, 2])
def test_large_constants_of_the_body(unroll):
    k, a, x = np.ones((3, 64), np.float32), Var(aval_of(X)), Var(aval_of(X.transpose(1, 0, 2)))
    body = parse("{ lambda k:f32[3,64] ; x:f32[3,64]. let y:f32[3,64] = add x k in (y,) }", [k])
    y, out = Var(x.aval), Var(a.aval)
    params = dict(jaxpr=body, length=5, num_carry=0, num_consts=0, reverse=False, unroll=unroll)
    turned = {"permutation": (1, 0, 2)}
    closed = ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.transpose_p, [a], [x], turned), Eqn(prims.scan_p, [x], [y], params),
                                         Eqn(prims.transpose_p, [y], [out], turned)], [out]))
    lowered = lower(closed)
    assert len(lowered.const_args) == 1 and "stablehlo.transpose" not in lowered.as_text()
    np.testing.assert_array_equal(run_lowered(lowered, X)[0], X + 1)
