"""Every collective in several forms, every nesting of maps, and the results as exact matrices.

A function that is linear in its operand acts equally on each element of the operand's last axis. So one call on an identity
along that axis gives the matrix from the inputs of all members to the outputs of all members; one pullback gives its
transpose. Expected results are computed by the code in `docs/design/collectives.md`. Numbers are integers times
`SCALE`, which every number of members divides, so means are exact too.
"""
from __future__ import annotations

import doctest
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lamina_autodiff import jvp, vjp
from lamina_batching import vmap
from lamina_ir import AxisEnv
from lamina_parallel import pmap
from lamina_tracing import jit, lax

__all__ = ["CASES", "Case", "Mapping", "check", "mappings"]

SCALE = 720720  # 1 to 16 divide it


def _read_page() -> dict[str, Callable[..., Any]]:
    page = Path(__file__).parents[2] / "docs" / "design" / "collectives.md"
    names: dict[str, Any] = {"np": np}
    for example in doctest.DocTestParser().get_examples(page.read_text()):
        if example.source.startswith(("def ", "meaning = ")):
            exec(example.source, names)
    return names["meaning"]


MEANING = _read_page()


class Case(NamedTuple):
    """A collective in one form.

    Attributes:
      name: of the test.
      call: function of an operand, names, and groups.
      means: function from the operands of a group, in order, to the results.
      shape: function from the group's size to the shape of the operand, without the last axis.
      groups: "any", "equal" or "none".
      kind: "linear", "max_min", or "value" if it has no derivative.
    """

    name: str
    call: Callable[..., Any]
    means: Callable[[list[Any]], list[Any]]
    shape: Callable[[int], tuple[int, ...]]
    groups: str
    kind: str = "linear"


def _case(name: str, shape: Callable[[int], tuple[int, ...]], groups: str = "none", kind: str = "linear",
          form: str = "", **params: Any) -> Case:
    """`params` may be functions of the number of members."""
    op = getattr(lax, name)

    def of(n: int) -> dict[str, Any]:
        return {k: v(n) if callable(v) else v for k, v in params.items()}

    def call(x: Any, names: Any, index_groups: Any) -> Any:
        more = {} if groups == "none" else {"axis_index_groups": index_groups}
        return op(x, names, **of(lax.axis_size(names)), **more)

    return Case(name + form, call, lambda xs: MEANING[name](xs, **of(len(xs))), shape, groups, kind)


def _index(name: str) -> Case:
    """Return the case of `axis_index` or `axis_size`, which have no operand: the result is added to one."""
    def call(x: Any, names: Any, index_groups: Any) -> Any:
        return lax.add(lax.full_like(x, 0), lax.convert_element_type(getattr(lax, name)(names), x.dtype))

    def means(xs: list[Any]) -> list[Any]:
        return [np.zeros_like(x) + k for x, k in zip(xs, MEANING[name](xs))]
    return Case(name, call, means, lambda n: (1,), "none", "value")


FACTOR = np.array([[1, 2, -3], [0, -1, 5]], np.float32)  # [a, b]


def _product(name: str, call: Callable[..., Any]) -> Case:
    def means(xs: list[Any]) -> list[Any]:
        return MEANING["psum"]([np.einsum("ab,a...->b...", FACTOR, x) for x in xs])
    return Case(name, call, means, lambda n: (2,), "none")


def _braces(names: tuple[str, ...]) -> str:
    return "{" + ",".join(names) + "}"


