"""Meshes and partition specs, on fake devices."""
import copy
import itertools
import pickle
import threading

import numpy as np
import pytest
from lamina_ir import config
from lamina_ir.extend import Tiles
from lamina_parallel import Mesh, PartitionSpec as P
from lamina_parallel.extend import (mesh_in_scope, parse_mesh, format_placement, partition_spec_from_tiles,
                                    tiles_from_partition_spec)
from lamina_parallel.testing import FakeDevice, fake_devices

ALL = fake_devices(8)
GRID = np.array(ALL, object).reshape(4, 2)
MESH = Mesh(GRID, ("x", "y"))


def test_a_mesh_has_devices_and_names():
    assert MESH.shape == {"x": 4, "y": 2} and list(MESH.shape) == ["x", "y"] and MESH.size == 8 and not MESH.empty
    assert MESH.axis_names == ("x", "y") and MESH.axis_sizes == (4, 2) and MESH.shape_tuple == (("x", 4), ("y", 2))
    np.testing.assert_array_equal(MESH.device_ids, np.arange(8).reshape(4, 2))
    assert MESH.devices.dtype == object and MESH.devices[3, 1] is ALL[7] and MESH.flat_devices == tuple(ALL)
    assert repr(MESH) == str(MESH) == "Mesh('x': 4, 'y': 2)"
    with pytest.raises(ValueError, match="read-only"):
        MESH.devices[0, 0] = ALL[1]
    GRID[0, 0], saved = ALL[5], GRID[0, 0]  # the mesh copies the array
    assert MESH.devices[0, 0] is ALL[0]
    GRID[0, 0] = saved


def test_meshes_are_equal_by_devices_and_names():
    same = Mesh([[ALL[2 * i], ALL[2 * i + 1]] for i in range(4)], ["x", "y"])
    assert same == MESH and hash(same) == hash(MESH) and {MESH: 1}[same] == 1
    for other in (Mesh(GRID, ("x", "z")), Mesh(GRID[::-1], ("x", "y")), Mesh(GRID.T, ("y", "x")), Mesh(ALL, "x"), "mesh"):
        assert other != MESH
    for again in (pickle.loads(pickle.dumps(MESH)), copy.deepcopy(MESH), copy.copy(MESH)):
        assert again == MESH
    assert Mesh(ALL[3], ()).shape == {} and Mesh(ALL, "x").shape == {"x": 8}


@pytest.mark.parametrize("devices, names, error, message", [
    ([], "x", ValueError, "at least one device"),
    (np.empty((0, 2), object), ("x", "y"), ValueError, r"at least one device.*\(0, 2\)"),
    ([3, 4], "x", TypeError, "expected devices.*got int: 3"),
    ([[ALL[0], ALL[1]], [ALL[2]]], ("x", "y"), ValueError, "nested lists must be of equal lengths"),
    (ALL[:4], ("x", "y"), ValueError, r"a name for each axis of devices.*\(4,\).*2: \('x', 'y'\)"),
    (GRID, ("x", "x"), ValueError, "'x' names two axes"),
    (GRID, ("x", []), TypeError, "a name must be hashable; got list"),
    (GRID, ("x", None), TypeError, "None cannot be a name"),
    (GRID, ("x", ("y", "z")), TypeError, "cannot be a name"),
    ([ALL[0], ALL[1], ALL[0]], "x", ValueError, "cpu:0 occurs twice"),
    ([ALL[0], FakeDevice(1, "gpu")], "x", ValueError, "one platform; got cpu, gpu"),
])
def test_invalid_mesh_is_refused(devices, names, error, message):
    with pytest.raises(error, match=message):
        Mesh(devices, names)


