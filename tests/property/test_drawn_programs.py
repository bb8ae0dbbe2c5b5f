"""Properties of whole programs: random nestings of control flow, custom rules and primitives evaluate equally everywhere."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import lamina
import numpy as np
import pytest
from drawing import Draw
from growing import grow, types, values
from hypothesis import given, settings
from hypothesis import strategies as st
from lamina import lax
from lamina_autodiff.testing import check_jvp, check_vjp
from lamina_batching.testing import check_vmap
from lamina_ir import (ClosedJaxpr, alpha_equal, check, cse, dce, dumps, dtypes, evaluate, fold_constants, inline_calls,
                       loads, partial_eval)
from lamina_ir.testing import assert_close
from lamina_tracing.extend import jaxpr_as_fun, typeof
from wrapping import WRAPS

MORE = settings(max_examples=4 * settings().max_examples)


class Case(NamedTuple):
    """A program, its operands, and the indices of inexact operands."""

    program: ClosedJaxpr
    args: list[np.ndarray]
    smooth: list[int]

    def fun(self, *xs: Any) -> list[Any]:
        """Call the program as a function of its inexact operands."""
        args = list(self.args)
        for i, x in zip(self.smooth, xs):
            args[i] = x
        return jaxpr_as_fun(self.program)(*args)

    def inexact(self, *xs: Any) -> list[Any]:
        return [o for o in self.fun(*xs) if dtypes.is_inexact(typeof(o).dtype)]

    def loss(self, *xs: Any) -> Any:
        """Return a number that depends on every inexact result."""
        total = 0.0
        for o in self.inexact(*xs):
            o = lax.add(lax.real(o), lax.imag(o)) if dtypes.is_complex(typeof(o).dtype) else o
            total = lax.add(total, lax.reduce_sum(lax.sin(o), tuple(range(typeof(o).ndim))))
        return total

    @property
    def point(self) -> list[np.ndarray]:
        return [self.args[i] for i in self.smooth]


@st.composite
def programs(draw: Callable[..., Any], wide: bool = False, size: int = 5) -> Case:
    d = Draw(draw, wide)
    avals = types(d)
    program = grow(d, avals, size=size, depth=2)
    args = values(d, avals)
    return Case(program, args, [i for i, a in enumerate(args) if a.dtype.kind in "fc"])


def assert_all_close(got: Any, wanted: Any, slack: float = 200.0) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert_close(a, b, slack=slack)


def check_derivatives(fun: Callable[..., Any], point: list[np.ndarray]) -> None:
    check_jvp(fun, partial(lamina.jvp, fun), point, eps=1e-5, rtol=1e-3, atol=1e-3)
    check_vjp(fun, partial(lamina.vjp, fun), point, eps=1e-5, rtol=1e-3, atol=1e-3)


@MORE
@given(case=programs())
def test_compiled_programs_match_numpy(case):
    check(case.program)
    wanted = evaluate(case.program, *case.args)
    assert_all_close(lamina.jit(jaxpr_as_fun(case.program))(*case.args), wanted)


@given(case=programs(size=3))
def test_eager_programs_match_numpy(case):
    assert_all_close(jaxpr_as_fun(case.program)(*case.args), evaluate(case.program, *case.args))


@given(case=programs(wide=True))
def test_compiled_derivatives_match_numpy(case):
    at = tuple(range(len(case.smooth)))
    if at:
        program = lamina.make_jaxpr(lamina.grad(case.loss, at))(*case.point)
        assert_all_close(lamina.jit(lamina.grad(case.loss, at))(*case.point), evaluate(program, *case.point))


def wrap(case: Case, names: list[str]) -> Callable[..., list[Any]]:
    """Return the inexact part of the program under these transformations, the first innermost."""
    fun = case.inexact
    for name in names:
        fun = WRAPS[name](fun)
    return fun


WRAPPED = st.lists(st.sampled_from(sorted(WRAPS)), min_size=2, max_size=3)


@MORE
@given(case=programs(wide=True, size=2), names=WRAPPED)
def test_transformations_nest(case, names):
    if case.smooth and case.inexact(*case.point):
        fun = wrap(case, names)
        wanted = evaluate(lamina.make_jaxpr(fun)(*case.point), *case.point)
        assert_all_close(lamina.jit(fun)(*case.point), wanted)


@pytest.mark.usefixtures("on_numpy")
class TestOnNumPy:
    """Tests without a compiler."""

    @MORE
    @given(case=programs(wide=True))
    def test_jvp_is_the_limit_of_differences_and_vjp_its_transpose(self, case):
        if case.smooth:
            check_derivatives(case.inexact, case.point)

    @MORE
    @given(case=programs(wide=True, size=3))
    def test_second_derivatives(self, case):
        at = tuple(range(len(case.smooth)))
        if at:
            check_derivatives(lamina.grad(case.loss, at), case.point)

    @MORE
    @given(case=programs(wide=True, size=2), names=WRAPPED)
    def test_nested_transformations_have_derivatives(self, case, names):
        if case.smooth and case.inexact(*case.point):
            fun = wrap(case, names)
            assert_all_close(fun(*case.point), evaluate(lamina.make_jaxpr(fun)(*case.point), *case.point))
            check_derivatives(fun, case.point)

    @MORE
    @given(data=st.data())
    def test_vmap_matches_a_loop(self, data):
        case = data.draw(programs())
        d = Draw(data.draw, False)
        axes = [d.pick((0, None, a.ndim)) for a in case.args]
        if all(a is None for a in axes):
            axes[0] = 0
        examples = [np.stack([x, *(d.array(x.shape, x.dtype) for _ in range(2))], axis) if axis is not None else x
                    for x, axis in zip(case.args, axes)]
        check_vmap(jaxpr_as_fun(case.program), examples, axes, slack=200)

    @MORE
    @given(data=st.data())
    def test_grad_of_vmap_is_vmap_of_grad(self, data):
        case = data.draw(programs(wide=True, size=3))
        at = tuple(range(len(case.smooth)))
        if not at:
            return
        d = Draw(data.draw, True)
        args = [np.stack([x, *(d.array(x.shape, x.dtype) for _ in range(2))]) for x in case.point]
        wanted = [[lamina.grad(case.loss, at)(*(a[k] for a in args))[i] for k in range(3)] for i in at]
        assert_all_close(lamina.vmap(lamina.grad(case.loss, at))(*args), map(np.stack, wanted))
        total = lambda *xs: lax.reduce_sum(lamina.vmap(case.loss)(*xs), (0,))  # noqa: E731
        assert_all_close(lamina.grad(total, at)(*args), map(np.stack, wanted))

    @MORE
    @given(data=st.data())
    def test_rewritten_and_serialized_programs_evaluate_equally(self, data):
        case = data.draw(programs())
        program, args = derive(case, data.draw(st.sampled_from(("plain", "jvp", "vmap"))))
        wanted = evaluate(program, *args)
        loaded = loads(dumps(program))
        assert alpha_equal(program, loaded, weak=True)
        live = dce(program, instantiate=True)[0]
        for other in (loaded, cse(program), live, inline_calls(program), fold_constants(program),
                      fold_constants(inline_calls(cse(live)))):
            check(other)
            assert_all_close(evaluate(other, *args), wanted, slack=1)
        assert_all_close(evaluate_in_stages(program, args, [data.draw(st.booleans()) for _ in args]), wanted, slack=1)


def derive(case: Case, how: str) -> tuple[ClosedJaxpr, list[np.ndarray]]:
    """Return the program, its directional derivative, or its batch of three members."""
    if how == "plain" or not case.smooth:
        return case.program, case.args
    if how == "jvp":
        fun = lambda *xs: lamina.jvp(case.inexact, xs, xs)  # noqa: E731
        args = case.point
    else:
        fun, args = lamina.vmap(jaxpr_as_fun(case.program)), [np.stack([x] * 3) for x in case.args]
    return lamina.make_jaxpr(fun)(*args), args


def evaluate_in_stages(program: ClosedJaxpr, args: list[np.ndarray], known: list[bool]) -> list[Any]:
    """Return the results when the known operands are used first."""
    split = partial_eval(program, known)
    check(split.known), check(split.unknown)
    early = evaluate(split.known, *[a for a, k in zip(args, known) if k])
    n = sum(split.out_known)
    late = iter(evaluate(split.unknown, *early[n:], *[a for a, k in zip(args, known) if not k]))
    first = iter(early[:n])
    return [next(first) if k else next(late) for k in split.out_known]
