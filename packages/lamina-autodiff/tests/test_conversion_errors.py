"""Errors about values of a differentiated function name the argument, the user's line and what to write instead."""
from __future__ import annotations

import math
import re

import pytest
from lamina_autodiff import grad, jvp, linearize, value_and_grad, vjp
from lamina_ir import ConcretizationError, LeakedTracerError
from lamina_tracing import lax


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
