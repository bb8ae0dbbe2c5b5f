"""Programs in JAX's vocabulary: the primitives and params that a library of JAX expects to read.

`to_jax_program` makes the form that libraries read, `from_jax_program` the form of lamina. Programs that run or are saved
do not change. `TRANSLATIONS` lists the primitives with another name or other params; the other ones have the same name in
both. Functions here accept programs in either form, or in a mixture of both.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Var, prims
from lamina_ir.typing import Outputs, Params, ParamValue, Value
from lamina_tracing import make_jaxpr as _make_jaxpr
from lamina_tracing.extend import bind, stage, typeof
from lamina_tracing.primitives import select_n_p
from typing_extensions import override

from ._added_params import ADDED, add_params, complete_params, remove_params
from ._importer import installed_version
from ._unspecified import UNSPECIFIED

__all__ = ["JAX_PRIMITIVES", "TRANSLATIONS", "JaxPrimitive", "RuleThunk", "Translation", "from_jax_equation", "from_jax_jaxpr",
           "from_jax_program", "is_level_0_4", "jit_p", "make_jaxpr", "pjit_p", "show_primitive", "to_jax_equation",
           "to_jax_jaxpr", "to_jax_program"]


class JaxPrimitive(Primitive):
    """A primitive of JAX that lamina has under another name or with other params. `bind` binds lamina's primitive.

    Args:
      name: JAX's name.
      own: lamina's primitive.
      is_same: whether it equals lamina's primitive, so that tables have one entry for both.
    """

    def __init__(self, name: str, own: Primitive, is_same: bool = False) -> None:
        super().__init__("primitive", multiple=own.multiple)
        self.name, self.own, self.is_same = name, own, is_same
        self.custom_bind = self._bind_own
        self.infer = self._infer
        self.bind_functions: Callable[..., Any] | None = None  # `bind` of functions in place of params, of custom calls

    def _bind_own(self, /, *args: Value, **params: ParamValue) -> Outputs:
        if self.bind_functions is not None and args and hasattr(args[0], "call_wrapped"):
            return self.bind_functions(*args, **params)
        prim, own_params, operands = from_jax_equation(self, params, args)
        made = bind(prim, *operands, **own_params)
        return list(made) if self.multiple else made

    def _infer(self, *avals: Any, **params: ParamValue) -> Any:
        prim, own_params, operands = from_jax_equation(self, params, avals)
        return prim.infer(*operands, **own_params)

    @override
    def impl(self, *args: Value, **params: ParamValue) -> Outputs:
        """Evaluate lamina's primitive."""
        return self._bind_own(*args, **params)

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or self.is_same and other is self.own

    @override
    def __hash__(self) -> int:
        return hash(self.own) if self.is_same else id(self)


class Translation(NamedTuple):
    """How an equation of lamina is shown.

    Attributes:
      primitive: JAX's primitive.
      to_jax: `to_jax(params, avals)` returns JAX's params.
      from_jax: `from_jax(params)` returns lamina's params.
      order: JAX's operands are lamina's at these positions; None: the same ones.
      bodies: params whose program JAX has without constants; these become operands.
      reads_types: whether `to_jax` reads the types of the operands.
    """

    primitive: Primitive
    to_jax: Callable[[Params, Sequence[Any]], Params]
    from_jax: Callable[[Params], Params]
    order: tuple[int, ...] | None = None
    bodies: str = ""
    reads_types: bool = False


class RuleThunk:
    """The param of a custom call that holds a rule of lamina. JAX's is a function that stages the rule.

    Args:
      rule: the rule.
      call: the name of the function with the rule, which JAX's params lack.
    """

    def __init__(self, rule: Any, call: str) -> None:
        self.rule, self.call = rule, call

    def __call__(self, *args: object) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"the rule `{self.rule.name}` of a custom call has lamina's form; differentiate the program "
                                  "with jax.jvp or jax.vjp, which use it")

    @override
    def __repr__(self) -> str:
        return f"<rule {self.rule.name}>"


def _same_params(params: Params, avals: Sequence[Any] = ()) -> Params:
    return params


def _call_to_pjit(params: Params, avals: Sequence[Any]) -> Params:
    closed = params["call_jaxpr"]
    n, m = len(closed.in_avals), len(closed.out_avals)
    donated = tuple(params["donated_invars"] or ())
    return dict(jaxpr=to_jax_program(closed), in_shardings=(UNSPECIFIED,) * n, out_shardings=(UNSPECIFIED,) * m,
                in_layouts=(None,) * n, out_layouts=(None,) * m,
                donated_invars=donated + (False,) * (n - len(donated)), name=params["name"], keep_unused=False,
                inline=bool(params["inline"]),
                **({"resource_env": None} if is_level_0_4() else {"ctx_mesh": None, "compiler_options_kvs": ()}))


