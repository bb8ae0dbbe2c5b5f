"""Shared base of `custom_jvp` and `custom_vjp`: a function with rules, and one call of it on flat arguments."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

from typing_extensions import override
from lamina_ir import Primitive, ShapedArray, config, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Params, StaticValue, Tree, Value
from lamina_tracing.extend import (EVALUATION, CustomCall, call_custom, get_arg_avals, function_name, stack_object_arrays,
                                   trace_state, typeof, wraps)

from .rule_checks import Arguments, output_path

__all__ = ["CustomRuleCall", "CustomRuleFunction", "refuse_late_closures"]

P = ParamSpec("P")
R = TypeVar("R")

_MOST_PROGRAMS = 512


class CustomRuleFunction(Generic[P, R]):
    """A function with derivative rules, usable once `ready`; calls that are not differentiated run `fun`."""

    kind: ClassVar[str]
    setters: ClassVar[str]
    _call: ClassVar[type[CustomRuleCall]]
    symbolic_zeros = False

    def __init__(self, fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()) -> None:
        self.arguments = Arguments(self.kind, fun, nondiff_argnums, nondiff_argnames)
        self.fun = fun
        self.nondiff_argnums = self.arguments.nondiff
        self.ready = False
        self._programs: dict[CacheKey, tuple[list[Value], Params, PyTreeDef]] = {}
        wraps(fun)(self)

    def _set(self, symbolic_zeros: bool) -> None:
        """Mark the rules as set and drop programs of earlier rules."""
        self.symbolic_zeros = symbolic_zeros
        self.ready = True
        self._programs.clear()

    def _check_static(self, static: Sequence[StaticValue]) -> None:
        """Raise TypeError if a non-differentiated argument is not allowed; subclasses override it."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if trace_state.depth == 0 and trace_state.trace is EVALUATION and self.ready:
            return self.fun(*args, **kwargs)
        name = self.arguments.name
        if not self.ready:
            raise AttributeError(f"{self.kind}: `{name}` has no derivative rule yet; set one with {self.setters}")
        dyn, static = self.arguments.split(self.arguments.resolve(args, kwargs))
        self._check_static(static)
        flat, tree = trees.tree_flatten(dyn)
        get_arg_avals(self.kind, name, flat, trees.tree_structure((dyn, {})))
        call = self._call(self, tree, static)
        outs = call_custom(call, flat)
        return trees.tree_unflatten(call.out_tree, outs)


class CustomRuleCall(CustomCall):
    """One call, on flat arguments. Subclasses stage rules in `_stage`: (values closed over, params, result tree)."""

    prim: ClassVar[Primitive]
    rule_name: ClassVar[str]  # attribute of the function that holds the rule
    rule_description: ClassVar[str]  # name of the rule in error messages

    def __init__(self, f: Any, tree: PyTreeDef, static: tuple[StaticValue, ...]) -> None:
        self.f, self.tree, self.static = f, tree, static
        self.out_tree: Any = None  # a PyTreeDef once the function or its rule has run

    @override
    def run(self, *flat: Value) -> list[Value]:
        args = self.f.arguments.join(trees.tree_unflatten(self.tree, flat), self.static)
        outs, self.out_tree = trees.tree_flatten(self.f.fun(*args))
        return stack_object_arrays(outs)

    @property
    def where(self) -> str:
        """The rule that computes the results, as error messages name it."""
        f = self.f
        return f"{f.kind} of `{f.arguments.name}`: its {self.rule_description} `{function_name(getattr(f, self.rule_name))}`"

    def pair(self, got: object, second: str) -> tuple[list[Value], Tree]:
        """Check that the rule returned a pair; return (flat results, second value)."""
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            raise TypeError(f"{self.where} must return a pair (output, {second}); got {type(got).__name__}"
                            + (f" of {len(got)}" if isinstance(got, (tuple, list)) else ""))
        outs, tree = trees.tree_flatten(got[0])
        if self.out_tree is not None and self.out_tree != tree:
            raise TypeError(f"{self.where} must return an output of the structure `{self.f.arguments.name}` returns, "
                            f"{self.out_tree}; got {tree}")
        self.out_tree = tree
        return outs, got[1]

    def check_outputs(self, outs: Sequence[Value], wanted: Sequence[ShapedArray]) -> None:
        """Raise TypeError unless the rule's output has the types that the function returns."""
        for i, (o, a) in enumerate(zip(outs, wanted)):
            got = typeof(o)
            if not got.same_type(a):
                raise TypeError(f"{self.where} must return output{output_path(self.out_tree, i)} as {a.str_long()}, as "
                                f"`{self.f.arguments.name}` does; got {got.str_long()}")

    @override
    def as_equation(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Value], Params]:
        """Return (primitive, values closed over, params); programs are cached if they close over no traced values."""
        f = self.f
        try:
            key: Any = (tuple(avals), self.tree, self.static, tuple([(a.name, a.size) for a in trace_state.axes]),
                        config.cache_key())
            known = f._programs.get(key)
        except TypeError:  # a static argument that is not hashable
            key = known = None
        if known is None:
            others = config.generation.changes_by_other_threads()  # settings may change while the rules run
            known = self._stage(avals)
            if key is not None and not known[0] and config.is_unchanged(key[-1], others):
                if len(f._programs) >= _MOST_PROGRAMS:
                    f._programs.clear()
                f._programs[key] = known
        outer, params, self.out_tree = known
        return self.prim, outer, params

    def _stage(self, avals: Sequence[ShapedArray]) -> tuple[list[Value], Params, PyTreeDef]:
        raise NotImplementedError


def refuse_late_closures(call: str, name: str, found: Sequence[Value]) -> None:
    """Raise TypeError if a rule that was staged after its call closes over traced values."""
    if found:
        raise TypeError(f"{call} of `{name}`: a rule closes over a traced value, {found[0].aval.str_long()}, in a way "
                        "that could not be seen when the call was staged; pass the value as an argument")
