"""Normalize user-written types and params for programs built by hand.

`parse_aval` converts a type, `normalize_params` the params of one equation. `USUAL_PARAMS` has values of params that
are nearly always the same. A primitive's own `defaults`, which are omitted in text and files, take precedence.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

import numpy as np

from .._types import dtypes
from .. import prims
from .._util.short_repr import short_repr
from .._types.avals import ShapedArray, shaped
from ..errors import ProgramError, ShapeError
from .._core.param_types import explain_bad_param
from .._core.primitive import Primitive, get_primitive
from .._core.jaxpr import ClosedJaxpr, Jaxpr
from .._types.shapes import check_dtype, check_shape
from .._typing import DTypeSpec, TypeSpec
from ..typing import ParamValue, Params

__all__ = ["USUAL_PARAMS", "as_primitive", "normalize_params", "parse_aval"]

_TEXT = re.compile(r"(~?)([A-Za-z]\w*(?:<[^<>\s\[\],:]+>)?)\[([\d,\s]*)\]\Z")
_FORMS = 'expected a type such as "f32[8,3]", lamina_ir.shaped((8, 3), "float32"), or anything with a shape and a dtype'


def _dtype_in_text(call: str, name: str) -> np.dtype:
    try:
        return dtypes.from_short_name(name)
    except KeyError:
        return check_dtype(call, name)


def parse_aval(call: str, spec: TypeSpec, dtype: DTypeSpec = None, weak_type: bool = False) -> ShapedArray:
    """Convert a user-written type to a `ShapedArray`.

    Args:
      call: the calling function, for errors.
      spec: the type as text, something with a shape and a dtype, or, with `dtype`, a shape.
      dtype: the dtype, if `spec` is a shape.
      weak_type: whether it is weak; in text `~` marks a weak type.
    Raises:
      ShapeError, DTypeError: it is not a type.

    >>> parse_aval("mine", "f32[8,3]"), parse_aval("mine", (), int), parse_aval("mine", np.zeros(2, np.int8))
    (ShapedArray(float32[8,3]), ShapedArray(int64[]), ShapedArray(int8[2]))
    """
    if dtype is not None:
        return shaped(check_shape(call, spec), check_dtype(call, dtype), weak_type)
    if isinstance(spec, ShapedArray):
        return spec
    if isinstance(spec, str):
        m = _TEXT.match(spec.strip())
        if m is None:
            raise ShapeError(f"{call}: {_FORMS}; got {short_repr(spec)}")
        weak, name, dims = m.groups()
        return shaped(tuple([int(n) for n in dims.replace(" ", "").split(",") if n]), _dtype_in_text(call, name),
                      bool(weak) or weak_type)
    shape, dtype = getattr(spec, "shape", None), getattr(spec, "dtype", None)
    if shape is None or dtype is None or isinstance(spec, type):
        raise ShapeError(f"{call}: {_FORMS}; got {short_repr(spec)}")
    return shaped(check_shape(call, shape), check_dtype(call, dtype), bool(getattr(spec, "weak_type", weak_type)))


# --- params -------------------------------------------------------------------------------------------------------
def _per_axis(value: ParamValue) -> Callable[[Sequence[ShapedArray]], ParamValue]:
    """Return a default with the same value for each axis of the first operand."""
    return lambda avals: (value,) * (avals[0].ndim if avals else 0)


def _per_operand(value: ParamValue) -> Callable[[Sequence[ShapedArray]], ParamValue]:
    return lambda avals: (value,) * len(avals)


def _per_spatial_axis(value: ParamValue) -> Callable[[Sequence[ShapedArray]], ParamValue]:
    """Return a default with the same value for each spatial axis of a convolution."""
    return lambda avals: (value,) * max(avals[0].ndim - 2 if avals else 0, 0)


# Param, or (primitive, param) if it depends on the primitive -> its usual value, or a function of the operands' types
# that returns it. Params that define the computation (axes, shapes, programs) have no usual value.
USUAL_PARAMS: dict[str | tuple[str, str], ParamValue] = {
    "axis_index_groups": None, "conjugate_a": False, "fill_value": None, "index_dtype": np.dtype("int32"),
    "indices_are_sorted": False, "is_stable": True, "num_aux": 0, "num_consts": 0, "num_held": 0, "num_keys": 1,
    "pivoting": False, "precision": None, "preferred_element_type": None, "reverse": False, "strides": None, "tiled": False,
    "transpose_a": False, "transpose_solve": None, "unique_indices": False, "unit_diagonal": False, "unroll": 1,
    "weak_type": False, "batch_group_count": 1, "feature_group_count": 1, "base_dilation": _per_axis(1),
    "window_dilation": _per_axis(1), "window_strides": _per_axis(1), "padding": _per_axis((0, 0)),
    "lhs_dilation": _per_spatial_axis(1), "rhs_dilation": _per_spatial_axis(1),
    ("conv_general_dilated", "window_strides"): _per_spatial_axis(1),
    ("conv_general_dilated", "padding"): _per_spatial_axis((0, 0)),
    ("reshape", "dimensions"): None, ("round", "rounding_method"): 0, ("remat", "differentiated"): False,
    ("remat", "prevent_cse"): True, ("sharding_constraint", "unspecified_dims"): (),
    **{(op, "name"): "f" for op in ("remat", "shard_map", "xla_call", "xla_pmap", "xmap")},
    **{("while", n): 0 for n in ("body_nconsts", "cond_nconsts")},
    **{("xla_pmap", n): None for n in ("backend", "devices", "global_axis_size")},
    ("xla_pmap", "donated_invars"): _per_operand(False), ("xla_pmap", "global_arg_shapes"): _per_operand(None),
}


def _to_python(value: ParamValue) -> ParamValue:
    """Convert lists to tuples, and NumPy integers and bools to Python's, which compare faster and print in one form."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    return tuple([_to_python(v) for v in value]) if type(value) in (tuple, list) else value


