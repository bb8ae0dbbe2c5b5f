"""`jax.interpreters.partial_eval`: staging, partial evaluation and dead code, with the functions of lamina.

Programs are split by the facts of their primitives. Results are in JAX's vocabulary; arguments may be in either one. The
tables of rules of JAX's module are accepted, so that libraries can fill them. Only `dce_rules` is read, by `dce_jaxpr`; each
other table says why results do not depend on it, or refuses rules.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import Atom, ClosedJaxpr, Eqn, Jaxpr, Primitive, ShapedArray, Var, dce, partial_eval
from lamina_ir.extend import dce_equation
from lamina_ir.layers import explain_absent_names
from lamina_ir.typing import Function, Value
from lamina_tracing.extend import StagingTrace, StagingTracer, new_trace_level, stage, trace_state, typeof
from lamina_tracing.linear_util import WrappedFun, wrap_init

from ..._rule_views import RefusedTable, UnreadTable
from ..._vocabulary import from_jax_equation, from_jax_jaxpr, from_jax_program, to_jax_jaxpr, to_jax_program
from ..api_util import DebugInfo, debug_info, debug_info_final, shaped_abstractify
from ..core import raise_to_shaped

__all__ = ["DebugInfo", "DynamicJaxprTrace", "DynamicJaxprTracer", "JaxprTrace", "JaxprTracer", "PartialVal",
           "Recompute", "RecomputeType", "Saveable", "SaveableType", "abstract_eval_fun", "call_param_updaters",
           "call_partial_eval_rules", "close_jaxpr", "const_fold_rules", "convert_constvars_jaxpr",
           "convert_envvars_to_constvars", "convert_invars_to_constvars", "custom_partial_eval_rules",
           "custom_staging_rules", "dce_jaxpr", "dce_jaxpr_consts", "dce_rules", "debug_info", "debug_info_final",
           "forwarding_rules", "move_binders_to_back", "move_binders_to_front", "padding_rules",
           "partial_eval_jaxpr_custom_rules", "partial_eval_jaxpr_nounits", "partition_pvals",
           "prune_closed_jaxpr_outputs", "prune_jaxpr_outputs", "trace_to_jaxpr", "trace_to_jaxpr_dynamic",
           "trace_to_jaxpr_final", "trace_to_jaxpr_nounits"]

# Tracers of values that are unknown while a function is staged; one class serves both of JAX's kinds.
JaxprTracer = DynamicJaxprTracer = StagingTracer
JaxprTrace = DynamicJaxprTrace = StagingTrace

# Rules for dead code: `rule(used_results, equation) -> (used_operands, new equation or None)`.
dce_rules: dict[Primitive, Callable[[list[bool], Eqn], tuple[list[bool], Eqn | None]]] = {}
_SPLIT = "an equation with an unknown operand is computed in the second part as a whole, which gives the same values"
_CALL = "bind of a call primitive runs its function, whose primitives are split one by one"
_SIMPLER = "the rule makes programs shorter; programs without it compute the same values"
custom_partial_eval_rules = UnreadTable("partial_eval.custom_partial_eval_rules", _SPLIT)
partial_eval_jaxpr_custom_rules = UnreadTable("partial_eval.partial_eval_jaxpr_custom_rules", _SPLIT)
call_partial_eval_rules = UnreadTable("partial_eval.call_partial_eval_rules", _CALL)
call_param_updaters = UnreadTable("partial_eval.call_param_updaters", _CALL)
const_fold_rules = UnreadTable("partial_eval.const_fold_rules", _SIMPLER)
forwarding_rules = UnreadTable("partial_eval.forwarding_rules", _SIMPLER)
padding_rules = UnreadTable("partial_eval.padding_rules", "lamina has no dynamic shapes, which need padding")
custom_staging_rules = RefusedTable(
    "partial_eval.custom_staging_rules", "a rule could stage another equation than that of the primitive. Bind that one in "
    "the function, or define def_abstract_eval and mlir.register_lowering")


class RecomputeType:
    """The class of `Recompute`, which a policy of `jax.checkpoint` returns for a value to compute again; it is false."""

    def __bool__(self) -> bool:
        return False


class SaveableType:
    """The class of `Saveable`, which a policy of `jax.checkpoint` returns for a value to store; it is true."""


Recompute, Saveable = RecomputeType(), SaveableType()


class PartialVal(tuple[Any, Any]):
    """A value that is known, `(None, value)`, or of which only the type is known, `(type, None)`.

    >>> PartialVal.known(3.0).is_known(), PartialVal.unknown(typeof(1.0)).get_aval()
    (True, ShapedArray(float32[], weak_type=True))
    """

    def __new__(cls, xs: tuple[ShapedArray | None, Value]) -> PartialVal:
        return super().__new__(cls, xs)

    @classmethod
    def known(cls, const: Value) -> PartialVal:
        """Return a known value."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """Return an unknown value of this type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Return whether the value is known."""
        return self[0] is None

    def get_known(self) -> Value | None:
        """Return the value; None if it is unknown."""
        return self[1] if self.is_known() else None

    def get_aval(self) -> ShapedArray:
        """Return the type."""
        return typeof(self[1]) if self.is_known() else self[0]


def partition_pvals(pvals: Sequence[PartialVal]) -> tuple[list[bool], list[ShapedArray], list[Value]]:
    """Return which values are known, the types of the others, and the known values."""
    known = [p.is_known() for p in pvals]
    return known, [p[0] for p, k in zip(pvals, known) if not k], [p[1] for p, k in zip(pvals, known) if k]


# --- staging --------------------------------------------------------------------------------------------------------
def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[ShapedArray], debug_info: object = None, *,
                           keep_inputs: Sequence[bool] | None = None, lower: bool = False, auto_dce: bool = False
                           ) -> tuple[Jaxpr, list[ShapedArray], list[Value]]:
    """Stage a function of flat values.

    Args:
      fun: the function, which returns a list.
      in_avals: the types of its arguments.
      debug_info: accepted without effect.
      keep_inputs: for each argument, whether it is an input of the program. The others must not be used.
      lower: accepted without effect.
      auto_dce: whether to eliminate dead code.
    Returns:
      The program, the types of its results, the values of its constvars.

    >>> from lamina_ir import shaped
    >>> from lamina_tracing import lax
    >>> trace_to_jaxpr_dynamic(wrap_init(lambda x: [lax.sin(x)]), [shaped((), "float32")])[0]
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    closed, outer = stage(lambda *args: list(fun.call_wrapped(*args)), list(map(_as_aval, in_avals)))
    jaxpr = closed.jaxpr
    lead = jaxpr.invars[:len(outer)]  # values of enclosing traces
    invars = jaxpr.invars[len(outer):]
    if keep_inputs is not None:
        invars = _drop_inputs(jaxpr, invars, keep_inputs)
    consts = [*outer, *closed.consts]
    jaxpr = Jaxpr([*lead, *jaxpr.constvars], invars, jaxpr.eqns, jaxpr.outvars)
    if auto_dce:
        jaxpr, kept, _ = dce_jaxpr_consts(jaxpr, True, instantiate=True)
        consts = [c for c, k in zip(consts, kept) if k]
    return to_jax_jaxpr(jaxpr), closed.out_avals, consts


