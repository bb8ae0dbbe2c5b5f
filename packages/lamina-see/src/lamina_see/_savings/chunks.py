"""Compute an axis of a program in parts: the program as a loop over chunks of its rows.

The equations on rows run in the loop on smaller arrays. Their results with rows are put together, and those without rows,
such as gradients of weights, are added up. The other equations run before or after the loop.

Whether rows are independent is tried. The same equations for fewer rows run with the NumPy evaluator, whole and in parts,
and the results must be equal.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, LaminaError, Literal, ShapedArray, Var, dce, dtypes, evaluate, inline_calls,
                       prims, program_cost, subprograms)
from lamina_ir.extend import RegionView
from lamina_tracing import lax, make_jaxpr
from lamina_tracing.extend import jaxpr_as_fun
from lamina_tracing.extend.ops import bind

__all__ = ["ChunkError", "check_chunks", "choose_axis", "chunk_program", "dims_of", "divisors"]

_MIN_SIZE = 16  # of an axis; smaller numbers occur in parameters with another meaning
_MAX_CHECK_FLOPS = 3e9
Sizes = dict[int, int]  # size of an axis that has rows -> its size in one part


class ChunkError(Exception):
    """An axis cannot be computed in parts; the text is the reason."""


class _Division(NamedTuple):
    """The equations of a program by their place.

    Attributes:
      before: they read no rows.
      rows: they read or make rows.
      after: they read sums over rows.
      stacked: results of `rows` with rows that are results of the program.
      summed: results of `rows` without rows that `after` or the results of the program need.
    """

    before: list[Eqn]
    rows: list[Eqn]
    after: list[Eqn]
    stacked: list[Var]
    summed: list[Var]


def dims_of(text: str) -> tuple[int, ...]:
    """Return the sizes of a type that is given as text.

    >>> dims_of("float32[8,4]")
    (8, 4)
    """
    inside = text.partition("[")[2].partition("]")[0]
    return tuple([int(n) for n in inside.split(",") if n.strip().isdigit()])


def divisors(n: int) -> list[int]:
    """Return the divisors of a number but 1, in order."""
    small = [k for k in range(2, int(n ** 0.5) + 1) if n % k == 0]
    return sorted({*small, *[n // k for k in small], n})


def choose_axis(live: Sequence[tuple[Sequence[int], int]], arguments: Sequence[Sequence[int]]) -> int | None:
    """Return the size of the axis that most live bytes have, if an argument has it.

    Of axes that divide nearly as much it is that of a batch: it leads arguments, and few of them have it.

    Args:
      live: (sizes, bytes) of the values that are alive at the peak, without arguments.
      arguments: the sizes of the arguments.
    """
    given = {n for dims in arguments for n in dims}
    sizes = {n for dims, _ in live for n in set(dims) if n > 1 and (n in given or not given)}
    nbytes = {n: sum([held for dims, held in live if n in dims]) for n in sizes}
    most = max(nbytes.values(), default=0)
    if not most:
        return None
    return max([n for n in sizes if nbytes[n] >= 0.7 * most],
               key=lambda n: (any(tuple(d[:1]) == (n,) for d in arguments), -sum([n in d for d in arguments]), n))


def chunk_program(closed: ClosedJaxpr, size: int, parts: int) -> ClosedJaxpr:
    """Return the program that computes an axis in parts, one after the other.

    Args:
      closed: the program.
      size: the size of the axis: all axes of this size have rows.
      parts: the number of parts, which divides `size`.
    Raises:
      ChunkError: it cannot be computed in parts.
    """
    if size < _MIN_SIZE or size % parts or size == parts:
        raise ChunkError(f"an axis of size {size} is not divided into {parts} parts")
    flat = _flatten(closed)
    division = _divide(flat.jaxpr, size)
    sizes = {size: size // parts}
    inputs = [v for v in (*flat.jaxpr.constvars, *flat.jaxpr.invars) if _row_axes(v, sizes)]
    body, ins = _row_program(division, inputs, sizes)
    combine = [_combination(v, division) for v in division.summed]

    def run(*args: Any) -> list[Any]:
        env: dict[Any, Any] = dict(zip(flat.jaxpr.invars, args))
        env.update(zip(flat.jaxpr.constvars, flat.consts))
        _run(division.before, env)

        def step(carry: Any, k: Any) -> tuple[Any, None]:
            stacks, sums = carry
            start = k * (size // parts)
            outs = jaxpr_as_fun(body)(*[_slice(env[v], v, start, sizes) for v in ins])
            parts_of, more = outs[:len(stacks)], outs[len(stacks):]
            stacks = [_update(whole, part, v, start, sizes) for whole, part, v in zip(stacks, parts_of, division.stacked)]
            return (stacks, [add(a, b) for (add, _), a, b in zip(combine, sums, more)]), None

        stacks = [lax.full(v.aval.shape, 0, v.aval.dtype) for v in division.stacked]
        sums = [lax.full(v.aval.shape, start, v.aval.dtype) for (_, start), v in zip(combine, division.summed)]
        (stacks, sums), _ = lax.scan(step, (stacks, sums), np.arange(parts, dtype=np.int32))
        env.update(zip((*division.stacked, *division.summed), (*stacks, *sums)))
        _run(division.after, env)
        return [_read(env, a) for a in flat.jaxpr.outvars]

    made: ClosedJaxpr = make_jaxpr(run)(*flat.in_avals)
    return made


def check_chunks(closed: ClosedJaxpr, size: int, arguments: Sequence[Any]) -> None:
    """Try on some rows whether a program gives the same in parts.

    Args:
      closed: the program.
      size: the size of the axis.
      arguments: its flat arguments, of which the first rows are used, with random changes; (): unknown.
    Raises:
      ChunkError: it gives something else, or it cannot be tried.
    """
    flat = _flatten(closed)
    few = _free_size(flat)
    division = _divide(flat.jaxpr, size)
    # The results of the rows themselves: those of the program may depend on them too little to show a difference.
    outs: list[Any] = [*division.stacked, *division.summed]
    whole, _ = dce(ClosedJaxpr(Jaxpr(flat.jaxpr.constvars, flat.jaxpr.invars, flat.eqns, outs), flat.consts), instantiate=True)
    small = _resize(whole, {size: few})
    if program_cost(small).flops > _MAX_CHECK_FLOPS:
        raise ChunkError("the program is too large to try on some rows")
    try:
        given = arguments or [np.zeros(_resized(v.aval, {size: few}).shape, v.aval.dtype) for v in flat.jaxpr.invars]
        values = [_vary(_first_rows(x, v.aval, {size: few}), k) for k, (x, v) in enumerate(zip(given, flat.jaxpr.invars))]
        divided = chunk_program(small, few, 2)
        with np.errstate(all="ignore"):
            expected, found = evaluate(small, *values), evaluate(divided, *values)
    except (LaminaError, ValueError, TypeError, MemoryError, NotImplementedError) as e:
        raise ChunkError(f"it could not be tried on some rows: {type(e).__name__}") from None
    if not all(np.isfinite(np.asarray(a, np.complex128)).all() for a in expected):
        raise ChunkError("the rows tried give NaN or infinity")
    if not all(_is_close(np.asarray(a), np.asarray(b)) for a, b in zip(found, expected)):
        raise ChunkError("some rows give another result without the others")


# --- division -----------------------------------------------------------------------------------------------------
def _flatten(closed: ClosedJaxpr) -> ClosedJaxpr:
    return dce(inline_calls(closed), instantiate=True)[0]


def _row_axes(v: Any, sizes: Iterable[int]) -> list[int]:
    """Return the axes of a variable that have rows."""
    return [k for k, n in enumerate(v.aval.shape) if n in sizes]


def _divide(jaxpr: Jaxpr, size: int) -> _Division:
    sizes = {size}
    for e in jaxpr.eqns:
        sizes.update(_joined_sizes(e, sizes))
    place: dict[Any, str] = {v: "rows" if _row_axes(v, sizes) else "before" for v in (*jaxpr.constvars, *jaxpr.invars)}
    groups: dict[str, list[Eqn]] = {"before": [], "rows": [], "after": []}
    for e in jaxpr.eqns:
        if e.primitive.effectful:
            raise ChunkError(f"`{e.primitive.name}` has an effect")
        read = {place[v] for v in e.invars if isinstance(v, Var)}
        has_rows = any(_row_axes(v, sizes) for v in e.outvars)
        if ("rows" in read or has_rows) and ("after" in read):
            raise ChunkError("a value of all rows is read with single rows")
        kind = "rows" if "rows" in read or has_rows else "after" if "after" in read else "before"
        groups[kind].append(e)
        for v in e.outvars:
            place[v] = "rows" if _row_axes(v, sizes) else "after" if kind == "rows" else kind
    made = [v for e in groups["rows"] for v in e.outvars]
    needed = {v for v in jaxpr.outvars if isinstance(v, Var)}
    needed.update([v for e in groups["after"] for v in e.invars if isinstance(v, Var)])
    if not made:
        raise ChunkError("no equation has this axis")
    return _Division(groups["before"], groups["rows"], groups["after"],
                     [v for v in made if v in needed and _row_axes(v, sizes)],
                     [v for v in made if v in needed and not _row_axes(v, sizes)])


def _row_program(division: _Division, inputs: Sequence[Var], sizes: Sizes) -> tuple[ClosedJaxpr, list[Var]]:
    """Return the program of one part, and the variables of the whole program that are its arguments."""
    made = {v for e in division.rows for v in e.outvars}
    ins = list(dict.fromkeys([v for e in division.rows for v in e.invars if isinstance(v, Var) and v not in made]))
    outs: list[Any] = [*division.stacked, *division.summed]
    for v in (*division.stacked, *inputs):
        if len(_row_axes(v, sizes)) > 1 or v in division.stacked and len(_row_axes(v, sizes)) != 1:
            raise ChunkError("an argument or a result has the axis twice")
    return _resize(ClosedJaxpr(Jaxpr((), ins, division.rows, outs), []), sizes), ins


def _combination(v: Var, division: _Division) -> tuple[Callable[[Any, Any], Any], Any]:
    """Return how values of parts are combined, and the value to begin with."""
    e = next(e for e in division.rows if v in e.outvars)
    dtype = v.aval.dtype
    if e.primitive in (prims.reduce_max_p, prims.reduce_min_p):
        is_max = e.primitive is prims.reduce_max_p
        if dtypes.is_inexact(dtype):
            return (lax.max, -np.inf) if is_max else (lax.min, np.inf)
        if not dtypes.is_bool(dtype):
            info = np.iinfo(dtype)
            return (lax.max, info.min) if is_max else (lax.min, info.max)
    if dtypes.is_bool(dtype) or not dtypes.is_number(dtype):
        raise ChunkError(f"values of `{e.primitive.name}` are not added")
    return lax.add, 0


def _slice(x: Any, v: Var, start: Any, sizes: Sizes) -> Any:
    axes = _row_axes(v, sizes)
    return lax.dynamic_slice_in_dim(x, start, sizes[v.aval.shape[axes[0]]], axis=axes[0]) if axes else x


def _update(whole: Any, part: Any, v: Var, start: Any, sizes: Sizes) -> Any:
    return lax.dynamic_update_slice_in_dim(whole, part, start, axis=_row_axes(v, sizes)[0])


def _read(env: dict[Any, Any], a: Any) -> Any:
    return np.asarray(a.val, a.aval.dtype) if isinstance(a, Literal) else env[a]


def _run(eqns: Sequence[Eqn], env: dict[Any, Any]) -> None:
    for e in eqns:
        outs = bind(e.primitive, *[_read(env, a) for a in e.invars], **e.params)
        env.update(zip(e.outvars, outs if e.primitive.multiple else (outs,)))


# --- other sizes --------------------------------------------------------------------------------------------------
def _resize(closed: ClosedJaxpr, sizes: Sizes, operands: Sequence[ShapedArray] | None = None) -> ClosedJaxpr:
    """Return a program for another number of rows.

    Args:
      closed: the program.
      sizes: old size -> new size. It gets the sizes of axes that a reshape joins.
      operands: the types of its arguments; None: all axes of these sizes have rows.
    """
    jaxpr = closed.jaxpr
    avals = [_resized(v.aval, sizes) for v in jaxpr.invars] if operands is None else operands
    new: dict[Any, Var] = {v: Var(a) for v, a in zip(jaxpr.invars, avals)}
    new.update({v: Var(_resized(v.aval, sizes)) for v in jaxpr.constvars})
    consts = [_first_rows(c, v.aval, sizes) for v, c in zip(jaxpr.constvars, closed.consts)]
    eqns = []
    for e in jaxpr.eqns:
        ins = [a if isinstance(a, Literal) else new[a] for a in e.invars]
        params, outs = _resize_equation(e, [a.aval for a in ins], sizes)
        new.update({v: type(v)(a) for v, a in zip(e.outvars, outs)})
        eqns.append(Eqn(e.primitive, ins, [new[v] for v in e.outvars], params, e.source))
    outvars = [a if isinstance(a, Literal) else new[a] for a in jaxpr.outvars]
    return ClosedJaxpr(Jaxpr([new[v] for v in jaxpr.constvars], [new[v] for v in jaxpr.invars], eqns, outvars), consts)


def _resized(aval: Any, sizes: Sizes) -> Any:
    return ShapedArray(tuple([sizes.get(n, n) for n in aval.shape]), aval.dtype, aval.weak_type)


def _resize_equation(e: Eqn, avals: Sequence[Any], sizes: Sizes) -> tuple[dict[str, Any], list[Any]]:
    """Return the params and the result types of an equation for other operand types."""
    params = dict(e.params)
    if e.primitive.subprograms:
        _resize_regions(e, avals, sizes, params)
    for n, old in _joined_sizes(e, sizes).items():
        sizes[n] = n // old * sizes[old]
    for candidate in ({k: _replace(v, sizes) for k, v in params.items()}, params):
        try:
            found = e.primitive.infer(*avals, **candidate)
        except (LaminaError, ValueError, TypeError):
            continue
        outs = list(found) if e.primitive.multiple else [found]
        if all(a.shape == _resized(v.aval, sizes).shape or a.shape == v.aval.shape for a, v in zip(outs, e.outvars)):
            return candidate, outs
    raise ChunkError(f"`{e.primitive.name}` has no form for fewer rows")


def _replace(value: Any, sizes: Sizes) -> Any:
    if type(value) is int:
        return sizes.get(value, value)
    return tuple([_replace(v, sizes) for v in value]) if type(value) is tuple else value


def _joined_sizes(e: Eqn, sizes: Iterable[int]) -> dict[int, int]:
    """Return size of an axis that a reshape makes by joining an axis of rows with others -> size of the latter."""
    if e.primitive is not prims.reshape_p:
        return {}
    before, after = e.invars[0].aval.shape, e.outvars[0].aval.shape
    return {n: old for old in sizes if old in before and old not in after for n in after if n > old and n % old == 0}


def _resize_regions(e: Eqn, avals: Sequence[Any], sizes: Sizes, params: dict[str, Any]) -> None:
    signature = e.primitive.region_signature
    if signature is None or signature.axis_binding is not None or not signature.operands:
        raise ChunkError(f"`{e.primitive.name}` is not divided")
    view = RegionView.of(e)
    made = {}
    for region in view.regions:
        ins = [ShapedArray(avals[i].shape[1:], avals[i].dtype, avals[i].weak_type) if view.kinds[i] == "scanned" else avals[i]
               for i in region.ins]
        made[id(region.program)] = _resize(region.program, sizes, ins)
    nested = {id(s) for s in subprograms(e)}
    for name, value in params.items():
        if id(value) in nested:
            params[name] = made.get(id(value)) or _resize(value, sizes)
        elif type(value) is tuple and value and all(id(v) in nested for v in value):
            params[name] = tuple([made.get(id(v)) or _resize(v, sizes) for v in value])


def _first_rows(x: Any, aval: Any, sizes: Sizes) -> Any:
    shape = tuple([slice(sizes.get(n, n)) for n in aval.shape])
    return np.asarray(x, aval.dtype)[shape]


def _vary(x: np.ndarray, seed: int) -> np.ndarray:
    """Return an array with random changes, because equal rows would hide that they depend on each other."""
    if not dtypes.is_inexact(x.dtype):
        return x
    noise = np.random.default_rng(seed).standard_normal(x.shape)
    scale = float(np.abs(np.asarray(x, np.complex128)).max(initial=0.0)) or 1.0
    changed: np.ndarray = np.asarray(x * (1 + 0.1 * noise) + 0.01 * scale * np.abs(noise)).astype(x.dtype)
    return changed


def _free_size(closed: ClosedJaxpr) -> int:
    """Return an even number of rows such that neither it nor its half occurs in the program."""
    used: set[int] = set()

    def collect(program: ClosedJaxpr) -> None:
        for v in (*program.jaxpr.invars, *program.jaxpr.constvars):
            used.update(v.aval.shape)
        for e in program.eqns:
            for v in e.outvars:
                used.update(v.aval.shape)
            for s in subprograms(e) if e.primitive.subprograms else ():
                collect(s)

    collect(closed)
    return next(n for n in range(2 * _MIN_SIZE + 2, 4096, 2) if n not in used and n // 2 not in used)


def _is_close(found: np.ndarray, expected: np.ndarray) -> bool:
    if not dtypes.is_inexact(expected.dtype):
        return bool(np.array_equal(found, expected))
    wide = np.complex128 if dtypes.is_complex(expected.dtype) else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    tolerance = 64 * float(dtypes.finfo(expected.dtype).eps) ** 0.75
    scale = float(np.abs(b).max(initial=0.0))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale))
