"""`out_sharding=`: the sharding of a result over `Explicit` axes of a mesh, where the operands do not determine it."""
from __future__ import annotations

import itertools
from collections.abc import Sequence

from lamina_ir import config, prims
from lamina_ir.typing import Function, Sharding, Tree, Value

from ..._core.explicit_shardings import explicit_meshes
from ..._core.trace import bind
from ..._core.tracer import Tracer, typeof
from ..._jit.jit import jit
from ..custom import with_sharding_constraint

__all__ = ["AUTO_AXES", "KEEP", "call_with_out_sharding", "check_out_sharding", "constrain", "explicit_meshes",
           "keep_shardings"]

AUTO_AXES = "auto_axes("  # names of calls whose program the compiler partitions begin with this
KEEP = "{keep:"  # the param of a constraint to the sharding that a value has already; its transpose keeps it too
_numbers = itertools.count()


def check_out_sharding(call: str, out_sharding: Sharding) -> None:
    """Check that `out_sharding` is None, or names only `Explicit` axes.

    Args:
      call: the public function, for messages.
      out_sharding: None, a `PartitionSpec` for the mesh in scope, or a `NamedSharding`.
    Raises:
      TypeError: it is something else.
      ValueError: it names an axis of another type, or no mesh is in scope.

    >>> check_out_sharding("matmul", None)
    """
    if out_sharding is None:
        return
    check = getattr(out_sharding, "check_explicit", None)
    if check is None:
        raise TypeError(f"{call}: out_sharding: expected a PartitionSpec, a NamedSharding or None; got "
                        f"{type(out_sharding).__name__}: {out_sharding!r:.80}")
    check(call)


def call_with_out_sharding(call: str, fun: Function, args: Sequence[Tree], out_sharding: Sharding) -> Tree:
    """Call a function of arrays whose program the compiler partitions; its results get a sharding.

    Args:
      call: the public function, for messages and names.
      fun: the function.
      args: its arguments.
      out_sharding: the sharding of the results, or a tree of them that is a prefix of the results.
    Returns:
      The results.

    >>> call_with_out_sharding("neg", lambda x: -x, (2.0,), None)
    Array(-2., dtype=float32, weak_type=True)
    """
    def run(*xs: Tree) -> Tree:
        return with_sharding_constraint(fun(*xs), out_sharding)

    run.__name__ = f"{AUTO_AXES}{call})"
    return jit(run)(*args)


def keep_shardings(values: Sequence[Value]) -> list[tuple[str, tuple[int, ...]] | None] | None:
    """Return, for each value, the params of a constraint to its own sharding over `Explicit` axes; None for others.

    The transpose of such a constraint gives the cotangent the sharding of the value.

    Args:
      values: arrays, traced values, numbers.
    Returns:
      A list; None if no value has such a sharding.

    >>> keep_shardings([2.0]) is None
    True
    """
    if not explicit_meshes:
        return None
    is_traced_kept = _is_explicit_scope()
    found = [_keep_sharding(x, is_traced_kept) for x in values]
    return found if any(found) else None


def _is_explicit_scope() -> bool:
    """Return whether the mesh in scope has `Explicit` axes."""
    mesh = config.options.get("mesh")
    return mesh is not None and mesh.value is not None and any(kind.name == "Explicit" for kind in mesh.value[4])


def _keep_sharding(x: Value, is_traced_kept: bool) -> tuple[str, tuple[int, ...]] | None:
    if isinstance(x, Tracer):
        return (f"{KEEP}{next(_numbers)}}}", ()) if is_traced_kept else None
    read = getattr(getattr(x, "sharding", None), "explicit_of_rank", None)
    explicit = None if read is None else read(x.ndim)
    if explicit is not None:
        return explicit.constraint(typeof(x))
    return ("{replicated}", ()) if is_traced_kept and hasattr(x, "shape") and x.shape else None


def constrain(x: Value, params: tuple[str, tuple[int, ...]] | None) -> Value:
    """Apply the constraint of `keep_shardings`.

    Args:
      x: the value.
      params: its entry in the list; None: no constraint.
    Returns:
      The value.

    >>> constrain(2.0, None)
    2.0
    """
    return x if params is None else bind(prims.sharding_constraint_p, x, sharding=params[0], unspecified_dims=params[1])
