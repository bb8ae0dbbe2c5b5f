"""`PartitionSpec`: the mesh axes over which each dimension of an array is split; conversion to and from tiles."""
from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import ShapedArray
from lamina_ir.extend import Tiles, make_tiles
from lamina_ir.typing import CacheKey, Device

from .abstract_mesh import AxisType
from .mesh import Mesh, mesh_in_scope

__all__ = ["PartitionSpec", "UNCONSTRAINED", "check_explicit_spec", "explicit_spec", "format_placement", "parse_mesh",
           "partition_spec_from_tiles", "spec_entries", "spec_from_entries", "tiles_from_partition_spec"]


class _Unconstrained:
    @override
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    @override
    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec(tuple):
    """A tuple that gives, for each dimension of an array, the mesh axes over which it is split.

    Args:
      entries: for each dimension the name of an axis, a tuple of names (the first varies slowest), None if it is not split,
        or `PartitionSpec.UNCONSTRAINED` if a constraint leaves it to the compiler. Dimensions without an entry are not split.
    Raises:
      TypeError: an entry is not a valid name.

    >>> P = PartitionSpec
    >>> P("x", None, ("y", "z"))
    PartitionSpec('x', None, ('y', 'z'))
    >>> P("x") == P("x"), len(P("x", "y")), P("x", "y")[1]
    (True, 2, 'y')
    """

    UNCONSTRAINED = UNCONSTRAINED

    def __new__(cls, *entries: Hashable | list[Hashable]) -> PartitionSpec:
        made = super().__new__(cls, [tuple(e) if isinstance(e, list) else e for e in entries])
        try:
            hash(made)
        except TypeError:
            raise TypeError("PartitionSpec: entries: expected names of axes, tuples of names, None or UNCONSTRAINED; got "
                            f"{tuple.__repr__(made):.80}") from None
        return made

    @override
    def __repr__(self) -> str:
        return f"PartitionSpec{tuple.__repr__(self)}"

    @override
    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return PartitionSpec, tuple(self)

    def check_explicit(self, call: str) -> None:
        """Raise ValueError unless this spec names only `Explicit` axes of the mesh in scope."""
        mesh = mesh_in_scope()
        if mesh is None:
            raise ValueError(f"{call}: out_sharding: {self!r} names axes of a mesh, and no mesh is in scope. Use set_mesh, or "
                             "give NamedSharding(mesh, spec)")
        check_explicit_spec(mesh, self, f"{call}: out_sharding")

    def constraint(self, aval: ShapedArray) -> tuple[str, tuple[int, ...]]:
        """Return the params of `with_sharding_constraint` for this spec, over the mesh in scope."""
        mesh = mesh_in_scope()
        if mesh is None:
            raise ValueError(f"with_sharding_constraint: {self!r} names axes of a mesh, and no mesh is in scope. Write it in a "
                             "block `with mesh:`, or give NamedSharding(mesh, spec)")
        tiles, free = tiles_from_partition_spec(mesh, self, aval.ndim, "with_sharding_constraint")
        return format_placement(tiles, mesh.flat_devices, mesh), free


def spec_entries(spec: PartitionSpec) -> tuple[tuple[Hashable, ...], ...]:
    """Return the names of each entry as a tuple; () for None and UNCONSTRAINED.

    Args:
      spec: the spec.
    Returns:
      A tuple with a tuple of names for each entry.

    >>> spec_entries(PartitionSpec("x", None, ("y", "z")))
    (('x',), (), ('y', 'z'))
    """
    return tuple([() if e is None or e is UNCONSTRAINED else e if isinstance(e, tuple) else (e,) for e in spec])


def spec_from_entries(entries: Sequence[tuple[Hashable, ...]]) -> PartitionSpec:
    """Return the spec with these names in each entry.

    Args:
      entries: for each dimension a tuple of names.
    Returns:
      A spec with as many entries.

    >>> spec_from_entries([("x",), (), ("y", "z")])
    PartitionSpec('x', None, ('y', 'z'))
    """
    return PartitionSpec(*[None if not e else e[0] if len(e) == 1 else e for e in entries])


