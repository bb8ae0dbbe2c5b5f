"""`set_mesh`: the mesh of a thread or of a block; `get_mesh` and `get_abstract_mesh` return it."""
from __future__ import annotations

import threading

from .abstract_mesh import AbstractMesh
from .mesh import Block, Mesh, enter_mesh, exit_mesh, mesh_in_scope

__all__ = ["get_abstract_mesh", "get_mesh", "set_mesh"]


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
