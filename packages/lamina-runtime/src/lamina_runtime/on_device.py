"""Arrays moved between any two placements without the host: cut, sent and joined on the devices.

A part of the new placement that is a part of the old one is sent as it is. Any other is joined, on a device that wants it,
from cuts made where its pieces lie. Cutting, joining and reshaping are programs of one device, compiled once for all devices
of a kind (the disk cache gives the others theirs). No collective is needed, so any two placements will do: other devices, other
orders, other numbers of parts. Between placements of the same devices one program for all of them is better (`exchanges`).
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ShapedArray, Var, prims, shaped
from lamina_lowering import lower

from . import _jaxlib, backends, compiling, exchanges, owner, shardings

__all__ = ["moved", "reshaped", "rows_of"]

_MOST_ROWS = 64

Box = tuple[tuple[int, int], ...]  # (start, stop) of each dimension


# --- programs of one device -----------------------------------------------------------------------------------------
class _Ready:
    """A program compiled for one device."""

    __slots__ = ("loaded", "handlers")

    def __init__(self, closed: ClosedJaxpr, name: str, device: Any, committed: bool) -> None:
        low = lower(closed, name=name, platform=backends.lowering_platform(device))
        self.loaded = compiling.compile(low, (device,), compiling.Options(cheap=True))
        where = shardings.single(device)
        self.handlers = [_jaxlib.result_handler(a, where, committed) for a in low.out_avals]


def _run(closed: ClosedJaxpr, name: str, device: Any, args: Sequence[Any], committed: bool = True) -> list[Any]:
    made = compiling.remembered(closed, ("on device", device, committed), lambda: _Ready(closed, name, device, committed))
    return made.loaded.executable.execute_sharded(args).consume_with_handlers(made.handlers)


def _program(ins: Sequence[Var], eqns: Sequence[Eqn], outs: Sequence[Var]) -> ClosedJaxpr:
    return ClosedJaxpr(Jaxpr((), ins, eqns, outs))


@lru_cache(maxsize=1024)
def _reshape(old: ShapedArray, new: ShapedArray) -> ClosedJaxpr:
    x, y = Var(old), Var(new)
    return _program([x], [Eqn(prims.reshape_p, (x,), (y,), {"dimensions": None, "new_sizes": new.shape})], [y])


@lru_cache(maxsize=1024)
def _cut(aval: ShapedArray, boxes: tuple[Box, ...]) -> ClosedJaxpr:
    x = Var(aval)
    outs = [Var(_sized(box, aval)) for box in boxes]
    return _program([x], [_slice(x, box, out) for box, out in zip(boxes, outs)], outs)


@lru_cache(maxsize=1024)
def _join(avals: tuple[ShapedArray, ...], counts: tuple[int, ...]) -> ClosedJaxpr:
    """A grid of pieces, row by row, put together: the last dimension first."""
    ins = row = [Var(a) for a in avals]
    eqns = []
    for d in reversed(range(len(counts))):
        if counts[d] > 1:
            joined = []
            for i in range(0, len(row), counts[d]):
                group = row[i:i + counts[d]]
                out = Var(prims.concatenate_p.infer(*(v.aval for v in group), dimension=d))
                eqns.append(Eqn(prims.concatenate_p, tuple(group), (out,), {"dimension": d}))
                joined.append(out)
            row = joined
    return _program(ins, eqns, row)


@lru_cache(maxsize=256)
def _rows(aval: ShapedArray) -> ClosedJaxpr:
    x, eqns, outs = Var(aval), [], []
    for i in range(aval.shape[0]):
        box = ((i, i + 1), *((0, n) for n in aval.shape[1:]))
        cut, out = Var(_sized(box, aval)), Var(shaped(aval.shape[1:], aval.dtype, aval.weak_type))
        eqns += [_slice(x, box, cut), Eqn(prims.reshape_p, (cut,), (out,), {"dimensions": None, "new_sizes": out.aval.shape})]
        outs.append(out)
    return _program([x], eqns, outs)


def _slice(x: Var, box: Box, out: Var) -> Eqn:
    return Eqn(prims.slice_p, (x,), (out,), {"start_indices": tuple(a for a, _ in box),
                                             "limit_indices": tuple(b for _, b in box), "strides": None})


def _sized(box: Box, like: ShapedArray) -> ShapedArray:
    return shaped(tuple(b - a for a, b in box), like.dtype, like.weak_type)


def reshaped(piece: Any, old: ShapedArray, new: ShapedArray, device: Any, committed: bool) -> Any:
    """What lies on `device` as an `old`, copied there as a `new`."""
    return _run(_reshape(old, new), "reshape", device, [piece], committed)[0]


def rows_of(x: Any) -> list[Any] | None:
    """The rows of an array over several devices, gathered on the first of them and free to move. None where they are too many
    for one program, or `moved` cannot."""
    shape, first = x.aval.shape, x._sharding._internal_device_list[0]
    whole = moved(x, shardings.single(first)) if shape[0] <= _MOST_ROWS else None
    return None if whole is None else _run(_rows(x.aval), "rows", first, [whole], False)


# --- plans ----------------------------------------------------------------------------------------------------------
class _Part(NamedTuple):
    """One part of the new placement: joined at `home` from `pieces`, or the only piece itself, where it is."""

    home: Any
    pieces: tuple[tuple[int, int | None], ...]  # (place in the old list, which of its cuts; None: all of it)
    boxes: tuple[Box, ...]
    counts: tuple[int, ...]                     # of pieces, per dimension


class _Plan(NamedTuple):
    local: tuple[int, ...]                      # shape of each old part
    cuts: dict[int, tuple[Box, ...]]            # place in the old list -> what is cut out there
    parts: list[_Part]
    wanted: list[int]                           # for each new device, which part
    where: list[Any]                            # the new devices


def _boxes(sharding: Any, shape: tuple[int, ...]) -> list[tuple[Any, Box]]:
    """(device, what it holds) for the devices of this process, in order."""
    here = set(sharding._internal_device_list.addressable_device_list)
    return [(d, tuple(s.indices(n)[:2] for s, n in zip(index, shape)))
            for d, index in zip(shardings.sharding_devices(sharding), shardings.index_map(sharding, shape)) if d in here]


def _plan(old: Any, new: Any, shape: tuple[int, ...]) -> _Plan | None:
    """How an array of this shape gets from one placement to another; None where other processes hold what is needed."""
    held = _boxes(old, shape)
    local = old.shard_shape(shape)
    holders: dict[Box, dict[Any, int]] = {}
    for at, (d, box) in enumerate(held):
        holders.setdefault(box, {}).setdefault(d, at)
    targets: dict[Box, list[Any]] = {}
    placed = _boxes(new, shape)
    for d, box in placed:
        targets.setdefault(box, []).append(d)
    cuts: dict[int, list[Box]] = {}
    parts = []
    for turn, (box, devices) in enumerate(targets.items()):
        overlaps = {}
        for have, by in holders.items():
            common = tuple((max(a, c), min(b, e)) for (a, b), (c, e) in zip(box, have))
            if all(a < b for a, b in common):
                overlaps[common] = have, by
        if sum(_volume(c) for c in overlaps) != _volume(box):
            return None
        near = next((d for d in devices for _, by in overlaps.values() if d in by), devices[0])
        pieces: list[tuple[int, int | None]] = []
        ordered = tuple(sorted(overlaps))
        for common in ordered:
            have, by = overlaps[common]
            at = by[near] if near in by else list(by.values())[turn % len(by)]
            inside = tuple((a - c, b - c) for (a, b), (c, _) in zip(common, have))
            if all(b - a == n for (a, b), n in zip(inside, local)):
                pieces.append((at, None))
            else:
                wanted = cuts.setdefault(at, [])
                if inside not in wanted:
                    wanted.append(inside)
                pieces.append((at, wanted.index(inside)))
        counts = tuple(len({c[d] for c in ordered}) for d in range(len(shape)))
        parts.append(_Part(near, tuple(pieces), ordered, counts))
    number = {box: i for i, box in enumerate(targets)}
    return _Plan(local, {at: tuple(b) for at, b in cuts.items()}, parts, [number[box] for _, box in placed],
                 [d for d, _ in placed])


def _recut(old: Any, new: Any, shape: tuple[int, ...]) -> bool:
    """Whether the same devices will hold other parts than they do: something is cut or joined. Not where there are other
    processes, as this one may see a part of an array that all of them hold."""
    if {*old._internal_device_list} != {*new._internal_device_list} or backends.process_count(_client(old).platform) > 1:
        return False
    return not {box for _, box in _boxes(new, shape)} <= {box for _, box in _boxes(old, shape)}


def _known(question: tuple[Any, ...]) -> Any:
    """What a function says of an old placement, a new one and a shape."""
    ways = owner.current.ways
    try:
        return ways[question]
    except KeyError:
        if len(ways) > 1024:
            ways.clear()
        ask, *about = question
        found = ways[question] = ask(*about)
        return found


def _volume(box: Box) -> int:
    return int(np.prod([b - a for a, b in box], dtype=np.int64))


# --- moving ---------------------------------------------------------------------------------------------------------
def moved(x: Any, sharding: Any) -> Any:
    """An array laid out anew, in memory of its own and committed. None where the host has to do it: other platforms, parts that
    other processes hold, and no data at all."""
    aval, old = x.aval, x._sharding
    if not aval.size or _client(old) is not _client(sharding) or not sharding.is_fully_addressable:
        return None
    if _known((_recut, old, sharding, aval.shape)):
        out = exchanges.exchanged(x, sharding)
        if out is not None:
            return out
    plan = _known((_plan, old, sharding, aval.shape))
    if plan is None:
        return None
    local = shaped(plan.local, aval.dtype, aval.weak_type)
    held = x._arrays
    fresh = {at: _run(_cut(local, boxes), "cut", held[at]._sharding._device, [held[at]]) for at, boxes in plan.cuts.items()}
    pieces = [[held[at] if which is None else fresh[at][which] for at, which in part.pieces] for part in plan.parts]
    joined = [(part, found) for part, found in zip(plan.parts, pieces) if len(found) > 1]
    sent = iter(_sent([(p, part.home) for part, found in joined for p in found]))
    ready = {id(part): _run(_join(tuple([_sized(box, aval) for box in part.boxes]), part.counts), "join", part.home,
                            [next(sent) for _ in found])[0] for part, found in joined}
    out = [(ready[id(part)], d, False) if len(part.pieces) > 1 else (pieces[i][0], d, part.pieces[0][1] is None)
           for i, part, d in ((i, plan.parts[i], d) for i, d in zip(plan.wanted, plan.where))]
    return _jaxlib.result_handler(aval, sharding, True)(_sent([(p, d) for p, d, _ in out], [own for *_, own in out]))


def _sent(pairs: Sequence[tuple[Any, Any]], copies: Sequence[bool] = ()) -> list[Any]:
    """Arrays on the devices beside them; where one is there already it is taken as it is, or copied if `copies` says so."""
    if not pairs:
        return []
    return _jaxlib.copy_to_device_list([p for p, _ in pairs], [shardings.device_list((d,)) for _, d in pairs],
                                       [shardings.single(d) for _, d in pairs], copies or False)


def _client(sharding: Any) -> Any:
    return sharding._internal_device_list[0].client
