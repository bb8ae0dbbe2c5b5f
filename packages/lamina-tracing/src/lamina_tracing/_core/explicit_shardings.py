"""Shardings of traced values over `Explicit` mesh axes, for `typeof` and for the keys of staged programs.

Types in programs have no shardings. While a program is staged, `lamina_parallel` computes those of its variables from
the types of the arguments, which have shardings, and from the equations staged so far. It does so only if a mesh with
`Explicit` axes was made, and for values whose sharding is read.
"""
from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from lamina_ir import ClosedJaxpr, ShapedArray
from lamina_ir.errors import ShardingTypeError
from lamina_ir.typing import AxisName, Sharding, Value

from .trace import staging_context_hooks
from .tracer import Tracer

__all__ = ["ExplicitEntries", "ShardingAnalysis", "add_shardings", "analyze_results", "check_constraint",
           "enable_explicit_meshes", "explicit_meshes", "find_sharding", "refuse_sharded", "set_sharding_analysis",
           "use_auto_axes"]

# [True] once a mesh with `Explicit` axes was made; before, no value has such a sharding.
explicit_meshes: list[bool] = []


class ExplicitEntries(NamedTuple):
    """The sharding of an argument while its program is staged: hashable, without devices.

    Attributes:
      explicit_entries: for each dimension the mesh axes over which it is split.

    >>> from lamina_ir import shaped
    >>> shaped((8,), "float32").with_sharding(ExplicitEntries((("x",),))).sharding.explicit_entries
    (('x',),)
    """

    explicit_entries: tuple[tuple[AxisName, ...], ...]


class ShardingAnalysis(Protocol):
    """Computes shardings over `Explicit` axes."""

    def enter_mesh_of(self, operands: Sequence[Value]) -> AbstractContextManager[object]:
        """Return a context with the mesh of the operands in scope, for staging a function of them."""

    def find_sharding(self, x: Value) -> Sharding:
        """Return the sharding of a value; None if it is unknown, or if there are no `Explicit` axes."""

    def use_auto_axes(self, axes: Sequence[int] | None) -> AbstractContextManager[object]:
        """Return a context in which these axes of the mesh in scope have the type `Auto`; None: all axes."""

    def find_entries(self, x: Value) -> ExplicitEntries | None:
        """Return the mesh axes of each dimension of an operand over the mesh in scope; None if they are unknown."""

    def check_constraint(self, x: Value, sharding: Sharding) -> Sharding:
        """Return the sharding that `with_sharding_constraint` applies to a value. Raise an error if it is refused."""

    def analyze_results(self, closed: ClosedJaxpr, outer: Sequence[Value],
                        avals: Sequence[ShapedArray]) -> list[Sharding] | None:
        """Return the sharding of each result of a program; None if the mesh in scope has no `Explicit` axes."""


_analysis: list[ShardingAnalysis] = []  # the one of lamina_parallel, which makes the meshes


def set_sharding_analysis(analysis: ShardingAnalysis) -> None:
    """Install the analysis.

    Args:
      analysis: the analysis.

    >>> before = list(_analysis)
    >>> set_sharding_analysis(None)
    >>> _analysis[:] = before
    """
    _analysis[:] = [analysis]


def enable_explicit_meshes() -> None:
    """Note that a mesh with `Explicit` axes was made.

    From now on functions are staged for the shardings of their operands, with the mesh of these in scope.

    >>> before = list(explicit_meshes), list(staging_context_hooks)
    >>> enable_explicit_meshes()
    >>> explicit_meshes
    [True]
    >>> explicit_meshes[:], staging_context_hooks[:] = before
    """
    if not explicit_meshes:
        explicit_meshes.append(True)
        staging_context_hooks.append(_enter_mesh_of)


def _enter_mesh_of(operands: Sequence[Value]) -> AbstractContextManager[object]:
    return _analysis[0].enter_mesh_of(operands)