CASES = [
    _case("psum", lambda n: (2,), "any"), _case("pmean", lambda n: (2,), "any"),
    _case("pmax", lambda n: (2,), "any", "max_min"), _case("pmin", lambda n: (2,), "any", "max_min"),
    _case("pargmax", lambda n: (2,), kind="value"), _case("pargmin", lambda n: (2,), kind="value"),
    _case("all_gather", lambda n: (2,), "equal"), _case("all_gather", lambda n: (2,), "equal", form="_1", axis=1),
    _case("all_gather", lambda n: (2,), "equal", form="_tiled", axis=0, tiled=True),
    _case("psum_scatter", lambda n: (n,), "equal"),
    _case("psum_scatter", lambda n: (2, n), "equal", form="_1", scatter_dimension=1),
    _case("psum_scatter", lambda n: (2 * n,), "equal", form="_tiled", scatter_dimension=0, tiled=True),
    _case("all_to_all", lambda n: (n, 2), "equal", form="_01", split_axis=0, concat_axis=1),
    _case("all_to_all", lambda n: (2, n), "equal", form="_10", split_axis=1, concat_axis=0),
    _case("all_to_all", lambda n: (n,), "equal", form="_00", split_axis=0, concat_axis=0),
    _case("all_to_all", lambda n: (n, 2), "equal", form="_01_tiled", split_axis=0, concat_axis=1, tiled=True),
    _case("all_to_all", lambda n: (2 * n,), "equal", form="_00_tiled", split_axis=0, concat_axis=0, tiled=True),
    _case("pswapaxes", lambda n: (2, n), "equal", axis=1),
    _case("ppermute", lambda n: (2,), form="_ring", perm=lambda n: [(k, (k + 1) % n) for k in range(n)]),
    _case("ppermute", lambda n: (2,), form="_some", perm=lambda n: [(k, (3 * k + 1) % n) for k in range(1, n) if n % 3]),
    _case("pshuffle", lambda n: (2,), perm=lambda n: list(range(1, n))[::-1] + [0]),
    _case("pbroadcast", lambda n: (2,), form="_last", source=lambda n: n - 1),
    _product("pdot", lambda x, names, groups: lax.pdot(FACTOR, x, names, ((0,), (0,)))),
    _product("xeinsum", lambda x, names, groups: lax.xeinsum(f"ab{_braces(names)},ak{_braces(names)}->bk", FACTOR, x)),
    _index("axis_index"), _index("axis_size"),
]


class Mapping(NamedTuple):
    """The maps around a collective.

    Attributes:
      levels: (name, size, map) of the axes, outermost first.
      names: the axes of the collective.
      groups: `axis_index_groups`.
      within: other transformations around it: see `WITHIN`.
    """

    levels: tuple[tuple[str, int, str], ...]
    names: tuple[str, ...]
    groups: Any
    within: str

    def __str__(self) -> str:
        maps = " of ".join(f"{m}({name}:{size})" for name, size, m in self.levels)
        return f"over {self.names}, groups {self.groups}, in {maps}, within {self.within or 'nothing'}"

    def devices(self) -> int:
        return math.prod(size for _, size, m in self.levels if m == "pmap")