def _pjit_to_call(params: Params) -> Params:
    given = tuple(params.get("in_shardings", ())) + tuple(params.get("out_shardings", ()))
    if any(s is not None and type(s).__name__ != "UnspecifiedValue" for s in given):
        raise NotImplementedError("pjit: in_shardings and out_shardings of an equation must be UNSPECIFIED; use jax.jit(f, "
                                  "in_shardings=...) or jax.lax.with_sharding_constraint")
    donated = tuple(params.get("donated_invars", ()))
    return dict(call_jaxpr=from_jax_program(params["jaxpr"]), name=params.get("name", "f"),
                donated_invars=donated if any(donated) else (), inline=bool(params.get("inline", False)), device=None,
                backend=None)


def _remat_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    return dict(jaxpr=_open(params["call_jaxpr"]), prevent_cse=params["prevent_cse"], differentiated=params["differentiated"],
                policy=params["policy"])


def _remat_from_jax(params: Params) -> Params:
    return dict(call_jaxpr=_close(params["jaxpr"]), differentiated=params.get("differentiated", False), name="checkpoint",
                policy=params.get("policy"), prevent_cse=params.get("prevent_cse", True))


def _pmap_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    consts = len(params["call_jaxpr"].consts)
    return {**params, "call_jaxpr": _open(params["call_jaxpr"]), "in_axes": (None,) * consts + tuple(params["in_axes"]),
            "donated_invars": (False,) * consts + tuple(params["donated_invars"] or ()), "is_explicit_global_axis_size": False}


def _pmap_from_jax(params: Params) -> Params:
    rest = {k: v for k, v in params.items() if k != "is_explicit_global_axis_size"}
    return {**rest, "call_jaxpr": _close(params["call_jaxpr"])}


def _jvp_call_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    return {"call_jaxpr": to_jax_program(params["call_jaxpr"]),
            "jvp_jaxpr_thunk" if is_level_0_4() else "jvp_jaxpr_fun": RuleThunk(params["jvp"], params["name"]),
            "num_consts": params["num_consts"], "symbolic_zeros": False}


def _thunk_of(params: Params, name: str) -> RuleThunk:
    thunk = params[name]
    if not isinstance(thunk, RuleThunk):
        raise NotImplementedError(f"{name} of an equation must be that of a program that lamina staged; got "
                                  f"{type(thunk).__name__}. Define the function with jax.custom_jvp or jax.custom_vjp")
    return thunk


def _jvp_call_from_jax(params: Params) -> Params:
    thunk = _thunk_of(params, "jvp_jaxpr_thunk" if "jvp_jaxpr_thunk" in params else "jvp_jaxpr_fun")
    return dict(call_jaxpr=from_jax_program(params["call_jaxpr"]), jvp=thunk.rule, name=thunk.call,
                num_consts=params["num_consts"])


def _vjp_call_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    body = to_jax_program(params["call_jaxpr"])
    return dict(**{_body_of_vjp_call(): body}, fwd_jaxpr_thunk=RuleThunk(params["fwd"], params["name"]),
                bwd=RuleThunk(params["bwd"], params["name"]), num_consts=params["num_consts"], out_trees=None,
                symbolic_zeros=False)


def is_level_0_4() -> bool:
    """Return whether the level is a release 0.4 of JAX."""
    return installed_version().startswith("0.4.")


def _body_of_vjp_call() -> str:
    return "fun_jaxpr" if is_level_0_4() else "call_jaxpr"


def _vjp_call_from_jax(params: Params) -> Params:
    body = params["fun_jaxpr"] if "fun_jaxpr" in params else params["call_jaxpr"]
    fwd = _thunk_of(params, "fwd_jaxpr_thunk")
    return dict(call_jaxpr=from_jax_program(body), fwd=fwd.rule, bwd=_thunk_of(params, "bwd").rule, name=fwd.call,
                num_consts=params["num_consts"])


def _scan_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    body = to_jax_program(params["jaxpr"])
    return {**params, "jaxpr": body,
            **({"linear": (False,) * len(body.in_avals), "_split_transpose": False} if is_level_0_4() else {})}


