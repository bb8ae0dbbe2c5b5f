"""What donation, checkpoints, chunks and placements would save, by XLA's own reports on the changed programs."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, inline_calls, prims
from lamina_ir.extend import Tiles

from .._progress import note_progress
from .chunks import ChunkError, check_chunks, choose_axis, chunk_program, dims_of, divisors

__all__ = ["MAX_EQUATIONS", "Variant", "describe_chunks", "find_savings", "find_variants", "peak_of"]

Row = dict[str, Any]
MAX_EQUATIONS = 300  # of programs whose variants are compiled without being asked
_UNNAMED = "arguments"  # whose names are unknown
_MAX_FUNCTIONS = 2
_MAX_ARGUMENTS, _MAX_AXES = 2, 2  # whose placement is changed
_PARTS = 8  # of an axis, at least
_SIGNIFICANT = 0.1  # of the peak: smaller values are left as they are


def peak_of(program: Any) -> int:
    """Return the peak of a compiled program by XLA's report, in bytes on one device."""
    m = program.executable.get_compiled_memory_stats()
    return int(m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes)


def find_savings(program: Any, closed: ClosedJaxpr, row: Row, arguments: Callable[[], Sequence[Any]], plan: Any,
                 problems: list[str]) -> None:
    """Fill `savings` of the memory of a function with the changes that lower the peak, the largest first.

    Args:
      program: the `CompiledProgram`.
      closed: its program.
      row: the row of the function.
      arguments: returns its flat arguments.
      plan: its `Plan`.
      problems: collects sentences on variants that could not be compiled.
    """
    found = row["memory"]["savings"]
    before = peak_of(program)
    note_progress("preparing variants")
    variants = list(find_variants(program, closed, row, arguments, plan, problems))
    for k, variant in enumerate(variants, 1):
        note_progress("compiling variants,", f"{k} of {len(variants)}")
        try:
            saved = before - peak_of(variant.compile())
        except Exception as e:
            problems.append(f"What {variant.title} would save is unknown, because compiling it raised {type(e).__name__}.")
            continue
        others = [s for s in found if (s["kind"], s["what"]) == (variant.kind, variant.what)]
        if saved > max([s["bytes"] for s in others], default=0):
            found[:] = [s for s in found if s not in others]
            found.append({"kind": variant.kind, "what": variant.what, **variant.place, "bytes": saved, "how": variant.how})
        found.sort(key=lambda saving: -saving["bytes"])


class Variant(NamedTuple):
    """A change of a program.

    Attributes:
      kind, what, place, how: as in the row of the report.
      title: the change, for sentences.
      compile: compiles the changed program.
    """

    kind: str
    what: str
    place: Row
    how: str
    title: str
    compile: Callable[[], Any]


def find_variants(program: Any, closed: ClosedJaxpr, row: Row, arguments: Callable[[], Sequence[Any]], plan: Any,
                  problems: list[str], parts: Sequence[int] = ()) -> Iterator[Variant]:
    """Yield the changes of a program that may lower its peak, the smallest change of the program first.

    Args:
      program, closed, row, arguments, problems: as for `find_savings`.
      plan: its `Plan`; None: mesh axes have no names.
      parts: into how many parts an axis is divided; (): about 8.
    """
    from lamina_runtime.extend import compile_variant  # noqa: PLC0415 (absent on the NumPy-only install)
    for what, mask in _donations(program, row):
        how = "donate the arguments that have the type of a result (donate_argnums)" if what == _UNNAMED else (
            f"jit(..., donate_argnames={what!r})")
        yield Variant("donate", what, _argument_place(row, mask), f"{how} if the caller does not read it after the call",
                      f"the donation of {what}", partial(compile_variant, program, closed, donated=mask))
    for name, place, changed in _checkpoints(closed, row):
        yield Variant("checkpoint", name, place, f"lamina.checkpoint({name}), whose values are then computed twice",
                      f"a checkpoint of `{name}`", partial(compile_variant, program, changed))
    yield from _chunk_variants(program, closed, row, arguments, parts, problems)
    yield from _placement_variants(program, closed, row, plan)


# --- chunks -------------------------------------------------------------------------------------------------------
def _chunk_variants(program: Any, closed: ClosedJaxpr, row: Row, arguments: Callable[[], Sequence[Any]],
                    parts: Sequence[int], problems: list[str]) -> Iterator[Variant]:
    """Yield the programs that compute the axis of most live bytes in parts."""
    memory = row["memory"]
    if memory is None:
        return
    at = memory["peak_at"]
    live = [b for b in memory["buffers"] if b["first"] <= at <= b["last"] and b["kind"] == "temporary"]
    inside = [(dims_of(b["type"]), b["bytes"]) for b in live]
    size = choose_axis(inside, [dims_of(row["values"][k]["type"]) for k in row["arguments"]])
    if size is None or sum([n for dims, n in inside if size in dims]) < _SIGNIFICANT * memory["peak"]:
        return
    from lamina_runtime.extend import compile_variant  # noqa: PLC0415 (absent on the NumPy-only install)
    what = f"axis of size {size:,}"
    largest = max([b for b in live if size in dims_of(b["type"])], key=lambda b: b["bytes"])
    place = {"source": largest["source"], "line": largest["line"]}
    try:
        if len(program.placement.devices) > 1:
            raise ChunkError("the program runs on several devices")
        check_chunks(closed, size, arguments())
        for k in parts or [next((k for k in divisors(size) if k >= _PARTS), size)]:
            yield Variant("chunk", what, place, describe_chunks(size, k), f"computing the {what} in {k} parts",
                          partial(compile_variant, program, chunk_program(closed, size, k)))
    except ChunkError as e:
        problems.append(f"What computing the {what} in parts would save is unknown, because {e}.")


