"""Region signatures: ill-formed ones are rejected, and all rewrites work for a third-party primitive with regions."""
import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Primitive, ProgramError, Var, check, dce, evaluate, parse, partial_eval,
                       prims, shaped, subprograms, thread_effect_token, walk)
from lamina_ir.extend import (RegionSignature, HostFunction, OperandGroup, carry_operands, selector_operand,
                              const_operands, split_checkpoint, substitute_saved, scanned_operands,
                              exceeds_residual_budget)
from lamina_ir.testing.structured import repeat_p
from lamina_ir._core.region_view import RegionView, propagate_backward, propagate_forward

F = shaped((3,), np.dtype("float32"))
X, Y, Z = np.arange(3, dtype=np.float32), np.ones(3, np.float32), np.full(3, 2, np.float32)


def repeat_of(body, n_consts, times=3, prim=repeat_p, **params):
    """Return the program of one `repeat` of a body."""
    body = parse(body) if isinstance(body, str) else body
    ins, outs = list(map(Var, body.in_avals)), list(map(Var, body.out_avals))
    params = params or dict(body=body, num_consts=n_consts, times=times)
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, outs, params)], outs))


BODY = """{ lambda ; w:f32[3] a:f32[3] b:f32[3] c:f32[3]. let
    s:f32[3] = sin w
    d:f32[3] = mul a s
    e:f32[3] = add b d
    f:f32[3] = cos c
  in (d, e, f) }"""
TWO = [X, Y, Z, X]


def names(program):
    return [e.primitive.name for e in walk(program)]


@pytest.mark.parametrize("make, text", [
    (lambda: RegionSignature(const_operands(), body="jaxpr"),
     r"region_signature: body must name one of the params body; got 'jaxpr'"),
    (lambda: RegionSignature(const_operands(), carry_operands(), body="body", length="body"),
     "operands may have one group without a count"),
    (lambda: RegionSignature(const_operands(), carry_operands("n"), body="body", length="body"),
     r"operands\[1\].count must name one of the params"),
    (lambda: RegionSignature(const_operands(), body="body", length="body"),
     "operands of a loop must be const, carry and scanned; got con"),
    (lambda: RegionSignature(carry_operands(), body="body"),
     "may be carry or scanned only in a loop, which has a `length` or a `test`"),
    (lambda: RegionSignature(scanned_operands(), body="body", test="body"), "remove `length` and the scanned operands"),
    (lambda: RegionSignature(const_operands(), body="body", max_iters="body"), "max_iters is for loops with a `test`"),
    (lambda: RegionSignature(OperandGroup("kept"), body="body"), r"operands\[0\] must be const_operands\(...\), carry_op"),
    (lambda: RegionSignature("x", body="body"), r"operands\[0\] must be const_operands.* or selector_operand\(\); got 'x'"),
    (lambda: RegionSignature(const_operands(1), body="body", extra_programs=("solve",)),
     r"extra_programs\[0\] must name one of the params"),
    (lambda: RegionSignature(selector_operand(), selector_operand(), const_operands(), body="body"),
     "may hold one group of kind selector; got 2"),
    (lambda: RegionSignature(extra_programs=("body",)), "`indivisible` gives the reason"),
    (lambda: RegionSignature(const_operands()), "body must name the param of the region that computes the results"),
])
def test_ill_formed_region_signature_is_rejected_at_definition(make, text):
    text = text.removeprefix("region_signature: ")
    with pytest.raises(ProgramError, match=f"Primitive 'odd': region_signature: .*{text}"):
        Primitive("odd", infer=lambda *avals, body: avals, params=("body",), region_signature=make())


