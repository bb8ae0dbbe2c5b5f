"""Walking and rewriting programs."""
import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, alpha_equal, check, cse, dce, evaluate,
                       fold_constants, inline_calls, jaxpr_text, parse, prims, rewrite, substitute, walk)
from lamina_ir.testing.programs import NOTEBOOK, chain, f32

CALL = parse("""{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] d:f32[3] = xla_call[
      call_jaxpr={ lambda ; e:f32[3] f:f32[3]. let
          g:f32[3] = sin e
          h:f32[3] = mul f 2.0:f32[]
        in (g, h) }
      name=f
    ] a b
    i:f32[3] = add c c
  in (i, d) }""")
X, Y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)


def names(program):
    return [e.primitive.name for e in walk(program)]


def test_walk_yields_equations_in_text_order():
    assert names(CALL) == ["xla_call", "sin", "mul", "add"]
    assert names(NOTEBOOK["jit of pmap"][0]) == ["xla_call", "xla_pmap", "dot_general"]
    assert len(names(chain(20000))) == 20000


def test_rewrite_replaces_equations_at_every_depth():
    def double(e):
        if e.primitive is not prims.mul_p:
            return None
        x = e.invars[0]
        return [Eqn(prims.add_p, [x, x], e.outvars, {})]
    new = rewrite(CALL, double)
    check(new)
    assert names(new) == ["xla_call", "sin", "add", "add"] and names(CALL)[2] == "mul"
    np.testing.assert_array_equal(evaluate(new, X, Y)[1], evaluate(CALL, X, Y)[1])
    assert names(rewrite(CALL, double, nested=False)) == names(CALL)


def test_rewrite_can_replace_results_by_atoms():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = copy a c:f32[] = copy b d:f32[] = sin c in (d, b) }")
    new = rewrite(program, lambda e: ([], e.invars) if e.primitive is prims.copy_p else None)
    assert jaxpr_text(new) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b, a) }"
    zero = rewrite(program, lambda e: ([], [Literal(0.0, f32())]) if e.primitive is prims.copy_p else None)
    assert jaxpr_text(zero) == "{ lambda ; a:f32[]. let b:f32[] = sin 0.0:f32[] in (b, 0.0:f32[]) }"


def test_dce_drops_equations_inputs_and_constants():
    k, a, b, c, d = (Var(f32()) for _ in range(5))
    program = ClosedJaxpr(Jaxpr([k], [a, b], [Eqn(prims.add_p, [a, k], [c], {}), Eqn(prims.neg_p, [b], [d], {})],
                                [c, d]), [np.float32(1)])
    small, used = dce(program, [False, True])
    assert used == [False, True] and small.consts == []
    assert jaxpr_text(small) == "{ lambda ; a:f32[]. let b:f32[] = neg a in (b,) }"
    small, used = dce(program, [False, True], instantiate=True)
    assert used == [True, True] and len(small.in_avals) == 2
    with pytest.raises(ValueError, match="used_outputs must have 2 entries"):
        dce(program, [True])


def test_dce_enters_calls():
    small, used = dce(CALL, [False, True])
    check(small)
    assert used == [False, True] and names(small) == ["xla_call", "mul"]
    np.testing.assert_array_equal(evaluate(small, Y)[0], evaluate(CALL, X, Y)[1])


def test_dce_enters_mapped_calls():
    program = parse("""{ lambda ; a:f32[2,3] b:f32[3]. let
        c:f32[2,3] d:f32[3,2] = xla_pmap[
          axis_name=i axis_size=2 backend=None
          call_jaxpr={ lambda ; e:f32[3] f:f32[3]. let g:f32[3] = sin e h:f32[3] = cos f in (g, h) }
          devices=None donated_invars=(False, True) global_arg_shapes=(None, None) global_axis_size=None
          in_axes=(0, None) name=f out_axes=(0, 1)] a b
      in (c, d) }""")
    check(program)
    small, used = dce(program, [False, True])
    check(small)
    params = small.eqns[0].params
    assert used == [False, True]
    assert (params["in_axes"], params["out_axes"], params["donated_invars"]) == ((None,), (1,), (True,))
    np.testing.assert_array_equal(evaluate(small, X)[0], evaluate(program, np.stack([X, X]), X)[1])


def test_dce_marks_unread_results_of_kept_equations():
    program = parse("""{ lambda ; a:f32[3] b:i32[3]. let
        c:f32[3] d:i32[3] = sort[dimension=0 is_stable=True num_keys=1] a b
      in (d, c) }""")
    small, _ = dce(program, [True, False])
    assert isinstance(small.eqns[0].outvars[0], DropVar)
    check(small)


def test_dce_of_a_long_dead_chain():
    program = chain(20000)
    small, used = dce(program, [False])
    assert small.eqns == [] and used == [False]


