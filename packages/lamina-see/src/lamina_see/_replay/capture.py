"""Wrap launches: write those that fail to files, and compare every n-th one with its NumPy evaluation (shadow mode)."""
from __future__ import annotations

import platform
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from lamina_ir import ClosedJaxpr, LaminaError, evaluate, has_host_callbacks, replay
from lamina_ir.extend import Placement
from lamina_ir.typing import Value
from lamina_tracing.extend import find_user_source
from lamina_runtime import Array, Launch, unwrap_launches, wrap_launches

from . import compare, settings
from .equations import drop_prints
from .errors import DifferenceError
from .locate import find_difference

__all__ = ["describe_placement", "set_enabled"]

_lock = threading.Lock()
_is_enabled = False
_counts: weakref.WeakKeyDictionary[ClosedJaxpr, int] = weakref.WeakKeyDictionary()  # launches in shadow mode
_written: weakref.WeakKeyDictionary[ClosedJaxpr, set[str]] = weakref.WeakKeyDictionary()  # kinds of failure in files
_number_of_files = 0
_warned: set[str] = set()


def set_enabled(value: bool) -> None:
    """Wrap launches from now on, or stop it."""
    global _is_enabled
    with _lock:
        if value and not _is_enabled:
            wrap_launches(_on_launch)
        elif _is_enabled and not value:
            unwrap_launches(_on_launch)
        _is_enabled = value


def _warn_once(text: str) -> None:
    if text not in _warned and len(_warned) < 256:
        _warned.add(text)
        _warn(text, UserWarning)


def _warn(text: str, kind: type[Warning]) -> None:
    """Warn at the line of the user that made the call."""
    line = find_user_source(2)
    warnings.warn_explicit(text, kind, "<unknown>" if line is None else line.file, 0 if line is None else line.line)


# --- launches ---------------------------------------------------------------------------------------------------------
def _on_launch(launch: Launch, run: Callable[[], list[Array]]) -> list[Array]:
    """Make a launch, and write it to a file if it fails."""
    every, program = settings.shadow_every.value, launch.program
    if program is None or not (every or settings.replay_folder.value is not None):
        return run()
    if launch.placement.local_devices or not all(_is_readable(x) for x in launch.arguments):
        _warn_once("lamina.replay: programs over several processes are neither written nor compared")
        return run()
    # A launch deletes donated arguments; copies on the device have the same placement.
    donated = launch.placement.donated or (False,) * len(launch.arguments)
    try:
        launch = launch._replace(arguments=[copy(x) if d and isinstance(x, Array) else x
                                            for x, d in zip(launch.arguments, donated)])
    except Exception as e:  # no memory for the copies
        _warn_once(f"lamina.replay: the donated arguments of `{launch.name}` could not be copied: {e}")
        return run()
    try:
        outs = run()
        for x in outs:
            x.block_until_ready()
    except Exception as e:
        kind = "nonfinite" if isinstance(e, FloatingPointError) else "error"
        _write(launch, _failure_of(e, kind), (), e)
        raise
    try:
        _examine(launch._replace(results=outs), program, every)
    except DifferenceError:
        raise
    except Exception as e:  # the call itself was right
        _warn_once(f"lamina.replay: a call of `{launch.name}` could not be examined: {type(e).__name__}: {e}")
    return outs


def _examine(launch: Launch, program: ClosedJaxpr, every: int) -> None:
    """Look for numbers that are not finite and for differences from NumPy, as the settings say."""
    if settings.replay_folder.value is not None and settings.replay_nonfinite.value:
        _check_finite(launch)
    if every:
        with _lock:
            count = _counts[program] = _counts.get(program, 0) + 1
        if count % every == 1 % every:
            _check_against_numpy(launch)


def _is_readable(x: Value) -> bool:
    return not isinstance(x, Array) or x.is_fully_addressable


def _failure_of(error: Exception, kind: str) -> replay.Failure:
    return replay.Failure(kind, f"{type(error).__name__}: {str(error)[:2000]}", replay.describe_error(error))


