"""`jax.api_util`: helpers on the arguments of transformed functions."""
from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from lamina_ir import ShapedArray, shaped
from lamina_ir import trees
from lamina_ir.typing import Function, Tree
from lamina_tracing.extend import typeof as _typeof
from typing_extensions import override

from .linear_util import WrappedFun, transformation, transformation_with_aux
from .util import safe_map, safe_zip

__all__ = ["DebugInfo", "apply_flat_fun", "apply_flat_fun_nokwargs", "argnums_partial", "argnums_partial_except",
           "check_callable", "debug_info", "debug_info_final", "donation_vector", "flat_out_axes", "flatten_axes", "flatten_fun",
           "flatten_fun_nokwargs", "flatten_fun_nokwargs2", "flattened_fun_in_tree", "fun_signature", "fun_sourceinfo",
           "infer_argnums_and_argnames", "is_hashable", "rebase_donate_argnums", "resolve_argnums", "result_paths", "safe_map",
           "safe_zip", "shaped_abstractify"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


# --- flat functions -------------------------------------------------------------------------------------------------
@transformation_with_aux
def flatten_fun(in_tree: trees.PyTreeDef, *args_flat: Tree) -> Any:
    """Make a function of leaves from a function of trees: `flatten_fun(fun, in_tree)`.

    Args:
      fun: a `WrappedFun`.
      in_tree: the structure of `(args, kwargs)`.
    Returns:
      The function, whose result is a list of leaves; a function that returns the structure of the result.

    >>> from lamina_tracing.linear_util import wrap_init
    >>> fun, out_tree = flatten_fun(wrap_init(lambda x, y: {"sum": x + y}), trees.tree_structure(((0,), {"y": 0})))
    >>> fun.call_wrapped(1, 2), out_tree()
    ([3], PyTreeDef({'sum': *}))
    """
    args, kwargs = trees.tree_unflatten(in_tree, args_flat)
    yield trees.tree_flatten((yield args, kwargs))


@transformation_with_aux
def flatten_fun_nokwargs(in_tree: trees.PyTreeDef, *args_flat: Tree) -> Any:
    """As `flatten_fun`, for the structure of positional arguments."""
    yield trees.tree_flatten((yield tuple(trees.tree_unflatten(in_tree, args_flat)), {}))


@transformation_with_aux
def flatten_fun_nokwargs2(in_tree: trees.PyTreeDef, *args_flat: Tree) -> Any:
    """As `flatten_fun_nokwargs`, for a function that returns a pair: both parts are flattened."""
    out, aux = yield tuple(trees.tree_unflatten(in_tree, args_flat)), {}
    (leaves, tree), (aux_leaves, aux_tree) = trees.tree_flatten(out), trees.tree_flatten(aux)
    yield (leaves, aux_leaves), (tree, aux_tree)


def apply_flat_fun(fun: Function, io_tree: tuple[trees.PyTreeDef, trees.PyTreeDef], *py_args: Tree) -> Tree:
    """Call a function of leaves with trees.

    Args:
      fun: takes and returns leaves.
      io_tree: the structures of `(args, {})` and of the result.
      py_args: the arguments.
    """
    in_tree, out_tree = io_tree
    leaves, found = trees.tree_flatten((py_args, {}))
    if found != in_tree:
        raise TypeError(f"apply_flat_fun: the arguments must have the structure {in_tree}; got {found}")
    return trees.tree_unflatten(out_tree, fun(*leaves))


def apply_flat_fun_nokwargs(fun: Function, io_tree: tuple[trees.PyTreeDef, trees.PyTreeDef], py_args: Sequence[Tree]) -> Tree:
    """As `apply_flat_fun`, for the structure of positional arguments."""
    in_tree, out_tree = io_tree
    leaves, found = trees.tree_flatten(tuple(py_args))
    if found != in_tree:
        raise TypeError(f"apply_flat_fun_nokwargs: the arguments must have the structure {in_tree}; got {found}")
    return trees.tree_unflatten(out_tree, fun(*leaves))


@transformation_with_aux
def flattened_fun_in_tree(*args: Tree, **kwargs: Tree) -> Any:
    """Make the structure of the arguments the auxiliary output of a function: `flattened_fun_in_tree(fun)`."""
    out = yield args, kwargs
    yield out, trees.tree_structure((args, kwargs))


@transformation_with_aux
def flat_out_axes(out_spec: Tree, *args: Tree, **kwargs: Tree) -> Any:
    """Make the axis of each leaf of the result the auxiliary output of a function: `flat_out_axes(fun, out_spec)`."""
    out = yield args, kwargs
    yield out, tuple(flatten_axes("out_axes", trees.tree_structure(out), out_spec))


@transformation_with_aux
def result_paths(*args: Tree, **kwargs: Tree) -> Any:
    """Make the paths of the leaves of the result the auxiliary output of a function: `result_paths(fun)`."""
    out = yield args, kwargs
    yield out, [f"result{trees.keystr(path)}" for path, _ in trees.tree_leaves_with_path(out)]


# --- static and donated arguments -----------------------------------------------------------------------------------
class _Fixed:
    """An argument that is part of a function, compared by value if it is hashable, else by identity."""

    def __init__(self, val: object) -> None:
        self.val = val

    @override
    def __hash__(self) -> int:
        return hash(self.val) if is_hashable(self.val) else id(self.val)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Fixed) or type(self.val) is not type(other.val):
            return False
        return self.val is other.val or is_hashable(self.val) and bool(self.val == other.val)


