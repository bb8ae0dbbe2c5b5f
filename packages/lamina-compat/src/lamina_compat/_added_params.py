"""Params that JAX's primitives have in addition to those of lamina, by level.

`ADDED` lists primitives that differ from lamina's only in such params. Equations are shown with them, so that rules in JAX's
form get the arguments that they name. On the way back each must have a value without effect.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lamina_ir import Primitive, prims
from lamina_ir.typing import Params
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__all__ = ["ADDED", "AddedParam", "add_params", "complete_params", "remove_params"]


class AddedParam(NamedTuple):
    """A param of JAX's primitive.

    Attributes:
      name: its name.
      value: the value that is shown; or a function of the types of the operands.
      levels: which levels show it: "0.4", "0.5" for 0.5 and later, or "all".
      accepted: other values without effect.
    """

    name: str
    value: Any
    levels: str = "all"
    accepted: tuple[Any, ...] = ()


def _system_size(avals: Sequence[Any]) -> int:
    return avals[0].shape[-1]


_ROWS: Final[tuple[tuple[str, tuple[AddedParam, ...]], ...]] = (
    ("cbrt cos exp2 exp expm1 log1p log logistic rsqrt sin sqrt tan tanh", (AddedParam("accuracy", None, "0.5"),)),
    ("mul", (AddedParam("out_dtype", None, "0.5"),)),
    ("broadcast_in_dim convert_element_type iota reshape", (AddedParam("sharding", None, "0.5"),)),
    ("conv_general_dilated dot_general reduce_sum rng_bit_generator", (AddedParam("out_sharding", None, "0.5"),)),
    ("conj", (AddedParam("input_dtype", lambda avals: avals[0].dtype),)),
    ("eig", (AddedParam("implementation", None, "0.5"), AddedParam("enable_eigvec_derivs", False, "0.5", (True,)))),
    ("eigh", (AddedParam("sort_eigenvalues", True, accepted=(False,)), AddedParam("subset_by_index", None),
              AddedParam("algorithm", None, "0.5"))),
    ("qr", (AddedParam("use_magma", None, "0.5"),)),
    ("schur", (AddedParam("sort_eig_vals", False), AddedParam("select_callable", None))),
    ("svd", (AddedParam("subset_by_index", None), AddedParam("algorithm", None, "0.5"))),
    ("tridiagonal_solve", (
        AddedParam("m", _system_size, "0.4"), AddedParam("n", lambda avals: avals[3].shape[-1], "0.4"),
        AddedParam("ldb", _system_size, "0.4"), AddedParam("t", lambda avals: avals[0].dtype, "0.4"),
        AddedParam("perturb_singular", False, "0.5"))),
    ("all_to_all random_unwrap top_k", ()),  # lamina has params that JAX has not: `_MISSING`
)
ADDED: Final[dict[Primitive, tuple[AddedParam, ...]]] = {
    getattr(prims, f"{name}_p"): params for names, params in _ROWS for name in names.split()}


def _group_size(params: Params, operands: Sequence[Any]) -> int:
    groups = params["axis_index_groups"]
    return len(groups[0]) if groups is not None else lax.axis_size(params["axis_name"])


# Params of lamina that an equation of JAX may lack, and their values.
_MISSING: Final[dict[Primitive, dict[str, Callable[[Params, Sequence[Any]], Any]]]] = {
    prims.all_to_all_p: {"axis_size": _group_size},
    prims.qr_p: {"pivoting": lambda params, operands: False},
    prims.random_unwrap_p: {"use": lambda params, operands: None},
    prims.top_k_p: {"axis": lambda params, operands: _ndim(operands[0]) - 1},
}


def _ndim(operand: Any) -> int:
    shape = getattr(operand, "shape", None)
    return len(typeof(operand).shape if shape is None else shape)


def add_params(prim: Primitive, params: Params, avals: Sequence[Any], is_old: bool) -> Params:
    """Return the params of JAX's primitive, for operands of these types."""
    level = "0.4" if is_old else "0.5"
    added = {p.name: p.value(avals) if callable(p.value) else p.value for p in ADDED[prim] if p.levels in (level, "all")}
    hidden = _hidden(prim, params, avals) if is_old else ()
    return {**{k: v for k, v in params.items() if k not in hidden}, **added}


def _hidden(prim: Primitive, params: Params, avals: Sequence[Any]) -> tuple[str, ...]:
    """Return the params that JAX 0.4 lacks, if their value is the only one that it has."""
    if prim is prims.qr_p and not params["pivoting"]:
        return ("pivoting",)
    return ("axis",) if prim is prims.top_k_p and params["axis"] == len(avals[0].shape) - 1 else ()


def remove_params(prim: Primitive, params: Params) -> Params:
    """Return the params of lamina's primitive.

    Raises:
      NotImplementedError: a param has a value that lamina cannot honour.
    """
    kept = dict(params)
    for p in ADDED[prim]:
        value = kept.pop(p.name, None)
        if value is not None and not callable(p.value) and value != p.value and value not in p.accepted:
            raise NotImplementedError(f"{prim.name}: {p.name} must be {p.value!r}; got {value!r:.60}")
    return kept


def complete_params(prim: Primitive, params: Params, operands: Sequence[Any]) -> Params:
    """Return params with those that JAX's primitive lacks."""
    missing = {k: f(params, operands) for k, f in _MISSING.get(prim, {}).items() if k not in params}
    return {**params, **missing} if missing else params
