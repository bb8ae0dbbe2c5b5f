"""Sharding rules over `Explicit` axes, on fake devices."""
import numpy as np
import pytest
from lamina_ir import ShardingTypeError, parse, prims, walk
from lamina_parallel import AxisType, Mesh, PartitionSpec as P, auto_axes, set_mesh
from lamina_parallel.extend import add_sharding_types, sharding_rules, spec_entries
from lamina_parallel.testing import fake_devices
from lamina_tracing import jit, lax, make_jaxpr

MESH = Mesh(np.array(fake_devices(8), object).reshape(4, 2), ("x", "y"), AxisType.Explicit)
MIXED = Mesh(np.array(fake_devices(8), object).reshape(4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
X = np.zeros((8, 8), np.float32)


def analyze(fun, *specs, mesh=MESH, args=None):
    args = args or [X] * len(specs)
    program = make_jaxpr(fun)(*args)
    entries = [spec_entries(spec) + ((),) * (x.ndim - len(spec)) for x, spec in zip(args, specs)]
    made, outs = add_sharding_types(program, entries, mesh, lambda value: ((),) * np.ndim(value))
    return made, [P(*[None if not e else e[0] if len(e) == 1 else e for e in out]) for out in outs]


def types(fun, *specs, **options):
    return analyze(fun, *specs, **options)[1]


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_every_primitive_has_a_rule_or_a_reason(prim):
    assert sharding_rules.has_rule_or_reason(prim)


def test_results_have_constraints():
    made, outs = analyze(lambda x: lax.sin(x), P("x"))
    assert [e.primitive.name for e in made.eqns] == ["sin", "sharding_constraint"] and outs == [P("x", None)]
    assert made.eqns[1].params["sharding"].endswith("of x=4:Explicit,y=2:Explicit")
    made, outs = analyze(lambda x: lax.sin(x), P())
    assert [e.primitive.name for e in made.eqns] == ["sin"] and outs == [P(None, None)]


def test_other_axes_are_left_to_the_compiler():
    made, outs = analyze(lambda x: lax.sin(x), P("x"), mesh=MIXED)
    assert outs == [P("x", None)] and made.eqns[1].params["unspecified_dims"] == (1,)


def test_refusal_names_both_types_and_the_line():
    with pytest.raises(ShardingTypeError, match=r"add: operands must have the same sharding in each dimension, or none; got "
                       r"float32\[8@x,8\] and float32\[8@\(x,y\),8\]\. Move an operand .* \(at .*test_sharding_rules.py:\d+"):
        types(lambda x, y: lax.add(x, y), P("x"), P(("x", "y")))
    with pytest.raises(ShardingTypeError, match=r"twice over one mesh axis, as float32\[8@x,8@x\]"):
        types(lambda x, y: lax.add(x, y), P("x"), P(None, "x"))


def test_nested_programs_are_analyzed():
    made, outs = analyze(jit(lambda x: lax.scan(lambda c, _: (lax.sin(c), lax.reduce_sum(c, (1,))), x, None, length=3)), P("x"))
    assert outs == [P("x", None), P(None, "x")]
    assert [e.primitive.name for e in walk(made)].count("sharding_constraint") >= 4
    repeated = lambda x: lax.while_loop(lambda c: lax.lt(lax.reduce_sum(c, (0, 1)), 1.), lax.sin, x)  # noqa: E731
    assert types(repeated, P("y")) == [P("y", None)]
    assert types(lambda x: lax.cond(True, lax.sin, lax.cos, x), P("y")) == [P("y", None)]


@pytest.mark.parametrize("fun, message", [
    (lambda x: lax.scan(lambda c, r: (c, r), np.float32(0), x), "scan: the first dimension of the scanned arrays must not"),
    (lambda x: lax.scan(lambda c, _: (lax.add(c, x), None), X, None, length=2), "scan: the carry must have the same type"),
    (lambda x: lax.while_loop(lambda c: True, lambda c: lax.add(c, x), X), "while: the carry must have the same type"),
    (lambda x: lax.cond(True, lambda: x, lambda: X), "cond: the branches must return the same types"),
    (lambda x: lax.cumsum(x, 0), "cumsum: dimension 0, along which it accumulates"),
    (lambda x: lax.sort(x, dimension=0), "sort: dimension 0, which is sorted"),
    (lambda x: lax.reshape(x, (2, 4, 8)), r"reshape: the sharding of the result of shape \(2, 4, 8\) is ambiguous"),
    (lambda x: lax.slice(x, (0, 0), (3, 8)), "slice: dimension 0 of the result has size 3"),
    (lambda x: lax.concatenate([x, X], 0), "concatenate: all operands must have the same sharding")])
def test_ambiguous_operation_is_refused(fun, message):
    with pytest.raises(ShardingTypeError, match=message):
        types(fun, P("x"))


def test_primitive_without_rule_is_refused_by_name():
    program = parse("{ lambda ; a:f32[8,8]. let b:f32[8,8] = sin a in (b,) }")
    before = dict.get(sharding_rules, prims.sin_p)
    sharding_rules.declare_missing(prims.sin_p, "it is a test")
    try:
        with pytest.raises(ShardingTypeError, match="sin: has no sharding rule: it is a test. Use lamina.sharding.auto_axes"):
            add_sharding_types(program, [(("x",), ())], MESH, lambda value: ())
        assert add_sharding_types(program, [((), ())], MESH, lambda value: ())[1] == [((), ())]
    finally:
        sharding_rules.define(prims.sin_p, before or (lambda op: [op.merge()]))


def test_rule_of_a_user_is_used():
    with sharding_rules.override(prims.sin_p, lambda op: ((), ())):
        assert types(lambda x: lax.sin(x), P("x")) == [P(None, None)]


def test_auto_axes_takes_its_types_from_out_sharding():
    with set_mesh(MESH):
        f = auto_axes(lambda x: lax.sort(lax.dot(x, x), dimension=0), out_sharding=P("x"))
        assert types(f, P("y", "x")) == [P("x", None)]
        assert types(lambda x: lax.dot_general(x, x, (((1,), (0,)), ((), ())), out_sharding=P(None, "y")), P("x", "y")) == [
            P(None, "y")]


@pytest.mark.parametrize("call, error, message", [
    (lambda: auto_axes(lambda x: x)(X), TypeError, "out_sharding must be given"),
    (lambda: auto_axes(3), TypeError, "fun: expected a function; got int"),
    (lambda: auto_axes(lambda x: x, axes="z", out_sharding=P())(X), ValueError, "axes must be None or Explicit axes"),
    (lambda: lax.reshape(X, (64,), out_sharding=P("z")), ValueError, "reshape: out_sharding: .* names the axis 'z'"),
    (lambda: lax.reshape(X, (64,), out_sharding="x"), TypeError, "reshape: out_sharding: expected a PartitionSpec")])
def test_invalid_out_sharding_is_refused(call, error, message):
    with set_mesh(MESH), pytest.raises(error, match=message):
        call()


def test_out_sharding_needs_explicit_axes():
    with pytest.raises(ValueError, match="reshape: out_sharding: .* no mesh is in scope"):
        lax.reshape(X, (64,), out_sharding=P("x"))
    with set_mesh(MIXED), pytest.raises(ValueError, match="'y' has the type AxisType.Auto"):
        lax.reshape(X, (64,), out_sharding=P("y"))
