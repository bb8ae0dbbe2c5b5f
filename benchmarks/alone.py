"""Compare the layers that need only NumPy, without a runtime, with HIPS autograd and with NumPy itself.

usage: python benchmarks/alone.py [--repeats N] [--only PART ...]

The same functions run in one process per dtype, in autograd's environment, with lamina's sources on the path. The
systems are measured alternately, so that a change of the machine's speed affects all of them; the best of the repeats
counts. Results are compared before the measurement.
"""
from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
Run = Callable[[], Any]
# compared with -> goal of the ratio
DTYPE = os.environ.get("LAMINA_ALONE", "float64")
GOALS = {"autograd": 1.2, "jit": 0.7, "numpy": 2.0, "linalg": 1.5, "hessian": 1.5}


# --- the functions; `np` is autograd's NumPy, ours, or `lax` under the same names -----------------------------------------
def mlp(np: Any, layers: Any, x: Any) -> Any:
    """64 - 128 - 10, 32 rows."""
    (w1, b1), (w2, b2) = layers
    return np.tanh(x @ w1 + b1) @ w2 + b2


def loss(np: Any, layers: Any, x: Any, y: Any) -> Any:
    miss = mlp(np, layers, x) - y
    return np.sum(miss * miss)


def chain(np: Any, x: Any) -> Any:
    """100 steps of one primitive each."""
    for _ in range(25):
        x = np.tanh(np.sin(x) * 1.5 + 0.25)
    return np.sum(x)


def products(np: Any, a: Any, b: Any) -> Any:
    """Three products of 400 x 400 matrices, a sum."""
    return np.sum((a @ b) @ (b @ a))


def linear_algebra(np: Any) -> dict[str, Any]:
    """Functions of a 60 x 60 matrix near the identity: one call of LAPACK each, or two for symmetric matrices."""
    la = np.linalg

    def spectral(a: Any) -> Any:
        w, v = la.eigh(a + a.T)
        return np.sum((v * np.tanh(w)) @ v.T * SQUARE)

    return {"solve with a vector": lambda a: np.sum(la.solve(a, SQUARE[0])), "solve": lambda a: np.sum(la.solve(a, SQUARE)),
            "inv": lambda a: np.sum(la.inv(a) * SQUARE), "det": lambda a: la.det(a), "slogdet": lambda a: la.slogdet(a)[1],
            "cholesky": lambda a: np.sum(la.cholesky(a @ a.T) * SQUARE), "eigh": spectral,
            "svd": lambda a: np.sum(la.svd(a, full_matrices=False)[1] * SQUARE[0])}


def functions_of_vectors(np: Any) -> dict[str, tuple[Any, int]]:
    """Functions for Hessians, and their dimensions."""
    def rosenbrock(x: Any) -> Any:
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def small_mlp(w: Any) -> Any:
        first, second = np.reshape(w[:20], (4, 5)), w[20:25]
        return np.mean((np.tanh(ROWS[:, :4] @ first) @ second - TARGETS[:, 0]) ** 2)

    return {"Rosenbrock in 10": (rosenbrock, 10), "Rosenbrock in 50": (rosenbrock, 50), "MLP in 25": (small_mlp, 25),
            "elementwise in 50": (lambda x: np.sum(np.tanh(x) * np.sin(x) + np.exp(-x ** 2)), 50)}


