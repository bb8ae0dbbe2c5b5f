"""Building of modules: used arguments, constants, donation, shardings, determinism, nested functions, growth."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, MissingRuleError, Primitive, Var, prims, shaped
from lamina_ir.extend import Placement, Tiles
from lamina_lowering import (as_dot_graph, as_hlo_text, as_serialized_hlo_module_proto, lower, lowering_rules,
                             platform_rules)
from lamina_lowering.testing import run_lowered

F32 = np.dtype("float32")
V3, S = shaped((3,), F32), shaped((), F32)
ADD, SIN, MUL = prims.add_p, prims.sin_p, prims.mul_p


def chain(n, aval=V3):
    x = v = Var(aval)
    eqns = []
    for i in range(n):
        w = Var(aval)
        eqns.append(Eqn(SIN, [v], [w], {}) if i % 2 else Eqn(ADD, [v, Literal(2.0, S)], [w], {}))
        v = w
    return ClosedJaxpr(Jaxpr([], [x], eqns, [v]))


def call(closed, args, name="f", inline=False):
    outs = [Var(a) for a in closed.out_avals]
    params = dict(call_jaxpr=closed, name=name, donated_invars=(False,) * len(args), inline=inline, device=None,
                  backend=None)
    return Eqn(prims.xla_call_p, args, outs, params), outs


def test_dead_equations_and_unused_arguments_are_dropped():
    x, y, z, dead, out = (Var(V3) for _ in range(5))
    closed = ClosedJaxpr(Jaxpr([], [x, y, z], [Eqn(SIN, [y], [dead], {}), Eqn(ADD, [x, z], [out], {})], [out]))
    lowered = lower(closed)
    assert lowered.used_args == (True, False, True)
    assert "sine" not in lowered.as_text()
    a = np.ones(3, np.float32)
    np.testing.assert_array_equal(run_lowered(lowered, a, a, 2 * a)[0], 3 * a)
    assert lower(closed, keep_unused=True).used_args == (True, True, True)


def test_dead_constants_are_dropped():
    c, x, dead, out = Var(shaped((100,), F32)), Var(V3), Var(shaped((100,), F32)), Var(V3)
    closed = ClosedJaxpr(Jaxpr([c], [x], [Eqn(SIN, [c], [dead], {}), Eqn(SIN, [x], [out], {})], [out]),
                         [np.ones(100, np.float32)])
    assert lower(closed).const_args == []
    assert "constant" not in lower(closed, inline_limit=None).as_text()


def test_results_that_are_arguments_literals_or_duplicates():
    x = Var(V3)
    closed = ClosedJaxpr(Jaxpr([], [x], [], [x, Literal(4.0, S), x]))
    a = np.arange(3, dtype=np.float32)
    one, four, two = run_lowered(lower(closed), a)
    assert np.array_equal(one, a) and np.array_equal(two, a) and four == 4.0


def test_equal_programs_give_equal_bytecode():
    assert lower(chain(20)).bytecode() == lower(chain(20)).bytecode()
    assert lower(chain(20)).bytecode() != lower(chain(21)).bytecode()
    assert lower(chain(20)).bytecode() != lower(chain(20, shaped((4,), F32))).bytecode()


def test_big_constants_become_arguments_and_small_ones_are_inlined():
    big, small = np.arange(100, dtype=np.float32), np.array([1., 2., 3.], np.float32)
    c, d, x, y, a, b = Var(shaped((100,), F32)), Var(V3), Var(shaped((100,), F32)), Var(V3), Var(
        shaped((100,), F32)), Var(V3)
    closed = ClosedJaxpr(Jaxpr([c, d], [x, y], [Eqn(ADD, [c, x], [a], {}), Eqn(ADD, [d, y], [b], {})], [a, b]),
                         [big, small])
    lowered = lower(closed)
    assert len(lowered.const_args) == 1 and lowered.const_args[0] is big
    assert [a.shape for a in lowered.in_avals] == [(100,), (100,), (3,)]
    got = run_lowered(lowered, big, small)
    assert np.array_equal(got[0], 2 * big) and np.array_equal(got[1], 2 * small)
    assert lower(closed, inline_limit=None).const_args == []


def test_big_constants_of_nested_programs_become_arguments():
    big = np.arange(100, dtype=np.float32)
    wide = shaped((100,), F32)
    c, x, y, z, w, u = (Var(wide) for _ in range(6))
    inner = ClosedJaxpr(Jaxpr([c], [x], [Eqn(ADD, [c, x], [y], {}), Eqn(SIN, [y], [z], {}), Eqn(SIN, [z], [w], {}),
                                         Eqn(ADD, [w, x], [u], {})], [u]), [big])
    a, b = Var(wide), Var(wide)
    first, mid = call(inner, [a], "g")
    second, out = call(inner, mid, "g")
    middle = ClosedJaxpr(Jaxpr([], [a], [first, second, Eqn(SIN, out, [b], {}), Eqn(SIN, [b], [Var(wide)], {})], [b]))
    top = Var(wide)
    eqn, outs = call(middle, [top], "h")
    lowered = lower(ClosedJaxpr(Jaxpr([], [top], [eqn], outs)))
    text = lowered.as_text()
    assert text.count("func.func private @g") == 1 and text.count("call @g") == 2
    assert len(lowered.const_args) == 1

    def g(x):
        return np.sin(np.sin(x + big)) + x
    x = np.linspace(0, 1, 100, dtype=np.float32)
    np.testing.assert_allclose(run_lowered(lowered, x)[0], np.sin(g(g(x))), rtol=1e-4, atol=1e-4)


def test_nested_names_are_unique_and_main_is_the_entry():
    x = Var(V3)
    five, six = chain(5), chain(6)
    one, mid = call(five, [x], "main")
    two, mid = call(six, mid, "main")
    three, mid = call(five, mid, "main")
    four, out = call(six, mid, "main")
    text = lower(ClosedJaxpr(Jaxpr([], [x], [one, two, three, four], out)), name="a b").as_text()
    assert "module @a_b" in text
    for name in ("public @main(", "private @main_1(", "private @main_2("):
        assert name in text


def test_programs_that_are_short_or_called_once_are_inlined():
    x = Var(V3)
    for closed, times in ((chain(2), 2), (chain(9), 1)):
        eqns, outs = [], [x]
        for _ in range(times):
            eqn, outs = call(closed, outs)
            eqns.append(eqn)
        text = lower(ClosedJaxpr(Jaxpr([], [x], eqns, outs))).as_text()
        assert "call" not in text and text.count("stablehlo.sine") == len(closed.eqns) // 2 * times


def nested_calls(depth):
    """A program that calls another twice, which calls another twice, and so on."""
    closed = chain(4)
    for _ in range(depth):
        x = Var(V3)
        one, mid = call(closed, [x], "f")
        two, out = call(closed, mid, "f")
        closed = ClosedJaxpr(Jaxpr([], [x], [one, two], out))
    return closed


def test_shared_programs_are_lowered_once():
    lowered = lower(nested_calls(20))
    assert lowered.as_text().count("func.func") == 21 and lowered.as_text().count("stablehlo.sine") == 2
    assert lowered.size.equations == 4 << 20 | (2 << 20) - 2 and lowered.size.nesting == 20


def test_nested_regions_are_counted():
    closed = chain(5)
    for _ in range(3):
        i, x, out = Var(shaped((), np.dtype("int32"))), Var(V3), Var(V3)
        closed = ClosedJaxpr(Jaxpr([], [x], [
            Eqn(prims.argmax_p, [x], [i], {"axes": (0,), "index_dtype": np.dtype("int32")}),
            Eqn(prims.cond_p, [i, x], [out], {"branches": (closed, chain(4))})], [out]))
    assert lower(chain(5)).size.nesting == 0
    assert lower(closed).size.nesting in (3, 4) and lower(closed).size.equations == 3 * 2 + 5 + 3 * 4


def test_names_of_deep_calls_stay_short():
    closed = chain(4)
    for _ in range(100):
        x = Var(V3)
        eqn, outs = call(closed, [x], "a_function")
        closed = ClosedJaxpr(Jaxpr([], [x], [eqn], outs))
    text = lower(closed).as_text(debug_info=True)
    assert len(text) < 10_000 and "a_function/a_function" in text


def test_donation_pairs_by_type():
    x, y, z = Var(V3), Var(S), Var(V3)
    a, b = Var(V3), Var(V3)
    closed = ClosedJaxpr(Jaxpr([], [x, y, z], [Eqn(ADD, [x, y], [a], {}), Eqn(ADD, [a, z], [b], {})], [b]))
    lowered = lower(closed, placement=Placement(donated=(True, True, True)))
    assert lowered.donation == ((0, 0), (1, None), (2, None))
    text = lowered.as_text()
    assert text.count("tf.aliasing_output = 0") == 1 and text.count("jax.buffer_donor = true") == 2


def test_shardings_are_written_on_arguments_and_results():
    lowered = lower(chain(4, shaped((8,), F32)), placement=Placement(
        tuple(range(8)), partitions=8, in_tiles=(Tiles((8,)),), out_tiles=(Tiles(),)))
    text = lowered.as_text()
    assert 'mhlo.sharding = "{devices=[8]<=[8]}"' in text and 'mhlo.sharding = "{replicated}"' in text
    assert "mhlo.num_partitions = 8" in text and lowered.placement.partitions == 8


def test_missing_rule_error_names_the_rule_file():
    odd = Primitive("odd", infer=lambda a: a, family="shape")
    x, y = Var(V3), Var(V3)
    with pytest.raises(MissingRuleError, match="`odd`.*lamina_lowering/rules/shape.py") as caught:
        lower(ClosedJaxpr(Jaxpr([], [x], [Eqn(odd, [x], [y], {})], [y])))
    assert caught.value.__notes__[0] == "while lowering odd(float32[3])"


def test_platform_rule_takes_precedence_on_its_platform():
    table = platform_rules("tpu")
    with table.override(SIN, lambda ctx, x, **_: ctx.op("stablehlo.cosine", (x,), ctx.aval_out)):
        assert "cosine" in lower(chain(2), platform="tpu").as_text()
        assert "cosine" not in lower(chain(2), platform="cpu").as_text()
    assert "cosine" not in lower(chain(2), platform="tpu").as_text()


def test_hlo_and_graph_text_forms():
    lowered = lower(chain(2), name="program")
    assert as_hlo_text(lowered).startswith("HloModule program")
    assert lowered.as_text("hlo") == as_hlo_text(lowered)
    assert isinstance(as_serialized_hlo_module_proto(lowered), bytes)
    assert as_dot_graph(lowered).startswith("digraph")
    with pytest.raises(ValueError, match="dialect"):
        lowered.as_text("c")


def count_operations(lowered):
    return sum(line.lstrip().startswith("%") for line in lowered.as_text().splitlines())


def test_size_grows_with_the_program():
    small, large = count_operations(lower(chain(1000))), count_operations(lower(chain(8000)))
    assert small <= 1001 and large <= 8001
    lower(chain(16000))


def test_literals_keep_their_sign_and_kind():
    x, outs = Var(S), [Var(S) for _ in range(4)]
    values = (0.0, -0.0, 1.0, float("nan"))
    eqns = [Eqn(MUL, [x, Literal(v, S)], [o], {}) for v, o in zip(values, outs, strict=True)]
    got = run_lowered(lower(ClosedJaxpr(Jaxpr([], [x], eqns, outs))), np.float32(1))
    assert [np.signbit(v) for v in got[:3]] == [False, True, False] and np.isnan(got[3])


def test_rank_zero_variables_are_broadcast_in_elementwise_ops():
    x, s, out = Var(V3), Var(S), Var(V3)
    closed = ClosedJaxpr(Jaxpr([], [x, s], [Eqn(MUL, [s, x], [out], {})], [out]))
    a = np.arange(3, dtype=np.float32)
    assert np.array_equal(run_lowered(lower(closed), a, np.float32(3))[0], 3 * a)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                   "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
                                   "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_constants_of_every_dtype(dtype):
    from lamina_ir import dtypes
    d = dtypes.as_dtype(dtype)
    data = (np.arange(12).reshape(3, 4) % 2).astype(d)
    c, one = Var(shaped((3, 4), d)), np.ones((), d)
    scalar = Literal(one, shaped((), d))
    got = run_lowered(lower(ClosedJaxpr(Jaxpr([c], [], [], [c, scalar]), [data])))
    assert got[0].dtype == d and np.array_equal(got[0], data) and np.array_equal(got[1], one)


def test_lowering_from_many_threads():
    from concurrent.futures import ThreadPoolExecutor
    wanted = lower(chain(50)).bytecode()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: lower(chain(50)).bytecode() == wanted, range(40)))


@pytest.fixture
def slow_op():
    """Return a function that builds a program of one primitive with the given lowering rule."""
    def define(rule):
        op = Primitive("lowered_slowly", infer=lambda x: x, numpy=lambda x: x, elementwise=True)
        lowering_rules.define(op, rule)
        x, y = Var(V3), Var(V3)
        return ClosedJaxpr(Jaxpr([], [x], [Eqn(op, [x], [y], {})], [y]))
    return define


def sine(ctx, x):
    return ctx.op("stablehlo.sine", (x,), ctx.aval_out)


def test_rule_may_lower_another_program(slow_op):
    found = []

    def rule(ctx, x):
        found.append(lower(chain(5)))
        assert found[0].module.context is not ctx.session.context and "sine" in found[0].as_text()
        return sine(ctx, x)

    assert "sine" in lower(slow_op(rule)).as_text()
    assert found[0].bytecode() == lower(chain(5)).bytecode()


def test_rule_may_wait_for_a_lowering_thread(slow_op):
    done = []

    def rule(ctx, x):
        thread = threading.Thread(target=lambda: done.append(lower(chain(5)).bytecode()))
        thread.start()
        thread.join(60)
        assert done and not thread.is_alive()
        return sine(ctx, x)

    assert "sine" in lower(slow_op(rule)).as_text()
    assert done == [lower(chain(5)).bytecode()]


def test_rules_of_two_threads_run_concurrently(slow_op):
    from concurrent.futures import ThreadPoolExecutor
    both = threading.Barrier(2)

    def rule(ctx, x):
        both.wait(60)
        return sine(ctx, x)

    program = slow_op(rule)
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: lower(program).bytecode(), range(2))
    assert one == two


def test_context_is_replaced_when_old(monkeypatch):
    from lamina_lowering._emit import mlir_context
    before = lower(chain(4))
    monkeypatch.setattr(mlir_context, "_MODULES_PER_CONTEXT", 0)
    after = lower(chain(4))
    assert before.module.context is not after.module.context
    assert before.bytecode() == after.bytecode()


def test_first_lowering_imports_no_dialect_builders():
    import subprocess
    import sys
    code = ("import sys, numpy as np, lamina_lowering as L\n"
            "assert not any(m.split('.')[0] == 'jaxlib' for m in sys.modules)\n"
            "from lamina_ir import *\n"
            "a = shaped((3,), np.dtype('float32')); x, y = Var(a), Var(shaped((3,), np.dtype(bool)))\n"
            "L.lower(ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.lt_p, [x, x], [y], {})], [y]))).bytecode()\n"
            "assert not any(m.startswith('jaxlib.mlir.dialects.') for m in sys.modules)\n"
            "from jaxlib.mlir.dialects import stablehlo; assert stablehlo.AddOp\n")
    subprocess.run([sys.executable, "-c", code], check=True)
