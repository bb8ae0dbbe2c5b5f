"""Execution plans for NumPy: broadcasts are not materialized unless needed, and results do not change."""
import threading
import warnings

import numpy as np
import pytest

from lamina_ir import ExecutionError, Primitive, evaluate, parse, prims
from lamina_ir.extend import register_primitive, observing_equations
from lamina_ir._evaluate.numpy_plan import NumpyPlan

ROW = np.arange(3, dtype=np.float32)
FULL = np.ones((2, 3), np.float32)
REPEAT = "broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 3)]"


def plan_of(text):
    return NumpyPlan(parse(text).jaxpr, lambda e: None)


def materialized_shapes(text):
    """Return the result shapes of the materialized broadcasts."""
    return [aval.shape for *_, aval, _, e in plan_of(text).steps if e.primitive is prims.broadcast_in_dim_p]


def test_row_with_full_operand_is_not_materialized():
    text = f"{{ lambda ; a:f32[3] b:f32[2,3]. let c:f32[2,3] = {REPEAT} a\n d:f32[2,3] = add b c in (d,) }}"
    assert materialized_shapes(text) == []  # nor reshaped: NumPy broadcasts along leading axes
    np.testing.assert_array_equal(evaluate(parse(text), ROW, FULL)[0], FULL + ROW)


def test_column_with_full_operand_is_only_reshaped():
    text = """{ lambda ; a:f32[2] b:f32[2,3]. let
        c:f32[2,3] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(2, 3)] a\n d:f32[2,3] = add b c in (d,) }"""
    assert materialized_shapes(text) == [(2, 1)]
    np.testing.assert_array_equal(evaluate(parse(text), ROW[:2], FULL)[0], FULL + ROW[:2, None])


def test_row_is_kept_until_its_last_use():
    """Also if the row itself is read before, between and after, or is a result."""
    text = f"""{{ lambda ; x:f32[3] b:f32[2,3]. let
        a:f32[3] = neg x\n c:f32[2,3] = {REPEAT} a\n k:f32[2,3] = {REPEAT} 2.0:f32[]\n d:f32[3] = sin a
        e:f32[2,3] = add b c\n f:f32[2,3] = mul c e\n g:f32[2,3] = sub f k\n h:f32[3] = cos a in (g, h, d, a) }}"""
    text = text.replace(f"{REPEAT} 2.0", REPEAT.replace("(1,)", "()") + " 2.0")
    a = -ROW
    for _ in range(2):
        got = evaluate(parse(text), ROW, FULL)
        for x, y in zip(got, (a * (FULL + a) - 2, np.cos(a), np.sin(a), a), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("rest", [
    "in (c,)",  # a result
    "d:f32[2,3] = add c c in (d,)",  # no full operand
    "d:f32[2,3] = neg c in (d,)",
    "d:f32[3,2] = transpose[permutation=(1, 0)] c in (d,)",  # a primitive that does not broadcast
    "d:f32[2,3] = add b c\n e:f32[2,3] = neg c in (d, e)"])  # one of two readers does not broadcast
def test_broadcast_is_materialized_where_needed(rest):
    text = f"{{ lambda ; a:f32[3] b:f32[2,3]. let c:f32[2,3] = {REPEAT} a\n {rest} }}"
    assert materialized_shapes(text) == [(2, 3)]
    first = evaluate(parse(text), ROW, FULL)[0]
    assert first.shape in ((2, 3), (3, 2)) and not np.may_share_memory(first, ROW)


def test_broadcasts_of_two_rows_are_materialized():
    text = (f"{{ lambda ; a:f32[3] b:f32[2,3]. let c:f32[2,3] = {REPEAT} a\n d:f32[2,3] = {REPEAT} a\n"
            "e:f32[2,3] = add c d in (e,) }")
    assert materialized_shapes(text) == [(2, 3), (2, 3)]


def test_observer_receives_materialized_values():
    text = f"{{ lambda ; a:f32[3] b:f32[2,3]. let c:f32[2,3] = {REPEAT} a\n d:f32[2,3] = add b c in (d,) }}"
    program, seen = parse(text), []
    evaluate(program, ROW, FULL)
    with observing_equations(lambda eqn, operands, results: seen.append((operands[-1][0].shape, results[0][0].shape))):
        evaluate(program, ROW, FULL)
    assert seen == [((3,), (2, 3)), ((2, 3), (2, 3))]


def test_literal_results_are_fresh_arrays():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (2.0:f32[], b) }")
    for _ in range(2):
        first, second = evaluate(program, 3.0)
        assert first == 2 and second == 6
        first[...] = 7


