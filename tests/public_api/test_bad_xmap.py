"""Invalid arguments of `xmap` raise at tracing at the latest, and name the argument, the axis, sizes and types, without
internal names: if called directly, under `jit`, in another `xmap` and in gradients."""
import lamina as jax
import numpy as np
import pytest
from lamina import lax, random
from lamina.experimental.maps import SerialLoop, serial_loop, xmap

X = np.ones((4, 3), np.float32)


def ident(v):
    return v


def loss(v, w):
    return v * w


B = {0: "b"}
# arguments of xmap, those of the function, the class of the error and its text
CASES = {
    "in_axes is vmap's": ((ident, 0, B), (X,), TypeError, r"in_axes must be a dict .* got int: 0. vmap's integers are written"),
    "in_axes is None": ((ident, None, {}), (X,), TypeError, "in_axes must be .* For an array without named axes write {}"),
    "in_axes is a string": ((ident, "b", {}), (X,), TypeError, "in_axes must be .* got str: 'b'"),
    "in_axes is an Ellipsis": ((ident, ..., {}), (X,), TypeError, r"in_axes must be .* Write it in a list, \[...\]"),
    "out_axes is vmap's": ((ident, B, 0), (X,), TypeError, "out_axes must be a dict .* got int: 0"),
    "no function": ((3, B, B), (X,), TypeError, "xmap: expected a function; got int: 3"),
    "unknown axis in out_axes": ((ident, B, {0: "c"}), (X,), ValueError,
                                 "out_axes names the axis 'c', which is in neither in_axes nor axis_sizes; those are 'b'"),
    "name left out": ((ident, B, {}), (X,), ValueError,
                      r"output is f32\[3\]{b}: it has the named axis 'b', which out_axes, {}, leaves out: it is an argument"),
    "name left out in a tree": ((lambda v: {"loss": v * 2}, B, {"loss": {}}), (X,), ValueError,
                                r"output\['loss'\] is f32\[3\]{b}: .* out_axes\['loss'\], {}, leaves out: mul at .*test_bad"),
    "axis twice in an argument": ((ident, {0: "b", 1: "b"}, ["b"]), (X,), ValueError, "the axis 'b' is named twice"),
    "axis twice in a result": ((ident, B, {0: "b", 1: "b"}), (X,), ValueError, "out_axes: the axis 'b' is named twice"),
    "one dimension twice": ((ident, {0: "b", -2: "c"}, ["b", "c"]), (X,), ValueError,
                            r"two axes are named for dimension 0 of v, float32\[4,3\]"),
    "more names than dimensions": ((ident, ["a", "b", "c", ...], []), (X,), ValueError,
                                   r"names 3 axes, .* of v, float32\[4,3\], which has 2 dimensions"),
    "list without Ellipsis": ((ident, ["a"], ["a", ...]), (X,), ValueError, r"must name all 2 dimensions of v, float32\[4,3\]"),
    "result's list without Ellipsis": ((ident, ["a", ...], ["a"]), (X,), ValueError, "must name all 2 dimensions of output"),
    "dimension out of range": ((ident, {5: "b"}, B), (X,), ValueError, r"names dimension 5, .* of v, float32\[4,3\]"),
    "result's dimension": ((ident, B, {7: "b"}), (X,), ValueError, "names dimension 7, .* of output"),
    "an integer as name": ((ident, {0: 3}, B), (X,), TypeError, "in_axes: .*3 cannot name a mapped axis"),
    "None as name": ((ident, {0: None}, {}), (X,), TypeError, "an axis name must not be None"),
    "an Ellipsis inside": ((ident, [..., "b"], {}), (X,), TypeError, "the Ellipsis must be last"),
    "a bool as dimension": ((ident, {True: "b"}, {}), (X,), TypeError, "the keys of a mapping are positions"),
    "sizes": ((loss, B, B), (X, X[0]), ValueError, r"the axis 'b' differ: w, float32\[3\], has 3 along dimension 0, and v, "
              r"float32\[4,3\], has 4 along dimension 0"),
    "sizes given": ((ident, B, B, dict(axis_sizes={"b": 5})), (X,), ValueError,
                    "the axis 'b' differ: v, .* has 4 along dimension 0, and axis_sizes says 5"),
    "size 0 given": ((ident, B, B, dict(axis_sizes={"b": 0})), (X,), ValueError, r"axis_sizes\['b'\] must be at least 1"),
    "size as text": ((ident, B, B, dict(axis_sizes={"b": "4"})), (X,), TypeError, r"axis_sizes\['b'\] must be an integer"),
    "sizes not by name": ((ident, B, B, dict(axis_sizes=4)), (X,), TypeError, "axis_sizes must be a dict"),
    "no size": ((ident, (B, {0: "c"}), B), (X, []), (TypeError, ValueError), "no argument has the axis 'c'"),
    "entries": ((loss, (B,), B), (X, X), ValueError, r"one entry per argument; got 1 entries for 2 arguments \(v, w\)"),
    "prefix": ((ident, ({"p": B},), B), ({"q": X},), ValueError, r"in_axes must be a prefix .* lacks the keys \['p'\]"),
    "result's prefix": ((ident, B, {"p": B}), (X,), ValueError, "out_axes must be a prefix of the function's output"),
    "empty axis": ((ident, B, B), (X[:0],), ValueError, r"the axis 'b' has size 0: v, float32\[0,3\]"),
    "no array": ((ident, B, B), ("text",), TypeError, "v: expected an array or a number; got str"),
    "no array returned": ((lambda v: "text", B, B), (X,), TypeError, "returned str at output"),
    "unbound name": ((lambda v: lax.psum(v, "z"), B, {}), (X,), ValueError,
                     "'z' is not bound; bound here: .*'b'.* xmap in .*axis_sizes"),
    "unbound name to sum over": ((lambda v: v.sum("z"), B, {}), (X,), ValueError, "'z' is not bound; bound here: .*'b'"),
    "einsum names what an operand lacks": ((lambda v, w: jax.numpy.einsum("a{b},a{b}->{}", v, w), (B, {}), {}), (X, X[0]),
                                           ValueError, r"operand 1 of .* has no axis 'b': it is float32\[3\]"),
    "einsum's result": ((lambda v: jax.numpy.einsum("a{b}->{z}", v), B, {}), (X,), ValueError,
                        "the result's axis 'z' is in no operand"),
    "a name where a position is meant": ((lambda v: jax.numpy.concatenate([v, v], axis="b"), B, B), (X,), TypeError,
                                         "concatenate: axis takes positional axes only, integers; got the name 'b'"),
    "a position where a name is meant": ((lambda v: lax.all_gather(v, 0), B, B), (X,), TypeError,
                                         "all_gather: expected names of mapped axes; got the integer 0"),
    "backend by number": ((ident, B, B, dict(backend=3)), (X,), TypeError,
                          "backend must be the name of a platform.* got int: 3"),
    "a name again inside": ((lambda v: xmap(ident, B, B)(v), B, B), (X,), ValueError,
                            "'b' is already bound by an enclosing map"),
    "inner name left out": ((lambda v: xmap(ident, {0: "c"}, {})(v), B, B), (X,), ValueError, r"output is f32\[\]{b,c}: "),
    "donated": ((ident, B, B, dict(donate_argnums=4)), (X,), ValueError, "donate_argnums 4 is out of range"),
    "backend": ((ident, B, B, dict(backend="gnu")), (X,), RuntimeError, "no platform 'gnu'"),
    "resource of an unknown axis": ((ident, B, B, dict(axis_resources={"z": "x"})), (X,), ValueError,
                                    "axis_resources names the axis 'z', which is in neither in_axes nor axis_sizes"),
    "a resource twice": ((ident, B, B, dict(axis_resources={"b": ("x", "x")})), (X,), ValueError, "names a resource twice"),
    "resources not by name": ((ident, B, B, dict(axis_resources="b")), (X,), TypeError, "axis_resources must be a dict"),
    "resources without a mesh": ((ident, B, B, dict(axis_resources={"b": "x"})), (X,), ValueError, "no mesh is in scope"),
    "iterations that do not divide": ((ident, B, B, dict(axis_resources={"b": SerialLoop(3)})), (X,), ValueError,
                                 r"the axis 'b' of size 4 cannot be divided evenly over SerialLoop\(3\). .* multiple of 3"),
    "one loop twice": ((ident, B, B, dict(axis_resources={"b": (SerialLoop(2), SerialLoop(2))})), (X,), ValueError,
                       "names a resource twice"),
    "a loop that is not in scope": ((ident, B, B, dict(axis_resources={"b": "steps"})), (X,), ValueError,
                                    "gives the axis 'b' 'steps', and no mesh is in scope. .* `with serial_loop"),
    "a branch on a traced value": ((lambda v: v if v.sum() > 0 else -v, B, B), (X,), TypeError, "no known number"),
}