def _scan_from_jax(params: Params) -> Params:
    rest = {k: v for k, v in params.items() if k not in ("linear", "_split_transpose")}
    return {**rest, "jaxpr": from_jax_program(params["jaxpr"])}


def _while_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    made = {**params, "body_jaxpr": to_jax_program(params["body_jaxpr"]), "cond_jaxpr": to_jax_program(params["cond_jaxpr"])}
    if made["max_iters"] is None:
        del made["max_iters"]
    return made


def _while_from_jax(params: Params) -> Params:
    return {"max_iters": None, **params, "body_jaxpr": from_jax_program(params["body_jaxpr"]),
            "cond_jaxpr": from_jax_program(params["cond_jaxpr"])}


def _cond_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    branches = tuple(map(to_jax_program, params["branches"]))
    return {"branches": branches, **({"linear": (False,) * len(branches[0].in_avals)} if is_level_0_4() else {})}


def _cond_from_jax(params: Params) -> Params:
    return {"branches": tuple(map(from_jax_program, params["branches"]))}


def _expand_dims_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    shape, added = list(avals[0].shape), sorted(params["dimensions"])
    for d in added:
        shape.insert(d, 1)
    return dict(shape=tuple(shape), broadcast_dimensions=tuple(d for d in range(len(shape)) if d not in added))


def _scatter_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    return {**params, "update_jaxpr": None, "update_consts": ()}


def _scatter_from_jax(params: Params) -> Params:
    return {k: v for k, v in params.items() if k not in ("update_jaxpr", "update_consts")}


def _reduce_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    return {**params, "jaxpr": to_jax_program(params["computation"])}


def _reduce_from_jax(params: Params) -> Params:
    rest = {k: v for k, v in params.items() if k != "jaxpr"}
    return {**rest, "computation": from_jax_program(params["jaxpr" if "jaxpr" in params else "computation"])}


def _window_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    rest = {k: v for k, v in params.items() if k != "computation"}
    closed = to_jax_program(params["computation"])
    return {**rest, "jaxpr": closed.jaxpr, "consts": tuple(closed.consts)}


def _window_from_jax(params: Params) -> Params:
    if "jaxpr" not in params:
        return params
    rest = {k: v for k, v in params.items() if k not in ("jaxpr", "consts")}
    return {**rest, "computation": ClosedJaxpr(from_jax_jaxpr(params["jaxpr"]), params.get("consts", ()))}


def _selection_to_jax(params: Params, avals: Sequence[Any]) -> Params:
    rest = {k: v for k, v in params.items() if k != "select"}
    return {"select_prim": getattr(prims, f"{params['select']}_p"), **rest}


def _selection_from_jax(params: Params) -> Params:
    rest = {k: v for k, v in params.items() if k != "select_prim"}
    return {**rest, "select": params["select_prim"].name} if "select_prim" in params else params


def _programs_to_jax(params: Params, avals: Sequence[Any] = ()) -> Params:
    return {k: _map_programs(v, to_jax_program) for k, v in params.items()}


def _programs_from_jax(params: Params) -> Params:
    return {k: _map_programs(v, from_jax_program) for k, v in params.items()}


def _added_translation(prim: Primitive) -> Translation:
    def to_jax(params: Params, avals: Sequence[Any]) -> Params:
        return add_params(prim, params, avals, is_level_0_4())

    def from_jax(params: Params) -> Params:
        return remove_params(prim, params)
    return Translation(_WITH_PARAMS[prim], to_jax, from_jax, reads_types=True)


pjit_p: Final = JaxPrimitive("pjit", prims.xla_call_p)
jit_p: Final = JaxPrimitive("jit", prims.xla_call_p)  # the name of pjit_p from JAX 0.7 on
remat_p: Final = JaxPrimitive("checkpoint", prims.remat_p)
xla_pmap_p: Final = JaxPrimitive("xla_pmap", prims.xla_pmap_p)
custom_jvp_call_p: Final = JaxPrimitive("custom_jvp_call", prims.custom_jvp_call_p)
custom_vjp_call_p: Final = JaxPrimitive("custom_vjp_call", prims.custom_vjp_call_p)
custom_vjp_call_jaxpr_p: Final = JaxPrimitive("custom_vjp_call_jaxpr", prims.custom_vjp_call_p)
reduce_scatter_p: Final = JaxPrimitive("reduce_scatter", prims.psum_scatter_p, is_same=True)
scan_p: Final = JaxPrimitive("scan", prims.scan_p, is_same=True)
while_p: Final = JaxPrimitive("while", prims.while_p, is_same=True)
cond_p: Final = JaxPrimitive("cond", prims.cond_p, is_same=True)
_SCATTERS: Final = {prim: JaxPrimitive(prim.name.replace("_", "-"), prim, is_same=True) for prim in (
    prims.scatter_p, prims.scatter_add_p, prims.scatter_max_p, prims.scatter_min_p, prims.scatter_mul_p)}
