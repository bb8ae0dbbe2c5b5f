"""Publish the functions of distributions.

Each function, such as `_logpdf`, is written for real arrays of one dtype and shape; its docstring is an example.
`Distribution` reads the arguments and writes the rest of the docstring.
"""
from __future__ import annotations

import functools
import inspect
import math
import textwrap
from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_numpy.extend import public_api

from .._util import call_real, call_with_counts, derivatives, guard, pick
from .._special._binomial_deviance import compute_log1p

__all__ = ["Distribution", "clip_at_end", "exp_complement", "exp_or_nan", "hyperbola", "log1mexp", "log1p_square",
           "log_difference", "mask_invalid", "mask_outside", "standardize", "zero_at_end"]

_NAN = "NaN if a parameter is out of range"
_KINDS = {  # first sentence; result
    "pdf": ("Return the probability density of {what}", f"not negative; 0 outside the support, {_NAN}"),
    "logpdf": ("Return the logarithm of the density of {what}", f"minus infinity outside the support, {_NAN}"),
    "pmf": ("Return the probability of a count in {what}", f"in [0, 1]; 0 if it is not a valid count, {_NAN}"),
    "logpmf": ("Return the logarithm of the probability of a count in {what}",
               f"minus infinity if it is not a valid count, {_NAN}"),
    "cdf": ("Return the cumulative probability of {what}", f"in [0, 1]; {_NAN}"),
    "logcdf": ("Return the logarithm of the cumulative probability of {what}", f"not positive; {_NAN}"),
    "sf": ("Return the survival function of {what}, `1 - cdf`", f"in [0, 1]; {_NAN}"),
    "logsf": ("Return the logarithm of the survival function of {what}", f"not positive; {_NAN}"),
    "ppf": ("Return the quantile of {what}, the inverse of `cdf`", f"NaN if q is outside [0, 1], and {_NAN}"),
    "entropy": ("Return the entropy of {what}, in nats", f"not negative; {_NAN}"),
    "isf": ("Return the upper quantile of {what}, the inverse of `sf`", f"NaN if q is outside [0, 1], and {_NAN}")}
_COMMON = {"x": "real array: the points", "k": "real array: the counts, integers",
           "q": "real array: probabilities in [0, 1]",
           "loc": "real array: the location", "scale": "real array: the scale, above 0",
           "p": "real array, in [0, 1]: the probability of a success"}


_ENDS = {"pdf": (0.0, 0.0), "logpdf": (-np.inf, -np.inf), "cdf": (0.0, 1.0), "logcdf": (-np.inf, 0.0), "sf": (1.0, 0.0),
         "logsf": (0.0, -np.inf)}  # far out on both sides


def _guard_ends(fun: Callable[..., Any], kind: str, placed: bool) -> Callable[..., Any]:
    """`fun` that is constant at infinite places: there its own derivatives may be infinity times nothing."""
    left, right = _ENDS[kind]

    def core(x: Any, *rest: Any) -> Any:
        endless = lnp.isinf(x)
        value = fun(lnp.where(endless, rest[-2] + 0.5 * rest[-1] if placed else 0.5, x), *rest)
        return lnp.where(endless & ~lnp.isnan(value), lnp.where(x > 0, right, left), value)
    return core


class Distribution:
    """The functions of one distribution.

    Args:
      name: its name in `scipy.stats`.
      what: its name in a sentence.
      source: further source, after SciPy.
      shapes: parameter -> description.
    """

    def __init__(self, name: str, what: str, source: str = "", **shapes: str):
        self.name, self.what, self.source, self.shapes = name, what, source, shapes

    def __call__(self, fun: Callable[..., Any]) -> Any:
        """Return the public function made from `_kind`, whose docstring is the example."""
        kind = fun.__name__.lstrip("_")
        call, parameters = f"{self.name}.{kind}", inspect.signature(fun)
        fun.__annotations__.update(dict.fromkeys(parameters.parameters, "ArrayLike"), **{"return": "Array"})
        core = _guard_ends(fun, kind,
                           "loc" in parameters.parameters) if kind in _ENDS and "x" in parameters.parameters else fun

        @functools.wraps(fun)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = parameters.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{call}: {error}; it takes {', '.join(parameters.parameters)}") from None
            bound.apply_defaults()
            return (call_with_counts if "k" in parameters.parameters else call_real)(call, core,
                                                                                     *bound.arguments.values())
        run.__name__ = run.__qualname__ = kind
        run.__doc__ = self._make_docstring(kind, parameters, inspect.cleandoc(fun.__doc__ or ""))
        return public_api()(run)

    def _make_docstring(self, kind: str, parameters: inspect.Signature, example: str) -> str:
        title, result = _KINDS[kind]
        lines = [f"{title.format(what=self.what)}.", "", "Args:"]
        lines += [_format_entry(f"{name}: {self.shapes.get(name) or _COMMON[name]}.") for name in parameters.parameters]
        lines += ["Returns:", _format_entry(f"Float array of the shape that all arguments broadcast to, {result}."),
                  "Raises:",
                  "  TypeError: an argument is neither an array nor a number, or one is missing.",
                  "  DTypeError: an argument is complex.", "  ShapeError: the shapes do not broadcast.", "",
                  f"Source: meaning of `scipy.stats.{self.name}.{kind}`{self.source and '; ' + self.source}.", "", example]
        return "\n".join(lines)


