"""Memory of operations on sparse arrays: bytes for each stored element, planned by XLA, at growing numbers of elements.

usage: python benchmarks/sparse_memory.py [--elements N ...]

The arrays are square, with as many rows as stored elements, so the dense array has the square of that number. If an
operation needs memory in proportion to the stored elements, its row is constant. Exit status 1 if one grows.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def operations() -> dict[str, Callable[[Any, Any], Any]]:
    """Name -> a function of a BCOO matrix and a vector."""
    import lamina.numpy as jnp
    from lamina.experimental import sparse
    return {
        "m @ v": lambda m, v: m @ v,
        "v @ m": lambda m, v: v @ m,
        "m + m": lambda m, v: m + m,
        "m * 2": lambda m, v: m * 2,
        "m * v": lambda m, v: m * v,
        "m * m": lambda m, v: m * m,
        "m.T": lambda m, v: m.T,
        "m.sum(0)": lambda m, v: m.sum(0),
        "m[::-1, ::2]": lambda m, v: m[::-1, ::2],
        "m[:10]": lambda m, v: m[:10],
        "m.sort_indices()": lambda m, v: m.T.sort_indices(),
        "m.sum_duplicates()": lambda m, v: (m + m).sum_duplicates(nse=m.nse),
        "concatenate": lambda m, v: sparse.bcoo_concatenate([m, m], dimension=0),
        "to BCSR": lambda m, v: sparse.BCSR.from_bcoo(m),
        "sparsify(sin(m) @ v)": sparse.sparsify(lambda m, v: jnp.sin(m) @ v),
        "grad(m @ v)": lambda m, v: sparse.grad(lambda m: ((m @ v) ** 2).sum())(m),
    }


def measure(operation: Callable[[Any, Any], Any], n: int) -> float:
    """Return the planned bytes for each stored element: arguments, results and temporary arrays."""
    import lamina
    from lamina.experimental import sparse
    rng = np.random.RandomState(0)
    indices = np.stack([rng.permutation(n), rng.permutation(n)], -1).astype(np.int32)
    mat = sparse.BCOO((np.ones(n, np.float32), indices), shape=(n, n), unique_indices=True)
    plan = lamina.jit(operation).lower(mat, np.ones(n, np.float32)).compile().memory_analysis()
    return (plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes) / n


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--elements", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    counts = parser.parse_args().elements
    print(f"{'bytes per stored element':24}", *[f"{n:>10,}" for n in counts])
    grows = []
    for name, operation in operations().items():
        found = [measure(operation, n) for n in counts]
        print(f"{name:24}", *[f"{x:10.1f}" for x in found])
        if found[-1] > 1.2 * found[0]:
            grows.append(name)
    print("grows:", ", ".join(grows) or "none")
    return 1 if grows else 0


if __name__ == "__main__":
    sys.exit(main())
