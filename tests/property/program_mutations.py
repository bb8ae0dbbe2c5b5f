"""Random changes to the sample programs: to params and operand types, and to tokens of their text."""
from __future__ import annotations

import enum
import random
import re
from typing import Any

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, LaminaError, ProgramError, ShapedArray, Var, aval_of, dtypes, jaxpr_text, parse,
                       prims, shaped)
from lamina_ir.prims import FftType, GatherScatterMode, HostFunction, Precision, RandomAlgorithm
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import Sample

__all__ = ["bound_loops", "mutate_equation", "mutate_text"]

F32, C64, BOOL = map(dtypes.as_dtype, ("float32", "complex64", "bool"))
DTYPES = ["float32", "int32", "bool", "complex64", "uint8", "bfloat16", "float16", "float64", "int4"]
_HIGH = Precision.HIGH
VALUES = [0, 1, -1, 2, 3, 7, -5, 2**31, -2**31, 2**40, 2**62, 2**63, 0.5, float("nan"), float("inf"), 1 + 2j, True, False, None,
          "x", "le", "cpu", "highest", (), (0,), (1,), (4,), (-1,), (True,), (None,), ("a",), (0, 1), (1, 0), (0, 0), ((0, 0),),
          [0], {}, {"a": 1}, frozenset([1]), F32, C64, BOOL, _HIGH, (_HIGH,), (_HIGH,) * 2, (_HIGH,) * 3, FftType.RFFT,
          GatherScatterMode.CLIP, RandomAlgorithm.RNG_PHILOX, HostFunction("unknown")]
_TOKEN = re.compile(r"'[^'\n]*'|[-+]?\d[\w.+-]*|[A-Za-z_][\w.]*|\S")
_WORDS = ["0", "1", "-1", "2", "3", "100", "9223372036854775808", "0.5", "nan", "inf", "(1+2j)", "True", "False", "None", "()",
          "(0,)", "(1, 0)", "((0, 0),)", "[0]", "{}", "'x'", "le", "float32", "bool", "Precision.HIGH", "FftType.RFFT",
          "FftType.NONE", "f32[3]", "i32[]", "c64[2]", "a", "zz", "(", ")", "[", "]", "=", ",", "@1", "{", "}", "let", "in"]


def change_leaf(v: Any, rng: random.Random) -> Any:
    """Return a param's value with one leaf changed; the length of a sequence may change."""
    fields = getattr(v, "_fields", None) or getattr(v, "__dataclass_fields__", None)
    if fields and not isinstance(v, type) and rng.random() < 0.9:
        values = {name: getattr(v, name) for name in fields}
        name = rng.choice(list(values))
        values[name] = change_leaf(values[name], rng)
        try:
            return type(v)(**values)
        except (TypeError, ValueError):
            return v
    if isinstance(v, (tuple, list)) and v and rng.random() < 0.8:
        items = list(v)
        i = rng.randrange(len(items))
        items[i:i + 1] = rng.choice([[change_leaf(items[i], rng)], [change_leaf(items[i], rng)], [], [items[i]] * 2])
        return tuple(items)
    if isinstance(v, enum.Enum) and rng.random() < 0.6:
        return rng.choice([*type(v), *(getattr(m, "value", 0) for m in type(v))])
    if type(v) is int and rng.random() < 0.7:
        return v + rng.choice([1, -1, 2, -2, -v, 5])
    if hasattr(v, "itemsize") and rng.random() < 0.8:
        return dtypes.as_dtype(rng.choice(DTYPES))
    return rng.choice(VALUES)


def change_type(a: ShapedArray, rng: random.Random) -> ShapedArray:
    """Return a type of another dtype, length or number of axes."""
    shape = list(a.shape)
    i, kind = rng.randrange(len(shape) + 1), rng.randrange(4)
    if kind == 0:
        return shaped(a.shape, dtypes.as_dtype(rng.choice(DTYPES)))
    if kind == 1 and i < len(shape):
        shape[i] = rng.choice([0, 1, 2, 5])
    else:
        shape[i:i + (kind == 2)] = [] if kind == 2 else [rng.choice([0, 1, 2])]
    return shaped(tuple(shape), a.dtype)


def mutate_equation(sample: Sample, rng: random.Random) -> str | None:
    """Return the text of a sample's equation with changed params or operand types; None if it has no text."""
    prim = sample.prim
    avals, params = [aval_of(a) for a in sample.args], dict(sample.params)
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.random()
        if params and kind < 0.6:
            name = rng.choice(list(params))
            params[name] = change_leaf(params[name], rng)
        elif avals:
            i = rng.randrange(len(avals))
            avals[i:i + 1] = [change_type(avals[i], rng)] if kind < 0.9 else rng.choice([[], [avals[i]] * 2])
    if lacks_param := rng.random() < 0.05 and params:
        del params[rng.choice(list(params))]
    try:
        out = prim.infer(*avals, **params)
        outs = [a for a in (out if prim.multiple else [out]) if isinstance(a, ShapedArray)]
    except Exception:  # the type rule gets params of any kind; `check` is what is tested
        if not lacks_param and rng.random() < 0.9:
            return None
        outs = [shaped((), F32)]
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


def bound_loops(program: ClosedJaxpr) -> ClosedJaxpr:
    """Bound the `while` loops, which a change may have made endless, at 9 iterations."""
    eqns = []
    for e in program.eqns:
        params = {name: _bound_programs(v) for name, v in e.params.items()}
        if e.primitive is prims.while_p:
            params["max_iters"] = 9 if params["max_iters"] is None else min(params["max_iters"], 9)
        eqns.append(e.replace(params=params))
    jaxpr = program.jaxpr
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), program.consts)


def _bound_programs(v: Any) -> Any:
    if isinstance(v, ClosedJaxpr):
        return bound_loops(v)
    return tuple(map(_bound_programs, v)) if type(v) is tuple else v
