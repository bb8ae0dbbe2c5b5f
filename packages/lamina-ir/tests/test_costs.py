"""Operation and byte counts: each primitive has a rule or a reason, known counts are exact, loops multiply."""
import numpy as np
import pytest

from lamina_ir import (Builder, Cost, Primitive, build, cost_by_primitive, cost_rules, eqn_cost, inline_calls, parse,
                       prims, program_cost, shaped)
from lamina_ir._cost.table import CostRules
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of


def cost_of(op, *types, **params):
    b = Builder()
    b.op(op, *[b.input(t) for t in types], **params)
    return program_cost(b.build())


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_every_primitive_has_cost_rule_or_reason(prim):
    wired = prim.region_signature is not None and bool(prim.region_signature.operands)
    assert (prim in cost_rules) + (prim in cost_rules.missing_rules) + wired == 1
    for row in samples_of(prim):
        cost = eqn_cost(make_sample_program(row).eqns[0])
        for n in (cost.flops, cost.transcendentals, cost.bytes_read, cost.bytes_written):
            assert type(n) is int and n >= 0
        if prim in cost_rules.missing_rules:
            assert cost.uncounted == {(prim.name, cost_rules.missing_rules[prim])} and not cost.flops
        if not any(np.issubdtype(a.dtype, np.inexact) or a.dtype.kind == "V" for a in row.args) and not prim.subprograms:
            assert not cost.flops or prim.family == "random_bits"


F, C = "f32[4,6]", "c64[4,6]"
NCW = prims.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
KNOWN = [
    (("add", F, F), {}, 24, 0),
    (("add", C, C), {}, 48, 0),
    (("mul", C, "c64[]"), {}, 144, 0),
    (("mul", "i32[4]", "i32[4]"), {}, 0, 0),
    (("exp", F), {}, 0, 24),
    (("pow", F, "f32[]"), {}, 0, 24),
    (("integer_pow", F), dict(y=2), 24, 0),
    (("integer_pow", F), dict(y=7), 4 * 24, 0),
    (("integer_pow", F), dict(y=-1), 24, 0),
    (("integer_pow", F), dict(y=0), 0, 0),
    (("clamp", "f32[]", F, "f32[]"), {}, 48, 0),
    (("select", "bool[4,6]", F, F), {}, 0, 0),
    (("transpose", F), dict(permutation=(1, 0)), 0, 0),
    (("reduce_sum", F), dict(axes=(0, 1)), 23, 0),
    (("reduce_max", F), dict(axes=(0,)), 18, 0),
    (("cumsum", F), dict(axis=1), 20, 0),
    (("dot_general", F, "f32[6,5]"), dict(dimension_numbers=(((1,), (0,)), ((), ()))), 2 * 4 * 5 * 6, 0),
    (("dot_general", "c64[3,4,6]", "c64[3,6]"), dict(dimension_numbers=(((2,), (1,)), ((0,), (0,)))), 8 * 3 * 4 * 6, 0),
    (("dot_general", "i8[4]", "i8[4]"), dict(dimension_numbers=(((0,), (0,)), ((), ()))), 0, 0),
    (("conv_general_dilated", "f32[2,3,8]", "f32[5,3,4]"),
     dict(dimension_numbers=NCW), 2 * (2 * 5 * 5) * (3 * 4), 0),
    (("conv_general_dilated", "f32[2,4,8]", "f32[6,2,4]"),
     dict(dimension_numbers=NCW, feature_group_count=2), 2 * (2 * 6 * 5) * 8, 0),
    (("reduce_window_max", "f32[10]"), dict(window_dimensions=(3,), window_strides=(2,)), 4 * 2, 0),
    (("fft", "c64[2,8]"), dict(fft_type=prims.FftType.FFT, fft_lengths=(8,)), 2 * 5 * 8 * 3, 0),
    (("fft", "f32[2,8]"), dict(fft_type=prims.FftType.RFFT, fft_lengths=(8,)), 5 * 8 * 3, 0),
    (("sort", "f32[3,8]"), dict(dimension=1), 3 * 8 * 3, 0),
    (("triangular_solve", "f32[4,4]", "f32[4,2]"), dict(left_side=True, lower=True), 32, 0),
    (("psum_scatter", "f32[8]"), dict(axis_name="i", axis_size=4, scatter_dimension=0, tiled=True), 6, 0),
]


