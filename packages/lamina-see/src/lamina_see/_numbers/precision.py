"""Where relative error is born: compare a program with 64 bits on the NumPy evaluator, equation by equation.

Each equation runs three times. The first is in its own precision. The second is in 64 bits, on the values of the 64-bit
program, and gives the error so far. The third is in 64 bits on its own operands, and gives the error that it adds itself.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, config, dtypes, evaluate_primitive, prims
from lamina_ir.extend import RegionView

from .._equations import Sources
from .._progress import note_progress

__all__ = ["measure_precision"]

Row = dict[str, Any]
_MAX_ROWS = 200
_TINY = 1e-300


class _Pair(NamedTuple):
    """A value in the precision of the program, and in 64 bits."""

    own: np.ndarray
    wide: np.ndarray


class _Error:
    """The largest errors of an equation over all its executions."""

    def __init__(self) -> None:
        self.total = self.born = self.lost = 0.0
        self.overflow = False


def _widen(x: np.ndarray) -> np.ndarray:
    if not dtypes.is_inexact(x.dtype):
        return x
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def _wide_params(e: Eqn) -> dict[str, Any]:
    """Return the params of an equation with 64-bit dtypes in place of inexact ones."""
    def widen(value: Any) -> Any:
        if isinstance(value, np.dtype) and dtypes.is_inexact(value):
            return np.dtype(np.complex128 if dtypes.is_complex(value) else np.float64)
        return value

    return {name: widen(value) for name, value in e.params.items()}


def _relative(own: np.ndarray, wide: np.ndarray) -> float:
    """Return the error of an array, relative to its largest value in 64 bits, at most 1: no digit is right.

    Values that are not finite are left out.
    """
    with np.errstate(all="ignore"):
        exact, found = _widen(wide), _widen(own)
        finite = np.isfinite(exact) & np.isfinite(found)
        scale = float(np.abs(exact[finite]).max(initial=0.0))
        error = float(np.abs(found[finite] - exact[finite]).max(initial=0.0))
        return min(1.0, error / scale) if scale > _TINY else 0.0


class _Run:
    """One run of a program in both precisions.

    Attributes:
      errors: id of an equation -> its errors.
      eqns: the equations in the order of their first execution.
      count: how many equations ran, each iteration of a loop included.
    """

    def __init__(self) -> None:
        self.errors: dict[int, _Error] = {}
        self.eqns: list[Eqn] = []
        self.count = 0

    def program(self, closed: ClosedJaxpr, args: Sequence[_Pair]) -> list[_Pair]:
        jaxpr = closed.jaxpr
        env: dict[Any, _Pair] = {v: _Pair(np.asarray(c), _widen(np.asarray(c))) for v, c in zip(jaxpr.constvars, closed.consts)}
        env.update(zip(jaxpr.invars, args))

        def read(v: Any) -> _Pair:
            if isinstance(v, Literal):
                value = np.asarray(v.val, v.aval.dtype)
                return _Pair(value, _widen(value))
            return env[v]

        for e in jaxpr.eqns:
            self.count += 1
            note_progress("comparing with 64 bits,", f"equation {self.count}")
            env.update(zip(e.outvars, self.equation(e, [read(v) for v in e.invars])))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, e: Eqn, operands: list[_Pair]) -> list[_Pair]:
        signature = e.primitive.region_signature
        if signature is not None and signature.operands:
            if signature.axis_binding is not None:
                raise NotImplementedError(f"{e.primitive.name} runs on several devices")
            if signature.loops:
                return self.loop(e, operands)
            view = RegionView.of(e)
            k = 0 if view.selector is None else int(operands[view.selector].own)
            region = view.bodies[min(max(k, 0), len(view.bodies) - 1)]
            return self.program(region.program, [operands[i] for i in region.ins])
        own = _evaluate(e, [x.own for x in operands], dict(e.params))
        params = _wide_params(e)
        is_exact = not any(dtypes.is_inexact(v.aval.dtype) for v in e.outvars) or not e.invars
        if is_exact or e.primitive.family.startswith("random"):
            return [_Pair(x, _widen(x)) for x in own]
        if e.primitive is prims.reduce_precision_p:
            wide, near = [operands[0].wide], [_widen(operands[0].own)]
        else:
            wide = _evaluate(e, [x.wide for x in operands], params)
            near = _evaluate(e, [_widen(x.own) for x in operands], params)
        self.note(e, operands, own, wide, near)
        return [_Pair(x, w) for x, w in zip(own, wide)]

    def loop(self, e: Eqn, operands: list[_Pair]) -> list[_Pair]:
        view = RegionView.of(e)
        body = view.bodies[0]
        test = next((r for r in view.regions if r.is_test), None)
        carry = {i: operands[i] for i in range(view.carry.start, view.carry.stop)}
        if test is not None:
            limit = e.params[view.region_signature.max_iters] if view.region_signature.max_iters else None
            n = 0
            while n != limit and bool(self.program(test.program, [carry.get(i, operands[i]) for i in test.ins])[0].own):
                outs = self.program(body.program, [carry.get(i, operands[i]) for i in body.ins])
                carry = dict(zip(carry, outs))
                n += 1
            return list(carry.values())
        length, stacked = int(e.params[view.region_signature.length]), []
        reverse = bool(view.region_signature.reverse and e.params[view.region_signature.reverse])
        for t in reversed(range(length)) if reverse else range(length):
            outs = self.program(body.program, [carry.get(i, _Pair(operands[i].own[t], operands[i].wide[t])
                                                         if view.kinds[i] == "scanned" else operands[i]) for i in body.ins])
            carry = dict(zip(carry, outs[:view.n_carry]))
            stacked.append(outs[view.n_carry:])
        if reverse:
            stacked.reverse()
        if not stacked:
            return [*carry.values(), *[_Pair(z, _widen(z)) for v in e.outvars[view.n_carry:]
                                       for z in [np.zeros(v.aval.shape, v.aval.dtype)]]]
        return [*carry.values(), *[_Pair(np.stack([s.own for s in column]), np.stack([s.wide for s in column]))
                                   for column in zip(*stacked)]]

    def note(self, e: Eqn, operands: Sequence[_Pair], own: Sequence[np.ndarray], wide: Sequence[np.ndarray],
             near: Sequence[np.ndarray]) -> None:
        if id(e) not in self.errors:
            self.errors[id(e)] = _Error()
            self.eqns.append(e)
        found = self.errors[id(e)]
        into = max([_relative(x.own, x.wide) for x in operands if dtypes.is_inexact(x.own.dtype)], default=0.0)
        for x, w, n in zip(own, wide, near):
            total, born = _relative(x, w), _relative(x, n)
            found.total, found.born = max(found.total, total), max(found.born, born)
            if total > 0 and into > 0:
                found.lost = max(found.lost, float(np.log10(total / into)))
            with np.errstate(all="ignore"):
                found.overflow |= bool((~np.isfinite(_widen(x)) & np.isfinite(_widen(n))).any())


def _evaluate(e: Eqn, values: list[np.ndarray], params: dict[str, Any]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        found = evaluate_primitive(e.primitive, values, params)
    return [np.asarray(x) for x in (found if e.primitive.multiple else (found,))]


def measure_precision(closed: ClosedJaxpr, args: Sequence[Any], sources: Sources, equation_rows: dict[int, int],
                      problems: list[str]) -> list[Row] | None:
    """Return the rows of the equations with errors, the largest error born first; None if the program cannot be run so.

    Args:
      closed: the program.
      args: its flat arguments.
      sources: collects the files.
      equation_rows: id of an equation -> index of its row.
      problems: gets a sentence if it cannot be run.
    """
    made = _Run()
    try:
        pairs = [_Pair(a, _widen(a)) for a in [np.asarray(x, aval.dtype) for x, aval in zip(args, closed.in_avals)]]
        with config.enable_x64(True):
            made.program(closed, pairs)
    except KeyboardInterrupt:
        problems.append("The comparison with 64 bits was interrupted; the report has the equations until then.")
    except Exception as e:
        problems.append(f"Precision is unknown, because the comparison with 64 bits raised {type(e).__name__}: {e!s:.100}.")
        return None
    rows = []
    for eqn in made.eqns:
        error = made.errors[id(eqn)]
        if error.total or error.born or error.overflow:
            rows.append({"function": 0, "equation": equation_rows.get(id(eqn), 0), **sources.of(eqn.source),
                         "relative_error": error.total, "born": error.born, "overflow": error.overflow,
                         "digits_lost": round(max(0.0, error.lost), 2)})
    return sorted(rows, key=lambda r: (not r["overflow"], -r["born"]))[:_MAX_ROWS]