def _format_entry(text: str) -> str:
    return textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    " if ": " in text[:12] else "  ")


def standardize(x: Any, loc: Any, scale: Any) -> Any:
    """Return places relative to the location, in units of the width."""
    return (x - loc) / scale


def mask_invalid(value: Any, *conditions: Any) -> Any:
    """`value` where the parameters have a meaning, else NaN."""
    return lnp.where(functools.reduce(lnp.logical_and, conditions), value, np.nan)


def exp_or_nan(log: Any) -> Any:
    """Compute exp without the NaNs of `mask_invalid`: jaxlib 0.10.2 compiles `exp` of a choice between numbers and NaN by one
    boolean to a program that returns uninitialized memory."""
    none = lnp.isnan(log)
    return lnp.where(none, np.nan, lnp.exp(lnp.where(none, 0.0, log)))


def zero_at_end(end: Any, logpdf: Callable[..., Any], x: Any, inner: Any, *rest: Any) -> Any:
    """A density that is 0 at an end, from its logarithm: there it is no exponential, whose derivative would be 0
    times infinity."""
    value = exp_or_nan(logpdf(lnp.where(end, inner, x), *rest))
    return lnp.where(end & ~lnp.isnan(value), 0.0, value)


def mask_outside(inside: Any, value: Any, otherwise: Any, x: Any) -> Any:
    """`value` inside of the support; NaN where x is."""
    return lnp.where(inside, value, lnp.where(lnp.isnan(x), np.nan, otherwise))


def clip_at_end(y: Any) -> Any:
    """Places from the lower end of the support, 0: there is no derivative below, all of it at the end."""
    return lnp.where(y < 0, 0.0, y)


def hyperbola(y: Any) -> Any:
    """2 y / (1 + y^2), without overflow."""
    wide = lnp.abs(y) > 1.0
    z, flat = guard(wide, y, 1.0), lnp.where(wide, 0.0, y)
    return lnp.where(wide, 2.0 / (z + 1.0 / z), 2.0 * flat / (1.0 + flat * flat))


@derivatives(lambda out, y: hyperbola(y))
def log1p_square(y: Any) -> Any:
    """log(1 + y^2) by one logarithm, to which the digits that the sum has rounded away are added; far out that of y times a
    power of 2, whose square does not overflow."""
    far = lnp.abs(y) > pick(y, 1e15, 1e100)  # late, so that the two logarithms of the sum do not cancel
    exponent = pick(y, 64, 512)
    square = lnp.square(lnp.where(far, y * 2.0 ** -exponent, y))
    total = lnp.where(far, square, 1.0 + square)
    return lnp.log(total) + lnp.where(far, 2 * exponent * math.log(2), (square - (total - 1.0)) / total)


@derivatives(lambda out, log: -lnp.exp(log))
def exp_complement(log: Any) -> Any:
    """Compute 1 - exp(log), whose derivative keeps its digits where next to nothing is taken away."""
    return 0.0 - lnp.expm1(log)


def log1mexp(log_share: Any) -> Any:
    """log(1 - exp(log_share)) without loss of digits on either side."""
    near = log_share > -0.6931471805599453
    low = lnp.where(near, lnp.where(log_share < 0, log_share, -1.0), -1.0)
    high = lnp.where(near, -1.0, log_share)
    value = lnp.where(near, lnp.log(-lnp.expm1(low)), compute_log1p(-lnp.exp(high)))
    return lnp.where(log_share >= 0, -np.inf, value)


def log_difference(more: Any, less: Any) -> Any:
    """log(exp(more) - exp(less)), 0 of nothing minus nothing."""
    some = more > -np.inf
    return lnp.where(some, more + log1mexp(lnp.where(some, less - lnp.where(some, more, 0.0), -1.0)), -np.inf)
