"""Pytrees: flattening and unflattening, registered node classes, and errors that name the path."""
from __future__ import annotations

import collections
import dataclasses
import pickle

import pytest
from lamina_ir import trees

Point = collections.namedtuple("Point", "x y")
TREES = [(1, [2, {"b": 3, "a": 4}], None, Point(5, (6,))), {}, [], (), None, 7, [[[]]], {"a": None, "b": [1]},
         collections.OrderedDict([("z", 1), ("a", 2)]), Point([1], {"k": (2, 3)})]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_flatten_unflatten_round_trip(tree):
    leaves, structure = trees.tree_flatten(tree)
    assert trees.tree_unflatten(structure, leaves) == tree and trees.tree_leaves(tree) == leaves
    assert trees.tree_structure(tree) == structure and hash(trees.tree_structure(tree)) == hash(structure)
    assert type(trees.tree_unflatten(structure, leaves)) is type(tree) and structure.num_leaves == len(leaves)
    again = pickle.loads(pickle.dumps(structure))
    assert again == structure


def test_dicts_are_sorted_by_key_and_none_is_not_a_leaf():
    assert trees.tree_leaves({"b": 1, "a": 2}) == [2, 1] and trees.tree_leaves([None, 1, None]) == [1]
    assert trees.tree_structure({"b": 1, "a": 2}) == trees.tree_structure({"a": 0, "b": 0})
    assert trees.tree_structure((1, 2)) != trees.tree_structure([1, 2])
    assert trees.tree_structure({"a": 1}) != trees.tree_structure({"b": 1})


def test_map_over_several_trees():
    got = trees.tree_map(lambda a, b: a + b, {"x": 1, "y": [2, None]}, {"x": 10, "y": [20, None]})
    assert got == {"x": 11, "y": [22, None]}
    assert trees.tree_map(lambda a, b: (a, b), [1], [{"k": 2}]) == [(1, {"k": 2})]
    assert trees.tree_map(str, [(1, 2), 3], is_leaf=lambda t: t == (1, 2)) == ["(1, 2)", "3"]
    assert trees.tree_reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]}) == 6


@pytest.mark.parametrize("other", [{"x": 1}, {"x": 1, "z": 2}, [1, 2], {"x": 1, "y": [1, 2, 3]}], ids=repr)
def test_different_trees_are_rejected(other):
    with pytest.raises((TypeError, ValueError)):
        trees.tree_map(lambda a, b: a, {"x": 1, "y": [2, 3]}, other)


def test_wrong_number_of_leaves_is_rejected():
    structure = trees.tree_structure([1, (2, 3)])
    for leaves in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises((TypeError, ValueError)):
            trees.tree_unflatten(structure, leaves)


class Node:
    def __init__(self, children, data):
        self.children, self.data = children, data


def test_registered_class_is_a_node():
    trees.register_pytree_node(Node, lambda n: (tuple(n.children), n.data), lambda data, children: Node(list(children), data))
    leaves, structure = trees.tree_flatten({"n": Node([1, (2,)], "d")})
    assert leaves == [1, 2]
    again = trees.tree_unflatten(structure, [10, 20])["n"]
    assert type(again) is Node and again.children == [10, (20,)] and again.data == "d"
    assert structure != trees.tree_structure({"n": Node([1, (2,)], "other")})
    with pytest.raises(ValueError, match="Duplicate.*Node"):
        trees.register_pytree_node(Node, lambda n: ((), None), lambda data, children: None)


def test_registered_dataclass_is_a_node_of_its_data_fields():
    @dataclasses.dataclass
    class Layer:
        w: object
        name: str

    trees.register_dataclass(Layer, data_fields=["w"], meta_fields=["name"])
    leaves, structure = trees.tree_flatten(Layer([1, 2], "first"))
    assert leaves == [1, 2] and trees.tree_unflatten(structure, [3, 4]) == Layer([3, 4], "first")


def test_every_leaf_has_a_path():
    found = trees.tree_leaves_with_path({"a": [1, Point(2, 3)], "b": (4,)})
    assert [(trees.keystr(path), leaf) for path, leaf in found] == [
        ("['a'][0]", 1), ("['a'][1].x", 2), ("['a'][1].y", 3), ("['b'][0]", 4)]


def test_broadcast_prefix_repeats_leaves():
    assert trees.broadcast_prefix({"a": 0, "b": 1}, {"a": [1, 2], "b": 3}) == [0, 0, 1]
    with pytest.raises(ValueError):
        trees.broadcast_prefix({"a": 0}, {"b": 1})


def test_partial_is_a_tree_of_its_arguments():
    p = trees.Partial(max, 3, key=None)
    leaves, structure = trees.tree_flatten(p)
    assert leaves == [3] and trees.tree_unflatten(structure, [5])(4) == 5
