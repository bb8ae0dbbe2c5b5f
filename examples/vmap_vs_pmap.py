"""Map one function over an array axis (`vmap`) and over devices (`pmap`); then train on several devices.

usage: python examples/vmap_vs_pmap.py [--vectors N] [--epochs N] [--out FOLDER]

Part one maps the dot product over 10,000,000 pairs of vectors in every way, prints the programs and the times, and
draws a bar chart. Part two trains a small network on handwritten digits, data-parallel over eight devices. These are
virtual CPU devices, configured below; no flag is needed.
"""
from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import lamina
import lamina.numpy as jnp
from lamina import lax, random
from svg_bars import bar_picture, seconds

DEVICES = 8
lamina.config.update("platforms", "cpu")  # both before the first device is used
lamina.config.update("num_cpu_devices", DEVICES)

Params = list[tuple[Any, Any]]
Timing = tuple[str, str, list[float], int]


def heading(text: str) -> None:
    print(f"\n=== {text}\n", flush=True)


def show(expression: str, value: Any) -> None:
    """Print an expression and its value, like a notebook."""
    print(f"{expression}\n    {str(value).replace(chr(10), chr(10) + '    ')}", flush=True)


def timeit(run: Callable[[], Any], runs: int = 7, at_least: float = 0.05) -> tuple[list[float], int]:
    """Return the seconds per call in each of several runs, and the number of calls per run; each result is waited
    for."""
    run().block_until_ready()
    start = time.perf_counter()
    run().block_until_ready()
    loops = max(1, min(1000, int(at_least / max(time.perf_counter() - start, 1e-9))))
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(loops):
            run().block_until_ready()
        found.append((time.perf_counter() - start) / loops)
    return found, loops


def dot(v: lamina.Array, u: lamina.Array) -> lamina.Array:
    return jnp.vdot(v, u)