def _close_program(value: ParamValue) -> ParamValue:
    return ClosedJaxpr(value) if isinstance(value, Jaxpr) and not value.constvars else value


def _normalize_param(where: str, kind: str | None, value: ParamValue) -> ParamValue:
    if kind in ("program", "programs"):
        value = tuple(map(_close_program, value)) if type(value) in (tuple, list) else _close_program(value)
    elif kind in ("dtype", "dtype?") and not (value is None or isinstance(value, np.dtype)):
        value = check_dtype(where, value)
    elif kind != "number?":
        value = _to_python(value)
    problem = None if kind is None else explain_bad_param(kind, value)
    if problem is None:
        return value
    if kind in ("program", "programs") and callable(value) and not isinstance(value, Primitive):
        problem += ". lamina_ir.build(f, *types) makes a program of a function"
    raise TypeError(f"{where} {problem}")


def normalize_params(prim: Primitive, given: Params, avals: Sequence[ShapedArray]) -> Params:
    """Complete and convert the params of an equation, in the primitive's order.

    Args:
      prim: the primitive.
      given: the params that the user gave.
      avals: the types of the operands; any scalar type for numbers whose type is not known yet.
    Raises:
      TypeError: an unknown or missing param, or a value of the wrong kind.

    >>> from lamina_ir import prims
    >>> normalize_params(prims.cumsum_p, {"axis": np.int64(1)}, [])
    {'axis': 1, 'reverse': False}
    """
    where = f"op `{prim.name}`"
    unknown = [p for p in given if p not in prim.params]
    if unknown:
        near = get_close_matches(unknown[0], prim.params, 1)
        raise TypeError(f"{where}: it has no param {unknown[0]}; its params are {', '.join(prim.params) or '(none)'}"
                        + (f". Did you mean {near[0]}?" if near else ""))
    found = {}
    for p in prim.params:
        if p in given:
            found[p] = _normalize_param(f"{where}: its param {p}", prim.kinds.get(p), given[p])
            continue
        if p in prim.defaults:
            found[p] = prim.defaults[p]
            continue
        key = (prim.name, p) if (prim.name, p) in USUAL_PARAMS else p
        if key not in USUAL_PARAMS:
            raise TypeError(f"{where}: its param {p} is missing; it needs {', '.join(_required_params(prim))}")
        value = USUAL_PARAMS[key]
        found[p] = value(avals) if callable(value) else value
    return found


def _required_params(prim: Primitive) -> list[str]:
    return [p for p in prim.params if p not in prim.defaults and p not in USUAL_PARAMS and (prim.name, p) not in USUAL_PARAMS]


def as_primitive(call: str, prim: Primitive | str) -> Primitive:
    """Return a primitive given by itself or by name.

    Raises:
      TypeError: it is neither.
      ProgramError: no primitive has this name.

    >>> as_primitive("mine", "sin")
    sin
    """
    if isinstance(prim, Primitive):
        return prim
    if not isinstance(prim, str):
        raise TypeError(f"{call}: expected a primitive or the name of one, as prims.add_p or 'add'; got {short_repr(prim)}")
    try:
        return get_primitive(prim)
    except KeyError:
        near = get_close_matches(prim, [p.name for p in prims.ALL], 3)
        raise ProgramError(f"{call}: no primitive is named {prim!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")
                           + " lamina_ir.prims has all of them; extend.register_primitive adds one") from None