def _as_aval(x: Any) -> ShapedArray:
    """Return a type; also of an object with a shape and a dtype."""
    return raise_to_shaped(x) if isinstance(x, ShapedArray) else shaped_abstractify(x)


def _drop_inputs(jaxpr: Jaxpr, invars: Sequence[Var], keep: Sequence[bool]) -> list[Var]:
    used: set[Atom] = {a for e in jaxpr.eqns for a in e.invars if type(a) is Var}
    used.update(a for a in jaxpr.outvars if type(a) is Var)
    for i, (v, k) in enumerate(zip(invars, keep, strict=True)):
        if not k and v in used:
            raise ValueError(f"trace_to_jaxpr_dynamic: keep_inputs[{i}] must be True: the function uses argument {i}")
    return [v for v, k in zip(invars, keep) if k]


def trace_to_jaxpr_final(fun: WrappedFun, in_avals: Sequence[ShapedArray], debug_info: object = None,
                         keep_inputs: Sequence[bool] | None = None) -> tuple[Jaxpr, list[ShapedArray], list[Value]]:
    """As `trace_to_jaxpr_dynamic`."""
    return trace_to_jaxpr_dynamic(fun, in_avals, debug_info, keep_inputs=keep_inputs)


def abstract_eval_fun(fun: Function, *avals: ShapedArray, debug_info: object = None, **params: Any) -> list[ShapedArray]:
    """Return the types of the results of a function of flat values.

    Args:
      fun: returns a list.
      avals: the types of its arguments.
      debug_info: accepted without effect.
      params: keyword arguments of the function.
    """
    return trace_to_jaxpr_dynamic(wrap_init(fun, params), avals)[1]


