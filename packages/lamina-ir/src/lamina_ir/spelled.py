"""What people write for types and params of programs built by hand, made into what programs hold.

`aval_spec` reads a type, `settled_params` the params of one equation. `USUAL` has the values of params that are nearly always
the same; a primitive's own `defaults`, which text and files leave out, come before it.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from . import dtypes, prims
from ._excerpt import excerpt
from .avals import ShapedArray, shaped
from .errors import ProgramError, ShapeError
from .param_kinds import param_problem
from .primitive import Primitive, by_name
from .program import ClosedJaxpr, Jaxpr
from .shapes import element_type, sizes

__all__ = ["USUAL", "aval_spec", "closed_program", "primitive_of", "settled_params"]

_TEXT = re.compile(r"(~?)([A-Za-z]\w*(?:<[^<>\s\[\],:]+>)?)\[([\d,\s]*)\]\Z")
_FORMS = 'expected a type such as "f32[8,3]", lamina_ir.shaped((8, 3), "float32"), or anything with a shape and a dtype'


def _dtype_in_text(call: str, name: str) -> np.dtype:
    try:
        return dtypes.from_short_name(name)
    except KeyError:
        return element_type(call, name)


def aval_spec(call: str, spec: Any, dtype: Any = None, weak_type: bool = False) -> ShapedArray:
    """The type that somebody wrote.

    Args:
      call: who asks, for errors.
      spec: the type as text, something with a shape and a dtype, or, with `dtype`, the shape.
      dtype: the element type, where `spec` is a shape.
      weak_type: whether it is weak; text says so with `~`.
    Raises:
      ShapeError, DTypeError: it is no type.

    >>> aval_spec("mine", "f32[8,3]"), aval_spec("mine", (), int), aval_spec("mine", np.zeros(2, np.int8))
    (ShapedArray(float32[8,3]), ShapedArray(int64[]), ShapedArray(int8[2]))
    """
    if dtype is not None:
        return shaped(sizes(call, spec), element_type(call, dtype), weak_type)
    if isinstance(spec, ShapedArray):
        return spec
    if isinstance(spec, str):
        m = _TEXT.match(spec.strip())
        if m is None:
            raise ShapeError(f"{call}: {_FORMS}; got {excerpt(spec)}")
        weak, name, dims = m.groups()
        return shaped(tuple([int(n) for n in dims.replace(" ", "").split(",") if n]), _dtype_in_text(call, name),
                      bool(weak) or weak_type)
    shape, dtype = getattr(spec, "shape", None), getattr(spec, "dtype", None)
    if shape is None or dtype is None or isinstance(spec, type):
        raise ShapeError(f"{call}: {_FORMS}; got {excerpt(spec)}")
    return shaped(sizes(call, shape), element_type(call, dtype), bool(getattr(spec, "weak_type", weak_type)))


# --- params -------------------------------------------------------------------------------------------------------
def _each_axis(value: Any) -> Callable[[Sequence[ShapedArray]], Any]:
    """The same for each axis of the first operand."""
    return lambda avals: (value,) * (avals[0].ndim if avals else 0)


def _each_operand(value: Any) -> Callable[[Sequence[ShapedArray]], Any]:
    return lambda avals: (value,) * len(avals)


def _each_spatial(value: Any) -> Callable[[Sequence[ShapedArray]], Any]:
    """The same for each axis of a convolution's image but those of examples and features."""
    return lambda avals: (value,) * max(avals[0].ndim - 2 if avals else 0, 0)


# Param, or (op, param) where it is not the same for all ops -> its usual value, or a function of the operands' types that
# gives it. What says what an op computes (axes, shapes, programs) is not here.
USUAL: dict[Any, Any] = {
    "axis_index_groups": None, "conjugate_a": False, "fill_value": None, "index_dtype": np.dtype("int32"),
    "indices_are_sorted": False, "is_stable": True, "num_aux": 0, "num_consts": 0, "num_held": 0, "num_keys": 1,
    "pivoting": False, "precision": None, "preferred_element_type": None, "reverse": False, "strides": None, "tiled": False,
    "transpose_a": False, "transpose_solve": None, "unique_indices": False, "unit_diagonal": False, "unroll": 1,
    "weak_type": False, "batch_group_count": 1, "feature_group_count": 1, "base_dilation": _each_axis(1),
    "window_dilation": _each_axis(1), "window_strides": _each_axis(1), "padding": _each_axis((0, 0)),
    "lhs_dilation": _each_spatial(1), "rhs_dilation": _each_spatial(1),
    ("conv_general_dilated", "window_strides"): _each_spatial(1), ("conv_general_dilated", "padding"): _each_spatial((0, 0)),
    ("reshape", "dimensions"): None, ("round", "rounding_method"): 0, ("remat", "differentiated"): False,
    ("remat", "prevent_cse"): True, ("sharding_constraint", "unspecified_dims"): (),
    **{(op, "name"): "f" for op in ("remat", "shard_map", "xla_call", "xla_pmap", "xmap")},
    **{("while", n): 0 for n in ("body_nconsts", "cond_nconsts")},
    **{("xla_pmap", n): None for n in ("backend", "devices", "global_axis_size")},
    ("xla_pmap", "donated_invars"): _each_operand(False), ("xla_pmap", "global_arg_shapes"): _each_operand(None),
}


