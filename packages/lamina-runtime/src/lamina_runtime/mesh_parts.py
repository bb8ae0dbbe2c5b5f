"""What the processes have of the operands of a map over a mesh of several processes, each its part, and all of it together."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, shaped

__all__ = ["part_shapes", "put_together"]

Places = list[dict[Hashable, np.ndarray]]  # for each process which places on each axis of the mesh are its own


def _places(e: Eqn) -> Places:
    """The processes in the order in which their devices stand in the mesh."""
    names, sizes, devices = e.params["mesh"]
    numbers = np.array([d.process_index for d in devices]).reshape(sizes)
    return [dict(zip(names, map(np.unique, np.nonzero(numbers == p)))) for p in dict.fromkeys(numbers.reshape(-1).tolist())]


def _lengths(e: Eqn, shape: Sequence[int], entry: Any) -> list[tuple[tuple[Hashable, ...], int]]:
    """For each dimension of an operand, as it is here, the axes over which it is split and the length of a block."""
    here = dict(zip(e.params["mesh"][0], e.params["here"]))
    along = [() if kind is None else kind.names for kind in entry]
    return [(names, n // math.prod([here[name] for name in names])) for names, n in zip(along, shape)]


def part_shapes(e: Eqn, shape: Sequence[int], entry: Any) -> list[tuple[int, ...]]:
    """The shape of each process's part of an operand.

    Args:
      e: the map.
      shape: of the part that is here.
      entry: how the operand is split.
    """
    return [tuple([n * math.prod([len(at[name]) for name in names]) for names, n in _lengths(e, shape, entry)])
            for at in _places(e)]


def put_together(closed: ClosedJaxpr, e: Eqn, parts: Sequence[Sequence[np.ndarray]]) -> tuple[ClosedJaxpr, list[np.ndarray]]:
    """The program as one process with all devices would have it, and its arguments.

    Args:
      closed: a program that is a map over a mesh, and e that map.
      parts: the arguments of each process.
    """
    places, sizes = _places(e), dict(zip(*e.params["mesh"][:2]))
    entries = dict(zip(e.invars, e.params["in_specs"]))
    wholes = []
    for v, theirs in zip(closed.jaxpr.invars, zip(*parts)):
        lengths = _lengths(e, v.aval.shape, entries.get(v, (None,) * v.aval.ndim))
        whole = np.empty([n * math.prod([sizes[name] for name in names]) for names, n in lengths], v.aval.dtype)
        for at, part in zip(places, theirs):
            whole[np.ix_(*[_rows(names, n, at, sizes) for names, n in lengths])] = part
        wholes.append(whole)
    invars = [Var(shaped(x.shape, v.aval.dtype, v.aval.weak_type)) for v, x in zip(closed.jaxpr.invars, wholes)]
    now: dict[Any, Any] = dict(zip(closed.jaxpr.invars, invars))
    operands = [now.get(v, v) for v in e.invars]
    params = {**e.params, "here": ()}
    results: dict[Any, Var] = dict(zip(e.outvars, map(Var, e.primitive.infer(*[v.aval for v in operands], **params))))
    program = Jaxpr(closed.jaxpr.constvars, invars, [Eqn(e.primitive, operands, [*results.values()], params, e.source)],
                    [results[v] for v in closed.jaxpr.outvars])
    return ClosedJaxpr(program, closed.consts), wholes


def _rows(names: Sequence[Hashable], n: int, at: dict[Hashable, np.ndarray], sizes: dict[Hashable, int]) -> np.ndarray:
    """Where the part of a process, which has these places, stands along a dimension of blocks of length `n`."""
    blocks = np.arange(math.prod([sizes[name] for name in names])).reshape([sizes[name] for name in names])
    mine = blocks[np.ix_(*[at[name] for name in names])].reshape(-1)
    return (mine[:, None] * n + np.arange(n)).reshape(-1)
