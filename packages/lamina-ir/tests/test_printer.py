"""Printing programs: the notebook's exact text, names, literals, layout."""
import time

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, dtypes, dumps, eqn_text, jaxpr_text, loads, prims,
                       shaped)
from lamina_ir.testing.programs import NOTEBOOK, chain, f32, one_eqn


@pytest.mark.parametrize("name", NOTEBOOK)
def test_notebook_programs_print_exactly(name):
    program, text = NOTEBOOK[name]
    assert jaxpr_text(program) == text
    assert repr(program) == str(program.jaxpr) == text


def test_empty_program_prints_on_one_line():
    a = Var(f32())
    assert jaxpr_text(Jaxpr([], [a], [], [a])) == "{ lambda ; a:f32[]. let  in (a,) }"
    assert jaxpr_text(Jaxpr([], [], [], [])) == "{ lambda ; . let  in () }"


def test_single_short_equation_prints_on_one_line():
    assert jaxpr_text(one_eqn(prims.sin_p, [f32(8, 3)], f32(8, 3))) == \
        "{ lambda ; a:f32[8,3]. let b:f32[8,3] = sin a in (b,) }"


def test_two_equations_print_on_their_own_lines_with_consts_before_the_semicolon():
    k, a, b, c = (Var(f32(3)) for _ in range(4))
    program = Jaxpr([k], [a], [Eqn(prims.add_p, [k, a], [b], {}), Eqn(prims.neg_p, [b], [c], {})], [b, c])
    assert jaxpr_text(program) == """\
{ lambda a:f32[3] ; b:f32[3]. let
    c:f32[3] = add a b
    d:f32[3] = neg c
  in (c, d) }"""


def test_dropped_results_print_as_underscore():
    x, y = Var(f32()), Var(f32())
    sub = ClosedJaxpr(Jaxpr([], [y], [], [y, y]))
    out = Var(f32())
    eqn = Eqn(prims.xla_call_p, [x], [DropVar(f32()), out], {"call_jaxpr": sub, "name": "f", "donated_invars": (),
                                                            "inline": False, "device": None, "backend": None})
    assert jaxpr_text(Jaxpr([], [x], [eqn], [out])) == """\
{ lambda ; a:f32[]. let
    _:f32[] b:f32[] = xla_call[
      call_jaxpr={ lambda ; c:f32[]. let  in (c, c) }
      name=f
    ] a
  in (b,) }"""


def test_hidden_params_are_printed_if_not_default():
    x, y, z = Var(f32()), Var(f32()), Var(f32())
    params = {"call_jaxpr": ClosedJaxpr(Jaxpr([], [y], [], [y])), "name": "f", "donated_invars": (True,),
              "inline": False, "device": None, "backend": None}
    text = eqn_text(Eqn(prims.xla_call_p, [x], [z], params))
    assert "donated_invars=(True,)" in text and "inline" not in text


@pytest.mark.parametrize(("value", "dtype", "text"), [
    (2.0, "float32", "2.0:f32[]"), (0.1, "float32", "0.1:f32[]"), (True, "bool", "True:bool[]"),
    (-3, "int32", "-3:i32[]"), (float("inf"), "float32", "inf:f32[]"), (float("-inf"), "float16", "-inf:f16[]"),
    (float("nan"), "float64", "nan:f64[]"), (1 + 2j, "complex64", "(1+2j):c64[]"), (1.5, "bfloat16", "1.5:bf16[]"),
    (1e-30, "float32", "1e-30:f32[]"), (-0.0, "float32", "-0.0:f32[]"), (7, "uint8", "7:u8[]")])
def test_literals_print_value_and_type(value, dtype, text):
    a, b = Var(shaped((), dtypes.as_dtype(dtype))), Var(shaped((), dtypes.as_dtype(dtype)))
    assert eqn_text(Eqn(prims.add_p, [a, Literal(value, a.aval)], [b], {})).endswith("add a " + text)


def test_weak_types_are_marked_only_on_request():
    a = Var(shaped((), dtypes.as_dtype("float32"), True))
    program = Jaxpr([], [a], [], [a])
    assert jaxpr_text(program) == "{ lambda ; a:f32[]. let  in (a,) }"
    assert jaxpr_text(program, weak=True) == "{ lambda ; a:~f32[]. let  in (a,) }"


def test_names_continue_after_z_and_skip_reserved_words():
    lines = jaxpr_text(chain(20000)).split("\n")
    names = [line.split(":")[0].strip() for line in lines[1:-1]]
    assert names[24:27] == ["z", "aa", "ab"] and names[25 + 26 - 1:][:2] == ["az", "ba"]
    assert len(set(names)) == len(names) and not {"in", "let", "lambda", "inf", "nan"} & set(names)


def test_numbers_in_params_print_as_python_numbers():
    eqn = Eqn(prims.reduce_sum_p, [Var(f32(2, 3))], [Var(f32(2))], {"axes": (np.int64(1),)})
    assert eqn_text(eqn) == "b:f32[2] = reduce_sum[axes=(1,)] a"


def test_long_chains_print_in_linear_time():
    def seconds(n):
        program = chain(n)
        start = time.process_time()
        jaxpr_text(program)
        return time.process_time() - start
    assert min(seconds(16000) for _ in range(3)) < 40 * min(seconds(1000) for _ in range(3))


def test_one_body_with_two_sets_of_constants_prints_as_after_loading():
    number, flag = shaped((), np.dtype("float32")), shaped((), np.dtype("int32"))
    c, x, y, k, out = Var(number), Var(number), Var(number), Var(flag), Var(number)
    body = Jaxpr([c], [x], [Eqn(prims.mul_p, [x, c], [y], {})], [y])
    branches = tuple(ClosedJaxpr(body, [np.float32(n)]) for n in (1, 2))
    program = ClosedJaxpr(Jaxpr([], [k, x], [Eqn(prims.cond_p, [k, x], [out], dict(branches=branches))], [out]))
    assert str(loads(dumps(program))) == str(program)
