"""The derivative in reverse of an exported function, as an exported function."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_autodiff import vjp
from lamina_ir import ClosedJaxpr, ShapeDtypeStruct, ShapedArray, dtypes, shaped, trees
from lamina_tracing import make_jaxpr
from lamina_tracing.extend import eval_jaxpr

from .symbolic_dim import evaluate, variables
from .shape_polymorphism import Family, family_of, saved

__all__ = ["pulled_back"]


def pulled_back(exported: Any) -> dict[str, Any]:
    """What `Exported` is made of that holds the derivatives in reverse of another; see `Exported.vjp`."""
    family, scope = exported._family, exported._family.scope
    taken = len([a for a in exported.in_avals if a.dtype != dtypes.float0])  # by the program
    cotangents = [ShapedArray(a.shape, _cotangent(a.dtype)) for a in exported.out_avals]
    in_avals = [*[ShapedArray(a.shape, a.dtype, a.weak_type) for a in exported.in_avals], *cotangents]
    kept = [i for i, a in enumerate(in_avals) if a.dtype != dtypes.float0]
    call = f"vjp of exported `{exported.fun_name}`"

    def backward(program: ClosedJaxpr) -> Callable[..., Any]:
        def fun(*flat: Any) -> Any:
            primals = flat[:taken]
            outs, pull = vjp(lambda *xs: list(eval_jaxpr(program, xs)), *primals)
            given = iter(flat[taken:])
            found = pull([np.zeros(o.shape, dtypes.float0) if _cotangent(o.dtype) == dtypes.float0 else next(given)
                          for o in outs])
            return [c for c in found if getattr(c, "dtype", None) != dtypes.float0]
        return fun

    def trace(values: Any) -> ClosedJaxpr:
        at = [shaped(tuple([evaluate(n, values) for n in in_avals[i].shape]), in_avals[i].dtype, in_avals[i].weak_type)
              for i in kept]
        return make_jaxpr(backward(family.at(values)))(*[ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in at])

    out_avals = [ShapedArray(a.shape, _cotangent(a.dtype)) for a in exported.in_avals]
    if family.names:
        sizes = [n for a in exported.in_avals for n in a.shape if variables([n])]
        made, _ = saved(call, lambda: family_of(trace, scope, sizes, call))
    else:
        made = saved(call, lambda: Family.of(trace({})))
    return dict(fun_name=f"{exported.fun_name}_vjp", in_tree=trees.tree_structure((tuple(range(len(in_avals))), {})),
                    in_avals=in_avals, out_tree=trees.tree_structure(tuple(range(len(out_avals)))), out_avals=out_avals,
                    platforms=exported.platforms, disabled_safety_checks=exported.disabled_safety_checks, family=made,
                    nr_devices=exported.nr_devices,
                    in_shardings_hlo=(*exported.in_shardings_hlo, *exported.out_shardings_hlo) if exported.nr_devices > 1
                else (),
                    out_shardings_hlo=exported.in_shardings_hlo if exported.nr_devices > 1 else ())


def _cotangent(dtype: Any) -> Any:
    return dtype if dtypes.issubdtype(dtype, np.inexact) else dtypes.float0
