"""`set_mesh`, `get_mesh` and meshes without devices, on fake devices."""
import copy
import pickle
import threading

import numpy as np
import pytest
from lamina_parallel import (AbstractMesh, AxisType, Mesh, PartitionSpec as P, get_abstract_mesh, get_mesh, set_mesh,
                             shard_map)
from lamina_parallel.testing import fake_devices

ALL = fake_devices(8)
MESH, OTHER = Mesh(np.array(ALL, object).reshape(4, 2), ("x", "y")), Mesh(ALL[:2], "z")
NONE = AbstractMesh((), ())


@pytest.fixture(autouse=True)
def without_a_mesh():
    yield
    set_mesh(None)


def test_mesh_of_a_block():
    with set_mesh(MESH) as entered:
        assert entered is None and get_mesh() is MESH and get_abstract_mesh() == AbstractMesh((4, 2), ("x", "y"))
        with set_mesh(OTHER):
            assert get_mesh() is OTHER
            with set_mesh(None):
                assert get_mesh() == NONE
        assert get_mesh() is MESH
        with OTHER:
            assert get_mesh() is OTHER
    assert get_mesh() == get_abstract_mesh() == NONE and get_mesh().empty and not MESH.empty


def test_mesh_of_a_thread():
    set_mesh(MESH)
    assert get_mesh() is MESH
    with set_mesh(OTHER):
        assert get_mesh() is OTHER
    assert get_mesh() is MESH
    seen = []
    thread = threading.Thread(target=lambda: seen.append(get_mesh()))
    thread.start()
    thread.join()
    assert seen == [NONE]
    set_mesh(None)
    assert get_mesh() == NONE


def test_block_ends_after_an_error():
    with pytest.raises(KeyError), set_mesh(MESH):
        raise KeyError
    assert get_mesh() == NONE


def test_repeated_calls_use_no_memory():
    from lamina_parallel._mesh import mesh
    set_mesh(MESH)
    before = len(mesh._open.blocks)
    for _ in range(10):
        set_mesh(MESH)
        set_mesh(OTHER)
    assert len(mesh._open.blocks) == before and get_mesh() is OTHER


@pytest.mark.parametrize("mesh", [3, AbstractMesh((2,), ("x",)), "x"])
def test_other_values_are_refused(mesh):
    with pytest.raises(TypeError, match=f"set_mesh: mesh: expected a Mesh.*got {type(mesh).__name__}"):
        set_mesh(mesh)


def test_abstract_mesh_has_the_axes_of_a_mesh():
    mesh = MESH.abstract_mesh
    for name in ("axis_names", "axis_sizes", "axis_types", "shape", "shape_tuple", "size", "empty"):
        assert getattr(mesh, name) == getattr(MESH, name), name
    assert mesh.abstract_mesh is mesh and mesh != MESH and repr(mesh) == "AbstractMesh('x': 4, 'y': 2)"
    for again in (pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh), AbstractMesh([4, 2], ["x", "y"])):
        assert again == mesh and hash(again) == hash(mesh)
    assert mesh != AbstractMesh((2, 4), ("x", "y")) and AbstractMesh((2,), "x").shape == {"x": 2} and NONE.size == 0


@pytest.mark.parametrize("sizes, names, error, message", [
    ((2.0,), "x", TypeError, "axis_sizes: expected ints; got float: 2.0"),
    ((True,), "x", TypeError, "axis_sizes: expected ints; got bool"),
    ((0,), "x", ValueError, "axis_sizes: a size must be at least 1; got 0"),
    ((2, 2), ("x",), ValueError, r"axis_names: expected a name for each of 2 axes; got \('x',\)"),
    ((2, 2), ("x", "x"), ValueError, r"axis_names: a name occurs twice in \('x', 'x'\)")])
def test_invalid_abstract_mesh_is_refused(sizes, names, error, message):
    with pytest.raises(error, match=f"AbstractMesh: {message}"):
        AbstractMesh(sizes, names)


@pytest.mark.parametrize("make", [lambda types: Mesh(ALL, "x", types), lambda types: AbstractMesh((8,), "x", types)])
def test_types_of_axes(make):
    for types in (None, AxisType.Auto, (AxisType.Auto,)):
        assert make(types).axis_types == (AxisType.Auto,) and "axis_types" not in repr(make(types))
    explicit = make(AxisType.Explicit)
    assert explicit.axis_types == (AxisType.Explicit,) and repr(explicit).endswith("axis_types=(Explicit,))")
    assert explicit == make((AxisType.Explicit,)) and hash(explicit) == hash(make((AxisType.Explicit,)))
    assert len({make(kind) for kind in AxisType}) == 3 and explicit.abstract_mesh.axis_types == (AxisType.Explicit,)
    copied = copy.deepcopy(explicit) if isinstance(explicit, AbstractMesh) else explicit
    assert copied == explicit
    with pytest.raises(ValueError, match="axis_types: expected one for each of 1 axes; got 2"):
        make((AxisType.Auto, AxisType.Auto))
    with pytest.raises(TypeError, match="axis_types: expected an AxisType for each axis; got str"):
        make(("auto",))
    assert repr(AxisType.Auto) == "Auto" and [t.name for t in AxisType] == ["Auto", "Explicit", "Manual"]


def test_shard_map_over_the_axes_of_a_mesh_in_scope():
    double = shard_map(lambda x: x * 2, AbstractMesh((2,), "z"), P("z"), P("z"))
    for scope in (None, MESH):
        with set_mesh(scope), pytest.raises(ValueError, match=r"in scope must have the axes of AbstractMesh\('z': 2\)"):
            double(np.ones(4))
    with pytest.raises(ValueError, match="names the axis 'q', which AbstractMesh"):
        shard_map(lambda x: x, AbstractMesh((2,), "z"), P(), P(), axis_names={"q"})