def notebook(vectors: int) -> list[Timing]:
    """Compare vmap and pmap as in the notebook; return the times of the variants."""
    heading("Devices")
    show("lamina.default_backend()", lamina.default_backend())
    show("lamina.local_devices()", "\n".join(map(repr, lamina.local_devices())))
    show("dot(jnp.ones(shape=(3,)), jnp.ones(shape=(3,)))", repr(dot(jnp.ones(shape=(3,)), jnp.ones(shape=(3,)))))

    heading(f"{2 * vectors:,} x 3 normal numbers, as two sets of vectors")
    arr = random.normal(random.PRNGKey(42), shape=(2 * vectors, 3))
    v, u = arr[:vectors, :], arr[vectors:, :]
    show("v.shape, u.shape", (v.shape, u.shape))

    heading("vmap: (b,v) . (b,u) => (b,)")
    dot_vmap = lamina.vmap(dot)
    by_vmap = dot_vmap(v, u)
    show("lamina.vmap(dot)(v, u).shape", by_vmap.shape)

    heading("pmap: (d,v) . (d,u) => (d,), d the number of devices")
    dot_pmap = lamina.pmap(dot)
    try:
        dot_pmap(v, u)
    except ValueError as error:
        print(f"\N{CROSS MARK} {type(error).__name__}: {error}\n")
    count = lamina.local_device_count()
    v_parallel, u_parallel = v.reshape(count, -1, 3), u.reshape(count, -1, 3)
    show("v_parallel.shape, u_parallel.shape", (v_parallel.shape, u_parallel.shape))
    show("lamina.pmap(dot)(v_parallel, u_parallel).shape", dot_pmap(v_parallel, u_parallel).shape)
    show("lamina.make_jaxpr(dot_pmap)(v_parallel, u_parallel)", lamina.make_jaxpr(dot_pmap)(v_parallel, u_parallel))

    heading("pmap of vmap: no reshape inside")
    dot_parallel = lamina.pmap(lamina.vmap(dot))
    res = dot_parallel(v_parallel, u_parallel)
    show("lamina.pmap(lamina.vmap(dot))(v_parallel, u_parallel).shape", res.shape)
    show("type(res)", type(res))
    difference = float(jnp.max(jnp.abs(res.reshape(-1) - by_vmap)))
    show("largest difference from vmap", difference)
    assert difference < 1e-4, "vmap and pmap(vmap) disagree"
    # Inputs that are already on their devices, as in a training loop.
    place = lamina.pmap(lambda x: x)
    v_sharded, u_sharded = place(v_parallel), place(u_parallel)
    jit_vmap = lamina.jit(dot_vmap)
    large = f"2 x {vectors:,} x 3"
    times: list[Timing] = []
    for name, run in {"vmap": lambda: dot_vmap(v, u), "jit(vmap)": lambda: jit_vmap(v, u),
                      "pmap": lambda: dot_pmap(v_sharded, u_sharded),
                      "pmap(vmap)": lambda: dot_parallel(v_sharded, u_sharded)}.items():
        times.append((name, large, *timeit(run, runs=5)))

    heading("Sixteen vectors: every order of jit, vmap and pmap")
    vs = random.normal(random.PRNGKey(42), shape=(2 * count, 3))
    v1s, v2s = vs[:count, :], vs[count:, :]
    show("lamina.vmap(dot)(v1s, v2s)", repr(lamina.vmap(dot)(v1s, v2s)))
    show("lamina.pmap(dot)(v1s, v2s)", repr(lamina.pmap(dot)(v1s, v2s)))
    variants = {"jit(vmap)": lamina.jit(lamina.vmap(dot)), "jit(pmap)": lamina.jit(lamina.pmap(dot)),
                "pmap(jit)": lamina.pmap(lamina.jit(dot)), "pmap": lamina.pmap(dot)}
    for name, mapped in variants.items():
        assert jnp.allclose(mapped(v1s, v2s), dot_vmap(v1s, v2s), atol=1e-5), name
        times.append((name, f"2 x {count} x 3", *timeit(lambda mapped=mapped: mapped(v1s, v2s))))

    heading("Their programs")
    for name, mapped in variants.items():
        show(f"lamina.make_jaxpr({name} of dot)(v1s, v2s)", lamina.make_jaxpr(mapped)(v1s, v2s))
    return times


def report(times: list[Timing], out: Path) -> None:
    """Print the table of times, and write the bar chart to a file."""
    heading("Times")
    table = Table(title="Time per call, waiting for each result")
    for column in ("variant", "inputs", "mean", "std. dev.", "best", "runs x calls"):
        table.add_column(column, justify="left" if column in ("variant", "inputs") else "right")
    for name, inputs, found, loops in times:
        table.add_row(name, inputs, seconds(statistics.mean(found)), seconds(statistics.pstdev(found) or 1e-9),
                      seconds(min(found)), f"{len(found)} x {loops}")
    Console(width=100).print(table)
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "vmap_vs_pmap.svg"
    groups = list(dict.fromkeys(inputs for _, inputs, _, _ in times))
    rows = [(f"{name}, {inputs}", min(found), groups.index(inputs)) for name, inputs, found, _ in times]
    picture.write_text(bar_picture("vmap and pmap: best time per call", rows), encoding="utf-8")
    print(f"bar picture: {picture}", flush=True)


def initial_params(key: Any, sizes: tuple[int, ...]) -> Params:
    """Return weights `[n_in, n_out]` with variance 1 / n_in, and zero biases."""
    keys = random.split(key, len(sizes) - 1)
    return [(random.normal(k, (m, n)) * (1.0 / m) ** 0.5, jnp.zeros(n)) for k, m, n in zip(keys, sizes, sizes[1:])]


def log_probabilities(params: Params, x: Any) -> Any:
    """Map images `[n, 64]` to log-probabilities of the ten digits `[n, 10]`."""
    *hidden, (w, b) = params
    for weights, bias in hidden:
        x = jnp.tanh(x @ weights + bias)
    logits = x @ w + b
    logits = logits - lax.stop_gradient(jnp.max(logits, axis=1, keepdims=True))
    return logits - jnp.log(jnp.sum(jnp.exp(logits), axis=1, keepdims=True))


