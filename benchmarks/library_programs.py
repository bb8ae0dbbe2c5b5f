"""Library functions, small and large: compiled, eager, their first call, and the memory that the compiler plans.

Three more rows of each say what no front end gets below: `launch`, jaxlib's launch of the one executable of the small
call without any Python of ours; `xla`, what the compiler alone takes of a first call; and `begun`, that and the first
launch.

Registered only where a part of a name that is asked for begins with `library`: these rows take minutes.
"""
from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from harness import FIGURES, MODULE, PROGRAMS, array, host, lax, leaves, random, wait, xnp, xp
from library_names import NAMES

nn = importlib.import_module(MODULE + ".nn")
special = importlib.import_module(MODULE + ".scipy.special")
_KEY = random.PRNGKey(3)
_COMPILED: list[float] = []  # seconds, of the last program's compilations


def spd(n: int, batch: int = 1) -> Any:
    a = host(batch, n, n)
    return xnp.asarray(a @ a.swapaxes(1, 2) + n * 2 * xnp.eye(n))


def ints(n: int, most: int, seed: int = 0) -> Any:
    return xnp.asarray((abs(host(n, seed=seed)) * 7919).astype("int32") % most)


def attention(q: Any, k: Any, v: Any) -> Any:
    return nn.softmax(xnp.einsum("bthd,bshd->bhts", q, k) / 8.0, axis=-1) @ v.transpose(0, 2, 1, 3)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / xnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


# name -> (function, small arguments, large arguments)
CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any], Callable[[], Any]]] = {
    "sort": (xnp.sort, lambda: (array(64),), lambda: (array(100_000),)),
    "argsort": (xnp.argsort, lambda: (array(64),), lambda: (array(100_000),)),
    "top_k": (lambda x: lax.top_k(x, 8), lambda: (array(64),), lambda: (array(64, 4096),)),
    "cumsum": (xnp.cumsum, lambda: (array(64),), lambda: (array(1_000_000),)),
    "cumprod": (xnp.cumprod, lambda: (array(64),), lambda: (array(1_000_000),)),
    "convolve": (xnp.convolve, lambda: (array(64), array(5)), lambda: (array(20_000), array(201))),
    "fft": (xnp.fft.fft, lambda: (array(64),), lambda: (array(16, 65_536),)),
    "rfft2": (xnp.fft.rfft2, lambda: (array(16, 16),), lambda: (array(512, 512),)),
    "solve": (xnp.linalg.solve, lambda: (spd(8)[0], array(8)), lambda: (spd(300)[0], array(300, 20))),
    "cholesky": (xnp.linalg.cholesky, lambda: (spd(8)[0],), lambda: (spd(300)[0],)),
    "qr": (xnp.linalg.qr, lambda: (array(8, 8),), lambda: (array(300, 200),)),
    "inverse": (xnp.linalg.inv, lambda: (spd(8)[0],), lambda: (spd(300)[0],)),
    "determinant": (xnp.linalg.det, lambda: (spd(3)[0],), lambda: (spd(200)[0],)),
    "svd": (lambda x: xnp.linalg.svd(x, full_matrices=False), lambda: (array(8, 8),), lambda: (array(150, 100),)),
    "eigh": (xnp.linalg.eigh, lambda: (spd(8)[0],), lambda: (spd(150)[0],)),
    "norm": (xnp.linalg.norm, lambda: (array(64),), lambda: (array(1_000_000),)),
    "quantile": (lambda x: xnp.quantile(x, 0.3), lambda: (array(64),), lambda: (array(100_000),)),
    "median": (xnp.median, lambda: (array(64),), lambda: (array(100_000),)),
    "unique": (lambda x: xnp.unique(x, size=32), lambda: (ints(64, 32),), lambda: (ints(100_000, 32),)),
    "searchsorted": (xnp.searchsorted, lambda: (xnp.arange(64.0), array(16)),
                     lambda: (xnp.arange(100_000.0), array(10_000))),
    "histogram": (lambda x: xnp.histogram(x, bins=20)[0], lambda: (array(64),), lambda: (array(100_000),)),
    "interp": (xnp.interp, lambda: (array(16), xnp.arange(64.0), array(64)),
               lambda: (array(100_000), xnp.arange(1000.0), array(1000))),
    "segment_sum": (lambda x, i: xp.ops.segment_sum(x, i, 16), lambda: (array(64), ints(64, 16)),
                    lambda: (array(100_000, 8), ints(100_000, 16))),
    "logsumexp": (lambda x: special.logsumexp(x, axis=-1), lambda: (array(8, 8),), lambda: (array(1000, 1000),)),
    "softmax": (nn.softmax, lambda: (array(8, 8),), lambda: (array(1000, 1000),)),
    "gelu": (nn.gelu, lambda: (array(64),), lambda: (array(1_000_000),)),
    "layer_norm": (layer_norm, lambda: (array(8, 16), array(16), array(16)),
                   lambda: (array(1024, 512), array(512), array(512))),
    "attention": (attention, lambda: (array(1, 8, 2, 8),) * 3, lambda: (array(4, 128, 8, 64),) * 3),
    "one_hot": (lambda i: nn.one_hot(i, 128), lambda: (ints(16, 128),), lambda: (ints(10_000, 128),)),
    "einsum_of_four": (lambda a, b, c, d: xnp.einsum("ij,jk,kl,lm->im", a, b, c, d), lambda: (array(8, 8),) * 4,
                       lambda: (array(400, 20), array(20, 400), array(400, 20), array(20, 400))),
    "batched_products": (xnp.matmul, lambda: (array(4, 8, 8), array(4, 8, 8)),
                         lambda: (array(64, 64, 64), array(64, 64, 64))),
    "kron": (xnp.kron, lambda: (array(4, 4), array(4, 4)), lambda: (array(40, 40), array(25, 25))),
    "take": (lambda x, i: xnp.take(x, i, axis=0), lambda: (array(64, 8), ints(16, 64)),
             lambda: (array(10_000, 64), ints(20_000, 9000))),
    "scatter_add": (lambda x, i, y: x.at[i].add(y), lambda: (array(64), ints(16, 64), array(16)),
                    lambda: (array(10_000, 16), ints(20_000, 9000), array(20_000, 16))),
    "pad_and_roll": (lambda x: xnp.roll(xnp.pad(x, 3), 5), lambda: (array(64),), lambda: (array(1000, 1000),)),
    "uniform": (lambda k: random.uniform(k, (64,)), lambda: (_KEY,), lambda: (_KEY,)),
    "normal": (lambda k: random.normal(k, (64,)), lambda: (_KEY,), lambda: (_KEY,)),
    "gamma": (lambda k: random.gamma(k, 2.5, (64,)), lambda: (_KEY,), lambda: (_KEY,)),
    "beta": (lambda k: random.beta(k, 2.5, 1.5, (64,)), lambda: (_KEY,), lambda: (_KEY,)),
    "poisson": (lambda k: random.poisson(k, 3.0, (64,)), lambda: (_KEY,), lambda: (_KEY,)),
    "permutation": (lambda k: random.permutation(k, 64), lambda: (_KEY,), lambda: (_KEY,)),
    "gammaln": (special.gammaln, lambda: (array(64) ** 2 + 1,), lambda: (array(300_000) ** 2 + 1,)),
}
_LARGE_DRAWS: dict[str, Callable[..., Any]] = {
    "uniform": lambda k: random.uniform(k, (300_000,)), "normal": lambda k: random.normal(k, (300_000,)),
    "gamma": lambda k: random.gamma(k, 2.5, (30_000,)), "beta": lambda k: random.beta(k, 2.5, 1.5, (20_000,)),
    "poisson": lambda k: random.poisson(k, 3.0, (30_000,)), "permutation": lambda k: random.permutation(k, 30_000)}


