"""Launches of programs over several processes: what is asked before one, and how its failure is told."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, config, prims, shaped
from lamina_tracing import slots

from . import _jaxlib, backends, gone, host_errors, owner, safe_launch

if TYPE_CHECKING:
    from .losses import Watch

__all__ = ["Launches", "Over", "agreement", "collective_timeout_seconds", "joined", "over"]

_Outs = TypeVar("_Outs", bound=Sequence[Any])
_AXIS = "own"
joined: list[Any] = []  # the session, while there is one


def _not_joined(value: Any) -> None:
    if joined:
        raise RuntimeError(f"config agreement: {value!r} must be chosen before distributed.initialize, the same in all "
                           "processes")


def _timeout(value: Any) -> None:
    if value is not None and not 0 < value < 1e8:
        raise ValueError(f"config collective_timeout_seconds: expected a number of seconds above 0, or None; got {value!r}")


agreement = config.Option("agreement", "every", choices=("every", "first", "off"), check=_not_joined,
                          help="launches over several processes that are compared before: 'every', the 'first' of each "
                               "program, or none ('off'); the same in all processes, chosen before they join")
collective_timeout_seconds = config.Option("collective_timeout_seconds", None, kind=float, check=_timeout,
                                           help="seconds that a launch over several processes waits for the others to come "
                                                "to it; None: for ever")


class Over(Protocol):
    """A program over several processes, as far as a launch asks for it.

    Attributes:
      call, name: who asked for it, and its function.
      processes: the numbers of those whose devices it runs on, in order.
      placement, lowered, loaded: how it lies on devices, what was lowered, and the executable.
      met: whether its groups of devices have come together; set here.
      staged: the program, or None where there is none to show.
      pact: what `agreement` keeps of it; None at first.
    """

    call: str
    name: str
    processes: tuple[int, ...]
    placement: Any
    lowered: Any
    loaded: Any
    met: bool
    pact: Any

    @property
    def staged(self) -> Any: ...


class Launches:
    """Those of one session; `owner.current.together` is the one of the clients in force, None where there is one process.

    Attributes:
      watch: knows who is gone.
      agree: asked, with the program, before each launch: whether the others launch the same; raises where they do not.
      patience: how is waited where what waits for a lost process cannot be freed; None where it can.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.patience: Any = None
        self.agree: Callable[[Over], None] = _agreed
        self._first = threading.Lock()
        self._numbers: dict[tuple[int, ...], Iterator[int]] = {}
        self._connected = False
        self._latest: Any = None  # over the memory of a result of the latest launch, where that may be under way or has failed

    def launch(self, program: Over, args: Sequence[Any], start: Callable[[], _Outs]) -> _Outs:
        """What `start()` gives, which launches a program over several processes on `args`, behind the end of the one before.

        Raises:
          ProcessLostError: a process was lost, or one of the program's has left, before or meanwhile.
          LaunchFailedError: a launch failed in some processes alone. What `start` raises here is told to the others.
        """
        self.watch.check(program)
        self.agree(program)
        if self._latest is not None:
            self._await_latest(program)
        numbers = self._numbers.get(program.processes) or self._numbers.setdefault(program.processes, itertools.count())
        number = next(numbers)
        try:
            outs = start() if program.met else self._first_of(program, number, start)
        except (gone.ProcessLostError, gone.LaunchFailedError):
            raise
        except BaseException as e:
            if isinstance(e, _jaxlib.LAUNCH_ERRORS) and not host_errors.original(e):
                lost = gone.instead(f"{program.call} of `{program.name}`", e)
                if lost is not None:
                    raise lost from e
            self._failed(program, number, e)
            raise
        if self.patience is not None:
            self.patience.launched(outs)
        elif outs:
            self._latest = _under_way(outs)
        return outs

    def _await_latest(self, program: Over) -> None:
        """One launch at a time. Where the loss of a process ends what one device had begun, the memory that Gloo was to fill is
        gone, and a device of this process that got further still sends for it: that connection is read no more, not even its
        end, and what the first device had queued behind would wait there for half an hour."""
        latest, self._latest = self._latest, None
        error = _settled([latest])
        lost = None if error is None else gone.instead(f"{program.call} of `{program.name}`", error)
        if lost is not None:
            raise lost from error

    def _failed(self, program: Over, number: int, error: BaseException) -> None:
        """All have agreed, and this process's part has failed: the others may wait for its data."""
        launch = blake2b(f"{program.processes} {number}".encode(), digest_size=16).hexdigest()
        self.watch.failed(f"{program.call} of `{program.name}`", launch, len(program.processes), error)

    def _first_of(self, program: Over, number: int, start: Callable[[], _Outs]) -> _Outs:
        """The first launch of a program is waited for: while it lasts jaxlib may wait for devices of others."""
        with self._first:
            if not self._connected:  # those of this process first: later there may be no way
                self._connected = True
                connect_own()
        call = f"{program.call} of `{program.name}`"
        outs, error = self.watch.aside(call, lambda: self._meet(start))
        if error is not None:
            lost = gone.instead(call, error)
            if lost is not None:
                raise lost from error
            self._failed(program, number, error)  # whoever reads the results here is told as well
        program.met = True
        return outs

    def _meet(self, start: Callable[[], _Outs]) -> tuple[_Outs, Exception | None]:
        outs = start()
        if self.patience is not None:
            self.patience.launched(outs)
        return outs, _settled(outs)

    def alone(self, start: Callable[[], _Outs], args: Sequence[Any]) -> _Outs:
        """What `start()` gives: the first launch, on `args`, of a program whose devices are several of this process. It is
        waited for, so that what connects them is known, and stays when a process is lost."""
        _settled(args)
        with self.watch.sparing():
            outs = start()
            _settled(outs)
        return outs

    def await_word(self, call: str, suspects: Iterable[int] = (), cause: BaseException | None = None) -> None:
        """A connection to another process has ended: wait shortly for the lobby's word on who is gone, and raise it.

        Args:
          call: what is told to have failed.
          suspects: processes whose connection it was; without word from the lobby they are taken for gone.
          cause: the error that it ended with.
        Raises:
          ProcessLostError: somebody is gone. Without a word and a suspect this returns.
        """
        if self.watch.told(suspects):
            raise self.watch.error(call) from cause