def _check_finite(launch: Launch) -> None:
    """Write a call whose results have a NaN or an infinity that no argument has."""
    kinds = [replay.nonfinite_kind(x) for x in launch.results]
    if not any(kinds) or any(replay.nonfinite_kind(x) for x in launch.arguments):
        return
    i, kind = next((i, k) for i, k in enumerate(kinds) if k)
    text = f"{launch.call} of `{launch.name}` gave {kind} in result {i}"
    path = _write(launch, replay.Failure("nonfinite", text), launch.results)
    if path is not None:
        _warn(f"{text}. {_hint(path)}", RuntimeWarning)


def _check_against_numpy(launch: Launch) -> None:
    """Raise DifferenceError if the results of a launch are not those of the NumPy evaluation."""
    assert launch.program is not None
    program = drop_prints(launch.program)
    if program.jaxpr.effectful or has_host_callbacks(program):
        return  # a callback would be called twice
    try:
        with np.errstate(all="ignore"):
            expected = evaluate(program, *map(np.asarray, launch.arguments))
    except LaminaError as e:
        _warn_once(f"lamina.replay: shadow mode cannot evaluate `{launch.name}` with NumPy: {e}")
        return
    if not any(compare.is_roughly_different(np.asarray(a), b) for a, b in zip(launch.results, expected)):
        return
    found = find_difference(program, launch.arguments, launch.results)
    if found is None:
        return
    text = f"{launch.call} of `{launch.name}`: the compiled program differs from its NumPy evaluation: {found.text()}"
    failure = replay.Failure("difference", text, ("DifferenceError", DifferenceError.code), found.eqn.primitive.name,
                             str(found.line or ""))
    path = _write(launch, failure, launch.results)
    raise DifferenceError(text if path is None else f"{text}. {_hint(path)}")


# --- files ------------------------------------------------------------------------------------------------------------
def _hint(path: Path) -> str:
    return f"The call is in {path}; run it with: python -m lamina replay {path} --shrink"


def _write(launch: Launch, failure: replay.Failure, results: Sequence[Value], error: Exception | None = None) -> Path | None:
    """Write a failed call to the folder, once for each program and kind of failure; return the file, or None."""
    global _number_of_files
    folder, program = settings.replay_folder.value, launch.program
    if folder is None or program is None or failure.kind in _written.setdefault(program, set()):
        return None
    if _number_of_files >= settings.replay_max_files.value:
        _warn_once(f"lamina.replay: {_number_of_files} files were written (replay_max_files); further calls are not written")
        return None
    try:
        arguments = [np.asarray(x, a.dtype) for x, a in zip(launch.arguments, program.in_avals)]
        failed = replay.FailedCall(launch.name, launch.call, program, arguments, failure,
                                   [np.asarray(x) for x in results], replay.settings_of_file(), _versions(),
                                   describe_placement(launch.placement))
        path = _free_path(Path(folder), launch.name, failure.kind)
        replay.save(path, failed)
    except Exception as e:  # the error of the call itself matters more than that of the file
        _warn_once(f"lamina.replay: a failed call of `{launch.name}` could not be written to {folder}: {e}")
        return None
    _number_of_files += 1
    _written[program].add(failure.kind)
    if error is not None:
        error.add_note(_hint(path))
    return path


def _free_path(folder: Path, name: str, kind: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"\W+", "_", name).strip("_")[:60] or "call"
    number = 1
    while True:
        path = folder / f"{stem}-{kind}-{number}.replay"
        try:
            path.open("xb").close()  # reserves the name, also against other processes
            return path
        except FileExistsError:
            number += 1


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    for name in ("lamina", "lamina-ir", "lamina-lowering", "lamina-runtime", "jaxlib", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass  # run from a source tree
    return found


def describe_placement(placement: Placement) -> dict[str, object]:
    """Return the part of a placement that a file stores; {} for one device."""
    if len(placement.devices) == 1:
        return {}
    return {"devices": [int(getattr(d, "id", i)) for i, d in enumerate(placement.devices)],
            "platform": str(getattr(placement.devices[0], "platform", "")),
            "in_tiles": [None if t is None else [list(t.counts), t.copies, list(t.order)] for t in placement.in_tiles],
            "one_member_per_device": placement.one_member_per_device}