@pytest.mark.parametrize("given, params, flops, transcendentals", KNOWN, ids=[f"{g[0]}-{g[1]}" for g, *_ in KNOWN])
def test_known_operation_counts(given, params, flops, transcendentals):
    cost = cost_of(*given, **params)
    assert (cost.flops, cost.transcendentals) == (flops, transcendentals) and not cost.uncounted


def count_operations(op, n):
    """Return the number of real operations of the textbook loops on an n by n matrix."""
    if op == "cholesky":
        return sum(1 + (n - k - 1) + 2 * sum(range(1, n - k)) for k in range(n))
    steps = sum((n - k - 1) + 2 * (n - k - 1) ** 2 for k in range(n))
    return steps if op == "lu" else 2 * steps


@pytest.mark.parametrize("op", ["cholesky", "lu", "geqrf"])
def test_factorization_counts_equal_textbook_loops(op):
    n = 300
    assert cost_of(op, shaped((n, n), "float32")).flops == pytest.approx(count_operations(op, n), rel=0.01)
    assert cost_of(op, shaped((2, n, n), "complex64")).flops == 8 * cost_of(op, shaped((n, n), "float32")).flops


def test_byte_counts():
    program = parse("{ lambda ; a:f32[8] b:i32[]. let c:f32[8] = mul a a d:f32[8] = mul c 2.0:f32[] e:f32[2] = "
                    "dynamic_slice[slice_sizes=(2,)] d b f:f32[1,2] = reshape[new_sizes=(1,2) dimensions=None] e in (f,) }")
    assert [(c.bytes_read, c.bytes_written) for c in map(eqn_cost, program.eqns)] == [(32, 32), (32, 32), (12, 8), (0, 0)]
    total = program_cost(program)
    assert total.bytes == total.bytes_read + total.bytes_written == 148 and total.intensity == 16 / 148


def work(n=4):
    return build(lambda b, x: b.op("sin", b.op("mul", x, x)), f"f32[{n}]")


def test_costs_of_loops_calls_maps_and_branches():
    once = program_cost(work())
    assert once == Cost(flops=4, transcendentals=4, bytes_read=32, bytes_written=32)
    loop = build(lambda b, x: b.scan(work(), [x], length=7)[0], "f32[4]")
    assert program_cost(loop) == once * 7
    assert program_cost(build(lambda b, x: b.scan(loop, [x], length=3)[0], "f32[4]")) == 21 * once
    call = build(lambda b, x: b.call(work(), *b.call(work(), x)), "f32[4]")
    assert program_cost(call) == program_cost(inline_calls(call)) == once + once
    mapped = build(lambda b, x: b.op("xla_pmap", x, axis_name="i", axis_size=8, call_jaxpr=work(), in_axes=(0,),
                                     out_axes=(0,)), "f32[8,4]")
    assert program_cost(mapped) == once * 8
    branch = build(lambda b, i, x: b.switch(i, [lambda b, x: x, work(), lambda b, x: b.op("neg", x)], x), "i32[]", "f32[4]")
    assert program_cost(branch) == once
    assert program_cost(build(lambda b, x: b.scan(work(), [x], length=0)[0], "f32[4]")) == Cost()