def _plain(value: Any) -> Any:
    """Lists as tuples, and NumPy's integers and truth values as Python's, which print the same and compare faster."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    return tuple([_plain(v) for v in value]) if type(value) in (tuple, list) else value


def _closed(value: Any) -> Any:
    return ClosedJaxpr(value) if isinstance(value, Jaxpr) and not value.constvars else value


def _settled(where: str, kind: str | None, value: Any) -> Any:
    if kind in ("program", "programs"):
        value = tuple(map(_closed, value)) if type(value) in (tuple, list) else _closed(value)
    elif kind in ("dtype", "dtype?") and not (value is None or isinstance(value, np.dtype)):
        value = element_type(where, value)
    elif kind != "number?":
        value = _plain(value)
    problem = None if kind is None else param_problem(kind, value)
    if problem is None:
        return value
    if kind in ("program", "programs") and callable(value) and not isinstance(value, Primitive):
        problem += ". Of a function, lamina_ir.build(f, types of its arguments) makes one"
    raise TypeError(f"{where} {problem}")


def settled_params(prim: Primitive, given: dict[str, Any], avals: Sequence[ShapedArray]) -> dict[str, Any]:
    """All params of an equation, in the primitive's order, from those that somebody gave.

    Args:
      prim: the op.
      given: the params that are given.
      avals: the types of the operands, of numbers whose type is not known yet any scalar one.
    Raises:
      TypeError: a param that the op has not, that is missing, or that is of another kind.

    >>> from lamina_ir import prims
    >>> settled_params(prims.cumsum_p, {"axis": np.int64(1)}, [])
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
            found[p] = _settled(f"{where}: its param {p}", prim.kinds.get(p), given[p])
            continue
        if p in prim.defaults:
            found[p] = prim.defaults[p]
            continue
        key = (prim.name, p) if (prim.name, p) in USUAL else p
        if key not in USUAL:
            raise TypeError(f"{where}: its param {p} is missing; it needs {', '.join(_needed(prim))}")
        value = USUAL[key]
        found[p] = value(avals) if callable(value) else value
    return found


def _needed(prim: Primitive) -> list[str]:
    return [p for p in prim.params if p not in prim.defaults and p not in USUAL and (prim.name, p) not in USUAL]


def closed_program(call: str, program: Any) -> ClosedJaxpr:
    """A program with its constants; a `Jaxpr` that has none will do.

    Raises:
      TypeError: it is none, or its constants have no values.
    """
    if isinstance(program, ClosedJaxpr):
        return program
    if not isinstance(program, Jaxpr):
        raise TypeError(f"{call}: expected a ClosedJaxpr; got {excerpt(program)}")
    if program.constvars:
        raise TypeError(f"{call}: expected a ClosedJaxpr; got a Jaxpr that has {len(program.constvars)} constants without "
                        "values. Give them: ClosedJaxpr(jaxpr, consts)")
    return ClosedJaxpr(program)


def primitive_of(call: str, prim: Any) -> Primitive:
    """The primitive that somebody gave by itself or by name.

    Raises:
      TypeError: it is neither.
      ProgramError: no primitive has this name.

    >>> primitive_of("mine", "sin")
    sin
    """
    if isinstance(prim, Primitive):
        return prim
    if not isinstance(prim, str):
        raise TypeError(f"{call}: expected a primitive or the name of one, as prims.add_p or 'add'; got {excerpt(prim)}")
    try:
        return by_name(prim)
    except KeyError:
        near = get_close_matches(prim, [p.name for p in prims.ALL], 3)
        raise ProgramError(f"{call}: no primitive is named {prim!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")
                           + " lamina_ir.prims has all of them; extend.register_primitive adds one") from None
