"""Axis environments: groups, positions, copies; and the checks of axis names, groups and permutations."""
import numpy as np
import pytest
from lamina_ir import AxisEnv, ShapeError, UnboundAxisError
from lamina_ir.extend import (check_axis_names, check_axis_name, check_groups, check_member_index, check_permutation,
                              split_axis_names)


def test_groups_order_members_by_given_axes():
    env = AxisEnv([("i", 2), ("j", 3)])
    assert env.groups("i") == [[0, 3], [1, 4], [2, 5]] and env.groups(("i", "j")) == [[0, 1, 2, 3, 4, 5]]
    assert env.groups(("j", "i")) == [[0, 3, 1, 4, 2, 5]] and env.indices(("j", "i")) == [0, 2, 4, 1, 3, 5]
    assert env.axis_size(("i", "j")) == env.size == env.participants == 6 and env.copies == 1


def test_copies_repeat_the_axes():
    env = AxisEnv([("i", 2)], 6)
    assert env.groups("i") == [[0, 3], [1, 4], [2, 5]] and env.stride("i") == env.copies == 3 and env.size == 2
    assert env.indices("i") == [0, 0, 0, 1, 1, 1] and env.groups(()) == [[i] for i in range(6)]


def test_inner_axis_shadows_outer_axis_of_equal_name():
    env = AxisEnv([("i", 2)], 8).extend("i", 4)  # over the copies: the number of participants is given
    assert env.axis_size("i") == 4 and env.stride("i") == 1 and env.participants == 8
    assert AxisEnv([("i", 2)]).extend("i", 4).participants == 8
    assert env.key() == AxisEnv([("i", 2), ("i", 4)]).key()


def test_index_groups():
    env = AxisEnv([("i", 4)])
    assert env.groups("i", [[0, 2], [1, 3]]) == [[0, 2], [1, 3]]
    assert env.groups("i", [[0, 2, 3], [1]]) == [[0, 2, 3], [1]]
    assert AxisEnv([("i", 2), ("j", 2)]).groups(("j", "i"), ((0, 3), (1, 2))) == [[0, 3], [2, 1]]
    with pytest.raises(ShapeError, match="indices 0..3 of the axis 'i', of size 4, exactly once"):
        env.groups("i", [[0, 2], [1, 1]])


def test_unbound_and_uneven_axes_are_rejected():
    with pytest.raises(UnboundAxisError, match="'k' is not bound; bound here: none"):
        AxisEnv().axis_size("k")
    with pytest.raises(UnboundAxisError, match="'k' is not bound; bound here: 'i', 'j'"):
        AxisEnv([("i", 1), ("j", 2)]).groups("k")
    with pytest.raises(ShapeError, match="multiple of 4"):
        AxisEnv([("i", 4)], 6)


@pytest.mark.parametrize("name", [0, -1, True, np.int32(2), np.bool_(False)])
def test_integers_and_booleans_are_not_axis_names(name):
    with pytest.raises(TypeError, match="vmap: axis_name: .* cannot name a mapped axis"):
        check_axis_name("vmap", name)
    with pytest.raises(TypeError, match="all_gather: expected names"):
        check_axis_names("all_gather", ("i", name))


@pytest.mark.parametrize("name", ["i", ("a", 3), frozenset([1]), 1.5, None, object, AxisEnv])
def test_other_hashable_values_are_axis_names(name):
    assert check_axis_name("vmap", name) is name
    assert split_axis_names("psum", (name, 0)) == ((name,), (0,))
    assert AxisEnv([(name, 2)]).groups((name,)) == [[0, 1]]


def test_invalid_axis_names_are_rejected():
    with pytest.raises(TypeError, match="vmap: axis_name: .*hashable"):
        check_axis_name("vmap", {})
    with pytest.raises(TypeError, match="psum: .*hashable"):
        split_axis_names("psum", ([],))
    with pytest.raises(TypeError, match=r"psum: expected names .*; got True in \(0, True\)"):
        split_axis_names("psum", (0, True))
    with pytest.raises(ShapeError, match="named once"):
        split_axis_names("psum", ["i", "j", "i"])


@pytest.mark.parametrize("given", [[[0, 2], [1, 3]], ((0, 2), (1, 3)), np.array([[0, 2], [1, 3]]), ([0, 2], np.array([1, 3]))])
def test_groups_are_lists_tuples_or_arrays(given):
    assert check_groups("psum", 4, given, "i") == ((0, 2), (1, 3))
    assert all(type(i) is int for g in check_groups("psum", 4, given, "i", equal=True) for i in g)


@pytest.mark.parametrize("given,words", [
    ([[0, 1], [2]], "hold all indices 0..3 of the axis 'i', of size 4, exactly once; got"), ([[0, 1], [2, 4]], "exactly once"),
    ([[0, 1], [2, 3], []], "exactly once"), ([[0, 1], [1, 2, 3]], "exactly once"), ([], "exactly once"),
    ([0, 1, 2, 3], "nested lists of indices 0..3"), ("abcd", "nested lists of indices"), (7, "nested lists of indices"),
    ([[0, 1], [2, 3.0]], "nested lists of indices"), ([[False, True], [2, 3]], "nested lists of indices"),
    (np.zeros((2, 2)), "nested lists of indices"), ([[0, 1, 2], [3]], "groups of one size.*psum, pmean")])
def test_invalid_groups_are_rejected(given, words):
    with pytest.raises((ShapeError, TypeError), match=f"all_gather: axis_index_groups.*{words}"):
        check_groups("all_gather", 4, given, "i", equal=True)


@pytest.mark.parametrize("given,words", [
    ([(0, 3)], r"each destination in perm must be another of the indices 0..2 of the axes \('i', 'j'\), of size 3; got"),
    ([(-1, 0)], "each source"), ([(0, 1), (0, 2)], "each source"), ([(0, 1), (2, 1)], "each destination"),
    ([(0, 1, 2)], "pairs"), ([0, 1], "nested lists of indices"), ([(0, True)], "nested lists of indices")])
def test_invalid_permutations_are_rejected(given, words):
    with pytest.raises((ShapeError, TypeError), match=f"ppermute: .*{words}"):
        check_permutation("ppermute", 3, given, ("i", "j"))


def test_permutations_and_indices():
    assert check_permutation("ppermute", 3, np.array([[0, 1]]), "i") == ((0, 1),)
    assert check_permutation("ppermute", 3, [], "i") == ()
    assert check_member_index("pbroadcast", 3, np.int64(2), "i", "source") == 2
    with pytest.raises(ShapeError, match="pbroadcast: source must be one of the indices 0..2 of the axis 'i', of size 3"):
        check_member_index("pbroadcast", 3, 3, "i", "source")
    with pytest.raises(TypeError, match="pbroadcast: source: expected"):
        check_member_index("pbroadcast", 3, 1.0, "i", "source")
