"""Invalid input raises JAX's exception and names the argument; the process continues to work."""
import functools

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax, random
from lamina.example_libraries import optimizers, stax
from lamina.experimental.ode import odeint

X = np.ones((8, 3), np.float32)
LEAKED = []


def donated():
    x = jnp.ones(3)
    jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x + 1


def leaked():
    jax.jit(lambda x: LEAKED.append(x) or x)(1.0)
    return LEAKED[-1] + 1


BAD = {
    "in_axes structure": (lambda: jax.vmap(lambda x, y: x, in_axes=(0, 0, 0))(X, X), ValueError, "in_axes must have one entry"),
    "in_axes prefix": (lambda: jax.vmap(lambda d: d, in_axes=({"a": 0},))({"b": X}), ValueError, "in_axes.0. must be a prefix"),
    "sizes": (lambda: jax.vmap(jnp.add)(X, X[:2]), ValueError, "inconsistent sizes of the mapped axis"),
    "rank 0": (lambda: jax.vmap(jnp.add)(X, 1.0), ValueError, "rank 0"),
    "pmap rows": (lambda: jax.pmap(lambda x: x)(np.ones(9)), ValueError, "requires 9 .* only 8"),
    "non-scalar grad": (lambda: jax.grad(lambda x: x)(X), TypeError, r"scalar output; `<lambda>` returned float32\[8,3\]"),
    "tree grad": (lambda: jax.grad(lambda x: (x.sum(), 1.0))(X), TypeError, "scalar output"),
    "integer grad": (lambda: jax.grad(lambda x: x * 1.0)(3), TypeError, "allow_int"),
    "complex grad": (lambda: jax.grad(lambda z: z * z)(1j), TypeError, "holomorphic"),
    "holomorphic of real": (lambda: jax.grad(lambda z: z, holomorphic=True)(1.0), TypeError, "complex"),
    "argnums": (lambda: jax.grad(lambda x: x, argnums=2)(1.0), ValueError, "argnums 2"),
    "bool": (lambda: jax.jit(lambda x: 1 if x > 0 else 2)(1.0), TypeError, r"bool\[\].*lax.select|where"),
    "unhashable in library": (lambda: jnp.unique(X, size={}), TypeError, "unique: size must be known and hashable"),
    "unhashable in jit": (lambda: jax.jit(lambda x: jax.jit(lambda y, n: y, static_argnums=1)(x, [1]))(1.0), TypeError,
                          r"static argument 1 .'n'. must be hashable; got list: \[1\]. Pass a tuple"),
    "int": (lambda: jax.jit(lambda x: int(x))(1), TypeError, "Python int"),
    "numpy": (lambda: jax.jit(np.asarray)(X), TypeError, "NumPy array"),
    "numpy name": (lambda: jax.jit(np.unique)(X), TypeError, r"numpy.unique of a traced float32\[8,3\]|unique.*size"),
    "leaked": (leaked, RuntimeError, "trace has ended"),
    "static": (lambda: jax.jit(lambda x, n: x, static_argnums=1)(1.0, [1]), ValueError, "hashable"),
    "static name": (lambda: jax.jit(lambda x, n: x, static_argnames="n")(1.0, n={}), ValueError, "hashable"),
    "tangent shape": (lambda: jax.jvp(jnp.sin, (X,), (X[0],)), ValueError, "same shape"),
    "tangent dtype": (lambda: jax.jvp(jnp.sin, (X,), (np.ones((8, 3), np.int32),)), TypeError, "same dtype"),
    "tangent tree": (lambda: jax.jvp(jnp.sin, (X,), ((X, X),)), TypeError, "same tree"),
    "jvp not a tuple": (lambda: jax.jvp(jnp.sin, X, X), TypeError, "tuple or list"),
    "cotangent": (lambda: jax.vjp(jnp.sin, X)[1](X[0]), ValueError, "shape of the output"),
    "unknown axis": (lambda: jax.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(X), NameError,
                     "'j' is not bound; bound here: 'i'"),
    "donated": (donated, RuntimeError, "deleted or donated"),
    "object array": (lambda: jnp.sin(np.array([None])), TypeError, "object|dtype"),
    "string array": (lambda: jnp.asarray(np.array(["a"])), TypeError, "dtype|str"),
    "string to jit": (lambda: jax.jit(lambda x: x)("a"), TypeError, r"args\[0\]"),
    "shards of different shapes": (lambda: jax.device_put_sharded([np.ones(2)] * 7 + [np.ones(3)], jax.devices()),
                                   ValueError, "shape"),
    "number of shards": (lambda: jax.device_put_sharded([np.ones(2)] * 3, jax.devices()), ValueError, "3"),
    "matmul": (lambda: jnp.matmul(np.ones((2, 3)), np.ones((4, 3))), TypeError, r"\[3\] and \[4\]"),
    "broadcast": (lambda: jnp.add(np.ones((2, 3)), np.ones((4,))), (ValueError, TypeError), r"\(2, 3\)|float32\[2,3\]"),
    "reshape": (lambda: jnp.reshape(X, (5, 5)), (TypeError, ValueError), "24|reshape"),
    "assignment": (lambda: jnp.ones(3).__setitem__(0, 1), TypeError, "at\\[i\\]"),
    "not a function": (lambda: jax.grad(3), TypeError, "function"),
    "unhashable array": (lambda: {jnp.ones(3): 1}, TypeError, "hash"),
    "python int too large": (lambda: jnp.add(2**40, 1), OverflowError, "1099511627776"),
}