def clips(v):  # a rule whose cotangent has another shape
    f = jax.custom_vjp(lambda u: u)
    f.defvjp(lambda u: (u, None), lambda residual, ct: (ct[:2],))
    return jax.grad(lambda u: f(u).sum())(v)


INSIDE = {  # invalid calls in the mapped function, with the class of the error and its text
    "too few rows to scatter": (lambda v: lax.psum_scatter(v, "b"), ValueError,
                                r"psum_scatter: axis 0 .* the size of the mapped axis 'b', 4; got float32\[3\]"),
    "no multiple to scatter": (lambda v: lax.psum_scatter(v, "b", tiled=True), ValueError,
                               "must be a multiple of the size of the mapped axis 'b', 4"),
    "exchange in groups": (lambda v: lax.all_to_all(v, "b", 0, 0, axis_index_groups=[[0, 1], [2, 3]]), ValueError,
                           r"all_to_all: axis 0 .* the size of a group of the mapped axis 'b', 2; got float32\[3\]"),
    "swapped sizes": (lambda v: lax.pswapaxes(v, "b", 0), ValueError,
                      "pswapaxes: axis 0 .* of the mapped axis 'b', 4; got float32"),
    "groups that leave some out": (lambda v: lax.psum(v, "b", axis_index_groups=[[0, 1]]), ValueError,
                                   r"psum: axis_index_groups must hold all indices 0..3 of the axis 'b', of size 4"),
    "groups of two sizes": (lambda v: lax.all_gather(v, "b", axis_index_groups=[[0], [1, 2, 3]]), ValueError,
                            "all_gather: axis_index_groups must split .* the axis 'b', of size 4, into"),
    "a destination out of range": (lambda v: lax.ppermute(v, "b", [(0, 9)]), ValueError,
                                   "ppermute: .* of the axis 'b', of size 4"),
    "a shuffle that is short": (lambda v: lax.pshuffle(v, "b", [0, 1]), ValueError,
                                "pshuffle: .* of the axis 'b', of size 4"),
    "no such source": (lambda v: lax.pbroadcast(v, "b", -1), ValueError,
                       "pbroadcast: source .* of the axis 'b', of size 4; got -1"),
    "a pair of one": (lambda v: lax.pdot(v, v, "b", ((0,),)), TypeError,
                      r"pdot: pos_contract must be a pair, .*; got \(\(0,\),\)"),
    "an index of a number": (lambda v: v * lax.axis_index(0), TypeError, "axis_index: expected names .* integer 0"),
    "reduce_axes by number": (lambda v: jax.grad(jax.numpy.sum, reduce_axes=3)(v), TypeError,
                              "grad: reduce_axes: .* integer 3"),
    "reduce_axes by position": (lambda v: jax.vjp(lambda u: u * 2, v, reduce_axes=(0,))[1](v)[0], TypeError,
                                "vjp: reduce_axes: expected names of mapped axes; got the integer 0"),
    "reduce_axes unbound": (lambda v: jax.grad(jax.numpy.sum, reduce_axes="batch")(v), ValueError, "'batch' is not bound.*'b'"),
    "a shape with a name": (lambda v: v + random.normal(random.PRNGKey(0), ("b",)), TypeError,
                            r"normal: shape must hold integers; got \('b',\).*NamedShape"),
    "a named shape of strings": (lambda v: v + random.normal(random.PRNGKey(0), random.NamedShape("b", b=4)), TypeError,
                               "NamedShape: size 0 must be an integer; got str: 'b'"),
    "a named shape of another size": (lambda v: v + random.normal(random.PRNGKey(0), random.NamedShape(3, b=5)),
                                      ValueError, r"normal: .*NamedShape\(3, b=5\), but the mapped axis 'b' has 4 positions"),
    "a name twice to sum over": (lambda v: v.sum(("b", "b")), ValueError, r"sum: axes \('b', 'b'\) name an axis twice"),
    "a position with a name": (lambda v: v.sum(("b", 5)), ValueError, "sum: axis 5 is out of range for an array with 1 axes"),
    "a brace left open": (lambda v: jax.numpy.einsum("a{b->a", v), ValueError, "einsum: each term is letters .*'a{b'"),
    "a name that a map inside lacks": (lambda v: jax.vmap(lambda u: lax.psum(u, "z"), axis_name="k")(v), ValueError,
                                        "'z' is not bound; bound here: .*'b', 'k'"),
    "a rule of another shape": (clips, TypeError, r"custom_vjp of .* argument 0 that must have shape \[3\], float32\[3\]; got"),
    "an inner loop that does not divide": (
        lambda v: xmap(ident, {0: "c"}, {0: "c"}, axis_resources={"c": SerialLoop(2)})(v), ValueError,
        r"the axis 'c' of size 3 cannot be divided evenly over SerialLoop\(2\)"),
    "inner sizes": (lambda v: xmap(loss, {0: "c"}, {0: "c"})(v, v[:2]), ValueError,
                    r"the axis 'c' differ: w, float32\[2\], has 2 along dimension 0, and v, float32\[3\], has 3"),
}
CASES.update({name: ((fun, B, B), (X,), kind, words) for name, (fun, kind, words) in INSIDE.items()})
CASES.update({
    "a float as dimension": ((ident, {0.0: "b"}, B), (X,), TypeError,
                             "in_axes.0.0. must be a dict .* got str: 'b'. The keys of a dict .* are integers"),
    "a string as dimension": ((ident, {"0": "b"}, B), (X,), TypeError, "in_axes.'0'. must be .* are integers"),
    "a set as name": ((ident, {0: {"b"}}, B), (X,), TypeError,
                      "in_axes: .*{'b'} cannot name a mapped axis: names are hashable"),
    "None has no size": ((ident, B, B, dict(axis_sizes={None: 4})), (X,), TypeError,
                         "axis_sizes: an axis name must not be None"),
    "a size below zero": ((ident, B, B, dict(axis_sizes={"b": -4})), (X,), ValueError, r"axis_sizes\['b'\] must be .* got -4"),
    "a class for a loop": ((ident, B, B, dict(axis_resources={"b": SerialLoop})), (X,), TypeError,
                           r"axis_resources\['b'\] is SerialLoop, which is a class; write SerialLoop\(n\)"),
    "resources in a set": ((ident, B, B, dict(axis_resources={"b": {"x"}})), (X,), TypeError,
                           r"axis_resources\['b'\] must be an axis of a mesh or a tuple of these; got {'x'}"),
    "a number is no array": ((ident, B, B), ([1, 2, 3],), ValueError,
                             r"names dimension 0, .* of v\[0\], int32\[\], which has 0"),
    "a tuple for one result": ((ident, B, (B,)), (X,), ValueError,
                               "out_axes must be a prefix of the function's output, which has a value"),
    "donated by name": ((ident, B, B, dict(donate_argnums="v")), (X,), TypeError, "xmap: donate_argnums .* got 'v'"),
    "a set returned": ((lambda v: {1, 2}, B, B), (X,), TypeError, "returned set at output"),
})