def test_inline_calls_keeps_results_and_lifts_constants():
    k, x, y = Var(f32(3)), Var(f32(3)), Var(f32(3))
    sub = ClosedJaxpr(Jaxpr([k], [x], [Eqn(prims.add_p, [x, k], [y], {})], [y]), [Y])
    a, b, c = Var(f32(3)), Var(f32(3)), Var(f32(3))
    params = {"call_jaxpr": sub, "name": "f", "donated_invars": (), "inline": False, "device": None, "backend": None}
    program = ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.xla_call_p, [a], [b], params),
                                          Eqn(prims.xla_call_p, [b], [c], params)], [c]))
    flat = inline_calls(program)
    check(flat)
    assert names(flat) == ["add", "add"] and len(flat.consts) == 1
    np.testing.assert_array_equal(evaluate(flat, X)[0], X + 2)
    assert names(inline_calls(program, lambda e: e is program.eqns[0])) == ["add", "xla_call", "add"]


def test_inline_calls_inside_mapped_calls():
    flat = inline_calls(NOTEBOOK["pmap of jit"][0])
    assert names(flat) == ["xla_pmap", "dot_general"]
    assert alpha_equal(flat, inline_calls(flat))
    check(flat)


def test_cse_shares_equal_equations_but_not_different_params_or_literals():
    program = parse("""{ lambda ; a:f32[2,3]. let
        b:f32[3] = reduce_sum[axes=(0,)] a
        c:f32[2] = reduce_sum[axes=(1,)] a
        d:f32[3] = reduce_sum[axes=(0,)] a
        e:f32[3] = mul b 2.0:f32[]
        f:f32[3] = mul d 2.0:f32[]
        g:f32[3] = mul d 3.0:f32[]
      in (c, e, f, g) }""")
    small = cse(program)
    check(small)
    assert names(small) == ["reduce_sum", "reduce_sum", "mul", "mul"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for a, b in zip(evaluate(program, x), evaluate(small, x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_substitute_follows_chains():
    program = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c, b) }")
    a, b = program.jaxpr.invars
    want = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = add 1.0:f32[] 1.0:f32[] in (c, 1.0:f32[]) }")
    assert alpha_equal(substitute(program, {b: a, a: Literal(1.0, f32())}), want)


def with_rule(make):
    """Return a custom_jvp_call whose rule program is the result of `make`."""
    body = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    x, y = Var(f32(3)), Var(f32(3))
    params = {"call_jaxpr": body, "jvp": prims.Rule("rule", make), "name": "f", "num_consts": 0}
    return ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.custom_jvp_call_p, [x], [y], params)], [y]))


RULE = """{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] = sin a
    d:f32[3] = sin a
    e:f32[3] = xla_call[name=g call_jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = cos a in (c,) }] a
    f:f32[3] = mul e b
  in (d, f) }"""


@pytest.mark.parametrize(("change", "left"), [
    (lambda p: rewrite(p, lambda e: [Eqn(prims.tan_p, e.invars, e.outvars, {})] if e.primitive is prims.sin_p else None),
     ["tan", "tan", "xla_call", "tan", "cos", "mul"]),
    (lambda p: dce(p)[0], ["sin", "xla_call", "cos", "mul"]),
    (cse, ["sin", "xla_call", "sin", "cos", "mul"]),
    (inline_calls, ["sin", "sin", "sin", "cos", "mul"]),
    (fold_constants, ["sin", "sin", "xla_call", "sin", "cos", "mul"])])
def test_rule_programs_are_rewritten_lazily(change, left):
    made = []
    program = with_rule(lambda: made.append(1) or parse(RULE))
    new = change(program)
    assert made == []
    rule = new.eqns[0].params["jvp"].program()
    assert names(rule) == left and made == [1]
    check(rule)
    assert names(program.eqns[0].params["jvp"].program()) == ["sin", "sin", "xla_call", "sin", "cos", "mul"]


def test_recursive_rule_stays_one_rule():
    def make():
        t = Var(f32(3))
        e = program.eqns[0]
        return ClosedJaxpr(Jaxpr([], [*program.jaxpr.invars, t], [e], [e.outvars[0], t]))
    program = with_rule(make)
    for change in (lambda p: rewrite(p, lambda e: None), lambda p: dce(p)[0], cse, inline_calls, fold_constants):
        rule = change(program).eqns[0].params["jvp"]
        assert rule.program().eqns[0].params["jvp"] is rule
    twice = dce(dce(program)[0])[0]
    assert twice.eqns[0].params["jvp"] is dce(program)[0].eqns[0].params["jvp"]


def test_rules_without_program_are_not_rewritten():
    for rule in (prims.Rule("f"), prims.Rule("f", call=len)):
        assert rule.map(lambda program: program) is rule
