"""Transformations keep the source line of every primitive.

Functions are drawn as text, one primitive per line, and compiled from a file, so that the line of each primitive is known. In
every program made by transformations, loops, branches, calls and rules, each equation's line is a line of the drawn
function; an equation without a line has that of its enclosing equation. Equations of the backward pass are marked, and
each primitive is on the line it was written on.
"""
from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina_ir import ClosedJaxpr, Eqn, Source, subprograms

# An operation of a line, and its primitive. The lowering of other operations binds none of these.
OPS = {"jnp.sin(a)": "sin", "jnp.tanh(a)": "tanh", "lax.erf(a)": "erf", "jnp.arctan(a)": "atan", "lax.logistic(a)": "logistic",
       "jnp.arcsinh(a)": "asinh", "lax.cumsum(a, axis=0)": "cumsum", "a @ w": "dot_general", "lax.rev(a, (0,))": "rev"}


class Drawn(NamedTuple):
    f: Callable[..., Any]
    file: str
    ops: dict[int, str]  # line -> primitive
    lines: range


def random_function(seed: int, folder: Any, wrap: str = "{body}") -> Drawn:
    """Return a function of a vector; `wrap` is a text with `{body}`, which defines `f` and may call `body`."""
    chosen = random.Random(seed).sample(sorted(OPS), 5)
    lines = ["def body(a, w):", *[f"    a = {op}" for op in chosen], "    return a", "def f(a, w):", *wrap.splitlines()]
    path = folder / f"drawn_{seed}.py"
    path.write_text("\n".join(lines) + "\n")
    space: dict[str, Any] = {"lax": lax, "jnp": jnp, "lamina": lamina, "pull": pull, "with_rule": with_rule}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return Drawn(space["f"], str(path), {i: OPS[op] for i, op in enumerate(chosen, 2)}, range(1, len(lines) + 1))


def pull(f: Callable[..., Any], a: Any, w: Any) -> Any:
    """Return the gradient of the sum of `f`; its own primitives have the line of the call."""
    return lamina.grad(lambda a, w: f(a, w).sum())(a, w)


def with_rule(f: Callable[..., Any], kind: str) -> Any:
    """Return `f` as a function with custom rules, which its text defines."""
    return lamina.custom_jvp(f) if kind == "jvp" else lamina.custom_vjp(f)


NESTS = {
    "plain": "    return body(a, w)",
    "jit": "    return lamina.jit(body)(a, w)",
    "jit of jit": "    return lamina.jit(lambda a: lamina.jit(body)(a, w))(a)",
    "scan": "    return lax.scan(lambda c, _: (body(c, w), None), a, None, length=3)[0]",
    "scan with slices": "    return lax.scan(lambda c, x: (body(c, w), x * c), a, jnp.arange(2.0, dtype='float32'))[1].sum(0)",
    "fori": "    return lax.fori_loop(0, 3, lambda i, c: body(c, w), a)",
    "while": "    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, body(c[1], w)), (0, a), max_iters=4)[1]",
    "cond": "    return lax.cond(a[0] > 0, lambda a: body(a, w), lambda a: -a, a)",
    "checkpoint": "    return lamina.checkpoint(body)(a, w)",
    "checkpoint of scan": ("    loop = lambda a: lax.scan(lambda c, _: (body(c, w), None), a, None, length=2)[0]\n"
                           "    return lamina.checkpoint(loop)(a)"),
    "custom_jvp": ("    g = with_rule(lambda a, w: a * 2.0, 'jvp')\n"
                   "    g.defjvp(lambda p, t: (body(*p), t[0] * 2.0))\n"
                   "    return g(a, w)"),
    "custom_vjp": ("    g = with_rule(lambda a, w: body(a, w), 'vjp')\n"
                   "    g.defvjp(lambda a, w: (body(a, w), a), lambda r, t: (t * r, None))\n"
                   "    return g(a, w)"),
    "vmap": "    return lamina.vmap(lambda s: body(a * s, w))(jnp.arange(2.0, dtype='float32')).sum(0)",
    "grad": "    return pull(body, a, w)",
}


def _while_without_bound(text: str) -> str:
    return text.replace(", max_iters=4", "")


def with_lines(closed: ClosedJaxpr, around: Source | None = None, part: str = "") -> Iterator[tuple[Eqn, Source | None, str]]:
    """Yield (equation, its line, its part), including nested programs."""
    for eqn in closed.jaxpr.eqns:
        source = eqn.source or around
        here = (eqn.source.part if eqn.source is not None else "") or part
        yield eqn, source, here
        for inner in subprograms(eqn):
            yield from with_lines(inner, source, here)


SEEDS = max(2, int(os.environ.get("LAMINA_LAWS", "3")) // 2)
A, W = np.arange(1.0, 4.0, dtype="float32") / 4, np.eye(3, dtype="float32") / 2
BATCH = np.stack([A, A])
SHARED = (0, None)


def pulled(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, w: lamina.vjp(f, a, w)[1](a)


TRANSFORMATIONS = {
    "make_jaxpr": lambda f: lamina.make_jaxpr(f)(A, W),
    "jvp": lambda f: lamina.make_jaxpr(lambda a, w: lamina.jvp(f, (a, w), (a, w)))(A, W),
    "grad": lambda f: lamina.make_jaxpr(pulled(f))(A, W),
    "jit grad": lambda f: lamina.make_jaxpr(lamina.jit(pulled(f)))(A, W),
    "vmap": lambda f: lamina.make_jaxpr(lamina.vmap(f, SHARED))(BATCH, W),
    "vmap grad": lambda f: lamina.make_jaxpr(lamina.vmap(pulled(f), SHARED))(BATCH, W),
    "grad vmap": lambda f: lamina.make_jaxpr(pulled(lamina.vmap(f, SHARED)))(BATCH, W),
    "pmap grad": lambda f: lamina.make_jaxpr(lamina.pmap(pulled(f), in_axes=SHARED))(BATCH, W),
    "grad grad": lambda f: lamina.make_jaxpr(pulled(lambda a, w: lamina.vjp(f, a, w)[1](a)[0]))(A, W),
}


@pytest.mark.parametrize("change", TRANSFORMATIONS)
@pytest.mark.parametrize("nest", NESTS)
def test_every_equation_has_the_line_of_its_primitive(nest, change, tmp_path):
    for seed in range(SEEDS):
        text = NESTS[nest] if "grad" in change else _while_without_bound(NESTS[nest])
        f, file, ops, lines = random_function(seed, tmp_path, text)
        program = TRANSFORMATIONS[change](f)
        written = {op: line for line, op in ops.items()}
        backward = set()
        for eqn, source, part in with_lines(program):
            if source is None or source.file != file:
                # Outside of the drawn function: calls in this file, which have no primitive of the drawn lines.
                assert source is not None and source.file == __file__, (eqn, source)
                assert eqn.primitive.name not in written, (eqn, source)
                continue
            assert source.line in lines
            if eqn.primitive.name in written and eqn.primitive.name not in ("dot_general", "rev", "cumsum"):
                assert source.line == written[eqn.primitive.name], (eqn, source)
            if part:
                backward.add(source.line)
        if "grad" in change and nest != "custom_jvp":
            expected = set(ops) if nest != "custom_vjp" else {len(lines) - 1}
            assert expected <= backward, program
        if "grad" not in change and nest != "grad" and (nest, change) != ("custom_vjp", "jvp"):  # transposes its rule
            assert not backward