@pytest.mark.parametrize("facts, text", [
    (dict(name="two words"), "name: must be an identifier; got str: 'two words'"),
    (dict(infer=None), "infer: must be a function; got NoneType: None"),
    (dict(numpy=3), "numpy: must be a function or None; got int: 3"),
    (dict(spmd="x"), "spmd: must be a function or None"),
    (dict(params="body"), "params: must be a tuple of different identifiers; got str: 'body'"),
    (dict(params=("n", "n")), "params: must be a tuple of different identifiers"),
    (dict(linear_in=0), "linear_in: must be a tuple of different operand positions; got int: 0"),
    (dict(linear_in=(0, -1)), "linear_in: must be a tuple"),
    (dict(bilinear_in=(0,)), r"bilinear_in: must be two operand positions, or none; got tuple: \(0,\)"),
    (dict(family=None), "family: must be a string"),
    (dict(spec=3), "spec: must be a string"),
    (dict(multiple=1), "multiple: must be a bool; got int: 1"),
    (dict(effectful="no"), "effectful: must be a bool; got str: 'no'"),
    (dict(elementwise=None), "elementwise: must be a bool"),
    (dict(region_signature="carried"), "region_signature: must be a RegionSignature or None; got str: 'carried'"),
    (dict(kinds=["int"]), "kinds: must be a dict by param, or None"),
    (dict(kinds={"m": "int"}), "kinds: must name params of the primitive, which are n; got 'm'"),
    (dict(defaults={"m": 1}), "defaults: must name params of the primitive, which are n; got 'm'"),
    (dict(axis_params=("axis",)), "axis_params: must name params of the primitive, which are n; got 'axis'"),
])
def test_ill_formed_primitive_fact_is_rejected_at_definition(facts, text):
    with pytest.raises(ProgramError, match=f"Primitive {facts.get('name', 'odd')!r}: {text}"):
        Primitive(**{**dict(name="odd", infer=lambda x, n: x, params=("n",)), **facts})


def test_program_in_param_without_region_signature_is_rejected():
    """Otherwise its effects, mapped axes and dead code would be overlooked."""
    def use(value, **facts):
        op = Primitive("odd", infer=lambda x, body: x, params=("body",), **facts)
        ins, outs = [Var(F)], [Var(F)]
        return Jaxpr([], ins, [Eqn(op, ins, outs, dict(body=value))], outs)

    body = parse("{ lambda ; a:f32[3]. let in (a,) }")
    for value in (body, (body, body)):
        with pytest.raises(ProgramError, match=r"`odd` holds a program in its param `body`, but has no region sign"):
            use(value)
    assert not use(3).effectful
    signature = RegionSignature(extra_programs=("body",), indivisible="a monoid")
    assert not use(body, region_signature=signature).effectful


@pytest.mark.parametrize("change, text", [
    (dict(num_consts=2), "body must have 2 results, all of them carries; it has 3"),
    (dict(num_consts=-1), "its params require the operands -1 const"),
    (dict(num_consts=9), "its params require the operands 9 const, -5 carry; got 4 operands"),
    (dict(num_consts="1"), "its param num_consts must be an int; got str: '1'"),
    (dict(times=None), "its param times must be an int; got NoneType"),
    (dict(body=None), "its param body must be a ClosedJaxpr; got NoneType"),
])
def test_check_compares_equation_with_region_signature(change, text):
    program = repeat_of(BODY, 1)
    check(program)
    e = program.eqns[0]
    odd = ClosedJaxpr(Jaxpr([], program.jaxpr.invars, [e.replace(params={**e.params, **change})], program.jaxpr.outvars))
    with pytest.raises(ProgramError, match=text):
        check(odd)


def test_check_finds_missing_results_of_loop_body():
    body = parse("{ lambda ; a:f32[3] b:f32[3]. let in (a,) }")
    x, y, z = (Var(F) for _ in range(3))
    e = Eqn(repeat_p, [x, y], [z], dict(body=body, num_consts=0, times=2))
    with pytest.raises(ProgramError, match="body must have 2 results, all of them carries; it has 1"):
        check(ClosedJaxpr(Jaxpr([], [x, y], [e], [z])))


def test_propagation_through_loops_reaches_fixed_point():
    chain = parse("{ lambda ; a:f32[3] b:f32[3] c:f32[3]. let d:f32[3] = add a b e:f32[3] = add b c in (d, e, c) }")
    e = repeat_of(chain, 0).eqns[0]

    def through(wire, marks):
        a, b, c = marks
        return [a | b, b | c, c]

    none = frozenset()
    assert propagate_forward(RegionView.of(e), [none, none, frozenset("i")], through)[1] == (frozenset("i"),
                                                                                             ) * 3  # after two rounds
    assert propagate_forward(RegionView.of(e), [True, False, False], through)[1] == (True, False, False)
    needs = propagate_backward(RegionView.of(e), [True, False, False], lambda wire, m: [m[0], m[0] | m[1], m[1] | m[2]])
    assert needs == ((True,) * 3, (True,) * 3)


