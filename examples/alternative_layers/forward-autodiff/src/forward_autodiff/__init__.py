"""`grad`, `vjp` and related functions by forward mode alone: no program is recorded or transposed.

The pullback `c' J` of a cotangent `c` is computed from the JVPs of the basis vectors `e_k` of the inputs: entry `k` is
`c . J e_k`. This takes one run of the function per input element, all at once if lamina-batching is installed, and
stores no residuals. It is a reference for transpose rules, and for few inputs a way to differentiate programs without a
transpose, such as a loop without a bound.

Complex numbers are pairs of real ones under `Re(a b)`, as in lamina's transposes: an input element `x + i y` gets
`c . J e_x - i (c . J e_y)`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_autodiff.extend import make_reverse_mode
from lamina_autodiff._default import *
from lamina_autodiff._default import __all__ as _names
from lamina_autodiff._default import jvp
from lamina_ir import aval_of, dtypes
from lamina_tracing import lax, hooks
from lamina_tracing.extend import trace_state, typeof

__all__ = list(_names)
__contract__ = 1
__version__ = "0.1.0"


class ForwardPullback:
    """The pullback of `fun` to the active ones among `primals`, computed with JVPs."""

    def __init__(self, fun: Callable[..., Sequence[Any]], primals: Sequence[Any], active: Sequence[bool],
                 outs: Sequence[Any]) -> None:
        self.fun, self.primals, self.active, self.outs = fun, primals, active, list(outs)

    def backward(self, cts: Sequence[Any], *, free: bool = False) -> list[Any]:
        return [self._of_input(i, cts) for i, on in enumerate(self.active) if on]

    def _of_input(self, i: int, cts: Sequence[Any]) -> Any:
        aval = typeof(self.primals[i]).strip_weak_type()
        basis = np.eye(aval.size, dtype=aval.dtype).reshape(aval.size, *aval.shape)
        names = tuple([frame.name for frame in trace_state.axes])
        if not names:
            return lax.reshape(self._entries(i, cts, aval, basis, lambda row: row, lambda total: total), aval.shape)
        # Members of mapped axes are one function together. Each uses its own basis vectors while the tangents of the
        # others are zero, and the changes of all results are summed.
        members, here = lax.axis_size(names), lax.axis_index(names)
        found = lax.full((aval.size,), 0, aval.dtype)
        for m in range(members):
            is_member = lax.convert_element_type(lax.eq(here, lax.full((), m, np.int32)), aval.dtype)
            entries = self._entries(i, cts, aval, basis, lambda row, is_member=is_member: lax.mul(row, is_member),
                                    lambda total: lax.psum(total, names))
            found = lax.add(found, lax.mul(entries, is_member))
        return lax.reshape(found, aval.shape)

    def _entries(self, i: int, cts: Sequence[Any], aval: Any, basis: np.ndarray, seed: Any, gather: Any) -> Any:
        """Return `c . J e_k` for each row `e_k` of the basis."""
        def push(row: Any) -> Any:
            rest = [np.zeros(typeof(x).shape, dtypes.float0) if not on else lax.full(typeof(x).shape, 0, typeof(x).dtype)
                    for x, on in zip(self.primals, self.active)]
            tangents = [seed(row) if k == i else t for k, t in enumerate(rest)]
            outs = jvp(lambda *xs: list(self.fun(*xs))[:len(self.outs)], self.primals, tangents)[1]
            return [gather(sum_of_products(cts, outs, aval))]

        found = self._rows(push, basis)
        if dtypes.is_complex(aval.dtype):
            found = lax.sub(found, lax.mul(self._rows(push, basis * aval.dtype.type(1j)), lax.full((), 1j, aval.dtype)))
        return found

    def _rows(self, push: Callable[[Any], list[Any]], basis: np.ndarray) -> Any:
        if not len(basis):
            return lax.full((0,), 0, basis.dtype)
        rows = hooks.evaluator.array(basis, aval_of(basis))
        if hooks.basis_map is not None:
            return hooks.basis_map(push, [rows])[0]
        return lax.concatenate([lax.expand_dims(push(lax.index_in_dim(rows, k, 0, False))[0], (0,))
                                for k in range(len(basis))], 0)


def sum_of_products(cts: Sequence[Any], outs: Sequence[Any], like: Any) -> Any:
    """Return the real part of `c . t` summed over all results, in the dtype of the input."""
    total = lax.full((), 0, like.dtype)
    for ct, t in zip(cts, outs):
        if ct is not None and typeof(t).dtype != dtypes.float0:
            term = lax.mul(ct, t)
            term = lax.real(term) if dtypes.is_complex(typeof(term).dtype) else term
            term = lax.reduce_sum(term, tuple(range(typeof(term).ndim)))
            total = lax.add(total, lax.convert_element_type(term, like.dtype))
    return total


def run_forward(fun: Callable[..., Sequence[Any]], primals: Sequence[Any],
                active: Sequence[bool]) -> tuple[list[Any], ForwardPullback]:
    """Return the results and the pullback: the function runs unchanged, and again for each cotangent."""
    outs = list(fun(*primals))
    return outs, ForwardPullback(fun, primals, active, outs)


vjp, value_and_grad, grad, jacrev, hessian = make_reverse_mode(run_forward)
jacobian = jacrev


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value and the linear approximation, which runs `fun` again at each call."""
    out = fun(*primals)
    linear = (lambda *xs: fun(*xs)[0]) if has_aux else fun

    def f_jvp(*tangents: Any) -> Any:
        return jvp(linear, primals, tangents)[1]

    return (out[0], f_jvp, out[1]) if has_aux else (out, f_jvp)
