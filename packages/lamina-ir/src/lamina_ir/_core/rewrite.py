"""Program transformations: walk, rewrite, dead-code elimination, inlining, common subexpressions, substitution.

Programs are never changed in place. The code iterates over equations and recurses only into nested programs, so long
programs do not exceed the recursion limit.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from .._util.gc_pause import pause_gc
from .._util.recursion_limit import with_recursion_limit
from .._util.short_repr import short_repr
from .arg_checks import CLOSED_JAXPR, EQN, FLAGS, FUNCTION, ITEMS, MAPPING, PROGRAM, ArgType, optional, check_args
from ..errors import ProgramError
from .jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_has_effects, subprograms
from .custom_rule import Rule
from .region_view import RegionView, propagate_backward
from ..typing import CacheKey, ParamValue

__all__ = ["RegionMemo", "cse", "dce", "dce_equation", "dce_region", "inline_calls", "map_subprograms", "rewrite",
           "rewrite_once", "substitute", "walk"]

Program = Jaxpr | ClosedJaxpr
_P = TypeVar("_P", bound=Program)
# What replaces an equation: None (unchanged), equations that bind the same outvars, or (equations, atoms) where the
# atoms replace the outvars.
Replacement: TypeAlias = list[Eqn] | tuple[Sequence[Eqn], Sequence[Atom]] | None


_NESTED = ArgType("a truth value, or a function of an equation", lambda v: isinstance(v, bool) or callable(v))


def _jaxpr_of(program: Program) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _like(program: Program, jaxpr: Jaxpr) -> Any:
    """Return `jaxpr`, closed with the constants of `program` if that is closed."""
    return ClosedJaxpr(jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else jaxpr


@check_args(program=PROGRAM)
def walk(program: Program) -> Iterator[Eqn]:
    """Iterate over all equations in the order of the text; those of nested programs follow the equation that holds
    them.

    Programs of rules (`prims.Rule`) are not part of the text; `rule.program()` returns them.

    >>> from lamina_ir import parse
    >>> [e.primitive.name for e in walk(parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = neg b in (c,) }"))]
    ['sin', 'neg']
    """
    todo = [iter(_jaxpr_of(program).eqns)]
    while todo:
        for e in todo[-1]:
            yield e
            if e.primitive.subprograms:
                subs = subprograms(e)
                todo.extend(iter(_jaxpr_of(s).eqns) for s in reversed(subs))
                break
        else:
            todo.pop()


def map_subprograms(e: Eqn, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Eqn:
    """Return the equation with `f` applied to each program in its params.

    `f` is also applied to the programs of its rules (`prims.Rule`), but lazily, when they are made. The program of a
    rule may call the function that has the rule, so eager application would not end. Rules that are Python functions do
    not change.
    """
    if not e.primitive.subprograms:
        return e
    f = f if type(f) is RegionMemo else RegionMemo(f)
    params = dict(e.params)
    for name in e.primitive.subprograms:
        value = params[name]
        if isinstance(value, ClosedJaxpr):
            params[name] = f(value)
        elif value is not None:
            params[name] = tuple(f(v) for v in value)
    for name, value in params.items():
        if type(value) is Rule:
            params[name] = f.map_rule(value)
    if all(params[n] is e.params[n] for n in params):
        return e
    return Eqn(e.primitive, e.invars, e.outvars, params, e.source)


class RegionMemo:
    """Memoized `f` for nested programs and rules: a program that occurs many times is mapped once, to one object."""

    def __init__(self, f: Callable[[ClosedJaxpr], ClosedJaxpr], key: str = "") -> None:
        self.f, self.key = f, key
        self.seen: dict[int, tuple[object, Any]] = {}

    def __call__(self, program: ClosedJaxpr) -> ClosedJaxpr:
        # The entry also holds the program, so that its id is not reused while this memo exists.
        if id(program) not in self.seen:
            self.seen[id(program)] = program, self.f(program)
        return self.seen[id(program)][1]

    def map_rule(self, rule: Rule) -> Rule:
        if id(rule) not in self.seen:
            self.seen[id(rule)] = rule, rule.map(self, self.key)
        return self.seen[id(rule)][1]


def _read(env: Mapping[Any, Atom], a: Atom) -> Atom:
    """Return the atom that replaces `a`, following chains of replacements."""
    while a in env:
        a = env[a]
    return a


@check_args(program=PROGRAM, env=MAPPING)
def substitute(program: _P, env: Mapping[Var, Atom]) -> _P:
    """Replace variables where they are read.

    Args:
      program: the program.
      env: variable -> variable or literal; chains are followed.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin b in (c,) }")
    >>> a, b = program.jaxpr.invars
    >>> substitute(program, {b: a})
    { lambda ; a:f32[] b:f32[]. let c:f32[] = sin a in (c,) }
    """
    jaxpr = _jaxpr_of(program)
    # Only variables change, so the axis names and effects of the program remain valid.
    eqns = [Eqn(e.primitive, [_read(env, a) for a in e.invars], e.outvars, e.params, e.source) for e in jaxpr.eqns]
    return _like(program, Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, [_read(env, a) for a in jaxpr.outvars],
                                jaxpr.axis_names, jaxpr.effectful))


@check_args(program=PROGRAM, fn=FUNCTION, nested=_NESTED)
@with_recursion_limit()
def rewrite(program: _P, fn: Callable[[Eqn], Replacement], *, nested: bool | Callable[[Eqn], bool] = True) -> _P:
    """Replace equations.

    Args:
      program: the program.
      fn: equation -> None (unchanged), a list of equations that bind the same outvars, or `(equations, atoms)` where
        the atoms replace the outvars. Its operands are already replaced.
      nested: whether to rewrite nested programs too (before their equation), or a predicate for equations with nested
        programs. Programs of custom rules are rewritten when they are made.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = copy a c:f32[] = sin b in (c,) }")
    >>> rewrite(program, lambda e: ([], e.invars) if e.primitive.name == "copy" else None)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    if not nested:  # the memo and `change` refer to each other, so make them only if they are used
        return rewrite_once(program, fn, None)

    def change(program: Program) -> Any:
        return rewrite_once(program, fn, inner, nested if callable(nested) else None)

    inner = RegionMemo(change)
    return change(program)


