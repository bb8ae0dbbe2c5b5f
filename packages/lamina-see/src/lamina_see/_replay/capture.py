"""Wrap launches: write those that fail to files, and compare every n-th one with its NumPy evaluation (shadow mode)."""
from __future__ import annotations

import platform
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from lamina_ir import ClosedJaxpr, LaminaError, Source, config, evaluate, has_host_callbacks, replay
from lamina_ir.extend import Placement
from lamina_ir.typing import Value
from lamina_tracing.extend import find_user_source, hide_frames_of
from lamina_runtime import Array, Launch, device_put, unwrap_launches, wrap_launches

from . import compare, settings, shadow
from .equations import drop_prints
from .errors import DifferenceError
from .locate import find_difference, host_value

__all__ = ["describe_placement", "set_enabled"]

hide_frames_of(str(Path(__file__).parents[1]))  # warnings are at the lines of the user

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


def _warn(text: str, kind: type[Warning], line: Source | None = None) -> None:
    """Warn at the line of the user that made the call; None: that of this thread."""
    line = find_user_source(2) if line is None else line
    warnings.warn_explicit(text, kind, "<unknown>" if line is None else line.file, 0 if line is None else line.line)


# --- launches ---------------------------------------------------------------------------------------------------------
def _on_launch(launch: Launch, run: Callable[[], list[Array]]) -> list[Array]:
    """Make a launch, write it to a file if it fails, and compare it with NumPy if it is its turn."""
    if shadow.is_comparing():
        return run()
    shadow.raise_found()
    program, every, keeps = launch.program, settings.shadow_every.value, settings.replay_folder.value is not None
    is_compared = program is not None and bool(every) and _is_turn(program, every)
    if program is None or not (keeps or is_compared):
        return run()
    if launch.placement.local_devices:
        _warn_once("lamina.replay: a `pmap` over several processes is neither written nor compared")
        return run()
    if _is_shared(launch):
        if keeps:
            _warn_once("lamina.replay: programs over several processes are not written")
        return _run_shared(launch, run) if is_compared else run()
    if is_compared and not settings.shadow_wait.value:
        is_compared = False
        if shadow.reserve():
            return _run_aside(launch, run, keeps)
    return _run_examined(launch, run, is_compared) if keeps or is_compared else run()


def _is_turn(program: ClosedJaxpr, every: int) -> bool:
    """Count a launch of a program; return whether it is the first or a further n-th one."""
    with _lock:
        count = _counts[program] = _counts.get(program, 0) + 1
    return count % every == 1 % every


def _run_examined(launch: Launch, run: Callable[[], list[Array]], is_compared: bool) -> list[Array]:
    """Make a launch, and examine it before it returns."""
    # A launch deletes donated arguments; copies on the device have the same placement.
    donated = launch.placement.donated or (False,) * len(launch.arguments)
    try:
        launch = launch._replace(arguments=[copy(x) if d and isinstance(x, Array) else x
                                            for x, d in zip(launch.arguments, donated)])
    except Exception as e:  # no memory for the copies
        _warn_once(f"lamina.replay: the donated arguments of `{launch.name}` could not be copied: {e}")
        return run()
    outs = _run_and_wait(launch, run)
    try:
        if settings.replay_folder.value is not None and settings.replay_nonfinite.value:
            _check_finite(launch._replace(results=outs))
        if is_compared:
            _check_against_numpy(launch._replace(results=outs))
    except DifferenceError:
        raise
    except Exception as e:  # the call itself was right
        _warn_once(f"lamina.replay: a call of `{launch.name}` could not be examined: {type(e).__name__}: {e}")
    return outs


def _run_and_wait(launch: Launch, run: Callable[[], list[Array]]) -> list[Array]:
    """Make a launch and wait for its results; if it fails, write it to a file."""
    try:
        outs = run()
        for x in outs:
            x.block_until_ready()
    except Exception as e:
        kind = "nonfinite" if isinstance(e, FloatingPointError) else "error"
        _write(launch, _failure_of(e, kind), (), e)
        raise
    return outs


def _run_aside(launch: Launch, run: Callable[[], list[Array]], keeps: bool) -> list[Array]:
    """Make a launch, and compare copies of its arguments and results in another thread."""
    is_submitted = False
    try:
        try:
            host = launch._replace(arguments=[np.array(x) for x in launch.arguments])
        except Exception as e:  # no memory for the copies
            _warn_once(f"lamina.replay: the arguments of `{launch.name}` could not be copied: {e}")
            return run()
        shardings = [x.sharding if isinstance(x, Array) else None for x in launch.arguments]
        outs = _run_examined(launch, run, False) if keeps else run()
        host = host._replace(results=[np.array(x) for x in outs])
        line = find_user_source(2)
        values = {**replay.settings_of_file(), "replay_folder": settings.replay_folder.value,
                  "replay_max_files": settings.replay_max_files.value}

        def place() -> list[Value]:
            return [x if s is None else device_put(x, s) for x, s in zip(host.arguments, shardings)]

        def compare() -> None:
            with ExitStack() as blocks:
                for name, value in values.items():
                    blocks.enter_context(config.options[name](value))
                _check_against_numpy(host, place)

        def note(error: Exception) -> None:
            text = str(error) if isinstance(error, DifferenceError) else (
                f"lamina.replay: a call of `{host.name}` could not be examined: {type(error).__name__}: {error}")
            _warn(text, RuntimeWarning, line)

        shadow.submit(compare, note)
        is_submitted = True
        return outs
    finally:
        if not is_submitted:
            shadow.release()


# --- several processes ------------------------------------------------------------------------------------------------
def _is_shared(launch: Launch) -> bool:
    """Return whether devices of several processes run a launch."""
    return len({getattr(d, "process_index", 0) for d in launch.placement.devices}) > 1


def _run_shared(launch: Launch, run: Callable[[], list[Array]]) -> list[Array]:
    """Make a launch over several processes, and compare it before it returns.

    Each process copies whole arguments and results and compares all of them. So all processes search the equation with the
    same launches.
    """
    donated = launch.placement.donated or (False,) * len(launch.arguments)
    arguments = [copy(x) if d and isinstance(x, Array) else x for x, d in zip(launch.arguments, donated)]
    outs = run()
    _check_against_numpy(launch._replace(arguments=arguments, results=outs))
    return outs


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


def _check_against_numpy(launch: Launch, place: Callable[[], list[Value]] | None = None) -> None:
    """Raise DifferenceError if the results of a launch are not those of the NumPy evaluation.

    Args:
      launch: the launch.
      place: returns its arguments on the devices; None: they are there.
    """
    assert launch.program is not None
    program = drop_prints(launch.program)
    if program.jaxpr.effectful or has_host_callbacks(program):
        return  # a callback would be called twice
    try:
        with np.errstate(all="ignore"):
            expected = evaluate(program, *map(host_value, launch.arguments))
    except LaminaError as e:
        _warn_once(f"lamina.replay: shadow mode cannot evaluate `{launch.name}` with NumPy: {e}")
        return
    if not any(compare.is_roughly_different(host_value(a), b) for a, b in zip(launch.results, expected)):
        return
    found = find_difference(program, launch.arguments if place is None else place(), launch.results)
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
        arguments = [np.asarray(host_value(x), a.dtype) for x, a in zip(launch.arguments, program.in_avals)]
        failed = replay.FailedCall(launch.name, launch.call, program, arguments, failure,
                                   [host_value(x) for x in results], replay.settings_of_file(), _versions(),
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
