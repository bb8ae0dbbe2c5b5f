"""`compile_with` parses each module in a context of its own, because compilers change modules."""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, prims, shaped
from lamina_lowering import lower
from lamina_lowering._emit import mlir_context

F32 = np.dtype("float32")


@pytest.fixture(autouse=True)
def start_without_free_contexts(monkeypatch):
    """Empty the list of reusable contexts."""
    monkeypatch.setattr(mlir_context, "_free_parse_contexts", [])


def chain(n):
    aval = shaped((3,), F32)
    values = [Var(aval) for _ in range(n + 1)]
    return lower(ClosedJaxpr(Jaxpr([], values[:1], [Eqn(prims.sin_p, [a], [b], {}) for a, b in zip(values, values[1:])],
                                   values[-1:])))


def test_changes_by_a_compiler_do_not_reach_the_lowered_module():
    lowered = chain(2)
    before = lowered.as_text()

    def rename(module):
        from jaxlib.mlir import ir
        module.operation.attributes["sym_name"] = ir.StringAttr.get("another", module.context)
        return str(module)

    assert "module @another" in lowered.compile_with(rename)
    assert lowered.as_text() == before and lowered.compile_with(str) == before


def test_parse_contexts_are_reused_and_separate_from_build_contexts():
    a, b = chain(1), chain(2)
    first, second = (x.compile_with(lambda module: module.context) for x in (a, b))
    assert first is second and first is not a.module.context


def test_concurrent_compilations_use_two_contexts():
    both = threading.Barrier(2)

    def use(module):
        both.wait(60)
        return module.context

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda n: chain(n).compile_with(use), (1, 2))
    assert one is not two and len(mlir_context._free_parse_contexts) == 2


def test_nested_compilation_uses_another_context():
    inner = chain(2)
    one, two = chain(1).compile_with(lambda module: (module.context, inner.compile_with(lambda m: m.context)))
    assert one is not two


@pytest.mark.parametrize("bound", ["_MODULES_PER_CONTEXT", "_PARSED_BYTES_PER_CONTEXT"])
def test_old_contexts_are_dropped(monkeypatch, bound):
    monkeypatch.setattr(mlir_context, bound, 1)
    chain(1).compile_with(str)
    assert not mlir_context._free_parse_contexts


def test_number_of_free_contexts_is_bounded():
    lowered, most = chain(1), mlir_context._MAX_FREE

    def nested(n):
        return lowered.compile_with(lambda module: nested(n - 1) if n else None)

    nested(most + 2)
    assert len(mlir_context._free_parse_contexts) == most


def test_context_is_dropped_after_an_error():
    with pytest.raises(ZeroDivisionError):
        chain(1).compile_with(lambda module: 1 // 0)
    assert not mlir_context._free_parse_contexts


def test_shardy_regions_are_parsed():
    member, whole = Var(shaped((3,), F32)), Var(shaped((4, 3), F32))
    sine, out = Var(member.aval), Var(whole.aval)
    body = ClosedJaxpr(Jaxpr([], [member], [Eqn(prims.sin_p, [member], [sine], {})], [sine]))
    params = dict(axis_name="i", axis_size=4, backend=None, call_jaxpr=body, devices=None, donated_invars=(False,),
                  global_arg_shapes=(None,), global_axis_size=4, in_axes=(0,), name="f", out_axes=(0,))
    lowered = lower(ClosedJaxpr(Jaxpr([], [whole], [Eqn(prims.xla_pmap_p, [whole], [out], params)], [out])))
    assert chain(1).compile_with(str).count("sine") == 1  # a context without the Shardy dialect
    assert "sdy.manual_computation" in lowered.compile_with(str)
