"""Programs split by what is known early: `partial_eval` into two stages, `fold_constants` into values.

Nothing is executed by `partial_eval`: both halves are programs. `fold_constants` runs the NumPy meaning of equations
that depend on nothing but literals and constants.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .avals import ShapedArray
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


# prim -> rule(eqn, which operands are known) -> (known equation or None, unknown equation or None). The known equation
# binds those outvars that it can, and fresh variables which the unknown one reads. Asked when some operands are known.
partial_eval_rules: dict[Primitive, Callable[[Eqn, list[bool]], tuple[Eqn | None, Eqn | None]]] = {}


def partial_eval(program: ClosedJaxpr, known: Sequence[bool], *,
                 instantiate: bool | Sequence[bool] = False) -> PartialEval:
    """The program in two stages: what the known inputs decide, and the rest.

    Equations that read known values only go to the first stage. A nested program is split where its primitive has a
    row in `lamina_ir.extend.partial_eval_rules`, else it goes to one stage whole. Effects keep their order: once one
    has to wait, all later ones wait.

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
        one: Eqn | None
        two: Eqn | None
        if all(flags) and not (effectful and effects_wait):
            one, two = e, e if e.primitive.name == "platform_index" else None
            again.update(() if two is None else e.outvars)
        elif any(flags) and not effectful and e.primitive in partial_eval_rules:
            one, two = partial_eval_rules[e.primitive](e, flags)
        else:
            one, two = None, e
        if one is not None:
            first.append(one)
            early.update(one.outvars)
        if two is not None:
            second.append(two)
            effects_wait = effects_wait or effectful
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


def _split_call(e: Eqn, known: list[bool]) -> tuple[Eqn | None, Eqn | None]:
    """`xla_call` as two calls: the first hands residuals of the body to the second."""
    body: ClosedJaxpr = e.params["call_jaxpr"]
    split = body.memo(("partial_eval", tuple(known)), lambda: partial_eval(body, known))
    if not split.known.eqns:
        return None, e
    donated = e.params["donated_invars"] or (False,) * len(known)
    residuals = [Var(a) for a in split.residuals]
    one = Eqn(e.primitive, [a for a, k in zip(e.invars, known) if k],
              [*(v for v, k in zip(e.outvars, split.out_known) if k), *residuals],
              {**e.params, "call_jaxpr": split.known, "donated_invars": ()}, e.source)
    late = tuple(d for d, k in zip(donated, known) if not k)
    two = Eqn(e.primitive, [*residuals, *(a for a, k in zip(e.invars, known) if not k)],
              [v for v, k in zip(e.outvars, split.out_known) if not k],
              {**e.params, "call_jaxpr": split.unknown,
               "donated_invars": (False,) * len(residuals) + late if any(late) else ()}, e.source)
    return one, two if two.outvars else None


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
    jaxpr = program.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts))
    folded: set[Var] = set()
    inner = remember(lambda sub: fold_constants(sub, limit=limit))
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
    from .evaluator import evaluate_primitive
    if eqn_effectful(e) or eqn_axis_names(e) or _by_platform(e) or any(v.aval.size > limit for v in e.outvars):
        return None
    args = [np.asarray(a.val, a.aval.dtype) if type(a) is Literal else values[a] for a in e.invars]
    try:
        out = evaluate_primitive(e.primitive, args, e.params)
    except Exception:  # it will say so when it runs
        return None
    return list(out) if e.primitive.multiple else [out]


def _define_calls() -> None:
    from .prims import calls
    partial_eval_rules[calls.xla_call_p] = _split_call


_define_calls()