@transformation
def _fix_arguments(dyn_argnums: tuple[int, ...], fixed: tuple[tuple[int, _Fixed], ...], *dyn_args: Tree, **kwargs: Tree) -> Any:
    args: list[Tree] = [None] * (len(dyn_args) + len(fixed))
    for i, x in zip(dyn_argnums, dyn_args, strict=True):
        args[i] = x
    for i, value in fixed:
        args[i] = value.val
    yield (yield tuple(args), kwargs)


def argnums_partial(f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Tree],
                    require_static_args_hashable: bool = True) -> tuple[WrappedFun, tuple[Tree, ...]]:
    """Fix all arguments but some.

    Args:
      f: the function.
      dyn_argnums: positions of the arguments that are not fixed; negative ones count from the end.
      args: all arguments.
      require_static_args_hashable: whether an unhashable fixed argument is an error.
    Returns:
      The function of the remaining arguments, and these.
    Raises:
      ValueError: a fixed argument is not hashable, or a position is out of bounds.

    >>> from lamina_tracing.linear_util import wrap_init
    >>> f, rest = argnums_partial(wrap_init(lambda x, y: x - y), 1, (10, 3))
    >>> f.call_wrapped(*rest), f.call_wrapped(4)
    (7, 6)
    """
    numbers = _positions("argnums_partial", _ensure_index_tuple(dyn_argnums), len(args))
    fixed = [(i, _Fixed(x)) for i, x in enumerate(args) if i not in numbers]
    for i, value in fixed if require_static_args_hashable else ():
        if not is_hashable(value.val):
            raise ValueError(f"argnums_partial: the fixed argument {i} must be hashable; got {type(value.val).__name__}. Pass "
                             "arrays as arguments that are not fixed")
    return _fix_arguments(f, numbers, tuple(fixed)), tuple([args[i] for i in numbers])


def argnums_partial_except(f: WrappedFun, static_argnums: tuple[int, ...], args: tuple[Tree, ...], *,
                           allow_invalid: bool) -> tuple[WrappedFun, tuple[Tree, ...]]:
    """Fix some arguments.

    Args:
      f: the function.
      static_argnums: positions of the arguments that are fixed.
      args: all arguments.
      allow_invalid: whether positions out of bounds are ignored.
    Returns:
      The function of the remaining arguments, and these.
    """
    valid = [i for i in static_argnums if -len(args) <= i < len(args)]
    static = _positions("argnums_partial_except", tuple(valid) if allow_invalid else static_argnums, len(args))
    return argnums_partial(f, [i for i in range(len(args)) if i not in static], args)


def _positions(call: str, numbers: Sequence[int], count: int) -> tuple[int, ...]:
    for i in numbers:
        if not -count <= i < count:
            raise ValueError(f"{call}: positions must be from {-count} to {count - 1}; got {i}")
    return tuple(sorted({i % count for i in numbers}))