def test_redefined_implementation_is_used():
    op = register_primitive(Primitive("defined_twice", infer=lambda x: x))
    op.def_impl(lambda x: x + 1)
    program = parse("{ lambda ; a:f32[]. let b:f32[] = defined_twice a in (b,) }")
    assert evaluate(program, 1.0)[0] == 2
    op.def_impl(lambda x: x + 2)
    assert evaluate(program, 1.0)[0] == 3


def test_replaced_dot_general_evaluation_is_used(monkeypatch):
    program = parse("{ lambda ; a:f32[2,2]. let b:f32[2,2] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) "
                    "precision=None preferred_element_type=None] a a in (b,) }")
    eye = np.eye(2, dtype=np.float32)
    assert evaluate(program, eye)[0][0, 0] == 1
    monkeypatch.setattr(prims.dot_general_p, "numpy", lambda x, y, **params: x + y)
    assert evaluate(program, eye)[0][0, 0] == 2


@pytest.mark.parametrize("dimension_numbers", [
    (((1,), (0,)), ((), ())), (((0,), (0,)), ((), ())), (((1,), (1,)), ((), ())), (((0,), (1,)), ((), ())),
    (((0, 1), (0, 1)), ((), ())), (((), ()), ((), ())), (((1,), (1,)), ((0,), (0,)))])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "complex64"])
def test_products_equal_einsum(dimension_numbers, dtype):
    (lc, rc), (lb, rb) = dimension_numbers
    x = np.arange(9).reshape(3, 3).astype(dtype)
    y = (x[::-1] + x.dtype.type(1)).copy()
    left = ["ab"[i] for i in range(2)]
    right = ["cd"[i] for i in range(2)]
    for i, j in (*zip(lc, rc), *zip(lb, rb)):
        right[j] = left[i]
    out = ([left[i] for i in lb] + [left[i] for i in range(2) if i not in (*lc, *lb)]
           + [right[i] for i in range(2) if i not in (*rc, *rb)])
    wanted = np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)
    params = dict(dimension_numbers=dimension_numbers, precision=None, preferred_element_type=None)
    got = prims.dot_general_p.numpy(x, y, **params)
    assert got.dtype == x.dtype and np.array_equal(got, wanted)
    short = {"float32": "f32", "float16": "f16", "int32": "i32", "complex64": "c64"}[dtype]
    shape = ",".join(map(str, wanted.shape))
    program = parse(f"{{ lambda ; a:{short}[3,3] b:{short}[3,3]. let c:{short}[{shape}] = dot_general[dimension_numbers="
                    f"{dimension_numbers} precision=None preferred_element_type=None] a b in (c,) }}")
    assert np.array_equal(evaluate(program, x, y)[0], wanted)


def test_error_names_its_equation():
    op = register_primitive(Primitive("stumbles", infer=lambda x: x, numpy=lambda x: np.ones(3) + np.ones(2)))
    program = parse("{ lambda ; a:f32[]. let b:f32[] = neg a\n c:f32[] = stumbles b in (c,) }")
    assert op.name == "stumbles"
    with pytest.raises(ExecutionError, match="`stumbles` failed: ValueError: .*; in `.*stumbles"):
        evaluate(program, 1.0)


def test_elementwise_primitives_do_not_warn_in_any_thread():
    big, zero = np.float32([3e38, 1]), np.float32([0, 0])

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            prims.mul_p.numpy(big, big), prims.div_p.numpy(big, zero), prims.exp_p.numpy(big), prims.log_p.numpy(zero)
            prims.pow_p.numpy(big, big)  # an evaluation that calls another
        done.append(True)

    done = []
    threads = [threading.Thread(target=run) for _ in range(4)]
    run()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(done) == 5
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        np.multiply(big, big)  # the caller's setting is unchanged
