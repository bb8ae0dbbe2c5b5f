"""Compute the parts of each process in a map over a multi-process mesh, and assemble the global program from them."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from lamina_ir import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, shaped
from lamina_ir.typing import MapEntry

__all__ = ["assemble_global_program", "process_shard_shapes"]

AxisPositions = list[dict[Hashable, np.ndarray]]  # process -> mesh axis -> positions of its devices on that axis


def _axis_positions(e: Eqn) -> AxisPositions:
    """Return the positions of each process on the mesh axes, in the order of the processes' devices in the mesh."""
    names, sizes, devices = e.params["mesh"]
    numbers = np.array([d.process_index for d in devices]).reshape(sizes)
    # The devices of a process form a block of the mesh, so their positions are a product of one set per axis.
    return [dict(zip(names, map(np.unique, np.nonzero(numbers == p))))
            for p in dict.fromkeys(numbers.reshape(-1).tolist())]


def _lengths(e: Eqn, shape: Sequence[int], entry: MapEntry) -> list[tuple[tuple[Hashable, ...], int]]:
    """Return (mesh axes that split it, length of one block) for each dimension of an operand.

    `shape` is that of the part in this process; `entry` gives the axes of each dimension.
    """
    here = dict(zip(e.params["mesh"][0], e.params["here"]))
    dim_axes = [() if kind is None else kind.names for kind in entry]
    return [(names, n // math.prod([here[name] for name in names])) for names, n in zip(dim_axes, shape)]


def process_shard_shapes(e: Eqn, shape: Sequence[int], entry: MapEntry) -> list[tuple[int, ...]]:
    """Return the shape of each process's part of an operand.

    Args:
      e: the map.
      shape: the shape of the part in this process.
      entry: for each dimension, the mesh axes that split it.
    """
    lengths = _lengths(e, shape, entry)
    return [tuple([n * math.prod([len(axis_positions[name]) for name in names]) for names, n in lengths])
            for axis_positions in _axis_positions(e)]


def assemble_global_program(closed: ClosedJaxpr, e: Eqn,
                 parts: Sequence[Sequence[np.ndarray]]) -> tuple[ClosedJaxpr, list[np.ndarray]]:
    """Build the global program, as if one process had all devices, and its global arguments.

    Args:
      closed: a program that consists of a single map over a mesh.
      e: the equation of that map.
      parts: the arguments of each process.
    """
    positions, sizes = _axis_positions(e), dict(zip(*e.params["mesh"][:2]))
    specs = dict(zip(e.invars, e.params["in_specs"]))
    global_args = []
    for v, process_parts in zip(closed.jaxpr.invars, zip(*parts)):
        lengths = _lengths(e, v.aval.shape, specs.get(v, (None,) * v.aval.ndim))
        global_arg = np.empty([n * math.prod([sizes[name] for name in names]) for names, n in lengths], v.aval.dtype)
        for axis_positions, part in zip(positions, process_parts):
            global_arg[np.ix_(*[_part_indices(names, n, axis_positions, sizes) for names, n in lengths])] = part
        global_args.append(global_arg)
    invars = [Var(shaped(x.shape, v.aval.dtype, v.aval.weak_type)) for v, x in zip(closed.jaxpr.invars, global_args)]
    replaced: dict[Atom, Atom] = dict(zip(closed.jaxpr.invars, invars))
    operands = [replaced.get(v, v) for v in e.invars]
    params = {**e.params, "here": ()}
    results: dict[Atom, Var] = dict(zip(e.outvars, map(Var, e.primitive.infer(*[v.aval for v in operands], **params))))
    program = Jaxpr(closed.jaxpr.constvars, invars, [Eqn(e.primitive, operands, [*results.values()], params, e.source)],
                    [results[v] for v in closed.jaxpr.outvars])
    return ClosedJaxpr(program, closed.consts), global_args


def _part_indices(names: Sequence[Hashable], n: int, axis_positions: dict[Hashable, np.ndarray],
                  sizes: dict[Hashable, int]) -> np.ndarray:
    """Return the indices of a process's part along one dimension, in blocks of length `n`.

    `axis_positions` gives the positions of the process on the mesh axes, `names` the axes that split the dimension.
    """
    blocks = np.arange(math.prod([sizes[name] for name in names])).reshape([sizes[name] for name in names])
    own_blocks = blocks[np.ix_(*[axis_positions[name] for name in names])].reshape(-1)
    return (own_blocks[:, None] * n + np.arange(n)).reshape(-1)