def explicit_spec(mesh: Mesh, spec: PartitionSpec, ndim: int) -> PartitionSpec:
    """Return a spec restricted to the `Explicit` axes of a mesh, with an entry for each of `ndim` dimensions.

    Args:
      mesh: the mesh.
      spec: a spec over it.
      ndim: the number of dimensions.
    Returns:
      A spec.

    >>> from lamina_parallel.testing import fake_devices
    >>> from lamina_parallel import AxisType
    >>> mesh = Mesh(fake_devices(4), "x", AxisType.Explicit)
    >>> explicit_spec(mesh, PartitionSpec("x"), 2)
    PartitionSpec('x', None)
    """
    found = [tuple([name for name in names if name in mesh.explicit_axes]) for names in spec_entries(spec)]
    return spec_from_entries(found + [()] * (ndim - len(found)))


def check_explicit_spec(mesh: Mesh, spec: PartitionSpec, call: str) -> None:
    """Check that the axes of a spec have the type `Explicit`.

    Args:
      mesh: the mesh.
      spec: a spec over it.
      call: the call and the argument, for messages.
    Raises:
      ValueError: an axis has another type.

    >>> from lamina_parallel.testing import fake_devices
    >>> from lamina_parallel import AxisType
    >>> check_explicit_spec(Mesh(fake_devices(4), "x", AxisType.Explicit), PartitionSpec("x"), "zeros")
    """
    for name in (name for names in check_spec(mesh, spec, call) for name in names or ()):
        if name not in mesh.explicit_axes:
            kind = mesh.axis_types[mesh.axis_names.index(name)]
            raise ValueError(f"{call}: expected None or a spec of Explicit axes; got {spec!r}, where {name!r} has the type "
                             f"AxisType.{kind.name}. Use lax.with_sharding_constraint on the result")


def check_spec(mesh: Mesh, spec: Any, call: str) -> list[tuple[Hashable, ...] | None]:
    """Check a spec against a mesh and return the names of each entry, None for an unconstrained one."""
    if not isinstance(spec, PartitionSpec):
        raise TypeError(f"{call}: spec: expected a PartitionSpec, as PartitionSpec('x', None); got {type(spec).__name__}: "
                        f"{spec!r:.60}")
    dims: list[tuple[Hashable, ...] | None] = []
    used: set[Hashable] = set()
    for entry in spec:
        if entry is UNCONSTRAINED:
            dims.append(None)
            continue
        names = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
        for name in names:
            try:
                known = name in mesh.shape
            except TypeError:
                known = False
            if not known:
                raise ValueError(f"{call}: {spec!r} names the axis {name!r}, which {mesh} does not have. Its axes are "
                                 f"{', '.join(map(repr, mesh.axis_names))}")
            if name in used:
                raise ValueError(f"{call}: {spec!r} names the axis {name!r} of {mesh} twice; an axis splits one dimension")
            used.add(name)
        dims.append(names)
    return dims


def tiles_from_partition_spec(mesh: Mesh, spec: PartitionSpec, ndim: int,
                              call: str = "NamedSharding") -> tuple[Tiles, tuple[int, ...]]:
    """Convert a partition spec to tiles.

    Args:
      mesh: a mesh.
      spec: names of its axes for the dimensions of the array.
      ndim: the number of dimensions.
      call: the calling function, for messages.
    Returns:
      The tiles, over the devices in row-major order, and the dimensions that the spec leaves to the compiler.
    Raises:
      TypeError: `spec` is not a PartitionSpec.
      ValueError: the spec names an unknown axis, an axis twice, or more dimensions than the array has.

    >>> from lamina_parallel.testing import fake_devices
    >>> tiles_from_partition_spec(Mesh(fake_devices(4), "x"), PartitionSpec(None, "x"), 2)
    (Tiles(counts=(1, 4), copies=1, order=()), ())
    """
    dims = check_spec(mesh, spec, call)
    if len(dims) > ndim:
        raise ValueError(f"{call}: {spec!r} has {len(dims)} entries, one for each dimension; the array has {ndim} "
                         f"dimension{'s' * (ndim != 1)}. Leave out entries, or reshape the array")
    free = tuple([d for d, names in enumerate(dims) if names is None])
    return _tiles(mesh, tuple([names or () for names in dims]) + ((),) * (ndim - len(dims))), free


