"""Whole programs: results, constants, nested calls, control flow, unused arguments, donation, errors."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, UnboundAxisError, Var, parse, prims, shaped
from lamina_ir.extend import Placement
from lamina_ir.interfaces import Lowered

from lamina_lowering import lower

from lamina_lowering.conformance.runner import V, call_of, chain, check_run, program_of, run

X = np.array([0.5, -1, 2], np.float32)
SIN, EXP, ADD, MUL = prims.sin_p, prims.exp_p, prims.add_p, prims.mul_p

PROGRAMS = {
    "a chain": "{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = mul b a d:f32[3] = sub c 2.0:f32[] in (d,) }",
    "shared values": "{ lambda ; a:f32[3]. let b:f32[3] = exp a c:f32[3] = mul b b d:f32[3] = add c b in (d, b, c) }",
    "of integers": "{ lambda ; a:i32[3]. let b:i32[3] = mul a a c:i32[3] = sub b a in (c,) }",
    "types turned": "{ lambda ; a:f32[3]. let b:i32[3] = convert_element_type[new_dtype=int32 weak_type=False] a "
                    "c:bool[3] = lt b 1:i32[] in (b, c) }",
    "shapes": "{ lambda ; a:f32[2,3]. let b:f32[3,2] = transpose[permutation=(1, 0)] a "
              "c:f32[6] = reshape[dimensions=None new_sizes=(6,)] b d:f32[] = reduce_sum[axes=(0,)] c in (b, c, d) }",
    "a product": "{ lambda ; a:f32[2,3] b:f32[3,4]. let c:f32[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) "
                 "precision=None preferred_element_type=None] a b in (c,) }",
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_lowered_program_equals_numpy_evaluation(text: str) -> None:
    program = parse(PROGRAMS[text])
    rng = np.random.default_rng(1)
    check_run(program, *[np.asarray(rng.normal(size=a.shape) * 3).astype(a.dtype) for a in program.in_avals], slack=4)


def test_results_may_be_arguments_literals_and_duplicates() -> None:
    x, y = Var(V), Var(V)
    check_run(ClosedJaxpr(Jaxpr([], [x, y], [], [y, Literal(4.0, shaped((), V.dtype)), x, y])), X, 2 * X)


def test_programs_without_arguments_or_results() -> None:
    out = Var(shaped((4,), np.dtype("int32")))
    iota = Eqn(prims.iota_p, [], [out], {"dimension": 0, "dtype": np.dtype("int32"), "shape": (4,)})
    check_run(ClosedJaxpr(Jaxpr([], [], [iota], [out])))
    x = Var(V)
    assert run(lower(ClosedJaxpr(Jaxpr([], [x], [], []))), ClosedJaxpr(Jaxpr([], [x], [], [])), [X]) == []


def test_axes_of_size_zero() -> None:
    check_run(chain(SIN, aval=shaped((0, 3), V.dtype)), np.zeros((0, 3), np.float32))
    x, total = Var(shaped((0,), V.dtype)), Var(shaped((), V.dtype))
    check_run(ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.reduce_sum_p, [x], [total], {"axes": (0,)})], [total])),
           np.zeros(0, np.float32))


def test_small_and_large_constants() -> None:
    big, small = np.arange(300, dtype=np.float32), np.array([1, 2, 3], np.float32)
    wide = shaped((300,), V.dtype)
    c, d, x, y, a, b = Var(wide), Var(V), Var(wide), Var(V), Var(wide), Var(V)
    program = ClosedJaxpr(Jaxpr([c, d], [x, y], [Eqn(ADD, [c, x], [a], {}), Eqn(MUL, [d, y], [b], {})], [a, b]), [big, small])
    lowered = check_run(program, 2 * big, X)
    assert len(lowered.in_avals) == len(lowered.const_args) + 2


def test_unused_arguments_do_not_change_results() -> None:
    x, y, z, dead, out = (Var(V) for _ in range(5))
    program = ClosedJaxpr(Jaxpr([], [x, y, z], [Eqn(SIN, [y], [dead], {}), Eqn(ADD, [x, z], [out], {})], [out]))
    lowered = check_run(program, X, np.full(3, np.nan, np.float32), 2 * X)
    assert len(lowered.used_args) == 3 and lowered.used_args[0] and lowered.used_args[2]
    assert len(lowered.in_avals) == len(lowered.const_args) + sum(lowered.used_args)


def test_nested_calls() -> None:
    x = Var(V)
    inner = chain(SIN, EXP)
    first, mid = call_of(inner, [x], prims.xla_call_p, name="f")
    second, out = call_of(inner, mid, prims.xla_call_p, name="f")
    middle = ClosedJaxpr(Jaxpr([], [x], [first, second], [*out, *mid]))
    top = Var(V)
    outer, results = call_of(middle, [top], prims.xla_call_p, name="main")
    check_run(ClosedJaxpr(Jaxpr([], [top], [outer], results)), X, slack=4)


def test_branch_and_loop() -> None:
    index, x, out = Var(shaped((), np.dtype("int32"))), Var(V), Var(V)
    branch = ClosedJaxpr(Jaxpr([], [index, x], [Eqn(prims.cond_p, [index, x], [out],
                                                    {"branches": (chain(SIN), chain(EXP), chain(prims.neg_p))})], [out]))
    for k in (-1, 0, 1, 2, 9):  # out of range: the nearest branch
        check_run(branch, np.int32(k), X)
    doubling = parse("""{ lambda ; a:f32[]. let b:f32[] = while[
        body_jaxpr={ lambda ; c:f32[]. let d:f32[] = mul c 2.0:f32[] in (d,) } body_nconsts=0
        cond_jaxpr={ lambda ; e:f32[]. let f:bool[] = lt e 100.0:f32[] in (f,) } cond_nconsts=0 ] a in (b,) }""")
    for start in (3.0, 1000.0):
        check_run(doubling, np.float32(start))


def test_equal_programs_have_equal_bytecode() -> None:
    def bytes_of(program: Any, **options: Any) -> bytes:
        return lower(program, **options).bytecode()

    assert bytes_of(chain(SIN, EXP)) == bytes_of(chain(SIN, EXP))
    others = [chain(EXP, SIN), chain(SIN, EXP, SIN), chain(SIN, EXP, aval=shaped((4,), V.dtype)),
              chain(SIN, EXP, aval=shaped((3,), np.dtype("float16")))]
    found = {bytes_of(p) for p in (chain(SIN, EXP), *others)}
    assert len(found) == 1 + len(others)


def test_lowered_object_describes_arguments_and_results() -> None:
    program = parse(PROGRAMS["types turned"])
    lowered = lower(program, name="turned")
    assert isinstance(lowered, Lowered)
    assert [(a.shape, a.dtype) for a in lowered.in_avals] == [((3,), np.float32)]
    assert [(a.shape, a.dtype) for a in lowered.out_avals] == [((3,), np.int32), ((3,), np.bool_)]
    assert (lowered.name, lowered.platform, lowered.used_args) == ("turned", "cpu", (True,))
    assert isinstance(lowered.format, str) and isinstance(lowered.bytecode(), bytes)
    assert isinstance(lowered.as_text(), str) and lowered.as_text()
    assert tuple(lowered.donation) == () and lowered.placement.replicas == lowered.placement.partitions == 1


@pytest.mark.cost
def test_donated_arguments_are_paired_with_results_of_equal_type() -> None:
    x, y, a = Var(V), Var(shaped((2,), V.dtype)), Var(V)
    program = ClosedJaxpr(Jaxpr([], [x, y], [Eqn(SIN, [x], [a], {})], [a, y]))
    lowered = lower(program, placement=Placement(donated=(True, False)))
    assert tuple(lowered.donation) == ((0, 0),)


def test_lowering_for_every_platform() -> None:
    for platform in ("cpu", "cuda", "tpu"):
        assert lower(chain(SIN, EXP), platform=platform).platform == platform


def test_threads_may_lower_concurrently() -> None:
    wanted = lower(chain(SIN, EXP, SIN)).bytecode()
    found: list[bytes] = []

    def some() -> None:
        for _ in range(5):
            found.append(lower(chain(SIN, EXP, SIN)).bytecode())

    threads = [threading.Thread(target=some) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [wanted] * 20


def test_unbound_axis_is_rejected_by_name() -> None:
    with pytest.raises(UnboundAxisError, match="somewhere"):
        lower(program_of([(prims.psum_p, [V], {"axes": ("somewhere",), "axis_index_groups": None})]))