def add_shardings(avals: Sequence[ShapedArray], operands: Sequence[Value]) -> tuple[ShapedArray, ...]:
    """Return the types of arguments with the shardings of the operands, for staging a function of them.

    Args:
      avals: a type for each operand; that of its slices along axis 0 if it has one dimension less.
      operands: arrays, traced values, numbers, descriptions of arrays.
    Returns:
      A tuple of types. They are unchanged if no mesh with `Explicit` axes was made.

    >>> from lamina_ir import shaped
    >>> add_shardings((shaped((2,), "float32"),), [[1.0, 2.0]])
    (ShapedArray(float32[2]),)
    """
    if not explicit_meshes:
        return tuple(avals)
    return tuple([_add_sharding(a, x) for a, x in zip(avals, operands, strict=True)])


def _add_sharding(aval: ShapedArray, x: Value) -> ShapedArray:
    found = None if aval.is_reference else _analysis[0].find_entries(x)
    if found is None:
        return aval
    entries = found.explicit_entries
    return aval.with_sharding(ExplicitEntries(entries[len(entries) - aval.ndim:]))


def find_sharding(x: Value) -> Sharding:
    """Return the sharding of a traced value over the `Explicit` axes of a mesh.

    Args:
      x: the traced value.
    Returns:
      A sharding with an entry for each dimension. None if no mesh has such axes, or if it is unknown: in the body of a
      `shard_map`, and in a rule that is staged for another program.
    Raises:
      ShardingTypeError: the sharding of an operation before it is ambiguous.

    >>> find_sharding(2.0) is None
    True
    """
    return _analysis[0].find_sharding(x) if explicit_meshes and isinstance(x, Tracer) else None


def use_auto_axes(axes: Sequence[int] | None) -> AbstractContextManager[object]:
    """Return a context in which axes of the mesh in scope have the type `Auto`.

    Args:
      axes: the numbers of the axes; None: all.
    Returns:
      A context manager.

    >>> with use_auto_axes(None):
    ...     pass
    """
    return _analysis[0].use_auto_axes(axes) if explicit_meshes else nullcontext()


def refuse_sharded(call: str, x: Value, dimensions: Sequence[int]) -> None:
    """Check that dimensions of a traced value are not sharded over `Explicit` axes.

    Args:
      call: the function, for messages.
      x: the value.
      dimensions: the dimensions.
    Raises:
      ShardingTypeError: one of them is sharded.

    >>> refuse_sharded("indexing", 2.0, [])
    """
    found = find_sharding(x) if dimensions else None
    if found is None:
        return
    for d in dimensions:
        if found.explicit_entries[d]:
            aval = x.aval.with_sharding(found)
            raise ShardingTypeError(f"{call}: a sliced dimension must not be sharded, because the sharding of the result is "
                                    f"ambiguous; got dimension {d} of {aval.str_long()}. Use "
                                    "x.at[index].get(out_sharding=...), lax.slice, or lamina.sharding.reshard")


def check_constraint(x: Value, sharding: Sharding) -> Sharding:
    """Check a sharding constraint of the user over `Explicit` axes.

    Args:
      x: the value.
      sharding: the sharding of the constraint.
    Returns:
      The sharding to apply. If some axes are `Explicit`, it also has those of the value.
    Raises:
      ShardingMismatchError: all axes are `Explicit`, and the value has another sharding.
      ValueError: some axes are `Explicit`, and the sharding names one of them.

    >>> check_constraint(2.0, None) is None
    True
    """
    return _analysis[0].check_constraint(x, sharding) if explicit_meshes and sharding is not None else sharding


def analyze_results(closed: ClosedJaxpr, outer: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Sharding] | None:
    """Return the sharding of each result of a staged program, and refuse ambiguous operations.

    Args:
      closed: the program.
      outer: the values of enclosing traces that it takes first.
      avals: the types of its other arguments, of `add_shardings`.
    Returns:
      A list; None if no shardings are known.
    Raises:
      ShardingTypeError: the sharding of an operation is ambiguous.

    >>> analyze_results(None, [], []) is None
    True
    """
    return _analysis[0].analyze_results(closed, outer, avals) if explicit_meshes else None
