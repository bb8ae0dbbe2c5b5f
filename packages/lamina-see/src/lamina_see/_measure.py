"""Run a compiled call and record the times of its instructions."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ._function import Measured
from ._hlo import Module
from ._profile import STEP, Event, divide_step, read_events
from ._progress import note_progress

__all__ = ["choose_step", "measure", "profile_options"]

MIN_RUNS, MAX_RUNS = 3, 30
_MAX_EVENTS = 1_000_000  # of one recording; more fill the recorder's memory


def profile_options() -> Any:
    """Return the options of a recording: instructions, without Python calls."""
    from lamina_runtime import profiler  # noqa: PLC0415 (absent on the NumPy-only install)
    options = profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 2
    return options


def measure(run: Callable[[], object], module: Module, seconds: float, fixed_runs: int,
            problems: list[str]) -> tuple[Measured | None, list[Event], tuple[float, float]]:
    """Run a call until the time is over, at least three times, and return its times.

    Args:
      run: runs the call and waits for its results.
      module: the compiled module.
      seconds: how long to measure.
      fixed_runs: the number of runs, which several processes must agree on; 0: as many as fit.
      problems: collects sentences on what is unknown.
    Returns:
      The times of the median run, its instructions, and its start and end. The first is None if no run ended.
    """
    from lamina_runtime import profiler  # noqa: PLC0415 (absent on the NumPy-only install)
    runs = 0
    try:
        with profiler.record(profiler_options=profile_options()) as recording:
            try:
                start = time.perf_counter()
                while runs < (fixed_runs or MIN_RUNS) or (not fixed_runs and runs < MAX_RUNS
                                                          and time.perf_counter() - start < seconds):
                    note_progress("measuring", f"step {runs + 1}" + (f" of {fixed_runs}" if fixed_runs else ""))
                    with profiler.TraceAnnotation(STEP):
                        run()
                    runs += 1
            except KeyboardInterrupt:
                problems.append(f"Measuring was interrupted after {runs} runs.")
    except RuntimeError as e:
        if "already being recorded" not in str(e):
            raise
        problems.append("Times are unknown, because another profile is being recorded.")
        return None, [], (0.0, 0.0)
    found = choose_step(read_events(recording.serialized), module, runs)
    if found[0] is None and runs:
        problems.append("Times are unknown, because the profiler recorded no instructions.")
    return found


def choose_step(events: Sequence[Event], module: Module, runs: int) -> tuple[Measured | None, list[Event],
                                                                              tuple[float, float]]:
    """Return the times of the median step of a recording, its instructions, and its start and end."""
    steps = sorted([e for e in events if e.kind == "step"], key=lambda e: e.end - e.start)[:runs]
    own = [e for e in events if e.kind == "instruction" and e.module == module.name]
    if not steps or not own:
        return None, [], (0.0, 0.0)
    chosen = steps[(len(steps) - 1) // 2]
    # A profile has finite buffers, so that the median step may lack events: then another one is taken.
    for step in (chosen, *steps):
        ops = [e for e in own if step.start <= e.start < step.end]
        if ops:
            chosen = step
            break
    transfers = [e for e in events if e.kind == "transfer" and chosen.start <= e.start < chosen.end]
    times = divide_step((chosen.start, chosen.end), ops, transfers, module)
    return Measured(chosen.end - chosen.start, len(steps), times), ops, (chosen.start, chosen.end)
