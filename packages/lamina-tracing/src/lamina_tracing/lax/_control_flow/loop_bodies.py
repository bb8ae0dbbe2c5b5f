"""Bodies of control flow: staged once per function and types, with fixed carry types; mismatches are shown side by
side."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lamina_ir import ClosedJaxpr, Jaxpr, ShapedArray, Var, aval_of, config, dtypes, prims, shaped, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Function, Tree, Value

from ..._core.args import flatten_results
from ..._core.explicit_shardings import add_shardings, explicit_meshes
from ..._core.signature import function_name
from ..._core.function_cache import FunctionCache
from ..._core.source_lines import find_user_source
from ..._core.staging import are_lasting, stage
from ..._core.trace import bind, trace_state, staging_context
from ..._core.tracer import Tracer, has_jax_array, read_jax_array, typeof

__all__ = ["StagedBody", "cast", "check_carry", "flat_avals", "format_type_diff", "join_branches", "leaf_path",
           "promote_weak_results", "stage_body", "stage_with_fixed_carry"]

_MAX_PROGRAMS = 256  # per function
_staged = FunctionCache()


class StagedBody(NamedTuple):
    """A staged function: `closed` takes the values of enclosing traces in `outer`, then the flat arguments."""

    closed: ClosedJaxpr
    outer: list[Value]
    tree: PyTreeDef


def stage_body(call: str, fun: Function, run: Callable[[Sequence[Value]], Tree], tag: CacheKey,
               avals: Sequence[ShapedArray], operands: Sequence[Value]) -> StagedBody:
    """Stage `run(tracers)`, which returns a tree of results, for `operands` or slices of them. The program is cached
    with `fun`, under `tag` and the types, unless it uses values of enclosing traces."""
    with staging_context(operands):
        return _stage_body(call, fun, run, tag, add_shardings(avals, operands) if explicit_meshes else avals)


def _stage_body(call: str, fun: Function, run: Callable[[Sequence[Value]], Tree], tag: CacheKey,
                avals: Sequence[ShapedArray]) -> StagedBody:
    known: dict[CacheKey, StagedBody] = _staged.get_table(fun)
    # Axis names and sizes: `axis_size` in the function is a Python number, so a program depends on them.
    key = (tag, tuple(avals), tuple([(f.name, f.size) for f in trace_state.axes]), config.cache_key())
    found = known.get(key)
    if found is not None:
        return found
    tree: PyTreeDef  # set by `flat`

    def flat(*tracers: Value) -> list[Value]:
        nonlocal tree
        leaves, tree = flatten_results(call, function_name(fun), run(tracers))
        return leaves

    others = config.generation.changes_by_other_threads()
    closed, outer = stage(flat, avals, (call, fun, None, ()))
    source = find_user_source()
    closed.memo("source", lambda: source)  # source line of the loop, for errors about it
    body = StagedBody(closed, outer, tree)
    # Values of enclosing traces differ in each call, so a program that uses some is not cached.
    if are_lasting(outer) and config.is_unchanged(key[-1], others):
        if len(known) >= _MAX_PROGRAMS:
            known.clear()
        known[key] = body
    return body


def flat_avals(call: str, what: str, flat: Sequence[Value], tree: PyTreeDef) -> list[ShapedArray]:
    """Return the types of flat values; TypeError names a leaf that is not an array or a number."""
    found = []
    for i, x in enumerate(flat):
        try:
            found.append(x.aval if isinstance(x, Tracer) else aval_of(x))
        except TypeError as e:
            if isinstance(flat, list) and has_jax_array(x):
                flat[i] = read_jax_array(x)
                found.append(typeof(flat[i]))
                continue
            raise TypeError(f"{call}: {what}{leaf_path(tree, i)}: {e}") from None
    return found


def leaf_path(tree: PyTreeDef, leaf: int) -> str:
    """Return the path of a leaf, as `['w'][0]`; empty for a tree that is one leaf."""
    return _list_paths(tree)[leaf]


def _list_paths(tree: PyTreeDef) -> list[str]:
    marked = trees.tree_unflatten(tree, list(range(tree.num_leaves)))
    return [trees.keystr(path) for path, _ in trees.tree_flatten_with_path(marked)[0]]


def cast(x: Value, aval: ShapedArray) -> Value:
    """Convert `x` to exactly this dtype and weak type."""
    got = typeof(x)
    if got.dtype == aval.dtype and got.weak_type == aval.weak_type:
        return x
    return bind(prims.convert_element_type_p, x, new_dtype=aval.dtype, weak_type=aval.weak_type)


# --- carries ------------------------------------------------------------------------------------------------------
def _join_carry_types(a: ShapedArray, out: ShapedArray) -> ShapedArray:
    """Return the type of a carry that starts as `a` and that the body returns as `out`. A weak type takes the dtype of
    the result; the varying axes are those of both."""
    if not out.varying_axes <= a.varying_axes:
        a = a.with_varying_axes(a.varying_axes | out.varying_axes)
    if not a.weak_type or a.shape != out.shape or (a.dtype == out.dtype and out.weak_type):
        return a
    try:
        dtype, _ = dtypes.promote((a.dtype, True), (out.dtype, out.weak_type))
    except TypeError:  # strict promotion
        return a
    return shaped(a.shape, dtype).with_varying_axes(a.varying_axes) if dtype == out.dtype else a


def stage_with_fixed_carry(stage_at: Callable[[list[ShapedArray]], StagedBody], avals: list[ShapedArray],
                           n_carry: int) -> tuple[list[ShapedArray], StagedBody]:
    """Stage a body until its carry types no longer change; return (types, body). `avals` are the initial types of the
    carry, then the others."""
    while True:
        # A weak carry takes the dtype that the body returns, and an axis over which the body's result varies. Both
        # only grow, so this ends, mostly after one or two rounds. `check_carry` reports types that still differ.
        body = stage_at(avals)
        outs = body.closed.out_avals
        if len(outs) < n_carry:
            return avals, body
        new = [_join_carry_types(a, o) for a, o in zip(avals[:n_carry], outs)] + avals[n_carry:]
        if new == avals:
            return avals, body
        avals = new


def promote_weak_results(leaves: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Value]:
    """Convert weakly typed results (Python numbers) of a body to the wider dtype of their carry."""
    found = list(leaves)
    for i, (x, a) in enumerate(zip(leaves, avals)):
        try:
            out = x.aval if isinstance(x, Tracer) else typeof(x)
        except TypeError:
            continue  # reported with its path later
        if out.weak_type and out.dtype != a.dtype and out.shape == a.shape:
            try:
                # Only if promotion gives the type of the carry: a weak float must not be truncated for an integer
                # carry.
                if dtypes.promote((a.dtype, a.weak_type), (out.dtype, True))[0] == a.dtype:
                    found[i] = cast(x, a)
            except TypeError:
                pass
    return found


def check_carry(call: str, name: str, tree: PyTreeDef, avals: Sequence[ShapedArray], out_tree: PyTreeDef,
                outs: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless the carry that the body returns has the tree and types of the one that it takes."""
    if tree == out_tree and all(a.same_type(o) for a, o in zip(avals, outs)):
        return
    table, first = format_type_diff(("carry in", tree, avals), ("carry out", out_tree, outs))
    raise TypeError(f"{call}: `{name}` must return a carry of the same tree and types as it takes; they differ at "
                    f"carry{first}:\n{table}\nConvert in `{name}` with astype or reshape, or start from an initial "
                    "value of that type.")


