"""Pytrees with the Python backend, and requirements on every backend."""
import dataclasses
import functools
import pickle
from collections import OrderedDict, defaultdict, namedtuple

import pytest

from lamina_ir import trees
from lamina_ir.trees._python_backend import PythonBackend

Point = namedtuple("Point", "x y")


@trees.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    name: str = dataclasses.field(metadata={"static": True}, default="dense")


@trees.register_pytree_node_class
class Box:
    def __init__(self, value, tag):
        self.value, self.tag = value, tag

    def tree_flatten(self):
        return (self.value,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(*children, tag)


@trees.register_pytree_with_keys_class
class Keyed:
    def __init__(self, value):
        self.value = value

    def tree_flatten_with_keys(self):
        return [(trees.GetAttrKey("value"), self.value)], None

    @classmethod
    def tree_unflatten(cls, data, children):
        return cls(*children)


@trees.register_static
class Static(str):
    pass


TREES = [1, None, (), [], {}, (1,), [1, [2, None]], {"b": 1, "a": (2, {"c": 3})}, Point(1, [2]), Layer([1, 2], "x"),
         OrderedDict(z=1, a=2), defaultdict(list, {"q": [1]}), trees.Partial(max, 3, key=None), Static("s"),
         (Static("t"), 5)]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_flatten_unflatten_round_trip(tree):
    leaves, treedef = trees.tree_flatten(tree)
    again = trees.tree_unflatten(treedef, leaves)
    assert type(again) is type(tree)
    if not isinstance(tree, trees.Partial):
        assert again == tree
    assert treedef.num_leaves == len(leaves)
    assert trees.tree_flatten(again) == (leaves, treedef)
    assert hash(trees.tree_structure(again)) == hash(treedef)
    assert treedef.flatten_up_to(tree) == leaves
    assert trees.make_treedef(treedef.node_data(), treedef.children()) == treedef
    assert treedef.num_nodes == 1 + sum(c.num_nodes for c in treedef.children())


@pytest.mark.parametrize("tree", [t for t in TREES if not isinstance(t, Static)][:12], ids=repr)
def test_python_treedefs_pickle(tree):
    treedef = PythonBackend().flatten(tree)[1]
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@pytest.mark.parametrize(("tree", "text"), [
    ({"a": 1, "b": (2, 3)}, "PyTreeDef({'a': *, 'b': (*, *)})"),
    ([1, (2,), None, ()], "PyTreeDef([*, (*,), None, ()])"),
    (Point(1, 2), "PyTreeDef(CustomNode(namedtuple[Point], [*, *]))"), (5, "PyTreeDef(*)"),
    (Box(1, "t"), "PyTreeDef(CustomNode(Box['t'], [*]))"), ({}, "PyTreeDef({})")])
def test_treedef_text(tree, text):
    assert repr(trees.tree_structure(tree)) == text


def test_structures_differ_by_type_keys_and_data():
    defs = [trees.tree_structure(t) for t in [(1,), [1], {"a": 1}, {"b": 1}, None, 1, (None,), Box(1, 0), Box(1, 1)]]
    assert len(set(defs)) == len(defs)
    assert trees.tree_structure((1,)) != "something else"


def test_dict_order_does_not_matter_but_keys_must_sort():
    assert trees.tree_flatten({"b": 1, "a": 2}) == trees.tree_flatten({"a": 2, "b": 1})
    with pytest.raises(ValueError, match=r"sort"):
        trees.tree_flatten({1: 0, "a": 0})


def test_is_leaf_stops_traversal():
    assert trees.tree_leaves([(1, 2), None], is_leaf=lambda x: isinstance(x, tuple) or x is None) == [(1, 2), None]
    assert trees.tree_map(len, {"a": (1, 2)}, is_leaf=lambda x: isinstance(x, tuple)) == {"a": 2}


def test_map_takes_subtrees_of_the_others():
    assert trees.tree_map(lambda x, y: (x, y), [1, 2], [3, (4, 5)]) == [(1, 3), (2, (4, 5))]


@pytest.mark.parametrize(("other", "words"), [
    ({"a": (1, 2, 3), "b": None}, r"tree 2 has at \['a'\] a tuple of 3 children; expected 2"),
    ({"a": [1, 2], "b": None}, r"at \['a'\] a list \(\[1, 2\]\); expected a tuple"),
    ({"a": (1, 2), "c": None}, r"lacks the keys \['b'\] and has the extra keys \['c'\]"),
    (5, r"has a int \(5\); expected a dict")])
def test_map_mismatch_error_names_path(other, words):
    with pytest.raises(ValueError, match=words):
        trees.tree_map(lambda x, y: x, {"a": (1, 2), "b": None}, other)


def test_map_skips_values_paired_with_none():
    assert trees.tree_map(lambda x, y: (x, y), (None, 1), (False, True)) == (None, (1, True))
    assert trees.tree_map(lambda *xs: xs, {"a": [1, None]}, {"a": [2, (3, 4)]}, {"a": [5, None]}) == {"a": [(1, 2, 5), None]}
    assert trees.tree_map(lambda x, y: (x, y), [None], [3], is_leaf=lambda x: x is None) == [(None, 3)]


def test_mismatch_of_static_data_is_reported():
    with pytest.raises(ValueError, match="Layer with data"):
        trees.tree_map(lambda x, y: x, Layer(1, "a"), Layer(1, "b"))


@pytest.mark.parametrize("leaves", [[1], [1, 2, 3]])
def test_wrong_number_of_leaves_is_rejected(leaves):
    with pytest.raises(ValueError, match="leaves for PyTreeDef; expected 2"):
        trees.tree_unflatten(trees.tree_structure((1, 2)), leaves)


def test_register_dataclass_checks_fields():
    @dataclasses.dataclass
    class Pair:
        a: int
        b: int
    with pytest.raises(ValueError, match=r"missing \['b'\]"):
        trees.register_dataclass(Pair, ["a"], [])
    with pytest.raises(ValueError, match=r"both contain the fields \['b'\]"):
        trees.register_dataclass(Pair, ["a", "b"], ["b"])
    trees.register_dataclass(Pair, data_fields=["b"], meta_fields=["a"])
    assert trees.tree_leaves(Pair(1, 2)) == [2]


def test_paths_name_every_leaf_in_order():
    tree = {"l": Layer([1, 2]), "p": Point(3, None), "b": (Box(4, 0), Keyed(5)), "o": OrderedDict(z=6)}
    paths = [trees.keystr(path) for path, _ in trees.tree_leaves_with_path(tree)]
    assert paths == ["['b'][0][<flat index 0>]", "['b'][1].value", "['l'].weight[0]", "['l'].weight[1]", "['o']['z']",
                     "['p'].x"]
    assert [leaf for _, leaf in trees.tree_leaves_with_path(tree)] == trees.tree_leaves(tree)


def test_transpose_and_broadcast():
    assert trees.tree_transpose(trees.tree_structure([0, 0]), None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="inner trees must have structure"):
            trees.tree_transpose(trees.tree_structure([0, 0]), trees.tree_structure((0,)), [(1, 2), (3, 4)])
    none = lambda x: x is None  # noqa: E731
    assert trees.broadcast_prefix((None, 0), ([1, 2], {"a": 3}), is_leaf=none) == [None, None, 0]
    assert trees.tree_broadcast((1, 2), ([5, 6], 7)) == ([1, 1], 2)
    with pytest.raises(ValueError, match="prefix"):
        trees.broadcast_prefix((1, 2), (1, 2, 3))
    assert trees.prefix_errors((1, 2), ([1], 2)) == []
    assert "in_axes" in str(trees.prefix_errors({"a": 1}, {"b": 1})[0]("in_axes"))


def test_reductions_and_queries():
    assert trees.tree_reduce(lambda a, b: a + b, {"a": 1, "b": (2,)}, 10) == 13
    assert trees.tree_all((True, 1)) and not trees.tree_all([0])
    assert trees.all_leaves([1, "x"]) and not trees.all_leaves([1, (2,)])
    assert trees.all_leaves([(1,), 2], is_leaf=lambda x: isinstance(x, tuple))
    assert all(trees.treedef_is_leaf(trees.tree_structure(t)) for t in (0, None, (), {}))
    assert not trees.treedef_is_leaf(trees.tree_structure([0]))
    one = trees.tree_structure((1, [2]))
    assert trees.treedef_tuple(trees.treedef_children(one)) == one
    assert one.compose(trees.tree_structure({"a": 0})) == trees.tree_structure(({"a": 0}, [{"a": 0}]))


def test_new_backend_receives_earlier_registrations():
    old, flatten = trees.backend(), trees.tree_flatten
    new = PythonBackend()
    try:
        trees.set_backend(new)
        assert trees.backend() is new and trees.tree_flatten is flatten
        assert trees.tree_leaves((Box(1, 0), Layer(2))) == [1, 2]

        class Late:
            pass
        trees.register_pytree_node(Late, lambda x: ((), None), lambda d, c: Late())
        assert trees.tree_leaves(Late()) == [] and Late in new.nodes
    finally:
        trees.set_backend(old)


def test_partial_maps_over_its_arguments():
    p = trees.tree_map(lambda x: x * 2, trees.Partial(divmod, 10, 3))
    assert isinstance(p, trees.Partial) and p() == (3, 2)


def test_arguments_of_inner_partial_are_part_of_structure():
    inner = functools.partial(pow, 2)
    outer = trees.Partial(inner, 3, mod=5)
    assert outer() == 3 and trees.tree_leaves(outer) == [3, 5]
    assert trees.tree_map(lambda x: x + 2, outer)() == pow(2, 5, 7)
    assert trees.tree_structure(outer) == trees.tree_structure(trees.Partial(inner, 0, mod=1))
    assert trees.tree_structure(outer) != trees.tree_structure(trees.Partial(functools.partial(pow, 2), 3, mod=5))
    assert (outer.func.func, outer.func.args, outer.func.keywords) == (pow, (2,), {})
    assert trees.tree_leaves(trees.Partial(trees.Partial(pow, 2), 3)) == [3]
    assert pickle.loads(pickle.dumps(outer))() == 3


def test_path_keys_support_pattern_matching():
    found = []
    for path, _ in trees.tree_leaves_with_path({"a": [Point(1, 2)], "b": Box(3, 0)}):
        for key in path:
            match key:
                case trees.SequenceKey(i) | trees.GetAttrKey(i) | trees.DictKey(i) | trees.FlattenedIndexKey(i):
                    found.append(i)
    assert found == ["a", 0, "x", "a", 0, "y", "b", 0]


TREE = {"b": Point(1, (2, None)), "a": [3, {"c": Box([4], 0)}], "n": None, "k": Keyed(5), "o": OrderedDict(z=6, y=7), "e": ()}


@pytest.mark.parametrize("stops,paths", [
    (lambda path, x: len(path) == 1, ["['a']", "['b']", "['e']", "['k']", "['n']", "['o']"]),
    (lambda path, x: not path, [""]),
    (lambda path, x: x is None and path[-1] == trees.SequenceKey(1),
     ["['a'][0]", "['a'][1]['c'].value[0]", "['b'].x", "['b'].y[0]", "['b'].y[1]", "['k'].value", "['o']['z']", "['o']['y']"]),
    (lambda path, x: trees.keystr(path) in ("['b'].y", "['o']"),
     ["['a'][0]", "['a'][1]['c'].value[0]", "['b'].x", "['b'].y", "['k'].value", "['o']"])])
def test_is_leaf_can_use_paths(stops, paths):
    named, treedef = trees.tree_flatten_with_path(TREE, stops, True)
    names = [trees.keystr(path).replace("[<flat index 0>]", ".value") for path, _ in named]
    assert names == paths and treedef.num_leaves == len(paths)
    assert [x for _, x in named] == [x for _, x in trees.tree_leaves_with_path(TREE, is_leaf=stops, is_leaf_takes_path=True)]
    made = trees.tree_map_with_path(lambda path, x, y: (path, x is y), TREE, TREE, is_leaf=stops, is_leaf_takes_path=True)
    assert treedef.flatten_up_to(made) == [(path, True) for path, _ in named]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_associative_reduction_splits_in_halves(n):
    leaves = list("abcdefgh"[:n])
    text = trees.tree_reduce_associative(lambda a, b: f"({a}{b})", [leaves, None])
    assert text.replace("(", "").replace(")", "") == "".join(leaves)
    assert max(text[:i].count("(") - text[:i].count(")") for i in range(len(text) + 1)) == (n - 1).bit_length()


def test_associative_reduction_of_empty_tree():
    assert trees.tree_reduce_associative(max, {}, identity=3) == 3
    assert trees.tree_reduce_associative(lambda a, b: a + b, [[1], [2]], is_leaf=lambda x: x == [1] or x == [2]) == [1, 2]
    with pytest.raises(TypeError, match="no leaves; pass identity"):
        trees.tree_reduce_associative(max, [None])


def test_type_seen_as_leaf_can_be_registered_as_node():
    class Later:
        pass
    assert trees.tree_structure([Later()]).num_leaves == 1
    trees.register_pytree_node(Later, lambda x: ((), None), lambda d, c: Later())
    assert trees.tree_structure([Later()]).num_leaves == 0


@pytest.mark.parametrize("call", [trees.tree_flatten, trees.tree_leaves, trees.tree_structure, trees.tree_all,
                                  lambda tree: trees.tree_map(len, tree)])
def test_dict_with_unsortable_keys_error_names_path(call):
    with pytest.raises(TypeError, match=r"the dict at \['a'\]\[1\] has the keys 1, 'b', of types int and str. Use keys of one"):
        call({"a": [0, {1: 2, "b": 3}]})
    with pytest.raises(TypeError, match="the dict has the keys"):
        call({1: 2, "b": 3})


def test_one_level_with_keys():
    Pair = namedtuple("Pair", "x y")
    assert trees.flatten_one_level_with_keys(Pair(1, [2])) == ([(trees.GetAttrKey("x"), 1), (trees.GetAttrKey("y"), [2])], Pair)
    assert trees.flatten_one_level_with_keys((1, [2]))[0] == [(trees.SequenceKey(0), 1), (trees.SequenceKey(1), [2])]
    assert trees.flatten_one_level_with_keys(None) == ([], None)
    with pytest.raises(ValueError, match="flatten_one_level_with_keys: tree must be a node; got a leaf of type int"):
        trees.flatten_one_level_with_keys(3)


def test_classes_of_nodes():
    Pair = namedtuple("Pair", "x y")

    @trees.register_static
    class Registered:
        pass

    assert all(map(trees.is_tree_node, (tuple, list, dict, type(None), OrderedDict, Pair, Registered)))
    assert not any(map(trees.is_tree_node, (int, str, object, type("Unregistered", (Registered,), {}))))
    with pytest.raises(TypeError, match="is_tree_node: typ must be a class; got int: 3"):
        trees.is_tree_node(3)


def test_static_fields_are_part_of_the_structure():
    @trees.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weights: object
        name: str = trees.static(default="a", metadata={"unit": 1})

    assert trees.tree_leaves(Layer(1.0)) == [1.0] and dataclasses.fields(Layer)[1].metadata == {"static": True, "unit": 1}
    assert trees.tree_structure(Layer(1.0, "a")) != trees.tree_structure(Layer(1.0, "b"))
