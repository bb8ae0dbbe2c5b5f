"""Effects: callbacks saved by name, the token that orders effects in nested programs, and iteration counters."""
import numpy as np
import pytest
from lamina_ir import (CallbackError, CheckError, ClosedJaxpr, Eqn, Jaxpr, MissingRuleError, Primitive, Var, check, cse,
                       dce, dumps, evaluate, find_unrepeatable_effect, has_checks, has_host_callbacks, has_only_checks,
                       has_ordered_effects, loads, mask_checks, thread_iteration_counters, prims, shaped,
                       thread_effect_token)
from lamina_ir.extend import RegionSignature, HostFunction, const_operands, register_host_function

F32 = shaped((), np.dtype("float32"))


def note(seen, x, tag, ordered=True):
    host = HostFunction.of(lambda v: seen.append((tag, float(v))) or (), tag)
    return Eqn(prims.debug_callback_p, [x], [], dict(batch=(), callback=host, indexed=False, mapped=(), ordered=ordered,
                                                     threaded=False))


def program(*make):
    """Return a program of one float argument; each `make(x)` adds an equation on the previous result."""
    x = first = Var(F32)
    eqns = []
    for m in make:
        eqns.append(m(x))
        if eqns[-1].outvars:
            x = eqns[-1].outvars[0]
    return ClosedJaxpr(Jaxpr([], [first], eqns, [x]))


def call(body):
    return lambda x: Eqn(prims.xla_call_p, [x], [Var(F32)], dict(call_jaxpr=body, name="f", donated_invars=(),
                                                                  inline=False, device=None, backend=None))


def double(x):
    return Eqn(prims.add_p, [x, x], [Var(F32)], {})


def test_token_is_threaded_through_every_ordered_call():
    seen = []
    inner = program(lambda x: note(seen, x, "in"), double, lambda x: note(seen, x, "out"))
    outer = program(lambda x: note(seen, x, "first"), call(inner), lambda x: note(seen, x, "free", ordered=False),
                    lambda x: note(seen, x, "last"))
    assert has_ordered_effects(outer) and has_host_callbacks(outer)
    assert find_unrepeatable_effect(outer) is None  # reports
    threaded = thread_effect_token(outer)
    check(threaded)
    assert len(threaded.in_avals) == len(threaded.out_avals) == 2
    assert [len(e.invars) for e in threaded.eqns] == [2, 2, 1, 2]
    assert [float(v) for v in evaluate(threaded, np.float32(1), np.int32(7))] == [2, 7]
    assert seen == [("first", 1), ("in", 1), ("out", 2), ("free", 2), ("last", 2)]


def test_loops_and_branches_carry_token():
    seen = []
    body = program(lambda x: note(seen, x, "body"), double)
    x, out = Var(F32), Var(F32)
    scan = Eqn(prims.scan_p, [x], [out], dict(jaxpr=body, length=3, num_carry=1, num_consts=0, reverse=False, unroll=1))
    threaded = thread_effect_token(ClosedJaxpr(Jaxpr([], [x], [scan], [out])))
    check(threaded)
    assert float(evaluate(threaded, np.float32(1), np.int32(0))[0]) == 8 and seen == [("body", v) for v in (1, 2, 4)]
    index, y = Var(shaped((), np.dtype("int32"))), Var(F32)
    cond = Eqn(prims.cond_p, [index, x], [y], dict(branches=(program(double), body)))
    threaded = thread_effect_token(ClosedJaxpr(Jaxpr([], [index, x], [cond], [y])))
    check(threaded)
    assert float(evaluate(threaded, np.int32(0), np.float32(5), np.int32(0))[0]) == 10 and len(seen) == 3


@pytest.mark.parametrize("flow, ok", [(RegionSignature(const_operands(), body="body"), True),
                                      (RegionSignature(extra_programs=("body",), indivisible="opaque"), False)])
def test_token_passes_through_primitives_with_region_signature(flow, ok):
    holder = Primitive("holder", params=("body",), infer=lambda *xs, body: body.out_avals, region_signature=flow, multiple=True)
    whole = program(lambda x: Eqn(holder, [x], [Var(F32)], dict(body=program(lambda x: note([], x, "n")))))
    if ok:
        threaded = thread_effect_token(whole)
        check(threaded)
        assert len(threaded.eqns[0].invars) == len(threaded.eqns[0].outvars) == 2
    else:
        with pytest.raises(MissingRuleError, match="inside of `holder`.* has no constant operands.*ordered=False"):
            thread_effect_token(whole)


def test_dce_and_cse_keep_effects():
    seen = []
    twice = program(lambda x: note(seen, x, "a", False), lambda x: note(seen, x, "a", False))
    assert len(dce(twice, [False])[0].eqns) == len(cse(twice).eqns) == 2


