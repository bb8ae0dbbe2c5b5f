"""`CallSpec`: a function and its call options, from which a dispatcher makes a callable.

`JitSpec` here and the specs of maps in lamina_parallel derive from it. Each holds its programs in a `SignatureCache`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lamina_ir import ClosedJaxpr, ShapedArray, trees
from lamina_ir.typing import CacheKey, Device, Function, Tree, Value
from lamina_ir.trees import PyTreeDef

from .._core.args import argument_path, flatten_args, flatten_results
from .._core.function_cache import function_key
from .._core.staging import stage
from .._core.static_args import StaticArgs
from .signature_cache import Signature, SignatureCache, StagedProgram
from .._typing import ArgSelection, CompilerOptions, StaticKey

__all__ = ["CallSpec", "stage_call"]


def stage_call(statics: StaticArgs, avals: Sequence[ShapedArray], tree: PyTreeDef,
               static: StaticKey) -> tuple[ClosedJaxpr, list[Value], PyTreeDef]:
    """Stage a function of trees of arrays.

    Args:
      statics: the function and its static arguments.
      avals, tree, static: the types of the flat dynamic arguments, their tree, and the key of the static ones.
    Returns:
      (program, values of enclosing traces, tree of the results). The values are the first arguments of the program.

    >>> from lamina_ir import aval_of
    >>> tree = trees.tree_structure(((0, 0), {}))
    >>> print(stage_call(StaticArgs("jit", lambda x, y: {"sum": x + y}, None, None), [aval_of(1.0)] * 2, tree, ())[0])
    { lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c,) }
    """
    fun, out_tree = statics.fun, tree  # `flat_fun` sets `out_tree`

    def flat_fun(*tracers: Value) -> list[Value]:
        nonlocal out_tree
        args, kwargs = trees.tree_unflatten(tree, tracers)
        if static:
            args, kwargs = statics.join(args, kwargs, static)
        out, out_tree = flatten_results(statics.call, statics.name, fun(*args, **kwargs))
        return out

    closed, outer = stage(flat_fun, avals, (statics.call, fun, tree, statics.nums))
    return closed, outer, out_tree


class CallSpec(Protocol):
    """A function and its call options, from which a dispatcher's `jit` or `pmap` makes a callable.

    The attributes are the arguments in normalized form. A spec may also be of another class with the same attributes
    and methods.

    Args:
      call, fun: the attributes of these names.
      static_argnums, static_argnames, donate_argnums, donate_argnames: which arguments are static or donated.
    Raises:
      TypeError: `fun` is not callable, or an option has the wrong type.
      ValueError: a position or name is not an argument of the function, or is both static and donated.

    Attributes:
      call: name of the public function that made it: `jit`, `pmap`.
      fun, name: the user's function, and its name in errors.
      function_key, options_key: cache key of the function, and key that distinguishes specs of one function.
      cache, programs: the cached programs; `programs` is the dict of them, to be cleared.
      statics: the static arguments (`StaticArgs`).
      device, backend: where to run, or None.
      donate_argnums: positions of arguments whose memory may be reused.
      inline: if called while another function is traced, become part of its program (`inline_call`).
      is_library_function: the function is defined in a lamina package.
      keep_unused: pass unused arguments to the device too.
      in_shardings, out_shardings: shardings of arguments and results, trees of shardings and None.
      compiler_options: name -> value, or None.

    >>> class Portable:
    ...     def jit(self, spec: CallSpec):
    ...         return spec.fun
    ...     def pmap(self, spec: CallSpec):
    ...         return spec.make_portable_callable()
    """

    call: str
    fun: Function
    name: str
    function_key: Function
    options_key: CacheKey
    cache: SignatureCache
    statics: StaticArgs
    donate_argnums: frozenset[int]
    device: Device = None
    backend: str | None = None
    inline: bool = False
    is_library_function: bool = False
    keep_unused: bool = False
    in_shardings: Tree = None
    out_shardings: Tree = None
    compiler_options: CompilerOptions | None = None

    def __init__(self, call: str, fun: Function, static_argnums: ArgSelection = None,
                 static_argnames: ArgSelection = None, donate_argnums: ArgSelection = (),
                 donate_argnames: ArgSelection = None) -> None:
        if not callable(fun):
            raise TypeError(f"{call}: expected a function; got {type(fun).__name__}: {fun!r:.60}")
        self.call = call
        self.fun = fun
        self.statics = StaticArgs(call, fun, static_argnums, static_argnames)
        self.name = self.statics.name
        self.donate_argnums = self.statics.donated(donate_argnums, donate_argnames)
        self.function_key = function_key(fun)

    @property
    def programs(self) -> dict[Signature, StagedProgram]:
        """The staged programs by signature."""
        return self.cache.programs

    def split(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[list[Value], PyTreeDef, StaticKey]:
        """Return (flat dynamic arguments, their tree, key of the static arguments)."""
        if self.statics.any:
            args, kwargs, static = self.statics.split(args, kwargs)
        else:
            static = ()
        flat, tree = flatten_args(self.call, self.name, args, kwargs)
        return flat, tree, static

    def stage_function(self, avals: Sequence[ShapedArray], tree: PyTreeDef,
                       static: StaticKey = ()) -> tuple[ClosedJaxpr, list[Value], PyTreeDef]:
        """Stage the function for arguments of these types: (program, values of enclosing traces, tree of the results)."""
        return stage_call(self.statics, avals, tree, static)

    def trace_call(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: list[Value], tree: PyTreeDef,
                   static: StaticKey) -> StagedProgram:
        """Return the program of a call, cached or newly traced; `flat`, `tree` and `static` come from `split`.

        It takes `outer`, then `flat`.
        """
        raise NotImplementedError

    def trace_abstract(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[StagedProgram, PyTreeDef]:
        """Return (program, tree of the dynamic arguments) for arrays or other objects with shape and dtype."""
        raise NotImplementedError

    def bind_program(self, staged: StagedProgram, flat: Sequence[Value], donated: tuple[bool, ...] = ()) -> Tree:
        """Bind a staged program as one equation, so that every transformation of its arguments handles it."""
        raise NotImplementedError

    def inline_call(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Inline the call into the program being traced."""
        raise NotImplementedError

    def make_callable(self, dispatcher: Any) -> Function:
        """Return the callable that a dispatcher makes from this spec."""
        raise NotImplementedError

    def make_portable_callable(self) -> Function:
        """Return the callable for a dispatcher without devices: the evaluator runs the call."""
        raise NotImplementedError

    def argument_path(self, tree: PyTreeDef, i: int) -> str:
        """Return the user's name of a flat argument, for errors: `params['w'][0]`."""
        return argument_path(tree, i, self.fun, self.statics.nums)

    def describe_axis_size(self, staged: StagedProgram, tree: PyTreeDef) -> str | None:
        """Describe the argument that determines the size of the map, for errors; None if no argument does.

        An example is `x, float32[9,2], has 9 rows along axis 0`.
        """
        return None

    def donated(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[bool, ...]:
        """Return, for each flat dynamic argument, whether its buffer is donated; () if none is."""
        if not self.donate_argnums:
            return ()
        marks: list[bool] = []
        for i, a in enumerate(args):
            if i not in self.statics.nums:
                marks += [i in self.donate_argnums] * len(trees.tree_leaves(a))
        named = {k: v for k, v in kwargs.items() if k not in self.statics.names}  # pytrees flatten dicts in sorted order
        for k in sorted(named):
            marks += [self.statics.position(k) in self.donate_argnums] * len(trees.tree_leaves(named[k]))
        return tuple(marks)
