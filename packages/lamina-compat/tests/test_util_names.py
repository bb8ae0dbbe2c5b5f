"""`jax.util`, `api_util`, `linear_util` and `tree_util`: results that JAX 0.4.30 gives."""
import collections
import gc
import inspect
import weakref

import numpy as np
import pytest
from lamina_compat.names import api_util, linear_util, tree_util, util
from lamina_ir import ShapeDtypeStruct, config, trees


# --- util -----------------------------------------------------------------------------------------------------------
def test_lists_of_equal_length():
    assert util.safe_map(lambda a, b: a + b, [1, 2], (3, 4)) == [4, 6]
    assert util.safe_zip([1, 2], (3, 4)) == [(1, 3), (2, 4)]
    for call in (lambda: util.safe_map(max, [1, 2], [3]), lambda: util.safe_zip([1, 2], [3])):
        with pytest.raises(ValueError, match=r"must have the same length; got lengths \[2, 1\]"):
            call()
    seen = []
    assert util.foreach(lambda a, b: seen.append(a + b), [1], [2]) is None and seen == [3]


def test_lists_are_split_and_merged():
    assert util.unzip2([]) == ((), ()) and util.unzip3([(1, 2, 3)]) == ((1,), (2,), (3,))
    assert util.split_list([1, 2, 3], [1, 1]) == [[1], [2], [3]] and util.split_list([1], [2]) == [[1], []]
    assert util.split_list_checked([1, 2, 3], [1, 2]) == util.unflatten([1, 2, 3], [1, 2]) == [[1], [2, 3]]
    flags, values = [True, False, True], "abc"
    parts = util.partition_list(flags, values)
    assert parts == (["b"], ["a", "c"]) and util.merge_lists(flags, *parts) == list(values)
    chosen, rest, merge = util.split_merge(str.isupper, ["A", "b", "C"])
    assert merge(chosen, rest) == ["A", "b", "C"]
    assert util.split_dict({"a": 1, "b": 2}, ["b", "a"]) == [2, 1]
    assert util.concatenate([[1], (2,)]) == [1, 2]
    assert util.subs_list([None, 1], "xy", "ab") == ["a", "y"]
    assert util.subs_list2([0, None, None], [None, 0, None], "x", "y", "abc") == ["x", "y", "c"]
    for call in (lambda: util.split_list_checked([1, 2, 3], [1, 1]), lambda: util.partition_list([True], [1, 2]),
                 lambda: util.merge_lists([True, False], [1], [2, 3]), lambda: util.split_dict({"a": 1, "b": 2}, ["b"])):
        with pytest.raises(AssertionError, match=": "):
            call()


def test_tuples_change_at_a_position():
    assert util.tuple_insert((1, 2), 1, 9) == (1, 9, 2) and util.tuple_insert((1,), 1, 2) == (1, 2)
    assert util.tuple_delete((1, 2), 0) == (2,) and util.tuple_update((1, 2), 0, 5) == (5, 2)
    assert util.subvals((1, 2, 3), [(0, 9)]) == (9, 2, 3)
    with pytest.raises(AssertionError, match="idx must be from 0 to 0; got 3"):
        util.tuple_delete((1,), 3)


def test_axes_are_nonnegative():
    assert util.canonicalize_axis(np.int64(-1), 3) == 2 and util.canonicalize_axis_tuple(None, 2) == (0, 1)
    assert util.canonicalize_axis_tuple((-1, 0), 2) == (1, 0) and util.canonicalize_axis_tuple(-1, 2) == (1,)
    with pytest.raises(ValueError, match="axis 3 is out of bounds for array of dimension 3"):
        util.canonicalize_axis(3, 3)
    with pytest.raises(ValueError, match="must be different"):
        util.canonicalize_axis_tuple((0, -2), 2)
    assert util.ceil_of_ratio(5, 2) == 3 and util.stable_unique([2, 1, 2]) == [2, 1]


class Node:
    def __init__(self, name, parents=()):
        self.name, self.parents = name, list(parents)

    def __repr__(self):
        return self.name


def test_nodes_are_sorted_after_their_parents():
    a = Node("a")
    b, c = Node("b", [a]), Node("c", [a])
    d = Node("d", [b, c])
    assert util.toposort([d]) == util.toposort([b, c, d]) == [a, b, c, d]
    chain = [Node("0")]
    for i in range(1, 5000):
        chain.append(Node(str(i), [chain[-1]]))
    assert util.toposort([chain[-1]]) == chain
    a.parents.append(d)
    with pytest.raises(ValueError, match="must not have cycles"):
        util.toposort([d])


