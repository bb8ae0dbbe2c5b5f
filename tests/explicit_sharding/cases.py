"""Operations on sharded arrays, written once for lamina and for JAX. `record.py` and the tests import this module."""
from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

import numpy as np

SPECS = {"xy": ("x", "y"), "x_": ("x", None), "_y": (None, "y"), "__": (None, None), "xx": (("x", "y"), None),
         "yx": ("y", "x")}
RESHAPES = [
    ((8, 8, 4), ("x", None, None), (64, 4)), ((8, 8, 4), (None, "x", None), (64, 4)),
    ((8, 8, 4), (None, "x", None), (8, 32)), ((8, 8, 4), (None, "x", "y"), (8, 32)),
    ((8, 8, 4), ("x", "y", None), (256,)), ((8, 8, 4), ("x", None, "y"), (256,)),
    ((8, 8, 4), ("x", None, "y"), (64, 4)), ((64,), ("x",), (8, 8)), ((64,), ("y",), (8, 8)),
    ((64,), ("x",), (2, 32)), ((64,), ("x",), (4, 4, 4)), ((64,), (("x", "y"),), (4, 2, 8)),
    ((64,), (("x", "y"),), (8, 8)), ((64,), (("x", "y"),), (4, 16)), ((64,), (("x", "y"),), (4, 4, 4)),
    ((64,), (("x", "y"),), (2, 2, 16)), ((8, 8), ("x", "y"), (8, 8, 1)), ((8, 8), ("x", "y"), (8, 1, 8)),
    ((8, 8), ("x", None), (4, 16)), ((8, 8), (None, None), (64,)), ((8, 4), ("x", "y"), (4, 8)),
    ((1, 8), (None, "x"), (8,)), ((8, 6), ("x", None), (2, 4, 6)), ((8, 6), ("x", None), (8, 2, 3)),
    ((8, 6), (None, "y"), (8, 2, 3)), ((8, 6), ("x", "y"), (8, 2, 3)), ((8, 6), ("x", "y"), (8, 3, 2)),
    ((4, 2, 8), ("x", "y", None), (8, 8)), ((4, 2, 8), ("x", None, None), (8, 8)),
    ((4, 2, 8), (None, "y", None), (8, 8)), ((4, 2, 8), ("x", None, "y"), (8, 8))]

# Derivatives of programs with `while`, of derivatives, and of factorizations of a singular matrix.
NOT_DIFFERENTIATED = ("while", "fft", "cholesky", "qr", "lu", "svd", "grad", "jit grad", "grad dot", "grads dot",
                      "jit grads dot", "jit grads dot2", "checkpoint")

Cases = dict[str, Callable[..., Any]]


