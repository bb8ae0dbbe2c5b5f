"""Kinds of param values. In built-in primitives, params of one name have the same kind everywhere.

`Primitive(kinds={...})` declares the kinds of other params. `check` tests them before it calls the type rule, which
does not validate params.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .axis_binding import are_sizes, is_entry, is_mesh
from .jaxpr import ClosedJaxpr
from .custom_rule import Rule
from ..typing import ParamValue

__all__ = ["BUILTIN_KINDS", "KINDS", "explain_bad_param"]


def _is_int(v: object) -> bool:
    return (type(v) is int or isinstance(v, (int, np.integer))) and not isinstance(v, bool)


def _tuple_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, tuple) and all(test(x) for x in v)


def _or_none(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: v is None or test(v)


_ints = _tuple_of(_is_int)
# kind -> (description for messages, test)
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("a bool", lambda v: isinstance(v, (bool, np.bool_))),
    "dtype": ("a dtype", lambda v: isinstance(v, np.dtype)),
    "entries": ("a tuple of tuples of None, Indexed and Split", _tuple_of(_tuple_of(is_entry))),
    "groups?": ("None or a tuple of tuples of ints", _or_none(lambda v: isinstance(v, (tuple, list)) and all(
        isinstance(g, (tuple, list)) and all(map(_is_int, g)) for g in v))),
    "dtype?": ("a dtype or None", _or_none(lambda v: isinstance(v, np.dtype))),
    "int": ("an int", _is_int),
    "int?": ("an int or None", _or_none(_is_int)),
    "ints": ("a tuple of ints", _ints),
    "ints?": ("a tuple of ints or None", _or_none(_ints)),
    "mesh": ("(names, sizes, devices), with one device per position", is_mesh),
    "mesh?": ("None, or (names, sizes, devices)", _or_none(is_mesh)),
    "name groups": ("a tuple of tuples of strings", _tuple_of(_tuple_of(lambda v: isinstance(v, str)))),
    "number?": ("a number or None", _or_none(lambda v: isinstance(v, (bool, int, float, complex, np.generic)) or (
        isinstance(v, np.ndarray) and not v.shape))),
    "pairs": ("a tuple of tuples of ints", _tuple_of(_ints)),
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
    "dtype": "dtype index_dtype new_dtype",
    "dtype?": "preferred_element_type",
    "entries": "in_specs out_specs",
    "int": "all_gather_dimension axis axis_size batch_group_count body_nconsts concat_axis cond_nconsts dimension "
           "exponent_bits feature_group_count "
           "k length mantissa_bits num_aux num_carry num_consts num_held num_keys permutation_size "
           "rounding_method scatter_dimension split_axis unroll y",
    "groups?": "axis_index_groups",
    "int?": "max_iters",
    "name groups": "platforms",
    "number?": "fill_value",
    "ints": "axes base_dilation broadcast_dimensions fft_lengths here lhs_dilation limit_indices new_sizes permutation "
            "rhs_dilation shape slice_sizes start_indices unspecified_dims window_dilation window_dimensions window_strides",
    "ints?": "dimensions strides",
    "pairs": "padding padding_config perm",
    "program": "body_jaxpr call_jaxpr computation cond_jaxpr jaxpr matvec transpose_jaxpr",
    "programs": "branches",
    "rule": "bwd forward fwd jvp rule",
    "sizes": "axis_sizes loops",
    "str": "impl memory_kind name sharding use",
    "str?": "vmap_method",
}
BUILTIN_KINDS = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}


def explain_bad_param(kind: str, value: ParamValue) -> str | None:
    """Return the error text for a value of the wrong kind, such as `must be a bool; got str: 'x'`; None if it is
    valid."""
    description, test = KINDS[kind]
    return None if test(value) else f"must be {description}; got {type(value).__name__}: {value!r:.60}"
