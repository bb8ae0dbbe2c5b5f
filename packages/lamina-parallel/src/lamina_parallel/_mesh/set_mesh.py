"""The mesh of a thread or of a block: `set_mesh`, `use_abstract_mesh`, `get_mesh`, `get_abstract_mesh`."""
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .abstract_mesh import AbstractMesh
from .mesh import Block, Mesh, enter_mesh, exit_mesh, mesh_in_scope, mesh_without_devices

__all__ = ["get_abstract_mesh", "get_mesh", "set_mesh", "use_abstract_mesh"]


class _Latest(threading.local):
    """Per thread, the call of `set_mesh` that is in force, unless it is a context manager of an open block."""

    call: set_mesh | None = None


_latest = _Latest()


class set_mesh:
    """Set the mesh in scope: for the rest of this thread, or as a context manager for a block.

    In its scope a `PartitionSpec` alone denotes a sharding over the mesh, as in a block `with mesh:`.

    Args:
      mesh: a `Mesh`; None: no mesh.
    Raises:
      TypeError: it is neither.

    >>> from lamina_parallel.testing import fake_devices
    >>> mesh = Mesh(fake_devices(4), "x")
    >>> with set_mesh(mesh):
    ...     get_mesh()
    Mesh('x': 4)
    >>> get_mesh().empty
    True
    """

    _mesh: Mesh | None
    _block: Block

    def __init__(self, mesh: Mesh | None) -> None:
        if not isinstance(mesh, Mesh | None):
            raise TypeError(f"set_mesh: mesh: expected a Mesh, as Mesh(devices, ('x', 'y')), or None; got "
                            f"{type(mesh).__name__}: {mesh!r:.60}")
        # A mesh set earlier for the rest of the thread is replaced, so that repeated calls use no memory.
        replaced, _latest.call = _latest.call, self
        self._replaced: tuple[Mesh | None] | None = (replaced._mesh,) if replaced is not None else None
        if replaced is not None:
            exit_mesh(replaced._block)
        self._mesh = mesh
        self._block = enter_mesh(mesh)

    def __enter__(self) -> None:
        if _latest.call is self:
            _latest.call = None

    def __exit__(self, *error: object) -> None:
        exit_mesh(self._block)
        if self._replaced is not None:
            set_mesh(*self._replaced)


def get_mesh() -> Mesh | AbstractMesh:
    """Return the mesh in scope, of `set_mesh` or `with mesh:`.

    Returns:
      The mesh; if there is none, an `AbstractMesh` without axes, whose `empty` is True.

    >>> get_mesh()
    AbstractMesh()
    """
    mesh = mesh_in_scope()
    return AbstractMesh((), ()) if mesh is None else mesh


def get_abstract_mesh() -> AbstractMesh:
    """Return the names and sizes of the axes of the mesh in scope; if there is none, a mesh without axes.

    >>> get_abstract_mesh().empty
    True
    """
    return get_mesh().abstract_mesh


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[None]:
    """Use the axes of an abstract mesh in a block.

    If a mesh is in scope, its devices are used, with other types of axes. Without one, programs can be traced, as by
    `eval_shape` and `make_jaxpr`, and not compiled.

    Args:
      mesh: an `AbstractMesh`. If a mesh is in scope, it has the names and sizes of its axes.
    Returns:
      A context manager.
    Raises:
      TypeError: it is no `AbstractMesh`.
      ValueError: the mesh in scope has other axes.

    Source: `jax.sharding.use_abstract_mesh`.

    >>> from lamina_parallel import AxisType
    >>> from lamina_parallel.testing import fake_devices
    >>> with set_mesh(Mesh(fake_devices(4), "x")), use_abstract_mesh(AbstractMesh((4,), ("x",), AxisType.Explicit)):
    ...     get_mesh()
    Mesh('x': 4, axis_types=(Explicit,))
    """
    if not isinstance(mesh, AbstractMesh):
        raise TypeError(f"use_abstract_mesh: mesh must be an AbstractMesh; got {type(mesh).__name__}: {mesh!r:.60}. "
                        "Use set_mesh for a Mesh")
    devices = mesh_in_scope()
    if devices is None:
        with mesh_without_devices(mesh):
            yield
        return
    if (devices.axis_names, devices.axis_sizes) != (mesh.axis_names, mesh.axis_sizes):
        raise ValueError(f"use_abstract_mesh: mesh must have the axes of the mesh in scope, {devices!r}; got {mesh!r}")
    with Mesh(devices.devices, mesh.axis_names, mesh.axis_types):
        yield
