"""Which compiler makes executables of lowered programs: XLA's, or one that was set in its place.

A compiler stands between lowering and the client (`lamina_ir.seams.Compiler`): it may rewrite modules, count or keep them, or
take them in another format, and hand the rest to the one it replaces. Its name is part of the key of all it makes.
"""
from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from lamina_ir import config, monitoring
from lamina_ir.extend import new_generation
from lamina_ir.seams import Compiler, Lowered

from . import _jaxlib, shardings

__all__ = ["XLACompiler", "accepting", "accepts", "compiler", "set_compiler"]


class XLACompiler:
    """The compiler of the devices' client.

    Attributes:
      name: `xla`.
      accepts: `stablehlo`.
    """

    name = "xla"
    accepts = frozenset(("stablehlo",))

    def compile(self, lowered: Lowered, devices: Sequence[Any], settings: Any, host_functions: Sequence[Any] = ()) -> Any:
        """The executable of a lowered program; also of anything with its `bytecode()`, where it has no `given_to`.

        Args:
          lowered: the program.
          devices: one per (replica, partition), in row-major order.
          settings: jaxlib's compile options.
          host_functions: Python functions the module calls, by number.
        Returns:
          An executable of jaxlib's client.
        """
        more = (list(host_functions),) if host_functions else ()
        where = shardings.device_list(tuple(devices))
        compile_and_load = devices[0].client.compile_and_load

        def compile(code: Any) -> Any:
            return compile_and_load(code, where, settings, *more)

        given_to = getattr(lowered, "given_to", None)
        begun = time.perf_counter()
        try:
            # each compilation of several partitions warns that this partitioner will be replaced
            with _jaxlib.without_warnings() if lowered.placement.partitions > 1 else nullcontext():
                return compile(lowered.bytecode()) if given_to is None else given_to(compile)
        finally:
            monitoring.record_event_duration_secs("/lamina/compile/backend_compile_duration", time.perf_counter() - begun)


accepts = XLACompiler.accepts
_compiler: Compiler = XLACompiler()


def compiler() -> Compiler:
    """The compiler in use."""
    return _compiler


def set_compiler(new: Compiler | None) -> Compiler:
    """Compile with `new` from now on, in every thread.

    Args:
      new: the compiler; None: XLA's.
    Returns:
      The one that was in use.
    Raises:
      TypeError: it lacks `name`, `accepts` or `compile`.

    >>> class Counting(XLACompiler):
    ...     name, count = "counting", 0
    ...     def compile(self, lowered, *rest):
    ...         self.count += 1
    ...         return super().compile(lowered, *rest)
    >>> counting = Counting()  # counts what is neither in memory nor on disk
    >>> old = set_compiler(counting)
    >>> from lamina_tracing import jit
    >>> jit(lambda x: x * 3 + 1)(2.0)
    Array(7., dtype=float32, weak_type=True)
    >>> set_compiler(old) is counting
    True
    """
    global _compiler
    new = XLACompiler() if new is None else new
    if not isinstance(new, Compiler):
        missing = [name for name in ("name", "accepts", "compile") if not hasattr(new, name)]
        raise TypeError(f"set_compiler: expected an object with name, accepts and compile; {type(new).__name__} has no "
                        f"{', '.join(missing)}")
    with config.generation.changing():
        old, _compiler = _compiler, new
        new_generation()
    return old


def accepting(lowered: Lowered) -> Compiler:
    """The compiler in use. TypeError where it does not accept the format of a lowered program."""
    by = _compiler
    if lowered.format not in by.accepts:
        raise TypeError(f"compile of `{lowered.name}`: lowering made a program in the format {lowered.format!r}, and the "
                        f"compiler `{by.name}` of lamina_runtime accepts {', '.join(sorted(by.accepts))}; choose a runtime "
                        "that accepts it (LAMINA_LAYERS=runtime=...), or a compiler (lamina_runtime.set_compiler)")
    return by