def test_functions_are_equal_by_code_and_closure():
    def make(n):
        return util.HashableFunction(lambda x: x + n, closure=(n,))
    assert make(1) == make(1) and hash(make(1)) == hash(make(1)) and make(1) != make(2) and make(2)(3) == 5
    assert util.as_hashable_function(closure=1)(lambda x: x)(4) == 4

    def add(x, y):
        return x + y
    assert util.HashablePartial(add, 1) == util.HashablePartial(add, 1) != util.HashablePartial(add, 2)
    assert len({util.HashablePartial(add, 1), util.HashablePartial(add, 1)}) == 1 and util.HashablePartial(add, 1)(2) == 3
    kwargs = {}
    assert util.WrapKwArgs(kwargs) == util.WrapKwArgs(kwargs) != util.WrapKwArgs({})
    assert util.HashableWrapper(2) == util.HashableWrapper(2) and util.HashableWrapper([]) != util.HashableWrapper([])


def test_names_and_documentation_are_copied():
    def g(x: int) -> int:
        """Return x."""

    wrapped = util.wraps(g, namestr="h_{fun}", docstr="D {fun}: {doc} {more}", more="M")(lambda y: y)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__) == ("h_g", "D g: Return x. M", g)
    assert util.wraps(len)([].append) is not None  # attributes of built-in methods cannot be set
    assert util.wrap_name("f", "grad") == "grad(f)" and util.fun_name(util.partial(g, 1)) == "g"
    assert util.fun_name(3) == "<unnamed function>" and util.set_module("m")(g).__module__ == "m"
    assert util.curry(lambda a, b: a + b)(1)(2) == 3


def test_results_are_cached_per_setting():
    calls = []

    @util.cache()
    def f(x):
        calls.append(x)
        return config.enable_x64.value

    assert f(1) is f(1) is False and calls == [1]
    before = config.enable_x64.value
    config.update("enable_x64", True)
    try:
        assert f(1) is True
    finally:
        config.update("enable_x64", before)
    assert f(1) is False and calls == [1, 1]
    f.cache_clear()
    assert f(1) is False and len(calls) == 3 and f.cache_info().misses == 1
    assert util.cache(lambda x: x)(3) == util.memoize(lambda x: x)(3) == 3


def test_cached_results_end_with_their_object():
    class Key:
        pass

    calls, results = [], []

    def call(key, *args, **kwargs):
        calls.append(args)
        results.append(Key())
        return len(calls)

    cached = util.weakref_lru_cache(call, maxsize=2)
    key = Key()
    assert cached(key, 1) == cached(key, 1) == 1 and cached(Key(), 1) == 2
    cached(key, 2), cached(key, 3)
    assert cached(key, 1) == 5  # the result for 1 was the oldest of three
    weak = weakref.ref(key)
    del key
    gc.collect()
    assert weak() is None
    other = Key()
    cached(other)
    cached.evict_weakref(other)
    assert cached(other) == len(calls) == 7
    cached.cache_clear()
    assert cached(other) == 8
    assert util.weakref_lru_cache(maxsize=3)(call)(other) == 9


# --- api_util -------------------------------------------------------------------------------------------------------
def wrap(f):
    return linear_util.wrap_init(f)


def test_functions_of_trees_become_functions_of_leaves():
    tree = trees.tree_structure(((0, [0]), {"k": 0}))
    flat, out_tree = api_util.flatten_fun(wrap(lambda x, y, k: {"a": x, "b": (y, k)}), tree)
    assert flat.call_wrapped(1, 2, 3) == [1, 2, 3] and out_tree() == trees.tree_structure({"a": 0, "b": ([0], 0)})
    flat, out_tree = api_util.flatten_fun_nokwargs(wrap(lambda x, y: [y, x]), trees.tree_structure((0, 0)))
    assert flat.call_wrapped(1, 2) == [2, 1] and out_tree() == trees.tree_structure([0, 0])
    flat, out_trees = api_util.flatten_fun_nokwargs2(wrap(lambda x: ([x], {"aux": 5})), trees.tree_structure((0,)))
    assert flat.call_wrapped(1) == ([1], [5]) and out_trees()[1] == trees.tree_structure({"aux": 0})
    io = trees.tree_structure(((0, [0]), {})), trees.tree_structure({"s": 0})
    assert api_util.apply_flat_fun(lambda x, y: [x + y], io, 1, [2]) == {"s": 3}
    assert api_util.apply_flat_fun_nokwargs(lambda x: [x], (trees.tree_structure((0,)), trees.tree_structure(0)), (4,)) == 4
    with pytest.raises(TypeError, match="must have the structure"):
        api_util.apply_flat_fun(lambda x: x, io, 1)
    paths, names = api_util.result_paths(wrap(lambda: {"a": (1, 2)}))
    assert paths.call_wrapped() == {"a": (1, 2)} and names() == ["result['a'][0]", "result['a'][1]"]
    axes, out_axes = api_util.flat_out_axes(wrap(lambda: (1, [2, 3])), (0, None))
    assert axes.call_wrapped() == (1, [2, 3]) and out_axes() == (0, None, None)
    seen, in_tree = api_util.flattened_fun_in_tree(wrap(lambda x, k: x))
    assert seen.call_wrapped([1], k=2) == [1] and in_tree() == trees.tree_structure((([0],), {"k": 0}))


