"""Shardings of arrays over `Explicit` axes, which a runtime reads and makes; and the sharding in types without devices."""
from __future__ import annotations

from lamina_ir import ShapedArray
from lamina_ir.typing import Sharding, Value
from typing_extensions import override

from .abstract_mesh import AbstractMesh
from .mesh import Mesh, mesh_without_devices
from .partition_spec import (PartitionSpec, check_explicit_spec, explicit_spec, format_placement, spec_entries,
                                    spec_from_entries, tiles_from_partition_spec)
from .._typing import Entries

__all__ = ["ArrayShardings", "TypeSharding", "find_mesh", "make_sharding", "make_type", "read_entries",
           "set_array_shardings"]


class TypeSharding:
    """A sharding over the axes of a mesh without devices, as in the types of values that are traced for one.

    Args:
      mesh: an `AbstractMesh`, or a mesh.
      spec: a spec over it.
    Raises:
      TypeError: `spec` is not a PartitionSpec.
      ValueError: the spec names an axis twice, or one that the mesh does not have.

    >>> from lamina_parallel import AbstractMesh
    >>> TypeSharding(AbstractMesh((4,), ("x",)), PartitionSpec("x"))
    NamedSharding(mesh=AbstractMesh('x': 4), spec=PartitionSpec('x',))
    """

    __slots__ = ("mesh", "spec")

    def __init__(self, mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
        self.mesh, self.spec = mesh, spec
        tiles_from_partition_spec(self.concrete_mesh, spec, len(spec))

    @property
    def concrete_mesh(self) -> Mesh:
        """The mesh, with abstract devices if it has none."""
        return mesh_without_devices(self.mesh) if isinstance(self.mesh, AbstractMesh) else self.mesh

    @property
    def explicit_entries(self) -> Entries:
        """The mesh axes of each dimension."""
        return spec_entries(self.spec)

    def explicit_of_rank(self, ndim: int) -> TypeSharding | None:
        """Return the sharding over `Explicit` axes, with an entry for each dimension; None if there are none."""
        mesh = self.concrete_mesh
        return TypeSharding(self.mesh, explicit_spec(mesh, self.spec, ndim)) if mesh.explicit_axes else None

    def check_explicit(self, call: str) -> None:
        """Raise ValueError unless the spec names only `Explicit` axes."""
        check_explicit_spec(self.concrete_mesh, self.spec, f"{call}: out_sharding")

    def constraint(self, aval: ShapedArray) -> tuple[str, tuple[int, ...]]:
        """Return the params of a sharding constraint."""
        mesh = self.concrete_mesh
        tiles, free = tiles_from_partition_spec(mesh, self.spec, aval.ndim, "with_sharding_constraint")
        return format_placement(tiles, mesh.flat_devices, mesh), free

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeSharding) and (self.mesh, self.spec) == (other.mesh, other.spec)

    @override
    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    @override
    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r})"


class ArrayShardings:
    """Shardings of concrete arrays. This base class is for arrays without devices.

    >>> class Arrays(ArrayShardings):
    ...     pass
    >>> Arrays().read_entries(None, 2.0, 0)
    ()
    """

    def find_mesh(self, x: Value) -> Mesh | None:
        """Return the mesh with `Explicit` axes of an array; None if it has none."""
        return None

    def read_entries(self, mesh: Mesh, x: Value, ndim: int) -> Entries:
        """Return the `Explicit` axes of each dimension of an array."""
        return ((),) * ndim

    def make_sharding(self, mesh: Mesh, spec: PartitionSpec) -> Sharding:
        """Return the sharding of a mesh and a spec with an entry for each dimension."""
        return TypeSharding(mesh, spec)


_arrays: list[ArrayShardings] = [ArrayShardings()]


def set_array_shardings(arrays: ArrayShardings) -> None:
    """Set how shardings of arrays are read and made. A runtime calls it.

    Args:
      arrays: the functions.

    >>> set_array_shardings(_arrays[0])
    """
    _arrays[:] = [arrays]


def find_mesh(x: Value) -> Mesh | None:
    """Return the mesh with `Explicit` axes of an array; None if it has none."""
    return _arrays[0].find_mesh(x)


def make_sharding(mesh: Mesh, spec: PartitionSpec) -> Sharding:
    """Return the sharding of a mesh and a spec with an entry for each dimension."""
    return _arrays[0].make_sharding(mesh, spec)


def make_type(mesh: Mesh | AbstractMesh, entries: Entries) -> Sharding:
    """Return the sharding in a type, with these axes of each dimension."""
    spec = spec_from_entries(entries)
    if isinstance(mesh, AbstractMesh) or mesh.is_abstract:
        return TypeSharding(mesh.abstract_mesh, spec)
    return _arrays[0].make_sharding(mesh, spec)


def read_entries(mesh: Mesh, x: Value) -> Entries:
    """Return the `Explicit` axes of each dimension of an array, or a description of one."""
    return _arrays[0].read_entries(mesh, x, len(getattr(x, "shape", ())))