def describe_chunks(size: int, parts: int) -> str:
    """Return how an axis is computed in parts."""
    return (f"compute the axis of size {size:,} in {parts:,} parts: SerialLoop({parts}) as its resource in xmap, or "
            f"lax.map(..., batch_size={size // parts}); sums over it are added up")


# --- placements ---------------------------------------------------------------------------------------------------
def _placement_variants(program: Any, closed: ClosedJaxpr, row: Row, plan: Any) -> Iterator[Variant]:
    """Yield the programs in which a large argument that each device holds as a whole is split over the devices."""
    placement = program.placement
    n = placement.partitions
    if n == 1 or placement.local_devices or row["memory"] is None:
        return
    from lamina_runtime.extend import compile_variant  # noqa: PLC0415 (absent on the NumPy-only install)
    tiles = [s.tiles for s in program.in_shardings[:len(program.in_avals)]]
    whole = [k for k, (t, used) in enumerate(zip(tiles, program.used_args)) if t.is_replicated and used]
    sizes = {k: row["values"][row["arguments"][k]]["bytes"] for k in whole}
    for k in sorted(whole, key=lambda k: -sizes[k])[:_MAX_ARGUMENTS]:
        value, shape = row["values"][row["arguments"][k]], program.in_avals[k].shape
        names = ["<axes>"] if plan is None else [repr(name) for name in plan.mesh.axis_names]
        axes = names[0] if len(names) == 1 else f"({', '.join(names)})"
        divisible = [d for d in range(len(shape)) if shape[d] % n == 0]
        for axis in divisible[:_MAX_AXES] if sizes[k] >= _SIGNIFICANT * row["memory"]["peak"] else ():
            split = Tiles(tuple([n if d == axis else 1 for d in range(len(shape))]))
            yield Variant("placement", value["name"], {"source": value["source"], "line": value["line"]},
                          f"device_put({value['name']}, NamedSharding(mesh, P({'None, ' * axis}{axes}))) splits dimension "
                          f"{axis} over {n} devices, which then exchange it", f"splitting {value['name']} over the devices",
                          partial(compile_variant, program, closed, in_tiles=[*tiles[:k], split, *tiles[k + 1:]]))


# --- donation -----------------------------------------------------------------------------------------------------
def _donations(program: Any, row: Row) -> list[tuple[str, tuple[bool, ...]]]:
    """Return (argument, mask of donated flat arguments) of each argument of which parts have the type of a result."""
    n = len(program.in_avals)
    already = tuple(program.placement.donated) or (False,) * n
    free: dict[tuple[Any, Any], int] = {}
    for aval in program.out_avals:
        free[aval.shape, aval.dtype] = free.get((aval.shape, aval.dtype), 0) + 1
    groups: dict[str, list[int]] = {}
    for i, (aval, used) in enumerate(zip(program.in_avals, program.used_args)):
        if already[i]:
            free[aval.shape, aval.dtype] = free.get((aval.shape, aval.dtype), 0) - 1
        elif used and free.get((aval.shape, aval.dtype), 0) > 0 and i < len(row["arguments"]):
            name = str(row["values"][row["arguments"][i]]["name"])
            groups.setdefault(_argument_of(name), []).append(i)
    found = []
    for name, members in groups.items():
        left, mask = dict(free), list(already)
        for i in members:
            key = program.in_avals[i].shape, program.in_avals[i].dtype
            if left.get(key, 0) > 0:
                left[key] -= 1
                mask[i] = True
        found.append((name, tuple(mask)))
    return found[:4]


def _argument_of(name: str) -> str:
    """Return the argument of the function that a flat argument is a part of."""
    if re.fullmatch(r"argument \d+", name):
        return _UNNAMED
    return name.partition("[")[0].partition(".")[0]


def _argument_place(row: Row, mask: Sequence[bool]) -> Row:
    value = row["values"][row["arguments"][list(mask).index(True)]]
    return {"source": value["source"], "line": value["line"]}


