"""Repeated calls become loops only where that keeps the results; results are compared with the original program."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Source, Var, evaluate, prims, shaped
from lamina_lowering import lower
from lamina_lowering._passes.roll_loops import MIN_GROUPS, roll_repeated_calls
from lamina_lowering.testing import run_lowered

F32, INT = np.dtype("float32"), np.dtype("int32")
M, S = shaped((2, 2), F32), shaped((), F32)
DOT = {"dimension_numbers": (((1,), (0,)), ((), ())), "precision": None, "preferred_element_type": None}


def program(write, *avals):
    """Return the program of `write(emit, *arguments)`, where `emit(primitive, *operands, **params)` adds an equation."""
    eqns = []

    def emit(prim, *ins, source=None, **params):
        avals = [v.aval for v in ins]
        if prim.elementwise:
            avals = [M if v.__class__ is Literal else v.aval for v in ins]
        found = prim.infer(*avals, **params)
        outs = [Var(a) for a in (found if prim.multiple else (found,))]
        eqns.append(Eqn(prim, list(ins), outs, params, source))
        return outs if len(outs) != 1 else outs[0]

    args = [Var(a) for a in avals]
    outs = write(emit, *args)
    return ClosedJaxpr(Jaxpr([], args, eqns, outs if isinstance(outs, list) else [outs]))


def emit_call(emit, closed, *args, source=None):
    return emit(prims.xla_call_p, *args, source=source, call_jaxpr=closed, name="f", donated_invars=(False,) * len(args),
                inline=False, device=None, backend=None)


def lit(value):
    return Literal(value, S)


def mul(emit, x, y):
    return emit(prims.dot_general_p, x, y, **DOT)


BODY = program(lambda emit, x, w: emit(prims.tanh_p, emit(prims.add_p, mul(emit, x, w), lit(0.25))), M, M)
PAIR = program(lambda emit, x, y: [mul(emit, x, y), emit(prims.sin_p, x)], M, M)


def check_same_values(closed, **options):
    """Check that the lowered loop computes the values of the equations; return the equations that are left."""
    r = np.random.RandomState(0)
    args = [(0.4 * r.randn(*a.shape)).astype(a.dtype) for a in closed.in_avals]
    left = roll_repeated_calls(closed.eqns, closed.jaxpr.outvars)
    for got, wanted in zip(run_lowered(lower(closed), *args), evaluate(closed, *args), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    return left


def test_repeated_call_becomes_scan():
    def write(emit, x, w):
        for _ in range(40):
            x = emit_call(emit, BODY, x, w)
        return x
    (loop,) = check_same_values(program(write, M, M))
    assert loop.primitive is prims.scan_p and loop.params["length"] == 40
    assert (loop.params["num_consts"], loop.params["num_carry"]) == (1, 1)


def test_equations_between_calls_are_part_of_the_loop():
    def write(emit, x, w):
        for _ in range(30):
            x = emit_call(emit, BODY, emit(prims.add_p, x, lit(0.5)), w)
        return emit(prims.sin_p, x)
    left = check_same_values(program(write, M, M))
    assert [e.primitive.name for e in left] == ["add", "scan", "xla_call", "sin"]
    assert [e.primitive.name for e in left[1].params["jaxpr"].eqns] == ["xla_call", "add"]


def test_two_instructions_of_one_line_are_one_call_site():
    """CPython reports another instruction of a line for a call once it has specialised it."""
    one = next(start for start, end, _ in other_lines.__code__.co_lines() if end - start >= 4)

    def write(emit, x, w):
        for k in range(20):
            x = emit_call(emit, BODY, x, w, source=Source(other_lines.__code__, one + 2 * (k > 7)))
        return x
    (loop,) = check_same_values(program(write, M, M))
    assert loop.params["length"] == 20


def test_several_values_are_carried():
    def write(emit, x, y):
        for _ in range(20):
            x, y = emit_call(emit, PAIR, x, y)
            y = emit(prims.add_p, y, x)
        return [y, x]
    (loop,) = check_same_values(program(write, M, M))
    assert loop.params["num_carry"] == 2


def test_one_value_carried_from_two_initial_values():
    def write(emit, x, y):
        a, b = x, y
        for _ in range(20):
            a = b = emit_call(emit, BODY, a, b)
        return a
    (loop,) = check_same_values(program(write, M, M))
    assert loop.params["num_carry"] == 2


def test_last_result_that_is_not_carried_is_computed_outside():
    def write(emit, x, y):
        for _ in range(20):
            x, last = emit_call(emit, PAIR, x, y)
        return [x, last]
    left = check_same_values(program(write, M, M))
    assert [e.primitive.name for e in left] == ["scan", "xla_call"] and left[0].params["length"] == 19


def test_two_sequences_of_calls_become_two_scans():
    other = program(lambda emit, x, w: emit(prims.cos_p, emit(prims.sub_p, mul(emit, x, w), lit(0.125))), M, M)

    def write(emit, x, w):
        for body in (BODY, other):
            for _ in range(18):
                x = emit_call(emit, body, x, w)
        return x
    assert [e.params["length"] for e in check_same_values(program(write, M, M))] == [18, 18]


BACK = program(lambda emit, w, x, y, ct: [mul(emit, emit(prims.mul_p, ct, y), w), mul(emit, x, ct)], M, M, M, M)
SAVING = program(lambda emit, x, w: [emit(prims.tanh_p, y := mul(emit, x, w)), emit(prims.sin_p, y)], M, M)


def scans(eqns):
    return [e for e in eqns if e.primitive is prims.scan_p]


def take_slice(emit, ws, k):
    shape = ws.aval.shape
    piece = emit(prims.slice_p, ws, start_indices=(k, 0, 0), limit_indices=(k + 1, *shape[1:]), strides=None)
    return emit(prims.squeeze_p, piece, dimensions=(0,))


def test_backward_calls_read_residuals_of_forward_calls():
    def write(emit, x, w):
        saved = []
        for _ in range(60):
            y, s = emit_call(emit, SAVING, x, w)
            saved.append((x, s))
            x = y
        ct, total = emit(prims.cos_p, x), w
        for x, s in reversed(saved):
            ct, dw = emit_call(emit, BACK, w, x, s, ct)
            total = emit(prims.add_p, total, dw)
        return [ct, total]
    left = check_same_values(program(write, M, M))
    forward, backward = scans(left)
    assert forward.params["length"] == 60
    assert backward.params["length"] == 59  # the last call reads the argument of the program
    assert sum(e.primitive is prims.xla_call_p for e in left) == 1 and len(left) < 12


def test_slices_of_an_array_and_sums_into_slices():
    ws = shaped((40, 2, 2), F32)

    def write(emit, x, ws):
        saved = []
        for k in range(40):
            w = take_slice(emit, ws, k)
            y, s = emit_call(emit, SAVING, x, w)
            saved.append((w, x, s))
            x = y
        ct, total = emit(prims.cos_p, x), None
        for k, (w, x, s) in reversed(list(enumerate(saved))):
            ct, dw = emit_call(emit, BACK, w, x, s, ct)
            dw = emit(prims.reshape_p, dw, new_sizes=(1, 2, 2), dimensions=None)
            dw = emit(prims.pad_p, dw, lit(0.0), padding_config=((k, 39 - k, 0), (0, 0, 0), (0, 0, 0)))
            total = dw if total is None else emit(prims.add_p, total, dw)
        return [ct, total]
    closed = program(write, M, ws)
    left = check_same_values(closed)
    assert [e.params["length"] for e in scans(left)] == [40, 38]
    assert sum(e.primitive is prims.pad_p for e in left) == 1  # the first pad; the others become sums into one slice
    assert len(left) < 40


@pytest.mark.parametrize("padded", [(0, 0, 1), (1, 1, 0), (0, 0, 0)])
def test_pads_that_are_not_one_slice(padded):
    """Sums and slices of more than one slice: they also widen another axis, or an inner one."""
    width = 2 + 2 * padded[0] + padded[2]
    ws = shaped((20, width, 2), F32)

    def write(emit, x, ws):
        total = ws
        for k in range(20):
            x = emit_call(emit, BODY, x, x)
            piece = emit(prims.reshape_p, x, new_sizes=(1, 2, 2), dimensions=None)
            piece = emit(prims.pad_p, piece, lit(0.0), padding_config=((k, 19 - k, 0), padded, (0, 0, 0)))
            total = emit(prims.add_p, total, piece)
        thin = emit(prims.pad_p, total, lit(0.0), padding_config=((-6, -32, 1), (0, 0, 0), (0, 0, 0)))
        return [total, emit(prims.reshape_p, thin, new_sizes=(width, 2), dimensions=None), x]
    assert len(scans(check_same_values(program(write, M, ws)))) == (padded == (0, 0, 0))


def test_slices_along_another_axis():
    ws = shaped((2, 20, 2), F32)

    def write(emit, x, ws):
        for k in reversed(range(20)):
            piece = emit(prims.slice_p, ws, start_indices=(0, k, 0), limit_indices=(2, k + 1, 2), strides=None)
            x = emit_call(emit, BODY, x, emit(prims.reshape_p, piece, new_sizes=(2, 2), dimensions=None))
        return x
    left = check_same_values(program(write, M, ws))
    assert [e.primitive.name for e in left] == ["scan"]


def test_literals_that_differ_between_calls():
    def scaled(emit, x, w, c, i):
        i = emit(prims.convert_element_type_p, i, new_dtype=F32, weak_type=False)
        return emit(prims.add_p, emit(prims.mul_p, mul(emit, x, w), c), i)
    body = program(scaled, M, M, S, shaped((), INT))

    def write(emit, x, w):
        for k in range(20):
            x = emit_call(emit, body, x, w, lit(1 / (k + 2)), Literal(3 - 2 * k, shaped((), INT)))
        return x
    (loop,) = check_same_values(program(write, M, M))
    assert loop.params["length"] == 20


def test_small_operands_are_concatenated_and_large_ones_are_not():
    def of(n):
        a = shaped((n, n), F32)
        body = program(lambda emit, x, w: mul(emit, x, w), a, a)

        def write(emit, x, *ws):
            for w in ws:
                x = emit_call(emit, body, x, w)
            return x
        return program(write, a, *[a] * 50)
    assert [e.primitive.name for e in check_same_values(of(4)) if e.primitive is not prims.reshape_p] == ["concatenate", "scan"]
    assert not scans(roll_repeated_calls(of(64).eqns, of(64).jaxpr.outvars))


def test_concatenated_results_of_calls():
    def write(emit, x, w):
        made = []
        for _ in range(60):
            x = emit_call(emit, BODY, x, w)
            made.append(emit(prims.expand_dims_p, x, dimensions=(1,)))
        odd = emit(prims.expand_dims_p, w, dimensions=(1,))
        return [emit(prims.concatenate_p, *made, dimension=1), emit(prims.concatenate_p, odd, *made[3:40], odd, dimension=1), x]
    left = check_same_values(program(write, M, M))
    assert len(scans(left)) == 1 and len(left) < 12


def test_results_with_other_readers_end_the_loop():
    def write(emit, x, w):
        made = []
        for k in range(90):
            x = emit_call(emit, BODY, x, w)
            if k in (29, 30, 60):
                made.append(x)
        return [x, *made]
    assert [e.params["length"] for e in scans(check_same_values(program(write, M, M)))] == [30, 30, 29]


def results_in_a_list(emit, x, w):
    made = []
    for _ in range(60):
        x = emit_call(emit, BODY, x, w)
        made.append(x)
    return made


def results_that_other_equations_read(emit, x, w):
    made = []
    for _ in range(60):
        x = emit_call(emit, BODY, x, w)
        made.append(x)
    for y in made[::2] + made[1::2]:
        w = emit(prims.add_p, w, y)
    return w


def stacks_of_a_short_chain(emit, x, w):
    made = []
    for _ in range(20):
        x = emit_call(emit, BODY, x, w)
        made.append(emit(prims.expand_dims_p, x, dimensions=(0,)))
    return emit(prims.concatenate_p, *made, dimension=0)


def over_two_groups(emit, x, w):
    before = w
    for _ in range(20):
        x, before = emit_call(emit, BODY, x, before), x
        x, before = emit_call(emit, BODY, before, x), emit(prims.sin_p, before)
    return x


def other_lines(emit, x, w):
    starts = sorted({line: start for start, _, line in other_lines.__code__.co_lines()}.values())
    for k in range(20):
        x = emit_call(emit, BODY, x, w, source=Source(other_lines.__code__, starts[1 + k % 2]))
    return x


def too_few(emit, x, w):
    for _ in range(MIN_GROUPS - 1):
        x = emit_call(emit, BODY, x, w)
    return x


def elementwise(emit, x, w):
    body = program(lambda emit, x: emit(prims.sin_p, emit(prims.cos_p, x)), M)
    for _ in range(20):
        x = emit_call(emit, body, x)
    return x


@pytest.mark.parametrize("write", [
    results_in_a_list, results_that_other_equations_read, stacks_of_a_short_chain, over_two_groups, other_lines, too_few,
    elementwise])
def test_unsuitable_calls_are_not_rolled(write):
    closed = program(write, M, M)
    assert not any(e.primitive is prims.scan_p for e in check_same_values(closed))


@pytest.mark.slow
def test_random_programs_keep_their_values():
    bodies = [BODY, program(lambda emit, x, w: emit(prims.sub_p, mul(emit, w, x), x), M, M)]
    loops = 0
    for seed in range(24):
        r = np.random.RandomState(seed)
        steps = [(r.randint(4), r.randint(3), r.randint(3), r.randint(2)) for _ in range(r.randint(1, 4))]
        odd = r.randint(3, 40)

        def write(emit, *args, steps=steps, odd=odd, r=r):
            values = list(args)
            for k in range(18):
                for kind, a, b, body in steps if k != odd else steps[::-1]:
                    if kind < 2:
                        values[a] = emit_call(emit, bodies[body], values[a], values[b])
                    else:
                        values[a] = emit(prims.tanh_p, emit(prims.add_p if kind == 2 else prims.mul_p, values[b], values[a]))
            return values[:1 + odd % 3]
        loops += any(e.primitive is prims.scan_p for e in check_same_values(program(write, M, M, M)))
    assert loops > 6
