"""`see`: run a function and report on it."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from lamina_ir import trees
from lamina_ir.extend import lower_keys
from lamina_tracing import jit, make_jaxpr
from lamina_tracing.extend import find_user_source

from ._compilations import History
from ._equations import Sources
from ._function import compiled_function, read_module, traced_function
from ._measure import measure
from ._numbers.nonfinite import find_nonfinite, has_nonfinite
from ._placements import mesh_rows
from ._numbers.precision import measure_precision
from ._processes import agree_on_numbers, merge_timelines, process_count
from ._profile import Event
from ._progress import Progress, note_progress
from ._report import Report, empty_report
from ._runtime import has_runtime
from ._savings.find import MAX_EQUATIONS, find_savings

__all__ = ["history_rows", "kind_of", "see", "timeline_rows"]

Row = dict[str, Any]
_MAX_TIMELINE = 20_000
_SHARED_RUNS = 5  # of several processes, which must run the program equally often


def see(fun: Callable[..., Any], *, seconds: float = 0.5, savings: bool | None = None, nonfinite: bool = True,
        precision: bool = False) -> Callable[..., Report]:
    """Make a function that runs `fun` and returns a report on it, in place of its result.

    `fun` is compiled as its call would be, then run several times. Donated arguments are copied for each run, so the
    arguments stay valid. With several processes all of them must call it; process 0 returns the report of all.

    Args:
      fun: a function, also one made by `jit`, `pmap`, `xmap` or `shard_map`. Other functions are jitted.
      seconds: how long to run it, at least three times.
      savings: whether to compile variants, to find what donation or checkpoints would save; None: if the program has at
        most 300 equations, because each variant takes as long to compile as the program.
      nonfinite: whether to search for the first NaN or infinity, if a result has one. The function runs once more, operation
        by operation.
      precision: whether to compare each equation with 64 bits on the NumPy evaluator. That may take long.
    Returns:
      A function of the same arguments that returns a `Report`.
    Raises:
      TypeError: `fun` is not callable. Errors of `fun` itself are raised as they are.

    Ctrl-C ends the current phase, and the report has the facts until then. If stderr is a terminal, a line in it shows what
    is being done.

    >>> import numpy as np
    >>> from lamina_tracing import lax
    >>> report = see(lambda x: lax.tanh(lax.dot(x, x)))(np.ones((8, 8), np.float32))
    >>> [row["primitive"] for row in report.json()["functions"][0]["equations"]]
    ['dot_general', 'tanh']
    """
    if not callable(fun):
        raise TypeError(f"see: fun must be a function; got {type(fun).__name__}: {fun!r:.60}")
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds >= 0:
        raise ValueError(f"see: seconds must be a number of at least 0; got {seconds!r:.60}")

    @functools.wraps(fun, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def run_and_report(*args: Any, **kwargs: Any) -> Report:
        caller = find_user_source(1)
        with Progress():
            if not has_runtime():
                return _see_traced(fun, args, kwargs, caller)
            return _see_compiled(fun, args, kwargs, caller, seconds, savings, nonfinite, precision)

    return run_and_report


def _see_traced(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Row, caller: Any) -> Report:
    """Report on a function without a runtime."""
    sources, problems = Sources(), ["Times are unknown, because lamina-runtime is not installed."]
    with History() as history:
        closed = make_jaxpr(fun)(*args, **kwargs)
    names = _argument_names(fun, args, kwargs)
    row = traced_function(closed, getattr(fun, "__name__", "function"), sources, problems, argument_names=names,
                          defined=_definition(fun, sources), called=_place(caller, sources))
    report = empty_report("numpy")
    report.update(functions=[row], compilations=history_rows(history, sources), problems=problems)
    report["sources"] = sources.rows()
    return Report(report)


def _see_compiled(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Row, caller: Any, seconds: float,
                  savings: bool | None, nonfinite: bool, precision: bool) -> Report:
    from lamina_runtime import block_until_ready  # noqa: PLC0415 (absent on the NumPy-only install)
    from lamina_runtime.extend import compiled_program  # noqa: PLC0415
    sources = Sources()
    problems: list[str] = []
    call: Any = fun if hasattr(fun, "lower") and hasattr(fun, "trace") else jit(fun)
    first: Any = ()
    with History() as history:
        note_progress(f"tracing `{call.spec.name}`")
        traced = call.trace(*args, **kwargs)
        note_progress(f"compiling `{call.spec.name}`")
        compiled = traced.lower().compile()
    copy = _copier(args, kwargs, compiled.donate_argnums)
    copy()  # compiles the copy, which is no compilation of the user
    with history, _interruptible("The first run", problems):
        note_progress(f"running `{call.spec.name}`")
        first = block_until_ready(_call(call, copy))
    program, several = compiled_program(compiled), process_count() > 1
    module = read_module(program)
    measured, events, step = (None, list[Event](), (0.0, 0.0)) if problems else measure(
        lambda: block_until_ready(_call(call, copy)), module, seconds, _SHARED_RUNS if several else 0, problems)
    note_progress("reading the compiled program")
    plan = compiled.plan()
    closed = traced.program
    equation_rows: dict[int, int] = {}
    row = compiled_function(program, closed, sources, problems, kind=kind_of(program.call, closed), plan=plan,
                            donated=compiled.donate_argnums, measured=measured, module=module,
                            defined=_definition(fun, sources), called=_place(caller, sources), equation_rows=equation_rows)
    if row["memory"] is not None and _wants_savings(savings, row, problems):
        with _interruptible("The compilation of variants", problems):
            find_savings(program, closed, row, lambda: call.spec.split(*copy())[0], plan, problems)
    report = empty_report(_platform(program))
    report["functions"] = [row]
    report["devices"] = [{"id": d.id, "process": d.process_index, "kind": d.device_kind} for d in program.placement.devices]
    report["timeline"] = timeline_rows(events, step, row, 0, module, program)
    report["compilations"] = history_rows(history, sources)
    report["meshes"] = mesh_rows([plan.mesh])
    report["problems"] = problems
    kind = has_nonfinite(trees.tree_leaves(first)) if nonfinite else None
    kind, is_interrupted = agree_on_numbers(kind, _is_interrupted(problems))
    if (kind is not None or precision) and not is_interrupted:
        _add_numbers(report, closed, program, call.spec.split(*copy())[0], kind, precision, sources, equation_rows)
    report["sources"] = sources.rows()
    merge_timelines(report)
    return Report(report)


def _add_numbers(report: Row, closed: Any, program: Any, flat: Sequence[Any], kind: str | None, precision: bool,
                 sources: Sources, equation_rows: dict[int, int]) -> None:
    """Add the first NaN or infinity, and the errors against 64 bits. All processes must call this.

    Each process runs the program on the NumPy evaluator, with the whole arguments.
    """
    from lamina_runtime.extend import KeyArray, whole_value  # noqa: PLC0415 (absent on the NumPy-only install)
    problems = report["problems"]
    if program.placement.local_devices:
        problems.append("NaNs and precision are unknown, because each process passes the arguments of its own devices.")
        return
    note_progress("copying the arguments")
    # Random keys as the integers that they hold, which the NumPy evaluator takes.
    arguments = [whole_value(x.key_data if isinstance(x, KeyArray) else x) for x in flat]
    plain = lower_keys(closed)
    if kind is not None:
        note_progress("searching the first NaN or infinity")
        with _interruptible("The search of the first NaN or infinity", problems):
            report["nonfinite"] = find_nonfinite(plain, arguments, kind, sources, equation_rows, problems)
    if precision and not _is_interrupted(problems):
        report["precision"] = measure_precision(plain, arguments, sources, equation_rows, problems)


@contextmanager
def _interruptible(what: str, problems: list[str]) -> Iterator[None]:
    """Context that ends at an interrupt, so that the report has the facts until then."""
    try:
        yield
    except KeyboardInterrupt:
        problems.append(f"{what} was interrupted; the report has what is known until then.")


def _is_interrupted(problems: Sequence[str]) -> bool:
    return any(" interrupted" in text for text in problems)


def _wants_savings(savings: bool | None, row: Row, problems: list[str]) -> bool:
    if _is_interrupted(problems):
        return False
    if savings is None and len(row["equations"]) > MAX_EQUATIONS:
        problems.append(f"What donation and checkpoints would save was not computed for {len(row['equations'])} equations; "
                        "pass savings=True.")
        return False
    return savings is not False


def _call(call: Callable[..., Any], copy: Callable[[], tuple[tuple[Any, ...], Row]]) -> Any:
    args, kwargs = copy()
    return call(*args, **kwargs)


def _copier(args: tuple[Any, ...], kwargs: Row, donated: tuple[int, ...]) -> Callable[[], tuple[tuple[Any, ...], Row]]:
    """Return a function that returns the arguments, with new copies of donated arrays."""
    if not donated:
        return lambda: (args, kwargs)
    from lamina_runtime import block_until_ready  # noqa: PLC0415 (absent on the NumPy-only install)
    from lamina_runtime.extend import is_array  # noqa: PLC0415
    leaves, tree = trees.tree_flatten((args, kwargs))
    arrays = [x for x in leaves if is_array(x)]
    duplicate = jit(lambda xs: xs)  # on the devices, with the same shardings

    def copy() -> tuple[tuple[Any, ...], Row]:
        copies = iter(block_until_ready(duplicate(arrays)))
        made = trees.tree_unflatten(tree, [next(copies) if is_array(x) else x for x in leaves])
        return made[0], made[1]

    return copy


def kind_of(call: str, closed: Any) -> str:
    """Return the kind of a call: a jitted program that is one map counts as that map."""
    eqns = () if closed is None else closed.jaxpr.eqns
    names = {e.primitive.name for e in eqns if e.primitive.region_signature is not None
             and e.primitive.region_signature.axis_binding is not None}
    if call == "jit" and len(eqns) == 1 and len(names) == 1:
        [name] = names
        return {"xla_pmap": "pmap"}.get(name, name) if name in ("xla_pmap", "xmap", "shard_map") else "jit"
    return call if call in ("jit", "pmap", "xmap", "shard_map") else "eager" if call == "evaluation" else "jit"


def _platform(program: Any) -> str:
    return str(program.placement.devices[0].platform)


def _definition(fun: Callable[..., Any], sources: Sources) -> Row | None:
    """Return the line of the definition of a function."""
    spec = getattr(fun, "spec", None)
    inner = inspect.unwrap(getattr(spec, "fun", fun))
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)
    return sources.place(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else None


def _place(source: Any, sources: Sources) -> Row | None:
    return None if source is None else sources.place(source.file, source.line)


def _argument_names(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Row) -> list[str]:
    """Return the name of each flat argument, as `params['w']`."""
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"args[{i}]": x for i, x in enumerate(args)}
    return [f"{name}{trees.keystr(path)}" for name, value in bound.items()
            for path, _ in trees.tree_leaves_with_path(value)]


def history_rows(history: History, sources: Sources) -> list[Row]:
    """Return the rows on compilations, with lines as in the report."""
    found = []
    for row in history.rows:
        place = sources.place(row["file"], row["line"])
        found.append({"function": row["function"], "kind": row["kind"], **place,
                      **{key: value for key, value in row.items() if key not in ("function", "kind", "file", "line")}})
    return found


def timeline_rows(events: Any, step: tuple[float, float], row: Row, function: int, module: Any, program: Any) -> list[Row]:
    """Return the instructions of a step in the order of their starts, at most 20,000."""
    lines = {i["name"]: (i["source"], i["line"]) for i in (row["memory"] or {}).get("instructions", ())}
    from lamina_runtime import process_index  # noqa: PLC0415 (absent on the NumPy-only install)
    here = process_index()
    devices = [d for d in program.placement.visible_devices if d.process_index == here]
    by_id = {d.id: d for d in devices}
    rows = []
    for e in sorted(events, key=lambda e: e.start)[:_MAX_TIMELINE]:
        source, line = lines.get(e.name, (None, 0))
        # The profiler numbers the devices of one process from 0, and those of several processes by their ids.
        device = by_id.get(e.device) or devices[e.device if e.device < len(devices) else 0]
        rows.append({"process": device.process_index, "device": device.id, "function": function, "name": e.name,
                     "start": int(e.start - step[0]), "duration": int(e.end - e.start), "source": source, "line": line})
    return rows
