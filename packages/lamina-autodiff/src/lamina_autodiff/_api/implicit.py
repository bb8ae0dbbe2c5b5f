"""`custom_linear_solve` and `custom_root`: solvers differentiated implicitly, by the equation that they solve."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, config, Jaxpr, prims, ShapedArray, ShapeError, trees, Var
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Function, StaticValue, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import (FunctionCache, bind, eval_jaxpr, rename_errors, trace_state, stage, staging_context,
                                   typeof)

from .._custom.custom_jvp import custom_jvp
from .._custom.rule_checks import zero_tangent
from .forward import jvp
from .reverse import linear_transpose

__all__ = ["custom_linear_solve", "custom_root"]

Program = tuple[ClosedJaxpr, list[Value], PyTreeDef]

_MOST_PROGRAMS = 256  # per function
_programs = FunctionCache()


def _program(fun: Callable[[Tree], Tree], like: Sequence[Value], tree: PyTreeDef, owner: Function,
             *others: StaticValue) -> Program:
    """Stage a function of one tree; return (program, values of enclosing traces that lead its arguments, output tree).

    Cached on the user's function `owner` with the key `others`, unless the program closes over values of enclosing
    traces.
    """
    with staging_context(like):
        return _stage_cached(fun, tuple([typeof(x).strip_weak_type() for x in like]), tree, owner, *others)


def _stage_cached(fun: Callable[[Tree], Tree], avals: Sequence[ShapedArray], tree: PyTreeDef, owner: Function,
                  *others: StaticValue) -> Program:
    try:
        # Functions in the key are weak references: a key must not keep alive what the functions close over.
        known: dict[CacheKey, Program] = _programs.get_table(owner)
        key: Any = (avals, tree, tuple([weakref.ref(f) if callable(f) else f for f in others]),
                    tuple([(f.name, f.size) for f in trace_state.axes]), config.cache_key())
        found = known.get(key)
    except TypeError:  # not hashable, or not weakly referable
        known, key, found = {}, None, None
    if found is not None:
        return found
    out_tree: PyTreeDef  # set by `flat`

    def flat(*xs: Value) -> list[Value]:
        nonlocal out_tree
        leaves, out_tree = trees.tree_flatten(fun(trees.tree_unflatten(tree, xs)))
        return leaves

    other_changes = config.generation.changes_by_other_threads()  # settings may change while `fun` runs
    closed, outer = stage(flat, avals)
    if not outer and key is not None and config.is_unchanged(key[-1], other_changes):
        if len(known) >= _MOST_PROGRAMS:
            known.clear()
        known[key] = closed, outer, out_tree
    return closed, outer, out_tree


def _take_all_constants(closed: ClosedJaxpr, own: Sequence[Value], every: Sequence[Value]) -> ClosedJaxpr:
    """Return the program with leading arguments for all values in `every` instead of its own `own` only."""
    jaxpr = closed.jaxpr
    variables = {id(x): v for x, v in zip(own, jaxpr.invars)}
    lead = [variables.get(id(x)) or Var(typeof(x)) for x in every]
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [*lead, *jaxpr.invars[len(own):]], jaxpr.eqns, jaxpr.outvars,
                             jaxpr.axis_names, jaxpr.effectful), closed.consts)


def _check_result(call: str, what: str, got: Program, count: int, tree: PyTreeDef,
                  avals: Sequence[ShapedArray]) -> None:
    """Raise ShapeError unless the first `count` results have this tree and these types."""
    outs, out_tree = got[0].out_avals[:count], got[2]
    if out_tree != tree or not all(a.same_type(b) for a, b in zip(outs, avals)):
        def describe(tree: PyTreeDef, types: Sequence[ShapedArray]) -> str:
            return f"{tree} of ({', '.join(a.str_long() for a in types)})"
        raise ShapeError(f"{call}: {what} must return the tree and types of its argument, {describe(tree, avals)}; got "
                         f"{describe(out_tree, outs)}")


def _split_aux(call: str, what: str, out: Tree, has_aux: bool) -> tuple[Tree, Tree]:
    """Return (result, aux); aux is None without `has_aux`."""
    if has_aux and not (isinstance(out, (tuple, list)) and len(out) == 2):
        raise TypeError(f"{call}: with has_aux, {what} must return (result, aux); got {type(out).__name__}")
    return (out[0], out[1]) if has_aux else (out, None)


def _check_functions(call: str, **functions: object) -> None:
    for what, fun in functions.items():
        if not callable(fun):
            raise TypeError(f"{call}: {what} must be a function; got {type(fun).__name__}: {fun!r:.60}")


@rename_errors
def custom_linear_solve(matvec: Callable[[Tree], Tree], b: Tree, solve: Function,
                        transpose_solve: Function | None = None, symmetric: bool = False,
                        has_aux: bool = False) -> Tree:
    """Solve `matvec(x) = b` with `solve`; derivatives solve linear systems with the same solver.

    Args:
      matvec: invertible linear function of a tree like `b`.
      b: right-hand side, a tree of arrays.
      solve: `solve(matvec, b) -> x`; need not be differentiable.
      transpose_solve: `transpose_solve(vecmat, b) -> x` for the transposed function `vecmat`; reverse mode needs it.
      symmetric: `matvec` is its own transpose, so `solve` is used for both, unless `transpose_solve` is given.
      has_aux: `solve` returns `(x, aux)`; aux is not differentiated.
    Returns:
      x, a tree like `b`; with `has_aux` `(x, aux)`.
    Raises:
      TypeError: `matvec` or a solver does not preserve the tree and types of `b`.

    Derivative: `dx = A^-1 (db - dA x)`, by the implicit function theorem.

    >>> from lamina_autodiff import grad
    >>> grad(lambda a: custom_linear_solve(lambda x: a * x, 6.0, lambda f, b: b / f(1.0), symmetric=True))(2.0)
    Array(-1.5, dtype=float32, weak_type=True)
    """
    call = "custom_linear_solve"
    _check_functions(call, matvec=matvec, solve=solve, transpose_solve=solve if transpose_solve is None else transpose_solve)
    flat, tree = trees.tree_flatten(b)
    avals = [typeof(x) for x in flat]
    n = len(flat)
    system = _program(matvec, flat, tree, matvec)
    _check_result(call, "matvec", system, n, tree, avals)
    solver = _program(lambda y: _split_aux(call, "solve", solve(matvec, y), has_aux), flat, tree, matvec, solve,
                      has_aux)
    x_tree, aux_tree = solver[2].children()
    _check_result(call, "solve", (solver[0], [], x_tree), n, tree, avals)
    back: Program | None = None
    # The transposed system is A^T y = c. If A^T = A, `solve` solves it.
    if symmetric and transpose_solve is None:
        back = _drop_aux(solver[0], n), solver[1], tree
    elif transpose_solve is not None:
        def transposed(y: Tree) -> Tree:
            def vecmat(v: Tree) -> Tree:
                return linear_transpose(matvec, y)(v)[0]
            return _split_aux(call, "transpose_solve", transpose_solve(vecmat, y), has_aux)[0]
        back = _program(transposed, flat, tree, matvec, transpose_solve, has_aux, "transposed")
        _check_result(call, "transpose_solve", back, n, tree, avals)
    # All programs of the equation take the same leading constants: the union of the values they close over.
    every = list({id(x): x for p in (system, solver, back) if p is not None for x in p[1]}.values())
    # Operands without weak type, because the programs were staged for such types.
    made = bind(prims.linear_solve_p, *every, *[_strip_weak_type(x) for x in flat],
                matvec=_take_all_constants(*system[:2], every), solve=_take_all_constants(*solver[:2], every),
                transpose_solve=None if back is None else _take_all_constants(*back[:2], every),
                num_consts=len(every), num_aux=len(solver[0].out_avals) - n)
    x = trees.tree_unflatten(tree, made[:n])
    return (x, trees.tree_unflatten(aux_tree, made[n:])) if has_aux else x


def _strip_weak_type(x: Value) -> Value:
    """Return `x` without weak type."""
    aval = typeof(x)
    return lax.convert_element_type(x, aval.dtype) if aval.weak_type else x


def _drop_aux(closed: ClosedJaxpr, n: int) -> ClosedJaxpr:
    """Return the program with its first `n` results only."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, jaxpr.outvars[:n], jaxpr.axis_names,
                             jaxpr.effectful), closed.consts)