def test_fixed_arguments_are_part_of_the_function():
    f, dynamic = api_util.argnums_partial(wrap(lambda x, y, z: (x, y, z)), (-1, 0), ("a", "b", "c"))
    assert dynamic == ("a", "c") and f.call_wrapped(1, 2) == (1, "b", 2)

    def g(x, y):
        return x

    one, two, other = (api_util.argnums_partial(wrap(g), 0, (1, key))[0] for key in ("k", "k", "other"))
    assert one == two != other and hash(one) == hash(two)
    assert api_util.argnums_partial(wrap(g), 0, (1, 1))[0] != api_util.argnums_partial(wrap(g), 0, (1, 1.0))[0]
    with pytest.raises(ValueError, match="fixed argument 1 must be hashable; got list"):
        api_util.argnums_partial(wrap(g), 0, (1, []))
    f, dynamic = api_util.argnums_partial(wrap(g), 0, (1, []), require_static_args_hashable=False)
    assert f.call_wrapped(*dynamic) == 1
    f, dynamic = api_util.argnums_partial_except(wrap(g), (1, 7), (1, 2), allow_invalid=True)
    assert dynamic == (1,)
    with pytest.raises(ValueError, match="positions must be from -2 to 1; got 7"):
        api_util.argnums_partial_except(wrap(g), (1, 7), (1, 2), allow_invalid=False)


def test_donated_leaves():
    tree = trees.tree_structure(((1, [2, 3]), {"k": 4}))
    assert api_util.donation_vector((1,), (), tree) == (False, True, True, False)
    assert api_util.donation_vector((0,), ("k",), tree) == (True, False, False, True)
    assert api_util.donation_vector((1,), (), trees.tree_structure((1, [2, 3])), kws=False) == (False, True, True)
    assert api_util.rebase_donate_argnums((2,), (0,)) == (1,)
    with pytest.raises(ValueError, match="must be disjoint; both have"):
        api_util.rebase_donate_argnums((2,), (2,))


def test_axes_of_leaves():
    tree = trees.tree_structure((1, [2, 3]))
    assert api_util.flatten_axes("n", tree, (0, None)) == [0, None, None] and api_util.flatten_axes("n", tree, 0) == [0] * 3
    assert api_util.flatten_axes("n", trees.tree_structure(((1,), {"k": 2})), (5,), kws=True) == [5, 0]
    with pytest.raises(ValueError, match="n specification must be a tree prefix of the corresponding value"):
        api_util.flatten_axes("n", tree, (0, [1]))


@pytest.mark.parametrize("numbers, names, wanted", [
    (None, None, ((), ())), (0, None, ((0,), ("x",))), ((0, 1), None, ((0, 1), ("x", "y"))), (None, "y", ((1,), ("y",))),
    (None, ("x", "z"), ((0,), ("x", "z"))), (1, "z", ((1,), ("z",))), (-1, None, ((-1,), ()))])
def test_positions_and_names_are_inferred(numbers, names, wanted):
    assert api_util.infer_argnums_and_argnames(inspect.signature(lambda x, y=1, *, z=2: 0), numbers, names) == wanted


def test_static_and_donated_arguments_are_resolved():
    def f(x, y):
        return x
    signature = api_util.fun_signature(f)
    assert api_util.resolve_argnums(f, signature, 0, None, None, "y") == ((0,), ("x",), (1,), ("y",))
    with pytest.raises(ValueError, match="must be disjoint; for `f`"):
        api_util.resolve_argnums(f, signature, 0, None, 0, None)
    assert api_util.fun_signature(3) is None
    assert api_util._ensure_index(np.int32(1)) == 1 and api_util._ensure_index_tuple(1) == (1,)


def test_types_of_values():
    assert api_util.shaped_abstractify(1.0).weak_type and api_util.shaped_abstractify(np.zeros(3, "int32")).shape == (3,)
    assert api_util.shaped_abstractify(ShapeDtypeStruct((2,), np.float32)).dtype == np.float32
    with pytest.raises(TypeError):
        api_util.shaped_abstractify("text")
    for value in (3, (i for i in ())):
        with pytest.raises(TypeError, match="Expected a callable value"):
            api_util.check_callable(value)
    with pytest.raises(TypeError, match="generator function"):
        def generate():
            yield 1
        api_util.check_callable(generate)


