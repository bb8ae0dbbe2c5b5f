"""`Blocks`: the blocks of one array, as parts of a padded copy."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapedArray, dtypes
from lamina_ir.typing import Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from ._specs import Blocked, BlockSpec, Element, Squeezed

__all__ = ["Blocks", "fill_value", "make_blocks"]


def fill_value(dtype: np.dtype) -> Any:
    """Return the value of memory that nothing was written to: NaN, the smallest integer, or False."""
    if dtypes.is_float(dtype) or dtypes.is_complex(dtype):
        return np.nan
    return False if dtypes.is_bool(dtype) else int(dtypes.iinfo(dtype).min)


class Blocks(NamedTuple):
    """The blocks of an array.

    Attributes:
      name: of the argument or result, for errors.
      aval: the type of the array.
      sizes: the length of a block along each axis, 1 if it is squeezed.
      steps: by how many elements the start moves if the index is one larger.
      padding: how many elements are added before and after each axis.
      taken: the axes that a block has.
      index_map: position in the grid -> an index for each axis; None: 0 for each.
    """

    name: str
    aval: ShapedArray
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    taken: tuple[int, ...]
    index_map: Callable[..., Any] | None

    def pad(self, x: Value) -> Value:
        """Return the array with elements added, so that blocks at its edges are complete."""
        x = lax.convert_element_type(x, self.aval.dtype)
        if not any(low or high for low, high in self.padding):
            return x
        fill = np.array(fill_value(self.aval.dtype)).astype(self.aval.dtype)
        return lax.pad(x, fill, [(low, high, 0) for low, high in self.padding])

    def crop(self, padded: Value) -> Value:
        """Return the array without the added elements."""
        if not any(low or high for low, high in self.padding):
            return padded
        return lax.slice(padded, [low for low, _ in self.padding],
                         [low + n for (low, _), n in zip(self.padding, self.aval.shape)])

    def make_empty(self) -> Value:
        """Return padded memory that nothing was written to."""
        shape = [low + n + high for (low, high), n in zip(self.padding, self.aval.shape)]
        return lax.full(tuple(shape), fill_value(self.aval.dtype), self.aval.dtype)

    @property
    def _is_whole(self) -> bool:
        """Whether each block is the whole array."""
        return self.index_map is None and self.sizes == self.aval.shape and len(self.taken) == len(self.sizes) and not any(
            low or high for low, high in self.padding)

    def find_start(self, position: Sequence[Value], scalars: Sequence[Tree] = ()) -> list[Value]:
        """Return the first element of the block of a position in the grid; `scalars` are further arguments of the map."""
        if self.index_map is None:
            return [0] * len(self.sizes)
        found = self.index_map(*position, *scalars)
        index = [*found] if isinstance(found, (tuple, list)) else [found]
        if len(index) != len(self.sizes):
            raise ValueError(f"pallas_call: the index_map of {self.name} must return {len(self.sizes)} indices, one for each "
                             f"axis of {self.aval.str_long()}; got {len(index)}")
        return [lax.mul(lax.convert_element_type(i, "int32"), np.int32(step)) for i, step in zip(index, self.steps)]

    def read(self, padded: Value, start: Sequence[Value]) -> Value:
        """Return a block."""
        if self._is_whole:
            return padded
        block = lax.dynamic_slice(padded, start, self.sizes)
        return lax.reshape(block, tuple([self.sizes[d] for d in self.taken]))

    def write(self, padded: Value, start: Sequence[Value], block: Value) -> Value:
        """Return the array with another value of a block."""
        if self._is_whole:
            return block
        return lax.dynamic_update_slice(padded, lax.reshape(block, self.sizes), start)


def make_blocks(name: str, x: Any, spec: BlockSpec | None) -> Blocks:
    """Return the blocks of an array.

    Args:
      name: of the argument or result, for errors.
      x: an array, or an object with shape and dtype.
      spec: its `BlockSpec`; None: one block.
    """
    aval = _type_of(name, x)
    if spec is None or spec.block_shape is None:
        n = aval.ndim
        return Blocks(name, aval, aval.shape, (0,) * n, ((0, 0),) * n, tuple(range(n)), None)
    entries = tuple(spec.block_shape)
    if len(entries) != aval.ndim:
        raise ValueError(f"pallas_call: the block_shape of {name} must have an entry for each axis of {aval.str_long()}; got "
                         f"{entries!r:.100}")
    sizes, steps, padding = zip(*[_divide_axis(name, entry, n) for entry, n in zip(entries, aval.shape)]) if entries else (
        (), (), ())
    taken = tuple([d for d, entry in enumerate(entries) if not (entry is None or isinstance(entry, Squeezed))])
    return Blocks(name, aval, sizes, steps, padding, taken, spec.index_map)


def _type_of(name: str, x: Any) -> ShapedArray:
    is_type = hasattr(x, "shape") and hasattr(x, "dtype") and not hasattr(x, "__array__")
    try:
        aval = ShapedArray(tuple(x.shape), dtypes.canonicalize(x.dtype)) if is_type else typeof(x)
    except TypeError as error:
        raise TypeError(f"pallas_call: {name}: {error}") from None
    if not (dtypes.is_number(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise TypeError(f"pallas_call: {name} must be numeric; got {aval.str_long()}. Pass the data of PRNG keys, "
                        "random.key_data(keys)")
    return aval


def _divide_axis(name: str, entry: Any, n: int) -> tuple[int, int, tuple[int, int]]:
    """Return (length of a block, step of its start, padding) of an axis of length `n`."""
    if entry is None or isinstance(entry, Squeezed):
        return 1, 1, (0, 0)
    size = entry.block_size if isinstance(entry, Blocked | Element) else entry
    if not hasattr(size, "__index__") or size.__index__() < 1:
        raise ValueError(f"pallas_call: an entry of the block_shape of {name} must be a positive int, None, Blocked, Element "
                         f"or Squeezed; got {entry!r:.60}")
    size = size.__index__()
    if isinstance(entry, Element):
        low, high = entry.padding
        return size, 1, (low, high + max(0, size - low - n - high))
    return size, size, (0, -n % size if n else size)
