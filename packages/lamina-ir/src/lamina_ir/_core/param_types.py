"""Kinds of param values. In built-in primitives, most params of one name have the same kind everywhere.

`Primitive(kinds={...})` declares the kinds of other params. `check` tests them before it calls the type rule, which
does not validate params. Modules of `prims` add the kinds of their enums and records to `KINDS`.
"""
from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from .axis_binding import are_names, are_resources, are_sizes, is_entry, is_mesh
from .jaxpr import ClosedJaxpr
from .custom_rule import Rule
from ..typing import ParamValue

__all__ = ["BUILTIN_KINDS", "KINDS", "explain_bad_param", "is_enum_of", "is_ints"]


def _is_int(v: object) -> bool:
    if type(v) is int:
        return -1 << 63 <= v < 1 << 63
    return isinstance(v, (int, np.integer)) and not isinstance(v, (bool, Enum))


def _tuple_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, tuple) and all(test(x) for x in v)


def _or_none(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: v is None or test(v)


is_ints = _tuple_of(_is_int)


def _is_bool(v: object) -> bool:
    return isinstance(v, (bool, np.bool_))


def is_enum_of(kind: type[Enum]) -> Callable[[Any], bool]:
    """Return the test of a param that holds a member of an enum; ints equal to a member of an IntEnum are members."""
    numbers = frozenset([int(m) for m in kind]) if issubclass(kind, int) else frozenset()
    return lambda v: type(v) is kind or type(v) is int and v in numbers


# kind -> (description for messages, test)
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("a bool", _is_bool),
    "bools": ("a tuple of bools", _tuple_of(_is_bool)),
    "devices?": ("a tuple of ints or None", _or_none(lambda v: isinstance(v, tuple))),
    "dtype": ("a dtype", lambda v: isinstance(v, np.dtype)),
    "entries": ("a tuple of tuples of None, Indexed and Split", _tuple_of(_tuple_of(is_entry))),
    "groups?": ("None or a tuple of tuples of ints", _or_none(lambda v: isinstance(v, (tuple, list)) and all(
        isinstance(g, (tuple, list)) and all(map(_is_int, g)) for g in v))),
    "dtypes": ("a tuple of dtypes", _tuple_of(lambda v: isinstance(v, np.dtype))),
    "flag groups": ("a tuple of tuples of bools", _tuple_of(_tuple_of(_is_bool))),
    "dtype?": ("a dtype or None", _or_none(lambda v: isinstance(v, np.dtype))),
    "int": ("an int", _is_int),
    "int?": ("an int or None", _or_none(_is_int)),
    "ints": ("a tuple of ints", is_ints),
    "ints?": ("a tuple of ints or None", _or_none(is_ints)),
    "ints or None": ("a tuple of ints and None", _tuple_of(_or_none(_is_int))),
    "mesh": ("(names, sizes, devices), with one device per position", is_mesh),
    "mesh?": ("None, or (names, sizes, devices)", _or_none(is_mesh)),
    "name groups": ("a tuple of tuples of strings", _tuple_of(_tuple_of(lambda v: isinstance(v, str)))),
    "number?": ("a number or None", _or_none(lambda v: isinstance(v, (bool, int, float, complex, np.generic)) or (
        isinstance(v, np.ndarray) and not v.shape))),
    "pairs": ("a tuple of tuples of ints", _tuple_of(is_ints)),
    "names": ("a tuple of names", are_names),
    "policy?": ("None, or a record", _or_none(callable)),
    "program?": ("a ClosedJaxpr or None", _or_none(lambda v: isinstance(v, ClosedJaxpr))),
    "resources": ("a tuple of pairs (name, tuple of names)", are_resources),
    "selection": ("`'ge'` or `'le'`", lambda v: type(v) is str and v in ("ge", "le")),
    "shapes?": ("a tuple, or None", _or_none(lambda v: isinstance(v, tuple))),
    "program": ("a ClosedJaxpr", lambda v: isinstance(v, ClosedJaxpr)),
    "programs": ("a tuple of ClosedJaxprs", _tuple_of(lambda v: isinstance(v, ClosedJaxpr))),
    "rule": ("a prims.Rule", lambda v: type(v) is Rule and type(v.name) is str),
    "sizes": ("a tuple of pairs of a name and an int", are_sizes),
    "str": ("a string", lambda v: isinstance(v, str)),
    "str?": ("a string or None", _or_none(lambda v: isinstance(v, str))),
}
_BY_KIND = {
    "bool": "compute_left_eigenvectors compute_right_eigenvectors compute_schur_vectors compute_uv conjugate_a differentiated "
            "full_matrices has_default indexed indices_are_sorted inline is_stable left_side lower ordered pivoting "
            "prevent_cse reverse threaded tiled transpose_a unique_indices unit_diagonal weak_type",
    "bools": "donated_invars",
    "dtype": "dtype index_dtype new_dtype",
    "dtypes": "result_dtypes",
    "flag groups": "mapped",
    "dtype?": "preferred_element_type",
    "entries": "in_specs out_specs",
    "int": "all_gather_dimension axis axis_size batch_group_count body_nconsts concat_axis cond_nconsts dimension "
           "exponent_bits feature_group_count "
           "k length mantissa_bits num_aux num_carry num_consts num_held num_keys permutation_size "
           "rounding_method scatter_dimension split_axis unroll y",
    "groups?": "axis_index_groups",
    "int?": "global_axis_size max_iters",
    "name groups": "platforms",
    "number?": "fill_value",
    "ints": "axes base_dilation batch broadcast_dimensions fft_lengths here lhs_dilation limit_indices new_sizes permutation "
            "rhs_dilation shape slice_sizes start_indices unspecified_dims window_dilation window_dimensions window_strides",
    "ints?": "dimensions strides",
    "names": "auto",
    "pairs": "padding padding_config perm result_shapes",
    "policy?": "policy",
    "program?": "transpose_solve",
    "resources": "axis_resources",
    "selection": "select",
    "shapes?": "global_arg_shapes",
    "program": "body_jaxpr call_jaxpr computation cond_jaxpr jaxpr matvec solve transpose_jaxpr",
    "programs": "branches",
    "rule": "bwd forward fwd jvp rule",
    "sizes": "axis_sizes loops",
    "str": "impl memory_kind name sharding use",
    "str?": "backend vmap_method",
}
BUILTIN_KINDS = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}


def explain_bad_param(kind: str, value: ParamValue) -> str | None:
    """Return the error text for a value of the wrong kind, such as `must be a bool; got str: 'x'`; None if it is
    valid."""
    description, test = KINDS[kind]
    if test(value):
        return None
    wide = " with integers of at most 64 bits" if _has_wide_int(value) else ""
    return f"must be {description}{wide}; got {type(value).__name__}: {value!r:.60}"


def _has_wide_int(value: ParamValue) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_wide_int, value))
    return type(value) is int and not _is_int(value)
