"""`collect_facts`: what one walk over a program finds, also in nested and shared programs."""
import numpy as np
import pytest

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, parse, prims, shaped
from lamina_ir.extend import ProgramFacts, collect_facts

SIN = "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"


def call(program):
    """Make a program that calls another one."""
    a, = program.in_avals
    b, = program.out_avals
    x, y = Var(a), Var(b)
    params = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": "f"}
    return ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.xla_call_p, [x], [y], params)], [y]))


def pmap(program, size, global_size=None, devices=None):
    """Make a program that maps another one over the leading axis."""
    x, y = [Var(shaped((size, *a.shape), a.dtype)) for a in (*program.in_avals, *program.out_avals)]
    params = dict(axis_name="i", axis_size=size, backend=None, call_jaxpr=program, devices=devices, donated_invars=(False,),
                  global_arg_shapes=(None,), global_axis_size=global_size, in_axes=(0,), name="f", out_axes=(0,))
    return ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.xla_pmap_p, [x], [y], params)], [y]))


def test_program_without_special_facts_is_plain_at_every_depth():
    assert collect_facts(parse(SIN)) == ProgramFacts()
    assert collect_facts(call(call(parse(SIN)))).is_plain


def test_keys_are_found_in_nested_programs():
    keys = parse("{ lambda ; a:key<fry>[]. let in (a,) }")
    for facts in (collect_facts(keys), collect_facts(call(keys))):
        assert facts == ProgramFacts(is_plain=False, has_keys=True)


def test_nested_maps_multiply_and_the_widest_counts():
    facts = collect_facts(call(pmap(pmap(parse(SIN), 2), 3)))
    assert facts.has_maps and facts.map_sizes == (3, 2) and facts.process_axis_sizes is None
    assert facts.map_devices is None and not facts.has_shard_map


def test_the_first_map_over_processes_and_the_first_devices_are_reported():
    facts = collect_facts(call(pmap(parse(SIN), 2, 6, devices=(7, 8))))
    assert facts.process_axis_sizes == (6, 2) and facts.map_devices == (7, 8)


def test_a_nested_request_for_a_platform_is_reported():
    inner = call(parse(SIN))
    inner.eqns[0].params["backend"] = "gpu"
    assert dict(collect_facts(call(inner)).backend_requests) == {"gpu": "jit of `f`"}


def test_shared_and_deep_programs_are_walked_once():
    program = parse(SIN)
    for _ in range(3000):  # deeper than the stack; each program is called twice, so 2**3000 equations
        x, y, z = [Var(shaped((), np.dtype("float32"))) for _ in range(3)]
        params = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": "f"}
        program = ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.xla_call_p, [x], [y], params),
                                              Eqn(prims.xla_call_p, [y], [z], params)], [z]))
    assert collect_facts(program).is_plain
    assert collect_facts(program) is collect_facts(call(program))  # known facts are combined, not collected again


def test_non_programs_are_rejected():
    with pytest.raises(TypeError, match="collect_facts: program must be a ClosedJaxpr; got"):
        collect_facts("program")
