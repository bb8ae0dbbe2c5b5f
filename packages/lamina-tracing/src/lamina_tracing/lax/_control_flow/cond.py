"""`cond` and `switch`: run one of several functions, selected at run time; `platform_dependent`: when lowered."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

import numpy as np
from lamina_ir import config, dtypes, prims, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value

from ..._jit.jit import jit
from ..._core.trace import bind
from ..._core.tracer import Tracer, typeof
from ..._diagnostics.tracebacks import api_boundary
from .._util.operands import check_callable
from .loop_bodies import StagedBody, flat_avals, join_branches, format_type_diff, stage_body
from .._util.conversions import convert_element_type
from ..elementwise import clamp, ne
from ..elementwise import min as smaller

__all__ = ["cond", "platform_dependent", "switch"]

R = TypeVar("R")
S = TypeVar("S")

_INT32 = np.dtype("int32")
_NO = object()


def _should_run_in_python(*values: Value) -> bool:
    """Return whether to run in Python: jit is disabled, and the predicate or index is known."""
    return config.disable_jit.value and not any(isinstance(x, Tracer) for x in values)


@overload
def cond(pred: Value, true_fun: Callable[..., R], false_fun: Callable[..., S], /, *operands: Tree, operand: Tree = ...,
         linear: Tree = ...) -> R | S: ...


@overload
def cond(pred: Value, *args: Tree, operand: Tree = ..., linear: Tree = ..., **named: Tree) -> Tree: ...


@api_boundary
def cond(pred: Value, *args: Tree, operand: Tree = _NO, linear: Tree = None, **named: Tree) -> Tree:
    """Run one of two functions, selected by a boolean: `cond(pred, true_fun, false_fun, *operands)`.

    Only the selected one runs, except under `vmap` with a batched `pred`, where both run and the results are selected.
    The older form `cond(pred, true_operand, true_fun, false_operand, false_fun)` is also accepted.

    Args:
      pred: a boolean or real number of rank 0; nonzero is true.
      true_fun: function of the operands.
      false_fun: function of the operands, with results of the same tree and types.
      *operands: arrays and trees of them.
      operand: a single operand, by name.
      linear: accepted for compatibility; has no effect.
    Returns:
      The result of the selected function.
    Raises:
      TypeError: the results differ in tree or types (both are shown), or `pred` is no scalar.

    >>> cond(True, lambda x: x + 1, lambda x: x - 1, np.float32(3))
    Array(4., dtype=float32)
    """
    # takes: for each function, the numbers of its operands. The older form has a function after each operand, or names
    # its arguments.
    old = {"true_operand", "true_fun", "false_operand", "false_fun"}
    if set(named) - old or (linear is not None and not isinstance(linear, (tuple, bool))):
        raise TypeError(f"cond: unexpected keyword arguments {sorted(set(named) - old)}")
    # cond(pred, true_operand, true_fun, false_operand, false_fun). Operands are not callable, so the other form
    # cannot look like this.
    if len(args) == 4 and callable(args[1]) and callable(args[3]) and not named:
        operands, funs = (args[0], args[2]), (args[1], args[3])
        return _cond(pred, funs, operands, ((0,), (1,)))
    if {"true_operand", "false_operand"} & set(named):
        found = dict(zip(("true_operand", "true_fun", "false_operand", "false_fun"), args)) | named
        if set(found) != old or len(args) + len(named) != 4:
            raise TypeError("cond: the form with an operand per branch takes true_operand, true_fun, false_operand and "
                            f"false_fun; got {len(args)} positional and {sorted(named)}")
        return _cond(pred, (found["true_fun"], found["false_fun"]), (found["true_operand"], found["false_operand"]),
                     ((0,), (1,)))
    rest = list(args)
    missing = [n for n in ("true_fun", "false_fun") if n not in named]  # these come by position, in this order
    if len(rest) < len(missing):
        raise TypeError("cond: expected cond(pred, true_fun, false_fun, *operands); got "
                        f"{len(args)} arguments after pred")
    given = {n: rest.pop(0) for n in missing} | named
    if operand is not _NO:
        if rest:
            raise TypeError("cond: give operands by position or one as operand=, not both")
        rest = [operand]
    both = tuple(range(len(rest)))
    return _cond(pred, (given["true_fun"], given["false_fun"]), tuple(rest), (both, both))


def _cond(pred: Value, funs: tuple[Function, ...], operands: tuple[Tree, ...], takes: Sequence[Sequence[int]]) -> Tree:
    for name, fun in zip(("true_fun", "false_fun"), funs):
        check_callable("cond", name, fun)
    try:
        aval = typeof(pred)
    except TypeError:
        raise TypeError(f"cond: pred must be a boolean scalar; got {type(pred).__name__}: {pred!r:.60}") from None
    if aval.shape:
        raise TypeError(f"cond: pred must be a scalar; got {aval.str_long()}. To choose elementwise use lax.select or vmap")
    if not (dtypes.is_integer(aval.dtype) or dtypes.is_float(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise TypeError(f"cond: pred must be a boolean or a real number; got {aval.str_long()}")
    if _should_run_in_python(pred):
        return funs[0](*[operands[i] for i in takes[0]]) if pred else funs[1](*[operands[i] for i in takes[1]])
    if not dtypes.is_bool(aval.dtype):
        pred = ne(pred, np.zeros((), aval.dtype))
    # false is branch 0
    return _choose("cond", convert_element_type(pred, _INT32), ("false_fun", "true_fun"), funs[::-1], operands,
                   takes[::-1])


@api_boundary
def switch(index: Value, branches: Sequence[Callable[..., R]], *operands: Value, operand: Value = _NO) -> R:
    """Run one of several functions, selected by an index.

    Args:
      index: integer of rank 0; clamped to the range of `branches`.
      branches: functions of the operands, with results of the same tree and types.
      *operands: arrays and trees of them.
      operand: a single operand, by name.
    Returns:
      The result of the selected function.
    Raises:
      TypeError: the results differ in tree or types, or `index` is no integer scalar.
      ValueError: there are no branches.

    >>> switch(2, [lambda x: x, lambda x: x + 1, lambda x: x * x], np.float32(3))
    Array(9., dtype=float32)
    """
    if operand is not _NO:
        operands = (*operands, operand)
    try:
        branches = tuple(branches)
    except TypeError:
        raise TypeError("switch: branches must be a sequence of functions; got "
                        f"{type(branches).__name__}: {branches!r:.60}") from None
    for i, fun in enumerate(branches):
        check_callable("switch", f"branches[{i}]", fun)
    if not branches:
        raise ValueError("switch: branches must hold at least one function")
    try:
        aval = typeof(index)
    except TypeError:
        raise TypeError(f"switch: index must be an integer scalar; got {type(index).__name__}: {index!r:.60}") from None
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise TypeError(f"switch: index must be an integer scalar; got {aval.str_long()}")
    if len(branches) == 1:
        return branches[0](*operands)
    if _should_run_in_python(index):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    # Clamp before the conversion, in which a large unsigned index would become negative.
    if aval.dtype.kind == "u":
        index = smaller(index, aval.dtype.type(len(branches) - 1))
    index = clamp(np.int32(0), convert_element_type(index, _INT32), np.int32(len(branches) - 1))
    every = tuple(range(len(operands)))
    return _choose("switch", index, [f"branches[{i}]" for i in range(len(branches))], branches, operands,
                   (every,) * len(branches))


@api_boundary
def platform_dependent(*args: Tree, default: Function | None = None,
                       **per_platform: Function) -> Tree:
    """Run one of several functions, selected by the platform for which the program is lowered.

    Only the selected function and its derivatives are lowered, so the others may use features of other platforms. All
    are traced, and differentiate and batch as the branches of `switch` do.

    Args:
      *args: arrays and trees of them.
      default: function for the platforms that are not named; None: lowering for those raises.
      **per_platform: functions by platform: `cpu`, `cuda`, `rocm`, `tpu`; `gpu` is `cuda` and `rocm`. All have results
        of the same tree and types.
    Returns:
      The result of the selected function.
    Raises:
      TypeError: the results differ in tree or types.
      ValueError: there is no function.
      MissingRuleError: the program is lowered for a platform without a function (it is also a NotImplementedError).

    >>> platform_dependent(np.float32(3), cpu=lambda x: x + 1, default=lambda x: x - 1)
    Array(4., dtype=float32)
    """
    for name, fun in (*per_platform.items(), *(() if default is None else (("default", default),))):
        check_callable("platform_dependent", name, fun)
    if not per_platform:
        if default is None:
            raise ValueError("platform_dependent: expected functions by platform, as cpu=..., or default=...; got none")
        return default(*args)
    groups: dict[Function | None, list[str]] = {}
    for name, fun in per_platform.items():
        groups.setdefault(fun, []).extend(("cuda", "rocm") if name == "gpu" else (name,))
    platforms = tuple(tuple(names) for names in groups.values())
    funs = (*groups, *(() if default is None else (default,)))
    index = bind(prims.platform_index_p, has_default=default is not None, platforms=platforms)
    if _should_run_in_python(index):
        return funs[int(index)](*args)
    # In a program that is being staged, lowering chooses the branch.
    if isinstance(index, Tracer):
        return _choose_by_platform(index, platforms, funs, *args)
    return _choose_compiled(None, platforms, funs, *args)  # one program: the arguments determine the platform


def _choose_by_platform(index: Value, platforms: tuple[tuple[str, ...], ...], funs: tuple[Function, ...], *args: Tree) -> Tree:
    if index is None:
        index = bind(prims.platform_index_p, has_default=len(funs) > len(platforms), platforms=platforms)
    names = [f"the function for {' and '.join(p)}" for p in platforms] + ["default"] * (len(funs) - len(platforms))
    every = tuple(range(len(args)))
    return _choose("platform_dependent", index, names, funs, args, (every,) * len(funs))


_choose_compiled = jit(_choose_by_platform, static_argnums=(0, 1, 2))


def _choose(call: str, index: Value, names: Sequence[str], funs: Sequence[Function], operands: Sequence[Tree],
            takes: Sequence[Sequence[int]]) -> Tree:
    flat, tree = trees.tree_flatten(tuple(operands))
    avals = flat_avals(call, "operands", flat, tree)
    # parts: the tree of each operand; places: the numbers of its leaves. Each function is staged on its own operands;
    # then all branches take all operands.
    parts, places, at = tree.children(), [], 0
    for part in parts:
        places.append(range(at, at + part.num_leaves))
        at += part.num_leaves
    bodies, numbers = [], []
    for fun, take in zip(funs, takes):
        chosen = [i for k in take for i in places[k]]
        mine = [parts[k] for k in take]

        # Defaults bind the values of this iteration.
        def run(tracers: Sequence[Value], fun: Function = fun, mine: Sequence[PyTreeDef] = mine) -> Tree:
            rest, args = list(tracers), []
            for part in mine:
                args.append(trees.tree_unflatten(part, rest[:part.num_leaves]))
                del rest[:part.num_leaves]
            return fun(*args)

        bodies.append(stage_body(call, fun, run, (call, *mine), [avals[i] for i in chosen],
                                 [flat[i] for i in chosen]))
        numbers.append(chosen)
    _check_branches(call, names, bodies)
    branches, outer = join_branches(bodies, numbers, avals)
    return trees.tree_unflatten(bodies[0].tree, bind(prims.cond_p, index, *outer, *flat, branches=branches))


def _check_branches(call: str, names: Sequence[str], bodies: Sequence[StagedBody]) -> None:
    first, *rest = zip(names, bodies)
    for other in rest:
        trees_of, types = zip(*[(body.tree, body.closed.out_avals) for _, body in (first, other)])
        if trees_of[0] != trees_of[1] or not all(a.same_type(b) for a, b in zip(*types)):
            pair = (other, first) if call == "cond" else (first, other)
            table, at = format_type_diff(*[(name, body.tree, body.closed.out_avals) for name, body in pair])
            raise TypeError(f"{call}: all branches must return results of the same tree and types; they differ at "
                            f"result{at}:\n{table}")
