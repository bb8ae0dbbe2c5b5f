"""Run a program and report on every function that it compiles."""
from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import CodeType
from typing import Any

from lamina_ir import config
from lamina_tracing.extend import Staging, argument_path

from ._compilations import History
from ._equations import Sources
from ._function import Measured, compiled_function, read_module
from ._hlo import Module
from ._measure import profile_options
from ._placements import plan_of_program
from ._profile import Event, divide_step, read_events
from ._progress import Progress, note_progress
from ._report import Report, empty_report
from ._see import history_rows, kind_of, timeline_rows

__all__ = ["run_program"]

Row = dict[str, Any]
_MAX_WINDOWS = 8
_MAX_FUNCTIONS = 200
_POLL = 0.05  # seconds
_RECORDED = frozenset(("convolution", "dot", "fusion", "sort", "while"))  # opcodes of instructions with events on a CPU
_INTERRUPTED = 130  # exit status
_QUICKLY_READ = 16 << 20  # bytes of a profile that are read in some seconds


class _Recorder:
    """Records profiles in windows of some seconds, which begin with a compilation.

    Args:
      seconds: the length of a window.

    Attributes:
      recordings: the profiles.
      problems: sentences on what was not recorded.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._stack: ExitStack | None = None
        self._timer: threading.Timer | None = None
        self._windows = 0
        self.recordings: list[Any] = []
        self.problems: list[str] = []

    def note_program(self) -> None:
        """Begin a window before the first launch of a new program, if none is open."""
        from lamina_runtime import profiler  # noqa: PLC0415 (absent on the NumPy-only install)
        with self._lock:
            if self._stack is not None or self._windows >= _MAX_WINDOWS:
                return
            stack = ExitStack()
            try:
                recording = stack.enter_context(profiler.record(profiler_options=profile_options()))
            except RuntimeError as e:
                if not self.problems:
                    self.problems.append(f"Times are unknown for a part of the program, because {e}.")
                return
            stack.callback(lambda: self.recordings.append(recording))
            self._stack = stack
            self._windows += 1
            self._timer = threading.Timer(self._seconds, self.close)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """End the window."""
        with self._lock:
            stack, self._stack = self._stack, None
            if self._timer is not None:
                self._timer.cancel()
            if stack is not None:
                stack.close()


def run_program(program: str, arguments: Sequence[str], *, is_module: bool = False, seconds: float = 3.0,
                level: str | None = None) -> tuple[Report, int]:
    """Run a file or a module as `__main__`; return the report and the exit status of the program.

    Args:
      program: the file or module.
      arguments: of the program.
      is_module: whether it is a module.
      seconds: how long times are measured after a compilation.
      level: the release of JAX whose interface is offered as `jax`; None: none.
    """
    import lamina_runtime  # noqa: F401, PLC0415 (the hooks come first; absent on the NumPy-only install)
    if level is not None:
        from lamina_compat import as_jax  # noqa: PLC0415 (only for programs written for JAX)
        as_jax(level)
    sources = Sources()
    problems: list[str] = []
    sys.argv = [program, *arguments]
    # The instructions in the profile must be those of the programs that are reported.
    recorder = _Recorder(seconds)
    with History(on_program=recorder.note_program) as history, config.options["compile_tiers"]("optimized"):
        Progress().announce(f"running {program}; Ctrl-C ends it and reports what ran until then")
        status = _run(lambda: _execute(program, is_module), problems)
        if status != _INTERRUPTED:  # what was interrupted may never end
            _wait_for_devices()
        recorder.close()
    with Progress():
        report = _make_report(history, recorder, sources, problems)
    report["command"] = " ".join(["python -m lamina see", program, *arguments])
    if not history.programs:
        problems.append(f"{program} compiled no function, so there is nothing to report.")
    report["sources"] = sources.rows()
    return Report(report), status


def _execute(program: str, is_module: bool) -> None:
    if is_module:
        sys.path.insert(0, "")
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
        runpy.run_path(program, run_name="__main__")


def _run(execute: Callable[[], None], problems: list[str]) -> int:
    """Run the program; return its exit status."""
    try:
        execute()
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        problems.append("The program was interrupted; the report has what ran until then.")
        return _INTERRUPTED
    except BaseException as e:
        own = (__file__, runpy.__file__, "<frozen runpy>")
        while e.__traceback__ is not None and e.__traceback__.tb_frame.f_code.co_filename in own:
            e.__traceback__ = e.__traceback__.tb_next
        sys.excepthook(type(e), e, e.__traceback__)
        problems.append(f"The program raised {type(e).__name__}; the report has what ran until then.")
        return 1
    return 0


def _wait_for_devices() -> None:
    """Give launches that still run a moment to end, so that the profile has them."""
    from lamina_runtime import effects_barrier  # noqa: PLC0415 (absent on the NumPy-only install)
    try:
        effects_barrier()
    except Exception:
        pass
    time.sleep(_POLL)


def _make_report(history: History, recorder: _Recorder, sources: Sources, problems: list[str]) -> Row:
    problems += recorder.problems
    programs = history.programs
    if len(programs) > _MAX_FUNCTIONS:
        problems.append(f"{len(programs)} functions were compiled; the report has the first {_MAX_FUNCTIONS}.")
        programs = programs[:_MAX_FUNCTIONS]
    events = _read_recordings(recorder.recordings, problems)
    modules = [read_module(program) for program, _ in programs]
    runs = _assign_runs(events, modules)
    transfers = [e for e in events if e.kind == "transfer"]
    made: list[tuple[Row, list[Event], tuple[float, float], Module, Any]] = []
    for k, ((program, staging), module, own) in enumerate(zip(programs, modules, runs), 1):
        note_progress("reading compiled programs,", f"{k} of {len(programs)}")
        complete = _complete_runs(own, module, program.placement.devices[0].platform == "cpu")
        measured, ops, step = _median_run(complete, transfers, module)
        row = _function_row(program, staging, module, measured, sources, problems)
        made.append((row, ops, step, module, program))
    unmeasured = Counter([row["name"] for row, *_ in made if row["step"] is None])
    if unmeasured:
        names = [name if count == 1 else f"{count} programs of {name}" for name, count in unmeasured.items()]
        problems.append(f"Times are unknown for {', '.join(names[:8])}{' and others' * (len(names) > 8)}, which ran outside of "
                        "the measured time.")
    made.sort(key=lambda found: (-(found[0]["step"] or {"time": 0})["time"], -sum(line["flops"] for line in found[0]["lines"])))
    report = empty_report(str(programs[0][0].placement.devices[0].platform) if programs else "cpu")
    report["functions"] = [row for row, *_ in made]
    if made and made[0][1]:
        row, ops, step, module, program = made[0]
        report["timeline"] = timeline_rows(ops, step, row, 0, module, program)
    devices = {d.id: d for program, _ in programs for d in program.placement.devices}
    report["devices"] = [{"id": d.id, "process": d.process_index, "kind": d.device_kind} for d in devices.values()]
    report["compilations"] = history_rows(history, sources)
    report["problems"] = problems
    return report


def _read_recordings(recordings: Sequence[Any], problems: list[str]) -> list[Event]:
    """Return the events of profiles. An interrupt ends the reading, and after one only small profiles are read."""
    events: list[Event] = []
    limit = _QUICKLY_READ if any(" interrupted" in text for text in problems) else None
    for k, recording in enumerate(recordings, 1):
        note_progress("reading profiles,", f"{k} of {len(recordings)}")
        if limit is not None and len(recording.serialized) > limit:
            problems.append(f"A profile of {len(recording.serialized) >> 20} MiB was not read after the interrupt, so times "
                            "are unknown for a part of the program.")
            continue
        try:
            events += read_events(recording.serialized)
        except KeyboardInterrupt:
            problems.append("Reading the profiles was interrupted; times are unknown for a part of the program.")
            break
    return events


def _function_row(program: Any, staging: Staging | None, module: Module, measured: Measured | None, sources: Sources,
                  problems: list[str]) -> Row:
    names = [f"argument {i}" for i in range(len(program.in_avals))]
    defined = called = None
    if staging is not None:
        if staging.tree.num_leaves == len(names):
            names = [argument_path(staging.tree, i, staging.fun) for i in range(len(names))]
        code = getattr(staging.fun, "__code__", None)
        defined = sources.place(code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else None
        called = None if staging.source is None else sources.of(staging.source)
    closed = program.source_program
    donated = [i for i, is_donated in enumerate(program.placement.donated) if is_donated]
    return compiled_function(program, closed, sources, problems, kind=kind_of(program.call, closed),
                             plan=plan_of_program(program, names), donated=donated, measured=measured, module=module,
                             defined=defined, called=called)


def _assign_runs(events: Sequence[Event], modules: Sequence[Module]) -> list[list[tuple[float, list[Event]]]]:
    """Return the runs of each module: the time of the call, and the instructions."""
    calls: dict[str, list[float]] = {}
    of_run: dict[tuple[str, int | None, int], list[Event]] = {}
    for e in events:
        if e.kind == "instruction":
            of_run.setdefault((e.module, e.program, e.run), []).append(e)
        elif e.kind == "call":
            calls.setdefault(e.name, []).append(e.start)
    for starts in calls.values():
        starts.sort()
    found: list[list[tuple[float, list[Event]]]] = [[] for _ in modules]
    of_module: dict[int, set[int | None]] = {}  # index of a module -> ids in the profile
    last_end = 0.0
    for (name, program, _), ops in sorted(of_run.items(), key=lambda run: min(e.start for e in run[1])):
        first = min(e.start for e in ops)
        before = [t for t in calls.get(name, ()) if t <= first]
        # a call that began long before the first instruction belongs to another run
        start = before[-1] if before and first - before[-1] < 1e8 else first
        # a call may be made while the run before it is not done: that time is not its own
        start = min(first, max(start, last_end))
        last_end = max(last_end, *[e.end for e in ops])
        k = _module_of(name, program, {e.name for e in ops}, modules)
        if k is not None:
            found[k].append((start, ops))
            of_module.setdefault(k, set()).add(program)
    return [[] if len(of_module.get(k, ())) > 1 else runs for k, runs in enumerate(found)]


def _module_of(name: str, program: int | None, instructions: set[str], modules: Sequence[Module]) -> int | None:
    """Return the index of the module of a run; None if it is not among the modules, or several are alike.

    Programs of one function for other shapes have the same names, so the id decides. The id in the profile is that of the
    module; if the program was loaded from the disk, it is less, but greater than those of programs loaded before.
    """
    alike = [k for k, m in enumerate(modules) if m.name == name and instructions <= m.by_name.keys()]
    if len(alike) > 1:
        later = [k for k in alike if program is not None and modules[k].id >= program]
        return min(later, key=lambda k: modules[k].id, default=None)
    return alike[0] if alike else None


def _complete_runs(runs: list[tuple[float, list[Event]]], module: Module, is_cpu: bool) -> list[tuple[float, list[Event]]]:
    """Return the runs that were not cut off by the end of a recording: those with most of the instructions.

    On a CPU each instruction of some kinds has an event, so a single run is compared with the module.
    """
    names = [{e.name for e in ops} for _, ops in runs]
    recorded = {i.name for i in module.entry if i.opcode in _RECORDED} if is_cpu else set()
    least = 0.9 * max(map(len, names), default=0)
    return [run for run, own in zip(runs, names) if len(own) >= least and len(own & recorded) >= 0.9 * len(recorded)]


def _median_run(runs: list[tuple[float, list[Event]]], transfers: Sequence[Event],
                module: Module) -> tuple[Measured | None, list[Event], tuple[float, float]]:
    if not runs:
        return None, [], (0.0, 0.0)
    if len(runs) > 2:  # the first and the last may be cut off by the recording, and the first is slow
        runs = sorted(runs, key=lambda run: run[0])[1:-1]
    ordered = sorted([(max(e.end for e in ops) - start, start, k) for k, (start, ops) in enumerate(runs)])
    duration, start, k = ordered[(len(ordered) - 1) // 2]
    ops, step = runs[k][1], (start, start + duration)
    near = [e for e in transfers if start <= e.start < step[1]]
    return Measured(duration, len(runs), divide_step(step, ops, near, module)), ops, step
