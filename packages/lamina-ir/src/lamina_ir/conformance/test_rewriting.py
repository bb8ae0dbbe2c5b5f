"""Program passes: results stay the same, and effects keep their order."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, Primitive, Var, check, cse, dce, evaluate, fold_constants,
                       inline_calls, parse, partial_eval, prims, rewrite, substitute, walk)
from lamina_ir.testing.programs import f32

X, Y, K = np.float32([0.5, 1, 2]), np.float32([3, -1, 0.25]), np.float32([1, 10, 100])
BODY = "{ lambda ; w:f32[] c:f32[3] x:f32[3]. let d:f32[3] = mul c w e:f32[3] = add d x f:f32[3] = sin c in (e, f) }"
TEXTS = {
    "plain": """{ lambda ; a:f32[3] b:f32[3] n:i32[]. let
        c:f32[3] = sin a d:f32[3] = mul c b e:f32[3] = exp b f:f32[3] = sin a g:f32[3] = add f d h:f32[3] = mul 2.0:f32[] a
      in (d, g, e, h, 1.0:f32[]) }""",
    "calls": """{ lambda ; a:f32[3] b:f32[3] n:i32[]. let
        c:f32[3] d:f32[3] = xla_call[call_jaxpr={ lambda ; p:f32[3] q:f32[3]. let r:f32[3] = sin p s:f32[3] = cos p
            t:f32[3] = mul q s in (r, t) } name=f] a b
        e:f32[3] = add c d
      in (c, e, d, a, b) }""",
    "branches": """{ lambda ; a:f32[3] b:f32[3] n:i32[]. let
        c:f32[3] d:f32[3] = cond[branches=({ lambda ; p:f32[3] q:f32[3]. let r:f32[3] = sin p in (r, q) },
            { lambda ; p:f32[3] q:f32[3]. let r:f32[3] = mul p q in (r, p) })] n a b
        e:f32[3] = neg d
      in (c, d, e, a, b) }""",
    "scan": f"""{{ lambda ; a:f32[3] b:f32[3] n:i32[]. let
        w:f32[] = convert_element_type[new_dtype=float32 weak_type=False] n
        s:f32[2,3] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 3)] b
        c:f32[3] d:f32[2,3] = scan[jaxpr={BODY} length=2 num_carry=1 num_consts=1 reverse=False unroll=1] w a s
        e:f32[3] = neg c
      in (c, d, e, a, b) }}""",
    "while": """{ lambda ; a:f32[3] b:f32[3] n:i32[]. let
        c:i32[] d:f32[3] e:f32[3] = while[
          body_jaxpr={ lambda ; k:f32[3] i:i32[] x:f32[3] y:f32[3]. let j:i32[] = add i 1:i32[] z:f32[3] = mul x k
              v:f32[3] = sin y in (j, z, v) }
          body_nconsts=1
          cond_jaxpr={ lambda ; i:i32[] x:f32[3] y:f32[3]. let t:bool[] = lt i 3:i32[] in (t,) }
          cond_nconsts=0 max_iters=None] b n a b
        f:f32[3] = neg d
      in (d, f, e, a, b) }""",
}
PROGRAMS = {name: parse(text) for name, text in TEXTS.items()}
ARGS = (X, Y, np.int32(1))
over = pytest.mark.parametrize("name", TEXTS)


def assert_equal(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-6)


def names(program):
    return [e.primitive.name for e in walk(program)]


def test_programs_equal_numpy_expressions():
    assert_equal(evaluate(PROGRAMS["plain"], *ARGS), [np.sin(X) * Y, np.sin(X) + np.sin(X) * Y, np.exp(Y), 2 * X, 1])
    assert_equal(evaluate(PROGRAMS["calls"], *ARGS)[:2], [np.sin(X), np.sin(X) + Y * np.cos(X)])
    assert_equal(evaluate(PROGRAMS["branches"], *ARGS)[:3], [X * Y, X, -X])
    c1 = X + Y
    assert_equal(evaluate(PROGRAMS["scan"], *ARGS)[:2], [c1 + Y, np.stack([np.sin(X), np.sin(c1)])])
    assert_equal(evaluate(PROGRAMS["while"], *ARGS)[:3], [X * Y * Y, -X * Y * Y, np.sin(np.sin(Y))])


@over
@pytest.mark.parametrize("used", list(itertools.product([True, False], repeat=5)), ids=str)
def test_dce_keeps_used_results(name, used):
    program = PROGRAMS[name]
    small, kept = dce(program, list(used))
    check(small)
    assert len(small.in_avals) == sum(kept) and len(list(walk(small))) <= len(list(walk(program)))
    wanted = [w for w, on in zip(evaluate(program, *ARGS), used) if on]
    assert_equal(evaluate(small, *[a for a, on in zip(ARGS, kept) if on]), wanted)


def test_dce_removes_dead_code():
    small, kept = dce(PROGRAMS["plain"], [False, False, False, True, False])
    assert names(small) == ["mul"] and kept == [True, False, False]
    small, kept = dce(PROGRAMS["calls"], [True, False, False, False, False])
    assert names(small) == ["xla_call", "sin"] and kept == [True, False, False]


@over
@pytest.mark.parametrize("change", [cse, fold_constants, inline_calls, lambda p: rewrite(p, lambda e: None)],
                         ids=["cse", "fold_constants", "inline_calls", "rewrite"])
def test_passes_keep_every_result(name, change):
    new = change(PROGRAMS[name])
    check(new)
    assert_equal(evaluate(new, *ARGS), evaluate(PROGRAMS[name], *ARGS))


def test_passes_simplify_programs():
    assert names(cse(PROGRAMS["plain"])).count("sin") == 1
    assert "xla_call" not in names(inline_calls(PROGRAMS["calls"]))
    folded = fold_constants(parse("{ lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] 3.0:f32[] c:f32[] = add a b in (c,) }"))
    assert names(folded) == ["add"] and float(evaluate(folded, np.float32(1))[0]) == 7


@over
def test_rewrite_replaces_equations_at_every_depth(name):
    def as_cosine(e):
        return [Eqn(prims.cos_p, e.invars, e.outvars, {})] if e.primitive is prims.sin_p else None

    program = PROGRAMS[name]
    new = rewrite(program, as_cosine)
    check(new)
    assert names(program).count("sin") and not names(new).count("sin")
    back = rewrite(new, lambda e: [Eqn(prims.sin_p, e.invars, e.outvars, {})] if e.primitive is prims.cos_p else None)
    assert "sin" in names(back)
    if name == "plain":
        assert_equal(evaluate(new, *ARGS)[:1], [np.cos(X) * Y])


def test_rewrite_replaces_results_by_other_values():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = copy a c:f32[] = sin b in (c, b) }")
    new = rewrite(program, lambda e: ([], e.invars) if e.primitive is prims.copy_p else None)
    assert names(new) == ["sin"]
    assert_equal(evaluate(new, np.float32(2)), [np.sin(2), 2])
    a = program.jaxpr.invars[0]
    put = substitute(program, {a: Literal(np.float32(3), f32())})
    assert np.isclose(evaluate(put, np.float32(0))[0], np.sin(3))


@over
@pytest.mark.parametrize("known", list(itertools.product([True, False], repeat=3)), ids=str)
def test_partial_eval_stages_compute_the_program(name, known):
    program = PROGRAMS[name]
    split = partial_eval(program, list(known))
    check(split.known), check(split.unknown)
    early = evaluate(split.known, *[a for a, on in zip(ARGS, known) if on])
    n = sum(split.out_known)
    late = evaluate(split.unknown, *early[n:], *[a for a, on in zip(ARGS, known) if not on])
    got_early, got_late = iter(early[:n]), iter(late)
    assert_equal([next(got_early if on else got_late) for on in split.out_known], evaluate(program, *ARGS))
    if all(known):
        assert all(split.out_known)


def test_partial_eval_computes_known_values_in_first_stage():
    split = partial_eval(PROGRAMS["plain"], [True, False, False])
    assert names(split.known).count("sin") >= 1 and "sin" not in names(split.unknown)
    assert split.out_known == [False, False, False, True, True]


@pytest.mark.order
def test_passes_keep_all_effects_in_order():
    seen = []
    say = Primitive("say_of_contract", infer=lambda x: [], numpy=lambda x: (seen.append(float(x)), ())[1], multiple=True,
                    effectful=True)
    a, b, c = Var(f32()), Var(f32()), Var(f32())
    first, *rest = [Eqn(say, [v], [], {}) for v in (a, c, b, a)]
    eqns = [first, Eqn(prims.neg_p, [a], [c], {}), *rest]
    program = ClosedJaxpr(Jaxpr([], [a, b], eqns, [c]), [])
    one, two = np.float32(1), np.float32(2)

    def run(p, *args):
        seen.clear()
        evaluate(p, *args)
        return list(seen)

    want = [1, -1, 2, 1]
    assert run(program, one, two) == want
    small, kept = dce(program, [False])
    assert run(small, *[x for x, on in zip((one, two), kept) if on]) == want
    for change in (cse, fold_constants, inline_calls, lambda p: rewrite(p, lambda e: None)):
        assert run(change(program), one, two) == want
    split = partial_eval(program, [True, False])
    both = run(split.known, one)
    early = evaluate(split.known, one)
    assert both + run(split.unknown, *early[sum(split.out_known):], two) == want


@pytest.mark.cost
def test_dce_drops_long_dead_chain():
    a = v = Var(f32())
    eqns = []
    for _ in range(5000):
        out = Var(f32())
        eqns.append(Eqn(prims.sin_p, [v], [out], {}))
        v = out
    small, kept = dce(ClosedJaxpr(Jaxpr([], [a], eqns, [v])), [False])
    assert small.eqns == [] and kept == [False]