@rename_errors
def custom_root(f: Callable[[Tree], Tree], initial_guess: Tree, solve: Function,
                tangent_solve: Function, has_aux: bool = False) -> Tree:
    """Find an x with `f(x) = 0` by `solve`, differentiable with respect to the values that `f` closes over.

    Args:
      f: function of a tree like `initial_guess`, with a result like it.
      initial_guess: where to start; derivatives do not depend on it.
      solve: `solve(f, initial_guess) -> x`; need not be differentiable.
      tangent_solve: `tangent_solve(g, y)` returns the t with `g(t) = y` for the linear function g = df at x: for one
        number `y / g(1.0)`, for a vector `numpy.linalg.solve(jacobian(g)(y), y)`.
      has_aux: `solve` returns `(x, aux)`; aux is not differentiated.
    Returns:
      x, a tree like `initial_guess`; with `has_aux` `(x, aux)`.

    Derivative: `dx = -(df/dx)^-1 df`, by the implicit function theorem.

    >>> from lamina_autodiff import grad
    >>> from lamina_tracing import lax
    >>> def newton(f, x):
    ...     for _ in range(20):
    ...         y, dy = jvp(f, (x,), (1.0,))
    ...         x = x - y / dy
    ...     return x
    >>> grad(lambda a: custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0)))(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    call = "custom_root"
    _check_functions(call, f=f, solve=solve, tangent_solve=tangent_solve)
    flat, tree = trees.tree_flatten(initial_guess)
    avals = [typeof(x) for x in flat]
    n = len(flat)
    # The values that f and solve close over (`f_outer`, `s_outer`) become arguments of `root`, so they are
    # differentiated.
    function, f_outer, f_tree = _program(f, flat, tree, f)
    _check_result(call, "f", (function, f_outer, f_tree), n, tree, avals)
    solver, s_outer, s_tree = _program(lambda x: _split_aux(call, "solve", solve(f, x), has_aux), flat, tree, f,
                                       solve, has_aux)
    x_tree, aux_tree = s_tree.children()
    _check_result(call, "solve", (solver, [], x_tree), n, tree, avals)

    @custom_jvp
    def root(f_values: Sequence[Value], s_values: Sequence[Value],
             guess: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        outs = eval_jaxpr(solver, (*s_values, *guess))
        return outs[:n], outs[n:]

    @root.defjvp
    def _(primals: Sequence[Tree], tangents: Sequence[Tree]) -> tuple[Tree, Tree]:
        values, _, _ = primals
        x, aux = root(*primals)

        def residual(values: Sequence[Value], x: Sequence[Value]) -> list[Value]:
            return eval_jaxpr(function, (*values, *x))

        def linear(t: Tree) -> Tree:
            moved = trees.tree_flatten(t)[0]
            return trees.tree_unflatten(tree, jvp(lambda x: residual(values, x), (x,), (list(moved),))[1])

        # Implicit function theorem: f(a, x(a)) = 0 gives f_a da + f_x dx = 0, where `linear` is f_x. So dx solves
        # f_x dx = -f_a da. Guess and solver only select one root; x does not depend on them differentiably.
        change = jvp(lambda values: residual(values, x), (values,), (tangents[0],))[1]
        found = tangent_solve(linear, trees.tree_unflatten(tree, [lax.neg(c) for c in change]))
        dx, dx_tree = trees.tree_flatten(found)
        if dx_tree != tree:
            raise TypeError(f"{call}: tangent_solve must return the tree of its argument, {tree}; got {dx_tree}")
        return (x, aux), (dx, [zero_tangent(typeof(a), False) for a in aux])

    x, aux = root(f_outer, s_outer, flat)
    x = trees.tree_unflatten(tree, x)
    return (x, trees.tree_unflatten(aux_tree, aux)) if has_aux else x
