"""Pickle support for programs, by `dumps` and `loads`; a pickle contains the same data as a file of `dumps`."""
from __future__ import annotations

import copyreg

from .._core.jaxpr import ClosedJaxpr, Jaxpr
from ..typing import Function

__all__: list[str] = []


def _load(data: bytes) -> ClosedJaxpr:
    from .binary import loads  # noqa: PLC0415 (takes milliseconds to load)
    return loads(data)


def _load_jaxpr(data: bytes, constants: int) -> Jaxpr:
    jaxpr = _load(data).jaxpr
    return Jaxpr(jaxpr.invars[:constants], jaxpr.invars[constants:], jaxpr.eqns, jaxpr.outvars)


def _save(program: ClosedJaxpr) -> tuple[Function, tuple[bytes]]:
    from .binary import dumps  # noqa: PLC0415 (takes milliseconds to load)
    return _load, (dumps(program),)


def _save_jaxpr(jaxpr: Jaxpr) -> tuple[Function, tuple[bytes, int]]:
    """Save a program with free constants as a program that takes them as first arguments."""
    from .binary import dumps  # noqa: PLC0415 (takes milliseconds to load)
    closed = ClosedJaxpr(Jaxpr([], [*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars))
    return _load_jaxpr, (dumps(closed), len(jaxpr.constvars))


copyreg.pickle(ClosedJaxpr, _save)
copyreg.pickle(Jaxpr, _save_jaxpr)