@pytest.mark.parametrize("case", BAD)
def test_error_names_the_argument(case):
    call, kind, words = BAD[case]
    with pytest.raises(kind, match=words):
        call()
    assert float(jax.jit(lambda x: x + 1)(1.0)) == 2.0
    assert np.asarray(jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.ones(8))).tolist() == [8.0] * 8


def test_grad_with_allow_int():
    g = jax.grad(lambda n, x: x * n, argnums=(0, 1), allow_int=True)(2, 3.0)
    assert g[0].dtype == jax.float0 and float(g[1]) == 2.0


def test_holomorphic_grad():
    np.testing.assert_allclose(complex(jax.grad(lambda z: z * z, holomorphic=True)(1 + 2j)), 2 + 4j)


@pytest.mark.parametrize("call, words", [
    (lambda: jnp.sin("a"), "sin: x"), (lambda: jnp.mean("a"), "mean: a"), (lambda: jnp.add(1, "a"), "add: y"),
    (lambda: jnp.sum(["a"]), r"sum: a\[0\]"), (lambda: jnp.where("a", 1, 2), r"\w*where: condition"),
    (lambda: jnp.linalg.norm("a"), "norm: x"),
    (lambda: random.normal("a"), "normal: "), (lambda: jnp.sin(np.array(["a"])), "sin: x")])
def test_errors_of_library_functions_name_the_argument(call, words):
    with pytest.raises(TypeError, match=f"^{words}") as caught:
        call()
    assert "jit" not in str(caught.value) and "static" not in str(caught.value)


