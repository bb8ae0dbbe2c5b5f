"""What donation and checkpoints would save: found by compiling the changed program and comparing XLA's own reports."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, inline_calls, prims

__all__ = ["MAX_EQUATIONS", "find_savings"]

Row = dict[str, Any]
MAX_EQUATIONS = 300  # of programs whose variants are compiled without being asked
_MAX_LINES = 2


def peak_of(program: Any) -> int:
    """Return the peak of a compiled program by XLA's report, in bytes on one device."""
    m = program.executable.get_compiled_memory_stats()
    return int(m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes)


def find_savings(program: Any, closed: ClosedJaxpr, row: Row, problems: list[str]) -> list[Row]:
    """Return the rows of changes that lower the peak, the largest first.

    Args:
      program: the `CompiledProgram`.
      closed: its program.
      row: the row of the function.
      problems: collects sentences on variants that could not be compiled.
    """
    from lamina_runtime.extend import compile_variant  # noqa: PLC0415 (absent on the NumPy-only install)
    before, found = peak_of(program), []
    for what, mask in _donations(program, row):
        try:
            changed = compile_variant(program, closed, donated=mask)
        except Exception as e:
            problems.append(f"What the donation of {what} would save is unknown, because compiling it raised "
                            f"{type(e).__name__}.")
            continue
        place = _argument_place(row, mask)
        found.append({"kind": "donate", "what": what, **place, "bytes": before - peak_of(changed),
                      "how": f"jit(..., donate_argnames={what!r}) if the caller does not read it after the call"})
    for line, changed_program in _checkpoints(closed, row):
        try:
            changed = compile_variant(program, changed_program)
        except Exception as e:
            problems.append(f"What a checkpoint of line {line['line']} would save is unknown, because compiling it raised "
                            f"{type(e).__name__}.")
            continue
        found.append({"kind": "checkpoint", "what": f"the values of line {line['line']}", "source": line["source"],
                      "line": line["line"], "bytes": before - peak_of(changed),
                      "how": "lamina.checkpoint around a function with this line, which is then computed twice"})
    return sorted([saving for saving in found if saving["bytes"] > 0], key=lambda saving: -saving["bytes"])


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
            groups.setdefault(name.partition("[")[0].partition(".")[0], []).append(i)
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


def _argument_place(row: Row, mask: Sequence[bool]) -> Row:
    value = row["values"][row["arguments"][list(mask).index(True)]]
    return {"source": value["source"], "line": value["line"]}


# --- checkpoints --------------------------------------------------------------------------------------------------
def _checkpoints(closed: ClosedJaxpr, row: Row) -> list[tuple[Row, ClosedJaxpr]]:
    """Return (line, program that computes the line again for the backward pass) of the lines with most bytes at the
    peak."""
    memory = row["memory"]
    if memory is None or not any(e["phase"] == "backward" for e in row["equations"]):
        return []
    at = memory["peak_at"]
    sizes: dict[tuple[int, int], int] = {}
    for b in memory["buffers"]:
        if b["kind"] == "temporary" and b["first"] <= at <= b["last"] and b["source"] is not None:
            sizes[b["source"], b["line"]] = sizes.get((b["source"], b["line"]), 0) + b["bytes"]
    flat = inline_calls(closed)
    found = []
    for source, line in sorted(sizes, key=lambda place: -sizes[place])[:_MAX_LINES]:
        changed = _recompute_line(flat, line, {e["line"] for e in row["equations"] if e["source"] == source})
        if changed is not None:
            found.append(({"source": source, "line": line}, changed))
    return found


def _is_forward(e: Eqn, line: int) -> bool:
    return e.source is not None and e.source.line == line and not e.source.part and not e.primitive.subprograms \
        and not e.primitive.effectful


def _recompute_line(closed: ClosedJaxpr, line: int, known_lines: set[int]) -> ClosedJaxpr | None:
    """Return a program in which backward equations read recomputed values of a line; None if they read none."""
    jaxpr = closed.jaxpr
    chosen = [e for e in jaxpr.eqns if _is_forward(e, line)] if line in known_lines else []
    made = {v for e in chosen for v in e.outvars}
    first = next((k for k, e in enumerate(jaxpr.eqns) if e.source is not None and e.source.part
                  and any(v in made for v in e.invars if isinstance(v, Var))), None)
    if first is None:
        return None
    chosen = [e for e in jaxpr.eqns[:first] if _is_forward(e, line)]
    made = {v for e in chosen for v in e.outvars}
    read = {v for e in jaxpr.eqns[first:] for v in e.invars if isinstance(v, Var)}
    wanted = [v for e in chosen for v in e.outvars if v in read]
    inputs = list(dict.fromkeys([v for e in chosen for v in e.invars if isinstance(v, Var) and v not in made]))
    inner: dict[Any, Var] = {v: Var(v.aval) for v in (*inputs, *made)}

    def copy(v: Any) -> Any:
        return v if isinstance(v, Literal) else inner[v]

    body = [Eqn(e.primitive, [copy(v) for v in e.invars], [inner[v] for v in e.outvars], e.params, e.source) for e in chosen]
    program = ClosedJaxpr(Jaxpr([], [inner[v] for v in inputs], body, [inner[v] for v in wanted]), [])
    again = {v: Var(v.aval) for v in wanted}
    call = Eqn(prims.remat_p, inputs, [again[v] for v in wanted],
               {"call_jaxpr": program, "differentiated": True, "name": f"line {line}", "policy": None, "prevent_cse": True},
               chosen[0].source)
    rest = [e.replace(invars=[again.get(v, v) if isinstance(v, Var) and e.source is not None and e.source.part else v
                              for v in e.invars]) for e in jaxpr.eqns[first:]]
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, [*jaxpr.eqns[:first], call, *rest], jaxpr.outvars),
                       closed.consts)
