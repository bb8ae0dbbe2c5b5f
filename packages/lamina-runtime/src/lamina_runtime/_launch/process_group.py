"""The hooks for programs over several processes: who launches them, and who exchanges values between the processes.

A package of a higher layer (lamina-distributed) adds its `ProcessGroup` to `active_groups` and sets `launcher` of the
client state. Without one, all devices are of this process. Two more hooks are set at the same time:
`backends.set_client_maker` makes a client that knows the devices of all processes, and `peer_errors.set_failure_monitor`
explains errors of broken connections.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

from lamina_ir import config
from lamina_ir.extend import Placement
from lamina_ir.typing import Device, Value

from .._backend import client_state
from .._typing import Message, SettingValue

__all__ = ["GatherSeries", "HostGather", "KeyValueStore", "MultiProcessLauncher", "MultiProcessProgram", "ProcessGroup",
           "active_groups", "agreement", "begin_gather", "collective_report_seconds", "collective_timeout_seconds",
           "multi_process_launcher"]

_Outs = TypeVar("_Outs", bound=Sequence[Any])


class MultiProcessProgram(Protocol):
    """A program over several processes: the attributes that a launch needs.

    Attributes:
      call, name: the calling API function and the name of the user's function, for error messages.
      processes: indices of the processes whose devices it runs on, ascending.
      placement, lowered, loaded: its placement on devices, the lowered module and the executable.
      first_launch_done: whether its device groups are connected. Set by the launcher.
      source_program: the program as a jaxpr, or None if there is none.
      launch_group: for the launcher: what it caches for a program. None at first.
    """

    call: str
    name: str
    processes: tuple[int, ...]
    placement: Placement
    lowered: Any
    loaded: Any
    first_launch_done: bool
    launch_group: Any

    @property
    def source_program(self) -> Any: ...


class KeyValueStore(Protocol):
    """Texts that all processes of a session share. A launcher has one as its attribute `store`."""

    def set(self, key: str, text: str) -> None: ...
    def get(self, key: str) -> str | None:
        """Return a text, None if there is none. It does not wait."""
    def delete(self, prefix: str) -> None: ...
    def next_number(self, processes: tuple[int, ...]) -> int:
        """Return 0, 1, ... in this session, separately for each group of processes."""


class MultiProcessLauncher(Protocol):
    """Launches programs over several processes.

    Attributes:
      is_stuck: whether a launch over several processes will not end. Then all launches of this process's own programs
        are made by `run_in_new_thread`, because jaxlib would queue those of one thread behind it.
      store: texts that all processes share. None: programs over several processes are compiled in one tier.
    """

    is_stuck: bool
    store: KeyValueStore | None

    def connect_local_devices(self) -> None:
        """Connect the devices of this process with each other. Called once a client was made."""

    def run_in_new_thread(self, act: Callable[[], _Outs]) -> _Outs:
        """Return `act()`, which runs in a new thread."""

    def launch(self, program: MultiProcessProgram, args: Sequence[Value], start: Callable[[], _Outs]) -> _Outs:
        """Return `start()`, which launches a program on `args`, in the same order in all processes."""

    def launch_local_first(self, start: Callable[[], _Outs], args: Sequence[Value]) -> _Outs:
        """Return `start()`: the first launch, on `args`, of a program over several devices of this process."""


class HostGather:
    """A sequence of gathers that all processes make in the same order; a context. This class: of one process.

    Attributes:
      rank, count: index of this process, and number of processes.
    """

    rank: int = 0
    count: int = 1

    def gather(self, **values: object) -> list[Message]:
        """Return the values that each process passes here, by process index. Values must be JSON.

        Raises:
          ProcessLostError: a process was lost, or has left, before it came here.
          RuntimeError: a process failed before it came here; contains that error's text.
        """
        return [values]

    def wait_for_process_0(self) -> None:
        """Wait until process 0 has come here. Process 0 itself does not wait."""

    def have_others_stopped(self) -> bool:
        """Return whether no other process works on the gather any more, after the context ended with an error.

        This may wait some seconds. False if it is unknown.
        """
        return self.count == 1

    def raise_if_lost(self) -> None:
        """Raise ProcessLostError if a process was lost, so that long work between two rounds ends early."""

    def __enter__(self) -> HostGather:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Report an error of this process to the processes that wait for its values."""


class ProcessGroup(Protocol):
    """The processes of one system, as far as this package needs them."""

    def begin_gather(self, call: str, series: str = "") -> HostGather:
        """Start a gather between all processes; gathers of different series are independent."""

    def new_series(self) -> str:
        """Return the name of a new series, which is the same in all processes."""


active_groups: list[ProcessGroup] = []  # the group of which this process is a member, if there is one


def begin_gather(call: str) -> HostGather:
    """Start a gather between all processes of the current group; of this process alone if there is none."""
    return active_groups[0].begin_gather(call) if active_groups else HostGather()


class GatherSeries:
    """Gathers that another thread may complete while calls make gathers of their own.

    All processes make the same series, and the gathers of one series, in the same order. A gather of a series begins
    after the one before is complete in this process.
    """

    def __init__(self) -> None:
        self._group: int | None = None
        self._name = ""

    def begin(self, call: str) -> HostGather:
        """Start a gather of this series between all processes of the current group."""
        if not active_groups:
            return HostGather()
        group = active_groups[0]
        if self._group != id(group):
            self._group, self._name = id(group), group.new_series()
        return group.begin_gather(call, self._name)


def multi_process_launcher(devices: Iterable[Device]) -> tuple[MultiProcessLauncher | None, tuple[int, ...]]:
    """Return (launcher, process indices) of a program on these devices; (None, ()) if all are of one process."""
    launcher = client_state.current.launcher
    processes = tuple(sorted({int(d.process_index) for d in devices})) if launcher is not None else ()
    return (launcher, processes) if len(processes) > 1 else (None, ())


# --- settings -----------------------------------------------------------------------------------------------------
def _check_before_initialize(value: SettingValue) -> None:
    if active_groups:
        raise RuntimeError(f"config agreement: {value!r} must be chosen before distributed.initialize, the same in all "
                           "processes")


def _check_timeout(value: SettingValue) -> None:
    if value is not None and not 0 < value < 1e8:
        raise ValueError("config collective_timeout_seconds: expected a number of seconds above 0, or None; got "
                         f"{value!r}")


def _check_report_time(value: SettingValue) -> None:
    if value is not None and not 0 < value < 1e8:
        raise ValueError("config collective_report_seconds: expected a number of seconds above 0, or None; got "
                         f"{value!r}")


agreement = config.Option("agreement", "every", choices=("every", "first", "off"), check=_check_before_initialize,
                          help="which launches over several processes are compared beforehand: 'every', the 'first' of each "
                               "program, or none ('off'); the same in all processes, chosen before distributed.initialize")
collective_timeout_seconds = config.Option("collective_timeout_seconds", None, kind=float, check=_check_timeout,
                                           help="seconds that a launch over several processes waits for the other processes; "
                                                "None: no limit")
collective_report_seconds = config.Option("collective_report_seconds", 60.0, kind=float, check=_check_report_time,
                                          help="seconds that a process waits for others until all of them print where each "
                                               "process is, on standard error; None: never; the value of the whole process")