def test_dce_drops_dead_carries_and_their_inputs():
    program = repeat_of(BODY, 1)
    small, used = dce(program, [False, False, True])
    check(small)
    assert used == [False, False, False, True] and names(small) == ["repeat", "cos"]
    small, used = dce(program, [False, True, False])
    assert used == [True, True, True, False] and small.eqns[0].params["num_consts"] == 1
    np.testing.assert_array_equal(evaluate(small, *TWO[:3])[0], evaluate(program, *TWO)[1])


@pytest.mark.parametrize("known", [[True, True, False, True], [True, False, True, True], [False, True, True, True],
                                   [False, False, False, True]])
def test_partial_eval_splits_third_party_loop(known):
    program = repeat_of(BODY, 1)
    split = partial_eval(program, known)
    check(split.known)
    check(split.unknown)
    first = evaluate(split.known, *[a for a, k in zip(TWO, known) if k])
    n = sum(split.out_known)
    second = iter(evaluate(split.unknown, *first[n:], *[a for a, k in zip(TWO, known) if not k]))
    done = iter(first[:n])
    for k, want in zip(split.out_known, evaluate(program, *TWO)):
        np.testing.assert_array_equal(next(done if k else second), want)
    assert split.out_known[2] is True
    if known[0] and not known[1]:
        assert names(split.known)[:2] == ["xla_call", "sin"]  # loop-invariant: computed once, before the loop


def test_checkpoint_policy_applies_inside_third_party_loop():
    program = repeat_of("{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = name[name=c] b d:f32[3] = mul c c in (d,) }", 0)
    kept = split_checkpoint(program, prims.CheckpointPolicy("only_names", ("c",)))
    check(kept.forward)
    assert [a.shape for a in kept.forward.out_avals] == [(3,), (3, 3)]
    out, c = evaluate(kept.forward, X)
    np.testing.assert_array_equal(evaluate(kept.recompute, X, c)[0], evaluate(program, X)[0])


def test_effect_token_passes_through_third_party_loop():
    seen = []
    host = HostFunction.of(lambda v: seen.append(float(v[0])) or (), "say")
    a, b = Var(F), Var(F)
    say = Eqn(prims.debug_callback_p, [a], [],
              dict(batch=(), callback=host, indexed=False, mapped=(), ordered=True, threaded=False))
    body = ClosedJaxpr(Jaxpr([], [a], [say, Eqn(prims.add_p, [a, a], [b], {})], [b]))
    threaded = thread_effect_token(repeat_of(body, 0))
    check(threaded)
    evaluate(threaded, Y, np.int32(0))
    assert seen == [1, 2, 4] and threaded.eqns[0].params["num_consts"] == 0


def nested_program(depth):
    """Return a `repeat` in both branches of a `cond` in a `scan`, `depth` times; result 1 needs operand 0."""
    body = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = sin a d:f32[3] = mul b c in (c, d) }")
    for _ in range(depth):
        body = repeat_of(body, 0, times=2)
        index, ins, outs = Var(shaped((), np.dtype("int32"))), [Var(F), Var(F)], [Var(F), Var(F)]
        cond = Eqn(prims.cond_p, [index, *ins], outs, dict(branches=(body, body)))
        body = repeat_of(ClosedJaxpr(Jaxpr([], [index, *ins], [cond], outs)), 0, prim=prims.scan_p, jaxpr=ClosedJaxpr(
            Jaxpr([], [index, *ins], [cond], outs)), length=2, num_carry=2, num_consts=1, reverse=False, unroll=1)
        index, ins, outs = Var(shaped((), np.dtype("int32"))), [Var(F), Var(F)], [Var(F), Var(F)]
        scan = body.eqns[0].replace(invars=[index, *ins], outvars=outs)
        body = ClosedJaxpr(Jaxpr([index], ins, [scan], outs), [np.int32(1)])
    return body


