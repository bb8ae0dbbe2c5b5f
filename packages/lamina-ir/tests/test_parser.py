"""Parsing programs, and messages for ill-formed text."""
import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, Var, alpha_equal, check, dtypes,
                       jaxpr_text, parse, prims, shaped)
from lamina_ir.testing import samples
from lamina_ir.testing.programs import NOTEBOOK, chain, f32, make_sample_program


@pytest.mark.parametrize("name", NOTEBOOK)
def test_notebook_programs_parse_back(name):
    program, text = NOTEBOOK[name]
    again = parse(text)
    assert alpha_equal(program, again)
    assert jaxpr_text(again) == text
    check(again)


ROWS = [row for prim in prims.ALL for row in samples.samples_of(prim)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_sample_parses_back(row):
    program = make_sample_program(row)
    again = parse(jaxpr_text(program, weak=True))
    assert alpha_equal(program, again, weak=True)
    assert jaxpr_text(again) == jaxpr_text(program)


@pytest.mark.parametrize("value", [2.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-30, 3.4e38])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_literals_parse_back(value, dtype):
    aval = shaped((), dtypes.as_dtype(dtype))
    with np.errstate(over="ignore"):
        program = Jaxpr([], [], [], [Literal(aval.dtype.type(value), aval)])
    assert alpha_equal(program, parse(jaxpr_text(program)))


@pytest.mark.parametrize(("value", "dtype"), [(True, "bool"), (False, "bool"), (-7, "int8"), (2**63, "uint64"),
                                              (1 - 2j, "complex64"), (complex("inf"), "complex64"), (3, "int4")])
def test_other_literals_parse_back(value, dtype):
    aval = shaped((), dtypes.as_dtype(dtype))
    program = Jaxpr([], [], [], [Literal(aval.dtype.type(value), aval)])
    assert alpha_equal(program, parse(jaxpr_text(program)))


def test_weak_marks_parse():
    program = parse("{ lambda ; a:~f32[]. let b:~f32[] = mul a 2.0:~f32[] in (b,) }")
    assert program.in_avals[0].weak_type and program.eqns[0].invars[1].aval.weak_type


def test_constants_round_trip_with_values():
    text = "{ lambda a:f32[2] ; b:f32[2]. let c:f32[2] = add a b in (c,) }"
    assert isinstance(parse(text), Jaxpr)
    value = np.ones(2, np.float32)
    assert parse(text, consts=[value]).consts[0] is value
    with pytest.raises(ProgramError, match="consts ran out"):
        parse(text, consts=[])


def test_long_programs_parse():
    program = chain(9000)
    assert alpha_equal(program, parse(jaxpr_text(program)))


def test_strings_that_look_like_other_tokens_round_trip():
    text = NOTEBOOK["jit of vmap"][1]
    for name in ("None", "float32", "two words", "it's", "a\nb", "<lambda>", "inf", "vmap(f)", "1", "", "{"):
        program = parse(text)
        program.eqns[0].params["name"] = name
        assert parse(jaxpr_text(program)).eqns[0].params["name"] == name


@pytest.mark.parametrize(("text", "line", "column", "words"), [
    ("", 1, 1, "expected `{`"),
    ("{ lambda ; a:f32[]. let b:f32[] = sinn a in (b,) }", 1, 35, "no primitive is named `sinn`"),
    ("{ lambda ; a:f32[]. let\n    b:f32[] = sin z\n  in (b,) }", 2, 19,
     "variable `z` is not bound; expected one of a, or a literal"),
    ("{ lambda ; . let a:f32[] = neg z in (a,) }", 1, 32, "a literal, as no variable is bound"),
    ("{ lambda ; a:c64[4]. let b:c64[4] = fft[fft_type=FftType.NONE] a in (b,) }", 1, 50,
     "named `FftType.NONE`; expected one of FFT, IFFT, RFFT, IRFFT"),
    ("{ lambda ; a:f32[]. let b:f32[] = name[name='x] a in (b,) }", 1, 45, "expected ' at the end of the string"),
    ("{ lambda ; . let b:i32[] = axis_index[axis_name={}] in (b,) }", 1, 1, "names of mapped axes must be hashable"),
    ("{ lambda ; a:f31[]. let  in (a,) }", 1, 14, "no dtype is written `f31`; expected one such as `f32`"),
    ("{ lambda ; a:f32[] a:f32[]. let  in (a,) }", 1, 20, "bound twice"),
    ("{ lambda ; a:f32[2]. let b:f32[] = reduce_sum[axes=(0] a in (b,) }", 1, 54, "expected `,` or `\\)`"),
    ("{ lambda ; a:f32[2]. let b:f32[] = reduce_sum[axis=(0,)] a in (b,) }", 1, 47, "has no param `axis`"),
    ("{ lambda ; a:f32[2]. let b:f32[] = reduce_sum a in (b,) }", 1, 36, "needs the param `axes`"),
    ("{ lambda ; a:f32[]. let  in (a,) } x", 1, 36, "end of the text"),
    ("{ lambda ; . let  in (x:f32[],) }", 1, 23, "expected a literal of type float32\\[\\]; got `x`"),
    ("{ lambda ; a:f32[]. let  in (a,)", 1, 33, "the end of the text")])
def test_bad_text_is_reported_with_position(text, line, column, words):
    with pytest.raises(ProgramError, match=words) as e:
        parse(text)
    message = str(e.value).split("\n")
    assert f"line {line}, column {column}" in message[0]
    assert message[2].index("^") - 2 == column - 1


def test_shared_programs_round_trip_through_text():
    inner = parse("""{ lambda ; a:f32[3] b:f32[3]. let
        c:f32[3] = xla_call[name=h call_jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = cos b in (c,) }] a
        d:f32[3] = mul c b
      in (d,) }""")
    hidden = inner.eqns[0].params["call_jaxpr"]
    body = hidden.jaxpr
    small = ClosedJaxpr(Jaxpr([], body.invars, body.eqns, body.outvars))  # another program with the same variables
    x, y, z, u, v = (Var(f32(3)) for _ in range(5))

    def call(sub, ins, out):
        params = {"call_jaxpr": sub, "name": "f", **prims.xla_call_p.defaults}
        return Eqn(prims.xla_call_p, ins, [out], params)
    program = ClosedJaxpr(Jaxpr([], [x], [call(inner, [x, x], y), call(hidden, [y], z), call(small, [z], u),
                                          call(inner, [u, y], v)], [v]))
    again = parse(str(program))
    assert str(again) == str(program) and alpha_equal(again, program)
    subs = [e.params["call_jaxpr"] for e in again.eqns]
    assert subs[0] is subs[3] and subs[0].eqns[0].params["call_jaxpr"] is subs[1] and subs[2] is not subs[1]
    check(again)