def direct(f, args):
    return f(*args)


def jitted(f, args):
    return jax.jit(f)(*args)


def nested(f, args):
    return xmap(lambda z: f(*args), {0: "outer"}, {})(X)


def in_gradient(f, args):
    return jax.grad(lambda z: f(*[z * a if isinstance(a, np.ndarray) else a for a in args]).sum())(1.0)


@pytest.mark.parametrize("how", [direct, jitted, nested, in_gradient])
@pytest.mark.parametrize("case", CASES)
def test_error_names_the_argument(case, how):
    options, args, kind, words = CASES[case]
    *positional, keywords = options if isinstance(options[-1], dict) and len(options) == 4 else (*options, {})
    if how is not direct and case == "no array":  # the wrapper raises first
        return
    with pytest.raises(kind, match=words) as caught:
        how(lambda *args: xmap(*positional, **keywords)(*args), args)
    text = str(caught.value)
    assert not any(word in text for word in ("PyTreeDef", "ShapedArray", "_Shown", "Indexed", "xmap_p", "0x", "lamina_")), text


def test_keyword_arguments_are_refused_by_name():
    with pytest.raises(TypeError, match="keyword arguments are not supported.* got `w`"):
        xmap(loss, B, B)(X, w=X)
    with pytest.raises(TypeError, match="keyword arguments"):
        xmap(loss, B, B).lower(X, w=X)