def _replacement(e: Eqn, new: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(new) != 2 or not all(isinstance(part, (list, tuple)) for part in new):
        raise _invalid_replacement(e, new)
    if len(new[1]) != len(e.outvars):
        raise ProgramError(f"rewrite: `{e.primitive.name}` has {len(e.outvars)} results; the function returned "
                           f"{len(new[1])} atoms")
    return new


def _invalid_replacement(e: Eqn, new: object) -> TypeError:
    return TypeError("rewrite: the function must return None, a list of equations, or (equations, atoms); for "
                     f"`{e.primitive.name}` it returned {short_repr(new)}")


def rewrite_once(program: _P, fn: Callable[[Eqn], Replacement], inner: RegionMemo | None,
                 into: Callable[[Eqn], bool] | None = None) -> _P:
    """Replace the equations of one program; nested programs are mapped by `inner`, if `into` allows it.

    Return the program itself if nothing changes.
    """
    jaxpr = _jaxpr_of(program)
    env: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    same = True
    for old in jaxpr.eqns:
        e = old
        if inner is not None and old.primitive.subprograms and (into is None or into(old)):
            e = map_subprograms(old, inner)
        if env:
            e = Eqn(e.primitive, [_read(env, a) for a in e.invars], e.outvars, e.params, e.source)
        new = fn(e)
        same = same and new is None and e is old
        if new is None:
            eqns.append(e)
        elif isinstance(new, tuple):
            more, atoms = _replacement(e, new)
            eqns.extend(more)
            # `_read` follows chains, so an entry from a variable to itself would never end.
            env.update([(v, a) for v, a in zip(e.outvars, atoms) if v is not a])
        elif isinstance(new, list):
            eqns.extend(new)
        else:
            raise _invalid_replacement(e, new)
    if same:  # the same object, since it carries memoized results
        return program
    return _like(program, Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, [_read(env, a) for a in jaxpr.outvars]))


