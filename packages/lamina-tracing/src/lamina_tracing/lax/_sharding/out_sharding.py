"""`out_sharding=`: the sharding of a result over `Explicit` axes of a mesh, where the operands do not determine it."""
from __future__ import annotations

import itertools
from collections.abc import Sequence

from lamina_ir import config, prims, trees
from lamina_ir.typing import Function, Sharding, Tree, Value

from ..._core.explicit_shardings import explicit_meshes, find_sharding, use_auto_axes
from ..._core.function_cache import FunctionCache
from ..._core.trace import bind
from ..._core.tracer import Tracer, typeof
from ..._jit.jit import jit
from .._util.operands import copy_host_result

__all__ = ["KEEP", "auto_axes_of", "call_with_out_sharding", "check_out_sharding", "constrain", "constrain_sharding",
           "constrain_tree", "explicit_meshes", "keep_shardings", "share_sharding"]

_AUTO_AXES = "auto_axes"  # names of calls whose program the compiler partitions begin with this
_calls = FunctionCache()
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


def call_with_out_sharding(call: str, fun: Function, args: Sequence[Tree], out_sharding: Sharding,
                           axes: Sequence[int] | None = None) -> Tree:
    """Call a function of arrays whose program the compiler partitions; its results get a sharding.

    Args:
      call: the public function, for messages and names.
      fun: the function.
      args: its arguments.
      out_sharding: the sharding of the results, or a tree of them that is a prefix of the results.
      axes: the numbers of the mesh axes that the compiler uses as it likes; None: all axes.
    Returns:
      The results.

    >>> call_with_out_sharding("neg", lambda x: -x, (2.0,), None)
    Array(-2., dtype=float32, weak_type=True)
    """
    leaves, tree = trees.tree_flatten(out_sharding, is_leaf=lambda s: hasattr(s, "check_explicit"))
    # Only specs: other shardings have devices, which a cache must not keep.
    table = _calls.get_table(fun) if all(isinstance(s, tuple) for s in leaves) else {}
    key = call, tree, tuple(leaves), axes
    run = table.get(key)
    if run is None:
        run = table[key] = _make_call(call, fun, out_sharding, axes)
    return run(*args)


def _make_call(call: str, fun: Function, out_sharding: Sharding, axes: Sequence[int] | None) -> Function:
    """Return the jitted function of `call_with_out_sharding`."""
    def run(*xs: Tree) -> Tree:
        with use_auto_axes(axes):
            out = fun(*xs)
        return constrain_tree(out, out_sharding)

    numbers = "" if axes is None else f"[{','.join(map(str, axes))}]"
    run.__name__ = f"{_AUTO_AXES}{numbers}({call})"
    return jit(run)


def auto_axes_of(name: str) -> tuple[int, ...] | None:
    """Return the numbers of the mesh axes that the compiler uses as it likes in a call of `call_with_out_sharding`.

    Args:
      name: the name of a call.
    Returns:
      A tuple, empty for all axes; None if it is another call.

    >>> auto_axes_of("auto_axes(matmul)"), auto_axes_of("auto_axes[0,2](f)"), auto_axes_of("f")
    ((), (0, 2), None)
    """
    if not name.startswith((f"{_AUTO_AXES}(", f"{_AUTO_AXES}[")):
        return None
    numbers = name[len(_AUTO_AXES):].partition("]")[0]
    return tuple([int(n) for n in numbers[1:].split(",")]) if numbers.startswith("[") else ()


def constrain_sharding(x: Value, sharding: Sharding) -> Value:
    """Constrain an array to a sharding, without the checks of `with_sharding_constraint` over `Explicit` axes.

    Args:
      x: array or traced value.
      sharding: the sharding; None: no constraint.
    Returns:
      The array.
    Raises:
      TypeError: `sharding` is neither a sharding nor None.

    >>> constrain_sharding(2.0, None)
    2.0
    """
    if sharding is None:
        return copy_host_result(x)
    try:
        constraint = sharding.constraint
    except AttributeError:
        raise TypeError("with_sharding_constraint: expected shardings, such as an array's `.sharding`, PartitionSpecs in a "
                        f"block `with mesh:`, or None; got {type(sharding).__name__}") from None
    text, unspecified = constraint(typeof(x))
    return bind(prims.sharding_constraint_p, x, sharding=text, unspecified_dims=unspecified)


def constrain_tree(xs: Tree, shardings: Tree) -> Tree:
    """Constrain the arrays of a tree to shardings, a tree of them that is a prefix of `xs`.

    Args:
      xs: a tree of arrays.
      shardings: the shardings; None: no constraint.
    Returns:
      The tree.

    >>> constrain_tree((1.0, 2.0), None)
    (1.0, 2.0)
    """
    flat, tree = trees.tree_flatten(xs)
    given = trees.broadcast_prefix(shardings, xs, is_leaf=lambda s: s is None or hasattr(s, "constraint"))
    return tree.unflatten([constrain_sharding(x, s) for x, s in zip(flat, given, strict=True)])


def share_sharding(x: Value, like: Value) -> Value:
    """Return an array with the sharding that a traced value of the same shape has over `Explicit` axes.

    Args:
      x: the array.
      like: the value.
    Returns:
      `x`, with a constraint if `like` is traced and sharded.

    >>> share_sharding(2.0, 1.0)
    2.0
    """
    found = find_sharding(like)
    return constrain_sharding(x, found) if found is not None and any(found.explicit_entries) else x


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