def test_leaked_value_of_another_map():
    leaked = []
    xmap(lambda v: leaked.append(v) or v, B, B)(X)
    for how in (direct, jitted, nested, in_gradient):
        with pytest.raises(jax.errors.LeakedTracerError, match=r"float32\[3\] with the named axis 'b' whose trace") as caught:
            how(lambda x: xmap(lambda v: v + leaked[0], B, B)(x), (X + 1,))
        assert isinstance(caught.value, TypeError)


def test_name_of_an_outer_map_is_refused():
    with pytest.raises(ValueError, match="'b' is already bound by an enclosing map, with size 1"):
        jax.vmap(xmap(ident, B, B), axis_name="b")(X[None])


def test_donated_arguments_are_deleted():
    f = xmap(lambda v: v + 1, B, B, donate_argnums=0)
    x = jax.numpy.ones((4, 3))
    assert np.array_equal(f(x), X + 1)
    with pytest.raises(ValueError, match="deleted or donated: "):
        f(x)


@pytest.mark.parametrize("length, kind, words", [
    (0, ValueError, "at least 1, the number of iterations; got 0"),
    (2.0, TypeError, "must be an integer, the number of iterations; got float: 2.0"),
    (True, TypeError, "got bool: True"), ("4", TypeError, "got str: '4'")])
def test_invalid_loop_lengths_are_refused(length, kind, words):
    with pytest.raises(kind, match="SerialLoop: length .*" + words):
        SerialLoop(length)
    with pytest.raises(kind, match="serial_loop 'l': length .*" + words):
        serial_loop("l", length)


def test_invalid_loop_names_are_refused():
    with serial_loop("l", 2), pytest.raises(ValueError, match="a loop 'l' is in scope already, of 2 iterations"):
        with serial_loop("l", 4):
            pass
    with pytest.raises(TypeError, match="serial_loop"):
        serial_loop(3, 4)
    with serial_loop("x", 2), jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",)):
        with pytest.raises(ValueError, match="'x', which names an axis of Mesh.* and a serial_loop, both in scope"):
            xmap(ident, B, B, axis_resources={"b": "x"})(X)
    with serial_loop("l", 3), pytest.raises(ValueError, match="over the loop 'l' of 3 iterations"):
        xmap(ident, B, B, axis_resources={"b": "l"})(X)
    with serial_loop("l", 2), pytest.raises(ValueError, match=r"is not an axis .* Mesh\('x': 1\) \(loops in scope: 'l'\)"):
        with jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",)):
            xmap(ident, B, B, axis_resources={"b": "z"})(X)