# --- dead code ----------------------------------------------------------------------------------------------------
@check_args(program=PROGRAM, used_outputs=optional(ITEMS), instantiate=FLAGS)
@with_recursion_limit()
def dce(program: _P, used_outputs: Sequence[bool] | None = None, *,
        instantiate: bool | Sequence[bool] = False) -> tuple[_P, list[bool]]:
    """Eliminate dead code: keep only what the used results need.

    Args:
      program: a program. Unused constants of a `ClosedJaxpr` are dropped too.
      used_outputs: for each result, whether it is used; default: all.
      instantiate: whether to keep unused inputs: a bool, or one flag per input.
    Returns:
      The program with only the used results and needed inputs, and for each input whether it is an input of the new
      program. Equations with effects are kept.

    >>> from lamina_ir import parse
    >>> dce(parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = cos b in (c, d) }"), [True, False])
    ({ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }, [True, False])
    """
    return _live_part(program, used_outputs, instantiate)


def _live_part(program: Program, used_outputs: Sequence[bool] | None,
               instantiate: bool | Sequence[bool]) -> tuple[Any, list[bool]]:
    jaxpr = _jaxpr_of(program)
    used = [True] * len(jaxpr.outvars) if used_outputs is None else list(used_outputs)
    if len(used) != len(jaxpr.outvars):
        raise ValueError(f"dce: used_outputs must have {len(jaxpr.outvars)} entries, one per result; got {len(used)}")
    outs = [a for a, u in zip(jaxpr.outvars, used) if u]
    # From the last equation to the first. live: variables that the results or the live equations after this one read.
    live: set[Atom] = {a for a in outs if isinstance(a, Var)}
    inner = RegionMemo(_without_dead_code, "dce")
    eqns: list[Eqn] = []
    same = all(used)
    for old in reversed(jaxpr.eqns):
        e = old
        flags = [v in live for v in e.outvars]
        effectful = eqn_has_effects(e)
        if not effectful and not any(flags):
            same = False
            continue
        if e.primitive.region_signature is not None:
            e = map_subprograms(e, inner) if effectful else dce_equation(e, flags)
        # If the numbers differ, `dce_equation` has removed the unused results already.
        if len(e.outvars) == len(flags) and not all(u or type(v) is DropVar for v, u in zip(e.outvars, flags)):
            outvars = [v if u or isinstance(v, DropVar) else DropVar(v.aval) for v, u in zip(e.outvars, flags)]
            e = Eqn(e.primitive, e.invars, outvars, e.params, e.source)
        same = same and e is old
        eqns.append(e)
        live.update(a for a in e.invars if isinstance(a, Var))
    eqns.reverse()
    keep = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    used_inputs = [v in live or k for v, k in zip(jaxpr.invars, keep)]
    if same and all(used_inputs) and all(v in live for v in jaxpr.constvars):
        return program, used_inputs  # the same object, since it carries memoized results
    invars = [v for v, u in zip(jaxpr.invars, used_inputs) if u]
    if not isinstance(program, ClosedJaxpr):
        # The holder of the constants passes them by position, so unused ones cannot be dropped here.
        return Jaxpr(jaxpr.constvars, invars, eqns, outs), used_inputs
    consts = [(v, c) for v, c in zip(jaxpr.constvars, program.consts) if v in live]
    return ClosedJaxpr(Jaxpr([v for v, _ in consts], invars, eqns, outs), [c for _, c in consts]), used_inputs


