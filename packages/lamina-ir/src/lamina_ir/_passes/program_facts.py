"""`ProgramFacts`: the properties of a program that decide how it is placed, lowered and run.

They are found in one walk over the program, when it is first compiled. A nested program that many equations share is
walked once; its facts are memoized on it, and combined into those of the programs around it.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from .. import prims
from .._core.arg_checks import CLOSED_JAXPR, raise_for_bad_args
from .._core.jaxpr import ClosedJaxpr, Eqn, subprograms
from ..typing import Device

__all__ = ["ProgramFacts", "collect_facts"]

_MAPS = frozenset((prims.xla_pmap_p, prims.xmap_p, prims.shard_map_p))
_HOST = frozenset((prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p))
_REQUESTING = {prims.xmap_p: "xmap", prims.xla_call_p: "jit"}  # calls with a param `backend`
_NO_REQUESTS: Mapping[str, str] = MappingProxyType({})


class ProgramFacts(NamedTuple):
    """Properties of a program and of the programs nested in it.

    Attributes:
      is_plain: whether all other attributes have their defaults. Such a program runs on any device, as it is.
      has_keys: whether a value is a PRNG key, or of dtype float0: devices have neither (`lower_keys`).
      has_maps: whether it contains a `pmap`, `xmap` or `shard_map`.
      has_xmap, has_shard_map: whether it contains one of these.
      has_collectives: whether a primitive with operands refers to a mapped axis, so that its members wait for each other.
      has_constraints: whether it contains a sharding constraint.
      has_host_callbacks: whether it contains a callback of any kind.
      has_ordered_effects: whether it has effects that must keep their order.
      map_sizes: sizes of the nested maps that take the most devices, outermost first.
      map_devices: the devices that the first `pmap` with `devices=` names; None if there is none.
      process_axis_sizes: (global size, local size) of the mapped axis of the first map over several processes; for a map
        over a mesh (number of its devices, number of those in this process). None if there is none.
      backend_requests: platform -> description of a nested xmap or jit with `backend=`.

    >>> ProgramFacts().is_plain
    True
    """

    is_plain: bool = True
    has_keys: bool = False
    has_maps: bool = False
    has_xmap: bool = False
    has_shard_map: bool = False
    has_collectives: bool = False
    has_constraints: bool = False
    has_host_callbacks: bool = False
    has_ordered_effects: bool = False
    map_sizes: tuple[int, ...] = ()
    map_devices: tuple[Device, ...] | None = None
    process_axis_sizes: tuple[int, int] | None = None
    backend_requests: Mapping[str, str] = _NO_REQUESTS


_PLAIN = ProgramFacts()
_FLAGS = tuple([name for name in ProgramFacts._fields if name.startswith("has_")])


def collect_facts(program: ClosedJaxpr) -> ProgramFacts:
    """Return the facts about a program, from its memo if they are there.

    Args:
      program: any program.
    Returns:
      The `ProgramFacts`.

    >>> from lamina_ir import parse
    >>> collect_facts(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")).is_plain
    True
    >>> collect_facts(parse("{ lambda ; a:key<fry>[]. let in (a,) }")).has_keys
    True
    """
    try:
        found = program._facts
    except AttributeError:
        raise_for_bad_args("collect_facts", ("program", CLOSED_JAXPR, program))
        raise
    return _walk(program) if found is None else found


def _walk(program: ClosedJaxpr) -> ProgramFacts:
    """Collect the facts of the nested programs before those of the program around them.

    Not recursive: programs can be nested deeper than the stack allows.
    """
    # A program stays on the stack until its nested programs have their facts; it is then visited again.
    todo = [program]
    while todo:
        current = todo[-1]
        if current._facts is not None:  # it was waited for twice
            todo.pop()
            continue
        special = _special_equations(current)
        if special:
            waiting = [s for e in special if e.primitive.subprograms for s in subprograms(e) if s._facts is None]
            if waiting:
                todo += waiting
                continue
        todo.pop()
        current._facts = _combine(current, special) if special or _takes_keys(current) else _PLAIN
    return program._facts


def _special_equations(program: ClosedJaxpr) -> list[Eqn]:
    """Return the equations that can make a program other than plain."""
    found = []
    for e in program.jaxpr.eqns:
        p = e.primitive
        if p.subprograms or p.axis_params or p.effectful or p in _HOST or p is prims.sharding_constraint_p:
            found.append(e)
            continue
        for v in e.outvars:
            # Cheap, because this runs for every result of a program. Only keys and float0 are structured dtypes.
            if v.aval.dtype.names is not None:
                found.append(e)
                break
        else:
            if p.family == "random_keys":
                found.append(e)
    return found


def _takes_keys(program: ClosedJaxpr) -> bool:
    jaxpr = program.jaxpr
    for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars):
        if v.aval.dtype.names is not None:
            return True
    return False


def _combine(program: ClosedJaxpr, special: list[Eqn]) -> ProgramFacts:
    """Return the facts of a program whose nested programs have theirs."""
    # Facts of nested programs hold for this one too, so flags are united, and map sizes combined.
    flags = {"has_keys"} if _takes_keys(program) else set[str]()
    sizes, devices, requests = None, None, dict[str, str]()
    widest: tuple[int, ...] = ()
    for e in special:  # of the first maps and requests, in the order of the text
        p = e.primitive
        _add_own_flags(flags, e)
        if p in _REQUESTING and e.params["backend"]:
            requests[e.params["backend"]] = f"{_REQUESTING[p]} of `{e.params['name']}`"
        if p in _MAPS:
            sizes = sizes or _process_axis_sizes(e)
        if p is prims.xla_pmap_p:
            devices = devices or e.params["devices"]
        for s in subprograms(e) if p.subprograms else ():
            facts: ProgramFacts = s._facts
            map_sizes = _add_map(e, facts.map_sizes)
            # Sizes of nested maps multiply. Maps in sequence share devices, so the one that needs most decides.
            if math.prod(map_sizes) > math.prod(widest):
                widest = map_sizes
            if not facts.is_plain:
                flags.update([name for name in _FLAGS if getattr(facts, name)])
                sizes, devices = sizes or facts.process_axis_sizes, devices or facts.map_devices
                requests.update(facts.backend_requests)
    if not program.jaxpr.effectful:
        flags.discard("has_ordered_effects")
    if not flags and not requests:
        return _PLAIN
    return ProgramFacts(is_plain=False, **dict.fromkeys(flags, True), map_sizes=widest, map_devices=devices or None,
                        process_axis_sizes=sizes, backend_requests=requests or _NO_REQUESTS)


def _add_own_flags(flags: set[str], e: Eqn) -> None:
    """Add the names of the attributes that an equation makes true."""
    p = e.primitive
    if p in _MAPS:
        flags.add("has_maps")
    if p is prims.xmap_p:
        flags.add("has_xmap")
    elif p is prims.shard_map_p:
        flags.add("has_shard_map")
    elif p is prims.sharding_constraint_p:
        flags.add("has_constraints")
    if p in _HOST:
        flags.add("has_host_callbacks")
    if p.family == "callbacks" and e.params.get("ordered"):
        flags.add("has_ordered_effects")
    # `axis_index` has no operands: it reads the position of the member and waits for no other.
    if p.axis_params and e.invars:
        flags.add("has_collectives")
    if p.family == "random_keys":
        flags.add("has_keys")
    for v in e.outvars:
        if v.aval.dtype.names is not None:
            flags.add("has_keys")


def _add_map(e: Eqn, inside: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of the nested maps of an equation, given those in one of its programs."""
    if e.primitive is prims.xla_pmap_p:
        return e.params["axis_size"], *inside
    if e.primitive is prims.shard_map_p:  # maps inside of it take axes of the same mesh
        return e.params["here"] or e.params["mesh"][1]
    return inside


def _process_axis_sizes(e: Eqn) -> tuple[int, int] | None:
    """Return (global size, local size) of a map over several processes; None for other maps."""
    if e.primitive is not prims.xla_pmap_p:
        here = e.params["here"]
        return (math.prod(e.params["mesh"][1]), math.prod(here)) if here else None
    size = e.params["axis_size"]
    every = int(e.params["global_axis_size"] or size)
    return None if every == size else (every, size)