def _under_way(outs: Sequence[Any]) -> Any:
    """Another array over the memory of the smallest result; None where it is computed."""
    least = outs[0] if len(outs) == 1 else min(outs, key=lambda x: x.nbytes)
    if least.nbytes > safe_launch.HELD or least.is_ready():
        if _settled([least]) is None:
            return None
    return least._rewrap_with_aval_and_sharding(least.aval, least._sharding)


def _settled(arrays: Sequence[Any]) -> Exception | None:
    """Wait for all; why the first of those that failed did, which whoever reads it is told again."""
    found = None
    for x in arrays:
        try:
            _jaxlib.wait_for(x)
        except _jaxlib.LAUNCH_ERRORS as e:
            found = found or e
    return found


def _agreed(program: Over) -> None:
    """Nobody is asked."""


def connect_own() -> None:
    """Have the devices of this process meet, where they are several."""
    devices = backends.local_devices()
    n = len(devices)
    if n == 1:
        return
    row, whole = Var(shaped((), np.dtype("float32"))), Var(shaped((n,), np.dtype("float32")))
    out = Var(row.aval)
    body = ClosedJaxpr(Jaxpr((), [row], [Eqn(prims.psum_p, [row], [out], dict(axes=(_AXIS,), axis_index_groups=None))], [out]))
    result = Var(whole.aval)
    mapped = Eqn(prims.xla_pmap_p, [whole], [result], dict(
        axis_name=_AXIS, axis_size=n, backend=None, call_jaxpr=body, devices=tuple(devices), donated_invars=(False,),
        global_arg_shapes=(None,), global_axis_size=n, in_axes=(0,), name="own devices", out_axes=(0,)))
    closed = ClosedJaxpr(Jaxpr((), [whole], [mapped], [result]))
    slots.evaluator.program(closed, [np.zeros(n, np.float32)])


def over(devices: Iterable[Any]) -> tuple[Launches | None, tuple[int, ...]]:
    """(where a program on these devices is launched, its processes): None and () where all are of one process."""
    found = owner.current.together
    processes = tuple(sorted({int(d.process_index) for d in devices})) if found is not None else ()
    return (found, processes) if len(processes) > 1 else (None, ())