def test_saved_program_finds_host_function_by_name():
    name = "test_effects.half"
    host = register_host_function(name, lambda v: (v / 2,))
    params = dict(batch=(), callback=host, mapped=(), result_dtypes=(np.dtype("float32"),), result_shapes=((),),
                  vmap_method=None)
    p = program(lambda x: Eqn(prims.pure_callback_p, [x], [Var(F32)], params))
    assert float(evaluate(loads(dumps(p)), np.float32(3))[0]) == 1.5
    with pytest.raises(ValueError, match="already registered"):
        register_host_function(name, lambda v: v)
    params["callback"] = HostFunction.of(lambda v: (v,), "unregistered")
    p = program(lambda x: Eqn(prims.pure_callback_p, [x], [Var(F32)], params))
    with pytest.raises(CallbackError, match="`unregistered`.*register_host_function"):
        evaluate(loads(dumps(p)), np.float32(3))


@pytest.mark.parametrize("change,text", [
    (dict(batch=(2,), mapped=()), "one entry per operand"), (dict(batch=(2,), mapped=((True, True),)), "one flag per batch"),
    (dict(batch=(2,), mapped=((True,),)), "must lead with the batch axes"), (dict(result_shapes=()), "one entry per result")])
def test_pure_callback_params_are_checked(change, text):
    params = dict(batch=(), callback=None, mapped=(), result_dtypes=(np.dtype("float32"),), result_shapes=((),),
                  vmap_method=None)
    with pytest.raises(ValueError, match=text):
        prims.pure_callback_p.infer(F32, **{**params, **change})


# --- iterations of loops ----------------------------------------------------------------------------------------------
def loop(body, length, reverse=False):
    return lambda x: Eqn(prims.scan_p, [x], [Var(F32)], dict(jaxpr=body, length=length, num_carry=1, num_consts=0,
                                                             reverse=reverse, unroll=1))


def fails_at(value):
    def host(v):
        if float(v) == value:
            raise ValueError("no luck")
        return ()
    return lambda x: note([], x, "host").replace(params={**note([], x, "host").params, "ordered": False,
                                                         "callback": HostFunction.of(host, "host", "here.py:7")})


def error_location(closed, *args):
    with pytest.raises(CallbackError, match="`host` raised ValueError: no luck; called at here.py:7") as caught:
        evaluate(closed, *args)
    return str(caught.value).partition("here.py:7")[2]


@pytest.mark.parametrize("how", [lambda p: p, thread_iteration_counters])
def test_failing_callback_reports_loop_iterations(how):
    inner = program(fails_at(24), double)
    whole = how(program(loop(program(call(program(loop(inner, 2, reverse=True)))), 3)))
    check(whole)
    assert error_location(whole, np.float32(3)) == ", at index 0 of the scan, at index 1 of the scan"
    assert float(evaluate(whole, np.float32(1))[0]) == 64


def test_programs_without_callbacks_in_loops_get_no_counters():
    for same in (program(double, loop(program(double), 3)), program(fails_at(0), call(program(fails_at(1))))):
        assert thread_iteration_counters(same) is same
    shared = call(program(loop(program(fails_at(0), double), 2)))
    first, second = thread_iteration_counters(program(shared, shared)).eqns
    assert first.params["call_jaxpr"] is second.params["call_jaxpr"]


def test_loops_around_indivisible_region_are_not_reported():
    holder = Primitive("opaque_holder", params=("body",), infer=lambda *xs, body: body.out_avals, multiple=True,
                       region_signature=RegionSignature(extra_programs=("body",), indivisible="opaque"),
                       numpy=lambda run, *xs, body: run(body, xs))
    body = program(lambda x: Eqn(holder, [x], [Var(F32)], dict(body=program(loop(program(fails_at(4), double), 3)))))
    whole = thread_iteration_counters(program(loop(body, 1)))
    check(whole)
    assert error_location(whole, np.float32(1)) == ", at index 2 of the scan"


def test_failing_callback_reports_axis_position():
    from lamina_ir import evaluate_spmd
    body = program(fails_at(4), double)
    for closed in (program(loop(body, 3)), thread_iteration_counters(program(loop(body, 3)))):
        with pytest.raises(CallbackError, match="at index 1 of the scan, at index 1 of axis 'i' of 2"):
            evaluate_spmd(closed, [("i", 2)], [[np.float32(0), np.float32(2)]])


def test_primitive_that_is_a_check_is_masked_and_may_be_repeated():
    def require(ok):
        if not ok:
            raise CheckError("not satisfied")
        return ()
    require_p = Primitive("require", infer=lambda ok: (), numpy=require, multiple=True, effectful=True, is_check=True)
    truth = shaped((), np.dtype("bool"))
    body = program(lambda x: Eqn(prims.gt_p, [x, x], [Var(truth)], {}), lambda ok: Eqn(require_p, [ok], [], {}))
    assert has_checks(body) and has_only_checks(body) and find_unrepeatable_effect(body) is None
    with pytest.raises(CheckError, match="not satisfied"):
        evaluate(body, np.float32(1))
    masked = mask_checks(body)
    check(masked)
    evaluate(masked, np.float32(1), np.bool_(False))
    with pytest.raises(CheckError, match="not satisfied"):
        evaluate(masked, np.float32(1), np.bool_(True))
    assert len(dce(body)[0].jaxpr.eqns) == 2