def unary_cases(lib: ModuleType) -> Cases:
    """Return the functions of one array `[8, 8]`, by name. `lib` is lamina or jax, with its modules imported."""
    jnp, lax, nn, P = lib.numpy, lib.lax, lib.nn, lib.sharding.PartitionSpec
    a = jnp.array([[(3 * i + 5 * j) % 7 / 4 for j in range(8)] for i in range(8)], dtype="float32")
    return {
        "sin": jnp.sin, "transpose": lambda v: v.T, "sum0": lambda v: v.sum(0), "sum": lambda v: v.sum(),
        "max1": lambda v: v.max(1), "argmax1": lambda v: v.argmax(1), "cumsum0": lambda v: jnp.cumsum(v, 0),
        "cumsum1": lambda v: jnp.cumsum(v, 1), "sort0": lambda v: lax.sort(v, dimension=0),
        "sort1": lambda v: lax.sort(v, dimension=1), "rev": lambda v: lax.rev(v, (0,)),
        "slice": lambda v: lax.slice(v, (0, 0), (4, 8)), "slice3": lambda v: lax.slice(v, (0, 0), (3, 8)),
        "slice strided": lambda v: lax.slice(v, (0, 0), (8, 8), (2, 1)), "index first": lambda v: v[0],
        "index column": lambda v: v[:, 0], "index none": lambda v: v[:, None], "index reversed": lambda v: v[::-1],
        "dynamic_slice": lambda v: lax.dynamic_slice(v, (1, 0), (4, 8)),
        "dynamic_update_slice": lambda v: lax.dynamic_update_slice(v, jnp.zeros((4, 8)), (0, 0)),
        "dynamic_update_slice full": lambda v: lax.dynamic_update_slice(v, v, (0, 0)),
        "gather": lambda v: v[jnp.array([0, 1])], "gather1": lambda v: jnp.take(v, jnp.array([0, 1]), axis=1),
        "take_along": lambda v: jnp.take_along_axis(v, jnp.zeros((8, 1), "int32"), 1),
        "scatter": lambda v: v.at[jnp.array([0, 1])].set(0.), "set first": lambda v: v.at[0].set(1.),
        "ravel": lambda v: v.reshape(64), "split": lambda v: v.reshape(4, 2, 8), "split2": lambda v: v.reshape(2, 4, 8),
        "broadcast_to": lambda v: jnp.broadcast_to(v, (3, 8, 8)), "pad": lambda v: jnp.pad(v, ((0, 0), (1, 1))),
        "pad x": lambda v: jnp.pad(v, ((4, 4), (0, 0))), "tril": jnp.tril, "fft": jnp.fft.fft,
        "bitcast": lambda v: lax.bitcast_convert_type(v, "int32"),
        "bitcast8": lambda v: lax.bitcast_convert_type(v, "int8"), "convert": lambda v: v.astype("int32"),
        "top_k": lambda v: lax.top_k(v, 2), "clamp": lambda v: lax.clamp(0., v, 1.),
        "reduce": lambda v: lax.reduce(v, 0., lambda p, q: p + q, (0,)),
        "window": lambda v: lax.reduce_window(v, 0., lax.add, (2, 1), (1, 1), "VALID"),
        "window2": lambda v: lax.reduce_window(v, 0., lax.add, (2, 2), (2, 2), "VALID"),
        "window same": lambda v: lax.reduce_window(v, 0., lax.add, (3, 1), (1, 1), "SAME"),
        "cholesky": lambda v: jnp.linalg.cholesky(v + 9 * jnp.eye(8)), "qr": lambda v: jnp.linalg.qr(v),
        "lu": lambda v: lax.linalg.lu(v), "svd": lambda v: jnp.linalg.svd(v), "inv": lambda v: jnp.linalg.inv(v + a),
        "triangular_solve": lambda v: lax.linalg.triangular_solve(v, v, left_side=True),
        "conv": lambda v: lax.conv_general_dilated(v[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), "SAME"),
        "conv batch": lambda v: lax.conv_general_dilated(v[:, None], jnp.ones((1, 1, 3)), (1,), "SAME"),
        "stack": lambda v: jnp.stack([v, v]), "concatenate1": lambda v: jnp.concatenate([v, v], 1),
        "mean": lambda v: v.mean(0), "var": lambda v: v.var(1), "softmax": lambda v: nn.softmax(v, -1),
        "logsumexp": lambda v: nn.logsumexp(v, 1), "one_hot": lambda v: nn.one_hot(v.argmax(1), 8),
        "times scalar": lambda v: v * 2, "plus own sum": lambda v: v.sum() + v, "plus plain": lambda v: v + a,
        "dot plain": lambda v: v @ a, "plain dot": lambda v: a @ v,
        "einsum three": lambda v: jnp.einsum("ij,jk,kl->il", v, a, a),
        "grad": lib.grad(lambda v: (v * v).sum()), "jit grad": lib.jit(lib.grad(lambda v: (v * v).sum())),
        "grad dot": lib.grad(lambda v, w=a: (v @ w).sum()),
        "grads dot": lambda v: lib.grad(lambda v, w: (v @ w).sum(), (0, 1))(v, a),
        "jit grads dot": lambda v: lib.jit(lib.grad(lambda v, w: jnp.sin(v @ w).sum(), (0, 1)))(v, a),
        "jit grads dot2": lambda v: lib.jit(lib.grad(lambda v, w: jnp.sin(w @ v).sum(), (0, 1)))(v, a),
        "jvp": lambda v: lib.jvp(lambda u: u @ a, (v,), (v,)),
        "checkpoint": lib.grad(lambda v: lib.checkpoint(lambda u: jnp.sin(u) * u)(v).sum()),
        "vmap": lib.vmap(jnp.sum), "vmap1": lib.vmap(lambda r: r * 2, 1, 1), "vmap dot": lib.vmap(lambda r: a @ r),
        "scan": lambda v: lax.scan(lambda c, r: (c + r, r), jnp.zeros(8), v),
        "scan carry": lambda v: lax.scan(lambda c, _: (c * 2, c), v, None, length=2),
        "map": lambda v: lax.map(lambda r: r * 2, v), "fori": lambda v: lax.fori_loop(0, 3, lambda i, c: c * 2, v),
        "while": lambda v: lax.while_loop(lambda c: c.sum() < 1000, lambda c: c * 2 + 1, v),
        "cond": lambda v: lax.cond(True, lambda u: u, lambda u: u * 2, v),
        "cond mixed": lambda v: lax.cond(True, lambda u: u, lambda u: jnp.zeros((8, 8)), v),
        "jit": lib.jit(lambda v: jnp.tanh(v * 2 + 1).sum(1)),
        "out einsum": lambda v: jnp.einsum("ij,jk->ik", v, v, out_sharding=P("x", None)),
        "out matmul": lambda v: jnp.matmul(v, v, out_sharding=P("x")),
        "out reshape": lambda v: lax.reshape(v, (64,), out_sharding=P("x")),
        "out get": lambda v: v.at[jnp.array([0, 1, 2, 3])].get(out_sharding=P("x", None)),
        "out set": lambda v: v.at[jnp.array([0, 1])].set(0., out_sharding=P("y", None)),
        "out jit": lib.jit(lambda v: jnp.einsum("ij,jk->ik", v, v, out_sharding=P("x", "y")) * 2),
        "auto_axes": lambda v: lib.sharding.auto_axes(lambda u: jnp.sort(u, 0) @ u, out_sharding=P("x", None))(v),
        "reshard": lambda v: lib.sharding.reshard(v, P("y", None)),
        "zeros": lambda v: jnp.zeros((8, 8), out_sharding=P("x")), "ones": lambda v: jnp.ones(8, out_sharding=P("y")),
        "full": lambda v: jnp.full((8,), 2., "float32", out_sharding=P("x")),
        "arange": lambda v: jnp.arange(8, out_sharding=P(("x", "y"))),
        "iota": lambda v: lax.broadcasted_iota("int32", (8, 8), 0, out_sharding=P("x", "y")),
        "zeros_like": jnp.zeros_like,
    }


