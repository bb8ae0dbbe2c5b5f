"""Reshard arrays between any two shardings without the host: slice, copy and concatenate on the devices.

If a part of the new sharding is also a part of the old one, it is copied as it is. Other parts are concatenated, on a
device that holds them, from slices made on the source devices. Slicing, concatenating and reshaping are single-device
programs, which the disk cache compiles once for all devices of a kind. No collectives are used, so the two shardings
may differ in devices, their order and the number of parts. Between shardings of the same devices, one program for all
devices is faster, see `compiled_reshard`.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ShapedArray, Var, prims, shaped
from lamina_ir.typing import Device, Sharding, Value

from .. import _jaxlib
from .._backend import backends, client_state, deletion, fork_state
from .._compile import executable_cache, lowering
from . import compiled_reshard
from .._sharding import shardings
from .._typing import Array, Client

__all__ = ["reshape_on_device", "reshard", "unstack_rows"]

_MAX_UNSTACKED = 64  # elements that one program returns

Box = tuple[tuple[int, int], ...]  # (start, stop) of each dimension


# --- single-device programs -----------------------------------------------------------------------------------------
class _CompiledProgram:
    """A program compiled for one device."""

    __slots__ = ("loaded", "result_handlers")

    def __init__(self, closed: ClosedJaxpr, name: str, device: Device, committed: bool) -> None:
        lowered = lowering.lower(closed, name=name, platform=backends.lowering_platform(device))
        self.loaded = executable_cache.compile(lowered, (device,), executable_cache.CompileSettings(cheap=True))
        sharding = shardings.single_device_sharding(device)
        self.result_handlers = [_jaxlib.result_handler(a, sharding, committed) for a in lowered.out_avals]


def _run(closed: ClosedJaxpr, name: str, device: Device, args: Sequence[Value], committed: bool = True) -> list[Array]:
    """Run a program on one device, compiled on first use."""
    made = executable_cache.memoize(closed, ("on device", device, committed),
                                lambda: _CompiledProgram(closed, name, device, committed))
    return made.loaded.executable.execute_sharded(args).consume_with_handlers(made.result_handlers)


def _program(ins: Sequence[Var], eqns: Sequence[Eqn], outs: Sequence[Var]) -> ClosedJaxpr:
    return ClosedJaxpr(Jaxpr((), ins, eqns, outs))


# The programs are cached, so that `memoize` finds their executables again.
@lru_cache(maxsize=1024)
def _reshape_program(old: ShapedArray, new: ShapedArray) -> ClosedJaxpr:
    x, y = Var(old), Var(new)
    return _program([x], [Eqn(prims.reshape_p, (x,), (y,), {"dimensions": None, "new_sizes": new.shape})], [y])


@lru_cache(maxsize=1024)
def _slice_program(aval: ShapedArray, boxes: tuple[Box, ...]) -> ClosedJaxpr:
    """Return the program that slices several boxes out of an array."""
    x = Var(aval)
    outs = [Var(_box_aval(box, aval)) for box in boxes]
    return _program([x], [_slice_eqn(x, box, out) for box, out in zip(boxes, outs)], outs)


@lru_cache(maxsize=1024)
def _concatenate_program(avals: tuple[ShapedArray, ...], counts: tuple[int, ...]) -> ClosedJaxpr:
    """Return the program that concatenates a row-major grid of pieces, along the last dimension first."""
    ins = pieces = [Var(a) for a in avals]
    eqns = []
    for d in reversed(range(len(counts))):
        if counts[d] > 1:
            outs = []
            for i in range(0, len(pieces), counts[d]):
                group = pieces[i:i + counts[d]]
                out = Var(prims.concatenate_p.infer(*(v.aval for v in group), dimension=d))
                eqns.append(Eqn(prims.concatenate_p, tuple(group), (out,), {"dimension": d}))
                outs.append(out)
            pieces = outs
    return _program(ins, eqns, pieces)


@lru_cache(maxsize=256)
def _unstack_program(aval: ShapedArray) -> ClosedJaxpr:
    """Return the program that splits an array into the elements of its first dimension."""
    x, eqns, outs = Var(aval), [], []
    for i in range(aval.shape[0]):
        box = ((i, i + 1), *((0, n) for n in aval.shape[1:]))
        part, out = Var(_box_aval(box, aval)), Var(shaped(aval.shape[1:], aval.dtype, aval.weak_type))
        params = {"dimensions": None, "new_sizes": out.aval.shape}
        eqns += [_slice_eqn(x, box, part), Eqn(prims.reshape_p, (part,), (out,), params)]
        outs.append(out)
    return _program([x], eqns, outs)


def _slice_eqn(x: Var, box: Box, out: Var) -> Eqn:
    return Eqn(prims.slice_p, (x,), (out,), {"start_indices": tuple(a for a, _ in box),
                                             "limit_indices": tuple(b for _, b in box), "strides": None})


def _box_aval(box: Box, like: ShapedArray) -> ShapedArray:
    return shaped(tuple(b - a for a, b in box), like.dtype, like.weak_type)


def reshape_on_device(piece: Array, old: ShapedArray, new: ShapedArray, device: Device, committed: bool) -> Array:
    """Return a copy of an array of type `old` on `device`, reshaped to type `new`."""
    return _run(_reshape_program(old, new), "reshape", device, [piece], committed)[0]


def unstack_rows(x: Array) -> list[Array] | None:
    """Return the elements of the first dimension of a multi-device array, gathered on its first device, uncommitted.

    Returns None if there are too many for one program, or if `reshard` cannot gather them.
    """
    shape, first = x.aval.shape, x._sharding._internal_device_list[0]
    gathered = reshard(x, shardings.single_device_sharding(first)) if shape[0] <= _MAX_UNSTACKED else None
    return None if gathered is None else _run(_unstack_program(x.aval), "rows", first, [gathered], False)


# --- plans ----------------------------------------------------------------------------------------------------------
class _Part(NamedTuple):
    """One part of the new sharding: its `pieces`, concatenated on `device`. A single piece stays on its device."""

    device: Device
    pieces: tuple[tuple[int, int | None], ...]  # (index of the source shard, index of its slice; None: all of it)
    boxes: tuple[Box, ...]                      # of the pieces
    counts: tuple[int, ...]                     # number of pieces along each dimension


class _Plan(NamedTuple):
    shard_shape: tuple[int, ...]                # of the source shards
    slices: dict[int, tuple[Box, ...]]          # index of a source shard -> slices to make of it
    parts: list[_Part]
    part_numbers: list[int]                     # for each target device, its part
    devices: list[Device]                          # the target devices


def _boxes(sharding: Sharding, shape: tuple[int, ...]) -> list[tuple[Device, Box]]:
    """Return (device, its part of the array) for the devices of this process, in order."""
    local = set(sharding._internal_device_list.addressable_device_list)
    every = zip(shardings.sharding_devices(sharding), shardings.index_map(sharding, shape))
    return [(d, tuple(s.indices(n)[:2] for s, n in zip(index, shape))) for d, index in every if d in local]


def _make_plan(old: Sharding, new: Sharding, shape: tuple[int, ...]) -> _Plan | None:
    """Return how to move an array of this shape between shardings; None if another process holds a needed part."""
    sources: dict[Box, dict[Device, int]] = {}  # part -> device that holds it -> index of its shard
    for number, (d, box) in enumerate(_boxes(old, shape)):
        sources.setdefault(box, {}).setdefault(d, number)
    targets: dict[Box, list[Device]] = {}
    target_boxes = _boxes(new, shape)
    for d, box in target_boxes:
        targets.setdefault(box, []).append(d)
    shard_shape = old.shard_shape(shape)
    slices: dict[int, list[Box]] = {}
    parts = []
    for counter, (box, devices) in enumerate(targets.items()):
        overlaps = {}
        for source, shards in sources.items():
            common = tuple((max(a, c), min(b, e)) for (a, b), (c, e) in zip(box, source))
            if all(a < b for a, b in common):
                overlaps[common] = source, shards
        # Parts of one sharding are disjoint, so the overlaps cover the box if their sizes add up to its size.
        if sum(_volume(c) for c in overlaps) != _volume(box):
            return None
        # Concatenate on a target device that already holds a piece, if there is one.
        device = next((d for d in devices for _, shards in overlaps.values() if d in shards), devices[0])
        pieces: list[tuple[int, int | None]] = []
        ordered = tuple(sorted(overlaps))
        for common in ordered:
            source, shards = overlaps[common]
            # Otherwise take the copies in rotation, so that no single device sends everything.
            number = shards[device] if device in shards else list(shards.values())[counter % len(shards)]
            inside = tuple((a - c, b - c) for (a, b), (c, _) in zip(common, source))
            if all(b - a == n for (a, b), n in zip(inside, shard_shape)):
                pieces.append((number, None))
            else:
                boxes = slices.setdefault(number, [])
                if inside not in boxes:
                    boxes.append(inside)
                pieces.append((number, boxes.index(inside)))
        counts = tuple(len({c[d] for c in ordered}) for d in range(len(shape)))
        parts.append(_Part(device, tuple(pieces), ordered, counts))
    part_number = {box: i for i, box in enumerate(targets)}
    return _Plan(shard_shape, {number: tuple(b) for number, b in slices.items()}, parts,
                 [part_number[box] for _, box in target_boxes], [d for d, _ in target_boxes])


def _is_repartition(old: Sharding, new: Sharding, shape: tuple[int, ...]) -> bool:
    """Return whether the devices stay the same but parts must be sliced or concatenated.

    False in multi-process runs: there `x` may be this process's part of an array that all processes hold.
    """
    if {*old._internal_device_list} != {*new._internal_device_list}:
        return False
    if backends.process_count(_client(old).platform) > 1:
        return False
    return not {box for _, box in _boxes(new, shape)} <= {box for _, box in _boxes(old, shape)}


def _cached(key: tuple[Any, ...]) -> Any:
    """Call `key[0](*key[1:])`, a function of an old sharding, a new sharding and a shape, with a cache."""
    known = client_state.current.reshard_plans
    try:
        return known[key]
    except KeyError:
        if len(known) > 1024:
            known.clear()
        function, *args = key
        found = known[key] = function(*args)
        return found


def _volume(box: Box) -> int:
    return int(np.prod([b - a for a, b in box], dtype=np.int64))


# --- moving ---------------------------------------------------------------------------------------------------------
def reshard(x: Array, sharding: Sharding) -> Array | None:
    """Return a copy of an array with another sharding, committed.

    Returns None if the host has to move it: between platforms, if another process holds a needed part, if the array is
    empty, or in a forked child.
    """
    if fork_state.is_disabled:
        return None
    aval, old = x.aval, x._sharding
    if not aval.size or _client(old) is not _client(sharding) or not sharding.is_fully_addressable:
        return None
    if _cached((_is_repartition, old, sharding, aval.shape)):
        out = compiled_reshard.reshard_compiled(x, sharding)
        if out is not None:
            return out
    plan = _cached((_make_plan, old, sharding, aval.shape))
    if plan is None:
        return None
    shard_aval = shaped(plan.shard_shape, aval.dtype, aval.weak_type)
    shards = deletion.get_shards(x)
    slices = {number: _run(_slice_program(shard_aval, boxes), "cut", shards[number]._sharding._device, [shards[number]])
              for number, boxes in plan.slices.items()}
    pieces = [[shards[number] if which is None else slices[number][which] for number, which in part.pieces]
              for part in plan.parts]
    several = [(part, found) for part, found in zip(plan.parts, pieces) if len(found) > 1]
    copied = iter(_copy_to([(p, part.device) for part, found in several for p in found]))
    concatenated = {}
    for part, found in several:
        program = _concatenate_program(tuple([_box_aval(box, aval) for box in part.boxes]), part.counts)
        concatenated[id(part)] = _run(program, "join", part.device, [next(copied) for _ in found])[0]
    outs = []  # (array, target device, whether it must be copied because it is a shard of x itself)
    for i, d in zip(plan.part_numbers, plan.devices):
        part = plan.parts[i]
        outs.append((concatenated[id(part)], d, False) if len(part.pieces) > 1 else
                    (pieces[i][0], d, part.pieces[0][1] is None))
    placed = _copy_to([(p, d) for p, d, _ in outs], [copy for *_, copy in outs])
    return _jaxlib.result_handler(aval, sharding, True)(placed)


def _copy_to(pairs: Sequence[tuple[Array, Device]], copies: Sequence[bool] = ()) -> list[Array]:
    """Return the array of each (array, device) pair on that device.

    An array that is already there is returned itself, unless its entry of `copies` is True.
    """
    if not pairs:
        return []
    return _jaxlib.copy_to_device_list([p for p, _ in pairs], [shardings.device_list((d,)) for _, d in pairs],
                                       [shardings.single_device_sharding(d) for _, d in pairs], copies or False)


def _client(sharding: Sharding) -> Client:
    return sharding._internal_device_list[0].client
