import pickle
from collections import OrderedDict, defaultdict, namedtuple

from lamina_ir import trees
from lamina_runtime._jaxlib import pytree_registry

Point = namedtuple("Point", "x y")


class Early:  # like classes registered before the runtime was imported
    def __init__(self, a):
        self.a = a


trees.register_pytree_node(Early, lambda e: ((e.a,), None), lambda data, children: Early(*children))


def test_registry_is_in_use():
    assert isinstance(trees.backend(), pytree_registry.JaxlibBackend)


def test_round_trips():
    tree = {"b": [1, (2, None)], "a": OrderedDict(z=3, y=4), "d": defaultdict(list, k=5), "p": Point(6, 7)}
    leaves, treedef = trees.tree_flatten(tree)
    assert trees.tree_unflatten(treedef, leaves) == tree
    assert treedef == trees.tree_structure(tree) and hash(treedef) == hash(trees.tree_structure(tree))
    assert trees.tree_leaves(Early(3)) == [3]


def test_treedefs_are_pickled():
    for tree in ({"b": 1, "a": (2, None)}, Point(1, [2])):
        treedef = trees.tree_structure(tree)
        assert pickle.loads(pickle.dumps(treedef)) == treedef


def test_treedef_functions():
    pair = trees.treedef_tuple([trees.tree_structure([0, 0]), trees.tree_structure(0)])
    assert pair == trees.tree_structure(([0, 0], 0))
    assert trees.make_treedef(pair.node_data(), pair.children()) == pair
    assert trees.all_leaves([1, "x"]) and not trees.all_leaves([(1,)])


def test_is_leaf_is_called_for_the_same_nodes_in_the_same_order():
    tree = {"b": Point(1, (2, None)), "a": [3, {"c": Early(4)}], "n": None, "o": OrderedDict(z=6, y=7),
            "d": defaultdict(int, q=8), "e": ()}
    visited = []
    trees.tree_leaves(tree, lambda x: visited.append(repr(x)))
    in_python = []
    trees.tree_leaves_with_path(tree, lambda path, x: in_python.append(repr(x)), is_leaf_takes_path=True)
    assert visited == in_python
    found = trees.tree_leaves_with_path(tree, lambda path, x: len(path) == 2, is_leaf_takes_path=True)
    assert [(trees.keystr(p), x) for p, x in found if type(x) is not dict] == [
        ("['a'][0]", 3), ("['b'].x", 1), ("['b'].y", (2, None)), ("['d']['q']", 8), ("['o']['z']", 6), ("['o']['y']", 7)]
