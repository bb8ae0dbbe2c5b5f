"""`Primitive` and its kinds, as subclasses of lamina's class."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lamina_ir import Primitive as _Primitive
from lamina_ir import UnnamedAxis, shaped
from lamina_ir.errors import ProgramError
from lamina_ir.typing import Function, Outputs, Params, ParamValue, Value
from lamina_parallel import pmap
from lamina_tracing.extend import (AxisFrame, eval_jaxpr, extend_axis_env, find_top_trace, find_user_source, stage,
                                    typeof)
from typing_extensions import override

from ..._class_views import ClassView
from ..._vocabulary import custom_jvp_call_p, custom_vjp_call_p, pjit_p, xla_pmap_p

__all__ = ["CallPrimitive", "ClosedCallPrimitive", "MapPrimitive", "Primitive", "call_bind_with_continuation", "call_impl",
           "call_p", "closed_call_p", "custom_jvp_call_p", "custom_vjp_call_p", "pjit_p", "primitive_uses_outfeed"]


class Primitive(_Primitive, metaclass=ClassView, of=_Primitive):
    """A primitive of a program. Lamina's primitives are instances too.

    A subclass may override `multiple_results`, `impl`, `abstract_eval` and `bind`. The name may be any text, and may be that
    of another primitive.

    Args:
      name: the name in printed programs.

    >>> twice_p = Primitive("twice")
    >>> _ = twice_p.def_impl(lambda x: 2 * x)
    >>> twice_p.bind(3.0)
    6.0
    """

    call_primitive = False
    map_primitive = False
    skip_canonicalization = False

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Primitive: name must be a string; got {type(name).__name__}: {name!r:.60}")
        super().__init__("primitive")
        self.name = name
        self.line = find_user_source(2)
        kind = type(self)
        many = getattr(kind, "multiple_results", None)
        if isinstance(many, bool):
            self.multiple = many
        if kind.abstract_eval is not _Primitive.abstract_eval:
            self.def_abstract_eval(lambda *avals, **params: _only_types(self.abstract_eval(*avals, **params)))
        else:
            self.infer = self._no_type_rule
        if kind.impl is not Primitive.impl:
            self.custom_impl = self._run
        self.numpy = self._run

    def _no_type_rule(self, *avals: Any, **params: Any) -> NoReturn:
        raise NotImplementedError(f"Abstract evaluation for '{self.name}' not implemented: call its def_abstract_eval"
                                  f"{_made_at(self)}")

    @override
    def impl(self, *args: Value, **params: ParamValue) -> Outputs:
        """Evaluate on concrete values, by the function given to `def_impl`."""
        if self.custom_impl is None:
            raise NotImplementedError(f"Evaluation rule for '{self.name}' not implemented: call its def_impl{_made_at(self)}")
        return self.custom_impl(*args, **params)

    def _run(self, *args: Value, **params: ParamValue) -> Outputs:
        """Evaluate, and check the number of results."""
        made = self.impl(*args, **params)
        return _check_results(self, made, args, params) if self.multiple else made

    @override
    def def_impl(self, impl: Function) -> Function:
        """Set the evaluation on concrete values, `impl(*arrays, **params)`. It can be a decorator."""
        self.custom_impl = self._checked(impl)
        return impl

    def _checked(self, impl: Function) -> Function:
        def run(*args: Value, **params: ParamValue) -> Outputs:
            made = impl(*args, **params)
            return _check_results(self, made, args, params) if self.multiple else made
        run.__wrapped__ = impl  # type: ignore[attr-defined]
        return run

    @override
    def bind(self, /, *args: Value, **params: ParamValue) -> Any:
        """Apply the primitive to values or tracers; return its result, a list if it has multiple results."""
        made = super().bind(*args, **params)
        return list(made) if self.multiple and isinstance(made, tuple) else made


def _only_types(made: Any) -> Any:
    """Drop the effects that `abstract_eval` of a subclass may return after the types."""
    return made[0] if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], set | frozenset) else made


def _made_at(prim: Primitive) -> str:
    return f" (made at {prim.line})" if prim.line is not None else ""


def _check_results(prim: Primitive, made: Any, args: Sequence[Value], params: Params) -> Any:
    """Return the results of an evaluation; ProgramError if their number is not that of the type rule."""
    if not isinstance(made, tuple | list):
        raise ProgramError(f"`{prim.name}`: its evaluation must return a sequence of results; got {type(made).__name__}: "
                           f"{made!r:.60}. Set multiple_results to False for a single result{_made_at(prim)}")
    if prim.infer == prim._no_type_rule:
        return made
    types = prim.infer(*map(typeof, args), **params)
    if len(made) != len(types):
        raise ProgramError(f"`{prim.name}`: its evaluation must return {len(types)} results, as its type rule does; got "
                           f"{len(made)}{_made_at(prim)}")
    return made


class CallPrimitive(Primitive):
    """A primitive that calls a function: `bind(fun, *args, **params)`, where `fun` is a `WrappedFun` of flat values.

    A `Trace` of a program handles it with `process_call`; otherwise the function runs at once.
    """

    multiple_results = True
    call_primitive = True

    @override
    def bind(self, /, *args: Value, **params: ParamValue) -> list[Value]:
        """Call the function, the first argument."""
        fun, *operands = args
        trace = find_top_trace(operands)
        if hasattr(trace, "process_call"):
            return list(trace.process_call(self, fun, list(map(trace.full_raise, operands)), params))  # type: ignore[attr-defined]
        return list(call_impl(fun, *operands, **params))

    @override
    def get_bind_params(self, params: Params) -> tuple[list[Function], Params]:
        """Return the function that evaluates the program in the param `call_jaxpr`, and the other params."""
        from ._programs import function_of_program  # noqa: PLC0415 (that module imports this one)
        rest = dict(params)
        return [function_of_program(rest.pop("call_jaxpr"))], rest


ClosedCallPrimitive = CallPrimitive


class MapPrimitive(Primitive):
    """A primitive that maps a function over an axis. Only `xla_pmap_p` is one; `bind` of others raises an error."""

    multiple_results = True
    map_primitive = True

    @override
    def bind(self, /, *args: Value, **params: ParamValue) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"`{self.name}`: lamina has no other map primitives than xla_pmap; use jax.vmap or jax.pmap "
                                  "inside of the function")


def call_impl(f: Any, *args: Value, **params: ParamValue) -> list[Value]:
    """Run the function."""
    return list(f.call_wrapped(*args))


def call_bind_with_continuation(*args: Any, **params: Any) -> NoReturn:
    """Raise NotImplementedError."""
    raise NotImplementedError("call_bind_with_continuation is internal to JAX's calls; use jax.core.call_p.bind(fun, *args)")


def primitive_uses_outfeed(prim: _Primitive, params: Params) -> bool:
    """Return False: there are no outfeeds."""
    return False


call_p = CallPrimitive("call")
closed_call_p = CallPrimitive("closed_call")


def _bind_custom_jvp(fun: Any, jvp: Any, *operands: Value, symbolic_zeros: bool = False, **params: ParamValue) -> list[Value]:
    """Call `fun`, whose derivative is `jvp`, both functions of flat values: `custom_jvp_call_p.bind(fun, jvp, *operands)`."""
    from lamina_autodiff import custom_jvp  # noqa: PLC0415 (not every program with primitives has custom rules)
    f = custom_jvp(lambda *xs: list(fun.call_wrapped(*xs)))

    def rule(primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        made = list(jvp.call_wrapped(*primals, *tangents))
        return made[:len(made) // 2], made[len(made) // 2:]
    f.defjvp(rule, symbolic_zeros=symbolic_zeros)
    return list(f(*operands))


def _bind_custom_vjp(fun: Any, fwd: Any, bwd: Any, *operands: Value, out_trees: Any, symbolic_zeros: bool = False,
                     **params: ParamValue) -> list[Value]:
    """Call `fun` with a derivative rule: `custom_vjp_call_p.bind(fun, fwd, bwd, *operands, out_trees=...)`.

    All are functions of flat values. `fwd` returns the residuals and then the results; `out_trees()[1]` is the tree of the
    residuals. It is called with pairs (value, whether it is perturbed) if `symbolic_zeros`.
    """
    from lamina_autodiff import custom_vjp  # noqa: PLC0415 (as above)
    f = custom_vjp(lambda *xs: list(fun.call_wrapped(*xs)))
    backward: Any = getattr(bwd, "call_wrapped", bwd)

    def forward(*xs: Value) -> tuple[list[Value], list[Value]]:
        flat = [v for x in xs for v in (x.value, x.perturbed)] if symbolic_zeros else xs
        made = list(fwd.call_wrapped(*flat))
        count = out_trees()[-1].num_leaves
        return made[count:], made[:count]
    f.defvjp(forward, lambda residuals, cts: tuple(backward(*residuals, *cts)), symbolic_zeros=symbolic_zeros)
    return list(f(*operands))


def _bind_pmap(fun: Any, *operands: Value, axis_name: Any, axis_size: int, in_axes: Sequence[int | None], out_axes_thunk: Any,
               devices: Any = None, backend: str | None = None, donated_invars: Sequence[bool] = (),
               global_axis_size: int | None = None, **params: ParamValue) -> list[Value]:
    """Map a function of flat values over devices: `xla_pmap_p.bind(fun, *operands, **params)` in a trace's `process_map`.

    `out_axes_thunk()` returns the mapped axes of the results, and is called after `fun`.
    """
    avals = [a if d is None else shaped((*a.shape[:d], *a.shape[d + 1:]), a.dtype, a.weak_type)
             for a, d in zip(map(typeof, operands), in_axes, strict=True)]
    with extend_axis_env(AxisFrame(axis_name, global_axis_size or axis_size)):
        closed, outer = stage(lambda *xs: list(fun.call_wrapped(*xs)), avals)
    count = len(outer)
    mapped = pmap(lambda *xs: eval_jaxpr(closed, xs), None if type(axis_name) is UnnamedAxis else axis_name,
                  in_axes=(None,) * count + tuple(in_axes), out_axes=list(out_axes_thunk()), devices=devices,
                  backend=backend, donate_argnums=tuple([count + i for i, d in enumerate(donated_invars) if d]))
    return list(mapped(*outer, *operands))


xla_pmap_p.bind_functions = _bind_pmap
custom_jvp_call_p.bind_functions = _bind_custom_jvp
custom_vjp_call_p.bind_functions = _bind_custom_vjp