reduce_p: Final = JaxPrimitive("reduce", prims.reduce_p, is_same=True)
reduce_window_p: Final = JaxPrimitive("reduce_window", prims.reduce_window_p, is_same=True)
_SELECTIONS: Final = {prim: JaxPrimitive(prim.name, prim, is_same=True) for prim in (
    prims.select_and_gather_add_p, prims.select_and_scatter_add_p)}
# Primitives whose params differ, or are computed on the way back.
_WITH_PARAMS: Final = {prim: JaxPrimitive(prim.name, prim, is_same=True) for prim in ADDED}
# Primitives with lamina's params, which hold programs. JAX has a list of constants for each program of a linear solve, and
# its maps have other descriptions of the mesh; it has no primitive of a transposed call or of `xmap`.
_WITH_PROGRAMS: Final = {prim: JaxPrimitive(prim.name, prim, is_same=True) for prim in (
    prims.custom_vmap_call_p, prims.linear_solve_p, prims.shard_map_p, prims.transposed_call_p, prims.xmap_p)}

TRANSLATIONS: Final[dict[Primitive, Translation]] = {
    prims.xla_call_p: Translation(pjit_p, _call_to_pjit, _pjit_to_call),
    prims.remat_p: Translation(remat_p, _remat_to_jax, _remat_from_jax, bodies="call_jaxpr"),
    prims.xla_pmap_p: Translation(xla_pmap_p, _pmap_to_jax, _pmap_from_jax, bodies="call_jaxpr"),
    prims.custom_jvp_call_p: Translation(custom_jvp_call_p, _jvp_call_to_jax, _jvp_call_from_jax),
    prims.custom_vjp_call_p: Translation(custom_vjp_call_jaxpr_p, _vjp_call_to_jax, _vjp_call_from_jax),
    prims.scan_p: Translation(scan_p, _scan_to_jax, _scan_from_jax),
    prims.while_p: Translation(while_p, _while_to_jax, _while_from_jax),
    prims.cond_p: Translation(cond_p, _cond_to_jax, _cond_from_jax),
    prims.select_p: Translation(select_n_p, lambda params, avals: params, _same_params, order=(0, 2, 1)),
    prims.expand_dims_p: Translation(_WITH_PARAMS[prims.broadcast_in_dim_p], _expand_dims_to_jax, _same_params,
                                     reads_types=True),
    prims.psum_scatter_p: Translation(reduce_scatter_p, _same_params, _same_params),
    prims.reduce_p: Translation(reduce_p, _reduce_to_jax, _reduce_from_jax),
    prims.reduce_window_p: Translation(reduce_window_p, _window_to_jax, _window_from_jax),
    **{prim: Translation(shown, _selection_to_jax, _selection_from_jax) for prim, shown in _SELECTIONS.items()},
    **{prim: _added_translation(prim) for prim in ADDED},
    **{prim: Translation(shown, _programs_to_jax, _programs_from_jax) for prim, shown in _WITH_PROGRAMS.items()},
    **{prim: Translation(shown, _scatter_to_jax, _scatter_from_jax) for prim, shown in _SCATTERS.items()},
}
# JAX's primitive -> lamina's, and its translation.
_OWN: Final[dict[int, tuple[Primitive, Translation]]] = {
    id(t.primitive): (prim, t) for prim, t in TRANSLATIONS.items() if prim is not prims.expand_dims_p}