def binary_cases(lib: ModuleType) -> Cases:
    """Return the functions of two arrays `[8, 8]`, by name."""
    jnp = lib.numpy
    return {
        "add": lambda v, w: v + w, "dot": lambda v, w: v @ w, "concatenate": lambda v, w: jnp.concatenate([v, w], 0),
        "batched dot": lambda v, w: jnp.einsum("bi,bi->b", v, w), "where": lambda v, w: jnp.where(v > 0, w, 0.),
    }


def gradient_cases(lib: ModuleType) -> Cases:
    """Return functions of an array `[8, 8]`, by name, for their gradients; in addition to `unary_cases`."""
    jnp, lax = lib.numpy, lib.lax
    a = jnp.array([[(3 * i + 5 * j) % 7 / 4 for j in range(8)] for i in range(8)], dtype="float32")
    rows = jnp.ones((3, 8))

    def conv(v, kernel, mode="SAME"):
        return lax.conv_general_dilated(v[:, None], kernel[:, None, :3], (1,), mode)

    return {
        "first rows": lambda v: v[:4], "columns": lambda v: v[:, :4], "repeated rows": lambda v: v[jnp.array([0, 1, 1])],
        "product of all": lambda v: jnp.einsum("ij,ij->", v, v), "outer rows": lambda v: jnp.einsum("bi,bj->bij", v, v),
        "update columns": lambda v: lax.dynamic_update_slice(v, v[:, :4], (0, 0)),
        "add rows": lambda v: v.at[jnp.array([0, 1])].add(v[:2]), "sort rows": lambda v: jnp.sort(v, 1),
        "take sorted": lambda v: jnp.take_along_axis(v, jnp.argsort(v, 1), 1), "select": lambda v: jnp.where(v > 1, v, a),
        "maximum": lambda v: jnp.maximum(v, v.mean(1, keepdims=True)), "row times": lambda v: v * v[:1],
        "kernel": lambda v: conv(a, v), "input": lambda v: conv(v, a), "valid input": lambda v: conv(v, a, "VALID"),
        "scan carry": lambda v: lax.scan(lambda c, x: (jnp.tanh(c @ a) * x.sum(), None), v, rows)[0],
        "scan sum": lambda v: lax.scan(lambda c, x: (c + x.sum(), x * c), 0., v.T),
        "cond residuals": lambda v: lax.cond(True, lambda u: u @ a, lambda u: jnp.sin(u) @ a, v) * v,
        "several uses": lambda v: jnp.sin(v @ a) + v, "sum and product": lambda v: (v + v.sum(1)[:, None]) * v,
        "no derivative": lambda v: (v > 1) * 2.0,
    }


