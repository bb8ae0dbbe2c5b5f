"""Bodies of control flow: staged once per function and types, their carries settled, mismatches shown side by side."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Jaxpr, ShapedArray, Var, aval_of, config, dtypes, prims, shaped, trees

from ..._core.args import flatten_results
from ..._core.signature import function_name
from ..._core.function_cache import FunctionCache
from ..._core.source_lines import find_user_source
from ..._core.staging import stage
from ..._core.trace import bind, trace_state, staging_context
from ..._core.tracer import Tracer, has_jax_array, typeof

__all__ = ["StagedBody", "cast", "check_carry", "flat_avals", "format_type_diff", "join_branches", "leaf_path",
           "promote_weak_results", "stage_body", "stage_with_fixed_carry"]

_MAX_PROGRAMS = 256  # per function
_staged = FunctionCache()


class StagedBody(NamedTuple):
    """A staged function: `closed` takes the values of enclosing traces in `outer`, then the flat arguments."""

    closed: ClosedJaxpr
    outer: list[Any]
    tree: Any


def stage_body(call: str, fun: Callable[..., Any], run: Callable[[Sequence[Any]], Any], tag: Any,
               avals: Sequence[ShapedArray], operands: Sequence[Any]) -> StagedBody:
    """`run(tracers)`, a tree of results, as a program that is to run on `operands`, or slices of them; remembered with `fun`,
    under `tag` and the types, unless it uses values of enclosing traces."""
    with staging_context(operands):
        return _stage_body(call, fun, run, tag, avals)


def _stage_body(call: str, fun: Callable[..., Any], run: Callable[[Sequence[Any]], Any], tag: Any,
                avals: Sequence[ShapedArray]) -> StagedBody:
    known: dict[Any, StagedBody] = _staged.get_table(fun)
    key = (tag, tuple(avals), tuple([(f.name, f.size) for f in trace_state.axes]), config.cache_key())
    found = known.get(key)
    if found is not None:
        return found
    tree = None

    def flat(*tracers: Any) -> list[Any]:
        nonlocal tree
        leaves, tree = flatten_results(call, function_name(fun), run(tracers))
        return leaves

    others = config.generation.changes_by_other_threads()
    closed, outer = stage(flat, avals, (call, fun, None, ()))
    source = find_user_source()
    closed.memo("source", lambda: source)  # source line of the loop, for errors about it
    body = StagedBody(closed, outer, tree)
    if not outer and config.is_unchanged(key[-1], others):
        if len(known) >= _MAX_PROGRAMS:
            known.clear()
        known[key] = body
    return body


def flat_avals(call: str, what: str, flat: Sequence[Any], tree: Any) -> list[ShapedArray]:
    """Types of flat values; TypeError that names the one that is no array or number."""
    found = []
    for i, x in enumerate(flat):
        try:
            found.append(x.aval if isinstance(x, Tracer) else aval_of(x))
        except TypeError as e:
            if isinstance(flat, list) and has_jax_array(x):
                flat[i] = x.__jax_array__()
                found.append(typeof(flat[i]))
                continue
            raise TypeError(f"{call}: {what}{leaf_path(tree, i)}: {e}") from None
    return found


def leaf_path(tree: Any, leaf: int) -> str:
    """Return the path of a leaf, as `['w'][0]`; empty for a tree that is one leaf."""
    return _paths(tree)[leaf]


def _paths(tree: Any) -> list[str]:
    marked = trees.tree_unflatten(tree, list(range(tree.num_leaves)))
    return [trees.keystr(path) for path, _ in trees.tree_flatten_with_path(marked)[0]]


def cast(x: Any, aval: ShapedArray) -> Any:
    """`x` as a value of exactly this dtype and weakness."""
    got = typeof(x)
    if got.dtype == aval.dtype and got.weak_type == aval.weak_type:
        return x
    return bind(prims.convert_element_type_p, x, new_dtype=aval.dtype, weak_type=aval.weak_type)


# --- carries ------------------------------------------------------------------------------------------------------
def _join_carry_types(a: ShapedArray, out: ShapedArray) -> ShapedArray:
    """The type of a carry that starts as `a` and comes back as `out`: a weak one takes on what it meets, and it differs over
    the axes over which either does."""
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
    """The body staged for carry types that no longer change; `avals` are the carry's first types, then the others."""
    while True:
        body = stage_at(avals)
        outs = body.closed.out_avals
        if len(outs) < n_carry:
            return avals, body
        new = [_join_carry_types(a, o) for a, o in zip(avals[:n_carry], outs)] + avals[n_carry:]
        if new == avals:
            return avals, body
        avals = new


def promote_weak_results(leaves: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Results of a body with weak ones (Python numbers) given the dtype of the carry they become, where it is wider."""
    found = list(leaves)
    for i, (x, a) in enumerate(zip(leaves, avals)):
        try:
            out = x.aval if isinstance(x, Tracer) else typeof(x)
        except TypeError:
            continue  # reported with its path later
        if out.weak_type and out.dtype != a.dtype and out.shape == a.shape:
            try:
                if dtypes.promote((a.dtype, a.weak_type), (out.dtype, True))[0] == a.dtype:
                    found[i] = cast(x, a)
            except TypeError:
                pass
    return found


def check_carry(call: str, name: str, tree: Any, avals: Sequence[ShapedArray], out_tree: Any,
                outs: Sequence[ShapedArray]) -> None:
    """TypeError unless what the body returns as carry has the tree and types of what it takes."""
    if tree == out_tree and all(a.same_type(o) for a, o in zip(avals, outs)):
        return
    table, first = format_type_diff(("carry in", tree, avals), ("carry out", out_tree, outs))
    raise TypeError(f"{call}: `{name}` must return a carry of the same tree and types as it takes; they differ at "
                    f"carry{first}:\n{table}\nConvert in `{name}` with astype or reshape, or start from an initial "
                    "value of that type.")


def format_type_diff(*sides: tuple[str, Any, Sequence[ShapedArray]]) -> tuple[str, str]:
    """A table of several trees of types, lines that differ marked with `>`, and the path of the first of them."""
    columns = [dict(zip(_paths(tree), [a.str_long() for a in avals])) for _, tree, avals in sides]
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
                  avals: Sequence[ShapedArray]) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """Programs of several branches with the same operands: all values of enclosing traces any of them uses, then the
    flat operands of types `avals`, of which branch k takes those numbered `takes[k]`."""
    if not any(b.outer for b in bodies) and all(len(t) == len(avals) for t in takes):
        return tuple([b.closed for b in bodies]), []
    if not any(b.outer for b in bodies):  # remembered, so that what is derived from the joined programs is too
        key = ("join", *map(id, [b.closed for b in bodies]), tuple(map(tuple, takes)), tuple(avals))
        return bodies[0].closed.memo(key, lambda: (bodies, _join(bodies, takes, avals)))[1]
    return _join(bodies, takes, avals)


def _join(bodies: Sequence[StagedBody], takes: Sequence[Sequence[int]],
          avals: Sequence[ShapedArray]) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    outer = {id(x): x for b in bodies for x in b.outer}
    found = []
    for body, take in zip(bodies, takes):
        jaxpr = body.closed.jaxpr
        own = dict(zip(map(id, body.outer), jaxpr.invars))
        given = dict(zip(take, jaxpr.invars[len(body.outer):]))
        invars = [own.get(i) or Var(typeof(x)) for i, x in outer.items()]
        invars += [given.get(i) or Var(a) for i, a in enumerate(avals)]
        found.append(ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names,
                                       jaxpr.effectful), body.closed.consts))
    return tuple(found), list(outer.values())