def dce_region(body: ClosedJaxpr, used: Sequence[bool],
               instantiate: bool | Sequence[bool] = False) -> tuple[ClosedJaxpr, list[bool]]:
    """Apply `dce` to a nested program, memoized on it."""
    def make() -> tuple[ClosedJaxpr | None, list[bool]]:
        small, used_in = _live_part(body, used, instantiate)
        # None for the program itself: a reference to itself in its memo would be a cycle, freed only by the collector.
        return None if small is body else small, used_in
    key = "dce", tuple(used), instantiate if isinstance(instantiate, bool) else tuple(instantiate)
    small, used_in = body.memo(key, make)
    return body if small is None else small, used_in


def _without_dead_code(body: ClosedJaxpr) -> ClosedJaxpr:
    return dce_region(body, [True] * len(body.out_avals), True)[0]


@check_args(e=EQN, used=ITEMS)
def dce_equation(e: Eqn, used: Sequence[bool]) -> Eqn:
    """Drop what the used results of an equation with regions do not need: operands, results, carries and dead code.

    A carry is needed if its final value is used, if the loop test reads it, or if a needed value inside depends on it.

    Args:
      e: an equation of a primitive with regions.
      used: per result, whether it is read.
    Returns:
      An equation that binds the same used variables; `e` itself if there is nothing to drop.

    >>> from lamina_ir import parse
    >>> body = "{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a in (c, b) }"
    >>> call = "xla_call[ call_jaxpr=%s name=f ] a b" % body
    >>> e = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] d:f32[] = %s in (c, d) }" % call).jaxpr.eqns[0]
    >>> small = dce_equation(e, [True, False])
    >>> len(small.invars), len(small.outvars)
    (1, 1)
    """
    flow = e.primitive.region_signature
    # A custom rule takes and returns values for all operands and results, so these are kept; only dead code inside can
    # be dropped.
    if flow is None or flow.indivisible or flow.jvp_rule:
        return map_subprograms(e, RegionMemo(_without_dead_code, "dce"))
    w = RegionView.of(e)
    # ops, outs: flags of needed operands and results, at the fixpoint over the carries.
    ops, outs = propagate_backward(w, used, lambda wire, flags: dce_region(wire.program, flags)[1])
    # Regions share operand groups. So a region keeps an argument that another region needs, although it ignores it.
    small = [dce_region(b.program, (True,) if b.is_test else outs, [ops[i] for i in b.ins])[0] for b in w.regions]
    if all(outs) and all(ops) and all(s is b.program for s, b in zip(small, w.regions)):
        return e
    live_ops = [i for i, needed in enumerate(ops) if needed]
    live_outs = [j for j, needed in enumerate(outs) if needed]
    at = {i: k for k, i in enumerate(live_ops)}
    programs = [(s, [at[i] for i in b.ins if ops[i]], range(len(live_outs))) for s, b in zip(small, w.regions)]
    rebuilt = w.rebuild(w.operands(live_ops), w.results(live_outs), programs)
    outvars = [v if used[j] or isinstance(v, DropVar) else DropVar(v.aval) for j, v in enumerate(e.outvars)]
    return rebuilt.eqn(e.primitive, [e.invars[i] for i in live_ops], [outvars[j] for j in live_outs], e.source)


