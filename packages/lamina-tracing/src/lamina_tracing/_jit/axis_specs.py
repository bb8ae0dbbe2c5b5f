"""`MappedAxes`: the in_axes and out_axes of a map, checked against the arguments and results of a call."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from typing_extensions import override
from lamina_ir import shaped, ShapedArray, trees
from lamina_ir.extend import explain_mismatch
from lamina_ir.typing import Function, Tree, Value
from lamina_ir.trees import PyTreeDef

from .._core.args import argument_path, result_path
from .._core.signature import argument_name, function_name
from .._core.tracer import typeof

__all__ = ["MappedAxes"]

_MAX_LISTED = 4  # arguments that an error lists for each size


class MappedAxes:
    """The axis specifications of a map, checked.

    Args:
      call: name of the map, such as "vmap".
      fun: the function.
      in_axes: which axis of each positional argument is mapped: an integer, None, or a tuple of trees of them.
      out_axes: where the mapped axis goes in each result: a tree of integers and None.
      axis_size: size of the mapped axis; None: determined by the arguments.
      static: positions of arguments that are Python values; `in_axes` may have entries for them.
      min_size: the smallest allowed size.
    Raises:
      TypeError: an entry is neither an integer nor None; the message names its path and the argument.
      ValueError: `axis_size` is too small.

    >>> import numpy as np
    >>> axes = MappedAxes("vmap", lambda x, w: x * w, (-1, None), 0)
    >>> args = (np.zeros((2, 3)), 2.0)
    >>> tree = trees.tree_structure((args, {}))
    >>> found = axes.resolve_in_axes(args, tree)
    >>> axes.size(args, found, tree), found
    (3, [1, None])
    """

    def __init__(self, call: str, fun: Function, in_axes: Tree, out_axes: Tree, axis_size: int | None = None,
                 static: Collection[int] = (), min_size: int = 0) -> None:
        self.call, self.fun, self.static = call, fun, static
        self.in_axes = tuple(in_axes) if isinstance(in_axes, (list, tuple)) else in_axes
        self.out_axes = out_axes
        if type(in_axes) is not int:
            if not (in_axes is None or isinstance(self.in_axes, tuple) or _is_integer(in_axes)):
                hint = f". For one argument that is a dict, write ({in_axes!r},)" if isinstance(in_axes, dict) else ""
                raise TypeError(f"{self.error_prefix}: in_axes must be an int, None, or a tuple of them with one entry "
                                f"per positional argument; got {in_axes!r}{hint}")
            self._check("in_axes", self.in_axes)
        if type(out_axes) is not int:
            self._check("out_axes", out_axes)
        if axis_size is not None:
            if not _is_integer(axis_size):
                raise TypeError(f"{self.error_prefix}: axis_size must be an int; got {type(axis_size).__name__}: {axis_size!r}")
            axis_size = axis_size.__index__()
            if axis_size < min_size:
                raise ValueError(f"{self.error_prefix}: axis_size must be at least {min_size}; got {axis_size}")
        self.axis_size = axis_size

    @property
    def error_prefix(self) -> str:
        """Prefix of error messages."""
        return f"{self.call} of `{function_name(self.fun)}`"

    def _check(self, what: str, spec: Tree) -> None:
        for path, x in trees.tree_leaves_with_path(spec, is_leaf=_is_none):
            if x is not None and not _is_integer(x):
                mine = what == "in_axes" and isinstance(spec, tuple)
                names = f" (for argument `{argument_name(self.fun, path[0].idx)}`)" if mine else ""
                raise TypeError(f"{self.error_prefix}: {what}{trees.keystr(path)}{names} must be an int or None; got "
                                f"{type(x).__name__}: {x!r}")

    # --- arguments ----------------------------------------------------------------------------------------------------
    def argument_path(self, tree: PyTreeDef, i: int) -> str:
        """Return the user's name of a flat argument: `params['w'][0]`.

        Args:
          tree: the structure of `(args, kwargs)`, without static arguments.
          i: the number of the argument.
        """
        return argument_path(tree, i, self.fun, self.static)

    def check_count(self, args: Sequence[Tree], kwargs: Mapping[str, Tree] | tuple[()] = ()) -> None:
        """Raise ValueError if a tuple of in_axes does not have one entry per positional argument."""
        spec = self.in_axes
        if not isinstance(spec, tuple) or len(spec) == len(args):
            return
        # Static arguments have no axis: entries for static arguments at the end may be omitted.
        mapped = 1 + max((i for i in range(len(args)) if i not in self.static), default=-1)
        if mapped <= len(spec) <= len(args):
            return
        names = ", ".join([argument_name(self.fun, i) for i in range(len(args))])
        more = f". Keyword arguments ({', '.join(kwargs)}) have none: they are mapped over axis 0" if kwargs else ""
        raise ValueError(f"{self.error_prefix}: in_axes must have one entry per positional argument; got {len(spec)} "
                         f"entries {spec!r} for {len(args)} arguments ({names}){more}")

    def resolve_in_axes(self, flat: Sequence[Value], tree: PyTreeDef) -> list[int | None]:
        """Return the mapped axis of each flat argument.

        Args:
          flat: the arguments, without static ones.
          tree: the structure of `(args, kwargs)`.
        Returns:
          A list of integers, possibly negative, and None.
        Raises:
          ValueError: in_axes is not a tree prefix of the arguments.
        """
        spec = self.in_axes
        if spec == 0 and type(spec) is int:  # the common case; keyword arguments are always mapped over axis 0
            return [0] * len(flat)
        if isinstance(spec, tuple) and self.static:
            spec = tuple([a for i, a in enumerate(spec) if i not in self.static])
        shown_args = None  # the arguments with printable leaves, for the error
        try:
            # (spec, 0) for (args, kwargs): keyword arguments are mapped over axis 0.
            found = trees.broadcast_prefix((spec, 0), trees.tree_unflatten(tree, [0] * len(flat)), is_leaf=_is_none)
        except ValueError:
            shown_args = trees.tree_unflatten(tree, [_Shown(x) for x in flat])[0]
        if shown_args is None:
            return [None if x is None else x.__index__() for x in found]
        # Positions in the user's call, where static arguments still count.
        positions = [i for i in range(len(shown_args) + len(self.static)) if i not in self.static]
        for k, entry, argument in zip(positions, spec, shown_args):
            text = explain_mismatch(trees.tree_structure(entry, is_leaf=_is_none), argument)
            if text is not None:
                raise ValueError(f"{self.error_prefix}: in_axes[{k}] must be a prefix of argument "
                                 f"`{argument_name(self.fun, k)}`, which {text}; got {entry!r} for {argument!r:.300}")
        raise ValueError(f"{self.error_prefix}: in_axes must be a prefix of the arguments; got {spec!r} for "
                         f"{shown_args!r:.300}")

    def size(self, flat: Sequence[Value], axes: list[int | None], tree: PyTreeDef, expected: int | None = None) -> int:
        """Compute the size of the mapped axis, and make negative entries of `axes` non-negative in place.

        Args:
          flat: the arguments, without static ones.
          axes: the mapped axis of each argument, or None.
          tree: the structure of `(args, kwargs)`.
          expected: the expected local size, if it differs from `axis_size` (the size over all processes).
        Returns:
          An integer.
        Raises:
          TypeError: a mapped argument is not an array.
          ValueError: sizes are inconsistent, an argument lacks the axis, or none is mapped.
        """
        size = expected = self.axis_size if expected is None else expected
        agree = True
        for i, (x, axis) in enumerate(zip(flat, axes)):
            if axis is None:  # passed to the function unchanged, so it may be any object
                continue
            try:
                aval = typeof(x)
                shape = aval.shape
                if aval.is_reference and self.call != "vmap":
                    raise TypeError(f"mutable references are not divided among members; got {aval.str_long()}. Pass its "
                                    "value, ref[...], and write the result to it")
            except TypeError as e:
                raise TypeError(f"{self.error_prefix}: {self.argument_path(tree, i)}: {e}. An argument that is no "
                                "array must not be mapped: give None in its place in in_axes") from None
            # Negative axes count from the end of each array's own shape.
            if not -len(shape) <= axis < len(shape):
                raise self._no_such_axis(self.argument_path(tree, i), x, axis)
            if axis < 0:
                axis = axes[i] = axis + len(shape)
            if size is None:
                size = shape[axis]
            elif size != shape[axis]:
                # Reported after the loop, with the sizes of all arguments.
                agree = False
        if size is None:
            got = ", ".join([f"{self.argument_path(tree, i)} {_Shown(x)!r}" for i, x in enumerate(flat[:_MAX_LISTED])])
            raise ValueError(f"{self.error_prefix}: at least one in_axes entry must not be None, or axis_size must be "
                             "given; got " + (f"in_axes {self.in_axes!r} for {got}{_more(len(flat))}" if flat else "no arrays"))
        if not agree:
            raise self._sizes_differ(flat, axes, tree, expected)
        return size

    def _no_such_axis(self, where: str, x: Value, axis: int) -> ValueError:
        aval = typeof(x)
        if aval.ndim:
            return ValueError(f"{self.error_prefix}: in_axes {axis} is out of range for {where}, {aval.str_long()}; expected "
                              f"{-aval.ndim} <= axis < {aval.ndim}")
        in_list = where.endswith("]") and isinstance(x, (bool, int, float, complex))
        hint = f". If {where[:where.rindex('[')]} is meant as one array, make it one first" if in_list else ""
        return ValueError(f"{self.error_prefix}: {where} has rank 0 ({aval.str_long()}) but in_axes maps its "
                          f"axis {axis}; use None for arguments that are not mapped{hint}")

    def _sizes_differ(self, flat: Sequence[Value], axes: Sequence[int | None], tree: PyTreeDef,
                      expected: int | None) -> ValueError:
        args_of_size: dict[int, list[int]] = {}
        for i, axis in enumerate(axes):
            if axis is not None:
                args_of_size.setdefault(typeof(flat[i]).shape[axis], []).append(i)
        # Without axis_size, the most frequent size counts as the intended one.
        wanted = expected if expected is not None else max(args_of_size, key=lambda n: len(args_of_size[n]))
        wrong, odd = next((n, i) for n, found in args_of_size.items() for i in found[:1] if n != wanted)

        def describe(i: int) -> str:
            return f"{self.argument_path(tree, i)} {typeof(flat[i]).str_long()} axis {axes[i]}"

        sizes = "; ".join([f"{n}: {', '.join(map(describe, found[:_MAX_LISTED]))}{_more(len(found))}"
                           for n, found in args_of_size.items()])
        option = "axis_size" if expected == self.axis_size else f"axis_size {self.axis_size} (of all processes)"
        like = option if expected is not None else self.argument_path(tree, args_of_size[wanted][0])
        return ValueError(f"{self.error_prefix}: inconsistent sizes of the mapped axis: {self.argument_path(tree, odd)}, "
                          f"{typeof(flat[odd]).str_long()}, has {wrong} along axis {axes[odd]}; expected {wanted}, as {like} "
                          f"{'says' if expected is not None else 'has'}. All sizes: {sizes}")

    # --- results ------------------------------------------------------------------------------------------------------
    def resolve_out_axes(self, outs: Sequence[Value], tree: PyTreeDef) -> list[int | None]:
        """Return, for each flat result, where the mapped axis goes.

        Args:
          outs: the results, or their types.
          tree: their structure.
        Returns:
          A list of integers, possibly negative, and None.
        Raises:
          ValueError: out_axes is not a tree prefix of the results.
        """
        spec = self.out_axes
        if type(spec) is int:
            return [spec] * len(outs)
        try:
            found = trees.broadcast_prefix(spec, trees.tree_unflatten(tree, [0] * len(outs)), is_leaf=_is_none)
        except ValueError:
            shown = trees.tree_unflatten(tree, [_Shown(x) for x in outs])
            text = explain_mismatch(trees.tree_structure(spec, is_leaf=_is_none), shown) or "has another structure"
            raise ValueError(f"{self.error_prefix}: out_axes must be a prefix of the function's output, which {text}; "
                             f"got {spec!r} for {shown!r:.300}") from None
        return [None if x is None else x.__index__() for x in found]

    def normalize_out_axis(self, tree: PyTreeDef, i: int, aval: ShapedArray, to: int, at: int | None = None) -> int:
        """Check one out_axes entry and return it as a non-negative integer.

        Args:
          tree: the structure of the results.
          i: the number of the result.
          aval: its type.
          to: the out_axes entry.
          at: the position of the mapped axis in `aval`; None: `aval` is the type of one member, without that axis.
        Returns:
          An integer.
        Raises:
          ValueError: `to` is out of range.
        """
        ndim = aval.ndim + (at is None)
        if not -ndim <= to < ndim:
            member = aval if at is None else shaped(aval.shape[:at] + aval.shape[at + 1:], aval.dtype)
            raise ValueError(f"{self.error_prefix}: out_axes {to} is out of range for {result_path(tree, i)}, "
                             f"{member.str_long()} per {'device' if self.call == 'pmap' else 'example'}; expected "
                             f"{-ndim} <= axis < {ndim}")
        return to % ndim


def _is_none(x: object) -> bool:
    return x is None


def _is_integer(x: object) -> bool:
    return hasattr(x, "__index__") and not isinstance(x, bool) and not getattr(x, "shape", ())


def _more(n: int) -> str:
    return f" and {n - _MAX_LISTED} more" if n > _MAX_LISTED else ""


class _Shown:
    """A leaf whose repr is its array type, or the name of its Python type if it is not an array."""

    def __init__(self, value: Value) -> None:
        self.value = value

    @override
    def __repr__(self) -> str:
        try:
            return (self.value if hasattr(self.value, "str_long") else typeof(self.value)).str_long()
        except TypeError:
            return type(self.value).__name__


_Shown.__name__ = "value"  # `explain_mismatch` prints this name in messages
