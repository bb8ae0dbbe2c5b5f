"""Programs split by what is known early: `partial_eval` into two stages, `fold_constants` into values.

Nothing is executed by `partial_eval`: both halves are programs. `fold_constants` runs the NumPy meaning of equations
that depend on nothing but literals and constants.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .avals import ShapedArray
from .evaluator import evaluate_primitive
from .primitive import Primitive
from .program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eqn_axis_names, eqn_effectful, subprograms
from .rewrite import dce, map_subprograms, remember

__all__ = ["PartialEval", "fold_constants", "partial_eval", "partial_eval_rules"]


class PartialEval(NamedTuple):
    """Two stages of one program.

    Attributes:
      known: known inputs -> known results, then residuals.
      unknown: residuals, then unknown inputs -> the other results.
      out_known: for each result of the whole, whether `known` gives it.
      residuals: types of what the first stage hands to the second.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    out_known: list[bool]
    residuals: list[ShapedArray]


# prim -> rule(eqn, which operands are known) -> (known equations, unknown equations). The known ones bind those outvars
# that they can, and fresh variables which the unknown ones read. Asked when some operands are known, and not all.
partial_eval_rules: dict[Primitive, Callable[[Eqn, list[bool]], tuple[list[Eqn], list[Eqn]]]] = {}


def partial_eval(program: ClosedJaxpr, known: Sequence[bool], *,
                 instantiate: bool | Sequence[bool] = False) -> PartialEval:
    """The program in two stages: what the known inputs decide, and the rest.

    Equations that read known values only go to the first stage. Nested programs are split where their primitive has a
    row in `lamina_ir.extend.partial_eval_rules` (`xla_call`, `cond`, `while`, `scan`, `remat`, `custom_jvp_call`); other
    equations go to one stage whole. docs/looking-inside.md says how each is split. Effects keep their order: once one has
    to wait, all later ones wait, and an equation with effects inside is not split.

    Args:
      program: what to split. Its constants count as known.
      known: for each input, whether it is known in the first stage.
      instantiate: results to have from the second stage even if they are known: all, or one flag per result.
    Returns:
      `PartialEval(known, unknown, out_known, residuals)`.
    Raises:
      ValueError: `known` does not have one entry per input.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = mul c b in (c, d) }")
    >>> split = partial_eval(program, [True, False])
    >>> split.known
    { lambda ; a:f32[]. let b:f32[] = sin a in (b, b) }
    >>> split.unknown
    { lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }
    """
    jaxpr = program.jaxpr
    if len(known) != len(jaxpr.invars):
        raise ValueError(f"partial_eval: known must have {len(jaxpr.invars)} entries, one per input; got {len(known)}")
    early: set[Any] = {v for v, k in zip(jaxpr.invars, known) if k} | set(jaxpr.constvars)
    first: list[Eqn] = []
    second: list[Eqn] = []
    again: set[Any] = set()  # asked for in each stage, so that lowering knows the answer in each
    effects_wait = False
    for e in jaxpr.eqns:
        flags = [type(a) is Literal or a in early for a in e.invars]
        effectful = eqn_effectful(e)
        if all(flags) and not (effectful and effects_wait):
            ones, twos = [e], [e] if e.primitive.name == "platform_index" else []
            if twos:
                again.update(e.outvars)
        elif any(flags) and not effectful and e.primitive in partial_eval_rules:
            ones, twos = partial_eval_rules[e.primitive](e, flags)
        else:
            ones, twos = [], [e]
            effects_wait = effects_wait or effectful
        for one in ones:
            first.append(one)
            early.update(one.outvars)
        second += twos
    wanted = [instantiate] * len(jaxpr.outvars) if isinstance(instantiate, bool) else list(instantiate)
    out_known = [(type(a) is Literal or a in early) and not w for a, w in zip(jaxpr.outvars, wanted, strict=True)]
    late_outs = [a for a, k in zip(jaxpr.outvars, out_known) if not k]
    read = dict.fromkeys(a for e in second for a in e.invars if type(a) is not Literal)
    read.update(dict.fromkeys(a for a in late_outs if type(a) is not Literal))
    residuals: list[Any] = [v for v in read if v in early and v not in again]
    late = [v for v, k in zip(jaxpr.invars, known) if not k]
    tail, needed = dce(ClosedJaxpr(Jaxpr([], [*residuals, *late], second, late_outs)),
                       instantiate=[False] * len(residuals) + [True] * len(late))
    residuals = [v for v, n in zip(residuals, needed) if n]
    invars = [v for v, k in zip(jaxpr.invars, known) if k]
    outs = [a for a, k in zip(jaxpr.outvars, out_known) if k]
    head_outs: list[Atom] = [*outs, *residuals]
    head, _ = dce(ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, first, head_outs), program.consts),
                  instantiate=True)
    return PartialEval(head, tail, out_known, [v.aval for v in residuals])


# --- constants ----------------------------------------------------------------------------------------------------
def fold_constants(program: ClosedJaxpr, *, limit: int = 1024) -> ClosedJaxpr:
    """The program with equations that depend on nothing but literals and constants replaced by their values.

    Values are those of the NumPy meaning. Scalars become literals, arrays constants. Equations with effects, those
    that refer to mapped axes or to the platform, and those whose meaning raises stay; nested programs are folded on their own.

    Args:
      program: where to fold.
      limit: most elements of a value worth keeping; larger results stay computed.

    >>> from lamina_ir import parse
    >>> fold_constants(parse("{ lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] 3.0:f32[] c:f32[] = add a b in (c,) }"))
    { lambda ; a:f32[]. let b:f32[] = add a 6.0:f32[] in (b,) }
    """
    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        return _fold(program, limit, inner)

    inner = remember(change)
    return change(program)


def _fold(program: ClosedJaxpr, limit: int, inner: remember) -> ClosedJaxpr:
    jaxpr = program.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts))
    folded: set[Var] = set()
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if all(type(a) is Literal or a in values for a in e.invars):
            found = _value_of(e, values, limit)
            if found is not None:
                values.update(zip(e.outvars, found))
                folded.update(e.outvars)
                continue
        eqns.append(map_subprograms(e, inner))
    extra: dict[Var, None] = {}

    def read(a: Atom) -> Atom:
        if a not in folded:
            return a
        if a.aval.shape == ():
            return Literal(np.asarray(values[a])[()], a.aval)
        assert isinstance(a, Var)
        extra[a] = None
        return a

    eqns = [Eqn(e.primitive, [read(a) for a in e.invars], e.outvars, e.params, e.source) for e in eqns]
    outs = [read(a) for a in jaxpr.outvars]
    whole = ClosedJaxpr(Jaxpr([*jaxpr.constvars, *extra], jaxpr.invars, eqns, outs),
                        [*program.consts, *(values[v] for v in extra)])
    return dce(whole, instantiate=True)[0] if folded else whole


def _by_platform(e: Eqn) -> bool:
    """Whether the result depends on the platform the program is lowered for."""
    return e.primitive.name == "platform_index" or any(_by_platform(x) for s in subprograms(e) for x in s.jaxpr.eqns)


def _value_of(e: Eqn, values: dict[Any, Any], limit: int) -> list[Any] | None:
    if eqn_effectful(e) or eqn_axis_names(e) or _by_platform(e) or any(v.aval.size > limit for v in e.outvars):
        return None
    args = [np.asarray(a.val, a.aval.dtype) if type(a) is Literal else values[a] for a in e.invars]
    try:
        out = evaluate_primitive(e.primitive, args, e.params)
    except Exception:  # it will say so when it runs
        return None
    return list(out) if e.primitive.multiple else [out]