def test_mesh_in_scope_is_the_innermost_of_its_thread():
    other, seen = Mesh(ALL, "i"), []
    assert mesh_in_scope() is None
    with MESH as entered:
        key = config.cache_key()
        assert entered is MESH is mesh_in_scope()
        with other, MESH, MESH:
            assert mesh_in_scope() is MESH
        with other:
            assert mesh_in_scope() is other and config.cache_key() != key
            thread = threading.Thread(target=lambda: seen.append(mesh_in_scope()))
            thread.start()
            thread.join()
        assert mesh_in_scope() is MESH and config.cache_key() == key
        with pytest.raises(KeyError), other:
            raise KeyError
        assert mesh_in_scope() is MESH
    assert mesh_in_scope() is None and seen == [None]
    with pytest.raises(RuntimeError, match="was not entered in this thread"):
        MESH.__exit__(None, None, None)
    with pytest.raises(TypeError, match="is changed only by `with mesh:`"):
        config.update("mesh", "x")


def test_mesh_blocks_of_generators_may_end_in_any_order():
    def block(mesh):
        with mesh:
            yield

    first, second = block(MESH), block(Mesh(ALL, "i"))
    next(first), next(second)
    first.close()
    assert mesh_in_scope().axis_names == ("i",)
    second.close()
    assert mesh_in_scope() is None and config.read("mesh") is None


def test_local_mesh_of_a_mesh_over_processes():
    devices = np.array(fake_devices(8, 2), object)
    whole = Mesh(devices.reshape(4, 2), ("x", "y"))
    assert whole.is_multi_process and whole.local_devices == list(devices[:4])
    assert whole.local_mesh == Mesh(devices[:4].reshape(2, 2), ("x", "y")) and not whole.local_mesh.is_multi_process
    across = Mesh(devices.reshape(2, 4).T, ("x", "y"))  # y goes over the processes
    assert across.local_mesh.shape == {"x": 4, "y": 1} and not across.local_mesh.is_multi_process
    with pytest.raises(ValueError, match="do not form a block of Mesh"):
        Mesh(devices[[0, 4, 5, 1]].reshape(2, 2), ("x", "y")).local_mesh
    with pytest.raises(ValueError, match="do not form a block of Mesh"):
        Mesh(devices[4:], "x").local_mesh


def test_partition_spec_is_a_tuple_of_entries():
    spec = P("x", None, ["y", "z"])
    assert repr(spec) == "PartitionSpec('x', None, ('y', 'z'))" and spec == P("x", None, ("y", "z")) == ("x", None, ("y", "z"))
    assert len(spec) == 3 and spec[2] == ("y", "z") and list(spec)[1] is None and isinstance(spec, tuple)
    assert P("x") != P("x", None) and hash(P("x")) == hash(P("x")) and P() == () and repr(P("x")) == "PartitionSpec('x',)"
    free = P(P.UNCONSTRAINED, "x")
    assert repr(free) == "PartitionSpec(UNCONSTRAINED, 'x')"
    for s in (spec, P(), P(("x", "y")), free):
        again = pickle.loads(pickle.dumps(s))
        assert again == s and type(again) is P and type(copy.deepcopy(s)) is P
    with pytest.raises(TypeError, match="expected names of axes.*got"):
        P({})


@pytest.mark.parametrize("spec, tiles", [
    (P("x", "y"), Tiles((4, 2))), (P(), Tiles()), (P(None, None), Tiles()), (P("x"), Tiles((4, 1), 2)),
    (P(("x", "y")), Tiles((8, 1))), (P(("y", "x")), Tiles((8, 1), 1, (0, 2, 4, 6, 1, 3, 5, 7))),
    (P("y", "x"), Tiles((2, 4), 1, (0, 2, 4, 6, 1, 3, 5, 7))), (P(None, "y"), Tiles((1, 2), 4, (0, 2, 4, 6, 1, 3, 5, 7))),
    (P((), ("y",)), Tiles((1, 2), 4, (0, 2, 4, 6, 1, 3, 5, 7)))])
def test_partition_spec_to_tiles(spec, tiles):
    assert tiles_from_partition_spec(MESH, spec, 2) == (tiles, ())