def values(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(DTYPE)


LAYERS = [(values(64, 128, seed=1, scale=0.1), values(128, seed=2)), (values(128, 10, seed=3, scale=0.1), values(10, seed=4))]
ROWS, TARGETS = values(32, 64, seed=5), values(32, 10, seed=6)
VECTOR, A, B = values(64, seed=7), values(400, 400, seed=8, scale=0.05), values(400, 400, seed=9, scale=0.05)

SQUARE, NEAR_ONE = values(60, 60, seed=10), values(60, 60, seed=11, scale=0.02) + np.eye(60, dtype=DTYPE)


# --- timing ---------------------------------------------------------------------------------------------------------------
def flat(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, (list, tuple)) else [np.asarray(tree)]


def agree(runs: dict[str, Run]) -> None:
    """Raise ValueError if the systems have different results."""
    first, *others = [flat(run()) for run in runs.values()]
    for other in others:
        for x, y in zip(first, other, strict=True):
            if x.shape != y.shape or not np.allclose(x, y, rtol=1e-3, atol=1e-4):
                raise ValueError(f"alone: results differ: {', '.join(runs)}")


def best(runs: dict[str, Run], repeats: int) -> dict[str, float]:
    """Return the microseconds of processor time per call, measured alternately."""
    agree(runs)
    found = dict.fromkeys(runs, math.inf)
    calls = {}
    for name, run in runs.items():
        start = time.thread_time()
        run()
        calls[name] = max(1, int(0.01 / (time.thread_time() - start)))
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.thread_time()
            for _ in range(calls[name]):
                run()
            found[name] = min(found[name], (time.thread_time() - start) / calls[name] * 1e6)
    return found


# --- rows -----------------------------------------------------------------------------------------------------------------
def gradients(np: Any, grad: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return name of row -> gradient and arguments."""
    return {"grad_mlp": (grad(lambda layers, x, y: loss(np, layers, x, y)), (LAYERS, ROWS, TARGETS)),
            "grad_chain": (grad(lambda x: chain(np, x)), (VECTOR,)),
            "grad_products": (grad(lambda a, b: products(np, a, b)), (A, B))}


def compare_with_autograd(kind: str, np: Any, only: list[str]) -> list[tuple[str, str, dict[str, Run]]]:
    """Return the rows of gradients, eager and jitted, compared with autograd, which is eager only."""
    from autograd import grad
    from autograd import numpy as anp
    from lamina_autodiff import grad as our_grad
    from lamina_tracing import jit
    theirs, ours = gradients(anp, grad), gradients(np, our_grad)
    rows = []
    for name, (g, args) in theirs.items():
        f = ours[name][0]
        for row, goal, run in ((f"{name}, {kind}", "autograd", f), (f"jit of {name}, {kind}", "jit", jit(f))):
            rows.append((row, goal, {"lamina": lambda run=run, args=args: run(*args),
                                     "autograd": lambda g=g, args=args: g(*args)}))
    return rows


def compare_linear_algebra(jnp: Any) -> list[tuple[str, str, dict[str, Run]]]:
    """Return the rows of eager gradients through LAPACK."""
    from autograd import grad
    from autograd import numpy as anp
    from lamina_autodiff import grad as our_grad
    theirs, ours = linear_algebra(anp), linear_algebra(jnp)
    return [(f"grad of {name}", "linalg", {"lamina": lambda g=our_grad(ours[name]): g(NEAR_ONE),
                                           "autograd": lambda g=grad(f): g(NEAR_ONE)}) for name, f in theirs.items()]


def compare_hessians() -> list[tuple[str, str, dict[str, Run]]]:
    """Return the rows of eager Hessians of functions written with NumPy."""
    from autograd import hessian
    from autograd import numpy as anp
    from lamina_autodiff import hessian as our_hessian
    ours = functions_of_vectors(np)
    return [(f"hessian, {name}", "hessian",
             {"lamina": lambda h=our_hessian(ours[name][0]), x=values(n, seed=12): h(x),
              "autograd": lambda h=hessian(f), x=values(n, seed=12): h(x)})
            for name, (f, n) in functions_of_vectors(anp).items()]


def compare_with_numpy(jnp: Any) -> list[tuple[str, str, dict[str, Run]]]:
    from lamina_tracing import jit
    layers, rows = [tuple(map(jnp.asarray, pair)) for pair in LAYERS], jnp.asarray(ROWS)
    a, b = jnp.asarray(A), jnp.asarray(B)
    jitted = jit(lambda layers, x: mlp(jnp, layers, x))
    plain: Run = lambda: mlp(np, LAYERS, ROWS)
    return [("mlp, numpy", "numpy", {"lamina": lambda: mlp(jnp, layers, rows), "numpy": plain}),
            ("jit of mlp, numpy", "numpy", {"lamina": lambda: jitted(layers, rows), "numpy": plain}),
            ("products, numpy", "numpy", {"lamina": lambda: products(jnp, a, b), "numpy": lambda: products(np, A, B)})]


def measure(repeats: int, only: list[str]) -> int:
    from lamina_ir import config
    from lamina_tracing import lax
    named = SimpleNamespace(sin=lax.sin, tanh=lax.tanh, sum=lambda x: lax.reduce_sum(x, tuple(range(x.ndim))))
    config.enable_x64.set(DTYPE == "float64")
    lines = [f"| {DTYPE} | lamina | compared with | ratio | goal | |", "| --- | ---: | ---: | ---: | ---: | --- |"]

    def show(rows: Any) -> None:
        for name, basis, runs in rows:
            if only and not any(part in name for part in only):
                continue
            ours, other = best(runs, repeats).values()
            ratio = ours / other
            lines.append(f"| {name} | {ours:,.1f} | {other:,.1f} | {ratio:.2f} | {GOALS[basis]:g} {basis} | "
                         f"{'' if ratio <= GOALS[basis] else 'short'} |")

    show(compare_with_autograd("lax", named, only))  # with the operators of lamina_tracing; lamina_numpy installs others
    show(compare_with_autograd("np", np, only))  # NumPy functions on traced values
    import lamina_numpy as jnp
    show(compare_with_autograd("numpy", jnp, only))
    show(compare_with_numpy(jnp))
    show(compare_linear_algebra(jnp))
    show(compare_hessians())
    assert not {"jaxlib", "lamina_runtime"}.intersection(sys.modules)
    print("\n".join(lines) + "\n", flush=True)
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of rows")
    parser.add_argument("--here", action="store_true", help="this is autograd's environment")
    options = parser.parse_args(argv)
    if options.here:
        return measure(options.repeats, options.only)
    import peers
    python = peers.alone()
    if python is None:
        return 1
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # of those that multiply matrices
    paths = os.pathsep.join(map(str, sorted(HERE.parent.glob("packages/*/src"))))
    command = [python, __file__, "--here", *(sys.argv[1:] if argv is None else argv)]
    environment = {**os.environ, **one_thread, "PYTHONPATH": paths}
    return max([subprocess.run(command, env={**environment, "LAMINA_ALONE": dtype}).returncode
                for dtype in ("float64", "float32")])


if __name__ == "__main__":
    sys.exit(main())
