"""What the specs of maps over devices have in common: how a call finds its program, which is a single map."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, config, trees
from lamina_tracing import slots
from lamina_tracing.extend import (EVALUATION, JitSpec, Staged, Tracer, bind, boundary, duck_types, now,
                                   stands_for_array, typeof)

__all__ = ["MapSpec", "made_at"]


class MapSpec:
    """A function and how it is mapped: what a dispatcher's `pmap` makes a callable of.

    Those of a kind say how a call's arguments are flattened (`split`), what one is called (`argument`), what programs depend on
    beside their types (`share`), and how one is staged (`_stage`).
    """

    device = in_shardings = out_shardings = compiler_options = None
    backend: str | None = None
    inline = keep_unused = ours = False
    hint = ""
    _jit: JitSpec
    fun: Callable[..., Any]
    call: str
    name: str
    lead: str
    programs: dict[Any, Staged]

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """(flat dynamic arguments, their tree, key of the static ones)."""
        raise NotImplementedError

    def argument(self, tree: Any, i: int) -> str:
        """What the user calls a flat argument, of this structure: `params['w'][0]`."""
        raise NotImplementedError

    def share(self, flat: Sequence[Any] = ()) -> Any:
        """What a program of these flat arguments depends on that neither types nor settings say."""
        raise NotImplementedError

    def _stage(self, args: Sequence[Any], kwargs: dict[str, Any], avals: Sequence[Any], flat: Sequence[Any], tree: Any,
               static: Any, rows: int | None) -> Staged:
        raise NotImplementedError

    def stage_types(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Staged, Any]:
        """(program, tree of the dynamic arguments) for arrays or anything with shape and dtype."""
        flat, tree, static = self.split(args, kwargs)
        types = [Tracer(EVALUATION, a) for a in duck_types(self.call, self.name, flat, tree)]
        return self.stage_call(args, kwargs, types, tree, static), tree

    def stage_call(self, args: Sequence[Any], kwargs: dict[str, Any], flat: list[Any], tree: Any, static: Any,
                   rows: int | None = None) -> Staged:
        """The program for arguments of these types, staged now or remembered: a single map. It takes the values in `outer`,
        which all devices share, and then the arguments. `rows` are those of all processes, where their devices do not say."""
        for i, x in enumerate(flat):
            if stands_for_array(x):
                flat[i] = x.__jax_array__()
        avals = tuple([self._type(x, i, tree) for i, x in enumerate(flat)])
        key = (avals, tree, static, tuple([(f.name, f.size) for f in now.axes]), self.share(flat), rows,
               config.cache_key())
        return self.programs.get(key) or self._jit.staged(
            key, lambda: self._stage(args, kwargs, avals, flat, tree, static, rows), self.programs)

    def _type(self, x: Any, i: int, tree: Any) -> Any:
        try:
            return typeof(x)
        except TypeError as e:
            raise TypeError(f"{self.lead}: {self.argument(tree, i)}: {e}{self.hint}") from None

    def donated(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """For each flat dynamic argument, whether the caller gives up its buffer; (): none."""
        return self._jit.donated(args, kwargs)

    def call_staged(self, staged: Staged, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
        """Apply a staged program as one map, through whatever transformations its arguments are in."""
        e, = staged.closed.jaxpr.eqns
        outs = bind(e.primitive, *staged.outer, *flat, **e.params)
        return trees.tree_unflatten(staged.out_tree, outs)

    def inlined(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A map is never part of a program without being a map."""
        flat, tree, static = self.split(args, kwargs)
        return self.call_staged(self.stage_call(args, kwargs, flat, tree, static), flat)

    def called_by(self, dispatcher: Any) -> Callable[..., Any]:
        """The callable that a dispatcher makes of it."""
        return dispatcher.pmap(self)

    def portable(self) -> Callable[..., Any]:
        """The callable of the default dispatcher: the evaluator runs the mapped call."""
        made_under = slots.dispatcher
        forward: tuple[Any, Callable[..., Any]] | None = None

        @boundary
        def mapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal forward
            if slots.dispatcher is not made_under:
                if forward is None or forward[0] is not slots.dispatcher:
                    forward = slots.dispatcher, slots.dispatcher.pmap(self)
                return forward[1](*args, **kwargs)
            return self.inlined(args, kwargs)

        functools.update_wrapper(mapped, self.fun, updated=())
        mapped.spec = self  # type: ignore[attr-defined]
        return mapped


def made_at(closed: ClosedJaxpr, i: int) -> str:
    """Where a result of a program was made, as far as that is known."""
    result = closed.jaxpr.outvars[i]
    if result in closed.jaxpr.invars:
        return ": it is an argument that is mapped"
    made = next((e for e in closed.jaxpr.eqns if result in e.outvars), None)
    return "" if made is None or made.source is None else f": {made.primitive.name} at {made.source} gives it"