# --- checkpoints --------------------------------------------------------------------------------------------------
def _checkpoints(closed: ClosedJaxpr, row: Row) -> list[tuple[str, Row, ClosedJaxpr]]:
    """Return (function, line, changed program) of the user's functions with most bytes at the peak.

    In the changed program, the backward equations of each call of the function recompute its forward ones.
    """
    memory = row["memory"]
    if memory is None or not any(e["phase"] == "backward" for e in row["equations"]):
        return []
    at, flat = memory["peak_at"], inline_calls(closed)
    functions: dict[int, tuple[str, str]] = {}  # line -> (file, function); lines of one file are enough to rank functions
    for e in flat.jaxpr.eqns:
        if e.source is not None:
            functions.setdefault(e.source.line, (e.source.file, e.source.function))
    sizes: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, str], Row] = {}
    for b in memory["buffers"]:
        if b["kind"] == "temporary" and b["first"] <= at <= b["last"] and b["line"] in functions:
            key = functions[b["line"]]
            sizes[key] = sizes.get(key, 0) + b["bytes"]
            places.setdefault(key, {"source": b["source"], "line": b["line"]})
    found = []
    for key in sorted(sizes, key=lambda k: -sizes[k])[:_MAX_FUNCTIONS]:
        changed = _recompute_function(flat, key)
        if changed is not None:
            found.append((key[1], places[key], changed))
    return found


def _is_of(e: Eqn, key: tuple[str, str]) -> bool:
    return (e.source is not None and (e.source.file, e.source.function) == key and not e.primitive.subprograms
            and not e.primitive.effectful)


def _recompute_function(closed: ClosedJaxpr, key: tuple[str, str]) -> ClosedJaxpr | None:
    """Return a program in which each call of a function is checkpointed; None if no backward equation reads its values."""
    jaxpr = closed.jaxpr
    eqns = list(jaxpr.eqns)
    calls: list[list[Eqn]] = []
    position = {id(e): k for k, e in enumerate(eqns)}
    before, last = -2, -1
    for k, e in enumerate(eqns):
        if _is_of(e, key) and not e.source.part:  # type: ignore[union-attr]
            # The code of a call goes forward, so an earlier instruction begins the next call.
            if k != before + 1 or e.source.lasti < last:  # type: ignore[union-attr]
                calls.append([])
            calls[-1].append(e)
            before, last = k, e.source.lasti  # type: ignore[union-attr]
    maker = {v: k for k, call in enumerate(calls) for e in call for v in e.outvars}
    changed: dict[int, Eqn | None] = {}
    for part, sources in _backward_parts(eqns, key, maker):
        again = [e for k in sorted(sources) for e in calls[k]]
        changed.update(dict.fromkeys([position[id(e)] for e in part]))
        own = {id(e) for e in part}
        read = {v for e in eqns if id(e) not in own for v in e.invars if isinstance(v, Var)}
        read.update([v for v in jaxpr.outvars if isinstance(v, Var)])
        changed[position[id(part[0])]] = _remat(again, part, [v for e in part for v in e.outvars if v in read], key[1])
    if not changed:
        return None
    made = [changed.get(k, e) for k, e in enumerate(eqns)]
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, [e for e in made if e is not None], jaxpr.outvars), closed.consts)


def _backward_parts(eqns: Sequence[Eqn], key: tuple[str, str], maker: dict[Var, int]) -> list[tuple[list[Eqn], set[int]]]:
    """Return the backward equations of each call, with the calls whose values they read."""
    parts: list[tuple[list[Eqn], set[int]]] = []
    before, current = -2, -1
    for k, e in enumerate(eqns):
        if not (_is_of(e, key) and e.source.part):  # type: ignore[union-attr]
            continue
        call = max([maker[v] for v in e.invars if isinstance(v, Var) and v in maker], default=current)
        if k != before + 1 or call != current:
            parts.append(([], set()))
        parts[-1][0].append(e)
        parts[-1][1].update([maker[v] for v in e.invars if isinstance(v, Var) and v in maker])
        before, current = k, call
    return [(part, sources) for part, sources in parts if sources]


def _remat(again: Sequence[Eqn], part: Sequence[Eqn], results: list[Var], name: str) -> Eqn:
    """Return the equation that computes `again` once more, and then the backward equations `part`."""
    made = {v for e in (*again, *part) for v in e.outvars}
    inputs = list(dict.fromkeys([v for e in (*again, *part) for v in e.invars if isinstance(v, Var) and v not in made]))
    inner: dict[Any, Var] = {v: Var(v.aval) for v in (*inputs, *made)}
    body = [Eqn(e.primitive, [v if isinstance(v, Literal) else inner[v] for v in e.invars], [inner[v] for v in e.outvars],
                e.params, e.source) for e in (*again, *part)]
    program = ClosedJaxpr(Jaxpr([], [inner[v] for v in inputs], body, [inner[v] for v in results]), [])
    params = {"call_jaxpr": program, "differentiated": True, "name": name, "policy": None, "prevent_cse": True}
    return Eqn(prims.remat_p, inputs, results, params, again[0].source)