def trace_to_jaxpr_nounits(fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
                           ) -> tuple[Jaxpr, list[PartialVal], tuple[Value, ...]]:
    """Compute what depends on known values only, and stage the rest.

    Args:
      fun: a function of flat values, which returns a list.
      pvals: its arguments, known or unknown.
      instantiate: results to have from the program even if they are known: all, or one flag for each.
    Returns:
      The program from the unknown arguments to the unknown results, the results, and the values of its constvars.

    >>> from lamina_ir import shaped
    >>> from lamina_tracing import lax
    >>> x = PartialVal.unknown(shaped((), "float32"))
    >>> jaxpr, results, _ = trace_to_jaxpr_nounits(wrap_init(lambda x, y: [lax.neg(x), y + 1]), [x, PartialVal.known(2)])
    >>> jaxpr, results
    ({ lambda ; a:f32[]. let b:f32[] = neg a in (b,) }, [(ShapedArray(float32[]), None), (None, 3)])
    """
    trace = StagingTrace(trace_state.depth + 1)
    with new_trace_level(trace):
        unknown = {i: trace.new_argument(_as_aval(p[0])) for i, p in enumerate(pvals) if not p.is_known()}
        outs = list(fun.call_wrapped(*[unknown[i] if i in unknown else p[1] for i, p in enumerate(pvals)]))
        wanted = _per_item(instantiate, outs)
        staged = [trace.owns(o) or w for o, w in zip(outs, wanted, strict=True)]
        closed = trace.to_jaxpr(list(unknown.values()), [o for o, s in zip(outs, staged) if s])
    avals = iter(closed.out_avals)
    results = [PartialVal.unknown(next(avals)) if s else PartialVal.known(o) for o, s in zip(outs, staged)]
    return to_jax_jaxpr(closed.jaxpr), results, tuple(closed.consts)


trace_to_jaxpr = trace_to_jaxpr_nounits


# --- programs -------------------------------------------------------------------------------------------------------
def partial_eval_jaxpr_nounits(jaxpr: ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
                               ) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[ShapedArray]]:
    """Split a program into the part that depends on known inputs only, and the rest.

    Args:
      jaxpr: the program.
      unknowns: for each input, whether it is unknown.
      instantiate: results to have from the second part even if they are known: all, or one flag for each.
    Returns:
      The first part, from known inputs to known results and residuals; the second one, from residuals and unknown inputs to
      the other results; for each result, whether it is unknown; the types of the residuals.
    """
    split = partial_eval(from_jax_program(jaxpr), [not u for u in unknowns], instantiate=instantiate)
    return (to_jax_program(split.known), to_jax_program(split.unknown), [not k for k in split.out_known], split.residuals)


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: bool | Sequence[bool],
              instantiate: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """Eliminate dead code.

    Args:
      jaxpr: the program.
      used_outputs: which results are used: all or none, or one flag for each.
      instantiate: whether to keep unused inputs: all, or one flag for each.
    Returns:
      The program with the used results and the needed inputs; for each input, whether it is kept.
    """
    used_outputs = _per_item(used_outputs, jaxpr.outvars)
    if not dce_rules or not any(e.primitive in dce_rules for e in jaxpr.eqns):
        small, kept = dce(from_jax_jaxpr(jaxpr), used_outputs, instantiate=instantiate)
        return to_jax_jaxpr(small), kept
    return _dce_with_rules(jaxpr, used_outputs, instantiate)


