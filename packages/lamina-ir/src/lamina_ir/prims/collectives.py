"""Collectives: primitives across a mapped axis. `infer` gets the operand types of one device.

The NumPy implementation gets the operands of all devices: `numpy(env, *operands, **params)`, where `env` is the
`AxisEnv` in scope and each operand (and result) is a list with one array per device. `axis_name` and `axes` hold a name
or a tuple of names. The devices of a group are ordered by their index along the named axes, the first name slowest.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._types import dtypes
from .._types.avals import Axes, ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from .._core.axis_env import AxisEnv, check_axis_names, check_groups, check_permutation, split_axis_names
from ..typing import AxisName, Function, ParamValue, Params, Value
from .._typing import IndexGroups

__all__ = ["all_gather_p", "all_to_all_p", "axis_index_p", "pmax_p", "pmin_p", "ppermute_p", "psum_p",
           "psum_scatter_p"]

_I32 = np.dtype("int32")
_GROUPED = ("axis_index_groups", "axis_name", "axis_size")


def _total(xs: Value, ufunc: np.ufunc, axis: int | tuple[int, ...] = 0) -> np.ndarray:
    d = xs.dtype
    # Sum small floats in float32 and round once. Other sums keep their dtype, as NumPy would widen small integers.
    wide = xs.astype(np.float32) if d.itemsize < 4 and dtypes.is_float(d) else xs
    extra = {"dtype": wide.dtype} if ufunc is np.add else {}
    return np.asarray(ufunc.reduce(wide, axis=axis, **extra)).astype(d)


def _check_axis(name: str, x: ShapedArray, axis: int, param: str, limit: int | None = None) -> None:
    limit = len(x.shape) if limit is None else limit
    if not 0 <= axis < limit:
        raise ShapeError(f"{name}: {param} {axis} is out of range for operand {x.str_long()}; expected 0 <= {param} < "
                         f"{limit}")


def _raise_bad_size(name: str, x: ShapedArray, axis: int, tiled: bool, axis_size: int, axis_name: AxisName,
                    axis_index_groups: IndexGroups) -> None:
    names = ", ".join(map(repr, check_axis_names(name, axis_name)))
    whose = f"the mapped axis {names}" if axis_index_groups is None else f"a group of the mapped axis {names}"
    raise ShapeError(f"{name}: axis {axis} of the operand must {'be a multiple of' if tiled else 'have'} the size of {whose}, "
                     f"{axis_size}; got {x.str_long()}")


def _varying_axes_of_group_result(total: Axes, names: Axes, params: Params, bound: Axes) -> Axes:
    """Infer the varying axes of a result: without groups all members get the same value, so it does not vary over the
    reduced axes; with groups each group has its own value."""
    return total - names if params["axis_index_groups"] is None else total | names


# --- reductions over devices: psum, pmax, pmin --------------------------------------------------------------------
def _reduce_infer(name: str, numbers: bool) -> Callable[..., list[ShapedArray]]:
    def infer(*avals: ShapedArray, axes: tuple[AxisName, ...],
              axis_index_groups: IndexGroups = None) -> list[ShapedArray]:
        names, local = split_axis_names(name, axes)
        # The size of the axis is not known here, so the groups are only checked against each other.
        check_groups(name, None, axis_index_groups, names)
        if len(set(local)) < len(local):
            raise ShapeError(f"{name}: axes must be different axes of the operand; got {axes}")
        outs = []
        for i, x in enumerate(avals):
            if numbers and not dtypes.is_number(x.dtype):
                raise DTypeError(f"{name}: expected numbers; got operand {i} of type {x.str_long()}. Convert it first")
            if not numbers and dtypes.is_complex(x.dtype):
                raise DTypeError(f"{name}: complex numbers have no order; got operand {i} of type {x.str_long()}. Use the "
                                 "real and imaginary parts")
            if local:
                for a in local:
                    _check_axis(name, x, a, "axes")
                x = shaped(tuple(n for a, n in enumerate(x.shape) if a not in local), x.dtype, x.weak_type)
            outs.append(x)
        return outs
    return infer


def _reduce_numpy(ufunc: np.ufunc) -> Function:
    def implementation(env: AxisEnv, *operands: list[Value], axes: tuple[AxisName, ...],
                       axis_index_groups: IndexGroups = None) -> tuple[list[Value], ...]:
        names, local = split_axis_names("a collective", axes)
        results = []
        for xs in operands:
            xs = [_total(x, ufunc, local) for x in xs] if local else list(xs)
            for group in env.groups(names, axis_index_groups) if names else ():
                total = _total(np.stack([xs[d] for d in group]), ufunc)
                for d in group:
                    xs[d] = total
            results.append(xs)
        return tuple(results)
    return implementation


def _reduction(name: str, ufunc: np.ufunc, numbers: bool = False) -> Primitive:
    return Primitive(name, params=("axes", "axis_index_groups"), family="collectives", multiple=True, spec="all_reduce",
                     axis_params=("axes",), infer=_reduce_infer(name, numbers), numpy=_reduce_numpy(ufunc),
                     varying_axes=_varying_axes_of_group_result)


# psum is linear in all operands together. Their number varies, so the derivative rules state that, not `linear_in`.
psum_p = _reduction("psum", np.add, numbers=True)
pmax_p = _reduction("pmax", np.maximum)
pmin_p = _reduction("pmin", np.minimum)


# --- all_gather, psum_scatter, all_to_all -------------------------------------------------------------------------
def _check_group_sizes(name: str, axis_name: AxisName, axis_size: int, axis_index_groups: IndexGroups) -> None:
    """Check what is known about the groups without the axis environment."""
    names = check_axis_names(name, axis_name)
    groups = check_groups(name, None, axis_index_groups, names, equal=True)
    if not names and axis_size != 1:
        raise ShapeError(f"{name}: axis_size must be 1 if axis_name names no axis; got {axis_size}")
    if groups is not None and any(len(g) != axis_size for g in groups):
        raise ShapeError(f"{name}: axis_size {axis_size} must be the size of each group; got axis_index_groups {groups}")


def _device_groups(name: str, env: AxisEnv, p: Params) -> list[list[int]]:
    groups = env.groups(p["axis_name"], p["axis_index_groups"])
    if any(len(g) != p["axis_size"] for g in groups):
        raise ShapeError(f"{name}: axis_size {p['axis_size']} must be the size of each group of devices; got groups of "
                         f"{sorted({len(g) for g in groups})}")
    return groups


def _all_gather_infer(x: ShapedArray, *, all_gather_dimension: int, axis_size: int, tiled: bool,
                      **groups: ParamValue) -> ShapedArray:
    d, shape = all_gather_dimension, x.shape
    _check_group_sizes("all_gather", axis_size=axis_size, **groups)
    _check_axis("all_gather", x, d, "all_gather_dimension", len(shape) + (not tiled))
    shape = shape[:d] + (shape[d] * axis_size,) + shape[d + 1:] if tiled else shape[:d] + (axis_size,) + shape[d:]
    return shaped(shape, x.dtype, x.weak_type)


def _all_gather(env: AxisEnv, xs: list[Value], *, all_gather_dimension: int, tiled: bool,
                **p: ParamValue) -> list[Value]:
    out = list(xs)
    join = np.concatenate if tiled else np.stack
    for group in _device_groups("all_gather", env, p):
        whole = join([xs[d] for d in group], all_gather_dimension)
        for d in group:
            out[d] = whole
    return out


def _psum_scatter_infer(x: ShapedArray, *, axis_size: int, scatter_dimension: int, tiled: bool,
                        **groups: ParamValue) -> ShapedArray:
    d, shape = scatter_dimension, x.shape
    _check_group_sizes("psum_scatter", axis_size=axis_size, **groups)
    _check_axis("psum_scatter", x, d, "scatter_dimension")
    if not dtypes.is_number(x.dtype):
        raise DTypeError(f"psum_scatter: expected numbers; got {x.str_long()}. Convert it first")
    if shape[d] % axis_size if tiled else shape[d] != axis_size:
        _raise_bad_size("psum_scatter", x, d, tiled, axis_size, **groups)  # StableHLO reduce_scatter C8
    mid = (shape[d] // axis_size,) if tiled else ()
    return shaped(shape[:d] + mid + shape[d + 1:], x.dtype, x.weak_type)


def _psum_scatter(env: AxisEnv, xs: list[Value], *, scatter_dimension: int, tiled: bool,
                  **p: ParamValue) -> list[Value]:
    out = list(xs)
    for group in _device_groups("psum_scatter", env, p):
        total = _total(np.stack([xs[d] for d in group]), np.add)
        parts = np.split(total, len(group), scatter_dimension)
        for d, part in zip(group, parts):
            # A copy, because a view would keep the sum of the whole group alive.
            out[d] = part.copy() if tiled else np.squeeze(part, scatter_dimension).copy()
    return out


def _all_to_all_infer(x: ShapedArray, *, axis_size: int, concat_axis: int, split_axis: int, tiled: bool,
                      **groups: ParamValue) -> ShapedArray:
    _check_group_sizes("all_to_all", axis_size=axis_size, **groups)
    _check_axis("all_to_all", x, split_axis, "split_axis")
    _check_axis("all_to_all", x, concat_axis, "concat_axis")
    shape = list(x.shape)
    if shape[split_axis] % axis_size if tiled else shape[split_axis] != axis_size:
        _raise_bad_size("all_to_all", x, split_axis, tiled, axis_size, **groups)  # StableHLO all_to_all C2
    if tiled:
        shape[split_axis] //= axis_size
        shape[concat_axis] *= axis_size
    else:
        # The split axis has one entry per member: it disappears, and the members form the new axis.
        shape.insert(concat_axis, shape.pop(split_axis))
    return shaped(tuple(shape), x.dtype, x.weak_type)


def _all_to_all(env: AxisEnv, xs: list[Value], *, concat_axis: int, split_axis: int, tiled: bool,
                **p: ParamValue) -> list[Value]:
    out = list(xs)
    for group in _device_groups("all_to_all", env, p):
        parts = [np.split(xs[d], len(group), split_axis) for d in group]
        for i, d in enumerate(group):
            # Member i gets part i of every member, in the order of the members.
            mine = [p[i] for p in parts]
            out[d] = (np.concatenate(mine, concat_axis) if tiled
                      else np.stack([np.squeeze(m, split_axis) for m in mine], concat_axis))
    return out


all_gather_p = Primitive("all_gather", params=("all_gather_dimension", *_GROUPED, "tiled"), family="collectives",
                         infer=_all_gather_infer, numpy=_all_gather, linear_in=(0,), axis_params=("axis_name",),
                         spec="all_gather", varying_axes=_varying_axes_of_group_result)
psum_scatter_p = Primitive("psum_scatter", params=(*_GROUPED, "scatter_dimension", "tiled"), family="collectives",
                           infer=_psum_scatter_infer, numpy=_psum_scatter, linear_in=(0,), axis_params=("axis_name",),
                           spec="reduce_scatter")
all_to_all_p = Primitive("all_to_all", params=(*_GROUPED, "concat_axis", "split_axis", "tiled"), family="collectives",
                         infer=_all_to_all_infer, numpy=_all_to_all, linear_in=(0,), axis_params=("axis_name",),
                         spec="all_to_all")


# --- ppermute, axis_index -----------------------------------------------------------------------------------------
def _ppermute_infer(x: ShapedArray, *, axis_name: AxisName, perm: tuple[tuple[int, int], ...]) -> ShapedArray:
    check_permutation("ppermute", None, perm, check_axis_names("ppermute", axis_name))
    return x


def _ppermute(env: AxisEnv, xs: list[Value], *, axis_name: AxisName, perm: tuple[tuple[int, int], ...]) -> list[Value]:
    # A member that is no destination gets zeros (StableHLO collective_permute).
    out = [np.zeros_like(x) for x in xs]
    check_permutation("ppermute", env.axis_size(axis_name), perm, axis_name)
    for group in env.groups(axis_name):
        for source, destination in perm:
            out[group[destination]] = xs[group[source]]
    return out


def _axis_index_infer(*, axis_name: AxisName) -> ShapedArray:
    check_axis_names("axis_index", axis_name)
    return shaped((), _I32)


ppermute_p = Primitive("ppermute", params=("axis_name", "perm"), family="collectives", infer=_ppermute_infer,
                       numpy=_ppermute, linear_in=(0,), axis_params=("axis_name",), spec="collective_permute")
axis_index_p = Primitive("axis_index", params=("axis_name",), family="collectives", axis_params=("axis_name",),
                         infer=_axis_index_infer, spec="replica_id, partition_id",
                         numpy=lambda env, *, axis_name: [np.asarray(i, _I32) for i in env.indices(axis_name)])