@pytest.mark.parametrize("call, words", [
    (lambda: jnp.diag(X, {1: 2}), "diag: k must be known and hashable"),
    (lambda: jnp.round(X, {1}), "round: decimals must be known and hashable"),
    (lambda: jnp.diag(X, NoHash()), "diag: k must be known and hashable"),
    (lambda: jnp.ones(3).at[0].power(None), r"x.at\[index\].power\(values\): values must be an array or .* NoneType"),
    (lambda: jnp.ones(3).at[0].add("a"), r"x.at\[index\].add\(values\): values must be an array or a number; got str: 'a'"),
    (lambda: jnp.ones(3).at[1:].subtract("a"), r"x.at\[index\].subtract"),
    (lambda: jnp.hstack([X, np.ones(3)]), "hstack: arrays must have equally many axes"),
    (lambda: jnp.column_stack([X, np.ones(3)]), "column_stack: arrays must agree on every axis but 1"),
    (lambda: jnp.hsplit(jnp.ones(3), 2), "^hsplit: axis 0 of length 3 does not divide"),
    (lambda: jax.jit(lambda x: jnp.hsplit(x, 2))(jnp.ones(3)), "^hsplit: axis 0 of length 3 does not divide"),
    (lambda: jnp.add.reduce("a"), "^add.reduce: dtype <U1"),
    (lambda: jnp.mask_indices(None, jnp.triu), "^mask_indices: a shape must be a sequence of integers; got"),
    (lambda: jnp.histogram(X, bins=None), "^histogram: expected an array or a number; got NoneType"),
    (lambda: jnp.vectorize(raise_error)(X), "^user: no$"),
    (lambda: jnp.append(X, np.ones((1, 2)), 0), "append: arrays must agree on every axis but 0"),
    (lambda: random.gumbel("a"), "gumbel: expected a key, as random.key\\(seed\\) makes it; got str"),
    (lambda: random.loggamma(random.split(random.PRNGKey(0)), 1.0),
     r"loggamma: expected a key, .*; got uint32\[2,2\]; use vmap"),
    (lambda: random.beta(random.PRNGKey(0), None, 1.0), "beta: the parameters: expected an array or a number; got NoneType"),
    (lambda: random.choice(random.PRNGKey(0), "a"), "choice: expected an array or a number; got str"),
    (lambda: jnp.ones(3, "bf16"), r"^ones: expected a dtype; got 'bf16'; did you mean 'bfloat16'\?"),
    (lambda: random.normal(KEY, (2,), "f32"), r"^normal: expected a dtype; got 'f32'; did you mean 'float32'\?"),
    (lambda: jnp.ones(3).astype("i32"), r"^astype: expected a dtype; got 'i32'; did you mean 'int32'\?"),
    (lambda: jnp.arange(3, dtype="f16"), r"did you mean 'float16'\?"),
    (lambda: random.split(0), r"^split: .*; got int32\[\]; make one with random.key\(seed\)"),
    (lambda: random.key_data(0), r"^key_data: .*; got int32\[\]; make them with random.key\(seed\)"),
    (lambda: random.key(None), "key: expected an array or a number; got NoneType"),
    (lambda: random.ball(random.PRNGKey(0), 2, 0), "ball: p must be positive; got 0"),
    (lambda: random.orthogonal(random.PRNGKey(0), -1), "orthogonal: n must be 0 or more; got -1"),
    (lambda: jax.device_put(X, "cpu"), "device_put: expected a device or a sharding .* got str: 'cpu'"),
    (lambda: jnp.zeros(2, device=3), "^zeros: expected a device or a sharding .* got int: 3")])