def format_type_diff(*sides: tuple[str, PyTreeDef, Sequence[ShapedArray]]) -> tuple[str, str]:
    """Return a table of several trees of types, with differing lines marked `>`, and the path of the first of them."""
    columns = [dict(zip(_list_paths(tree), [a.str_long() for a in avals])) for _, tree, avals in sides]
    paths = list(dict.fromkeys(p for column in columns for p in column))
    differ = [p for p in paths if len({column.get(p) for column in columns}) > 1]
    rows = [(" ", "path", *[title for title, _, _ in sides])]
    shown = paths if len(paths) <= 40 else differ[:40]
    rows += [(">" if p in differ else " ", p or "(whole)", *[column.get(p, "(missing)") for column in columns])
             for p in shown]
    if not differ:  # the same leaves in other containers
        rows += [(">", "tree", *[str(tree) for _, tree, _ in sides])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = "\n".join(("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths))).rstrip() for row in rows)
    return text, differ[0] if differ else ""


# --- branches -----------------------------------------------------------------------------------------------------
def join_branches(bodies: Sequence[StagedBody], takes: Sequence[Sequence[int]],
                  avals: Sequence[ShapedArray]) -> tuple[tuple[ClosedJaxpr, ...], list[Value]]:
    """Return the programs of several branches with equal operands: all values of enclosing traces that any of them
    uses, then the flat operands of types `avals`. Branch k takes the operands numbered `takes[k]`."""
    if not any(b.outer for b in bodies) and all(len(t) == len(avals) for t in takes):
        return tuple([b.closed for b in bodies]), []
    if not any(b.outer for b in bodies):  # cached, so that programs derived from the joined ones are cached too
        key = ("join", *map(id, [b.closed for b in bodies]), tuple(map(tuple, takes)), tuple(avals))
        return bodies[0].closed.memo(key, lambda: (bodies, _join(bodies, takes, avals)))[1]
    return _join(bodies, takes, avals)


def _join(bodies: Sequence[StagedBody], takes: Sequence[Sequence[int]],
          avals: Sequence[ShapedArray]) -> tuple[tuple[ClosedJaxpr, ...], list[Value]]:
    # A value that several branches use becomes one operand. `outer` keeps the values alive, so ids are unique.
    outer = {id(x): x for b in bodies for x in b.outer}
    found = []
    for body, take in zip(bodies, takes):
        jaxpr = body.closed.jaxpr
        own = dict(zip(map(id, body.outer), jaxpr.invars))
        given = dict(zip(take, jaxpr.invars[len(body.outer):]))
        # All branches take all operands of the equation; a branch ignores those of the others.
        invars = [own.get(i) or Var(typeof(x)) for i, x in outer.items()]
        invars += [given.get(i) or Var(a) for i, a in enumerate(avals)]
        found.append(ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names,
                                       jaxpr.effectful), body.closed.consts))
    return tuple(found), list(outer.values())
