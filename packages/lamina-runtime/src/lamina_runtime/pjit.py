"""Provide `pjit`, the former name of `jit` for programs over meshes."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from lamina_ir import trees
from lamina_parallel import Mesh, PartitionSpec
from lamina_tracing import jit
from lamina_tracing.lax import with_sharding_constraint
from lamina_ir.typing import Device, Function, Tree
from typing_extensions import override

from . import _jaxlib
from ._typing import CompilerOptions

__all__ = ["AUTO", "UNSPECIFIED", "pjit", "with_sharding_constraint"]


class _Unspecified:
    @override
    def __repr__(self) -> str:
        return "UNSPECIFIED"


UNSPECIFIED = _Unspecified()


class AUTO:
    """Marker for shardings that the compiler chooses; not supported.

    Raises:
      NotImplementedError: on creation.

    >>> AUTO(None)
    Traceback (most recent call last):
    NotImplementedError: AUTO: the compiler does not search for shardings of arguments. Leave them to the call with
    None...
    """

    def __init__(self, mesh: Mesh) -> NoReturn:
        raise NotImplementedError("AUTO: the compiler does not search for shardings of arguments. Leave them to the "
                                  "call with None, or name them")


def pjit(fun: Function | None = None, in_shardings: Tree = UNSPECIFIED, out_shardings: Tree = UNSPECIFIED,
         static_argnums: int | Sequence[int] | None = None, static_argnames: str | Iterable[str] | None = None,
         donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Iterable[str] | None = None,
         keep_unused: bool = False, device: Device = None, backend: str | None = None, inline: bool = False,
         compiler_options: CompilerOptions | None = None, *, in_axis_resources: Tree = UNSPECIFIED,
         out_axis_resources: Tree = UNSPECIFIED, abstracted_axes: object = None) -> Function:
    """Jit a function; shardings may be `PartitionSpec`s if the calls are in a `with mesh:` block.

    Args:
      fun: the function.
      in_shardings, out_shardings: as of `jit`.
      in_axis_resources, out_axis_resources: the former names of these. Here None means replicated.
      static_argnums, static_argnames, donate_argnums, donate_argnames: as of `jit`.
      keep_unused, device, backend, inline, compiler_options, abstracted_axes: as of `jit`.
    Returns:
      A function like `fun`.
    Raises:
      ValueError: an option is given under both of its names.

    >>> import lamina_runtime
    >>> from lamina_parallel import Mesh
    >>> import numpy as np
    >>> with Mesh(lamina_runtime.devices()[:1], "x"):
    ...     pjit(lambda x: x + 1, in_axis_resources=PartitionSpec("x"), out_axis_resources=None)(np.ones(1))
    Array([2.], dtype=float32)
    """
    resolved = []
    for name, new, old in (("in", in_shardings, in_axis_resources), ("out", out_shardings, out_axis_resources)):
        if new is not UNSPECIFIED and old is not UNSPECIFIED:
            raise ValueError(f"pjit: give {name}_shardings or its former name {name}_axis_resources, not both")
        resolved.append((None if new is UNSPECIFIED else new) if old is UNSPECIFIED else _replace_none(old))
    return jit(fun, in_shardings=resolved[0], out_shardings=resolved[1], static_argnums=static_argnums,
               static_argnames=static_argnames,
               donate_argnums=donate_argnums, donate_argnames=donate_argnames, keep_unused=keep_unused, device=device,
               backend=backend, inline=inline, compiler_options=compiler_options, abstracted_axes=abstracted_axes)


def _replace_none(given: Tree) -> Tree:
    """Replace None in a tree of shardings by `PartitionSpec()`, which means replicated."""
    return trees.tree_map(lambda s: PartitionSpec() if s is None else s, given,
                          is_leaf=lambda s: s is None or isinstance(s, (PartitionSpec, _jaxlib.Sharding)))