def _groupings(n: int, which: str) -> list[Any]:
    if which == "none":
        return [None]
    permuted = [(5 * i + 2) % n if n % 5 else i for i in range(n)]
    equal = [[permuted[i:i + s] for i in range(0, n, s)] for s in range(1, n + 1) if n % s == 0]
    equal += [[list(range(k, n, n // 2)) for k in range(n // 2)]] if n > 2 and n % 2 == 0 else []
    uneven = [[permuted[:1], permuted[1:]], [permuted[n // 2:], permuted[:1], permuted[1:n // 2]]][:max(0, n - 2)]
    return [None, *equal, *([g for g in uneven if all(g)] if which == "any" else [])]


def mappings(case: Case) -> Iterator[Mapping]:
    """Yield maps nested up to twice, with sizes up to 4."""
    sizes = range(1, 5)
    one = [((("i", n, m),), (("i",),)) for n in sizes for m in ("vmap", "pmap")]
    two = [((("i", n, a), ("j", k, b)), (("i",), ("j",), ("i", "j"), ("j", "i")))
           for n in sizes for k in sizes for a in ("vmap", "pmap") for b in ("vmap", "pmap")]
    for levels, choices in itertools.chain(one, two):
        of = {name: size for name, size, _ in levels}
        for names in choices:
            for groups in _groupings(math.prod(of[n] for n in names), case.groups):
                for within in WITHIN if groups is None else PLAIN:
                    yield Mapping(levels, names, groups, within)


def _scanned(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.squeeze(lax.scan(lambda c, v: (c, fun(v)), 0, lax.expand_dims(x, (0,)))[1], (0,))


def _branch(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def chosen(on: Any, x: Any) -> Any:
        return lax.cond(on, fun, lambda x: lax.full_like(fun(x), 0), x)
    return lambda x: jit(chosen)(True, x)


def _looped(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loop(x: Any) -> Any:
        start = 0, lax.full_like(fun(x), 0)
        return lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, fun(x)), start, max_iters=2)[1]
    return loop


WRAPPERS = {"jit": jit, "scan": _scanned, "cond": _branch, "while": _looped}
PLAIN = ("", "jit around", "jit")
WITHIN = (*PLAIN[:2], *WRAPPERS)


def _mapped(case: Case, where: Mapping) -> Callable[[Any], Any]:
    def fun(x: Any) -> Any:
        return case.call(x, where.names, where.groups)
    if where.within in WITHIN[2:]:
        fun = WRAPPERS[where.within](fun)
    for name, _, m in reversed(where.levels):
        fun = {"vmap": vmap, "pmap": pmap}[m](fun, axis_name=name)
    return jit(fun) if where.within == "jit around" else fun


def check(case: Case, where: Mapping) -> None:
    """Check values, tangents and the transpose against the matrix from the documentation."""
    env = AxisEnv([(name, size) for name, size, _ in where.levels])
    groups = env.groups(where.names, where.groups)
    shape, lead = case.shape(len(groups[0])), env.sizes
    size = env.size * math.prod(shape)
    f = _mapped(case, where)

    def meaning(xs: np.ndarray, means: Callable[[list[Any]], list[Any]] = case.means) -> np.ndarray:
        out: list[Any] = [None] * env.size
        for group in groups:
            for member, y in zip(group, means([xs[m] for m in group])):
                out[member] = y
        return np.stack(out)

    def same(got: Any, wanted: np.ndarray, what: str) -> None:
        got = np.asarray(got)
        assert got.shape == (*lead, *wanted.shape[1:]), f"{what} of {case.name} {where}: {got.shape}"
        # XLA divides by a shared number by multiplying with its reciprocal: quotients may differ in the last bit.
        bit = 2.0 ** -23 if case.name in ("pmean", "pmax", "pmin") else 0.0
        assert np.allclose(got, wanted.reshape(got.shape), rtol=bit, atol=0), f"{what} of {case.name} {where}"

    if case.kind == "linear":
        unit = SCALE * np.eye(size, dtype=np.float32).reshape(env.size, *shape, size)
        matrix = meaning(unit)
        out, tangent = jvp(f, (np.zeros((*lead, *shape, size), np.float32),), (unit.reshape(*lead, *shape, size),))
        same(tangent, matrix, "tangents")
        same(f(unit.reshape(*lead, *shape, size)), matrix, "values")
        rows = matrix.size // size
        back = SCALE * np.eye(rows, dtype=np.float32).reshape(*lead, *matrix.shape[1:-1], rows)
        got, = vjp(f, np.zeros((*lead, *shape, rows), np.float32))[1](back)
        same(got, matrix.reshape(rows, size).T.reshape(env.size, *shape, rows), "transpose")
        return
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (env.size, *shape, 6)).astype(np.float32)
    same(f(x.reshape(*lead, *shape, 6)), meaning(x), "values")
    if case.kind == "value":
        return
    # d y = the mean of d x over the members with the maximum; the transpose divides the sum equally.
    held = (x == meaning(x)).astype(np.float32)
    t, ct = [SCALE * rng.integers(0, 2, x.shape).astype(np.float32) for _ in range(2)]

    def total(v: np.ndarray) -> np.ndarray:
        return meaning(v.astype(np.float64), MEANING["psum"])
    place = (*lead, *x.shape[1:])
    same(jvp(f, (x.reshape(place),), (t.reshape(place),))[1], total(held * t) / total(held), "tangents")
    same(vjp(f, x.reshape(place))[1](ct.reshape(place))[0], held * total(ct) / total(held), "transpose")