def test_errors_name_options_and_values(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def raise_error(x):
    raise ValueError("user: no")


KEY = random.PRNGKey(0)
DENSE, HE = stax.Dense(3), jax.nn.initializers.he_uniform()
ROTATION = jax.scipy.spatial.transform.Rotation.from_euler("x", 1.0)


@pytest.mark.parametrize("call, words", [
    (lambda: random.normal(KEY, X), r"normal: shape must hold integers; got float32\[8,3\]"),
    (lambda: jax.jit(lambda n: random.normal(KEY, (n,)))(3), r"normal: .* got \(a traced int32\[\],\), .* make it static"),
    (lambda: random.bits(KEY, 3, {1}), "bits: expected a dtype"),
    (lambda: random.ball(KEY, 1.5), "ball: d must be an integer; got float: 1.5"),
    (lambda: random.split(KEY, -1), "split: num must hold sizes of 0 or more"),
    (lambda: random.shuffle({}, 1), "shuffle: expected a key"),
    (lambda: random.categorical(KEY, 1.5), "categorical: axis -1 is out of range"),
    (lambda: random.choice(KEY, 3, (2,), X), r"choice: replace must be True or False; got float32\[8,3\]"),
    (lambda: random.randint(KEY, 7, X, 5), "randint: parameters of shape"),
    (lambda: random.fold_in(KEY, None), "fold_in: expected an array or a number"),
    (lambda: random.PRNGKey(np.array(["a"])), "PRNGKey: dtype <U1"),
    (lambda: HE(1, (3, 4)), r"he_uniform: expected a key, .*; got int32\[\]; make one with random.key\(seed\)"),
    (lambda: HE(KEY, None), "he_uniform: shape must hold integers; got None"),
    (lambda: HE(KEY, (3, 4), {}), "he_uniform: expected a dtype"),
    (lambda: jax.nn.initializers.orthogonal()(KEY, "ab"), "orthogonal: shape must hold integers; got 'ab'"),
    (lambda: DENSE[0](None, (2, 3)), "Dense: expected a key"),
    (lambda: DENSE[0](KEY, 4.0), "Dense: input_shape must be a sequence of integers; got 4.0"),
    (lambda: stax.serial(DENSE)[0](None, (2, 3)), "serial: expected a key"),
    (lambda: optimizers.clip_grads([X], "a"), "clip_grads: "),
    (lambda: optimizers.adam(0.1)[1](0, "a", optimizers.adam(0.1)[0](1.0)), "adam: "),
    (lambda: jax.scipy.linalg.block_diag({}, X), "block_diag: expected an array or a number; got dict"),
    (lambda: jax.scipy.signal.istft(X, nperseg=X), "istft: "),
    (lambda: jax.scipy.ndimage.map_coordinates(X, None, 1), "map_coordinates: coordinates must be a sequence of arrays"),
    (lambda: ROTATION.apply([[1], [2, 3]]), "Rotation.apply: nested lists"),
    (lambda: jax.scipy.interpolate.RegularGridInterpolator((np.arange(3),), np.ones(3))("a"), "RegularGridInterpolator: "),
    (lambda: odeint(lambda y, t: -y, {"a": "b"}, np.arange(3)), "odeint: "),
    (lambda: jax.scipy.sparse.linalg.cg(raise_error, np.ones(3)), "user: no")])
def test_errors_start_with_the_called_function(call, words):
    with pytest.raises((TypeError, ValueError), match=f"^{words}"):
        call()


class NoHash:
    __hash__ = None


def test_from_dlpack_of_small_floats_and_apply_with_another_dtype():
    assert jnp.from_dlpack(jnp.ones(2, "bfloat16")).dtype == "bfloat16"
    assert jnp.arange(3).at[np.array([1, 1])].apply(jnp.cos).tolist() == [0, 1, 2]
    assert jnp.arange(3).at[np.zeros(0, int)].apply(jnp.cos).tolist() == [0, 1, 2]
    assert jnp.ones(3).addressable_data(index=0).shape == (3,)


D, OUT, ROWS = {1: 1.0, "a": 2.0}, lambda x: {1: x, "a": x}, {1: np.ones(3), "a": np.ones(3)}
SAME = lambda x: x  # noqa: E731
UNSORTED = {
    **{name: functools.partial(getattr(jax.tree_util, name), D) for name in (
        "tree_flatten tree_leaves tree_structure tree_all tree_flatten_with_path tree_leaves_with_path").split()},
    "tree_map": lambda: jax.tree_util.tree_map(SAME, D),
    "tree_map of the second": lambda: jax.tree.map(SAME, {"a": 1, "b": 2}, D),
    "tree_reduce": lambda: jax.tree_util.tree_reduce(max, D), "broadcast_prefix": lambda: jax.tree_util.broadcast_prefix(1, D),
    "tree_broadcast": lambda: jax.tree_util.tree_broadcast(1, D), "flatten": lambda: jax.tree_util.default_registry.flatten(D),
    "flatten_one_level": lambda: jax.tree_util.default_registry.flatten_one_level(D),
    "vmap": lambda: jax.vmap(SAME)(ROWS), "vmap of results": lambda: jax.vmap(OUT)(X), "vmap of axes": lambda: jax.vmap(
        SAME, in_axes=(D,))(X), "pmap": lambda: jax.pmap(SAME)(D), "grad": lambda: jax.grad(lambda d: d[1])(D),
    "value_and_grad": lambda: jax.value_and_grad(lambda d: d[1])(D), "jvp": lambda: jax.jvp(SAME, (D,), (D,)),
    "vjp": lambda: jax.vjp(SAME, D), "vjp of results": lambda: jax.vjp(OUT, 1.0), "linearize": lambda: jax.linearize(SAME, D),
    "jacfwd": lambda: jax.jacfwd(SAME)(D), "jacrev": lambda: jax.jacrev(SAME)(D), "checkpoint": lambda: jax.checkpoint(SAME)(D),
    "make_jaxpr": lambda: jax.make_jaxpr(SAME)(D), "eval_shape": lambda: jax.eval_shape(OUT, 1.0),
    "closure_convert": lambda: jax.closure_convert(SAME, D), "jit of results": lambda: jax.jit(OUT)(1.0),
    "scan": lambda: lax.scan(lambda c, x: (c, x), D, X), "scan of rows": lambda: lax.scan(lambda c, x: (c, 1.0), 0.0, ROWS),
    "while_loop": lambda: lax.while_loop(lambda c: False, SAME, D), "fori_loop": lambda: lax.fori_loop(0, 3, lambda i, c: c, D),
    "cond": lambda: lax.cond(True, SAME, SAME, D), "switch": lambda: lax.switch(0, [SAME, SAME], D),
    "map": lambda: lax.map(SAME, ROWS), "associative_scan": lambda: lax.associative_scan(lax.add, ROWS),
    "stop_gradient": lambda: lax.stop_gradient(D), "device_put": lambda: jax.device_put(D),
    "device_get": lambda: jax.device_get(D),
    "pure_callback": lambda: jax.pure_callback(SAME, D, 1.0), "block_until_ready": lambda: jax.block_until_ready(D)}


@pytest.mark.parametrize("name", UNSORTED)
def test_unsortable_keys_are_reported_with_the_call(name):
    with pytest.raises(ValueError, match=rf"^{name.split()[0]}( of `.*`)?: .*has the keys 1, 'a', of types int and str") as e:
        UNSORTED[name]()
    assert isinstance(e.value, TypeError)


TAKES_FUNCTION = {
    "vmap": lambda f: jax.vmap(f)(X), "grad": lambda f: jax.grad(f)(1.0), "jvp": lambda f: jax.jvp(f, (X,), (X,)),
    "value_and_grad": lambda f: jax.value_and_grad(f)(1.0), "pmap": lambda f: jax.pmap(f)(X), "jit": lambda f: jax.jit(f)(X),
    "vjp": lambda f: jax.vjp(f, X), "linearize": lambda f: jax.linearize(f, X), "jacfwd": lambda f: jax.jacfwd(f)(X),
    "linear_transpose": lambda f: jax.linear_transpose(f, X), "jacrev": lambda f: jax.jacrev(f)(X),
    "hessian": lambda f: jax.hessian(f)(X), "checkpoint": lambda f: jax.checkpoint(f)(X),
    "eval_shape": lambda f: jax.eval_shape(f, X), "make_jaxpr": lambda f: jax.make_jaxpr(f)(X),
    "closure_convert": lambda f: jax.closure_convert(f, X), "custom_gradient": jax.custom_gradient,
    "custom_jvp": jax.custom_jvp, "custom_vjp": jax.custom_vjp, "tree_map": lambda f: jax.tree_util.tree_map(f, [X]),
    "tree_reduce": lambda f: jax.tree_util.tree_reduce(f, [X]), "Partial": jax.tree_util.Partial,
    "scan": lambda f: lax.scan(f, X, X), "map": lambda f: lax.map(f, X), "while_loop": lambda f: lax.while_loop(f, f, X),
    "fori_loop": lambda f: lax.fori_loop(0, 2, f, X), "custom_root": lambda f: lax.custom_root(f, X, f, f),
    "reduce": lambda f: lax.reduce(X, 0.0, f, (0,)), "pure_callback": lambda f: jax.pure_callback(f, X, X)}


@pytest.mark.parametrize("name", TAKES_FUNCTION)
def test_error_for_a_non_function_names_the_call(name):
    for bad in (3.5, "f", X):
        with pytest.raises(TypeError, match=rf"^{name}: .*function"):
            TAKES_FUNCTION[name](bad)


@pytest.mark.parametrize("name", ["jvp", "vjp", "linearize", "jacfwd", "jacrev", "hessian", "grad", "make_jaxpr"])
def test_error_for_a_non_array_names_the_call(name):
    call = {"jvp": lambda x: jax.jvp(SAME, (x,), (x,)), "vjp": lambda x: jax.vjp(SAME, x), "linearize": lambda x: jax.linearize(
        SAME, x)}.get(name, lambda x: getattr(jax, name)(SAME)(x))
    for bad in ("a", [X, "a"], object()):
        with pytest.raises(TypeError, match=rf"^({name}|jacfwd|jacrev) of "):
            call(bad)
