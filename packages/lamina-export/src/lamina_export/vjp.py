"""The derivative in reverse of an exported function, as an exported function."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_autodiff import vjp
from lamina_ir import ClosedJaxpr, ShapeDtypeStruct, ShapedArray, dtypes, shaped, trees
from lamina_tracing import make_jaxpr
from lamina_tracing.extend import eval_jaxpr

from .symbolic_dim import evaluate, find_variables
from .shape_polymorphism import Family, convert_program_error, make_family

__all__ = ["export_vjp"]


def export_vjp(exported: Any) -> dict[str, Any]:
    """What `Exported` is made of that holds the derivatives in reverse of another; see `Exported.vjp`."""
    family, scope = exported._family, exported._family.scope
    taken = len([a for a in exported.in_avals if a.dtype != dtypes.float0])  # by the program
    cotangents = [ShapedArray(a.shape, _cotangent_dtype(a.dtype)) for a in exported.out_avals]
    in_avals = [*[ShapedArray(a.shape, a.dtype, a.weak_type) for a in exported.in_avals], *cotangents]
    kept = [i for i, a in enumerate(in_avals) if a.dtype != dtypes.float0]
    call = f"vjp of exported `{exported.fun_name}`"

    def make_backward(program: ClosedJaxpr) -> Callable[..., Any]:
        def fun(*flat: Any) -> Any:
            primals = flat[:taken]
            outs, pull = vjp(lambda *xs: list(eval_jaxpr(program, xs)), *primals)
            given = iter(flat[taken:])
            is_zero = [_cotangent_dtype(o.dtype) == dtypes.float0 for o in outs]
            found = pull([np.zeros(o.shape, dtypes.float0) if zero else next(given) for zero, o in zip(is_zero, outs)])
            return [c for c in found if getattr(c, "dtype", None) != dtypes.float0]
        return fun

    def trace(values: Any) -> ClosedJaxpr:
        at = [shaped(tuple([evaluate(n, values) for n in in_avals[i].shape]), in_avals[i].dtype, in_avals[i].weak_type)
              for i in kept]
        specs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in at]
        return make_jaxpr(make_backward(family.instantiate(values)))(*specs)

    out_avals = [ShapedArray(a.shape, _cotangent_dtype(a.dtype)) for a in exported.in_avals]
    if family.names:
        sizes = [n for a in exported.in_avals for n in a.shape if find_variables([n])]
        made, _ = convert_program_error(call, lambda: make_family(trace, scope, sizes, call))
    else:
        made = convert_program_error(call, lambda: Family.from_program(trace({})))
    return dict(fun_name=f"{exported.fun_name}_vjp", in_tree=trees.tree_structure((tuple(range(len(in_avals))), {})),
                    in_avals=in_avals, out_tree=trees.tree_structure(tuple(range(len(out_avals)))), out_avals=out_avals,
                    platforms=exported.platforms, disabled_safety_checks=exported.disabled_safety_checks, family=made,
                    nr_devices=exported.nr_devices,
                    in_shardings_hlo=(*exported.in_shardings_hlo, *exported.out_shardings_hlo) if exported.nr_devices > 1
                else (),
                    out_shardings_hlo=exported.in_shardings_hlo if exported.nr_devices > 1 else ())


def _cotangent_dtype(dtype: Any) -> Any:
    return dtype if dtypes.issubdtype(dtype, np.inexact) else dtypes.float0