# The primitives that newer levels show instead of those of `TRANSLATIONS`.
_NEWER: Final[dict[Primitive, Primitive]] = {prims.custom_vjp_call_p: custom_vjp_call_p, prims.xla_call_p: jit_p}
_OWN.update((id(shown), (own, TRANSLATIONS[own])) for own, shown in _NEWER.items())
# The names of primitives of JAX that differ from lamina's objects, for modules that show them.
JAX_PRIMITIVES: Final[dict[str, Primitive]] = {
    "pjit_p": pjit_p, "jit_p": jit_p, "remat_p": remat_p, "xla_pmap_p": xla_pmap_p, "custom_jvp_call_p": custom_jvp_call_p,
    "custom_jvp_call_jaxpr_p": custom_jvp_call_p,
    "custom_vjp_call_p": custom_vjp_call_p, "custom_vjp_call_jaxpr_p": custom_vjp_call_jaxpr_p,
    "reduce_scatter_p": reduce_scatter_p, "scan_p": scan_p, "while_p": while_p, "cond_p": cond_p,
    "reduce_p": reduce_p, "reduce_window_p": reduce_window_p,
    **{f"{prim.name}_p": shown for prim, shown in (_SCATTERS | _SELECTIONS | _WITH_PARAMS | _WITH_PROGRAMS).items()}}


def show_primitive(prim: Primitive) -> Primitive:
    """Return JAX's primitive for one of lamina; of `expand_dims`, lamina's own one."""
    if prim not in TRANSLATIONS or isinstance(prim, JaxPrimitive) or prim is prims.expand_dims_p:
        return prim
    return TRANSLATIONS[prim].primitive if is_level_0_4() else _NEWER.get(prim, TRANSLATIONS[prim].primitive)


def to_jax_equation(prim: Primitive, params: Params, operands: Sequence[Any], lift: Callable[[Value], Any] = lambda x: x,
                    typed: Sequence[Any] | None = None) -> tuple[Primitive, Params, Sequence[Any]]:
    """Return an equation of lamina as JAX has it.

    Args:
      prim: the primitive, of either vocabulary.
      params: its params.
      operands: values, tracers or atoms.
      lift: makes an operand of the value of a constant.
      typed: values or types of the operands, if the operands are neither.
    Returns:
      The primitive, params and operands of JAX.
    """
    found = TRANSLATIONS.get(prim) if not isinstance(prim, JaxPrimitive) else None
    if found is None:
        return prim, _programs_to_jax(params) if prim.subprograms else params, operands
    consts = [lift(c) for c in params[found.bodies].consts] if found.bodies else []
    avals = [_type_of(x) for x in (operands if typed is None else typed)] if found.reads_types else []
    shown = found.primitive if prim is prims.expand_dims_p else show_primitive(prim)
    moved = operands if found.order is None else [operands[i] for i in found.order]
    return shown, found.to_jax(params, avals), [*consts, *moved]


def _type_of(x: Any) -> ShapedArray:
    return x if isinstance(x, ShapedArray) else getattr(x, "aval", None) or typeof(x)


def from_jax_equation(prim: Primitive, params: Params, operands: Sequence[Any]) -> tuple[Primitive, Params, Sequence[Any]]:
    """Return an equation of JAX as lamina has it; equations of lamina are returned unchanged.

    Args:
      prim: the primitive, of either vocabulary.
      params: its params.
      operands: values, tracers or atoms.
    Returns:
      The primitive, params and operands of lamina.
    Raises:
      NotImplementedError: a param has no meaning in lamina.
    """
    found = _OWN.get(id(prim))
    if found is None:
        return prim, _programs_from_jax(params) if prim.subprograms else params, operands
    own, translation = found
    if prim is select_n_p and len(operands) != 3:
        return prim, params, operands
    order = translation.order  # a transposition, so its own inverse
    own_params = complete_params(own, translation.from_jax(params), operands)
    return own, own_params, operands if order is None else [operands[i] for i in order]