# --- calls and common subexpressions ------------------------------------------------------------------------------
@check_args(program=CLOSED_JAXPR, which=FUNCTION)
@with_recursion_limit()
@pause_gc
def inline_calls(program: ClosedJaxpr, which: Callable[[Eqn], bool] = lambda e: True) -> ClosedJaxpr:
    """Inline the bodies of `xla_call` equations, at every depth.

    Args:
      program: the program. It gets the constants of inlined programs.
      which: predicate: whether to inline an `xla_call` equation.

    >>> from lamina_ir import parse
    >>> inner = "{ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }"
    >>> inline_calls(parse(f"{{ lambda ; a:f32[]. let b:f32[] = xla_call[name=f call_jaxpr={inner}] a in (b,) }}"))
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        return _inline(program, which, inner)

    inner = RegionMemo(change)
    return change(program)


def _inline(program: ClosedJaxpr, which: Callable[[Eqn], bool], inner: RegionMemo) -> ClosedJaxpr:
    constvars, consts = list(program.jaxpr.constvars), list(program.consts)
    # shared: id of an inlined program -> (program, its constants in the new program). A program called several times
    # contributes its constants once.
    eqns: list[Eqn] = []
    shared: dict[int, tuple[ClosedJaxpr, list[Var]]] = {}

    def emit(body: Jaxpr, env: dict[Atom, Atom]) -> list[Atom]:
        for e in body.eqns:
            invars = [a if type(a) is Literal else env.get(a, a) for a in e.invars]
            if e.primitive.call_primitive and which(e):
                sub = e.params["call_jaxpr"]
                if id(sub) not in shared:
                    shared[id(sub)] = sub, [Var(v.aval) for v in sub.jaxpr.constvars]
                    constvars.extend(shared[id(sub)][1])
                    consts.extend(sub.consts)
                inner_env = dict(zip(sub.jaxpr.constvars, shared[id(sub)][1]))
                inner_env.update(zip(sub.jaxpr.invars, invars))
                env.update(zip(e.outvars, emit(sub.jaxpr, inner_env)))
                continue
            # New variables: a body that is inlined twice must not bind a variable twice.
            outvars = [type(v)(v.aval) for v in e.outvars]
            env.update(zip(e.outvars, outvars))
            e = map_subprograms(e, inner)
            eqns.append(Eqn(e.primitive, invars, outvars, e.params, e.source))
        return [a if type(a) is Literal else env.get(a, a) for a in body.outvars]

    outs = emit(program.jaxpr, {})
    return ClosedJaxpr(Jaxpr(constvars, program.jaxpr.invars, eqns, outs), consts)


def _key(a: Atom) -> CacheKey:
    if type(a) is Literal:
        # Bytes, because -0.0 == 0.0 although they differ, and NaN != NaN although they are the same constant.
        return a.aval, np.asarray(a.val, a.aval.dtype).tobytes()
    return a


def _param_key(v: ParamValue) -> CacheKey:
    kind = type(v)
    if kind in (float, complex):
        return kind, repr(v)  # distinguishes 0.0 from -0.0 and equates NaNs
    if kind is tuple:
        return tuple(map(_param_key, v))
    # With the type, because True == 1 == 1.0 although their programs differ.
    return kind, v


@check_args(program=PROGRAM)
@with_recursion_limit()
@pause_gc
def cse(program: _P) -> _P:
    """Eliminate common subexpressions: compute equal equations on equal operands once. Equations with effects are kept.

    >>> from lamina_ir import parse
    >>> cse(parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = sin a d:f32[] = add b c in (d,) }"))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = add b b
      in (c,) }
    """
    def change(program: Program) -> Any:
        return _eliminate(program, inner)

    inner = RegionMemo(change)
    return change(program)


def _eliminate(program: _P, inner: RegionMemo) -> _P:
    # seen: (primitive, operands after replacement, params) -> the equation whose results are shared.
    seen: dict[CacheKey, Eqn] = {}

    def find_equal(e: Eqn) -> Replacement:
        if eqn_has_effects(e):
            return None
        try:
            key = (e.primitive, tuple(map(_key, e.invars)), tuple((k, _param_key(v)) for k, v in e.params.items()))
            first = seen.get(key)
        except TypeError:  # a param is not hashable
            return None
        # If the first one dropped a result, there is no variable to read it.
        if first is not None and not any(isinstance(v, DropVar) for v in first.outvars):
            return [], first.outvars
        seen[key] = e
        return None

    return rewrite_once(program, find_equal, inner)
