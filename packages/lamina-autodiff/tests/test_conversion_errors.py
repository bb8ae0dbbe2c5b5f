"""Errors about values of a differentiated function name the argument, the user's line and what to write instead."""
from __future__ import annotations

import math
import re

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linearize, value_and_grad, vjp
from lamina_ir import ConcretizationError, LeakedTracerError
from lamina_tracing import jit, lax


def wave(a, p):
    return a * math.sin(p["w"])


def text_of(call, *args, error=ConcretizationError):
    with pytest.raises(error) as found:
        call(*args)
    assert "JVPTrace" not in str(found.value)
    return str(found.value)


@pytest.mark.parametrize("call, name", [
    (lambda: grad(wave, argnums=1)(1.0, {"w": 2.0}), "grad"), (lambda: grad(wave, argnums=(1, 0))(1.0, {"w": 2.0}), "grad"),
    (lambda: value_and_grad(wave, 1)(1.0, {"w": 2.0}), "value_and_grad"), (lambda: vjp(wave, 1.0, {"w": 2.0}), "vjp"),
    (lambda: jvp(wave, (1.0, {"w": 2.0}), (1.0, {"w": 1.0})), "jvp"), (lambda: linearize(wave, 1.0, {"w": 2.0}), "linearize")])
def test_conversion_of_differentiated_value_names_line_argument_and_function(call, name):
    text, line = text_of(call), wave.__code__.co_firstlineno
    assert text.startswith(f"`math.sin` at {__file__}:{line + 1} (wave): a Python float of a float32[] that is being "
                           "differentiated would lose its derivative.")
    assert f"It depends on argument p['w'] of `wave` at {__file__}:{line}, differentiated by {name}." in text
    assert re.search(r"Use \S+\.sin, or lax.stop_gradient\(x\) first", text)


def test_leaked_differentiated_value_names_function_and_holder():
    kept = []
    grad(lambda x, y: kept.append(lax.sin(y)) or y, argnums=1)(1.0, 2.0)
    text = text_of(lax.cos, kept[0], error=LeakedTracerError)
    assert re.search(r"has ended, that of `<lambda>` at .*, differentiated by grad. It is the result of `sin` at "
                     rf"{re.escape(__file__)}:\d+ \(<lambda>\), and depends on argument y of", text)
    assert f"It was stored in the variable `kept` of an enclosing function at {__file__}:" in text


LEAKED = []


def keep_variable(x):
    y = lax.sin(x)
    z = -y
    LEAKED.append(z)
    return y


def keep_result_of_helper(x):
    LEAKED.append(wave_of(x))
    return x


def keep_one_of_two(x):
    y = lax.sin(x)
    if len(LEAKED) < 9:
        y = lax.exp(y)
    LEAKED.append(y)
    return x


def wave_of(x):
    return lax.cos(x)


@pytest.mark.parametrize("keep, made", [(keep_variable, "`neg` at {file}:{2} (keep_variable)"),
                                        (keep_result_of_helper, "`cos`"), (keep_one_of_two, "`exp`")])
@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: jvp(f, (x,), (1.0,)), lambda f: lambda x: vjp(f, x)])
def test_leaked_differentiated_value_names_primitive_and_line_if_certain(keep, made, transform):
    first = keep.__code__.co_firstlineno
    made = made.replace("{file}", __file__).replace("{2}", str(first + 2))
    try:
        transform(keep)(2.0)
        text = text_of(lax.cos, LEAKED[0], error=LeakedTracerError)
    finally:
        LEAKED.clear()
    assert f"It is the result of {made}, and depends on argument x of `{keep.__name__}`." in text


# A known number leaves the derivative, as in JAX 0.10 and 0.12: it is a constant for the derivative.
READ = {"item": lambda x: x.item(), "int": int, "bool": bool, "compare": lambda x: 1.0 if x > 2 else 0.0,
        "range": lambda x: len(range(int(x)))}
REFUSED = {"float": float, "complex": complex, "tolist": lambda x: x.tolist(),
           "asarray": lambda x: np.asarray(x), "float32": np.float32, "math": math.sin,
           "ceil": math.ceil, "percent": lambda x: "%f" % x, "index": lambda x: [1, 2, 3, 4][x]}
WRAPPERS = {"grad": lambda f: grad(f)(3.0), "grad of grad": lambda f: grad(grad(f))(3.0),
            "jvp": lambda f: jvp(f, (3.0,), (1.0,))[1], "vjp": lambda f: vjp(f, 3.0)[1](1.0)[0],
            "linearize": lambda f: linearize(f, 3.0)[1](1.0)}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", READ)
def test_known_number_is_a_constant_for_the_derivative(name, wrapper):
    found = WRAPPERS[wrapper](lambda x: READ[name](x) * x)
    expected = READ[name](np.float32(3)) if wrapper != "grad of grad" else 0
    assert float(found) == expected


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", REFUSED)
def test_conversion_that_would_lose_a_derivative_is_refused(name, wrapper):
    with pytest.raises(ConcretizationError):
        WRAPPERS[wrapper](lambda x: REFUSED[name](x) * x)


@pytest.mark.parametrize("name", [*READ, *REFUSED])
def test_number_of_a_staged_value_is_unknown(name):
    with pytest.raises(ConcretizationError):
        jit(lambda x: {**READ, **REFUSED}[name](x) * x)(3.0)