def test_work_grows_with_number_of_programs_not_with_sharing():
    for depth in (1, 20):  # visiting each use separately would mean 2 ** 20 visits
        program = nested_program(depth)
        small, used = dce(program, [True, False])
        assert used == [True, False]
        split = partial_eval(program, [True, False])
        assert split.out_known == [True, False]
        kept = split_checkpoint(program, prims.CheckpointPolicy("nothing"))
        assert len(kept.forward.out_avals) == 2
        if depth == 1:
            check(split.known)
            check(split.unknown)
            sin, residuals = (lambda first: (first[0], first[1:]))(evaluate(split.known, X))
            want = evaluate(program, X, Y)
            np.testing.assert_array_equal(sin, want[0])
            np.testing.assert_array_equal(evaluate(split.unknown, *residuals, Y)[0], want[1])


def doubled_program(depth):
    """Return (a, b) -> (sin a, b sin a) called twice at each depth: the part that needs b reads 2 ** depth values."""
    body = parse("{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = sin a d:f32[3] = mul c b in (c, d) }")
    for _ in range(depth):
        ins, between, outs = [[Var(F), Var(F)] for _ in range(3)]
        params = {**prims.xla_call_p.defaults, "call_jaxpr": body, "name": "f"}
        body = ClosedJaxpr(Jaxpr([], ins, [Eqn(prims.xla_call_p, ins, between, params),
                                           Eqn(prims.xla_call_p, between, outs, params)], outs))
    return body


def count_values(program):
    """Return the number of values a program binds, counting each nested program once."""
    seen, todo = {}, [program]
    while todo:
        p = todo.pop()
        seen[id(p)] = p
        todo += [s for e in p.jaxpr.eqns for s in subprograms(e) if id(s) not in seen]
    return sum(len(e.outvars) for p in seen.values() for e in p.jaxpr.eqns)


@pytest.mark.parametrize("policy", ["nothing", "everything"])
def test_excessive_residuals_are_recomputed(policy):
    for depth in (10, 20):
        program = doubled_program(depth)
        split = partial_eval(program, [True, False])
        assert split.out_known == [True, False] and len(split.residuals) < 600
        kept = split_checkpoint(program, prims.CheckpointPolicy(policy))
        ins = [Var(F), Var(F)]
        again = Eqn(prims.remat_p, ins, [Var(F), Var(F)], {**prims.remat_p.defaults, "call_jaxpr": program, "name": "f",
                    "policy": prims.CheckpointPolicy(policy), "differentiated": False, "prevent_cse": True})
        both = partial_eval(ClosedJaxpr(Jaxpr([], ins, [again], again.outvars)), [True, False])
        for made in (split.known, split.unknown, kept.forward, kept.recompute, both.known, both.unknown):
            check(made)
            assert count_values(made) < 5000
        if depth == 10:
            want = evaluate(program, X, Y)
            for two in (split, both):
                n = sum(two.out_known)
                first = evaluate(two.known, X)
                found = iter(evaluate(two.unknown, *first[n:], Y))
                done = iter(first)
                for k, w in zip(two.out_known, want):
                    np.testing.assert_array_equal(next(done if k else found), w)


def test_missing_saved_values_are_recomputed():
    program = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = cos b in (c,) }")
    params = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": "f"}
    around = repeat_of(program, 0, prim=prims.xla_call_p, **params)
    for where in (program, around):
        again = split_checkpoint(where, prims.CheckpointPolicy("everything")).recompute
        n = len(again.in_avals) - 1
        for missing in range(n):
            some = substitute_saved(again, [False, *[k == missing for k in range(n)]])
            check(some)
            used = dce(some)[1][1:]
            assert not used[missing]
            wrong = [np.full(3, np.nan, np.float32)] * n  # exactly the saved values are read
            assert np.isnan(evaluate(some, X, *wrong)[0]).all() == any(used)
        np.testing.assert_array_equal(evaluate(substitute_saved(again, [False] + [True] * n), X, *wrong)[0],
                                      evaluate(program, X)[0])


def test_programs_with_effects_are_not_recomputed():
    program = doubled_program(10)
    jaxpr = program.jaxpr
    effectful = ClosedJaxpr(Jaxpr([], jaxpr.invars, jaxpr.eqns, jaxpr.outvars, effectful=True))
    assert exceeds_residual_budget(program, 1024) and not exceeds_residual_budget(effectful, 1024)