def _map_programs(value: ParamValue, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> ParamValue:
    if isinstance(value, ClosedJaxpr):
        return f(value)
    if isinstance(value, tuple) and value and all(isinstance(v, ClosedJaxpr) for v in value):
        made = tuple(map(f, value))
        return value if all(a is b for a, b in zip(made, value)) else made
    return value


class _ShownJaxpr(Jaxpr):
    """A program in JAX's vocabulary, and the program of lamina that it was made of."""

    __slots__ = ("own",)

    own: Jaxpr


def _open(closed: ClosedJaxpr) -> Jaxpr:
    """Return a program of lamina as an open one, with its constants as first inputs, in JAX's vocabulary."""
    jaxpr = closed.jaxpr
    if jaxpr.constvars:
        jaxpr = Jaxpr([], [*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars)
    return to_jax_jaxpr(jaxpr)


def _close(jaxpr: Jaxpr) -> ClosedJaxpr:
    return from_jax_program(jaxpr) if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(from_jax_jaxpr(jaxpr))


def to_jax_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Return an open program in JAX's vocabulary."""
    if isinstance(jaxpr, _ShownJaxpr):
        return jaxpr
    eqns = []
    for e in jaxpr.eqns:
        prim, params, operands = to_jax_equation(e.primitive, e.params, e.invars, lambda c: Literal(c, typeof(c)))
        eqns.append(Eqn(prim, list(operands), list(e.outvars), params, e.source))
    shown = _ShownJaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful)
    shown.own = from_jax_jaxpr(jaxpr)  # it may hold primitives of both
    return shown


def to_jax_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program in JAX's vocabulary.

    >>> from lamina_ir import parse
    >>> to_jax_program(parse("{ lambda ; a:bool[] b:f32[] c:f32[]. let d:f32[] = select a b c in (d,) }"))
    { lambda ; a:bool[] b:f32[] c:f32[]. let d:f32[] = select_n a c b in (d,) }
    """
    if isinstance(closed.jaxpr, _ShownJaxpr):
        return closed
    return closed.memo(("jax's vocabulary", installed_version()),
                       lambda: ClosedJaxpr(to_jax_jaxpr(closed.jaxpr), closed.consts))


def from_jax_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """Return an open program in lamina's vocabulary; the program itself if it is in lamina's vocabulary."""
    if isinstance(jaxpr, _ShownJaxpr):
        return jaxpr.own
    eqns, changed = [], False
    for e in jaxpr.eqns:
        prim, params, operands = from_jax_equation(e.primitive, e.params, e.invars)
        if prim.custom_bind is not None:
            return _stage_again(jaxpr)
        same = (prim is e.primitive and operands is e.invars and len(params) == len(e.params)
                and all(params[k] is v for k, v in e.params.items() if k in params))
        changed = changed or not same
        eqns.append(e if same else Eqn(prim, list(operands), list(e.outvars), params, e.source))
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars) if changed else jaxpr


def _stage_again(jaxpr: Jaxpr) -> Jaxpr:
    """Return the program with primitives that bind several equations replaced by these."""
    def run(*values: Value) -> list[Value]:
        return _run(jaxpr, values)
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    closed, _ = stage(run, [v.aval for v in inputs])
    made = closed.jaxpr
    count = len(jaxpr.constvars)
    bound = dict(zip(made.constvars, closed.consts))
    eqns = [e.replace(invars=_with_literals(e.invars, bound)) for e in made.eqns]
    return Jaxpr(made.invars[:count], made.invars[count:], eqns, _with_literals(made.outvars, bound))


def _with_literals(atoms: Sequence[Any], bound: dict[Var, Value]) -> list[Any]:
    return [Literal(bound[a], a.aval) if isinstance(a, Var) and a in bound else a for a in atoms]


def _run(jaxpr: Jaxpr, values: Sequence[Value]) -> list[Value]:
    """Run a program with its constants and arguments by the `bind` of each primitive."""
    env: dict[Any, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values))

    def read(atoms: Iterable[Any]) -> list[Value]:
        return [a.val if isinstance(a, Literal) else env[a] for a in atoms]
    for e in jaxpr.eqns:
        made = e.primitive.bind(*read(e.invars), **e.params)
        env.update(zip(e.outvars, made if e.primitive.multiple else [made]))
    return read(jaxpr.outvars)


def from_jax_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program in lamina's vocabulary; the program itself if it is in lamina's vocabulary.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:bool[] b:f32[] c:f32[]. let d:f32[] = select a b c in (d,) }")
    >>> from_jax_program(to_jax_program(closed))
    { lambda ; a:bool[] b:f32[] c:f32[]. let d:f32[] = select a b c in (d,) }
    """
    def make() -> ClosedJaxpr:
        own = from_jax_jaxpr(closed.jaxpr)
        return closed if own is closed.jaxpr else ClosedJaxpr(own, closed.consts)
    return closed.memo("lamina's vocabulary", make)


def make_jaxpr(fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), axis_env: Any = None,
               return_shape: bool = False, abstracted_axes: object = None) -> Callable[..., Any]:
    """As `lamina.make_jaxpr`; the program is in JAX's vocabulary."""
    make = _make_jaxpr(fun, static_argnums, axis_env, return_shape, abstracted_axes)  # type: ignore[call-overload]

    def make_shown(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        return (to_jax_program(made[0]), made[1]) if return_shape else to_jax_program(made)
    make_shown.__name__, make_shown.__wrapped__ = make.__name__, fun  # type: ignore[attr-defined]
    return make_shown