def test_unconstrained_dimensions():
    assert tiles_from_partition_spec(MESH, P(P.UNCONSTRAINED, "x"), 3) == (Tiles((1, 4, 1), 2), (0,))


def specs(names, ndim):
    """Yield every spec of `ndim` dimensions that uses some of the names."""
    for n in range(len(names) + 1):
        for used in itertools.permutations(names, n):
            for where in itertools.product(range(ndim), repeat=n):
                dims = [tuple(a for a, d in zip(used, where) if d == i) for i in range(ndim)]
                yield P(*[None if not d else d[0] if len(d) == 1 else d for d in dims])


@pytest.mark.parametrize("mesh", [MESH, Mesh(ALL, "i"), Mesh(np.array(ALL[::-1], object).reshape(2, 2, 2), ("a", "b", "c"))])
def test_tiles_to_partition_spec_round_trip(mesh):
    for spec in {*specs(mesh.axis_names, 2)}:
        found = partition_spec_from_tiles(mesh, tiles_from_partition_spec(mesh, spec, 2)[0])
        assert tiles_from_partition_spec(mesh, found, 2) == tiles_from_partition_spec(mesh, spec, 2)
        entries = list(spec)
        while entries and entries[-1] is None:
            entries.pop()
        assert found == P(*entries)


def test_tiles_without_a_partition_spec():
    assert partition_spec_from_tiles(MESH, Tiles((2, 1), 4)) is None  # half of x
    assert partition_spec_from_tiles(MESH, Tiles((8,), 1, tuple(range(8))[::-1])) is None
    assert partition_spec_from_tiles(MESH, Tiles((4,))) is None
    ones = Mesh(np.array(ALL, object).reshape(1, 8), ("one", "i"))
    assert partition_spec_from_tiles(ones, tiles_from_partition_spec(ones, P("one", "i"), 2)[0]) == P(None, "i")
    tiles = tiles_from_partition_spec(MESH, P("x"), 1)[0]
    swapped = tiles._replace(order=(1, 0, 2, 3, 4, 5, 6, 7))  # the same parts, copies in another order
    assert partition_spec_from_tiles(MESH, swapped) == P("x")


@pytest.mark.parametrize("spec, ndim, error, message", [
    (P("z"), 1, ValueError, "names the axis 'z', which Mesh.'x': 4, 'y': 2. does not have. Its axes are 'x', 'y'"),
    (P("x", "x"), 2, ValueError, "names the axis 'x' of Mesh.* twice"),
    (P(("x", "y"), "y"), 2, ValueError, "names the axis 'y' of Mesh.* twice"),
    (P("x", None), 1, ValueError, "has 2 entries, one for each dimension; the array has 1 dimension[.]"),
    (P((None,)), 1, ValueError, "names the axis None"),
    (("x",), 1, TypeError, "expected a PartitionSpec.*got tuple"),
    (None, 1, TypeError, "expected a PartitionSpec.*got NoneType")])
def test_invalid_partition_spec_is_refused(spec, ndim, error, message):
    with pytest.raises(error, match=message):
        tiles_from_partition_spec(MESH, spec, ndim)


def test_mesh_in_the_text_of_a_sharding_constraint():
    back = Mesh(np.array(ALL[::-1], object).reshape(4, 2), ("x", "y"))
    text = format_placement(tiles_from_partition_spec(back, P("x"), 1)[0], back.flat_devices, back)
    assert text == "{devices=[4,2]7,6,5,4,3,2,1,0 last_tile_dim_replicate} on cpu:7,6,5,4,3,2,1,0 of x=4,y=2"
    assert parse_mesh(text, back.flat_devices) == back and Tiles.parse(text).counts == (4,)
    odd = Mesh(ALL, ("i, j",))
    assert parse_mesh(format_placement(Tiles(), ALL, odd), tuple(ALL)) is None