def test_description_of_a_function():
    def f(x, y, *rest, k):
        return x
    info = api_util.debug_info("jit", f, ({"a": 1}, 2, 3), {"k": [4]}, static_argnums=(1,))
    assert info.arg_names == ("x['a']", "args[2]", "k[0]") and info.func_name == "f" and __file__ in info.func_src_info
    assert api_util.fun_sourceinfo(len) == "len"
    assert api_util.debug_info_final(wrap(f), info).debug_info is info


# --- linear_util ----------------------------------------------------------------------------------------------------
def test_transformations_that_call_the_function():
    @linear_util.transformation2
    def scaled(fun, k, x):
        return fun(k * x) + 1

    @linear_util.transformation_with_aux2
    def noting(fun, store, x):
        out = fun(x)
        store.store(("noted", out))
        return out

    f, aux = noting(scaled(wrap(lambda x: x * 2), 10))
    with pytest.raises(linear_util.StoreException, match="has not run yet"):
        aux()
    assert f.call_wrapped(1) == 21 and aux() == ("noted", 21)
    with pytest.raises(linear_util.StoreException):
        f.call_wrapped(1)
    again, aux = noting(scaled(wrap(lambda x: x), 10), use_eq_store=True)
    assert again.call_wrapped(1) == again.call_wrapped(1) and aux() == ("noted", 11)


def test_transformations_of_both_kinds_are_cached_with_auxiliary_output():
    @linear_util.transformation_with_aux2
    def noting(fun, store, x):
        store.store(x)
        return fun(x)

    @linear_util.transformation_with_aux
    def counting(x):
        out = yield (x,), {}
        yield out, "counted"

    calls = []
    run = linear_util.cache(lambda fun, x: calls.append(x) or fun.call_wrapped(x))

    def f(x):
        return x

    for _ in range(2):
        fun, noted = noting(wrap(f))
        fun, counted = counting(fun)
        keep = fun
        assert run(fun, 3) == 3 and noted() == 3 and counted() == "counted"
        first = keep if _ == 0 else first
    assert calls == [3] and first == keep and hash(first) == hash(keep)


def test_partial_and_annotated_functions():
    f = linear_util.hashable_partial(wrap(lambda x, y: x - y), 5)
    assert f.call_wrapped(3) == 2
    assert linear_util.annotate(f, None) is f and linear_util.annotate(f, "types").in_type == "types"
    assert linear_util.wrap_init(abs, debug_info="text").debug_info == "text"


# --- tree_util ------------------------------------------------------------------------------------------------------
Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("node, children, data", [
    ({"b": 1, "a": 2}, (2, 1), ("a", "b")), ([1], (1,), None), (None, (), None), ((1, 2), (1, 2), None),
    (Point(1, [2]), (1, [2]), None), (collections.OrderedDict(b=1, a=2), (1, 2), ("b", "a"))])
def test_nodes_are_taken_apart_and_made_again(node, children, data):
    assert type(node) in tree_util._registry
    entry = tree_util._registry[type(node)]
    found, found_data = entry.to_iter(node)
    assert tuple(found) == children and (data is None or found_data == data)
    assert entry.from_iter(found_data, found) == node
    keys, found_data = tree_util._registry_with_keypaths[type(node)].flatten_with_keys(node)
    assert tuple([child for _, child in keys]) == children
    assert tree_util._registry_with_keypaths[type(node)].unflatten_func(found_data, children) == node


def test_registry_tells_classes_of_leaves():
    assert int not in tree_util._registry and tree_util._registry.get(int) is None and "int" not in tree_util._registry
    with pytest.raises(KeyError):
        tree_util._registry[int]
    for call in (lambda: list(tree_util._registry), lambda: len(tree_util._registry)):
        with pytest.raises(TypeError, match="cannot list its classes"):
            call()
    with pytest.raises(TypeError, match="use jax.tree_util.register_pytree_node"):
        tree_util._registry[int] = None


def test_one_level():
    assert tree_util.flatten_one_level({"b": 1, "a": [2]}) == (([2], 1), ("a", "b"))
    with pytest.raises(ValueError, match="must be a node; got a leaf of type int"):
        tree_util.flatten_one_level(1)
    assert tree_util.generate_key_paths({"a": 1}) == [((trees.DictKey("a"),), 1)]
    assert isinstance(trees.DictKey("a"), tree_util.BuiltInKeyEntry)


def test_differences_of_structures():
    def errors(x, y):
        return [(trees.keystr(path), why) for path, _, _, why in tree_util.equality_errors(x, y)]
    assert errors((1, [2]), (3, [4])) == [] and errors((1, 2), (1, [2])) == [("[1]", "their Python types differ")]
    assert errors({"a": [1]}, {"a": [1, 2]}) == [("['a']", "their lengths differ")]
    assert errors({"a": 1}, {"b": 1}) == [("", "their data differ")] and errors([None, 1], [2, 1]) == [
        ("[0]", "their Python types differ")]
