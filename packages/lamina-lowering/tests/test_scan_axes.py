"""Scans over another axis than the first, and nested scans, slice arrays in place."""
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


def check_lowering(closed, *args):
    lowered = lower(closed)
    for a, b in zip(run_lowered(lowered, *args), evaluate(closed, *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return lowered.as_text()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 5])
def test_scan_over_middle_axis_needs_no_transpose(reverse, unroll):
    text = check_lowering(program(reverse=reverse, unroll=unroll), X)
    assert "stablehlo.transpose" not in text


def test_scan_over_short_slices_keeps_transposes():
    text = check_lowering(program(width=32), X[..., :32])
    assert text.count("stablehlo.transpose") == 2


def test_axes_within_a_slice_are_transposed_per_iteration():
    text = check_lowering(program(before="(0, 2, 1)", after="(0, 2, 1)"), X.transpose(1, 2, 0))
    assert text.count("stablehlo.transpose") == 2
    assert all("tensor<5x" not in line for line in text.splitlines() if "stablehlo.transpose" in line)


def test_stacked_result_with_two_readers_is_transposed_once():
    closed = parse(f"""{{ lambda ; a:f32[5,3,64]. let
        c:f32[] e:f32[5,3,64] = scan[jaxpr={STEP} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] a
        f:f32[3,5,64] = transpose[permutation=(1, 0, 2)] e
        g:f32[5,3,64] = mul e e
      in (f, g) }}""")
    assert check_lowering(closed, X.transpose(1, 0, 2)).count("stablehlo.transpose") == 1


def test_scan_reads_result_of_previous_scan():
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
    check_lowering(closed, X)


@pytest.mark.parametrize("unroll", [1, 2])
def test_large_constant_of_scan_body_becomes_argument(unroll):
    k, a, x = np.ones((3, 64), np.float32), Var(aval_of(X)), Var(aval_of(X.transpose(1, 0, 2)))
    body = parse("{ lambda k:f32[3,64] ; x:f32[3,64]. let y:f32[3,64] = add x k in (y,) }", [k])
    y, out = Var(x.aval), Var(a.aval)
    params = dict(jaxpr=body, length=5, num_carry=0, num_consts=0, reverse=False, unroll=unroll)
    transpose = {"permutation": (1, 0, 2)}
    closed = ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.transpose_p, [a], [x], transpose), Eqn(prims.scan_p, [x], [y], params),
                                         Eqn(prims.transpose_p, [y], [out], transpose)], [out]))
    lowered = lower(closed)
    assert len(lowered.const_args) == 1 and "stablehlo.transpose" not in lowered.as_text()
    np.testing.assert_array_equal(run_lowered(lowered, X)[0], X + 1)


ROW = "{ lambda ; c:f32[] x:f32[64]. let d:f32[] = add c 1.0:f32[] y:f32[64] = mul x d in (d, y) }"


def nested(between="y", more="", reverse=False):
    """A scan of length 3 around one of length 5; the outer one stacks `between`, by default the stack of the inner one."""
    inner = f"""{{ lambda ; c:f32[] x:f32[5,64]. let
        d:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse={reverse} unroll=1] c x
        {more} in (d, {between}) }}"""
    return parse(f"""{{ lambda ; a:f32[3,5,64]. let
        c:f32[] e:f32[3,5,64] = scan[jaxpr={inner} length=3 num_carry=1 num_consts=0 reverse={reverse} unroll=1] 0.0:f32[] a
      in (c, e) }}""")


@pytest.mark.parametrize("reverse", [False, True])
def test_nested_scan_slices_whole_arrays(reverse):
    assert "5x64" not in check_lowering(nested(reverse=reverse), X).replace("3x5x64", "")


def test_nested_scan_whose_stacked_result_has_another_reader():
    more = "z:f32[5,64] = neg y"
    text = check_lowering(nested("z", more), X).replace("3x5x64", "")
    assert "tensor<1x1x64xf32>" in text and "5x64" in text  # reads in place; the written slice has another reader


def test_nested_scan_over_another_axis():
    closed = parse(f"""{{ lambda ; a:f32[5,3,64]. let
        b:f32[3,5,64] = transpose[permutation=(1, 0, 2)] a
        c:f32[] e:f32[3,5,64] = scan[
          jaxpr={{ lambda ; c:f32[] x:f32[5,64]. let
            d:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] c x
            in (d, y) }}
          length=3 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] b
        f:f32[5,3,64] = transpose[permutation=(1, 0, 2)] e
      in (c, f) }}""")
    text = check_lowering(closed, X.transpose(1, 0, 2))
    assert "stablehlo.transpose" not in text and "tensor<5x64xf32>" not in text


def test_three_nested_scans():
    x = np.arange(2 * 3 * 5 * 64, dtype=np.float32).reshape(2, 3, 5, 64)
    inner = str(nested())
    closed = parse(f"""{{ lambda ; a:f32[2,3,5,64]. let
        e:f32[2] f:f32[2,3,5,64] = scan[jaxpr={inner} length=2 num_carry=0 num_consts=0 reverse=False unroll=1] a
      in (e, f) }}""")
    text = check_lowering(closed, x)
    assert "tensor<1x1x1x64xf32>" in text and "tensor<5x64xf32>" not in text and "tensor<3x5x64xf32>" not in text


def test_updated_array_that_another_equation_reads():
    closed = parse(f"""{{ lambda ; a:f32[5,64] b:f32[3,5,64] i:i32[]. let
        c:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] a
        t:f32[1,5,64] = reshape[dimensions=None new_sizes=(1, 5, 64)] y
        d:f32[3,5,64] = dynamic_update_slice b t i 0:i32[] 0:i32[]
        e:f32[3,5,64] = mul d b
      in (c, d, e) }}""")
    check_lowering(closed, X[0], X, np.int32(1))


def test_stacked_result_is_written_into_updated_array():
    closed = parse(f"""{{ lambda ; a:f32[5,64] b:f32[3,5,64] i:i32[]. let
        c:f32[] y:f32[5,64] = scan[jaxpr={ROW} length=5 num_carry=1 num_consts=0 reverse=False unroll=1] 0.0:f32[] a
        t:f32[1,5,64] = reshape[dimensions=None new_sizes=(1, 5, 64)] y
        d:f32[3,5,64] = dynamic_update_slice b t i 0:i32[] 0:i32[]
      in (c, d) }}""")
    for i in (0, 2, 9):  # an index past the end is clamped
        text = check_lowering(closed, X[0], X, np.int32(i))
    assert "tensor<1x5x64xf32>" not in text