def _per_item(flags: bool | Sequence[bool], items: Sequence[object]) -> list[bool]:
    return [flags] * len(items) if isinstance(flags, bool) else list(flags)


def _dce_with_rules(jaxpr: Jaxpr, used_outputs: Sequence[bool],
                    instantiate: bool | Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    outs = [a for a, u in zip(jaxpr.outvars, used_outputs, strict=True) if u]
    live: set[Atom] = {a for a in outs if isinstance(a, Var)}
    eqns: list[Eqn] = []
    for old in reversed(jaxpr.eqns):
        used = [v in live for v in old.outvars]
        if not any(used) and not old.effects:
            continue
        new = dce_rules[old.primitive](used, old)[1] if old.primitive in dce_rules else _dce_equation(old, used)
        if new is not None:
            eqns.append(new)
            live.update(a for a in new.invars if isinstance(a, Var))
    keep = _per_item(instantiate, jaxpr.invars)
    kept = [v in live or k for v, k in zip(jaxpr.invars, keep, strict=True)]
    small = Jaxpr(jaxpr.constvars, [v for v, k in zip(jaxpr.invars, kept) if k], eqns[::-1], outs)
    return to_jax_jaxpr(from_jax_jaxpr(small)), kept


def _dce_equation(e: Eqn, used: list[bool]) -> Eqn:
    """Return the equation without what the used results do not need, in lamina's vocabulary if that changes it."""
    prim, params, operands = from_jax_equation(e.primitive, e.params, e.invars)
    if prim.region_signature is None or e.effects:
        return e
    return dce_equation(Eqn(prim, list(operands), list(e.outvars), params, e.source), used)


def dce_jaxpr_consts(jaxpr: Jaxpr, used_outputs: bool | Sequence[bool],
                     instantiate: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool], list[bool]]:
    """As `dce_jaxpr`, also for constvars: return the program, which constvars and which inputs are kept."""
    count = len(jaxpr.constvars)
    keep = _per_item(instantiate, jaxpr.invars)
    small, kept = dce_jaxpr(convert_constvars_jaxpr(jaxpr), used_outputs, [False] * count + keep)
    return convert_invars_to_constvars(small, sum(kept[:count])), kept[:count], kept[count:]


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Return the program with its constvars as first inputs."""
    return Jaxpr([], [*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars)


def convert_invars_to_constvars(jaxpr: Jaxpr, n: int) -> Jaxpr:
    """Return the program with its first `n` inputs as constvars."""
    return Jaxpr([*jaxpr.constvars, *jaxpr.invars[:n]], jaxpr.invars[n:], jaxpr.eqns, jaxpr.outvars)


convert_envvars_to_constvars = convert_invars_to_constvars


def prune_jaxpr_outputs(jaxpr: Jaxpr, prune: Sequence[bool]) -> Jaxpr:
    """Return the program without the results whose flag is true."""
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, [a for a, p in zip(jaxpr.outvars, prune, strict=True) if not p])


def prune_closed_jaxpr_outputs(jaxpr: ClosedJaxpr, prune: Sequence[bool]) -> ClosedJaxpr:
    """Return the program without the results whose flag is true."""
    return ClosedJaxpr(prune_jaxpr_outputs(jaxpr.jaxpr, prune), jaxpr.consts)


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """Return a program without constvars as a closed one."""
    return ClosedJaxpr(jaxpr, [])


def move_binders_to_front(closed_jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """Return the program with these inputs first.

    Args:
      closed_jaxpr: the program.
      to_move: for each input, whether it is moved; moved inputs keep their order.
    """
    jaxpr = closed_jaxpr.jaxpr
    if len(to_move) != len(jaxpr.invars):
        raise ValueError(f"move_binders_to_front: to_move must have {len(jaxpr.invars)} entries, one per input; "
                         f"got {len(to_move)}")
    order = sorted(range(len(to_move)), key=lambda i: not to_move[i])
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [jaxpr.invars[i] for i in order], jaxpr.eqns, jaxpr.outvars), closed_jaxpr.consts)


def move_binders_to_back(closed_jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """Return the program with these inputs last."""
    return move_binders_to_front(closed_jaxpr, [not m for m in to_move])


explain_absent_names(globals())
