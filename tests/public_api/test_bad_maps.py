"""Invalid arguments of maps: the first line of the error names the user's argument by name and path, its type, the axis
and the expected value, without internal names."""
import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax

X = np.ones((8, 3), np.float32)
PARAMS = {"w": [np.ones((8, 3), np.float32), np.ones((3, 8), np.float32)], "b": np.ones(8, np.float32)}


def step(params, x, n=None):
    return x


def two(x, y):
    return x, {"out": y}


def member():
    return lax.axis_index("i")


# For both vmap and pmap: function, options, arguments, and the first line of the error after "vmap of `step`: ".
BOTH = {
    "entries": (step, dict(in_axes=(0,)), (PARAMS, X),
                r"one entry per positional .* 1 entries \(0,\) for 2 arguments \(params, x\)"),
    "keys": (step, dict(in_axes=({"w": 0}, 0)), (PARAMS, X),
             r"in_axes\[0\] must be a prefix of argument `params`, which has the extra keys \['b'\]; got {'w': 0} for "
             r"{'b': float32\[8\], 'w': \[float32\[8,3\], float32\[3,8\]\]}"),
    "length": (step, dict(in_axes=({"w": [0], "b": 0}, 0)), (PARAMS, X),
               r"argument `params`, which has at \['w'\] a list of 2 children; expected 1"),
    "kind of node": (step, dict(in_axes=(0, (0, 0))), (PARAMS, [X, X]), "prefix of argument `x`, which has a list"),
    "a float": (step, dict(in_axes=({"w": [0, 0.5], "b": 0}, 0)), (PARAMS, X),
                r"in_axes\[0\]\['w'\]\[1\] \(for argument `params`\) must be an int or None; got float: 0.5"),
    "a bool": (step, dict(in_axes=(0, True)), (PARAMS, X), r"in_axes\[1\] \(for argument `x`\) .* got bool: True"),
    "a string as axes": (step, dict(in_axes="0"), (PARAMS, X), "in_axes must be an int, None, or a tuple .* got '0'"),
    "a dict": (lambda d: d, dict(in_axes={"a": 0}), ({"a": X},), r"in_axes must be .* dict, write \({'a': 0},\)"),
    "axis": (step, dict(in_axes=({"w": [0, 2], "b": 0}, 0)), (PARAMS, X),
             r"in_axes 2 is out of range for params\['w'\]\[1\], float32\[3,8\]; expected -2 <= axis < 2"),
    "axis from the end": (two, dict(in_axes=(0, -3)), (X, X), r"in_axes -3 is out of range for y, float32\[8,3\]; expected -2"),
    "a number": (two, {}, (X, 1.0), r"y has rank 0 \(float32\[\]\) but in_axes maps its axis 0; use None"),
    "a list of numbers": (two, {}, (X, [1.0, 2.0]), r"y\[0\] has rank 0 .* If y is meant as one array, make it one first"),
    "sizes": (step, {}, (PARAMS, X),
              r"inconsistent sizes of the mapped axis: params\['w'\]\[1\], float32\[3,8\], has 3 along axis 0; expected 8, as "
              r"params\['b'\] has. All sizes: 8: params\['b'\] float32\[8\] axis 0, params\['w'\]\[0\] float32\[8,3\] axis 0, "
              r"x float32\[8,3\] axis 0; 3: params\['w'\]\[1\] float32\[3,8\] axis 0(?m:$)"),
    "many of one size": (lambda *xs: xs, {}, (X,) * 6 + (X[:2],), r"args\[6\], .* 8: args\[0\].*args\[3\] .* and 2 more; 2: "),
    "size": (two, dict(axis_size=4), (X, X), r"x, float32\[8,3\], has 8 along axis 0; expected 4, as axis_size says"),
    "size as text": (two, dict(axis_size="8"), (X, X), "axis_size must be an int; got str: '8'"),
    "size as a float": (two, dict(axis_size=8.0), (X, X), "axis_size must be an int; got float: 8.0"),
    "negative size": (member, dict(axis_size=-1, axis_name="i"), (), "axis_size must be at least .; got -1"),
    "nothing mapped": (two, dict(in_axes=None), (X, X), r"at least one in_axes .* for x float32\[8,3\], y float32\[8,3\]"),
    "results": (two, dict(out_axes=(0, {"oot": 0})), (X, X),
                r"out_axes must be a prefix of the function's output, which has at \[1\] a dict which lacks the keys"),
    "result's axis": (two, dict(out_axes=(0, {"out": 2})), (X, X),
                      r"out_axes 2 is out of range for output\[1\]\['out'\], float32\[3\] per .*; expected -2 <= axis < 2"),
    "result's kind": (two, dict(out_axes=(0, "1")), (X, X), r"out_axes\[1\] must be an int or None; got str: '1'"),
    "a string": (two, {}, (X, "a"), "y: expected an array or a number; got str: 'a'"),
    "objects": (two, {}, (X, np.array([None] * 8)), "y: dtype object is not an array element type"),
    "returned": (lambda x: {"a": "s"}, {}, (X,), r"the function returned str at output\['a'\]"),
}


