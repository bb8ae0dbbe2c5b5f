"""Shared base of the specs of maps over devices: find or trace the program of a call, which is a single map equation.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, config, trees
from lamina_tracing import hooks
from lamina_tracing.extend import (EVALUATION, JitSpec, StagedProgram, Tracer, bind, api_boundary, get_duck_typed_avals,
                                   trace_state, has_jax_array, typeof)

__all__ = ["MapSpec", "describe_origin"]


class MapSpec:
    """A function and how it is mapped, from which a dispatcher's `pmap` makes a callable.

    Subclasses define how a call's arguments are flattened (`split`), how one is named in errors (`argument`), what a
    program depends on besides argument types (`share`), and how it is traced (`_stage`).
    """

    device = in_shardings = out_shardings = compiler_options = None
    backend: str | None = None
    inline = keep_unused = is_library_function = False
    hint = ""
    _jit: JitSpec
    fun: Callable[..., Any]
    call: str
    name: str
    error_prefix: str
    programs: dict[Any, StagedProgram]

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """Return the flat dynamic arguments, their tree, and the key of the static arguments."""
        raise NotImplementedError

    def argument_path(self, tree: Any, i: int) -> str:
        """Return the user's name of a flat argument: `params['w'][0]`."""
        raise NotImplementedError

    def share(self, flat: Sequence[Any] = ()) -> Any:
        """Return the part of the cache key that neither argument types nor settings determine."""
        raise NotImplementedError

    def _stage(self, args: Sequence[Any], kwargs: dict[str, Any], avals: Sequence[Any], flat: Sequence[Any], tree: Any,
               static: Any, rows: int | None) -> StagedProgram:
        raise NotImplementedError

    def trace_abstract(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[StagedProgram, Any]:
        """Return the program, and the tree of the dynamic arguments, for arrays or other values with shape and dtype.
        """
        flat, tree, static = self.split(args, kwargs)
        types = [Tracer(EVALUATION, a) for a in get_duck_typed_avals(self.call, self.name, flat, tree)]
        return self.trace_call(args, kwargs, types, tree, static), tree

    def trace_call(self, args: Sequence[Any], kwargs: dict[str, Any], flat: list[Any], tree: Any, static: Any,
                   rows: int | None = None) -> StagedProgram:
        """Return the program for arguments of these types, a single map, from the cache or newly traced.

        It takes the values in `outer`, which all devices share, and then the arguments. `rows` is the size of the
        mapped axis in all processes, if their devices do not determine it.
        """
        for i, x in enumerate(flat):
            if has_jax_array(x):
                flat[i] = x.__jax_array__()
        avals = tuple([self._type(x, i, tree) for i, x in enumerate(flat)])
        key = (avals, tree, static, tuple([(f.name, f.size) for f in trace_state.axes]), self.share(flat), rows,
               config.cache_key())
        return self.programs.get(key) or self._jit.get_or_trace(
            key, lambda: self._stage(args, kwargs, avals, flat, tree, static, rows), self.programs)

    def _type(self, x: Any, i: int, tree: Any) -> Any:
        try:
            return typeof(x)
        except TypeError as e:
            raise TypeError(f"{self.error_prefix}: {self.argument_path(tree, i)}: {e}{self.hint}") from None

    def donated(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """Return whether each flat dynamic argument is donated; () if none is."""
        return self._jit.donated(args, kwargs)

    def bind_program(self, staged: StagedProgram, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
        """Bind a traced program as one map equation, under the transformations of its arguments."""
        e, = staged.closed.jaxpr.eqns
        outs = bind(e.primitive, *staged.outer, *flat, **e.params)
        return trees.tree_unflatten(staged.out_tree, outs)

    def inline_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the map inside of another program; it stays one map equation."""
        flat, tree, static = self.split(args, kwargs)
        return self.bind_program(self.trace_call(args, kwargs, flat, tree, static), flat)

    def make_callable(self, dispatcher: Any) -> Callable[..., Any]:
        """Return the callable that a dispatcher makes of this spec."""
        return dispatcher.pmap(self)

    def make_portable_callable(self) -> Callable[..., Any]:
        """Return the callable of the default dispatcher, which binds the map equation to the evaluator."""
        creator = hooks.dispatcher
        forward: tuple[Any, Callable[..., Any]] | None = None

        @api_boundary
        def mapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal forward
            if hooks.dispatcher is not creator:
                if forward is None or forward[0] is not hooks.dispatcher:
                    forward = hooks.dispatcher, hooks.dispatcher.pmap(self)
                return forward[1](*args, **kwargs)
            return self.inline_call(args, kwargs)

        functools.update_wrapper(mapped, self.fun, updated=())
        mapped.spec = self  # type: ignore[attr-defined]
        return mapped


def describe_origin(closed: ClosedJaxpr, i: int) -> str:
    """Describe which equation computes a result of a program, as far as it is known, for error messages."""
    result = closed.jaxpr.outvars[i]
    if result in closed.jaxpr.invars:
        return ": it is an argument that is mapped"
    made = next((e for e in closed.jaxpr.eqns if result in e.outvars), None)
    return "" if made is None or made.source is None else f": {made.primitive.name} at {made.source} gives it"
