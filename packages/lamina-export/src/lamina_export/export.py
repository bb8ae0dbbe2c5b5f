"""`export`: tracing a function for export, at one choice of sizes or for all."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lamina_tracing.extend import wraps
from lamina_ir import ClosedJaxpr, MissingRuleError, ShapeDtypeStruct, ShapedArray, eqn_has_effects, prims, trees, walk

from .disabled_checks import DisabledSafetyCheck, validate_checks
from .symbolic_dim import SymbolicDim, evaluate
from .exported import Exported, default_export_platform
from .shape_polymorphism import Family, convert_program_error, make_family
from .solve_dims import check_solvable

__all__ = ["export"]

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def export(fun_jit: Any, *, platforms: Sequence[str] | None = None, lowering_platforms: Sequence[str] | None = None,
           disabled_checks: Sequence[DisabledSafetyCheck] = ()) -> Callable[..., Exported]:
    """Export a jitted function: trace it once, to be kept in a file, and called without its Python code.

    Args:
      fun_jit: what `jit` returned. It must not call Python on the host.
      platforms: what it will run on: 'cpu', 'cuda', 'rocm', 'tpu'; None: the platform of the default device.
      lowering_platforms: the older name of that.
      disabled_checks: checks to leave out.
    Returns:
      A function of the same arguments, or of `ShapeDtypeStruct`s, with symbolic sizes too, that gives an `Exported`. With
      symbolic sizes it calls `fun_jit` at some thirty choices of sizes, which `x.shape` shows as numbers, and makes the
      programs one.
    Raises:
      NotImplementedError: the function calls Python on the host.
      ValueError: `fun_jit` is not jitted; a platform is not known, or lacks an op; with symbolic sizes, it is not one
        program for all of them, or the shapes do not determine them.

    >>> import numpy as np
    >>> from lamina_tracing import jit
    >>> exported = export(jit(lambda x: 2 * x))(np.ones(3, np.float32))
    >>> exported.call(np.ones(3, np.float32)), exported.out_avals
    (Array([2., 2., 2.], dtype=float32), (ShapedArray(float32[3]),))
    """
    if not (hasattr(fun_jit, "trace") and hasattr(fun_jit, "lower")):
        raise ValueError(f"export: expected a function made by jit; got {type(fun_jit).__name__}: {fun_jit!r:.60}. Use "
                         "export(jit(f))")
    if platforms is not None and lowering_platforms is not None:
        raise ValueError("export: platforms and lowering_platforms are two names of one argument; give one")
    chosen = platforms if platforms is not None else lowering_platforms
    if isinstance(chosen, str):
        raise TypeError(f"export: platforms must be a sequence of names, as [{chosen!r}]; got {chosen!r}")
    named = tuple(chosen) if chosen is not None else None
    for p in named or ():
        if p not in _PLATFORMS:
            raise ValueError(f"export: platforms must be of {', '.join(_PLATFORMS)}; got {p!r}")
    if named == ():
        raise ValueError("export: platforms must name at least one platform")
    checks = validate_checks("export", disabled_checks)

    @wraps(fun_jit)
    def exporter(*args: Any, **kwargs: Any) -> Exported:
        return _export(fun_jit, named or (default_export_platform(),), checks, args, kwargs)
    return exporter


def _is_spec(x: Any) -> bool:
    return hasattr(x, "shape") and any(isinstance(n, SymbolicDim) for n in x.shape)


def _export(fun_jit: Any, platforms: tuple[str, ...], checks: tuple[DisabledSafetyCheck, ...], args: Any,
            kwargs: Any) -> Exported:
    flat, tree = trees.tree_flatten((args, kwargs))
    sizes = [n for x in flat if _is_spec(x) for n in x.shape if isinstance(n, SymbolicDim)]
    if not sizes:
        traced = fun_jit.trace(*args, **kwargs)
        call = f"export of `{traced.fun_name}`"
        _check_program(call, traced.program)
        lowered = [_lower_traced(call, traced, p) for p in platforms][0]
        place = lowered.placement
        options: dict[str, Any] = dict(keep_unused=traced.keep_unused)
        if len(place.devices) > 1:
            options |= dict(nr_devices=len(place.devices),
                            in_shardings_hlo=_format_shardings(place.in_tiles, len(traced.program.in_avals)),
                            out_shardings_hlo=_format_shardings(place.out_tiles, len(traced.program.out_avals)))
        return Exported(fun_name=traced.fun_name, in_tree=traced.in_tree, in_avals=traced.program.in_avals,
                        out_tree=traced.out_tree,
                        out_avals=traced.program.out_avals, platforms=platforms, disabled_safety_checks=checks,
                        family=convert_program_error(call, lambda: Family.from_program(traced.program)), **options)
    scopes = {n.scope for n in sizes}
    if len(scopes) > 1:
        raise ValueError(f"export: the symbolic sizes of the arguments are of {len(scopes)} scopes, "
                         f"{', '.join(map(repr, scopes))}. "
                         "Make them with one: symbolic_shape(..., scope=scope), or symbolic_args_specs")
    scope: Any = scopes.pop()
    last: Any = None
    rows: list[Sequence[ShapedArray]] = []
    at: Mapping[str, int] = {}

    def trace(values: Mapping[str, int]) -> ClosedJaxpr:
        nonlocal last, at
        concrete = [ShapeDtypeStruct([evaluate(n, values) for n in x.shape], x.dtype,
                                     weak_type=bool(getattr(x, "weak_type", False))) if _is_spec(x) else x for x in flat]
        some_args, some_kwargs = trees.tree_unflatten(tree, concrete)
        traced = fun_jit.trace(*some_args, **some_kwargs)
        if last is None:
            _check_program(f"export of `{traced.fun_name}`", traced.program)
            for p in platforms:
                if len(_lower_traced(f"export of `{traced.fun_name}`", traced, p).placement.devices) > 1:
                    raise ValueError(f"export of `{traced.fun_name}`: with symbolic sizes it must run on one device; got "
                                     "a function on several")
        elif traced.out_tree != last.out_tree:
            raise ValueError(f"export of `{traced.fun_name}`: the structure of the result depends on sizes: {last.out_tree} "
                             f"and {traced.out_tree}")
        last, at = traced, values
        rows.append(traced.program.in_avals)
        return traced.program

    name = getattr(fun_jit, "__name__", "function")
    call = f"export of `{name}`"
    family, out_avals = convert_program_error(call, lambda: make_family(trace, scope, sizes, call))
    in_avals = _make_symbolic_avals([x for x in flat if _is_spec(x)], rows, at)
    check_solvable(call, in_avals, family.names)
    return Exported(fun_name=last.fun_name, in_tree=last.in_tree, in_avals=in_avals, out_tree=last.out_tree,
                    out_avals=out_avals,
                    platforms=platforms, disabled_safety_checks=checks, family=family,
                    keep_unused=last.keep_unused)


def _make_symbolic_avals(specs: Sequence[Any], rows: Sequence[Sequence[ShapedArray]],
                         values: Mapping[str, int]) -> list[ShapedArray]:
    """The types of the arguments of a program, with the sizes of the specifications: these are what differs between the samples
    (`rows`), in order. Static arguments are none of a program's."""
    left = [*specs]
    found = []
    for those in zip(*rows):
        a = those[-1]
        fits = left and tuple([evaluate(n, values) for n in left[0].shape]) == a.shape
        if fits and (len({b.shape for b in those}) > 1 or len(rows) == 1):
            found.append(ShapedArray(tuple(left.pop(0).shape), a.dtype, a.weak_type))
        else:
            found.append(a)
    if left:
        raise ValueError("export: a static argument has symbolic sizes; static arguments are Python values")
    return found


def _format_shardings(tiles: Sequence[Any], count: int) -> tuple[str | None, ...]:
    return tuple([None if t is None else t.text() for t in tiles]) if len(tiles) == count else (None,) * count


_CALLBACKS = (prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p)


def _check_program(call: str, program: ClosedJaxpr) -> None:
    """NotImplementedError for what no file can hold."""
    if any(a.is_reference for a in program.in_avals):
        raise NotImplementedError(f"{call}: an argument is a mutable reference, which a file cannot hold. Export a function of "
                                  "its value, lamina.ref.discharge(f)")
    for e in walk(program):
        if eqn_has_effects(e) or e.primitive in _CALLBACKS:
            where = f", at {e.source.file}:{e.source.line}" if e.source is not None and e.source.file else ""
            raise NotImplementedError(f"{call}: the function calls Python on the host (`{e.primitive.name}`{where}), which "
                                      "cannot be exported. "
                             "Leave the call out, or make it where the exported function is called")


def _lower_traced(call: str, traced: Any, platform: str) -> Any:
    try:
        return traced.lower(platform=platform)
    except MissingRuleError as e:
        raise ValueError(f"{call} for {platform}: {e}") from e