@pytest.mark.parametrize("mapper", [jax.vmap, jax.pmap])
@pytest.mark.parametrize("case", BOTH)
def test_invalid_arguments_of_vmap_and_pmap(case, mapper):
    fun, options, args, words = BOTH[case]
    with pytest.raises((TypeError, ValueError), match=f"^{mapper.__name__} of `{fun.__name__}`: .*{words}") as caught:
        mapper(fun, **options)(*args)
    check_clean(caught.value)


def check_clean(error):
    first = f"{type(error).__name__}: {error}".splitlines()[0]
    assert not any(word in first for word in ("PyTreeDef", "ShapedArray", "StagedPmap", "xla_pmap", "0x", "lamina_")), first
    np.testing.assert_array_equal(jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.ones(8)), [8] * 8)


def pmapped(fun=two, args=(X, X), **options):
    return lambda: jax.pmap(fun, **options)(*args)


V, GONE = jnp.ones((8, 3)), jnp.ones((8, 3))
GONE.delete()
NINE = np.ones((9, 2), np.float32)
AVAILABLE = "but only 8 XLA devices are available"
PMAP = {
    "rows": (pmapped(args=(NINE, NINE)), rf"compiling computation that requires 9 logical devices, {AVAILABLE} "
             r"\(num_replicas=9, num_partitions=1\): x, float32\[9,2\], has 9 rows along axis 0, one for each device. "
             "lamina.parallel.padded maps"),
    "axis_size": (pmapped(member, (), axis_name="i", axis_size=12), rf"requires 12 .*{AVAILABLE} .*: axis_size is 12, one for"),
    "rows of rows": (pmapped(jax.pmap(lambda x: x), (np.ones((3, 3), np.float32),)),
                     rf"requires 9 .*{AVAILABLE} .*: x, float32\[3,3\], has 3 rows along axis 0, times 3 of the maps inside"),
    "rows of devices": (lambda: jax.pmap(two, devices=jax.devices()[:3])(X, X),
                        r"requires 8 logical devices, but devices names 3 .*: x, float32\[8,3\], has 8 rows"),
    "more devices": (lambda: jax.pmap(two, devices=jax.devices()[:3])(X[:2], X[:2]), "devices names 3 .* Name as many devices"),
    "no rows": (pmapped(args=(X[:0], X[:0])), r"x, float32\[0,3\], has size 0 along axis 0.*; expected at least one row"),
    "size 0": (pmapped(axis_size=0), "axis_size must be at least 1; got 0"),
    "no devices": (pmapped(devices=[]), "devices must not be empty"),
    "numbers": (pmapped(devices=[0, 1]), r"devices\[0\] must be a device, as lamina.devices\(\) gives; got int: 0"),
    "number": (pmapped(devices=8), "devices must be a list of devices, .* got int: 8"),
    "platform": (pmapped(devices="cpu"), "devices must be a list of devices, .* got str: 'cpu'.* a platform as backend="),
    "device": (lambda: jax.pmap(two, devices=jax.devices()[0])(X[:1], X[:1]), "devices must be a list of devices"),
    "device twice": (lambda: jax.pmap(two, devices=jax.devices()[:1] * 8)(X, X),
                     r"devices\[1\] is cpu:0, which is named twice: devices\[0\]"),
    "static range": (pmapped(static_broadcasted_argnums=5), r"static_broadcasted_argnums 5 is out of range: `two` .*\(x, y\)"),
    "static kind": (pmapped(static_broadcasted_argnums="y"), "static_broadcasted_argnums expects int .* got 'y'"),
    "static list": (pmapped(args=(X, [1]), static_broadcasted_argnums=1),
                    r"static argument 1 \('y'\) must be hashable; got list"),
    "static array": (pmapped(static_broadcasted_argnums=1), r"static argument 1 \('y'\) must be hashable; got ndarray"),
    "static absent": (pmapped(args=(X,), static_broadcasted_argnums=1), "`y` must be positional arguments; got 1"),
    "static traced": (lambda: jax.jit(lambda n: jax.pmap(two, static_broadcasted_argnums=1)(X, n))(1),
                      r"static argument 1 \('y'\) is a traced int32\[\]"),
    "static, in_axes": (pmapped(step, (1, X, X), in_axes=(0,), static_broadcasted_argnums=0),
                        r"1 entries \(0,\) for 3 arguments \(params, x, n\)"),
    "static and sizes": (pmapped(step, (1, X, X[:2]), static_broadcasted_argnums=0),
                         r"n, float32\[2,3\], has 2 .* expected 8, as x"),
    "static and given up": (pmapped(static_broadcasted_argnums=1, donate_argnums=1), r"argument 1 \('y'\) is both static and"),
    "given up": (pmapped(donate_argnums=5), r"donate_argnums 5 is out of range: `two` takes 2 positional arguments \(x, y\)"),
    "keyword": (lambda: jax.pmap(two)(X, y=X[:3]), r"y, float32\[3,3\], has 3 along axis 0; expected 8, as x has"),
    "entry of a keyword": (lambda: jax.pmap(two, in_axes=(0, 0))(X, y=X),
                           r"for 1 arguments \(x\). Keyword arguments \(y\) have none"),
    "given up twice": (lambda: jax.pmap(step, donate_argnums=1)({"w": V}, V),
                       r"x, float32\[8,3\], is donated and passed twice: params\['w'\] and x are the same array. Pass a copy"),
    "given up and gone": (lambda: jax.pmap(two)(X, GONE), r"Array has been deleted or donated: y, float32\[8,3\]"),
    "backend": (pmapped(backend="tpu"), "backend='tpu': no platform 'tpu'; there are cpu"),
    "same everywhere": (pmapped(out_axes=(0, {"out": None})), r"out_axes is None for output\[1\]\['out'\], but it may differ"),
    "global shapes": (pmapped(global_arg_shapes=((1,),)), "global_arg_shapes is no longer used"),
}


