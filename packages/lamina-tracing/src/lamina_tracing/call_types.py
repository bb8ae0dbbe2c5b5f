"""What `jit` and `pmap` take and give, for type checkers: a jitted function takes and gives what the function does."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar

__all__ = ["JitOptions", "Jitted"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Jitted(Protocol[P, R]):
    """A compiled function: it is called as the function it was made of, and as a method of a class too.

    The stages, `trace` and `lower`, are there with a runtime: without one, staged functions are run by an evaluator.

    >>> from lamina_tracing import jit
    >>> doubled: Jitted = jit(lambda x: 2 * x)
    >>> doubled(3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def __get__(self, instance: Any, owner: Any = None, /) -> Callable[..., R]: ...

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The function staged for these arguments, or for anything with their shapes and dtypes."""
        ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The same, lowered: what the compiler would be given."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The shapes and dtypes of the results, in their tree."""
        ...

    def clear_cache(self) -> None:
        """Forget all programs of this function."""
        ...


class JitOptions(TypedDict, total=False):
    """The options of `jit`, which tells what they mean."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Iterable[str] | None
    device: Any
    backend: str | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Iterable[str] | None
    inline: bool
    keep_unused: bool
    in_shardings: Any
    out_shardings: Any
    compiler_options: dict[str, Any] | None
    abstracted_axes: Any
