"""Run lowered programs on jaxlib's CPU client, and compare ops with their NumPy meaning. For tests."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, Var, aval_of, evaluate_primitive
from lamina_ir.extend import Tiles
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import determined

from . import _jaxlib
from .module import Lowered, lower

__all__ = ["check_collective", "check_lowering", "one_op", "register_kernels", "run_lowered"]

register_kernels = _jaxlib.register_kernels


def one_op(prim: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> ClosedJaxpr:
    """The program of a single equation."""
    ins = [Var(a) for a in avals]
    out = prim.infer(*avals, **params)
    outs = [Var(a) for a in (out if prim.multiple else (out,))]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, outs, params)], outs))


def run_lowered(lowered: Lowered, *args: Any) -> list[np.ndarray] | list[list[np.ndarray]]:
    """Compile and run on CPU devices.

    Args:
      lowered: from `lower(..., platform="cpu")`.
      args: arrays, one per argument of the program; with several replicas a sequence of such arrays, one per replica.
    Returns:
      The results; with several replicas a list of them per replica.
    """
    lowered.module.operation.verify()
    place = lowered.placement
    replicas, partitions = place.grid
    rows = [list(args)] if replicas == 1 else [[a[r] for a in args] for r in range(replicas)]
    rows = [[*lowered.const_args, *(a for a, kept in zip(row, lowered.kept_args, strict=True) if kept)]
            for row in rows]
    if partitions > 1:
        ins = [Tiles()] * len(lowered.const_args) + [t or Tiles() for t, k in zip(
            place.ins or (None,) * len(lowered.kept_args), lowered.kept_args) if k]
        parts = [_parts(np.asarray(x, a.dtype), t, partitions) for x, t, a in zip(rows[0], ins, lowered.in_avals)]
        rows = [[p[d] for p in parts] for d in range(partitions)]
    _jaxlib.provide(lowered.needs)
    code = lowered.module if lowered.host_functions else lowered.bytecode()
    outs, tiles = _jaxlib.run_on_cpu(code, place.grid, lowered.shardy, rows, lowered.in_avals, lowered.host_functions,
                                    len(lowered.out_avals))
    if partitions > 1:
        texts = tiles or ["{replicated}"] * len(lowered.out_avals)
        return [_joined([own[k] for own in outs], Tiles.parse(t), a.shape)
                for k, (t, a) in enumerate(zip(texts, lowered.out_avals))]
    return outs[0] if replicas == 1 else outs


def _places(tiles: Tiles, shape: tuple[int, ...]) -> dict[int, tuple[slice, ...]]:
    """Device -> the part that it holds."""
    sizes = [n // k for n, k in zip(shape, tiles.counts)]
    return {int(device): tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, sizes))
            for at, device in np.ndenumerate(tiles.positions())}


def _parts(x: np.ndarray, tiles: Tiles, devices: int) -> list[np.ndarray]:
    if tiles.whole:
        return [np.array(x) for _ in range(devices)]  # no two may share memory
    places = _places(tiles, x.shape)
    return [x[places[d]] for d in range(devices)]


def _joined(parts: list[np.ndarray], tiles: Tiles, shape: tuple[int, ...]) -> np.ndarray:
    if tiles.whole:
        return parts[0]
    out = np.empty(shape, parts[0].dtype)
    for device, where in _places(tiles, shape).items():
        out[where] = parts[device]
    return out


def check_lowering(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Compare the compiled op with its NumPy meaning on these arguments."""
    avals = [aval_of(a) for a in args]
    arrays = [np.asarray(a, v.dtype) for a, v in zip(args, avals, strict=True)]
    got = run_lowered(lower(one_op(prim, avals, params)), *arrays)
    wanted = evaluate_primitive(prim, arrays, params)
    pairs = zip(determined(prim, got), determined(prim, wanted if prim.multiple else (wanted,)), strict=True)
    for g, w in pairs:
        assert_close(g, w, what=prim.name)


def check_collective(prim: Primitive, operands: Sequence[Sequence[Any]], params: dict[str, Any], env: Any) -> None:
    """Compare a compiled collective on every device with its NumPy meaning.

    Args:
      prim: the collective.
      operands: for each operand one array per device.
      params: the equation's params.
      env: `lamina_ir.spmd.AxisEnv` of the axes around it.
    """
    lowered = lower(one_op(prim, [aval_of(xs[0]) for xs in operands], params),
                    axis_env=list(zip(env.names, env.sizes, strict=True)))
    got = run_lowered(lowered, *operands)
    wanted = prim.numpy(env, *operands, **params)
    for k, per_device in enumerate(wanted if prim.multiple else (wanted,)):
        for d, w in enumerate(per_device):
            assert_close(got[d][k], w, what=f"{prim.name} on device {d}")
