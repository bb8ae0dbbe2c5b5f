"""`jax.interpreters.pxla`: meshes and maps over devices."""
from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from lamina_ir.layers import explain_absent_names
from lamina_parallel import Mesh, PartitionSpec
from lamina_parallel.extend import mesh_in_scope
from lamina_tracing.extend import Tracer

from ..._vocabulary import xla_pmap_p

__all__ = ["ArrayMapping", "MapTracer", "Mesh", "MeshAxisName", "PartitionSpec", "thread_resources", "xla_pmap_p"]

MeshAxisName = Hashable
ArrayMapping = Mapping


class MapTracer(Tracer):
    """The class of traced values in a `pmap` that runs equation by equation, for `isinstance`; lamina has no such values."""


class _EmptyMesh:
    """The mesh in scope outside of all meshes."""

    devices = np.empty((), object)
    axis_names: tuple[Hashable, ...] = ()
    shape: Mapping[Hashable, int] = {}
    size = 0
    empty = True

    def __enter__(self) -> _EmptyMesh:
        return self

    def __exit__(self, *args: object) -> None:
        pass


class _ResourceEnv:
    """The mesh in scope of the calling thread."""

    @property
    def physical_mesh(self) -> Mesh | _EmptyMesh:
        """The mesh of the innermost `with mesh:`; an empty one outside of all."""
        return mesh_in_scope() or _EmptyMesh()

    @property
    def shape(self) -> Mapping[Hashable, int]:
        """Axis name -> size."""
        return self.physical_mesh.shape


class _ThreadResources:
    """The state of the calling thread, in `env`."""

    env = _ResourceEnv()


thread_resources = _ThreadResources()

explain_absent_names(globals())
