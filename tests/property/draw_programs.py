"""Random samples of primitives that contain programs, call the host or only pass values on."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lamina
import numpy as np
from drawing import Draw
from growing import POLICIES, dtype, grow, types, values
from hypothesis import strategies as st
from lamina import lax
from lamina_ir import Literal, Primitive, ShapedArray, prims, shaped
from lamina_ir.prims import Rule
from lamina_ir.extend import register_host_function
from lamina_ir.testing.samples import Sample, samples_of
from lamina_tracing.extend import jaxpr_as_fun, stage

__all__ = ["FAMILY"]

INT = shaped((), np.dtype("int32"))


def program(d: Draw, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray] | None = None) -> Any:
    return grow(d, avals, outs, d.int(1, 4), d.int(0, 1))


def find_sample(prim: Primitive, fun: Callable[..., Any], args: Sequence[Any]) -> Sample:
    """Return the sample of `prim` in `fun(*args)`, whose operands are arguments and constants."""
    staged, _ = stage(lambda *xs: list(fun(*xs)), [shaped(a.shape, a.dtype) for a in args])
    known = dict(zip(staged.jaxpr.constvars, staged.consts)) | dict(zip(staged.jaxpr.invars, args))
    eqn = next(e for e in staged.jaxpr.eqns if e.primitive is prim)
    return Sample(prim, tuple(np.asarray(a.val if type(a) is Literal else known[a]) for a in eqn.invars), eqn.params)


# --- control ------------------------------------------------------------------------------------------------------
def cond(d: Draw) -> tuple[Any, ...]:
    avals, outs = types(d, 0, 3), types(d, 0, 2)
    branches = tuple(program(d, avals, outs) for _ in range(d.int(1, 4)))
    return (np.asarray(d.int(-1, len(branches)), np.int32), *values(d, avals)), {"branches": branches}


def scan(d: Draw) -> tuple[Any, ...]:
    length = d.pick((3, 0, 1, 2, 5))
    consts, carry, rows, ys = types(d, 0, 2), types(d, 0, 2), types(d, 0, 2), types(d, 0, 2)
    return ([*values(d, consts), *values(d, carry), *values(d, rows, (length,))],
            {"jaxpr": program(d, [*consts, *carry, *rows], [*carry, *ys]), "length": length, "num_carry": len(carry),
             "num_consts": len(consts), "reverse": d.flag(), "unroll": d.int(1, 4)})


def while_(d: Draw) -> tuple[Any, ...]:
    """The condition compares a counter, and sometimes reads the carried values."""
    limits, consts, carry = [INT, *types(d, 0, 1)], types(d, 0, 2), [INT, *types(d, 0, 2)]
    look = program(d, [*limits[1:], *carry[1:]], [shaped((), np.dtype("bool"))]) if d.flag() else None
    move = program(d, [*consts, *carry], carry[1:])
    m = len(limits)

    def more(*xs: Any) -> list[Any]:
        go = lax.lt(xs[m], xs[0])
        return [go if look is None else lax.bitwise_and(go, *jaxpr_as_fun(look)(*xs[1:m], *xs[m + 1:]))]

    def once(*xs: Any) -> list[Any]:
        return [lax.add(xs[len(consts)], np.int32(1)), *jaxpr_as_fun(move)(*xs)]

    args = [np.asarray(d.int(-1, 4), np.int32), *values(d, limits[1:]), *values(d, consts), np.asarray(0, np.int32),
            *values(d, carry[1:])]
    return args, {"cond_jaxpr": stage(more, [*limits, *carry])[0], "cond_nconsts": m,
                  "body_jaxpr": stage(once, [*consts, *carry])[0], "body_nconsts": len(consts),
                  "max_iters": d.pick((2, None, 9, 0, 1, 5))}


def platform_index(d: Draw) -> tuple[Any, ...]:
    names = list(d.draw(st.permutations(("cpu", "cuda", "rocm", "tpu"))))
    groups = []
    while names:
        n = d.int(1, len(names))
        groups.append(tuple(names[:n]))
        del names[:n]
    listed = groups[:d.int(0, len(groups))]
    return (), {"platforms": tuple(listed), "has_default": d.flag() or not any("cpu" in g for g in listed)}


# --- calls with rules ---------------------------------------------------------------------------------------------
def function(d: Draw) -> tuple[Callable[..., Any], list[np.ndarray]]:
    avals = types(d)
    return jaxpr_as_fun(program(d, avals)), values(d, avals)


def custom_jvp_call(d: Draw) -> Sample:
    fun, args = function(d)
    rule = lamina.custom_jvp(fun)
    rule.defjvp(lambda primals, tangents: lamina.jvp(fun, primals, tangents))
    return find_sample(prims.custom_jvp_call_p, rule, args)


def custom_vjp_call(d: Draw) -> Sample:
    fun, args = function(d)
    rule = lamina.custom_vjp(fun)
    rule.defvjp(lambda *xs: (fun(*xs), xs), lambda xs, ct: lamina.vjp(fun, *xs)[1](ct))
    return find_sample(prims.custom_vjp_call_p, rule, args)


def custom_vmap_call(d: Draw) -> Sample:
    fun, args = function(d)
    rule = lamina.custom_batching.custom_vmap(fun)
    rule.def_vmap(lambda size, batched, *xs: (
        out := lamina.vmap(fun, [0 if b else None for b in batched], axis_size=size)(*xs), [True] * len(out)))
    return find_sample(prims.custom_vmap_call_p, rule, args)


def remat(d: Draw) -> Sample:
    fun, args = function(d)
    sample = find_sample(prims.remat_p, lamina.checkpoint(fun, policy=d.pick(POLICIES), prevent_cse=d.flag()), args)
    return Sample(sample.prim, sample.args, {**sample.params, "differentiated": d.flag()})


def transposed_call(d: Draw) -> Sample:
    """A linear function: products with constants, moves and sums; and its transpose, as the expected result."""
    aval = shaped(d.shape(0, 2), dtype(d, "fc"))
    permutation = d.axes(len(aval.shape), len(aval.shape))
    n = d.int(0, 2)

    def linear(*xs: Any) -> list[Any]:
        t, u = xs[n:]
        for held in xs[:n]:
            t = lax.add(lax.mul(t, held), u)
        return [lax.transpose(lax.sub(t, lax.mul(u, 0.5)), permutation), lax.reduce_sum(t, tuple(range(len(permutation))))]

    forward, _ = stage(linear, [aval] * (n + 2))
    back, _ = stage(lambda *xs: list(lamina.linear_transpose(lambda t, u: linear(*xs[:n], t, u), aval, aval)(
        list(xs[n:]))), [*[aval] * n, *forward.out_avals])
    return Sample(prims.transposed_call_p, tuple(values(d, [aval] * (n + 2))), {
        "forward": Rule("drawn", lambda: forward), "num_held": n, "transpose_jaxpr": back})


def xla_call(d: Draw) -> Sample:
    fun, args = function(d)
    sample = find_sample(prims.xla_call_p, lamina.jit(fun, keep_unused=d.flag()), args)
    return Sample(sample.prim, sample.args, {**sample.params, "inline": d.flag()})


# --- values passed on ---------------------------------------------------------------------------------------------
def name(d: Draw) -> tuple[Any, ...]:
    return values(d, types(d, 1, 1, "fcib", 3)), {"name": d.pick(("saved", "hidden"))}


def optimization_barrier(d: Draw) -> tuple[Any, ...]:
    return values(d, types(d, 0, 4, "fcib", 3)), {}


def sharding_constraint(d: Draw) -> tuple[Any, ...]:
    """Shardings over as many devices as tiles; empty arrays are not partitioned."""
    x, = values(d, types(d, 1, 1, "fcib", 3, empty=False))
    tiles = [d.pick([k for k in (1, 2, 4) if n % k == 0]) for n in x.shape]
    text = f"{{devices=[{','.join(map(str, tiles))}]<=[{int(np.prod(tiles))}]}}"
    free = tuple(sorted(d.axes(x.ndim))) if d.flag() else ()
    return [x], {"sharding": text if max(tiles, default=1) > 1 else "{replicated}", "unspecified_dims": free}


# --- systems and the host -----------------------------------------------------------------------------------------
def dotted(a: Any, x: Any) -> Any:
    return lax.dot_general(a, x, (((1,), (0,)), ((), ())))


def triangular(a: Any, y: Any, transpose_a: bool) -> Any:
    return lax.linalg.triangular_solve(a, y, left_side=True, lower=True, transpose_a=transpose_a)


def lower(a: Any) -> Any:
    """Return a triangular matrix with a strong diagonal, from any numbers."""
    n = len(a)
    return lax.add(lax.mul(a, 0.3 * np.tril(np.ones((n, n)), -1).astype(a.dtype)), (2 * np.eye(n)).astype(a.dtype))


# the product with the matrix built from the numbers, the solution, and the solution of the transposed system
SYSTEMS = (
    (lax.mul, lambda a, y: lax.div(y, a), lambda a, y: lax.div(y, a)),
    (lambda a, x: dotted(lower(a), x), lambda a, y: triangular(lower(a), y, False),
     lambda a, y: triangular(lower(a), y, True)))


def linear_solve(d: Draw) -> Sample:
    """A diagonal or triangular system; its numbers are an operand or a constant; sometimes the solver has auxiliary output."""
    n, kind, has_aux, held = d.pick((2, 3, 1, 0)), dtype(d, "fc"), d.flag(), d.flag()
    product, *solvers = d.pick(SYSTEMS)
    a, b = d.array((n, n), kind), d.array((n, n), kind)

    def solution(*xs: Any) -> Any:
        m = xs[1] if held else a
        both = [lambda _, y, f=f: (f(m, y), lax.reduce_and(lax.eq(y, y), (0,))) if has_aux else f(m, y) for f in solvers]
        out = lax.custom_linear_solve(lambda x: product(m, x), xs[0], *both, has_aux=has_aux)
        return out if has_aux else [out]

    return find_sample(prims.linear_solve_p, solution, [b, a] if held else [b])


def mixed(x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    return x + y.sum().astype(x.dtype), np.asarray(x.size, np.int32)


MIXED = register_host_function("drawn_mixed", mixed)
ADDED = register_host_function("drawn_added", lambda x, y: (x + y,))
DROPPED = register_host_function("drawn_dropped", lambda *args, **where: ())


def host(d: Draw, prim: Primitive) -> Sample:
    """A call of one member or, per position, of a batch."""
    batch = d.shape(0, 2)
    mapped = tuple(tuple(d.flag() for _ in batch) for _ in range(2)) if batch else ()
    lead = [tuple(n for n, on in zip(batch, flags) if on) for flags in mapped] or [(), ()]
    kind, shapes = dtype(d, "fi"), [d.shape(0, 2) for _ in range(2)]
    args = [d.array((*at, *shape), kind) for at, shape in zip(lead, shapes)]
    params: dict[str, Any] = {"batch": batch, "mapped": mapped}
    results = {"result_dtypes": (kind, INT.dtype), "result_shapes": (shapes[0], ())}
    if prim is prims.pure_callback_p:
        method = d.pick((None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all"))
        if method in ("expand_dims", "broadcast_all"):
            return Sample(prim, tuple(values(d, [shaped(shapes[0], kind)] * 2)), {
                "batch": (), "mapped": (), "callback": ADDED, "result_dtypes": (kind,), "result_shapes": (shapes[0],),
                "vmap_method": method})
        return Sample(prim, tuple(args), {**params, **results, "callback": MIXED, "vmap_method": method})
    extra = {"callback": DROPPED, "indexed": d.flag()} if prim is prims.debug_callback_p else {
        "callback": MIXED, **results}
    ordered = d.flag()
    return Sample(prim, (*args, np.asarray(0, np.int32))[:3 if ordered else 2],
                  {**params, **extra, "ordered": ordered, "threaded": ordered})


DRAWN = {"cond": cond, "scan": scan, "while": while_, "platform_index": platform_index, "name": name,
         "custom_jvp_call": custom_jvp_call, "custom_vjp_call": custom_vjp_call, "custom_vmap_call": custom_vmap_call,
         "remat": remat, "transposed_call": transposed_call, "optimization_barrier": optimization_barrier,
         "sharding_constraint": sharding_constraint, "xla_call": xla_call, "linear_solve": linear_solve}


def drawn(d: Draw, prim: Primitive) -> Sample:
    if prim.name not in DRAWN:
        return d.pick(samples_of(prim))
    made = DRAWN[prim.name](d)
    return made if isinstance(made, Sample) else Sample(prim, tuple(map(np.asarray, made[0])), made[1])


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {
    "control": drawn, "custom": drawn, "calls": drawn, "solves": drawn, "callbacks": host}