W = jnp.ones((8, 3))
ON_ONE, ON_TWO = jax.device_put(X, jax.devices()[1]), jax.device_put(X, jax.devices()[2])
ROWS = jax.pmap(lambda x: x)(X).sharding
JIT = {
    "rows": (lambda: jax.jit(lambda n, p: jax.pmap(two)(p["x"], p["x"]))(1, {"x": NINE}),
             rf"jit of `<lambda>`: .* requires 9 .* {AVAILABLE} .*: p\['x'\], float32\[9,2\], has 9 rows along axis 0, one"),
    "rows of a single map": (lambda: jax.jit(jax.pmap(two))(NINE, NINE), r"pmap of `two`: .*: x, float32\[9,2\], has 9 rows"),
    "rows made inside": (lambda: jax.jit(lambda x: jax.pmap(two)(2 * x, x * x))(NINE), "the mapped axis has 9 members, one"),
    "given up twice": (lambda: jax.jit(step, donate_argnums=0)({"w": W}, W),
                       r"params\['w'\], float32\[8,3\], is donated and passed twice: params\['w'\] and x are the same array"),
    "given up twice by name": (lambda: jax.jit(step, donate_argnames="n")(1, W, n=W),
                               r"n, .* is donated and passed twice: x and n are"),
    "gone": (lambda: jax.jit(step, static_argnums=0)(1, X, {"k": GONE}), r"deleted or donated: n\['k'\], float32\[8,3\]"),
    "two places": (lambda: jax.jit(two)(ON_ONE, ON_TWO),
                   r"different devices: x, float32\[8,3\], to \[cpu:1\] and y, .* \[cpu:2\]"),
    "backend": (lambda: jax.jit(two, backend="tpu")(X, X), "jit of `two`: backend='tpu': no platform 'tpu'; there are cpu"),
    "in_shardings": (lambda: jax.jit(step, in_shardings=(ROWS, None))({"w": X[:7]}, X),
                     r"in_shardings for params\['w'\]: dimension 0 of an array of shape \(7, 3\)"),
    "out_shardings": (lambda: jax.jit(two, out_shardings=(None, {"out": ROWS}))(X, X[:7]),
                      r"out_shardings for output\[1\]\['out'\]: dimension 0 of an array of shape \(7, 3\)"),
    "out_shardings' tree": (lambda: jax.jit(two, out_shardings=(ROWS,))(X, X),
                            "out_shardings is not a prefix of the function's output"),
    "compiled": (lambda: jax.jit(step).lower({"w": X}, X).compile()({"w": X[:7]}, X),
                 r"params\['w'\] was compiled with float32\[8"),
}


@pytest.mark.parametrize("case", JIT)
def test_invalid_arguments_of_jit(case):
    call, words = JIT[case]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=words) as caught:
        call()
    check_clean(caught.value)


@pytest.mark.parametrize("case", PMAP)
def test_invalid_arguments_of_pmap(case):
    call, words = PMAP[case]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=f"^pmap(?: of `.*`)?: .*{words}") as caught:
        call()
    check_clean(caught.value)


def test_unbound_axis_error_lists_bound_axes():
    def inner(x):
        return jax.vmap(lambda v: lax.psum(v, "k"), axis_name="j")(x)

    with pytest.raises(NameError, match="axis name 'k' is not bound; bound here: 'i', 'j'"):
        jax.pmap(inner, axis_name="i")(jnp.ones((8, 2)))
    with pytest.raises(NameError, match="'k' is not bound; bound here: an axis without a name, 'j'"):
        jax.pmap(inner)(jnp.ones((8, 2)))


def test_out_axes_none_requires_an_unmapped_result():
    with pytest.raises(ValueError, match=r"out_axes is None for output\[1\]\['out'\], which depends on the mapped axis"):
        jax.vmap(two, out_axes=(0, {"out": None}))(X, X)
