"""A jitted function's steps, one by one: `f.trace(...)`, `f.lower(...)`, `.compile()`, and the numbers behind them."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import trees
from lamina_ir.avals import ShapeDtypeStruct
from lamina_lowering import lower as _lower
from lamina_tracing.extend import JitSpec, Staged, duck_types

from . import _jaxlib, backends as _devices, execution, safe_launch

__all__ = ["ATTRIBUTES", "Compiled", "Lowered", "Traced", "lower", "stage_types", "trace"]

_PLAIN = frozenset((_jaxlib.ArrayImpl, np.ndarray, int, float, bool, complex))
ATTRIBUTES = ("lower", "trace", "eval_shape", "clear_cache")


def stage_types(spec: JitSpec, args: Any, kwargs: Any) -> tuple[Staged, Any]:
    """(program, tree of the dynamic arguments) for arrays or anything with shape and dtype."""
    flat, tree, static = spec.split(args, kwargs)
    if any(isinstance(x, ShapeDtypeStruct) or type(x) not in _PLAIN and hasattr(x, "shape") for x in flat):
        return spec._stage(duck_types(spec.call, spec.name, flat, tree), tree, static), tree
    return spec.stage(flat, tree, static), tree


class Traced:
    """A staged call: `.jaxpr` is its program, `.lower()` the next step."""

    def __init__(self, spec: JitSpec, staged: Staged, in_tree: Any, donated: tuple[bool, ...]) -> None:
        self._spec = spec
        self._staged = staged
        self._in_tree = in_tree
        self._donated = donated
        self.jaxpr = staged.closed
        self.fun_name = spec.name

    @property
    def out_info(self) -> Any:
        """The result's tree with shapes and dtypes."""
        return trees.tree_unflatten(self._staged.out_tree, [
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in self._staged.closed.out_avals])

    def lower(self, *, platform: str | None = None) -> Lowered:
        """The call as a StableHLO module."""
        return Lowered(self._spec, self._staged, self._in_tree, self._donated, platform)


class Lowered:
    """A lowered call: `.as_text()` shows the module, `.compile()` makes it callable."""

    def __init__(self, spec: JitSpec, staged: Staged, in_tree: Any, donated: tuple[bool, ...],
                 platform: str | None) -> None:
        self._spec, self._staged, self._in_tree, self._donated = spec, staged, in_tree, donated
        self.in_tree, self.out_tree = in_tree, staged.out_tree
        if platform is None:
            platform = _devices.lowering_platform(_devices.client(spec.backend).local_devices()[0])
        self._lowered = _lower(staged.closed, name=spec.name, platform=platform, donated=donated,
                               keep_unused=spec.keep_unused)

    def as_text(self, dialect: str | None = None) -> str:
        """The module as text; `dialect` is 'stablehlo' or 'hlo'."""
        return self._lowered.as_text(dialect or "stablehlo")

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module itself, for tools."""
        return self._lowered.module if dialect in (None, "stablehlo") else self._lowered.as_text(dialect)

    def compile(self) -> Compiled:
        """The call, compiled for the device it would run on."""
        return Compiled(self)


class Compiled:
    """A compiled call: takes arguments of the types it was made for, and can be asked what it costs."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        spec, closed = lowered._spec, lowered._staged.closed
        self._place = execution.placement_of(spec.call, spec.name, (), closed, spec.device, spec.backend)
        try:
            self._program = execution.program_for(closed, spec.name, self._place, (), lowered._donated,
                                                  spec.keep_unused)
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(spec.call, spec.name, e) from e
        self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        spec, staged = self._lowered._spec, self._lowered._staged
        flat, tree, _ = spec.split(args, kwargs)
        if tree != self.in_tree:
            raise TypeError(f"compiled `{spec.name}`: expected arguments of structure {self.in_tree}; got {tree}")
        avals = duck_types(spec.call, spec.name, flat, tree)
        for i, (a, b) in enumerate(zip(avals, staged.closed.in_avals)):
            if not a.same_type(b):
                raise TypeError(f"compiled `{spec.name}`: flat argument {i}: expected {b.long()}; got {a.long()}")
        safe_launch.check_usable(spec.call, spec.name, flat)
        place = execution.placement_of(spec.call, spec.name, flat, staged.closed, spec.device, spec.backend)
        program = self._program
        if place != self._place:
            program = execution.program_for(staged.closed, spec.name, place, flat, self._lowered._donated,
                                            spec.keep_unused)
        return trees.tree_unflatten(staged.out_tree, program.run(flat))

    def cost_analysis(self) -> dict[str, float]:
        """The compiler's estimate: 'flops', 'bytes accessed' (bytes), ..."""
        found = self._program.executable.cost_analysis()
        return found[0] if isinstance(found, (list, tuple)) else found

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries, as attributes."""
        return self._program.executable.get_compiled_memory_stats()

    def as_text(self) -> str:
        """The optimised HLO text."""
        return "\n".join(m.to_string() for m in self._program.executable.hlo_modules())

    def runtime_executable(self) -> Any:
        """jaxlib's executable."""
        return self._program.executable


def trace(spec: JitSpec, args: Any, kwargs: Any) -> Traced:
    """The staged call. Arguments may be anything with shape and dtype."""
    staged, tree = stage_types(spec, args, kwargs)
    if staged.outer:
        raise ValueError(f"{spec.call} of `{spec.name}`: the function uses values of an enclosing transformation, so "
                         "it cannot be lowered by itself; pass them as arguments")
    return Traced(spec, staged, tree, spec.donated(args, kwargs))


def lower(spec: JitSpec, args: Any, kwargs: Any) -> Lowered:
    """The lowered call."""
    return trace(spec, args, kwargs).lower()

