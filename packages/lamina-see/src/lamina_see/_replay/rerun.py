"""Run a failed call again, on the devices of this process or with NumPy, and shrink it."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, LaminaError, Literal, config, evaluate, replay, rewrite
from lamina_ir.extend import Tiles
from lamina_ir.typing import Device, Value
from lamina_tracing import hooks

from . import settings
from .locate import Difference, find_difference
from .shrink import Fails, Shrunk, count_equations, shrink

__all__ = ["Rerun", "has_runtime", "prepare_devices"]

Arrays = Sequence[np.ndarray]


def has_runtime() -> bool:
    """Return whether lamina-runtime is installed, which compiles programs; it is imported."""
    try:
        import lamina_runtime  # noqa: F401, PLC0415 (optional)
    except ImportError:
        return False
    return True


def prepare_devices(failed: replay.FailedCall) -> None:
    """Set the number of CPU devices to that of the call, if the user has not set it. Call it before devices are used."""
    count = max(failed.placement.get("devices", [0]), default=0) + 1
    option = config.options.get("num_cpu_devices")
    if option is not None and option.value is None and count > 1 and failed.placement.get("platform", "cpu") == "cpu":
        option.set(count)


@contextmanager
def _off() -> Iterator[None]:
    """Run a block whose failing calls are not written to files."""
    with settings.replay_folder(None), settings.shadow_every(0):
        yield


class Rerun:
    """A failed call that is run again.

    Args:
      failed: the call; its program is not None.
      is_compiled: whether to compile it; otherwise NumPy runs it.
    Raises:
      ValueError: it needs more devices than this process has.

    Attributes:
      program: the program with the devices of this process.
      difference: the difference that `run` found last.
    """

    def __init__(self, failed: replay.FailedCall, is_compiled: bool) -> None:
        assert failed.program is not None
        self.failed, self.is_compiled = failed, is_compiled
        self.kind = failed.failure.kind
        self.program = _with_devices(failed.program, _devices(failed)) if is_compiled else failed.program
        self.difference: Difference | None = None

    # --- once -----------------------------------------------------------------------------------------------------
    def run(self) -> tuple[bool, str]:
        """Run the call; return whether it failed in the same way, and a sentence."""
        with _off():
            return self._run()

    def _run(self) -> tuple[bool, str]:
        if not self.is_compiled:
            return replay.run(self.failed)
        arguments = _place(self.failed)
        if self.kind == "difference":
            self.difference = find_difference(self.program, arguments, self._results(self.program, arguments))
            found = self.difference
            return found is not None, "the compiled program agrees with NumPy" if found is None else found.text()
        try:
            outs = self._results(self.program, arguments)
        except Exception as e:
            is_same = self.kind == "error" and replay.describe_error(e) == self.failed.failure.error
            return is_same, f"{type(e).__name__}: {e}"
        if self.kind == "error":
            return False, "it runs without an error"
        kinds = [replay.nonfinite_kind(x) for x in outs]
        if not any(kinds):
            return False, "all results are finite"
        i = next(i for i, k in enumerate(kinds) if k)
        first = replay.find_nonfinite_equation(self.program, self.failed.arguments)
        where = f"; with NumPy, first `{first.eqn.primitive.name}`{first.where}" if first else "; with NumPy all are finite"
        return True, f"result {i} has {kinds[i]}{where}"

    def _results(self, program: ClosedJaxpr, arguments: Sequence[Value]) -> list[np.ndarray]:
        if not self.is_compiled:
            with np.errstate(all="ignore"):
                return evaluate(program, *arguments)
        return [np.asarray(x) for x in hooks.evaluator.program(program, list(arguments))]

    # --- many times -----------------------------------------------------------------------------------------------
    def shrink(self, seconds: float) -> Shrunk:
        """Reduce the call to a small program that fails in the same way."""
        if self.is_compiled and self.kind != "difference":
            # NumPy needs no compilation, so it is many times faster, if it fails in the same way.
            on_numpy = Rerun(self.failed, False)
            if on_numpy.run()[0]:
                found = on_numpy.shrink(seconds)
                if Rerun(self.smaller_call(found), True).run()[0]:
                    return found
        fails: dict[str, Fails] = {"error": self._raises, "nonfinite": self._is_nonfinite, "difference": self._differs}
        with _off():
            return shrink(self.program, self.failed.arguments, fails[self.kind], self._suspects(), seconds)

    def _suspects(self) -> list[tuple[Eqn, Arrays]]:
        if self.kind == "difference" and self.difference is not None:
            return [(self.difference.eqn, self.difference.operands)]
        if self.kind == "nonfinite":
            try:
                found = replay.find_nonfinite_equation(self.program, self.failed.arguments)
            except LaminaError:
                return []
            if found is not None:
                values = {a: x for a, x in zip(found.eqn.invars, found.operands) if type(a) is not Literal}
                return [(found.eqn, list(values.values()))]
        return []

    def _raises(self, program: ClosedJaxpr, arguments: Arrays) -> bool:
        try:
            self._results(program, arguments)
        except Exception as e:
            return replay.describe_error(e) == self.failed.failure.error
        return False

    def _is_nonfinite(self, program: ClosedJaxpr, arguments: Arrays) -> bool:
        """Return whether results have a NaN that no argument has; or an infinity, if the call gave only that."""
        given = {replay.nonfinite_kind(a) for a in (*arguments, *program.consts)}
        if self._nonfinite in given or "a NaN" in given or any(type(a) is Literal for a in program.jaxpr.outvars):
            return False
        return self._nonfinite in [replay.nonfinite_kind(x) for x in self._results(program, arguments)]

    @cached_property
    def _nonfinite(self) -> str:
        kinds = [replay.nonfinite_kind(x) for x in self._results(self.program, self.failed.arguments)]
        return "a NaN" if "a NaN" in kinds else "an infinity"

    def _differs(self, program: ClosedJaxpr, arguments: Arrays) -> bool:
        found = find_difference(program, arguments, self._results(program, arguments))
        return found is not None and (self.difference is None or not found.is_alone
                                      or found.eqn.primitive is self.difference.eqn.primitive)

    def smaller_call(self, found: Shrunk) -> replay.FailedCall:
        """Return the shrunk call, for a file."""
        with np.errstate(all="ignore"), _off():
            try:
                results = self._results(found.program, found.arguments)
            except Exception:  # it fails by raising
                results = []
        return self.failed._replace(program=found.program, arguments=list(found.arguments), results=results)

    @property
    def equations(self) -> int:
        """The number of equations of the program, with those of nested programs."""
        return count_equations(self.program)


# --- devices ----------------------------------------------------------------------------------------------------------
def _devices(failed: replay.FailedCall) -> dict[int, Device]:
    import lamina_runtime  # noqa: PLC0415 (optional)
    found = {d.id: d for d in lamina_runtime.devices()}
    needed = [int(i) for i in failed.placement.get("devices", ())]
    if len(needed) > len(found):
        raise ValueError(f"replay: the call needs {len(needed)} devices; this process has {len(found)}. Set "
                         f"LAMINA_NUM_CPU_DEVICES={len(needed)}, or use --numpy")
    # Other ids, on another machine: the devices in their order.
    return found if {*needed} <= {*found} else dict(zip(needed, found.values()))


def _with_devices(program: ClosedJaxpr, devices: dict[int, Device]) -> ClosedJaxpr:
    """Replace the numbers of devices in the params of maps by devices."""
    def place(ids: Any) -> Any:
        return tuple([devices.get(i, i) for i in ids])

    def change(e: Eqn) -> list[Eqn] | None:
        params, mesh = dict(e.params), e.params.get("mesh")
        if params.get("devices") is not None:
            params["devices"] = place(params["devices"])
        if type(mesh) is tuple and len(mesh) == 3 and mesh[2] is not None:
            params["mesh"] = (*mesh[:2], place(mesh[2]))
        return None if params == e.params else [Eqn(e.primitive, e.invars, e.outvars, params, e.source)]

    return rewrite(program, change)


def _place(failed: replay.FailedCall) -> list[Value]:
    """Place the arguments as in the call."""
    placement, arguments = failed.placement, list(failed.arguments)
    if not placement or placement.get("one_member_per_device"):
        return arguments
    import lamina_runtime  # noqa: PLC0415 (optional)
    from lamina_parallel import Mesh, PartitionSpec  # noqa: PLC0415 (only for programs over several devices)
    by_id = _devices(failed)
    devices = np.array([by_id[i] for i in placement["devices"]], object)
    placed = []
    for x, t in zip(arguments, placement.get("in_tiles") or [None] * len(arguments)):
        tiles = Tiles() if t is None else Tiles(tuple(t[0]), t[1], tuple(t[2]))
        if tiles.devices != devices.size:
            tiles = Tiles((), devices.size)
        names = [f"d{i}" for i in range(len(tiles.counts))]
        mesh = Mesh(devices[tiles.positions()], (*names, "copies"))
        placed.append(lamina_runtime.device_put(x, lamina_runtime.NamedSharding(mesh, PartitionSpec(*names))))
    return placed