def donation_vector(donate_argnums: Iterable[int], donate_argnames: Iterable[str], in_tree: trees.PyTreeDef,
                    kws: bool = True) -> tuple[bool, ...]:
    """Return for each leaf of the arguments whether it is donated.

    Args:
      donate_argnums: positions of donated arguments.
      donate_argnames: names of donated keyword arguments.
      in_tree: the structure of `(args, kwargs)`.
      kws: False: `in_tree` is the structure of `args`.

    >>> donation_vector((1,), (), trees.tree_structure(((0, [0, 0]), {"k": 0})))
    (False, True, True, False)
    """
    args, *kwargs = in_tree.children() if kws else [in_tree]
    flags: list[bool] = []
    numbers, names = set(donate_argnums), set(donate_argnames)
    for i, tree in enumerate(args.children()):
        flags.extend([i in numbers] * tree.num_leaves)
    if kwargs:
        keys = (kwargs[0].node_data() or (dict, ()))[1]
        for name, tree in zip(keys, kwargs[0].children(), strict=True):
            flags.extend([name in names] * tree.num_leaves)
    return tuple(flags)


def rebase_donate_argnums(donate_argnums: Iterable[int], static_argnums: Iterable[int]) -> tuple[int, ...]:
    """Return the positions of donated arguments among the arguments that are not static.

    Raises:
      ValueError: an argument is donated and static.

    >>> rebase_donate_argnums((2,), (0,))
    (1,)
    """
    donated, static = sorted(donate_argnums), set(static_argnums)
    if both := static.intersection(donated):
        raise ValueError(f"donate_argnums and static_argnums must be disjoint; both have {sorted(both)}")
    return tuple([i - sum(s < i for s in static) for i in donated])


def flatten_axes(name: str, treedef: trees.PyTreeDef, axis_tree: Tree, *, kws: bool = False,
                 tupled_args: bool = False) -> list[Any]:
    """Return the axis of each leaf, from a tree of axes that is a prefix.

    Args:
      name: of the parameter, for errors.
      treedef: the structure of the values.
      axis_tree: axes; None is an axis too.
      kws: whether `treedef` is the structure of `(args, kwargs)` and `axis_tree` that of `args`: keyword arguments then
        have axis 0.
      tupled_args: whether values are the arguments of a function; accepted without effect.
    Raises:
      ValueError: `axis_tree` is not a prefix.

    >>> flatten_axes("in_axes", trees.tree_structure((1, [2, 3])), (0, None))
    [0, None, None]
    """
    values = treedef.unflatten([object()] * treedef.num_leaves)
    prefix = (axis_tree, 0) if kws else axis_tree
    try:
        return trees.broadcast_prefix(prefix, values, is_leaf=lambda x: x is None)
    except ValueError as e:
        raise ValueError(f"{name} specification must be a tree prefix of the corresponding value, got specification "
                         f"{axis_tree!r} for value tree {treedef}: {e}") from None


