"""`partial_eval` splits programs, calls included, keeps effects in order; `fold_constants` computes early."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Primitive,
    Var,
    check,
    dce,
    evaluate,
    fold_constants,
    jaxpr_text,
    parse,
    partial_eval,
    prims,
    rewrite,
    walk,
)
from lamina_ir.testing.programs import chain, f32

CALL = parse("""{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] d:f32[3] = xla_call[
      call_jaxpr={ lambda ; e:f32[3] f:f32[3]. let
          g:f32[3] = sin e
          h:f32[3] = cos e
          i:f32[3] = mul f h
        in (g, i) }
      name=f
    ] a b
    j:f32[3] = add c d
  in (c, j, 1.0:f32[]) }""")
X, Y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)


def names(program):
    return [e.primitive.name for e in walk(program)]


def test_calls_are_split_with_residuals():
    split = partial_eval(CALL, [True, False])
    check(split.known)
    check(split.unknown)
    assert names(split.known) == ["xla_call", "sin", "cos"]
    assert names(split.unknown) == ["xla_call", "mul", "add"]
    assert split.out_known == [True, False, True] and len(split.residuals) == 2
    c, one, *residuals = evaluate(split.known, X)
    j, = evaluate(split.unknown, *residuals, Y)
    for got, want in zip((c, j, one), evaluate(CALL, X, Y), strict=True):
        np.testing.assert_array_equal(got, want)


def test_instantiate_moves_results_to_second_stage():
    split = partial_eval(CALL, [True, True], instantiate=[True, False, False])
    assert split.out_known == [False, True, True]
    assert jaxpr_text(split.unknown) == "{ lambda ; a:f32[3]. let  in (a,) }"


def test_constants_are_known_and_dead_code_is_dropped():
    k, a, b, c, d = (Var(f32()) for _ in range(5))
    sin, mul = (e.primitive for e in parse(
        "{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = mul a b in (c,) }").eqns)
    program = ClosedJaxpr(Jaxpr([k], [a], [Eqn(sin, [k], [b], {}), Eqn(mul, [a, b], [c], {}),
                                           Eqn(mul, [a, k], [d], {})], [c]), [np.float32(2)])
    split = partial_eval(program, [False])
    assert names(split.known) == ["sin"] and names(split.unknown) == ["mul"]
    assert split.known.consts == [2.0] and split.unknown.consts == []


def test_effects_keep_their_order():
    say = Primitive("say", infer=lambda x: [], numpy=lambda x: (), multiple=True, effectful=True)
    a, b = Var(f32()), Var(f32())
    early, late, last = (Eqn(say, [v], [], {}) for v in (a, b, a))
    split = partial_eval(ClosedJaxpr(Jaxpr([], [a, b], [early, late, last], [])), [True, False])
    assert [e.invars for e in split.known.eqns] == [[a]]
    assert [e.invars for e in split.unknown.eqns] == [[b], [a]]
    check(split.known)
    check(split.unknown)


def test_known_needs_one_entry_per_input():
    with pytest.raises(ValueError, match="known must have 2 entries, one per input; got 1"):
        partial_eval(CALL, [True])


def test_long_programs():
    split = partial_eval(chain(20000), [True])
    assert len(split.known.eqns) == 20000 and split.unknown.eqns == [] and split.residuals == []
    split = partial_eval(chain(20000), [False])
    assert len(split.unknown.eqns) == 20000 and split.known.eqns == []


def test_folding_skips_large_values_and_enters_calls():
    program = parse("""{ lambda ; a:f32[3]. let
        b:f32[3] = xla_call[
          call_jaxpr={ lambda ; c:f32[3]. let
              d:f32[] = exp 0.0:f32[]
              e:f32[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] d
              f:f32[9999] = broadcast_in_dim[broadcast_dimensions=() shape=(9999,)] d
              g:f32[] = reduce_sum[axes=(0,)] f
              h:f32[3] = mul c e
              i:f32[3] = add h g
            in (i,) }
          name=f
        ] a
      in (b,) }""")
    folded = fold_constants(program)
    check(folded)
    assert names(folded) == ["xla_call", "broadcast_in_dim", "reduce_sum", "mul", "add"]
    np.testing.assert_array_equal(evaluate(folded, X)[0], evaluate(program, X)[0])


def test_failing_equation_is_not_folded():
    bad = Primitive("bad", infer=lambda x: x, numpy=lambda x: 1 / 0)
    v, w = Var(f32()), Var(f32())
    program = ClosedJaxpr(Jaxpr([v], [], [Eqn(bad, [v], [w], {})], [w]), [np.float32(0)])
    assert [e.primitive.name for e in fold_constants(program).eqns] == ["bad"]


SCAN = parse("""{ lambda ; w:f32[3] u:f32[] a:f32[3] n:f32[] xs:f32[4,3]. let
    b:f32[3] m:f32[] ys:f32[4,3] zs:f32[4] = scan[
      jaxpr={ lambda ; w:f32[3] u:f32[] a:f32[3] n:f32[] x:f32[3]. let
          s:f32[3] = sin w
          t:f32[3] = mul a s
          b:f32[3] = add t x
          m:f32[] = add n u
          y:f32[3] = mul x x
          z:f32[] = mul m 2.0:f32[]
        in (b, m, y, z) }
      length=4 num_carry=2 num_consts=2 reverse=False unroll=1
    ] w u a n xs
  in (b, m, ys, zs) }""")
ARGS = [X, np.float32(2), Y, np.float32(1), np.arange(12, dtype=np.float32).reshape(4, 3)]


def two_stages(program, known, args):
    split = partial_eval(program, known)
    check(split.known)
    check(split.unknown)
    first = evaluate(split.known, *[a for a, k in zip(args, known, strict=True) if k])
    n = sum(split.out_known)
    second = iter(evaluate(split.unknown, *first[n:], *[a for a, k in zip(args, known, strict=True) if not k]))
    done = iter(first[:n])
    for k, want in zip(split.out_known, evaluate(program, *args), strict=True):
        np.testing.assert_array_equal(next(done if k else second), want)
    return split


def test_dce_drops_dead_carries_and_their_inputs():
    small, used = dce(SCAN, [False, True, False, False])
    check(small)
    assert used == [False, True, False, True, False]
    assert names(small) == ["scan", "add"] and small.eqns[0].params["num_carry"] == 1
    np.testing.assert_array_equal(evaluate(small, ARGS[1], ARGS[3])[0], evaluate(SCAN, *ARGS)[1])
    small, used = dce(SCAN, [False, False, True, False])
    assert used == [False] * 4 + [True] and small.eqns[0].params["num_carry"] == 0
    np.testing.assert_array_equal(evaluate(small, ARGS[4])[0], evaluate(SCAN, *ARGS)[2])


def test_dce_keeps_inputs_of_while_condition():
    program = parse("""{ lambda ; k:i32[] i:i32[] a:f32[3] b:f32[3]. let
        j:i32[] c:f32[3] d:f32[3] = while[
          body_jaxpr={ lambda ; i:i32[] a:f32[3] b:f32[3]. let
              j:i32[] = add i 1:i32[]
              c:f32[3] = sin b
            in (j, c, b) }
          body_nconsts=0
          cond_jaxpr={ lambda ; k:i32[] i:i32[] a:f32[3] b:f32[3]. let c:bool[] = lt i k in (c,) }
          cond_nconsts=1
        ] k i a b
      in (j, c, d) }""")
    args = [np.int32(5), np.int32(1), X, Y]
    for keep, wanted in ((0, [True, True, False, False]), (1, [True] * 4), (2, [True, True, False, True])):
        small, used = dce(program, [k == keep for k in range(3)])
        check(small)
        assert used == wanted
        got = evaluate(small, *[a for a, u in zip(args, used) if u])[0]
        np.testing.assert_array_equal(got, evaluate(program, *args)[keep])


def test_dce_drops_operands_from_all_branches():
    program = parse("""{ lambda ; i:i32[] a:f32[3] b:f32[3] c:f32[3]. let
        d:f32[3] e:f32[3] = cond[
          branches=(
            { lambda ; a:f32[3] b:f32[3] c:f32[3]. let d:f32[3] = sin a e:f32[3] = neg c in (d, e) },
            { lambda ; a:f32[3] b:f32[3] c:f32[3]. let d:f32[3] = mul b 2.0:f32[] in (d, c) },
          )
        ] i a b c
      in (d, e) }""")
    args = [np.int32(1), X, Y, X]
    small, used = dce(program, [True, False])
    check(small)
    assert used == [True, True, True, False] and names(small) == ["cond", "sin", "mul"]
    np.testing.assert_array_equal(evaluate(small, *args[:3])[0], evaluate(program, *args)[0])
    for index in (0, 1):
        args[0] = np.int32(index)
        split = two_stages(program, [True, True, False, True], args)
        assert split.out_known == [False, True]
        two_stages(program, [False, True, True, True], args)
        two_stages(program, [True, False, True, False], args)


def test_scans_are_split_into_two_stages():
    split = two_stages(SCAN, [True, True, False, True, True], ARGS)
    assert split.out_known == [False, True, True, True]
    assert names(split.known) == ["xla_call", "sin", "scan", "add", "mul", "mul"]
    assert names(split.unknown) == ["scan", "mul", "add"]
    assert sorted(a.shape for a in split.residuals) == [(3,), (4, 3)]  # sin w is computed once and is one residual
    for known in ([True, False, True, True, True], [False, True, False, True, False], [True, True, True, True, False]):
        two_stages(SCAN, known, ARGS)


def test_loop_constant_is_one_residual():
    program = parse("""{ lambda ; w:f32[3] a:f32[3] xs:f32[4,3]. let
        b:f32[3] = scan[
          jaxpr={ lambda ; w:f32[3] a:f32[3] x:f32[3]. let
              s:f32[3] = sin x
              t:f32[3] = mul a w
              b:f32[3] = add t s
            in (b,) }
          length=4 num_carry=1 num_consts=1 reverse=True unroll=1
        ] w a xs
      in (b,) }""")
    split = two_stages(program, [True, False, True], [X, Y, ARGS[4]])
    assert sorted(a.shape for a in split.residuals) == [(3,), (4, 3)]


def test_platform_index_is_repeated_in_each_stage_and_not_folded():
    program = parse("""{ lambda ; x:f32[] y:f32[]. let
        i:i32[] = platform_index[has_default=True platforms=(('tpu',),)]
        a:f32[] = cond[branches=({ lambda ; a:f32[]. let in (a,) }, { lambda ; a:f32[]. let b:f32[] = sin a in (b,) })] i x
        b:f32[] = cond[branches=({ lambda ; a:f32[]. let in (a,) }, { lambda ; a:f32[]. let b:f32[] = cos a in (b,) })] i y
      in (a, b, i) }""")
    split = partial_eval(program, [True, False])
    names = [[e.primitive.name for e in p.eqns] for p in (split.known, split.unknown)]
    assert names == [["platform_index", "cond"]] * 2 and split.residuals == [] and split.out_known == [True, False, True]
    assert str(fold_constants(program)) == str(program)
    call = parse("""{ lambda ; . let a:i32[] = xla_call[name=f call_jaxpr={ lambda ; . let
        i:i32[] = platform_index[has_default=True platforms=(('tpu',),)] in (i,) }] in (a,) }""")
    assert fold_constants(call).eqns


WHILE = parse("""{ lambda ; k:i32[] w:f32[3] i:i32[] a:f32[3] b:f32[3]. let
    j:i32[] c:f32[3] d:f32[3] = while[
      body_jaxpr={ lambda ; w:f32[3] i:i32[] a:f32[3] b:f32[3]. let
          j:i32[] = add i 1:i32[]
          c:f32[3] = sin a
          s:f32[3] = cos w
          t:f32[3] = mul s b
          d:f32[3] = add t c
        in (j, c, d) }
      body_nconsts=1
      cond_jaxpr={ lambda ; k:i32[] i:i32[] a:f32[3] b:f32[3]. let c:bool[] = lt i k in (c,) }
      cond_nconsts=1
    ] k w i a b
  in (j, c, d) }""")
LOOP_ARGS = [np.int32(5), X, np.int32(1), X, Y]


def test_while_loop_with_known_condition_is_split():
    split = two_stages(WHILE, [True, True, True, True, False], LOOP_ARGS)
    assert split.out_known == [True, True, False]
    assert names(split.known) == ["while", "lt", "add", "sin", "xla_call", "cos"]
    assert names(split.unknown) == ["while", "lt", "add", "sin", "mul", "add"]  # known from the start; cos w unchanged
    split = two_stages(WHILE, [True, True, True, False, True], LOOP_ARGS)
    assert split.out_known == [True, False, False] and names(split.known)[:3] == ["while", "lt", "add"]


@pytest.mark.parametrize("known", [[False, True, True, True, True], [True, True, False, True, True]])
def test_while_loop_with_unknown_condition_stays_whole(known):
    split = two_stages(WHILE, known, LOOP_ARGS)
    assert split.out_known == [False] * 3 and names(split.known) == ["xla_call", "cos"]


def test_split_loop_keeps_its_bound():
    program = rewrite(WHILE, lambda e: [e.replace(params={**e.params, "max_iters": 2})] if "cond_jaxpr" in e.params else None)
    split = two_stages(program, [True, True, True, True, False], LOOP_ARGS)
    assert [e.params["max_iters"] for p in (split.known, split.unknown) for e in p.eqns if "max_iters" in e.params] == [2, 2]


REMAT = """{{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] d:f32[3] e:f32[3] = remat[
      call_jaxpr={{ lambda ; a:f32[3] b:f32[3]. let
          c:f32[3] = sin a
          f:f32[3] = cos c
          g:f32[3] = name[name=g] f
          h:f32[3] = exp g
          d:f32[3] = mul h b
          e:f32[3] = sin b
        in (c, d, e) }}
      differentiated=False name=f policy={policy} prevent_cse=True
    ] a b
  in (c, d, e) }}"""


def test_checkpointed_call_is_split_and_recomputes():
    program = parse(REMAT.format(policy=None))
    split = two_stages(program, [True, False], [X, Y])
    assert split.out_known == [True, False, False]
    assert names(split.known) == ["remat", "sin"]
    assert names(split.unknown) == ["remat", "sin", "cos", "name", "exp", "mul", "sin"]
    assert split.residuals == [program.in_avals[0]] and split.unknown.eqns[0].params["differentiated"]
    assert two_stages(program, [False, True], [X, Y]).out_known == [False, False, True]


def test_checkpointed_call_stores_residuals_chosen_by_policy():
    program = parse(REMAT.format(policy="CheckpointPolicy(kind='only_names', names=('g',), parts=(), away=(), offload=None)"))
    split = two_stages(program, [True, False], [X, Y])
    assert names(split.known) == ["remat", "sin", "cos", "name"]
    assert names(split.unknown) == ["remat", "exp", "mul", "sin"] and len(split.unknown.eqns[0].invars) == 2
    assert names(two_stages(program, [False, True], [X, Y]).known) == ["remat", "sin"]


SHARED_SLOT = """{{ lambda ; i:i32[] a:f32[3] b:f32[3]. let
    c:f32[3] d:f32[3] = remat[
      call_jaxpr={{ lambda ; i:i32[] a:f32[3] b:f32[3]. let
          c:f32[3] = cond[branches=(
            {{ lambda ; a:f32[3]. let c:f32[3] = sin a d:f32[3] = mul c c in (d,) }},
            {{ lambda ; a:f32[3]. let c:f32[3] = cos a d:f32[3] = mul c 3.0:f32[] in (d,) }})] i a
          e:f32[3] = exp b
          f:f32[3] = mul c e
          g:f32[3] = mul e 3.0:f32[]
        in (f, g) }}
      differentiated=False name=f policy={policy} prevent_cse=True
    ] i a b
  in (c, d) }}"""


@pytest.mark.parametrize("known", [[True, False, True], [False, False, True], [False, True, True], [True, True, False]])
def test_branches_sharing_a_residual_keep_policy_choices_aligned(known):
    """The branches share one residual for different values, so there are fewer stored results than stored values."""
    program = parse(SHARED_SLOT.format(policy="CheckpointPolicy(kind='everything', names=(), parts=(), away=(), offload=None)"))
    split = two_stages(program, known, [np.int32(1), X, Y])
    assert split.out_known == [False, known[2]]
    assert "exp" not in names(split.unknown) or not known[2]  # known values are stored, not recomputed


def two_results(name, *operands):
    """Return (sin x, x * y) as a custom_jvp call; operand `name` scales the tangent of the first result."""
    body = parse("{ lambda ; x:f32[3] y:f32[3]. let s:f32[3] = sin x m:f32[3] = mul x y in (s, m) }")
    rule = parse(f"""{{ lambda ; x:f32[3] y:f32[3] t:f32[3] u:f32[3]. let
        s:f32[3] = sin x
        m:f32[3] = mul x y
        c:f32[3] = mul {name} t
        d:f32[3] = mul y t
        e:f32[3] = mul x u
        f:f32[3] = add d e
      in (s, m, c, f) }}""")
    made = []
    params = {"call_jaxpr": body, "jvp": prims.Rule("rule", lambda: made.append(1) or rule), "name": "f", "num_consts": 0}
    x, y, s, m = (Var(f32(3)) for _ in range(4))
    return ClosedJaxpr(Jaxpr([], [x, y], [Eqn(prims.custom_jvp_call_p, [x, y], [s, m], params)], [s, m])), made


def test_custom_jvp_call_is_split_with_its_rule():
    program, _ = two_results("x")
    split = two_stages(program, [True, False], [X, Y])
    assert split.out_known == [True, False]
    one, two = split.known.eqns[0], split.unknown.eqns[0]
    assert names(split.known) == ["custom_jvp_call", "sin"] and names(split.unknown) == ["custom_jvp_call", "mul"]
    assert [len(p.params["jvp"].program().in_avals) for p in (one, two)] == [2, 4]
    assert names(one.params["jvp"].program()) == ["sin", "mul"]
    assert names(two.params["jvp"].program()) == ["mul", "mul", "mul", "add"]
    np.testing.assert_array_equal(evaluate(one.params["jvp"].program(), X, Y)[1], X * Y)


def test_custom_jvp_call_with_rule_on_unknown_operand_stays_whole():
    program, made = two_results("y")
    split = two_stages(program, [True, False], [X, Y])
    assert split.out_known == [False, False] and names(split.known) == [] and made == [1]
    dropped = parse(str(program))
    assert two_stages(dropped, [True, False], [X, Y]).out_known == [False, False]