def test_unbounded_while_is_uncounted_unless_iterations_are_given():
    def f(b, x):
        return b.while_loop(lambda b, y: b.op("lt", b.op("reduce_sum", y, axes=(0,)), 9.0), work(), x)

    def bounded(b, x):
        return b.while_loop(lambda b, y: b.op("lt", b.op("reduce_sum", y, axes=(0,)), 9.0), work(), x, max_iters=6)

    test = Cost(flops=4, bytes_read=20, bytes_written=5)
    loop = build(f, "f32[4]")
    assert [op for op, _ in program_cost(loop).uncounted] == ["while"]
    assert program_cost(loop).work().flops == 4 + 2 * 4
    for turns in (5, lambda e: 5):
        assert program_cost(loop, iterations=turns) == eqn_cost(loop.eqns[0],
                                                                iterations=turns) == program_cost(work()) * 5 + test * 6
    assert program_cost(build(bounded, "f32[4]")) == program_cost(work()) * 6 + test * 7
    inner = build(lambda b, x: b.scan(loop, [x], length=2)[0], "f32[4]")
    assert program_cost(inner, iterations=5) == program_cost(loop, iterations=5) * 2


def test_costs_by_primitive_sum_to_program_cost():
    program = build(lambda b, x: b.scan(work(), [b.op("mul", x, 2.0)], length=7)[0], "f32[4]")
    by_op = cost_by_primitive(program)
    assert {op: (c.flops, c.transcendentals) for op, c in by_op.items()} == {"mul": (32, 0), "sin": (0, 28), "scan": (0, 0)}
    assert sum(by_op.values(), Cost()) == program_cost(program) == program_cost(program.jaxpr)


def test_reduction_computation_counts_for_each_element():
    add = build(lambda b, x, y: b.op("add", x, y), "f32[]", "f32[]")
    assert cost_of("reduce", "f32[4,6]", "f32[]", computation=add, dimensions=(1,)).flops == 24
    assert cost_of("reduce_window", "f32[10]", "f32[]", computation=add, window_dimensions=(3,)).flops == 24


def test_shared_program_is_counted_once_and_multiplied():
    program = work()
    for _ in range(40):
        program = build(lambda b, x: b.call(program, *b.call(program, x)), "f32[4]")
    assert program_cost(program).flops == 4 * 2**40


def test_third_party_primitives_use_cost_rules():
    other_p = Primitive("other_of_costs", params=("n",), infer=lambda x, *, n: x)
    each_p = Primitive("each_of_costs", infer=lambda x: x, elementwise=True)
    b = Builder()
    x = b.input("f32[4]")
    b.op(other_p, x, n=3)
    b.op(each_p, x)
    program = b.build()
    assert program_cost(program) == Cost(4, 0, 32, 32, frozenset([("other_of_costs", "it has no rule in cost_rules")]))
    cost_rules.define(other_p, lambda ins, outs, n: n * ins[0].size)
    cost_rules.declare_missing(each_p, "as I say")
    assert program_cost(program) == Cost(12, 0, 32, 32, frozenset([("each_of_costs", "as I say")]))
    cost_rules.define(each_p, lambda ins, outs: (1, 2))
    assert program_cost(program) == Cost(13, 2, 32, 32)
    cost_rules.define(each_p, lambda ins, outs: Cost(5))
    assert program_cost(program) == Cost(17, 0, 16, 16)


@pytest.mark.parametrize("call, words", [
    (lambda: program_cost(3), "program_cost: expected a Jaxpr or a ClosedJaxpr; got int: 3"),
    (lambda: eqn_cost(work()), "eqn_cost: expected an Eqn; got ClosedJaxpr"),
    (lambda: program_cost(work(), iterations=-1), "iterations must be a number of at least 0, .*; got int: -1"),
    (lambda: CostRules().define("sin", abs), "expected a Primitive and a function.*got str: 'sin'"),
    (lambda: CostRules().define(prims.sin_p, "axes"), "or one of its params; got Primitive: sin and str: 'axes'"),
    (lambda: CostRules().declare_missing(prims.sin_p, 3), "expected a Primitive and a reason.*int: 3"),
    (lambda: Cost() + 3, "unsupported operand"), (lambda: Cost() * "x", "can't multiply|unsupported operand")])
def test_non_programs_are_rejected(call, words):
    with pytest.raises(TypeError, match=words):
        call()
