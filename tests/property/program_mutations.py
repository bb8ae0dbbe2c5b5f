"""Random changes to the sample programs: to params and operand types, and to tokens of their text."""
from __future__ import annotations

import random
import re
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, LaminaError, ProgramError, ShapedArray, Var, jaxpr_text, parse, shaped
from lamina_ir.testing.mutations import change_operands_and_params
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import Sample

__all__ = ["mutate_equation", "mutate_text"]

_TOKEN = re.compile(r"'[^'\n]*'|[-+]?\d[\w.+-]*|[A-Za-z_][\w.]*|\S")
_WORDS = ["0", "1", "-1", "2", "3", "100", "9223372036854775808", "0.5", "nan", "inf", "(1+2j)", "True", "False", "None", "()",
          "(0,)", "(1, 0)", "((0, 0),)", "[0]", "{}", "'x'", "le", "float32", "bool", "Precision.HIGH", "FftType.RFFT",
          "FftType.NONE", "f32[3]", "i32[]", "c64[2]", "a", "zz", "(", ")", "[", "]", "=", ",", "@1", "{", "}", "let", "in"]


def mutate_equation(sample: Sample, rng: random.Random) -> str | None:
    """Return the text of a sample's equation with changed params or operand types; None if it has no text."""
    prim = sample.prim
    avals, params = change_operands_and_params(sample, rng)
    if lacks_param := rng.random() < 0.05 and params:
        del params[rng.choice(list(params))]
    try:
        out = prim.infer(*avals, **params)
        outs = [a for a in (out if prim.multiple else [out]) if isinstance(a, ShapedArray)]
    except Exception:  # the type rule gets params of any kind; `check` is what is tested
        if not lacks_param and rng.random() < 0.9:
            return None
        outs = [shaped((), "float32")]
    ins, results = [Var(a) for a in avals], [Var(a) for a in outs]
    try:
        return jaxpr_text(ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, results, params)], results)), weak=True)
    except (LaminaError, TypeError, KeyError, AttributeError):  # a param without text, an unhashable axis name, a missing param
        return None


def mutate_text(sample: Sample, rng: random.Random) -> str | None:
    """Return the text of a sample's program with changed tokens; None if the program has no text."""
    try:
        text = jaxpr_text(make_sample_program(sample), weak=True)
    except LaminaError:
        return None
    for _ in range(rng.choice([1, 1, 1, 2])):
        at = rng.choice([m.span() for m in _TOKEN.finditer(text)])
        token = text[slice(*at)]
        new = rng.choice([rng.choice(_WORDS), rng.choice(_WORDS), rng.choice(_TOKEN.findall(text)), "", f"{token} {token}"])
        text = text[:at[0]] + new + text[at[1]:]
    return infer_types(text)


def infer_types(text: str) -> str:
    """Replace the result types of the equations by inferred ones, if the text can be parsed."""
    try:
        return jaxpr_text(_infer(parse(text)), weak=True)
    except (ProgramError, AttributeError):  # AttributeError: a program with constants, whose values are unknown
        return text


def _infer(program: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr, new, eqns = program.jaxpr, {}, []
    for e in jaxpr.eqns:
        params = {name: _infer_programs(v) for name, v in e.params.items()}
        ins = [new.get(v, v) if type(v) is Var else v for v in e.invars]
        outs = [v.aval for v in e.outvars]
        try:
            found = e.primitive.infer(*[v.aval for v in ins], **params)
            found = list(found) if e.primitive.multiple else [found]
            if len(found) == len(outs):
                outs = [a.with_varying_axes(b.varying_axes) for a, b in zip(found, outs)]
        except Exception:  # the type rule gets params of any kind
            pass
        results = [Var(a) if type(v) is Var else v for v, a in zip(e.outvars, outs)]
        new.update((v, r) for v, r in zip(e.outvars, results) if type(v) is Var)
        try:
            eqns.append(Eqn(e.primitive, ins, results, params))
        except TypeError:
            return program
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns,
                             [new.get(v, v) if type(v) is Var else v for v in jaxpr.outvars]), program.consts)


def _infer_programs(v: Any) -> Any:
    if isinstance(v, ClosedJaxpr):
        return _infer(v)
    return tuple(map(_infer_programs, v)) if type(v) is tuple else v
