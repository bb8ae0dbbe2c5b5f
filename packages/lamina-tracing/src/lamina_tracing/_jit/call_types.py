"""Static types of `jit` and `pmap`: a jitted function has the argument and result types of the original function."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, Protocol, TypedDict, TypeVar

from lamina_ir.typing import Device, Tree

from .._typing import CompilerOptions, Stage

__all__ = ["JitOptions", "Jitted"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Jitted(Protocol[P, R]):
    """Compiled function. It is called like the original function, and works as a method of a class.

    `trace` and `lower` exist only with a runtime; without one, an evaluator runs the staged function.

    >>> from lamina_tracing import jit
    >>> doubled: Jitted = jit(lambda x: 2 * x)
    >>> doubled(3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __get__(self, instance: object, owner: type | None = None, /) -> Callable[..., R]: ...

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Stage:
        """Stage the function for these arguments, or for objects with their shapes and dtypes."""
        ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Stage:
        """Stage and lower the function for these arguments: the input of the compiler."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Tree:
        """Return the tree of result shapes and dtypes."""
        ...

    def clear_cache(self) -> None:
        """Remove all cached programs of this function."""
        ...


class JitOptions(TypedDict, total=False):
    """Keyword arguments of `jit`; see there."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Iterable[str] | None
    device: Device
    backend: str | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Iterable[str] | None
    inline: bool
    keep_unused: bool
    in_shardings: Tree
    out_shardings: Tree
    compiler_options: CompilerOptions | None
    abstracted_axes: object
