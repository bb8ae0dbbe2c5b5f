"""Show an array as HTML: its type and placement, and a picture of at most 32 by 32 elements.

Only these elements are read: from the memory of CPU devices without a copy, from other devices by a strided slice on
the device. Of an array over several processes, each process shows its own part.
"""
from __future__ import annotations

import numpy as np
from lamina_ir import config
from lamina_ir.extend import html
from lamina_tracing import ensure_compile_time_eval, lax

from .._jaxlib import ArrayImpl
from .._sharding import shardings
from .._sharding.sharding_html import placement_text
from . import arrays

__all__ = ["array_html"]

_FEW = 64  # elements up to which the values are shown as text
_SMALL = 1 << 16  # bytes up to which an array is read as a whole


def array_html(x: ArrayImpl) -> str:
    """Return the HTML of an array; the values are replaced by a note if they cannot be read."""
    aval = x.aval
    if aval is None:
        return html.fact_box("Array", [("values", "untyped buffer")])
    facts = [("bytes", f"{aval.size * aval.dtype.itemsize:,}"), ("placement", placement_text(x._sharding))]
    if aval.weak_type:
        facts.append(("weak type", "yes"))
    if x.is_deleted():
        return html.fact_box(_title(x), [*facts, ("values", "deleted")])
    try:
        return html.fact_box(_title(x), facts, _values_html(x))
    except Exception as error:  # such as a failed program or a refused transfer: a notebook shows what is known
        note = " ".join(f"not shown: {type(error).__name__}: {error}".split())
        return html.fact_box(_title(x), [*facts, ("values", note[:300])])


def _title(x: ArrayImpl) -> str:
    return f"Array {x.aval.dtype.name}[{', '.join(map(str, x.aval.shape))}]"


def _values_html(x: ArrayImpl) -> str:
    aval = x.aval
    if not aval.size:
        return html.text_block("empty")
    picture = "" if aval.size == 1 else html.heat_map(*_sample(x))
    text = ""
    if aval.size <= _FEW and _is_readable(x):
        text = html.text_block(np.array2string(arrays.host_value(x), separator=", "))
    return picture + text


def _sample(x: ArrayImpl) -> tuple[np.ndarray, tuple[int, ...], np.ndarray]:
    """Return (sampled elements, shape of the array, which of the elements this process has); the others are 0."""
    shape = x.aval.shape
    slices = html.sample_slices(shape)
    if x._npy_value is not None or (x.aval.size * x.aval.dtype.itemsize <= _SMALL and _is_readable(x)):
        values = arrays.host_value(x)[slices]
        return values, shape, np.ones(values.shape, bool)
    counts = [len(range(*s.indices(n))) for s, n in zip(slices, shape)]
    values, known = np.zeros(counts, x.aval.dtype), np.zeros(counts, bool)
    for number, index in enumerate(_local_parts(x)):
        found = [html.sampled_positions(slice(*part.indices(n)[:2]), s) for part, n, s in zip(index, shape, slices)]
        where = tuple([at[0] for at in found if at is not None])
        if len(where) == len(found) and not known[where].all():  # else no sampled element, or a replica of a part
            values[where] = _read_slices(x, number, tuple([at[1] for at in found if at is not None]))
            known[where] = True
    return values, shape, known


def _is_readable(x: ArrayImpl) -> bool:
    return x._sharding.is_fully_addressable or shardings.is_replicated(x._sharding)


def _local_parts(x: ArrayImpl) -> list[tuple[slice, ...]]:
    """Return the part of the array on each device of this process."""
    if x._sharding.num_devices == 1:
        return [tuple([slice(0, n) for n in x.aval.shape])]
    return [shard.index for shard in arrays.addressable_shards(x)]


def _read_slices(x: ArrayImpl, number: int, slices: tuple[slice, ...]) -> np.ndarray:
    """Return elements of one shard; only these are copied to the host."""
    piece = arrays.local_shards(x)[number] if x._sharding.num_devices > 1 else x
    if x._sharding.on_host and x.aval.dtype.isbuiltin == 1:
        return np.asarray(memoryview(piece))[slices]
    shard = arrays.get_shard(x, number)
    # A display inside a traced function must not add equations to it, and the reader wants to see a NaN.
    with ensure_compile_time_eval(), config.debug_nans(False), config.debug_infs(False):
        sampled = lax.slice(shard, *[[getattr(s, end) for s in slices] for end in ("start", "stop", "step")])
        return arrays.host_value(sampled)
