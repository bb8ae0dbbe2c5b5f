"""Pickles of programs, through `dumps` and `loads`: what a file of `dumps` does not hold, a pickle does not."""
from __future__ import annotations

import copyreg
from typing import Any

from .program import ClosedJaxpr, Jaxpr

__all__: list[str] = []


def _load(data: bytes) -> ClosedJaxpr:
    from .serialise import loads  # takes milliseconds to load
    return loads(data)


def _load_open(data: bytes, constants: int) -> Jaxpr:
    jaxpr = _load(data).jaxpr
    return Jaxpr(jaxpr.invars[:constants], jaxpr.invars[constants:], jaxpr.eqns, jaxpr.outvars)


def _save(program: ClosedJaxpr) -> Any:
    from .serialise import dumps  # takes milliseconds to load
    return _load, (dumps(program),)


def _save_open(jaxpr: Jaxpr) -> Any:
    """A program with free constants, saved as one that takes them first."""
    from .serialise import dumps  # takes milliseconds to load
    closed = ClosedJaxpr(Jaxpr([], [*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars))
    return _load_open, (dumps(closed), len(jaxpr.constvars))


copyreg.pickle(ClosedJaxpr, _save)
copyreg.pickle(Jaxpr, _save_open)
