"""Memory of a process that meets many shapes, or many functions: each program below is called with N distinct ones, in
a process of its own.

usage: python benchmarks/memory.py [--shapes N] [--only PART ...] [--cache FOLDER]

Prints the process's resident megabytes at every tenth, and what is held. With bounded caches the numbers stop growing
after the first two thousand shapes or so. Compiling takes minutes at first, and less from the on-disk cache. The programs
`new_...` make new functions of one shape each time.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_megabytes() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE / 1e6


def programs() -> dict[str, Callable[[Any], Any]]:
    """Name -> a call on a vector of the next shape."""
    import lamina
    import lamina.numpy as jnp
    from lamina import lax
    mapped = lamina.pmap(lambda x: jnp.sin(x) * 2)

    def add_up(total: Any, x: Any) -> Any:
        return total + x, total

    def custom_rule(x: Any) -> Any:
        @lamina.custom_vjp
        def f(x: Any) -> Any:
            return jnp.sin(x) * 2

        f.defvjp(lambda x: (f(x), x), lambda x, g: (jnp.cos(x) * 2 * g,))
        return lamina.jit(f)(x)

    return {
        "jit": lamina.jit(lambda x: jnp.sin(x) * 2 + x),
        "eager_sin": lambda x: lax.sin(x),
        "eager_add": lambda x: x + x,
        "eager_matmul": lambda x: x @ x,
        "eager_reshape": lambda x: x[:, None],
        "grad": lamina.grad(lambda x: (jnp.sin(x) * x).sum()),
        "vmap": lamina.vmap(lambda x: jnp.sin(x) * 2),
        "jit_grad": lamina.jit(lamina.grad(lambda x: (jnp.sin(x) * x).sum())),
        "jvp": lambda x: lamina.jvp(lambda x: jnp.sin(x) * 2, (x,), (x,)),
        "scan": lambda x: lax.scan(add_up, jnp.float32(0), x),
        "while_loop": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x),
        "cond": lambda x: lax.cond(x[0] > 0, lambda x: x * 2, lambda x: x + 1, x),
        "pmap": lambda x: mapped(x[None]),
        "make_jaxpr": lambda x: lamina.make_jaxpr(lambda x: jnp.sin(x) * 2)(x),
        "new_jit": lambda x: lamina.jit(lambda y: jnp.sin(y) * 2)(x),
        "new_grad": lambda x: lamina.grad(lambda y: (jnp.sin(y) * 2).sum())(x),
        "new_scan": lambda x: lax.scan(lambda c, y: (c + y, c), jnp.float32(0), x),
        "new_custom_vjp": custom_rule,
    }


def measure(name: str, shapes: int) -> None:
    """The rows of one program."""
    import lamina
    import lamina.numpy as jnp
    from lamina_runtime._compile import executable_cache
    call = programs()[name]
    client = lamina.devices()[0].client
    row = [f"{resident_megabytes():.0f}"]
    for n in range(1, shapes + 1):
        call(jnp.asarray(np.zeros(3 if name.startswith("new_") else n, np.float32)))
        if n % max(shapes // 10, 1) == 0:
            row.append(f"{resident_megabytes():.0f}")
            print(f"{name:14} {n:6}  {row[-1]:>5} MB  {len(client.live_executables()):5} executables alive, "
                  f"{executable_cache.memory_usage()[1] / 1e6:.0f} MB estimated", file=sys.stderr, flush=True)
    print(f"| {name} | {' | '.join(row)} |", flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of programs")
    parser.add_argument("--cache", help="on-disk cache to use; by default a new one")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.here:
        measure(options.here, options.shapes)
        return 0
    step = max(options.shapes // 10, 1)
    print(f"| megabytes after | 0 | {' | '.join(str(step * k) for k in range(1, 11))} |")
    print(f"| --- |{' ---: |' * 11}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LAMINA_CACHE_DIR": options.cache or folder}
        for name in programs():
            if not options.only or any(part in name for part in options.only):
                subprocess.run([sys.executable, __file__, "--here", name, "--shapes", str(options.shapes)],
                               env=environment, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
