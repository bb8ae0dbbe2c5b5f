"""Loops over another axis than the first, and loops in loops, read and write slices of arrays as they are."""
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


ROW = "{ lambda ; c:f32[] x:f32[64]. let d:f32[] = add c 1.0:f32[] y:f32[64] = mul x d in (d, y) }"


def nested(between="y", more="", reverse=False):
    """A loop over rows of 5 in one over 3 of them, whose first results are `between` of what the inner one stacks."""
    inner = f"""{{ lambda ; c:f32[] x:f32[5,64]. let
        d:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse={reverse} unroll=1] c x
        {more} in (d, {between}) }}"""
    return parse(f"""{{ lambda ; a:f32[3,5,64]. let
        c:f32[] e:f32[3,5,64] = scan[jaxpr={inner} length=3 num_carry=1 num_consts=0 reverse={reverse} unroll=1] 0.0:f32[] a
      in (c, e) }}""")


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_in_a_loop_reads_and_writes_the_whole_arrays(reverse):
    assert "5x64" not in close(nested(reverse=reverse), X).replace("3x5x64", "")


def test_a_loop_in_a_loop_whose_stack_is_used():
    more = "z:f32[5,64] = neg y"
    text = close(nested("z", more), X).replace("3x5x64", "")
    assert "tensor<1x1x64xf32>" in text and "5x64" in text  # it reads in place; what it writes is needed whole


def test_a_loop_in_a_loop_over_another_axis():
    closed = parse(f"""{{ lambda ; a:f32[5,3,64]. let
        b:f32[3,5,64] = transpose[permutation=(1, 0, 2)] a
        c:f32[] e:f32[3,5,64] = scan[
          jaxpr={{ lambda ; c:f32[] x:f32[5,64]. let
            d:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] c x
            in (d, y) }}
          length=3 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] b
        f:f32[5,3,64] = transpose[permutation=(1, 0, 2)] e
      in (c, f) }}""")
    text = close(closed, X.transpose(1, 0, 2))
    assert "stablehlo.transpose" not in text and "tensor<5x64xf32>" not in text


def test_three_loops_in_one_another():
    x = np.arange(2 * 3 * 5 * 64, dtype=np.float32).reshape(2, 3, 5, 64)
    inner = str(nested())
    closed = parse(f"""{{ lambda ; a:f32[2,3,5,64]. let
        e:f32[2] f:f32[2,3,5,64] = scan[jaxpr={inner} length=2 num_carry=0 num_consts=0 reverse=False unroll=1] a
      in (e, f) }}""")
    text = close(closed, x)
    assert "tensor<1x1x1x64xf32>" in text and "tensor<5x64xf32>" not in text and "tensor<3x5x64xf32>" not in text


def test_an_array_that_loops_write_into_and_something_else_reads():
    closed = parse(f"""{{ lambda ; a:f32[5,64] b:f32[3,5,64] i:i32[]. let
        c:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] a
        t:f32[1,5,64] = reshape[dimensions=None new_sizes=(1, 5, 64)] y
        d:f32[3,5,64] = dynamic_update_slice b t i 0:i32[] 0:i32[]
        e:f32[3,5,64] = mul d b
      in (c, d, e) }}""")
    close(closed, X[0], X, np.int32(1))


def test_what_is_put_into_an_array_goes_there_at_once():
    closed = parse(f"""{{ lambda ; a:f32[5,64] b:f32[3,5,64] i:i32[]. let
        c:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] a
        t:f32[1,5,64] = reshape[dimensions=None new_sizes=(1, 5, 64)] y
        d:f32[3,5,64] = dynamic_update_slice b t i 0:i32[] 0:i32[]
      in (c, d) }}""")
    for i in (0, 2, 9):  # beyond the end, the last one
        text = close(closed, X[0], X, np.int32(i))
    assert "tensor<1x5x64xf32>" not in text