def loss(params: Params, x: Any, y: Any) -> Any:
    """Return the mean cross-entropy in nats."""
    one_hot = (y[:, None] == jnp.arange(10)).astype(x.dtype)
    return -jnp.mean(jnp.sum(one_hot * log_probabilities(params, x), axis=1))


def train_step(params: Params, velocity: Params, x: Any, y: Any, rows: Any) -> tuple[Params, Params, Any]:
    """Do one step of gradient descent with momentum on a device's rows; gradients are averaged over all devices."""
    value, grads = lamina.value_and_grad(loss)(params, x[rows], y[rows])
    value, grads = lax.pmean((value, grads), "devices")
    velocity = lamina.tree_util.tree_map(lambda m, g: 0.9 * m - 0.1 * g, velocity, grads)
    params = lamina.tree_util.tree_map(lambda p, m: p + m, params, velocity)
    return params, velocity, value


def digits(key: Any, train: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the 1,797 images of scikit-learn in random order: `train` of them, and the rest for the test."""
    from sklearn.datasets import load_digits
    images, labels = load_digits(return_X_y=True)
    order = np.asarray(random.permutation(key, len(labels)))
    x, y = (images[order] / 16.0).astype(np.float32), labels[order].astype(np.int32)
    return x[:train], y[:train], x[train:], y[train:]


def training(epochs: int, per_device: int = 180, batch: int = 30) -> float:
    """Train on `per_device` images on each device; return the accuracy on the test images."""
    heading("Handwritten digits, data-parallel")
    devices = lamina.local_devices()[:DEVICES]
    data_key, params_key, order_key = random.split(random.PRNGKey(0), 3)
    x, y, x_test, y_test = digits(data_key, per_device * len(devices))
    print(f"{len(x)} images to train on, {per_device} on each of {len(devices)} devices; {len(x_test)} for the test")
    params = lamina.device_put_replicated(initial_params(params_key, (64, 64, 10)), devices)
    velocity = lamina.tree_util.tree_map(jnp.zeros_like, params)
    xs = lamina.device_put_sharded(list(x.reshape(len(devices), per_device, -1)), devices)
    ys = lamina.device_put_sharded(list(y.reshape(len(devices), per_device)), devices)
    step = lamina.pmap(train_step, axis_name="devices", in_axes=(0, 0, 0, 0, None), donate_argnums=(0, 1))
    correct = lamina.jit(lambda params: jnp.mean(jnp.argmax(log_probabilities(params, x_test), axis=1) == y_test))
    accuracy = 0.0
    for epoch in range(epochs):
        start = time.perf_counter()
        order = np.asarray(random.permutation(random.fold_in(order_key, epoch), per_device)).reshape(-1, batch)
        losses = []
        for rows in order:
            params, velocity, value = step(params, velocity, xs, ys, rows)
            losses.append(value)
        mean_loss = float(np.mean([value[0] for value in losses]))
        accuracy = float(correct(lamina.tree_util.tree_map(lambda p: p[0], params)))
        print(f"epoch {epoch + 1:3d}/{epochs}  loss {mean_loss:.4f}  test accuracy {accuracy:.4f}  "
              f"{time.perf_counter() - start:.2f} s", flush=True)
    copies = np.asarray(params[0][0])
    assert all(np.array_equal(copies[0], copy) for copy in copies), "the devices' parameters drifted apart"
    return accuracy


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=10_000_000, help="pairs of vectors; a multiple of 8")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the chart")
    options = parser.parse_args(argv)
    if options.vectors % DEVICES or options.vectors <= DEVICES:
        parser.error(f"--vectors: a multiple of {DEVICES} above {DEVICES} is needed; got {options.vectors}")
    report(notebook(options.vectors), options.out)
    accuracy = training(options.epochs)
    print(f"\ntest accuracy: {accuracy:.4f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