def _tiles(mesh: Mesh, dims: tuple[tuple[Hashable, ...], ...]) -> Tiles:
    names = mesh.axis_names
    at = [names.index(name) for found in dims for name in found]
    rest = [a for a in range(len(names)) if a not in at]
    counts = tuple([math.prod([mesh.shape[name] for name in found]) for found in dims])
    return make_tiles(counts, mesh.size // math.prod(counts), _order(mesh.devices.shape, (*at, *rest)))


@lru_cache(maxsize=1024)
def _order(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.arange(math.prod(sizes)).reshape(sizes).transpose(axes).reshape(-1).tolist())


def partition_spec_from_tiles(mesh: Mesh, tiles: Tiles) -> PartitionSpec | None:
    """Convert tiles to a partition spec over a mesh.

    Args:
      mesh: a mesh.
      tiles: the tiles of the array, over the devices in row-major order.
    Returns:
      A spec, or None if no spec over this mesh gives these tiles. It names no axes of length 1, and has no entries for
      trailing dimensions that are not split.

    >>> from lamina_parallel.testing import fake_devices
    >>> partition_spec_from_tiles(Mesh(fake_devices(4), "x"), Tiles((1, 4)))
    PartitionSpec(None, 'x')
    """
    if tiles.is_replicated:
        return PartitionSpec()
    if tiles.devices != mesh.size:
        return None
    wanted = _tile_key(tiles)
    axes = [name for name, n in mesh.shape.items() if n > 1]
    for dims in _splits(mesh, tiles.counts, axes):
        if _tile_key(_tiles(mesh, dims)) == wanted:
            entries: list[Hashable] = [None if not d else d[0] if len(d) == 1 else d for d in dims]
            while entries and entries[-1] is None:
                entries.pop()
            return PartitionSpec(*entries)
    return None


def _tile_key(tiles: Tiles) -> CacheKey:
    """Return a key that is equal for tiles that assign the same part to each device."""
    places = tiles.positions()
    places.sort(axis=-1)
    return tiles.counts, places.tobytes()


def _splits(mesh: Mesh, counts: Sequence[int], axes: Sequence[Hashable]) -> Iterator[tuple[tuple[Hashable, ...], ...]]:
    """Yield all assignments of mesh axes to dimensions whose products are these counts."""
    if not counts:
        yield ()
        return
    for n in range(len(axes) + 1) if counts[0] > 1 else (0,):
        for chosen in itertools.permutations(axes, n):
            if math.prod([mesh.shape[name] for name in chosen]) == counts[0]:
                for others in _splits(mesh, counts[1:], [a for a in axes if a not in chosen]):
                    yield (chosen, *others)


def format_placement(tiles: Tiles, devices: Sequence[Device], mesh: Mesh | None = None) -> str:
    """Format tiles on devices as the text of a `sharding_constraint`.

    Devices are numbered by the order of their ids, because the program may use another order of devices than the
    sharding. The names, lengths and types of the mesh axes follow if all names are identifiers; the type `Auto` is
    left out.

    Args:
      tiles: the tiles of the array.
      devices: the devices, in the order of the tiles.
      mesh: the mesh of the devices, or None.
    Returns:
      The text.

    >>> from lamina_parallel.testing import fake_devices
    >>> format_placement(Tiles((4,)), fake_devices(4)[::-1])
    '{devices=[4]3,2,1,0} on cpu:3,2,1,0'
    """
    ids = [d.id for d in devices]
    number = {i: n for n, i in enumerate(sorted(ids))}
    text = f"{tiles.renumber([number[i] for i in ids]).text()} on {devices[0].platform}:{','.join(map(str, ids))}"
    if mesh is not None and all(isinstance(name, str) and name.isidentifier() for name in mesh.axis_names):
        types = ["" if kind is AxisType.Auto else f":{kind.name}" for kind in mesh.axis_types]
        text += f" of {','.join([f'{name}={n}{kind}' for (name, n), kind in zip(mesh.shape.items(), types)])}"
    return text


def parse_mesh(text: str, devices: Sequence[Device]) -> Mesh | None:
    """Parse the mesh from the text of a sharding constraint.

    Args:
      text: the result of `format_placement`.
      devices: the devices that it names.
    Returns:
      A mesh, or None if the text has none.

    >>> from lamina_parallel.testing import fake_devices
    >>> parse_mesh("{replicated} on cpu:0,1 of x=1,y=2", fake_devices(2))
    Mesh('x': 1, 'y': 2)
    """
    _, _, mesh_text = text.partition(" of ")
    if not mesh_text:
        return None
    axes = [axis.split("=") for axis in mesh_text.split(",")]
    sizes, _, types = zip(*[size.partition(":") for _, size in axes])
    grid = np.empty(len(devices), object)
    grid[:] = devices
    return Mesh(grid.reshape([int(n) for n in sizes]), [name for name, _ in axes],
                [AxisType[kind] if kind else AxisType.Auto for kind in types])
