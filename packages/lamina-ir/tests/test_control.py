"""Control flow as programs: checked, printed, saved, evaluated on one and many devices, freed of dead code."""
import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, DTypeError, Eqn, Jaxpr, ProgramError, ShapeError, UnboundAxisError, Var,
                       alpha_equal, aval_of, check, dce, dumps, evaluate, evaluate_primitive, evaluate_spmd, loads,
                       parse, prims)
from lamina_ir.testing.samples import samples_of

CONTROL = [s for p in (prims.cond_p, prims.while_p, prims.scan_p) for s in samples_of(p)]


def program(sample):
    avals = [aval_of(a) for a in sample.args]
    ins = [Var(a) for a in avals]
    outs = [Var(a) for a in sample.prim.infer(*avals, **sample.params)]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(sample.prim, ins, outs, sample.params)], outs))


@pytest.mark.parametrize("sample", CONTROL, ids=lambda s: s.id)
def test_control_flow_is_checked_printed_and_saved(sample):
    made = program(sample)
    check(made)
    assert alpha_equal(parse(str(made)), made)
    again = loads(dumps(made))
    assert alpha_equal(again, made)
    for a, b in zip(evaluate(made, *sample.args), evaluate(again, *sample.args)):
        np.testing.assert_array_equal(a, b)


def test_out_of_range_index_runs_last_branch():
    one, two = (parse("{ lambda ; a:f32[]. let b:f32[] = add a %d.0:f32[] in (b,) }" % n) for n in (1, 2))
    for index, wanted in ((0, 1), (1, 2), (5, 2), (-1, 2)):
        assert evaluate_primitive(prims.cond_p, [np.int32(index), np.float32(0)], {"branches": (one, two)})[0] == wanted


SUM = parse("""{ lambda ; a:f32[] x:f32[]. let
    b:f32[] = psum[axes=(i,) axis_index_groups=None] x
    c:f32[] = add a b
  in (c, b) }""")


def scan_of(body, length, carry=1):
    return dict(jaxpr=body, length=length, num_consts=0, num_carry=carry, reverse=False, unroll=1)


def test_collectives_in_scan_run_in_lockstep():
    made = ClosedJaxpr(_one(prims.scan_p, [np.float32(0), np.zeros(3, np.float32)], scan_of(SUM, 3)))
    xs = [np.arange(3, dtype=np.float32), np.ones(3, np.float32)]
    carry, ys = evaluate_spmd(made, [("i", 2)], [[np.float32(0), np.float32(10)], xs])
    assert [float(c) for c in carry] == [6.0, 16.0]
    np.testing.assert_array_equal(ys[0], [1, 2, 3])
    np.testing.assert_array_equal(ys[1], ys[0])
    with pytest.raises(UnboundAxisError):
        evaluate(made, np.float32(0), xs[0])


def _one(prim, args, params):
    avals = [aval_of(a) for a in args]
    ins = [Var(a) for a in avals]
    outs = [Var(a) for a in prim.infer(*avals, **params)]
    return Jaxpr([], ins, [Eqn(prim, ins, outs, params)], outs)


def test_devices_in_different_branches_with_collectives_are_rejected():
    same = parse("{ lambda ; a:f32[]. let b:f32[] = psum[axes=(i,) axis_index_groups=None] a in (b,) }")
    other = parse("{ lambda ; a:f32[]. let b:f32[] = neg a in (b,) }")
    made = ClosedJaxpr(_one(prims.cond_p, [np.int32(0), np.float32(0)], dict(branches=(same, other))))
    index = [np.int32(0), np.int32(1)]
    with pytest.raises(ProgramError, match="different branches"):
        evaluate_spmd(made, [("i", 2)], [index, [np.float32(1)] * 2])
    alone = ClosedJaxpr(_one(prims.cond_p, [np.int32(0), np.float32(0)], dict(branches=(other, other))))
    assert evaluate_spmd(alone, [("i", 2)], [index, [np.float32(1)] * 2])[0] == [-1, -1]


def test_dce_drops_dead_results_of_loop():
    made = parse("""{ lambda ; w:f32[] a:f32[] b:f32[] x:f32[4] y:f32[4]. let
        c:f32[] d:f32[] e:f32[4] f:f32[4] = scan[
          jaxpr={ lambda ; w:f32[] a:f32[] b:f32[] x:f32[] y:f32[]. let
              c:f32[] = mul a x
              d:f32[] = mul b w
              e:f32[] = sin d
            in (c, d, y, e) }
          length=4 num_carry=2 num_consts=1 reverse=False unroll=1
        ] w a b x y
      in (c,) }""")
    small, used = dce(made)
    check(small)
    assert used == [False, True, False, True, False]
    eqn, = small.eqns
    assert (eqn.params["num_consts"], eqn.params["num_carry"], len(eqn.params["jaxpr"].eqns)) == (0, 1, 1)
    args = [np.float32(2), np.float32(3), np.float32(4), np.arange(1, 5, dtype=np.float32), np.ones(4, np.float32)]
    assert evaluate(small, args[1], args[3])[0] == evaluate(made, *args)[0]


def test_dce_keeps_dead_while_carries_read_by_condition():
    made = parse("""{ lambda ; w:f32[] i:i32[] a:f32[] b:f32[]. let
        j:i32[] c:f32[] d:f32[] = while[
          body_jaxpr={ lambda ; w:f32[] i:i32[] a:f32[] b:f32[]. let
              j:i32[] = add i 1:i32[]
              c:f32[] = mul a 2.0:f32[]
              d:f32[] = mul b w
            in (j, c, d) }
          body_nconsts=1
          cond_jaxpr={ lambda ; i:i32[] a:f32[] b:f32[]. let t:bool[] = lt i 3:i32[] in (t,) }
          cond_nconsts=0
        ] w i a b
      in (c,) }""")
    small, used = dce(made)
    check(small)
    assert used == [False, True, True, False]
    assert evaluate(small, np.int32(0), np.float32(1))[0] == 8


def test_dce_drops_dead_results_of_all_branches():
    one = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = cos b in (c, d) }")
    two = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = neg a in (c, b) }")
    made = ClosedJaxpr(_one(prims.cond_p, [np.int32(0), np.float32(0), np.float32(0)], dict(branches=(one, two))))
    small, used = dce(made, [True, False])
    check(small)
    assert used == [True, True, False]


@pytest.mark.parametrize("prim, args, params, error, text", [
    (prims.cond_p, [np.float32(0)], dict(branches=(SUM,)), DTypeError, "index must be int32"),
    (prims.cond_p, [np.int32(0)], dict(branches=()), ShapeError, "at least one"),
    (prims.cond_p, [np.int32(0), np.float32(0)], dict(branches=(SUM,)), ShapeError, "takes 2 operands; got 1"),
    (prims.scan_p, [np.float32(0), np.zeros(4, np.float32)], scan_of(SUM, 3), ShapeError, "leading axis of length 3"),
    (prims.scan_p, [np.int32(0), np.zeros(3, np.float32)], scan_of(SUM, 3), DTypeError, "operand 0; got int32"),
], ids=lambda x: str(x)[:20])
def test_ill_formed_control_flow_is_rejected(prim, args, params, error, text):
    with pytest.raises(error, match=text):
        prim.infer(*map(aval_of, args), **params)
