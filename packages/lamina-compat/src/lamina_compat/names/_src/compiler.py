"""`jax._src.compiler`: `backend_compile`, which programs replace to watch or to refuse compilations."""
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from lamina_ir.interfaces import Compiler
from lamina_ir.typing import Device, Function
from lamina_runtime import compiler, set_compiler
from typing_extensions import override

__all__ = ["backend_compile"]

_outer: list[Compiler] = []  # the compiler that `backend_compile` calls, while another function replaces it


def backend_compile(backend: Any, *args: Any) -> Any:
    """Compile a lowered program. A function that is assigned to this name is called instead, and may call this one.

    Args:
      backend: the client.
      args: the program and the options, to be passed on as they are.
    """
    return (_outer[-1] if _outer else compiler()).compile(*args)


class _Compiler:
    """The compiler that calls a replacement of `backend_compile`."""

    def __init__(self, inner: Compiler, function: Function) -> None:
        self.function = function
        self.name, self.accepts = inner.name, inner.accepts

    def compile(self, lowered: Any, devices: Sequence[Device], settings: Any, host_functions: Sequence[Function] = ()) -> Any:
        return self.function(devices[0].client, lowered, devices, settings, host_functions)


class _Module(ModuleType):
    @override
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "backend_compile":
            if _outer:
                set_compiler(_outer.pop())
            if value is not backend_compile:
                _outer.append(compiler())
                set_compiler(_Compiler(_outer[-1], value))
            globals()[f"_{name}"] = value
        super().__setattr__(name, value)


_original = backend_compile
sys.modules[__name__].__class__ = _Module
