"""Axis environments: groups, positions, errors."""
import pytest
from lamina_ir import ShapeError, UnboundAxisError
from lamina_lowering.axes import AxisEnv


def test_groups_order_members_by_the_axes_given():
    env = AxisEnv(("i", "j"), (2, 3), 6)
    assert env.groups(("i",)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert env.groups(("i", "j")).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert env.groups(("j", "i")).tolist() == [[0, 3, 1, 4, 2, 5]]


def test_spare_replicas_repeat_the_axes():
    env = AxisEnv(("i",), (2,), 6)
    assert env.groups(("i",)).tolist() == [[0, 3], [1, 4], [2, 5]] and env.stride("i") == 3


def test_inner_axis_hides_outer_of_the_same_name():
    env = AxisEnv(("i",), (2,), 8).extend("i", 4)
    assert env.size("i") == 4 and env.stride("i") == 1


def test_index_groups():
    env = AxisEnv(("i",), (4,), 4)
    assert env.groups(("i",), [[0, 2], [1, 3]]).tolist() == [[0, 2], [1, 3]]
    with pytest.raises(ShapeError, match="once"):
        env.groups(("i",), [[0, 2], [1, 1]])
    with pytest.raises(ShapeError, match="equal sizes"):
        env.groups(("i",), [[0, 2, 3], [1]])


def test_unbound_and_uneven_axes_are_refused():
    with pytest.raises(UnboundAxisError, match="'k'.*bound: none"):
        AxisEnv().size("k")
    with pytest.raises(ShapeError, match="multiple of 4"):
        AxisEnv(("i",), (4,), 6)
