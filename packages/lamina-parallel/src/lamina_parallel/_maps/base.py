"""Shared base of the specs of maps over devices: find or trace the program of a call, which is a single map equation.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence

from typing_extensions import override
from lamina_ir import ClosedJaxpr, ShapedArray, aval_of, trees
from lamina_tracing import hooks
from lamina_tracing.extend import (EVALUATION, CallSpec, FunctionCache, SignatureCache, StagedProgram, Tracer, bind,
                                   api_boundary, get_duck_typed_avals, has_jax_array, read_jax_array, typeof, wraps)
from lamina_ir.typing import CacheKey, Function, StaticValue, Tree, Value
from lamina_ir.trees import PyTreeDef

__all__ = ["MapSpec", "describe_origin"]


class MapSpec(CallSpec):
    """A function and how it is mapped, from which a dispatcher's `pmap` makes a callable.

    Subclasses define how a call's arguments are flattened (`split`), what a program depends on besides argument types
    (`share`), and how it is traced (`_trace_map`). They may name arguments in another way (`argument_path`).
    """

    hint = ""

    def __init__(self, call: str, fun: Function, static_argnums: int | Sequence[int] | None = None,
                 donate_argnums: int | Sequence[int] | None = ()) -> None:
        super().__init__(call, fun, static_argnums, None, donate_argnums)
        self.error_prefix = f"{call} of `{self.name}`"
        self.options_key: CacheKey = id(self)
        self.cache = SignatureCache(call, self.name, fun, self.function_key, {})

    def _share_programs(self, tables: FunctionCache, options: tuple[CacheKey, ...]) -> None:
        """Use the programs of earlier maps of the same function with equal options, and their key."""
        self.cache.programs = tables.get_table(self.function_key).setdefault(options, {})
        self.options_key = options

    def share(self, flat: Sequence[Value] = ()) -> CacheKey:
        """Return the part of the cache key that neither argument types nor settings determine."""
        raise NotImplementedError

    def _trace_map(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], rows: int | None,
                   avals: Sequence[ShapedArray], tree: PyTreeDef, static: StaticValue) -> StagedProgram:
        raise NotImplementedError

    @override
    def trace_abstract(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[StagedProgram, PyTreeDef]:
        """Return the program, and the tree of the dynamic arguments, for arrays or other values with shape and dtype.
        """
        flat, tree, static = self.split(args, kwargs)
        types = [Tracer(EVALUATION, a) for a in get_duck_typed_avals(self.call, self.name, flat, tree)]
        return self.trace_call(args, kwargs, types, tree, static), tree

    @override
    def trace_call(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: list[Value], tree: PyTreeDef,
                   static: StaticValue, rows: int | None = None) -> StagedProgram:
        """Return the program for arguments of these types, a single map, from the cache or newly traced.

        It takes the values in `outer`, which all devices share, and then the arguments. `rows` is the size of the
        mapped axis in all processes, if their devices do not determine it.
        """
        try:
            avals = tuple([x.aval if isinstance(x, Tracer) else aval_of(x) for x in flat])
        except (TypeError, ValueError):
            avals = self._convert_args(flat, tree)
        return self.cache.get_or_trace(avals, tree, static, functools.partial(self._trace_map, args, kwargs, flat, rows),
                                       (self.share(flat), rows))

    def _convert_args(self, flat: list[Value], tree: PyTreeDef) -> tuple[ShapedArray, ...]:
        """Replace objects with `__jax_array__` in `flat` by their arrays, and return the types; TypeError names an argument."""
        avals = []
        for i, x in enumerate(flat):
            if has_jax_array(x):
                flat[i] = read_jax_array(x)
            try:
                avals.append(typeof(flat[i]))
            except TypeError as e:
                raise TypeError(f"{self.error_prefix}: {self.argument_path(tree, i)}: {e}{self.hint}") from None
        return tuple(avals)

    @override
    def bind_program(self, staged: StagedProgram, flat: Sequence[Value], donated: tuple[bool, ...] = ()) -> Tree:
        """Bind a traced program as one map equation, under the transformations of its arguments."""
        e, = staged.closed.jaxpr.eqns
        outs = bind(e.primitive, *staged.outer, *flat, **e.params)
        return trees.tree_unflatten(staged.out_tree, outs)

    @override
    def inline_call(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Call the map inside of another program; it stays one map equation."""
        flat, tree, static = self.split(args, kwargs)
        return self.bind_program(self.trace_call(args, kwargs, flat, tree, static), flat)

    @override
    def make_callable(self, dispatcher: hooks.Dispatcher) -> Function:
        """Return the callable that a dispatcher makes of this spec."""
        return dispatcher.pmap(self)

    @override
    def make_portable_callable(self) -> Function:
        """Return the callable of the default dispatcher, which binds the map equation to the evaluator."""
        creator = hooks.dispatcher
        forward: tuple[hooks.Dispatcher, Function] | None = None

        @api_boundary
        def mapped(*args: Tree, **kwargs: Tree) -> Tree:
            nonlocal forward
            if hooks.dispatcher is not creator:
                if forward is None or forward[0] is not hooks.dispatcher:
                    forward = hooks.dispatcher, hooks.dispatcher.pmap(self)
                return forward[1](*args, **kwargs)
            return self.inline_call(args, kwargs)

        wraps(self.fun)(mapped)
        mapped.spec = self  # type: ignore[attr-defined]
        return mapped


def describe_origin(closed: ClosedJaxpr, i: int) -> str:
    """Describe which equation computes a result of a program, as far as it is known, for error messages."""
    result = closed.jaxpr.outvars[i]
    if result in closed.jaxpr.invars:
        return ": it is an argument that is mapped"
    made = next((e for e in closed.jaxpr.eqns if result in e.outvars), None)
    return "" if made is None or made.source is None else f": {made.primitive.name} at {made.source} gives it"