def traced_cases(lib: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return functions of an array `[8, 8]` and of `note`, by name. `note(x)` records the type of `x` and returns `x`."""
    jnp, lax, P = lib.numpy, lib.lax, lib.sharding.PartitionSpec
    a = np.arange(64, dtype=np.float32).reshape(8, 8)

    def layer(note):
        return lambda v: note(jnp.sin(note(v)).sum(1))

    def with_rules(note):
        f = lib.custom_vjp(lambda u: note(u * 2))
        f.defvjp(lambda u: (note(u * 2), note(u)), lambda r, g: (note(r) * note(g),))
        return f

    def with_ambiguous_rule():
        f = lib.custom_vjp(lambda u: u * 2)
        f.defvjp(lambda u: (u * 2, u), lambda r, g: (g @ r,))
        return f

    def with_jvp(note):
        f = lib.custom_jvp(lambda u: note(u * 2))
        f.defjvp(lambda p, t: (note(p[0] * 2), note(t[0]) * 2))
        return f

    return {
        "jit": lambda v, note: lib.jit(layer(note))(v),
        "jit in jit": lambda v, note: lib.jit(lambda u: note(lib.jit(layer(note))(u.T)))(v),
        "grad": lambda v, note: lib.grad(lambda u: layer(note)(u).sum())(v),
        "jit grad": lambda v, note: lib.jit(lib.grad(lambda u: layer(note)(u).sum()))(v),
        "grad jit": lambda v, note: lib.grad(lambda u: lib.jit(layer(note))(u).sum())(v),
        "grad grad": lambda v, note: lib.grad(lambda w: lib.grad(lambda u: layer(note)(u).sum())(w).sum())(v),
        "jvp": lambda v, note: lib.jvp(layer(note), (v,), (v,)),
        "vmap": lambda v, note: note(lib.vmap(lambda r: note(note(r) * 2))(v)),
        "vmap1": lambda v, note: note(lib.vmap(lambda r: note(note(r) * 2), 1)(v)),
        "jit vmap": lambda v, note: lib.jit(lambda u: note(lib.vmap(lambda r: note(note(r) * 2))(u)))(v),
        "vmap jit": lambda v, note: lib.vmap(lib.jit(lambda r: note(note(r) * 2)))(v),
        "vmap grad": lambda v, note: lib.vmap(lib.grad(lambda r: note(note(r) * r).sum()))(v),
        "vmap name": lambda v, note: lib.vmap(lambda r: note(r * lax.psum(1, "i")), axis_name="i")(v),
        "scan": lambda v, note: lax.scan(lambda c, w: (note(c * 2), note(w)), v, a),
        "scan xs": lambda v, note: lax.scan(lambda c, w: (c, note(w * note(c).sum())), v, v.T),
        "scan closure": lambda v, note: lax.scan(lambda c, w: (note(c + v), None), v, None, length=2),
        "scan plain carry": lambda v, note: lax.scan(lambda c, w: (note(c + v), None), jnp.zeros((8, 8)), None, length=2),
        "jit scan": lambda v, note: lib.jit(lambda u: lax.scan(lambda c, w: (note(c * 2), None), u, None, length=2))(v),
        "grad scan": lambda v, note: lib.grad(
            lambda u: lax.scan(lambda c, w: (note(c * 2), None), u, None, length=2)[0].sum())(v),
        "while": lambda v, note: lax.while_loop(lambda c: note(c).sum() < 3, lambda c: note(c * 2 + 1), v),
        "fori": lambda v, note: lax.fori_loop(0, 3, lambda i, c: note(c * 2), v),
        "cond": lambda v, note: lax.cond(True, lambda c: note(c * 2), lambda c: note(c), v),
        "jit cond": lambda v, note: lib.jit(lambda u: lax.cond(u.sum() < 3, lambda c: note(c * 2), lambda c: note(c), u))(v),
        "checkpoint": lambda v, note: lib.checkpoint(lambda u: note(jnp.sin(note(u))))(v),
        "grad checkpoint": lambda v, note: lib.grad(lambda u: lib.checkpoint(lambda w: note(jnp.sin(note(w))))(u).sum())(v),
        "custom_vjp": lambda v, note: lib.jit(with_rules(note))(v),
        "jit grad custom_vjp": lambda v, note: lib.jit(lib.grad(lambda u: with_rules(note)(u).sum()))(v),
        "ambiguous custom_vjp": lambda v, note: lib.jit(lib.grad(lambda u: with_ambiguous_rule()(u).sum()))(v),
        "eager ambiguous custom_vjp": lambda v, note: lib.grad(lambda u: with_ambiguous_rule()(u).sum())(v),
        "constraint": lambda v, note: lib.jit(lambda u: note(lax.with_sharding_constraint(u, P("x", "y"))))(v),
        "eager constraint": lambda v, note: note(lax.with_sharding_constraint(v, P("x", "y"))),
        "replicated constraint": lambda v, note: lib.jit(lambda u: note(lax.with_sharding_constraint(u, P())))(v),
        "zeros_like": lambda v, note: lib.jit(lambda u: note(jnp.zeros_like(u)))(v),
        "full_like": lambda v, note: lib.jit(lambda u: note(jnp.full_like(u, 3, "int32")))(v),
        "vmap zeros_like": lambda v, note: lib.vmap(lambda u: note(jnp.ones_like(u)))(v),
        "vmap reshard": lambda v, note: note(lib.vmap(lambda r: note(lib.sharding.reshard(r, P("x"))))(v)),
        "jit vmap reshard": lambda v, note: lib.jit(
            lambda u: note(lib.vmap(lambda r: note(lib.sharding.reshard(r, P("y"))))(u)))(v),
        "custom_jvp": lambda v, note: lib.jit(with_jvp(note))(v),
        "jit jvp custom_jvp": lambda v, note: lib.jit(lambda u: lib.jvp(with_jvp(note), (u,), (u,)))(v),
        "reshard": lambda v, note: lib.jit(lambda u: note(lib.sharding.reshard(u, P("y", None))))(v),
        "out_sharding": lambda v, note: lib.jit(lambda u: note(jnp.einsum("ij,jk->ik", u, u, out_sharding=P("x"))))(v),
        "auto_axes": lambda v, note: lib.jit(lambda u: note(lib.sharding.auto_axes(
            lambda w: w @ w, out_sharding=P("x", None))(u)))(v),
        "refused": lambda v, note: lib.jit(lambda u: note(u @ u))(v),
        "make_jaxpr": lambda v, note: lib.make_jaxpr(layer(note))(v) and None,
        "make_jaxpr refused": lambda v, note: lib.make_jaxpr(lambda u: u @ u)(v) and None,
        "eval_shape refused": lambda v, note: lib.eval_shape(lambda u: u @ u, v) and None,
        "eval_shape": lambda v, note: note(lib.eval_shape(layer(note), v)),
        "jit eval_shape": lambda v, note: note(lib.jit(lambda u: u.sum(0)).eval_shape(v)),
        "plain argument": lambda v, note: lib.jit(lambda u: note(note(u) * 2))(a),
        "closure": lambda v, note: lib.jit(lambda u: note(u + v))(a),
    }


def types_seen(lib: ModuleType, f: Callable[..., Any], v: Any) -> list[str] | None:
    """Return the types that a function of `traced_cases` records; None if it is refused."""
    seen: list[str] = []

    def note(x):
        seen.append(str(lib.typeof(x)).lstrip("~").split("{")[0])
        return x

    try:
        f(v, note)
    except Exception as error:
        if type(error).__name__ in ("ShardingTypeError", "ShardingMismatchError", "TypeError", "ValueError", "AssertionError",
                                    "DuplicateSpecError"):
            return None
        raise
    return list(dict.fromkeys(seen))


def _make_gradient(lib: ModuleType, f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Return the jitted gradient of the sum of the squares of all results that are real."""
    def total(*args):
        leaves = lib.tree_util.tree_leaves(f(*args))
        return sum([(x * x).sum() for x in leaves if lib.numpy.issubdtype(x.dtype, lib.numpy.floating)], start=0.0)

    return lib.jit(lib.grad(total, argnums))


def run_all(lib: ModuleType, put: Callable[..., Any], outcome: Callable[..., Any]) -> dict[str, Any]:
    """Return the outcome of each case. `put(shape, spec)` makes an array; `outcome(f, *args)` describes a call."""
    found = {}
    for i, first in SPECS.items():
        for name, f in unary_cases(lib).items():
            found[f"{name} {i}"] = outcome(f, put((8, 8), first))
        for name, f in {**unary_cases(lib), **gradient_cases(lib)}.items():
            if name not in NOT_DIFFERENTIATED:
                found[f"gradient {name} {i}"] = outcome(_make_gradient(lib, f), put((8, 8), first))
        for name, f in traced_cases(lib).items():
            found[f"typeof {name} {i}"] = types_seen(lib, f, put((8, 8), first))
        for j, second in SPECS.items():
            for name, f in binary_cases(lib).items():
                found[f"{name} {i} {j}"] = outcome(f, put((8, 8), first), put((8, 8), second))
                found[f"gradient {name} {i} {j}"] = outcome(_make_gradient(lib, f, (0, 1)), put((8, 8), first),
                                                            put((8, 8), second))
    for shape, spec, new in RESHAPES:
        found[f"reshape {shape} {spec} {new}"] = outcome(lambda v, new=new: lib.lax.reshape(v, new), put(shape, spec))
    return found
