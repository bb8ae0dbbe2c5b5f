"""The default runtime, with a record of every launch: the program, its arguments and its results.

Each launch, also of eager primitives and repeated calls, is stored as a `Record` among the latest `LAMINA_RECORDS`
(256). A small one is checked immediately: the NumPy evaluation of the program on the same arguments must give the same
results, or the call raises `LaunchDiffers`. Records can be saved to a file and replayed later, in another process, by
the default runtime, by NumPy or by another runtime.

Launches that cannot be checked are counted in `unchecked`, by reason: donated arguments, effects, maps over other
processes' devices, random bits of the compiler, more than `LAMINA_CHECK_SIZE` numbers.
"""
from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import lamina_runtime._default as _default_runtime
import numpy as np
from lamina_ir import ClosedJaxpr, ShapedArray, dtypes, dumps, eqn_has_effects, evaluate, loads, walk
from lamina_ir.extend import has_keys
from lamina_ir.testing import tolerance
from lamina_runtime._default import *

__all__ = [*_default_runtime.__all__]
__contract__ = 1
__version__ = "0.1.0"

MAX_RECORDS = int(os.environ.get("LAMINA_RECORDS", "256"))
CHECK_SIZE = int(os.environ.get("LAMINA_CHECK_SIZE", "4096"))


class LaunchDiffers(AssertionError):
    """A compiled program and the NumPy evaluator gave different results."""


class Record(NamedTuple):
    """One launch: the call (`jit of f`), the program, its flat arguments and results as NumPy arrays. None: PRNG keys,
    donated arrays, and arrays of several processes."""

    call: str
    program: ClosedJaxpr
    arguments: tuple[np.ndarray | None, ...]
    results: tuple[np.ndarray | None, ...]


records: deque[Record] = deque(maxlen=MAX_RECORDS)
counts: Counter[str] = Counter()  # launches, and the number of checked ones
unchecked: Counter[str] = Counter()  # reason -> launches


def __getattr__(name: str) -> Any:
    return getattr(_default_runtime, name)  # submodules that are imported at first use


def _on_host(x: Any, aval: ShapedArray) -> np.ndarray | None:
    if dtypes.is_key(aval.dtype) or getattr(x, "is_deleted", bool)() or not getattr(x, "is_fully_addressable", True):
        return None
    return np.array(x, aval.dtype)


def _why_unchecked(record: Record) -> str | None:
    """Return why a launch cannot be computed again with NumPy, or None."""
    if any(x is None for x in (*record.arguments, *record.results)):
        return "keys, donated arrays, or those of several processes"
    if sum(x.size for x in (*record.arguments, *record.results)) > CHECK_SIZE:
        return "large"
    if record.program.jaxpr.axis_names:
        return "part of a map"
    if has_keys(record.program):
        return "keys inside"
    for e in walk(record.program):
        if eqn_has_effects(e) or e.primitive.family == "callbacks":
            return "effects"
        if e.params.get("global_axis_size") not in (None, e.params.get("axis_size")):
            return "rows of other processes"
        if e.primitive.name in ("rng_bit_generator", "rng_uniform"):
            return "the compiler's random bits"
        if e.primitive.family in ("factorizations", "control"):
            return e.primitive.family  # signs and order of vectors are not unique; loops are slow in Python
    return None


def _differs(found: Any, expected: Any) -> bool:
    """Return whether two results differ by more than the rounding errors of a few hundred operations."""
    a, b = np.asarray(found), np.asarray(expected)
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if not dtypes.is_inexact(a.dtype):
        return bool(np.any(a != b))
    wide = np.complex128 if dtypes.is_complex(a.dtype) else np.float64
    size = float(np.max(np.abs(b.astype(wide)), initial=0, where=np.isfinite(b.astype(wide))))
    slack = 100 * tolerance(a.dtype)
    return not np.allclose(a.astype(wide), b.astype(wide), rtol=slack, atol=slack * (1 + size), equal_nan=True)


def check(record: Record) -> None:
    """Compute a launch again with the NumPy evaluator. Raises LaunchDiffers if a result differs."""
    with np.errstate(all="ignore"):
        expected = evaluate(record.program, *record.arguments)
    for i, (found, wanted) in enumerate(zip(record.results, expected)):
        if _differs(found, wanted):
            raise LaunchDiffers(f"{record.call}: result {i} is\n{found}\nand by the NumPy evaluator\n{wanted}\n"
                                f"{record.program}")


def _record(launch: Launch) -> None:
    if launch.program is None:
        return
    program = launch.program
    made = Record(f"{launch.call} of {launch.name}", program, tuple(map(_on_host, launch.arguments, program.in_avals)),
                  tuple(map(_on_host, launch.results, program.out_avals)))
    records.append(made)
    counts["launches"] += 1
    why = _why_unchecked(made)
    if why is not None:
        unchecked[why] += 1
        return
    counts["checked"] += 1
    check(made)


def save(path: Any, which: Iterable[Record] | None = None) -> int:
    """Write records, all by default, to a `.npz` file, except those with missing arrays. Return the number of records
    written."""
    whole = [r for r in (records if which is None else which) if all(x is not None for x in (*r.arguments, *r.results))]
    arrays: dict[str, Any] = {}
    for i, r in enumerate(whole):
        arrays[f"{i}/call"] = np.array([r.call, str(len(r.arguments))])
        arrays[f"{i}/program"] = np.frombuffer(dumps(r.program), np.uint8)
        for j, x in enumerate((*r.arguments, *r.results)):
            arrays[f"{i}/{j}"] = np.frombuffer(x.tobytes(), np.uint8)
    np.savez_compressed(path, **arrays)
    return len(whole)


def load(path: Any) -> list[Record]:
    """Return the records of a file."""
    found = []
    with np.load(path) as file:
        for i in range(sum(name.endswith("/program") for name in file.files)):
            program = loads(file[f"{i}/program"].tobytes())
            call, n = file[f"{i}/call"]
            avals = [*program.in_avals, *program.out_avals]
            values = [np.frombuffer(file[f"{i}/{j}"].tobytes(), a.dtype).reshape(a.shape) for j, a in enumerate(avals)]
            found.append(Record(str(call), program, tuple(values[:int(n)]), tuple(values[int(n):])))
    return found


def replay(which: Sequence[Record], run: Any = None) -> list[int]:
    """Run records again.

    Args:
      which: the records.
      run: `run(program, *arguments) -> results`; default: compiled again by the default runtime, as one jitted call
        each.
    Returns:
      The indices of the records whose results differ.
    """
    from lamina_tracing import jit  # not needed for recording
    from lamina_tracing.extend import jaxpr_as_fun

    run = run or (lambda program, *arguments: jit(jaxpr_as_fun(program))(*arguments))
    return [i for i, r in enumerate(which) if any(map(_differs, run(r.program, *r.arguments), r.results))]


watch_launches(_record)