def first_call(f: Callable[..., Any], args: Any) -> float:
    """Return the microseconds of the first call of a new jitted function; an added constant makes it a program in no
    cache."""
    start = time.perf_counter()
    wait(xp.jit(lambda *a: (f(*a), xnp.float32(start)))(*args))
    return (time.perf_counter() - start) * 1e6


def compiler_alone(f: Callable[..., Any], args: Any) -> float:
    """Return the microseconds of such a first call that XLA needs to compile the program."""
    _COMPILED.clear()
    first_call(f, args)
    return max(_COMPILED) * 1e6


def compiler_and_launch(f: Callable[..., Any], args: Any) -> float:
    """Return the microseconds of such a first call that the compiler and the first launch need."""
    _COMPILED.clear()
    stamp = time.perf_counter()
    executable = xp.jit(lambda *a: (f(*a), xnp.float32(stamp))).lower(*args).compile().runtime_executable()
    start = time.perf_counter()
    for results in executable.execute_sharded(leaves(args)).disassemble_into_single_device_arrays():
        results[0].block_until_ready()
    return (max(_COMPILED) + time.perf_counter() - start) * 1e6


def _listen(event: str, seconds: float, **_: Any) -> None:
    if event.endswith("/backend_compile_duration"):
        _COMPILED.append(seconds)


def planned_bytes(f: Callable[..., Any], args: Any) -> float:
    """Return the bytes that the compiler plans in addition to the arguments; 1 is added so that ratios are defined."""
    found = xp.jit(lambda *a: f(*a)).lower(*args).compile().memory_analysis()
    return float(found.temp_size_in_bytes + found.output_size_in_bytes + 1)


def _register(name: str) -> None:
    f, small, large = CASES[name]
    g = _LARGE_DRAWS.get(name, f)

    def compiled(fun: Callable[..., Any], make: Callable[[], Any]) -> Callable[[], Callable[[], Any]]:
        def set_up() -> Callable[[], Any]:
            args, call = make(), xp.jit(fun)
            return lambda: call(*args)
        return set_up

    def eager() -> Callable[[], Any]:
        args = small()
        return lambda: f(*args)

    PROGRAMS[f"library_small_{name}"] = compiled(f, small), 500, 5, time.perf_counter
    PROGRAMS[f"library_large_{name}"] = compiled(g, large), 3, 7, time.perf_counter
    def launch() -> Callable[[], Any]:
        args = small()
        given, executable = leaves(args), xp.jit(lambda *a: f(*a)).lower(*args).compile().runtime_executable()

        def run() -> Any:
            return executable.execute_sharded(given)
        return run

    PROGRAMS[f"library_eager_{name}"] = eager, 30, 5, time.perf_counter
    PROGRAMS[f"library_launch_{name}"] = launch, 300, 5, time.perf_counter
    FIGURES[f"library_xla_{name}"] = lambda cache: compiler_alone(f, small())
    FIGURES[f"library_begun_{name}"] = lambda cache: compiler_and_launch(f, small())
    FIGURES[f"library_first_{name}"] = lambda cache: first_call(f, small())
    FIGURES[f"library_memory_{name}"] = lambda cache: planned_bytes(g, large())


xp.monitoring.register_event_duration_secs_listener(_listen)
for _name in NAMES:
    _register(_name)
assert {*NAMES} == {*CASES}
