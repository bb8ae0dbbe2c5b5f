"""Tables of truth: values, derivatives and second derivatives of functions by mpmath, with the size of what rounding
would change.

A row is a point, in numbers that float32 has, and for each number asked of it [what it is, its size]: that of itself and of
what it changes by where an argument changes by its own size. A function that is right is off by a few eps of that size.
"""
import json

import numpy as np
from lamina_autodiff import grad
from lamina_tracing import jit

__all__ = ["compare", "pairs", "write"]


def pairs(n, still=()):
    """All pairs of arguments that have a derivative."""
    return [(i, j) for i in range(n) for j in range(i, n) if not {i, j} & set(still)]


def _orders(n, active, twice):
    """Which derivatives a row holds: none, the first ones, and second ones."""
    one = [tuple(int(i == j) for j in range(n)) for i in range(n)]
    return [(0,) * n, *(one[i] for i in active), *(tuple(map(sum, zip(one[i], one[j]))) for i, j in twice)]


def write(file, mp, meanings, points, still, twice):
    """Make a table.

    Args:
      file: where it is written.
      mp: mpmath.
      meanings: name -> the function, of mpmath's numbers.
      points: name -> the points.
      still: of a name, the places of arguments without derivative.
      twice: of a name, the pairs of places that second derivatives are in.
    """
    mp.mp.dps = 80
    table = {}
    for name, f in meanings.items():
        rows = table[name] = []
        for point in points[name]:
            at = [mp.mpf(float(np.float32(x))) for x in point]
            active = [i for i in range(len(at)) if i not in still(name)]

            def of(order, at=at, active=active, f=f):
                if not any(order):
                    return f(*at)
                inner = lambda *xs: f(*(xs[active.index(i)] if i in active else a for i, a in enumerate(at)))
                some = [at[i] for i in active]
                orders = tuple(order[i] for i in active)
                return mp.diff(inner, tuple(some), orders) if len(some) > 1 else mp.diff(inner, some[0], orders[0])

            numbers = []
            for order in _orders(len(at), active, twice(name)):
                value = mp.chop(of(order), mp.mpf(10) ** -86)  # what differences leave of nothing
                changes = [abs(at[i] * of(tuple(o + (i == j) for j, o in enumerate(order)))) for i in active if at[i]]
                numbers.append([float(mp.nstr(value, 17)), float(mp.nstr(abs(value) + sum(changes), 3))])
            rows.append([[float(x) for x in at], numbers])
        print(name, flush=True)
    lines = [f' "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "]" for name, rows in table.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def compare(f, rows, still, twice, wide, most, second):
    """Refuse what is off by more than `most` eps of its size, a second derivative by more than `second`; `rows` are of a table,
    `wide` asks in 64 bits."""
    n = len(rows[0][0])
    active = [i for i in range(n) if i not in still]

    def derivative(f, i):
        return lambda *args: grad(lambda *a: f(*a).sum(), i)(*args)

    def everything(*args):
        first = grad(lambda *a: f(*a).sum(), active)
        return f(*args), *first(*args), *(derivative(derivative(f, i), j)(*args) for i, j in twice)

    args = [np.array([row[0][i] for row in rows], np.float64 if wide else np.float32) for i in range(n)]
    found = [np.asarray(y, np.float64) for y in jit(everything)(*args)]
    eps, large, tiny = (2.0 ** -52, 1e300, 1e-84) if wide else (2.0 ** -23, 1e37, 1e-36)
    for i, y in enumerate(found):
        want, size = (np.array([row[1][i][k] for row in rows]) for k in (0, 1))
        fits = size < large
        off = np.abs(y - want)[fits] / (eps * size[fits] + tiny)
        worst = int(np.argmax(np.nan_to_num(off, nan=np.inf))) if off.size else 0
        row = [r for r, ok in zip(rows, fits) if ok][worst] if off.size else None
        assert not off.size or off[worst] <= (second if i > len(active) else most), \
            f"number {i} at {row[0]} is {y[fits][worst]}, not {row[1][i][0]}: {off[worst]} eps"
