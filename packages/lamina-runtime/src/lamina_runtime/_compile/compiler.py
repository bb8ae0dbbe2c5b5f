"""Select the compiler of lowered programs: XLA's, or one set with `set_compiler`.

A compiler (`lamina_ir.interfaces.Compiler`) gets the output of lowering and returns executables of the client. It may
rewrite, count or store modules, or accept another format, and call the compiler that it replaces. Its name is part of
the cache keys of its executables.
"""
from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext

from lamina_ir import config, monitoring
from lamina_ir.extend import invalidate_caches
from lamina_ir.interfaces import Compiler, Lowered
from lamina_ir.typing import Device, Function

from .. import _jaxlib
from .._sharding import shardings
from .._typing import Executable, JaxlibCompileOptions, Module

__all__ = ["XLACompiler", "accepts", "compiler", "compiler_for", "set_compiler"]


class XLACompiler:
    """The compiler of the client of the devices.

    Attributes:
      name: `xla`.
      accepts: `stablehlo`.
    """

    name = "xla"
    accepts = frozenset(("stablehlo",))

    def compile(self, lowered: Lowered, devices: Sequence[Device], settings: JaxlibCompileOptions,
                host_functions: Sequence[Function] = ()) -> Executable:
        """Compile a lowered program, or another object with a `placement` and a method `bytecode`.

        Args:
          lowered: the program.
          devices: one per (replica, partition), in row-major order.
          settings: jaxlib's compile options.
          host_functions: Python functions the module calls, by number.
        Returns:
          An executable of jaxlib's client.
        """
        callbacks = (list(host_functions),) if host_functions else ()
        device_list = shardings.device_list(tuple(devices))
        compile_and_load = devices[0].client.compile_and_load

        def compile(code: bytes | Module) -> Executable:
            return compile_and_load(code, device_list, settings, *callbacks)

        given_to = getattr(lowered, "compile_with", None)
        start = time.perf_counter()
        try:
            # At each compilation of several partitions, XLA warns that the GSPMD partitioner is deprecated.
            with _jaxlib.suppress_warnings() if lowered.placement.partitions > 1 else nullcontext():
                return compile(lowered.bytecode()) if given_to is None else given_to(compile)
        finally:
            if monitoring.duration_listeners:
                monitoring.record_event_duration_secs("/lamina/compile/backend_compile_duration",
                                                      time.perf_counter() - start)


accepts = XLACompiler.accepts
_compiler: Compiler = XLACompiler()


def compiler() -> Compiler:
    """Return the current compiler."""
    return _compiler


def set_compiler(new: Compiler | None) -> Compiler:
    """Set the compiler of all threads.

    Args:
      new: the compiler; None: XLA's.
    Returns:
      The previous compiler.
    Raises:
      TypeError: `new` lacks `name`, `accepts` or `compile`.

    >>> class Counting(XLACompiler):
    ...     name, count = "counting", 0
    ...     def compile(self, lowered, *rest):
    ...         self.count += 1
    ...         return super().compile(lowered, *rest)
    >>> counting = Counting()  # counts the programs that are neither in memory nor on disk
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
        raise TypeError(f"set_compiler: expected an object with name, accepts and compile; {type(new).__name__} has "
                        f"no {', '.join(missing)}")
    with config.generation.changing():
        old, _compiler = _compiler, new
        invalidate_caches()
    return old


def compiler_for(lowered: Lowered) -> Compiler:
    """Return the current compiler. TypeError if it does not accept the format of a lowered program."""
    current = _compiler
    if lowered.format not in current.accepts:
        raise TypeError(f"compile of `{lowered.name}`: lowering made a program in the format {lowered.format!r}, and "
                        f"the compiler `{current.name}` of lamina_runtime accepts "
                        f"{', '.join(sorted(current.accepts))}; choose a runtime that accepts it "
                        "(LAMINA_LAYERS=runtime=...), or a compiler (lamina_runtime.set_compiler)")
    return current