def infer_argnums_and_argnames(sig: inspect.Signature, argnums: int | Iterable[int] | None,
                               argnames: str | Iterable[str] | None) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return positions and names of arguments; those that are None are inferred from the others.

    >>> infer_argnums_and_argnames(inspect.signature(lambda x, y: x), None, "y")
    ((1,), ('y',))
    """
    if argnums is None and argnames is None:
        return (), ()
    parameters = list(sig.parameters.values())
    numbers = _ensure_index_tuple(argnums) if argnums is not None else ()
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames or ())
    if argnums is None:
        numbers = tuple([i for i, p in enumerate(parameters) if p.kind in _POSITIONAL and p.name in names])
    elif argnames is None:
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = tuple([p.name for i, p in enumerate(parameters) if p.kind is keyword and i in numbers])
    return numbers, names


def resolve_argnums(fun: Function, signature: inspect.Signature | None, donate_argnums: int | Sequence[int] | None,
                    donate_argnames: str | Iterable[str] | None, static_argnums: int | Sequence[int] | None,
                    static_argnames: str | Iterable[str] | None
                    ) -> tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """Return positions and names of donated arguments, then those of static ones.

    Args:
      fun: the function, for errors.
      signature: its signature; None if it has none: nothing is inferred then.
      donate_argnums, donate_argnames, static_argnums, static_argnames: as for `jit`.
    Raises:
      ValueError: an argument is donated and static.
    """
    signature = signature or inspect.Signature()
    static = infer_argnums_and_argnames(signature, static_argnums, static_argnames)
    donated = infer_argnums_and_argnames(signature, donate_argnums, donate_argnames)
    for kind, one, two in (("argnums", donated[0], static[0]), ("argnames", donated[1], static[1])):
        if both := set(one).intersection(two):
            raise ValueError(f"jit: donate_{kind} and static_{kind} must be disjoint; for `{_name_of(fun)}` both have {both}")
    return *donated, *static


def _ensure_index(x: Any) -> int | tuple[int, ...]:
    try:
        return operator.index(x)
    except TypeError:
        return tuple(map(operator.index, x))


def _ensure_index_tuple(x: Any) -> tuple[int, ...]:
    index = _ensure_index(x)
    return index if isinstance(index, tuple) else (index,)


def _ensure_str_tuple(x: str | Iterable[str]) -> tuple[str, ...]:
    return (x,) if isinstance(x, str) else tuple(map(str, x))


def is_hashable(arg: object) -> bool:
    """Return whether a value can be hashed."""
    try:
        hash(arg)
    except TypeError:
        return False
    return True


def check_callable(fun: object) -> None:
    """Raise TypeError for a value that is not a function."""
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun!r}")


def shaped_abstractify(x: Any) -> ShapedArray:
    """Return the type of a value, or of an object with a shape and a dtype."""
    try:
        return _typeof(x)
    except TypeError:
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise
    return shaped(tuple(x.shape), x.dtype, bool(getattr(x, "weak_type", False)))


# --- descriptions of functions --------------------------------------------------------------------------------------
class DebugInfo(NamedTuple):
    """A function and the names of its flat arguments, for messages.

    Attributes:
      traced_for: the transformation, such as "jit".
      func_src_info: name, file and line of the function.
      arg_names: of each flat argument.
      result_paths: of each flat result; None if they are unknown.
    """

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...]
    result_paths: tuple[str, ...] | Callable[[], tuple[str, ...]] | None = None

    func_name = property(lambda self: self.func_src_info.partition(" ")[0])


def _name_of(fun: Any) -> str:
    return str(getattr(fun, "__name__", fun))


def fun_sourceinfo(fun: Function) -> str:
    """Return name, file and line of a function; its name alone if it is not written in Python."""
    inner = inspect.unwrap(getattr(fun, "func", fun))
    code = getattr(inner, "__code__", None)
    return _name_of(inner) if code is None else f"{_name_of(inner)} at {code.co_filename}:{code.co_firstlineno}"


def fun_signature(fun: Function) -> inspect.Signature | None:
    """Return the signature of a function; None if it has none."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def debug_info(traced_for: str, fun: Function, args: Sequence[Tree], kwargs: dict[str, Tree], *,
               static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (),
               result_paths_thunk: Any = None, sourceinfo: str | None = None,
               signature: inspect.Signature | None = None) -> DebugInfo:
    """Return the description of a function and its arguments, as JAX from release 0.5 on.

    Args:
      traced_for: the transformation.
      fun: the function.
      args, kwargs: its arguments.
      static_argnums, static_argnames: those that are no arrays.
      result_paths_thunk: the paths of the results.
      sourceinfo, signature: those of the function, if they are known.

    >>> debug_info("jit", lambda x, y: x, ({"a": 1}, 2), {}).arg_names
    ("x['a']", 'y')
    """
    signature = signature or fun_signature(fun)
    dynamic = tuple([x for i, x in enumerate(args) if i not in static_argnums])
    named = {k: v for k, v in kwargs.items() if k not in static_argnames}
    parameters = [p.name for p in signature.parameters.values() if p.kind in _POSITIONAL] if signature else []
    positions = [i for i in range(len(args)) if i not in static_argnums]
    names = [parameters[i] if i < len(parameters) else f"args[{i}]" for i in positions]
    found = [f"{name}{trees.keystr(path)}" for name, x in (*zip(names, dynamic), *sorted(named.items()))
             for path, _ in trees.tree_leaves_with_path(x)]
    return DebugInfo(traced_for, sourceinfo or fun_sourceinfo(fun), tuple(found), result_paths_thunk)


def debug_info_final(f: WrappedFun, dbg: object, res_paths: object = None) -> WrappedFun:
    """Return the function with a description."""
    return WrappedFun(f.f, f.transforms, f.stores, f.params, f.in_type, dbg)
