"""Programs pickle through `dumps` and `loads`; copies are the program itself."""
import copy
import pickle

import numpy as np
from lamina_ir import alpha_equal, evaluate, parse

TEXT = """{ lambda k:f32[2] ; a:f32[2]. let
    b:f32[2] = xla_call[call_jaxpr={ lambda ; c:f32[2]. let d:f32[2] = sin c in (d,) } name=f] a
    e:f32[2] = xla_call[call_jaxpr={ lambda ; c:f32[2]. let d:f32[2] = sin c in (d,) } name=f] b
    g:f32[2] = add e k
  in (g,) }"""


def test_closed_programs_pickle_with_their_constants_and_sharing():
    program = parse(TEXT, consts=[np.ones(2, np.float32)])
    one, two = pickle.loads(pickle.dumps((program, program)))
    assert one is two and alpha_equal(one, program, weak=True)
    np.testing.assert_array_equal(evaluate(one, np.zeros(2))[0], [1, 1])
    assert one.eqns[0].params["call_jaxpr"] is one.eqns[1].params["call_jaxpr"]


def test_open_programs_and_equations_pickle():
    jaxpr = parse(TEXT)
    again = pickle.loads(pickle.dumps(jaxpr))
    assert len(again.constvars) == 1 and alpha_equal(again, jaxpr, weak=True)


def test_copy_returns_the_same_program():
    program = parse(TEXT, consts=[np.ones(2, np.float32)])
    assert copy.copy(program) is program and copy.deepcopy([program])[0] is program
    assert copy.deepcopy(program.jaxpr) is program.jaxpr
